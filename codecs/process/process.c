#include "codecs/process/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codecs/codec_impl.h"
#include "codecs/process/spawn.h"
#include "conf/clock.h"
#include "conf/log.h"

/* How often a waiting task checks whether its job was cancelled. */
#define ASK_MS 50
/* How long codec_process_close waits until an idle process ends by itself. */
#define LEAVE_MS 100
/* Processes that may be left alone at once: more than jobs with many images. */
#define LEFT_MAX (2 * SETS_MAX)
/* Logs at most one replaced process in this time: each job of a client may need a new process. */
#define LOG_S 1

const char *const codec_replace_reason_names[CODEC_REPLACE_REASONS] = {
    [CODEC_REPLACED_LATE] = "deadline",
    [CODEC_REPLACED_CANCELLED] = "cancelled",
    [CODEC_REPLACED_CRASHED] = "crash",
    [CODEC_REPLACED_MEMORY] = "memory",
};

/* For each kind of task: words for its messages, the status if it is late, crashes or needs too
 * much memory, and the replies that it may send besides CODEC_DONE, as bits of enum
 * codec_reply_kind. */
static const struct {
    const char *doing, *verb;
    enum status late, crashed, over;
    unsigned replies;
} kinds[] = {
    [CODEC_PROBE] = {"decoding", "read the header of", STATUS_DECODE_LIMIT, STATUS_DECODE_FAILED,
                     STATUS_DECODE_LIMIT, 1u << CODEC_NEEDS},
    [CODEC_DECODE] = {"decoding", "decode", STATUS_DECODE_LIMIT, STATUS_DECODE_FAILED,
                      STATUS_DECODE_LIMIT, 1u << CODEC_ROWS},
    [CODEC_FRAMES] = {"decoding", "decode", STATUS_DECODE_LIMIT, STATUS_DECODE_FAILED,
                      STATUS_DECODE_LIMIT, 1u << CODEC_ROWS},
    [CODEC_RECOMPRESS] = {"encoding", "recompress", STATUS_TIMEOUT, STATUS_ENCODE_FAILED,
                          STATUS_OVER_BUDGET, 1u << CODEC_PART},
    [CODEC_ENCODE] = {"encoding", "write", STATUS_TIMEOUT, STATUS_ENCODE_FAILED, STATUS_OVER_BUDGET,
                      1u << CODEC_ROWS | 1u << CODEC_PART},
};

static const char *verb_of(const struct codec_task *task)
{
    if (!task->draws_text)
        return kinds[task->kind].verb;
    return task->kind == CODEC_PROBE ? "measure" : "draw";
}

static _Atomic uint64_t replaced[CODEC_REPLACE_REASONS];

uint64_t codec_process_replaced(enum codec_replace_reason why)
{
    return atomic_load(&replaced[why]);
}

/* ---- end ------------------------------------------------------------------------------------ */

static void say_replaced(const struct codec_process *process, enum codec_replace_reason why,
                         const char *text)
{
    static _Atomic uint64_t quiet_until_ns;
    uint64_t now_ns = clock_now_ns(), until_ns = atomic_load(&quiet_until_ns);
    atomic_fetch_add(&replaced[why], 1);
    if (now_ns >= until_ns && atomic_compare_exchange_strong(&quiet_until_ns, &until_ns,
                                                             clock_after_s(now_ns, LOG_S)))
        log_warning("codec process %d is replaced: %s", (int)process->pid, text);
}

static void forget(struct codec_process *process)
{
    close(process->socket);
    close(process->region);
    *process = (struct codec_process){0};
}

