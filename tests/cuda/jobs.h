/*
 * jobs.h - jobs on a CUDA engine that runs on the stand-in, and what becomes of them.
 */
#pragma once

#include "tests/fixtures/gpu/engine_job.h"

#include <unistd.h>

#include "tests/cuda/cuda_runtime.h"
#include "tests/cuda/fault.h"

#define JOBS_MAX 48
#define JOBS_OPS "['grayscale','sobel']"

struct jobs {
    struct engine *engine;
    struct job job[JOBS_MAX];
    const char *ops[JOBS_MAX];
    unsigned count, answered;
    unsigned done[JOBS_MAX];    /* how often each was answered */
    unsigned ended[JOBS_MAX];   /* which ones, in their order */
};

struct jobs_how {
    unsigned count, streams;
    int devices;                /* 0: one */
    double hang_grace_s;        /* 0: the usual one */
    bool alone;                 /* each takes a stream by itself */
};

/* Those that jobs_on_done counts for. */
extern struct jobs *jobs_running;

void jobs_on_done(struct engine_task *task);
void jobs_set_fault(const char *at, int error, unsigned nth, unsigned times);
void jobs_set_no_fault(int devices);
struct engine *jobs_engine(const struct jobs_how *how);

/* Kernels wait from jobs_hold to jobs_let_go. Calls at `at` fail with this error, one time; 0: they
 * are only counted. */
void jobs_hold(const char *at, int error, int devices);
void jobs_let_go(void);

/* A picture of its own for each job, all of them small. */
void jobs_prepare(struct jobs *jobs, unsigned number, uint32_t width, uint32_t height,
                  const char *ops);

/* Opens the engine while nothing is wrong, and reserves for all jobs. */
void jobs_open(struct jobs *jobs, const struct jobs_how *how);
void jobs_submit(struct jobs *jobs, unsigned first, unsigned count);

/* Until so many in all have been answered, ten seconds at most. */
void jobs_wait(struct jobs *jobs, unsigned wanted);
/* Submits all at once, and waits for them. */
void jobs_run(struct jobs *jobs);
unsigned jobs_with(const struct jobs *jobs, enum status status);
unsigned jobs_charged(const struct jobs *jobs);

/* After a fault nothing is begun: a new job is answered at once, and none gets memory. */
void jobs_check_latched(struct jobs *jobs);

/* All pictures and values that came out are those of the CPU engine, and all memory is given back.
 */
void jobs_close(struct jobs *jobs);
