/* jobs.h - runs jobs on a CUDA engine with the stand-in runtime, and records how they end. */
#pragma once

#include "tests/fixtures/gpu/engine_job.h"

#include <unistd.h>

#include "codecs/jpeg/frame.h"
#include "tests/cuda/cuda_runtime.h"
#include "tests/cuda/fault.h"
#include "tests/fixtures/picture.h"

#define JOBS_MAX 520
#define JOBS_OPS "['grayscale','sobel']"

struct jobs {
    struct engine *engine;
    struct job job[JOBS_MAX];
    const char *ops[JOBS_MAX];  /* NULL: jobs_close does not compare the job */
    unsigned count;
    unsigned answered;          /* this and the next two change on the devices' threads, under a
                                   lock; read them after jobs_wait */
    unsigned done[JOBS_MAX];    /* number of completions per job */
    unsigned ended[JOBS_MAX];   /* the jobs in the order of their completion */
};

struct jobs_how {
    unsigned count, streams;
    int devices;                /* 0: one */
    double hang_grace_s;        /* 0: the default */
    bool alone;                 /* each job has a stream to itself */
};

/* The jobs whose completions jobs_on_done counts. */
extern struct jobs *jobs_running;

void jobs_on_done(struct engine_task *task);
void jobs_set_fault(const char *at, int error, unsigned nth, unsigned times);
void jobs_set_no_fault(int devices);
struct engine *jobs_engine(const struct jobs_how *how);

/* Kernels wait from jobs_hold to jobs_let_go. One call at `at` fails with this error; 0: calls are
 * only counted. */
void jobs_hold(const char *at, int error, int devices);
void jobs_let_go(void);

/* Creates a small job with its own image. */
void jobs_prepare(struct jobs *jobs, unsigned number, uint32_t width, uint32_t height,
                  const char *ops);

/* A JPEG file and its headers. */
struct jobs_file {
    struct picture_file file;
    struct jpeg_frame frame;
};

/* Reads the headers of a file that the device can decode. Takes the file; jobs_file_clear frees
 * it. */
void jobs_file_read(struct jobs_file *file, struct picture_file bytes);
void jobs_file_clear(struct jobs_file *file);

/* Creates a job whose file the device decodes. quality: of the JPEG that the device encodes from
 * the result; 0: the result is an image. as: DECODE_LUMA if the operations begin with gray. */
void jobs_prepare_file(struct jobs *jobs, unsigned number, const struct jobs_file *file,
                       enum decode_as as, const char *ops, int quality);

/* Opens the engine without a fault, and reserves memory for all jobs. */
void jobs_open(struct jobs *jobs, const struct jobs_how *how);
/* Submits jobs so that each device's thread takes its jobs together. Returns after they have
 * started, as far as there are free streams. */
void jobs_submit(struct jobs *jobs, unsigned first, unsigned count);

/* A task whose `done` stops a device's thread until the test opens the gate. */
struct jobs_gate {
    struct engine_memory memory;
    struct engine_task task;
    struct task_wait entered, opened, left;
};
/* Returns when the thread of the device has stopped. */
void jobs_enter_gate(struct jobs_gate *gate, struct engine *engine, uint32_t device);
void jobs_pass_gate(struct jobs_gate *gate);
/* Returns after each device's thread has handled all events before the call. */
void jobs_settle(struct jobs *jobs);

unsigned jobs_answered(const struct jobs *jobs);
/* Waits until `wanted` jobs in all have ended, for at most patience(10) seconds. */
void jobs_wait(struct jobs *jobs, unsigned wanted);
/* Submits all jobs together, and waits for them. */
void jobs_run(struct jobs *jobs);
unsigned jobs_with(const struct jobs *jobs, enum status status);
unsigned jobs_charged(const struct jobs *jobs);

/* After a fault the engine starts nothing: a new job ends immediately, and no job gets memory. */
void jobs_check_latched(struct jobs *jobs);

/* All images and values must equal those of the CPU engine, and all memory must be free, except the
 * pinned memory of jobs that were on a device when it failed while another continues. */
void jobs_close(struct jobs *jobs);
