/*
 * job_overlays.h - the overlays of a job's operations, which it holds from the read to the decode.
 *
 * Overlays from keys are read before the input, one at a time: the loop reads a key, and a worker
 * decodes it and returns the job to the loop. If the borders of the input are trimmed, they are
 * read after it was measured. Overlays from files are read by the worker that plans the job. If
 * there is no room for an overlay, the job releases all of them, and its input, and waits in the
 * line of line.c. The job keeps its references until the constants of its plan have been put into
 * the input buffer.
 *
 * For the owner of the job.
 */
#pragma once

#include "daemon/overlays/overlay_maker.h"
#include "queue/job/job.h"

struct job_run;
struct worker_tools;

struct job_run_overlays {
    uint32_t count, key_count;     /* operations with an overlay, and those of them with a key */
    struct plan_overlays finder;   /* for the targets of the plan */
    struct overlays *cache;        /* of the references */
    struct overlay_maker *maker;   /* while the job may get further ones; else NULL */
    struct pool_block block;       /* the references */
    uint32_t length;               /* their number */
    size_t held;                   /* bytes of the block and of the overlays */

    size_t output;                 /* The operation whose key was read last. */
    int position;                  /* -1: none */
    const char *key;               /* from the request to the decode; the operation's */
    uint8_t *loaded;               /* its bytes, malloc'd; NULL: not read */
    size_t loaded_bytes;
    bool counted; /* the queue still counts them in its budget */
};

/* On the loop, before the checks. */
void job_overlays_begin(struct job_run *run);
/* On the loop, before the read: checks the places of an output's overlays and counts them. */
enum status job_overlays_check(struct job_run *run, size_t index, const char *ns,
                               struct error *error) MUST_CHECK;

/* On the loop: whether a key must be read before the input; it is then run->overlays.key. */
bool job_overlays_next_key(struct job_run *run);
/* On the loop: takes the bytes of the key. With an error, its output fails, and the job if all
 * outputs failed. */
void job_overlays_put_key(struct job_run *run, uint8_t *bytes, size_t length,
                          const struct error *error);

/* On any thread: the job gets overlays from this maker until run->overlays.maker is reset. */
void job_overlays_use(struct job_run *run, struct overlay_maker *maker);
/* On a worker: decodes the bytes that the loop has read. */
void job_overlays_take_key(struct job_run *run);

/* Releases the references. Idempotent. */
void job_overlays_release(struct job_run *run);
