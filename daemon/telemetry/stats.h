/*
 * stats.h - the stats line: what happened between two snapshots, in logfmt.
 *
 * Loop thread only. The keys of the line are the columns of one format in stats.c.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_STATS_H
#define GPUIMGD_DAEMON_TELEMETRY_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/telemetry/snapshot.h"

struct stats {
    struct snapshot before; /* of the last line; at first, of the start */
    bool idle;              /* the last line said that nothing happened */
    double images_per_s;    /* in the last line */
    int log;                /* the file of the option stats_log; -1: none */
};

/* The first line counts from here on. */
void stats_begin(struct stats *stats, const struct snapshot *now);
void stats_end(struct stats *stats);

/* Writes the line for the time since the last one into text. false: it says what the last one said,
 * that nothing happened. */
bool stats_line(struct stats *stats, const struct snapshot *now, char *text, size_t size);

/* The file that lines are appended to as well; reopened on SIGHUP. The next line counts as news. ""
 * or NULL: none. */
void stats_open_log(struct stats *stats, const char *path);
void stats_write_log(struct stats *stats, const char *line);

#endif
