/*
 * rig.h - a fault case: what is injected, what is expected, and what was seen.
 *
 * To add a case, write a function and a row of its group's table. To add a group, add a file, a
 * line below and a line in faults_main.c. Each case runs in its own process with its own world: a
 * private Redis and a folder whose `in` contains p.jpg. The case records its observations with
 * rig_saw. At the end the rig stops the daemons and records everything that they left behind. The
 * case passes if the recorded text equals the expected text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/faults/shim.h"
#include "tests/fixtures/line.h"
#include "tests/fixtures/world.h"

/* Sanitizers have memory of their own, so limits of memory are not tested with them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define RIG_REDIS_ARGS_MAX 8
#define RIG_JOBS_MAX 1024

struct rig;

struct fault_case {
    const char *name, *injected;
    void (*run)(struct rig *rig);
    const char *expected;
    const char *with[3];    /* for a function of several cases: what differs in this one */
    double number[2];       /* likewise */
    bool slow;              /* not part of `make check` */
    const char *redis_args[RIG_REDIS_ARGS_MAX]; /* extra arguments of its redis-server */
    double limit_s;         /* for the whole case; 0: 120 */
};

#define CASE(name_of_case, injected_fault, function, ...)                                          \
    {.name = name_of_case, .injected = injected_fault, .run = function, .expected = __VA_ARGS__}

/* The groups; each is ended by a case without a name. */
extern const struct fault_case death_faults[], redis_faults[], condition_faults[], disk_faults[],
    memory_faults[], ceiling_faults[], room_faults[], outage_faults[], gpu_faults[],
    library_faults[], codec_faults[], set_faults[];

#define RIG_SEEN_BYTES 1024

struct rig {
    struct world world;
    const struct fault_case *fault;
    const char *build;      /* the build folder */
    char *seen;             /* RIG_SEEN_BYTES, shared with the process that prints it */
    struct line *line;      /* NULL until rig_line */
    bool unprivileged;      /* daemons cannot bypass file modes, even as root */
    bool has_slow;          /* slow.png exists */
    const char *shim, *shim_text; /* preloaded into daemons that start; NULL: nothing */
    struct shim_page *shim_page;
    const char *mounted;    /* a folder, or NULL */
    struct rig_job {
        char id[48];
        unsigned results;
        int attempt;        /* of its last result */
        char status[12], code[32], message[160], daemon[96];
    } jobs[RIG_JOBS_MAX];
    size_t job_count;
    size_t strangers;       /* results of jobs that the case did not push */
};

/* ---- observations ---------------------------------------------------------------------------- */

/* Appends an observation, formatted like printf, separated by "; ". */
#define rig_saw(rig, ...) rig_append(rig, "; ", text_of(__VA_ARGS__))
void rig_append(struct rig *rig, const char *separator, const char *text);
/* The case cannot be run here. */
void rig_skip(struct rig *rig, const char *reason);
/* "20 done once" for the jobs whose id begins with prefix, then each deviation. */
void rig_saw_done(struct rig *rig, const char *prefix);
/* "x: dead attempts_exhausted, attempt 3", of each job whose id begins with prefix. */
void rig_saw_jobs(struct rig *rig, const char *prefix);
/* The error message of the job with this id. */
void rig_saw_message(struct rig *rig, const char *id);
/* Number of jobs whose id begins with prefix and whose result is from this attempt. */
size_t rig_at_attempt(const struct rig *rig, const char *prefix, int attempt);
/* Records "all at attempt 1" for the jobs whose id begins with prefix. */
void rig_saw_attempts(struct rig *rig, const char *prefix, int attempt);
/* rig_saw_done, and "all at attempt 1". */
void rig_saw_done_at(struct rig *rig, const char *prefix, int attempt);
/* "within 5 s" after start (a process_now), or the real duration if it was longer. */
void rig_saw_in_time(struct rig *rig, double start, double seconds);
/* Appends the text if the condition holds, else not "text". */
void rig_saw_if(struct rig *rig, bool condition, const char *text);

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Pushes jobs PREFIX0, PREFIX1, ... on p.jpg with outputs PREFIX0.png, PREFIX1.png, ... */
void rig_push(struct rig *rig, const char *prefix, size_t count);
/* Pushes a job whose encode takes about half a second. */
void rig_push_slow(struct rig *rig, const char *prefix, size_t count);
/* Creates a JPEG of 160 x 120 pixels in a file of this size. */
void rig_put_large_file(struct rig *rig, const char *name, size_t bytes);
/* Pushes a text, formatted like printf, as a job; it must contain the id. Single quotes become
 * double quotes. */
#define rig_push_text(rig, id, ...)                                                                \
    do {                                                                                           \
        rig_expects(rig, id);                                                                      \
        world_push(&(rig)->world, __VA_ARGS__);                                                    \
    } while (0)
