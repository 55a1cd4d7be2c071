/*
 * stats.h - counts what happened since the last stats line, and writes that line.
 *
 * Loop thread only. The line is logfmt; its keys are the columns of one table in stats.c.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_STATS_H
#define GPUIMGD_DAEMON_TELEMETRY_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/engine/engine.h"

struct stats;
struct metrics_totals;

/* How one job ended. Times in milliseconds; negative: it did not get there. */
struct stats_job {
    uint64_t number;
    uint32_t attempt;
    const char *input; /* how it is called (label.h), or NULL; borrowed */
    const struct error *error; /* borrowed; NULL or STATUS_OK: none */
    bool done;
    bool retried; /* not an end: the job will come again */
    bool dead;
    uint32_t images;
    uint64_t pixels, bytes_in, bytes_out;
    double queue_ms, read_ms, admit_ms, decode_ms, h2d_ms, kernel_ms, d2h_ms, encode_ms, total_ms;
};

/* What is so at this moment; filled in by the daemon when a line is due. */
struct stats_now {
    uint32_t inflight, waiting;
    uint64_t queue_length;
    double oldest_s;
    size_t pinned_bytes, device_bytes;
    const char *engine;
};

struct stats *stats_create(void);
void stats_destroy(struct stats *stats);
/* What is counted from here on is counted there too; borrowed. NULL: nowhere else. */
void stats_count_into(struct stats *stats, struct metrics_totals *totals);
/* An attempt begins; one ends as if it had never begun, or is another daemon's now. */
void stats_add_attempt(struct stats *stats);
void stats_add_returned(struct stats *stats);
void stats_add(struct stats *stats, const struct stats_job *job);

/* Takes in what the engine did since the last time; due before each line. Of the device of this
 * index (of the CPU engine: 0), it gives what came together since the start. */
void stats_take_activity(struct stats *stats, struct engine *engine);
const struct engine_activity *stats_activity(const struct stats *stats, uint32_t device);

/* Writes the line for the time since the last one into text and begins a new interval. false: it
 * says what the last one said, that nothing happened. */
bool stats_line(struct stats *stats, const struct stats_now *now, char *text, size_t size);
/* Images a second over the last finished interval, for STATUS=. */
double stats_images_per_s(const struct stats *stats);
uint64_t stats_jobs_total(const struct stats *stats);

/* Resident memory of the process. Any thread. */
double stats_rss_bytes(void);
enum { STATS_READ, STATS_DECODE, STATS_GPU, STATS_ENCODE, STATS_STAGES };
/* Since the start. */
struct stats_totals {
    uint64_t jobs, done, failed, dead, retried, images, pixels, bytes_in, bytes_out;
    double stage_ms[STATS_STAGES]; /* sums, of so many jobs: */
    uint64_t stage_count[STATS_STAGES];
};
void stats_totals(const struct stats *stats, struct stats_totals *totals);

/* The file that lines are appended to as well; reopened on SIGHUP, which makes the next line news.
 * "" or NULL: none. */
void stats_open_log(struct stats *stats, const char *path);
void stats_write_log(struct stats *stats, const char *line);

#endif
