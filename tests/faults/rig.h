/*
 * rig.h - a fault case: what is injected, what is expected, and what was seen.
 *
 * Adding a case is one function and one row of its group's table; adding a group is one file, one
 * line below and one in faults_main.c. Each case runs in a process of its own with a world of its
 * own (a private Redis, a folder; `in` holds p.jpg), and writes down what it sees with rig_saw; in
 * the end the daemons are stopped and what they left behind is looked for. The row is as expected
 * when the text that was seen equals the text that is expected.
 */
#ifndef GPUIMGD_TESTS_FAULTS_RIG_H
#define GPUIMGD_TESTS_FAULTS_RIG_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/faults/shim.h"
#include "tests/fixtures/line.h"
#include "tests/fixtures/world.h"

#define RIG_REDIS_ARGS_MAX 8
#define RIG_JOBS_MAX 1024

struct rig;

struct fault_case {
    const char *name, *injected, *expected;
    void (*run)(struct rig *rig);
    void (*run_with)(struct rig *rig, const char *with); /* instead of run: cases that differ in */
    const char *with;                                    /* a text */
    bool quick;             /* also part of `make check` */
    const char *redis_args[RIG_REDIS_ARGS_MAX]; /* further ones of its redis-server */
    double limit_s;         /* for the whole case; 0: 120 */
};

struct fault_group {
    const char *name;
    const struct fault_case *cases; /* ended by one without a name */
};
extern const struct fault_group death_faults, redis_faults, condition_faults, disk_faults,
    memory_faults, ceiling_faults, room_faults, outage_faults, gpu_faults, library_faults;

struct rig {
    struct world world;
    const char *build;      /* the build folder */
    char seen[1024];
    struct line *line;      /* NULL until rig_line */
    bool unprivileged;      /* daemons start without the right to pass over file modes */
    bool has_slow;          /* slow.png is there */
    const char *shim, *shim_text; /* preloaded into daemons that start; NULL: nothing */
    struct shim_page *shim_page;
    struct rig_job {
        char id[48];
        unsigned results;
        int attempt;        /* of its last result */
        char status[12], code[32], message[160], daemon[96];
    } jobs[RIG_JOBS_MAX];
    size_t job_count;
    size_t strangers;       /* results of jobs that nobody pushed */
};

/* ---- what was seen --------------------------------------------------------------------------- */

/* Adds to the text, behind "; ". */
void rig_saw(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The case cannot be run here. */
void rig_skip(struct rig *rig, const char *reason);
/* "20 done once" for the jobs whose id begins with prefix; what is otherwise behind it. */
void rig_saw_done(struct rig *rig, const char *prefix);
/* "x: dead attempts_exhausted, attempt 3", of each job whose id begins with prefix. */
void rig_saw_jobs(struct rig *rig, const char *prefix);
/* The error's message of the job of this id. */
void rig_saw_message(struct rig *rig, const char *id);
/* How many of the jobs whose id begins with prefix have a result of this attempt. */
size_t rig_at_attempt(const struct rig *rig, const char *prefix, int attempt);
/* "all at attempt 1" for the jobs whose id begins with prefix. */
void rig_saw_attempts(struct rig *rig, const char *prefix, int attempt);
/* "within 5 s" of start (process_now), or after how long. */
void rig_saw_in_time(struct rig *rig, double start, double seconds);
/* Adds `good` where the condition holds, and `bad` where not. */
void rig_saw_if(struct rig *rig, bool condition, const char *good, const char *bad);

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Pushes jobs PREFIX0 .. on p.jpg, each with an output of its own, PREFIX0.png. */
void rig_push(struct rig *rig, const char *prefix, size_t count);
/* One that keeps a worker's encoder busy for some half a second. */
void rig_push_slow(struct rig *rig, const char *prefix, size_t count);
/* Any other job: its id must stand in the text. Single quotes become double ones. */
void rig_push_text(struct rig *rig, const char *id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A job of this id, which comes to the queue in another way. */
void rig_expect(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits until each job has a result; takes all results that there are. false: not in time. */
bool rig_wait(struct rig *rig, double seconds);
/* The same until `count` jobs have one. */
bool rig_wait_for(struct rig *rig, size_t count, double seconds);
/* The jobs that have a result by now, and those of them whose id begins with prefix. */
size_t rig_answered(const struct rig *rig, const char *prefix);

/* ---- daemons --------------------------------------------------------------------------------- */

/* Starts daemon `index` and waits until it is ready. fault: $GPUIMGD_FAULT of the tests' own
 * daemon (hook.c); NULL: the daemon that users get. Options as world_start's, ended by NULL. */
struct process *rig_start(struct rig *rig, size_t index, const char *fault, ...)
    __attribute__((sentinel));
/* The same with the daemon whose CUDA is the tests' own, on its engine. fault: $GPUIMGD_CUDA_FAULT
 * (tests/cuda/fault.h); NULL: none. */
struct process *rig_start_cuda(struct rig *rig, size_t index, const char *fault, ...)
    __attribute__((sentinel));
/* A file in the world's folder, for faults that begin or end when it comes or goes; static. */
const char *rig_flag(struct rig *rig, const char *name);
void rig_raise(struct rig *rig, const char *name);
void rig_lower(struct rig *rig, const char *name);
/* Raises the flag and gives $GPUIMGD_FAULT for a daemon that hangs while it is up; static. at:
 * "run=STAGE,match=TEXT". rig_met waits until a thread hangs there. */
const char *rig_hang_while(struct rig *rig, const char *name, const char *at);
bool rig_met(struct rig *rig, const char *name, double seconds);
/* "--name=seconds", stretched by patience. Good until eight more were made. */
const char *rig_option_s(const char *name, double seconds);
/* "--redis=" with a line to the server (rig->line), which is opened by the first call. */
const char *rig_line(struct rig *rig);
/* "--metrics_listen=" with a socket in the world's folder, and the place for http_request. */
const char *rig_listen(struct rig *rig);
const char *rig_place(struct rig *rig);
/* Waits until the path answers with this status and with the word in its body: "/readyz 503". */
void rig_saw_answer(struct rig *rig, const char *path, int status, const char *word);
/* Until the process ends, and how, in words: "killed by 9", "exit 0", "still runs". */
const char *rig_end_of(struct process *daemon, double seconds);
/* Preloads the library shim_NAME.so into the daemons that are started from now on, with `text` as
 * its $GPUIMGD_SHIM; NULL: into none any more. The page counts what it did. */
struct shim_page *rig_shim(struct rig *rig, const char *name, const char *text);
/* Waits until the process is stopped (SIGSTOP). */
bool rig_stopped(struct process *daemon, double seconds);
/* The path of Redis's append-only file; Redis 7 has it in pieces, of which this is the one that
 * grows. */
void rig_aof(const struct rig *rig, char *path, size_t size);
/* Whether this daemon made the job's result. */
bool rig_by(struct rig *rig, const char *id, const struct process *daemon);

#endif
