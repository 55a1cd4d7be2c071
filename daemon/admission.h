/*
 * admission.h - the memory that jobs hold from before they are decoded to their end.
 *
 * Exact, and first come, first served: a job gets all that it needs at once, and while one waits
 * nobody else is let past. On the loop the jobs in STAGE_ADMIT try in their order; a worker that
 * carries a small job on by itself tries once, and only where nobody waits. What a job holds is
 * given back on the loop. All functions may be called on any thread, each by who has the work.
 */
#ifndef GPUIMGD_DAEMON_ADMISSION_H
#define GPUIMGD_DAEMON_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "gpu/engine.h"

struct work;

struct admission {
    struct engine *engine;
    pthread_mutex_t lock;                /* guards what follows */
    size_t codec_bytes, codec_bytes_max; /* lane of host_bytes for the libraries' own memory */
    size_t line;                         /* works that wait, or are on their way to wait */
};

void admission_open(struct admission *admission, struct engine *engine, size_t codec_bytes_max);
void admission_close(struct admission *admission);

/* Of the libraries' own memory. */
struct pool_usage admission_usage(const struct admission *admission);

/* Takes a place in the line, unless the work has one. */
void admission_wait(struct work *work);

/* For the first in the line. true: admitted, or failed for good (work->error); false: must wait. */
bool admission_try(struct work *work);
/* For a work that is not in the line, on the worker that shall carry it on: as admission_try where
 * nobody waits; else, and where there is no room, it is in the line. */
bool admission_pass(struct work *work);

/* The libraries' own memory that the work needs at most: the decoder's, then the encoder's. */
size_t admission_codec_need(const struct work *work);
/* What was decoded needs no decoder any more: keeps what the encoder will take. */
void admission_keep_encoder(struct work *work);
/* Gives all of it back, the place in the line too. Idempotent. */
void admission_release(struct work *work);

#endif