/* Expects a job with this id that reaches the queue by other means. */
void rig_expects(struct rig *rig, const char *id);
/* Waits until each job has a result, and collects all results. false: not in time. */
bool rig_wait(struct rig *rig, double seconds);
/* Like rig_wait, until `count` jobs have a result. */
bool rig_wait_for(struct rig *rig, size_t count, double seconds);
/* rig_wait, then rig_saw_done, rig_saw_done_at or rig_saw_jobs. */
void rig_wait_done(struct rig *rig, double seconds, const char *prefix);
void rig_wait_done_at(struct rig *rig, double seconds, const char *prefix, int attempt);
void rig_wait_jobs(struct rig *rig, double seconds, const char *prefix);
/* Sleeps until the condition holds, for at most `seconds`. */
#define RIG_WAIT_UNTIL(seconds, condition)                                                         \
    for (double rig_end = process_now() + patience(seconds);                                       \
         !(condition) && process_now() < rig_end;)                                                 \
    process_sleep(0.005)
/* Number of jobs with a result so far; and of those whose id begins with prefix. */
size_t rig_answered(const struct rig *rig, const char *prefix);

/* ---- daemons --------------------------------------------------------------------------------- */

/* Starts daemon `index` and waits until it is ready. fault: $GPUIMGD_FAULT of the tests' own
 * daemon (hook.c); NULL: starts the installed daemon. Options as in world_start, ended by NULL. */
#define rig_start(rig, index, fault, ...)                                                          \
    rig_start_with(rig, index, false, fault, (const char *const[]){__VA_ARGS__, NULL})
/* Like rig_start, for gpuimgd-cuda with the CUDA engine on the stand-in runtime. fault:
 * $GPUIMGD_CUDA_FAULT (tests/cuda/fault.h); NULL: none. */
#define rig_start_cuda(rig, index, fault, ...)                                                     \
    rig_start_with(rig, index, true, fault,                                                        \
                   (const char *const[]){"--engine=cuda", "--jpeg=cuda", "--webp=cpu",             \
                                         "--avif=cpu", __VA_ARGS__, NULL})
struct process *rig_start_with(struct rig *rig, size_t index, bool cuda, const char *fault,
                               const char *const *options);
/* Path of a flag file in the world's folder: faults start or end when the file is created or
 * removed. */
const char *rig_flag(struct rig *rig, const char *name);
void rig_raise(struct rig *rig, const char *name);
void rig_lower(struct rig *rig, const char *name);
/* Creates the flag file and returns $GPUIMGD_FAULT for a daemon that hangs while it exists.
 * at: "run=STAGE,match=TEXT". rig_met waits until a thread hangs there. */
const char *rig_hang_while(struct rig *rig, const char *name, const char *at);
bool rig_met(struct rig *rig, const char *name, double seconds);
/* "--name=seconds", multiplied by patience(). */
const char *rig_option_s(const char *name, double seconds);
/* "--redis=" with the address of a proxy to the server (rig->line); the first call opens it. */
const char *rig_line(struct rig *rig);
/* "--metrics_listen=" with a socket in the world's folder; and its address for http_request. */
const char *rig_listen(struct rig *rig);
const char *rig_place(struct rig *rig);
/* Waits until a GET of the path returns this status and a body that contains the word. */
void rig_saw_answer(struct rig *rig, const char *path, int status, const char *word);
/* Waits for the end of the process and describes it: "killed by 9", "exit 0", "still runs". */
const char *rig_end_of(struct process *daemon, double seconds);
/* The same as an observation; after SIGTERM, within 20 s. */
void rig_saw_end(struct rig *rig, struct process *daemon, double seconds);
void rig_saw_terminated(struct rig *rig, struct process *daemon);
/* Daemons started from now on preload shim_NAME.so, with `text` as $GPUIMGD_SHIM; NULL: no
 * library. The shared page (shim.h) counts its faults. */
struct shim_page *rig_shim(struct rig *rig, const char *name, const char *text);
/* Waits until the process is stopped (SIGSTOP). rig_saw_stopped also continues it after 2.5 s. */
bool rig_stopped(struct process *daemon, double seconds);
void rig_saw_stopped(struct rig *rig, struct process *daemon);
/* The size of Redis's append-only file. rig_crash_redis kills Redis, as if its host crashed, and
 * restarts it with only the first `kept` bytes of the file. */
off_t rig_aof_bytes(struct rig *rig);
void rig_crash_redis(struct rig *rig, off_t kept);
/* Mounts a tmpfs on the folder until the case ends, in a mount namespace of the case. size:
 * "size=4m". false: that is not permitted, and the case is skipped. */
bool rig_mount(struct rig *rig, const char *folder, const char *size);
/* Fills the filesystem with the file "filler" in this folder. */
void rig_fill(struct rig *rig, const char *folder);
/* Sends CANCEL for the jobs with this id. */
void rig_cancel(struct rig *rig, const char *id);
/* Whether this daemon produced the job's result. */
bool rig_by(struct rig *rig, const char *id, const struct process *daemon);
