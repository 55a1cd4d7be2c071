/*
 * pipeline.h - takes leased jobs through the stages, and every one of them to its end.
 *
 * Loop thread only. The pipeline knows queue, codecs and gpu, which do not know each other. Jobs
 * in flight are bounded by `inflight`, and `ahead_max` more while they are short; the free places
 * are what the queue may fetch.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_PIPELINE_H
#define GPUIMGD_DAEMON_PIPELINE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "conf/options.h"
#include "daemon/files/files.h"
#include "daemon/pipeline/workers.h"
#include "daemon/telemetry/metrics.h"
#include "daemon/telemetry/stage.h"
#include "daemon/telemetry/trace.h"
#include "gpu/engine/engine.h"
#include "queue/lease/queue.h"

struct pipeline;

struct pipeline_parts {
    uv_loop_t *loop;
    const struct options *options; /* live: read at each fetch */
    struct engine *engine;
    struct workers *workers;
    struct files *files;
    struct metrics_totals *totals;
    struct trace *trace; /* NULL: none */
    const char *daemon; /* "host:pid" */
    uint32_t ahead_max; /* places beyond options->inflight, for short jobs */
    /* The process must end and be replaced: a GPU fault, or too many hung workers. */
    void (*failed)(void *context, const char *why);
    /* Outputs cannot be written from now on, or can be again (pipeline_disk_error). */
    void (*disk_changed)(void *context);
    void *context;
};

/* NULL when memory is short. */
struct pipeline *pipeline_create(const struct pipeline_parts *parts);
/* The events that the queue shall deliver, and the queue that they come from; NULL when it is
 * gone. */
struct queue_events pipeline_events(struct pipeline *pipeline);
void pipeline_attach(struct pipeline *pipeline, struct queue *queue);

/* Stops and resumes fetching (SIGUSR2, drain). */
void pipeline_pause(struct pipeline *pipeline, bool paused);
/* Ends every job that has not ended yet by giving it back, attempt included. */
void pipeline_give_back(struct pipeline *pipeline);
/* The engine or the workers are beyond repair: what is not yet under way goes back with its
 * attempt, nothing new is begun. */
void pipeline_fail(struct pipeline *pipeline);

/* Why outputs cannot be written, for which reason nothing is fetched; NULL: they can. */
const char *pipeline_disk_error(const struct pipeline *pipeline);
/* There is something odd about output_root: a worker tries to write there. */
void pipeline_suspect_disk(struct pipeline *pipeline);
/* Whether a worker is at that, which may hang. */
bool pipeline_tries_disk(const struct pipeline *pipeline);

/* Jobs in flight (those waiting for Redis's acknowledgement included), those still before it, and
 * those that were answered while a worker or the engine still held them. */
uint32_t pipeline_inflight(const struct pipeline *pipeline);
uint32_t pipeline_unfinished(const struct pipeline *pipeline);
uint32_t pipeline_zombies(const struct pipeline *pipeline);
uint32_t pipeline_waiting(const struct pipeline *pipeline); /* for memory */
uint32_t pipeline_in_stage(const struct pipeline *pipeline, enum stage stage);
/* Memory of host_bytes: the input files, and what the codecs' own needs reserve. */
struct pool_usage pipeline_file_usage(const struct pipeline *pipeline);
struct pool_usage pipeline_codec_usage(const struct pipeline *pipeline);
double pipeline_oldest_s(const struct pipeline *pipeline);  /* 0 when there is none */
/* Whether every job is within its time, and jobs that wait before their decode are not all that
 * there is while none comes past admission: what the watchdog wants to know. */
bool pipeline_healthy(const struct pipeline *pipeline);
/* Calls drained (once) as soon as nothing is unfinished. */
void pipeline_when_idle(struct pipeline *pipeline, void (*drained)(void *context), void *context);

/* Closes its handles; the loop must run once more; then destroy. */
void pipeline_stop(struct pipeline *pipeline);
void pipeline_destroy(struct pipeline *pipeline);

#endif
