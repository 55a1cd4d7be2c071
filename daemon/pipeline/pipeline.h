/*
 * pipeline.h - runs each fetched job through all stages: read, decode, compute, encode, answer.
 *
 * Loop thread only. The pipeline connects the queue, the codecs and the engine, which do not know
 * each other. At most `inflight` jobs are in flight, plus up to `ahead_max` while jobs are short or
 * on devices. The queue may fetch as many jobs as there are free slots. With several shards there
 * are `inflight` more slots: ended jobs that wait for a shard that is away, and the calls of a slow
 * one, take no places from the other shards.
 */
#pragma once

#include <uv.h>

#include "conf/options.h"
#include "daemon/files/files.h"
#include "daemon/telemetry/snapshot.h"
#include "daemon/telemetry/trace.h"
#include "daemon/web/fetcher.h"
#include "daemon/workers/workers.h"
#include "gpu/engine/engine.h"
#include "queue/lease/group.h"

struct pipeline;

struct pipeline_parts {
    uv_loop_t *loop;
    const struct options *options; /* live: read at each fetch */
    struct engine *engine;
    struct workers *workers;
    struct files *files;
    struct fetcher *fetcher;
    struct metrics_totals *totals;
    struct tags *tags;
    struct trace *trace; /* NULL: none */
    const char *daemon; /* "host:pid" */
    uint32_t ahead_max; /* slots beyond options->inflight, for short jobs and those on devices */
    /* The process must exit and be restarted: a GPU fault, or too many hung workers. */
    void (*failed)(void *context, const char *why);
    /* Outputs cannot be written from now on, or can again. */
    void (*disk_changed)(void *context);
    void *context;
};

/* parts is copied; its members stay the caller's. NULL: out of memory. */
struct pipeline *pipeline_create(const struct pipeline_parts *parts);
struct queue_events pipeline_events(struct pipeline *pipeline);
/* Sets the source of jobs; NULL before it is destroyed. */
void pipeline_attach(struct pipeline *pipeline, struct group *group);

void pipeline_pause(struct pipeline *pipeline, bool paused);
/* Returns every unfinished job to the queue, and logs how many; the attempts do not count. */
void pipeline_give_back(struct pipeline *pipeline);
/* After a fatal fault of the engine or the workers: starts nothing new, and returns jobs that do
 * not run yet to the queue; their attempts do not count. */
void pipeline_fail(struct pipeline *pipeline);

/* Tries on a worker whether output_root can be written, unless a try is running or it cannot. */
void pipeline_suspect_disk(struct pipeline *pipeline);
uint32_t pipeline_inflight(const struct pipeline *pipeline);   /* with zombies; any thread */
uint32_t pipeline_unfinished(const struct pipeline *pipeline); /* before ACK, without zombies */
/* Writes how many jobs are in flight: "9 jobs", or "1 jobs with 256 images". */
#define PIPELINE_JOBS_BYTES 64
const char *pipeline_jobs(const struct pipeline *pipeline, char text[PIPELINE_JOBS_BYTES]);
/* Fills in the snapshot's members about jobs, the disk and the memory of host_bytes. */
void pipeline_look(struct pipeline *pipeline, struct snapshot *snapshot);
/* Whether a worker or the engine still uses the pipeline's memory, for a zombie or for a try of the
 * disk that may hang. */
bool pipeline_is_used(const struct pipeline *pipeline);
/* For the watchdog. false: a job is past its deadline and its grace, or no job runs and the
 * waiting jobs make no progress. */
bool pipeline_healthy(const struct pipeline *pipeline);
/* Calls drained once, as soon as no job is unfinished; immediately if none is now. */
void pipeline_when_idle(struct pipeline *pipeline, void (*drained)(void *context), void *context);

/* Closes the handles. Run the loop once more, then call pipeline_destroy. */
void pipeline_stop(struct pipeline *pipeline);
void pipeline_destroy(struct pipeline *pipeline);
