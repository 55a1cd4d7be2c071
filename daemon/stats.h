/*
 * stats.h - counts what happened since the last stats line, and writes that line.
 *
 * Loop thread only. The line is logfmt; its keys are the columns of one table in stats.c.
 */
#ifndef GPUIMGD_DAEMON_STATS_H
#define GPUIMGD_DAEMON_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/engine.h"

struct stats;

/* How one job ended. Times in milliseconds; negative: it did not get there. */
struct stats_job {
    bool done;
    bool retried; /* not an end: the job will come again */
    bool dead;
    uint32_t images;
    uint64_t pixels, bytes_in, bytes_out;
    double read_ms, decode_ms, gpu_ms, encode_ms, total_ms;
};

/* What is so at this moment; filled in by the daemon when a line is due. */
struct stats_now {
    uint32_t inflight, waiting;
    uint64_t queue_length;
    double oldest_s;
    struct engine_activity activity;
    size_t pinned_bytes, device_bytes;
    const char *engine;
};

struct stats *stats_create(void);
void stats_destroy(struct stats *stats);
void stats_add(struct stats *stats, const struct stats_job *job);

/* Writes the line for the time since the last one into text and begins a new interval. */
void stats_line(struct stats *stats, const struct stats_now *now, char *text, size_t size);
/* Images a second over the last finished interval, for STATUS=. */
double stats_images_per_s(const struct stats *stats);
uint64_t stats_jobs_total(const struct stats *stats);

/* The file that lines are appended to as well; reopened on SIGHUP. "" or NULL: none. */
void stats_open_log(struct stats *stats, const char *path);
void stats_write_log(struct stats *stats, const char *line);

#endif
