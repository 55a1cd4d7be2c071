/*
 * stats_line.h - the stats line: what the daemon did between two snapshots, as one line of
 * key=value pairs (logfmt). gpuimgd(8) explains the keys. Loop thread only.
 */
#pragma once

#include "daemon/telemetry/snapshot.h"

struct stats {
    struct snapshot before; /* the snapshot of the previous line, or of stats_begin */
    bool idle;              /* the daemon was idle in the time that the previous line covers */
    double images_per_s;    /* as in the previous line */
    int log;                /* descriptor of the file in the option stats_log; -1: none */
};

/* Call it first. The first line covers the time since this call. */
void stats_begin(struct stats *stats, const struct snapshot *now);
void stats_end(struct stats *stats);

/* Writes to `text` the line for the time since the previous line. false: the daemon was idle in
 * that time and in the time of the previous line, so the caller may drop this line. */
bool stats_line(struct stats *stats, const struct snapshot *now, char *text, size_t size);

/* Closes the file of stats_log and opens it again, after a log rotation. path "" or NULL: there is
 * no file. Logs an error. The next call of stats_line returns true, so that a new file gets a
 * line. */
void stats_open_log(struct stats *stats, const char *path);
/* Appends the line with a timestamp to the file, if there is one. Logs an error as a debug message
 * only, because it would come with each line. */
void stats_write_log(struct stats *stats, const char *line);