/* Returns the status of waitpid. */
static int kill_and_reap(struct codec_process *process)
{
    int status = 0;
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* Processes that were killed, for which nobody has waited yet. */
static struct {
    pthread_mutex_t lock;
    pid_t pids[LEFT_MAX];
} left_alone = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Waits for those that have ended. Returns whether there is a place for another one, and puts it
 * there. pid: 0: none. */
static bool leave_alone(pid_t pid)
{
    pthread_mutex_lock(&left_alone.lock);
    bool put = pid == 0;
    for (size_t i = 0; i < LEFT_MAX; i++) {
        pid_t *one = &left_alone.pids[i];
        if (*one != 0 && waitpid(*one, NULL, WNOHANG) != 0)
            *one = 0;
        if (*one == 0 && !put) {
            *one = pid;
            put = true;
        }
    }
    pthread_mutex_unlock(&left_alone.lock);
    return put;
}

void codec_process_leave(struct codec_process *process)
{
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    if (!leave_alone(process->pid))
        kill_and_reap(process);
    forget(process);
}

static void replace_process(struct codec_process *process, enum codec_replace_reason why,
                            const struct error *error)
{
    say_replaced(process, why, error->text);
    kill_and_reap(process);
    forget(process);
}

void codec_process_close(struct codec_process *process)
{
    if (process->pid == 0)
        return;
    shutdown(process->socket, SHUT_RDWR); /* the process reads the end of the stream and exits */
    bool left = false;
    for (int ms = 0; ms < LEAVE_MS && !left; ms++) {
        left = waitpid(process->pid, NULL, WNOHANG) == process->pid;
        if (!left)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (!left)
        kill_and_reap(process);
    forget(process);
}

/* ---- begin ---------------------------------------------------------------------------------- */

static bool has_ended(const struct codec_process *process)
{
    struct pollfd poll_for = {.fd = process->socket, .events = POLLIN};
    return poll(&poll_for, 1, 0) > 0; /* between tasks it sends nothing, so this is the end */
}

/* The region has at least CODEC_REGION_KEPT_BYTES, which the process keeps mapped for all tasks. */
static enum status set_region(struct codec_process *process, uint64_t bytes, struct error *error)
{
    if (bytes < CODEC_REGION_KEPT_BYTES)
        bytes = CODEC_REGION_KEPT_BYTES;
    if (bytes != process->region_bytes && ftruncate(process->region, (off_t)bytes) != 0)
        return error_set(error, STATUS_OUT_OF_MEMORY,
                         "no shared memory of %llu bytes for the codec process: %s",
                         (unsigned long long)bytes, strerror(errno));
    process->region_bytes = bytes;
    return STATUS_OK;
}

/* Limits the address space of the process to what it has between tasks and the memory of the task.
 * If it maps fonts, its private memory has this limit, and its address space has room for them. The
 * process cannot raise the limits, because confine.c forbids the call. */
static enum status set_limit(struct codec_process *process, const struct codec_task *task,
                             struct error *error)
{
    uint64_t private = CODEC_HEAP_KEPT_BYTES + task->work_bytes;
    uint64_t most = process->base_bytes + private + CODEC_REGION_KEPT_BYTES + task->region_bytes +
                    (process->draws_text ? TEXT_MAPPED_BYTES : 0);
    if (process->base_bytes == 0 || (process->limit_bytes == most && !process->draws_text))
        return STATUS_OK;
    if (codec_process_limit(process->pid, RLIMIT_AS, most) &&
        (!process->draws_text ||
         codec_process_limit(process->pid, RLIMIT_DATA, process->data_bytes + private))) {
        process->limit_bytes = most;
        return STATUS_OK;
    }
    return error_set(error, STATUS_INTERNAL, "the memory of the codec process cannot be limited: "
                     "%s", strerror(errno));
}

static bool is_cancelled(const struct codec_task *task)
{
    return task->caller && task->caller->is_gone(task->caller);
}

static int wait_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (deadline_ns == 0 || deadline_ns > now_ns + ASK_MS * 1000000ull)
        return ASK_MS;
    return deadline_ns > now_ns ? (int)((deadline_ns - now_ns + 999999) / 1000000) : 0;
}

/* To read the fonts of a host may take seconds. A task that cannot wait so long leaves the process
 * alone: a later text uses it. */
static enum status wait_for_start(struct codec_process *process, const struct codec_task *task,
                                  struct error *error)
{
    while (!codec_process_said_hello(process, wait_ms(task->deadline_ns), error)) {
        if (error->status != STATUS_OK) {
            codec_process_close(process);
            return error->status;
        }
        if (codec_late(task->deadline_ns))
            return error_set(error, kinds[task->kind].late,
                             "the deadline for %s passed while the codec process started",
                             kinds[task->kind].doing);
        if (is_cancelled(task))
            return error_set(error, STATUS_CANCELLED,
                             "the job ended while the codec process started");
    }
    return STATUS_OK;
}

enum status codec_process_begin(struct codec_process *process, const struct codec_task *task,
                                struct error *error)
{
    bool is_starting = process->pid != 0 && process->start_ns != 0;
    if (process->pid != 0 && !is_starting && has_ended(process)) {
        struct error ended = {.text = "it ended while it had no task"};
        replace_process(process, CODEC_REPLACED_CRASHED, &ended);
    }
    if (task->draws_text ? !process->draws_text : is_starting && process->draws_text)
        codec_process_close(process);
    if (process->pid == 0) {
        (void)leave_alone(0);
        if (!codec_process_start(process, task->draws_text, error))
            return error->status;
    }
    if ((process->start_ns != 0 && wait_for_start(process, task, error) != STATUS_OK) ||
        set_region(process, task->region_bytes, error) != STATUS_OK ||
        set_limit(process, task, error) != STATUS_OK)
        return error->status;
    return STATUS_OK;
}

void codec_process_end(struct codec_process *process)
{
    struct error ignored = {0};
    if (process->pid != 0 && (process->is_busy || process->keeps_memory)) {
        kill_and_reap(process);
        forget(process);
    }
    if (process->pid != 0 && process->region_bytes > CODEC_REGION_KEPT_BYTES)
        (void)set_region(process, 0, &ignored);
}

/* ---- ask ------------------------------------------------------------------------------------ */

enum wait_result { REPLIED, WRONG_SIZE, LATE, CANCELLED, DEAD };

static enum wait_result wait_for_reply(struct codec_process *process, const struct codec_task *task,
                                       struct codec_reply *reply)
{
    struct pollfd poll_for = {.fd = process->socket, .events = POLLIN};
    for (;;) {
        int ready = poll(&poll_for, 1, wait_ms(task->deadline_ns));
        if (ready > 0) {
            ssize_t got = recv(process->socket, reply, sizeof *reply, MSG_DONTWAIT | MSG_TRUNC);
            return got == sizeof *reply                ? REPLIED
                   : (poll_for.revents & POLLHUP) != 0 ? DEAD
                                                       : WRONG_SIZE;
        }
        if (ready < 0 && errno != EINTR) /* uncovered: promise (tests/coverage/reasons.txt) */
            return DEAD;
        if (codec_late(task->deadline_ns))
            return LATE;
        if (is_cancelled(task))
            return CANCELLED;
    }
}

/* Sets the error for a process that has ended during a task. The end of its stream proves that:
 * it cannot close its socket while it runs (confine.c). So our SIGKILL does not change its
 * status. If another one has killed it, that was probably the kernel, because the memory of the
 * service or of the host ran out. */
static enum status report_death(struct codec_process *process, const struct codec_task *task,
                                struct error *error)
{
    int status = kill_and_reap(process);
    enum status crashed = kinds[task->kind].crashed;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        error_set(error, STATUS_OUT_OF_MEMORY,
                  "the codec process was killed while it had to %s "
                  "the %s; perhaps memory ran out",
                  verb_of(task), format_title(task->format));
    else if (WIFSIGNALED(status))
        error_set(error, crashed, "%s crashed (signal %d, %s) while it had to %s the %s",
                  task->format->library, WTERMSIG(status), strsignal(WTERMSIG(status)),
                  verb_of(task), format_title(task->format));
    else
        error_set(error, crashed,
                  "the codec process ended with status %d while it had to %s the "
                  "%s",
                  WEXITSTATUS(status), verb_of(task), format_title(task->format));
    say_replaced(process, CODEC_REPLACED_CRASHED, error->text);
    forget(process);
    return error->status;
}

static enum status give_up(struct codec_process *process, const struct codec_task *task,
                           enum wait_result result, struct error *error)
{
    if (result == DEAD)
        return report_death(process, task, error);
    if (result == WRONG_SIZE)
        return codec_process_distrust(process, task, error);
    if (result == LATE)
        error_set(error, kinds[task->kind].late, "the deadline for %s passed while %s ran",
                  kinds[task->kind].doing, task->format->library);
    else
        error_set(error, STATUS_CANCELLED, "the job ended while %s ran", task->format->library);
    replace_process(process, result == LATE ? CODEC_REPLACED_LATE : CODEC_REPLACED_CANCELLED,
                    error);
    return error->status;
}

/* The message names the limit: for a probe a fixed one plus the file, else what was reserved. */
static enum status lack_memory(struct codec_process *process, const struct codec_task *task,
                               struct error *error)
{
    error_set(error, kinds[task->kind].over,
              "%s needs more memory to %s the %s than the limit of %llu bytes",
              task->format->library, verb_of(task), format_title(task->format),
              (unsigned long long)(task->region_bytes + task->work_bytes));
    bool is_used = process->is_used;
    replace_process(process, CODEC_REPLACED_MEMORY, error);
    process->may_retry = is_used;
    return error->status;
}

bool codec_process_take_retry(struct codec_process *process, struct error *error)
{
    bool may_retry = process->may_retry;
    process->may_retry = false;
    if (may_retry)
        error_clear(error);
    return may_retry;
}

enum status codec_process_distrust(struct codec_process *process, const struct codec_task *task,
                                   struct error *error)
{
    error_set(error, kinds[task->kind].crashed,
              "the codec process sent a wrong reply while it had to %s the %s", verb_of(task),
              format_title(task->format));
    replace_process(process, CODEC_REPLACED_CRASHED, error);
    return error->status;
}

/* Whether a task of this kind may fail with the status. Any other status is not trusted: it may
 * come from hostile code that runs in the process. */
static bool is_allowed(const struct codec_task *task, uint32_t status)
{
    enum codec_call_kind kind = task->kind;
    return status == STATUS_OUT_OF_MEMORY || (status == STATUS_BAD_OP && task->draws_text) ||
           (kind == CODEC_ENCODE || kind == CODEC_RECOMPRESS
                ? status == STATUS_ENCODE_FAILED
                : status == STATUS_DECODE_FAILED || status == STATUS_DECODE_LIMIT ||
                      status == STATUS_IMAGE_TOO_LARGE || status == STATUS_UNSUPPORTED_FORMAT);
}

static enum status take_failure(struct codec_process *process, const struct codec_task *task,
                                struct codec_reply *reply, struct error *error)
{
    if (!is_allowed(task, reply->status))
        return codec_process_distrust(process, task, error);
    reply->text[sizeof reply->text - 1] = '\0';
    return error_set(error, (enum status)reply->status, "%s", reply->text);
}

enum status codec_process_ask(struct codec_process *process, const struct codec_task *task,
                              const struct codec_call *call, struct codec_reply *reply,
                              struct error *error)
{
    process->is_busy = true;
    bool is_sent = send(process->socket, call, sizeof *call, MSG_NOSIGNAL) == sizeof *call;
    enum wait_result result = is_sent ? wait_for_reply(process, task, reply) : DEAD;
    if (result != REPLIED)
        return give_up(process, task, result, error);
    bool is_done = reply->kind == CODEC_DONE;
    process->is_busy = !is_done;
    process->keeps_memory = is_done && task->draws_text && reply->keeps_memory;
    if (is_done && reply->lacks_memory)
        return lack_memory(process, task, error);
    process->is_used |= is_done;
    if (!is_done && (reply->kind > CODEC_PART || !(kinds[task->kind].replies >> reply->kind & 1)))
        return codec_process_distrust(process, task, error);
    if (is_done && reply->status != STATUS_OK)
        return take_failure(process, task, reply, error);
    return STATUS_OK;
}

/* ---- refusal -------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    bool known;
    uint32_t can_read, can_write; /* as in struct codec_hello */
} abilities = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Starts a process once to learn what its libraries can do. A failure is not remembered, because
 * memory or processes may have been short. */
static bool learn_abilities(struct error *error)
{
    struct codec_process process;
    pthread_mutex_lock(&abilities.lock);
    if (!abilities.known) {
        abilities.known = codec_process_start(&process, false, error);
        while (abilities.known && !codec_process_said_hello(&process, ASK_MS, error))
            abilities.known = error->status == STATUS_OK;
        abilities.can_read = process.can_read;
        abilities.can_write = process.can_write;
        codec_process_close(&process);
    }
    bool known = abilities.known;
    pthread_mutex_unlock(&abilities.lock);
    return known;
}

bool codec_process_is_known(void)
{
    struct error ignored = {0};
    return learn_abilities(&ignored);
}

const char *codec_process_refusal(enum format_id format, bool writes, const char *lack)
{
    static _Thread_local struct error error;
    error_clear(&error);
    if (!learn_abilities(&error))
        return error.text;
    return (writes ? abilities.can_write : abilities.can_read) & CODEC_BIT(format) ? NULL : lack;
}
