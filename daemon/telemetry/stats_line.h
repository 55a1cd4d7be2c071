/*
 * stats_line.h - the stats line: what the daemon did between two snapshots, as one line of
 * key=value pairs (logfmt). gpuimgd(8) explains the keys. Loop thread only.
 */
#pragma once

#include "daemon/telemetry/snapshot.h"

struct stats {
    struct snapshot before; /* snapshot of the previous line, or of stats_begin */
    bool idle;              /* nothing happened before the previous line */
    double images_per_s;    /* in the previous line */
    int log;                /* descriptor of the file stats_log; -1: none */
};

/* The first line covers the time from here on. */
void stats_begin(struct stats *stats, const struct snapshot *now);
void stats_end(struct stats *stats);

/* Writes the line for the time since the previous one into text. false: the daemon was idle, and
 * was idle in the previous line, too, so the caller may drop this line. */
bool stats_line(struct stats *stats, const struct snapshot *now, char *text, size_t size);

/* Closes the file stats_log and opens it again (SIGHUP: log rotation). "" or NULL: no file. An
 * error is logged. stats_line returns true for the next line, even if the daemon is idle. */
void stats_open_log(struct stats *stats, const char *path);
/* Appends the line with a timestamp; an error is only a debug message. */
void stats_write_log(struct stats *stats, const char *line);
