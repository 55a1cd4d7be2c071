/*
 * process.h - runs libraries of image formats in a process of its own, which can be killed.
 *
 * These libraries cannot be interrupted, and a small file can make them use gigabytes. So they run
 * in the program gpuimgd-codec: a codec process. Its memory is limited, and it can open neither
 * files nor sockets (codecs/confined/confine.h). It shares two things with the daemon: a socket for
 * messages (protocol.h), and the region, which is shared memory for files and pixels.
 *
 * Each worker thread has a codec process. It starts with the first task and serves all later ones.
 * The first text that a worker draws replaces its process by one that has opened the fonts.
 * When the deadline of a task passes or its job is cancelled, the process is killed, and the next
 * task starts a new one. If the process crashes, only its task fails.
 *
 * The daemon copies bytes to and from the region with system calls and does not map it. A mapping
 * would count in the resident memory of both processes, and hostile code in the codec process could
 * change bytes after the daemon has checked them.
 *
 * Each struct codec_process belongs to one thread. The kernel kills the process when that thread
 * ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "codecs/codec.h"
#include "codecs/process/protocol.h"

/* All zero: the process is not started. */
struct codec_process {
    pid_t pid;                /* 0: not started, or killed */
    int socket, region;       /* descriptors; valid while pid is not 0 */
    uint64_t start_ns;        /* when it was started, until its struct codec_hello; then 0 */
    uint64_t base_bytes;      /* its address space after its start; 0: this build sets no limit */
    uint64_t data_bytes;      /* of that, private memory that can be written */
    uint64_t limit_bytes;     /* limit of its address space; 0: none is set yet */
    uint64_t region_bytes;    /* current size of the region */
    uint32_t can_read, can_write; /* as in struct codec_hello */
    bool draws_text;              /* it was started with the fonts of this host */
    bool is_busy;             /* it has not ended its task */
    bool is_used;             /* it has ended a task */
    bool keeps_memory;        /* as in struct codec_reply */
    bool may_retry;           /* for codec_process_take_retry */
};

/* One file to probe, decode or encode. */
struct codec_task {
    enum codec_call_kind kind;
    const struct format *format;
    bool draws_text;       /* the process needs fonts; its format is no format of files */
    uint64_t region_bytes; /* size of the region */
    uint64_t work_bytes;   /* memory that the process may use besides the region */
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none */
    const struct codec_caller *caller; /* tells whether the job was cancelled; NULL: it never is */
};

/* Begins a task: starts the process if none runs, and sets the size of the region and the limit of
 * the memory. Errors: out_of_memory, internal. */
enum status codec_process_begin(struct codec_process *process, const struct codec_task *task,
                                struct error *error) MUST_CHECK;
/* Sends one message of a task and waits for the process's answer. Call it until that is CODEC_DONE:
 * a task has one call of its kind, then CODEC_GO_ONs (protocol.h). Errors: one that the process
 * itself reports in CODEC_DONE; the process then lives on. After the following errors it is killed.
 * For a probe or a decode: decode_limit if the deadline has passed or the process needs more memory
 * than its limit, decode_failed if it has crashed or sent a wrong reply. For an encode these are
 * timeout, over_budget and encode_failed. For all: cancelled if the job was cancelled,
 * out_of_memory if another process has killed it. */
enum status codec_process_ask(struct codec_process *process, const struct codec_task *task,
                              const struct codec_call *call, struct codec_reply *reply,
                              struct error *error) MUST_CHECK;
/* Ends a task: shrinks the region to CODEC_REGION_KEPT_BYTES. Kills a process that still works on
 * the task, because the caller has stopped after an error of its own. Idempotent. */
void codec_process_end(struct codec_process *process);
/* Call it after codec_process_end. Whether the task must be repeated from codec_process_begin on:
 * it lacked memory in a process that had run other tasks. What malloc keeps from those tasks counts
 * in the memory limit, so a new process may succeed. If true, clears the error; the next call
 * returns false. */
bool codec_process_take_retry(struct codec_process *process, struct error *error);
/* Call it if a reply is not one that protocol.h allows: kills the process, which may run hostile
 * code, and sets the error. Returns the status of the error. */
enum status codec_process_distrust(struct codec_process *process, const struct codec_task *task,
                                   struct error *error);
/* Stops the process. Does nothing if it is not started. */
void codec_process_close(struct codec_process *process);
/* The same, also in a task, and without waiting until the kernel has freed its memory: the start of
 * a later process notices that it has ended. */
void codec_process_leave(struct codec_process *process);

/* Copies bytes to the region, from its offset `at` on. Errors: out_of_memory. */
enum status codec_process_put(struct codec_process *process, uint64_t at, const void *bytes,
                              size_t count, struct error *error) MUST_CHECK;
/* Copies bytes from the region. Errors: internal. */
enum status codec_process_get(struct codec_process *process, uint64_t at, void *bytes,
                              size_t count, struct error *error) MUST_CHECK;
/* The same for an image. In the region, its rows follow each other without padding. */
enum status codec_process_put_image(struct codec_process *process, uint64_t at,
                                    const struct image *image, struct error *error) MUST_CHECK;
enum status codec_process_get_image(struct codec_process *process, uint64_t at,
                                    const struct image *image, struct error *error) MUST_CHECK;

/* Returns NULL if files of the format can be read (writes: can be written), else the reason, as the
 * end of a sentence: `lack` if the library cannot, otherwise a text in a buffer of the calling
 * thread. Each call starts a process to ask its libraries, until one could be asked. Any thread. */
const char *codec_process_refusal(enum format_id format, bool writes, const char *lack);

/* Whether a process could be asked. Any thread. */
bool codec_process_is_known(void);

/* Why a process was killed or found dead, except by codec_process_end, so that a new one replaces
 * it. */
enum codec_replace_reason {
    CODEC_REPLACED_LATE,
    CODEC_REPLACED_CANCELLED,
    CODEC_REPLACED_CRASHED, /* it died, was killed from outside, or sent a wrong reply */
    CODEC_REPLACED_MEMORY,  /* it reached its memory limit */
    CODEC_REPLACE_REASONS
};
extern const char *const codec_replace_reason_names[CODEC_REPLACE_REASONS];
/* The number of processes replaced for this reason since the start of the daemon. Any thread. */
uint64_t codec_process_replaced(enum codec_replace_reason why);
