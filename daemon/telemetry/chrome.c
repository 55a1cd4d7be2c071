#include "daemon/telemetry/chrome.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/log.h"

#define PAGE_BYTES   4096
/* What is written at once, and room for one event more and for what it may have to skip. */
#define FLUSH_BYTES  (64 * 1024)
#define BUFFER_BYTES (FLUSH_BYTES + PAGE_BYTES + EVENT_MAX)
/* The longest event: some 150 bytes of its form, six numbers, and names of at most 400 bytes. */
#define EVENT_MAX 1024
/* A job of the most slices with all its tracks named. */
#define JOB_EVENTS_MAX (4 * TRACE_SLICES_MAX + 8)
/* What is kept free for the end. */
#define TAIL_BYTES (2 * EVENT_MAX)

#define HOST_PID 1
#define DEVICE_PID(device) (2 + (device))

/* The counters' values need not lie closer than this. */
#define COUNTER_NS 1000000

static_assert(EVENT_MAX <= PAGE_BYTES, "an event fits a page");

struct chrome {
    int fd;
    const char *path;
    const struct trace_config *config;
    uint64_t written;    /* in the file */
    size_t used;         /* of the buffer */
    size_t event;        /* of these, where the event begins that is being made */
    uint64_t counted_ns; /* the time of the last counters */
    uint64_t jobs, left_out, slices_left_out;
    bool full, failed;
    uint8_t named[0x10000 / 8]; /* a bit a track */
    char buffer[BUFFER_BYTES];
};

/* ---- text ----------------------------------------------------------------------------------- */

static inline void put_bytes(struct chrome *chrome, const char *bytes, size_t length)
{
    assert(chrome->used - chrome->event + length <= EVENT_MAX);
    memcpy(chrome->buffer + chrome->used, bytes, length);
    chrome->used += length;
}
#define put(chrome, literal) put_bytes(chrome, literal, sizeof(literal) - 1)

static void put_text(struct chrome *chrome, const char *text)
{
    put_bytes(chrome, text, strlen(text));
}

static void put_number(struct chrome *chrome, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put_bytes(chrome, digits + at, sizeof digits - at);
}

/* Microseconds with the nanoseconds behind the point. */
static void put_us(struct chrome *chrome, uint64_t ns)
{
    char rest[4] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                    (char)('0' + ns % 10)};
    put_number(chrome, ns / 1000);
    put_bytes(chrome, rest, sizeof rest);
}

static void put_time(struct chrome *chrome, uint64_t at_ns)
{
    uint64_t origin_ns = chrome->config->origin_ns;
    put(chrome, ",\"ts\":");
    put_us(chrome, at_ns > origin_ns ? at_ns - origin_ns : 0);
}

/* Text from outside the daemon (its host's name). */
static void put_quoted(struct chrome *chrome, const char *text)
{
    put(chrome, "\"");
    for (size_t i = 0; text[i] && i < 120; i++) {
        bool plain = (unsigned char)text[i] >= ' ' && text[i] != '"' && text[i] != '\\' &&
                     (unsigned char)text[i] < 0x7f;
        put_bytes(chrome, plain ? text + i : "?", 1);
    }
    put(chrome, "\"");
}

/* ---- file ----------------------------------------------------------------------------------- */

/* What cannot be written is taken back as far as whole events go, and nothing more is written. */
void chrome_flush(struct chrome *chrome)
{
    if (chrome->used == 0 || chrome->failed) {
        chrome->used = chrome->event = 0;
        return;
    }
    ssize_t written = write(chrome->fd, chrome->buffer, chrome->used);
    if (written != (ssize_t)chrome->used) {
        const char *why = written < 0 ? strerror(errno) : "there is no more room";
        chrome->failed = true;
        log_error("trace: %s cannot be written further: %s", chrome->path, why);
        if (written > 0 && ftruncate(chrome->fd, (off_t)chrome->written) != 0)
            log_error("trace: the last line of %s is not whole: %s", chrome->path,
                      strerror(errno));
    } else {
        chrome->written += chrome->used;
    }
    chrome->used = chrome->event = 0;
}

/* What was put since the last event is one more; it goes to the next page where this one's end is
 * within it. */
static void end_event(struct chrome *chrome)
{
    size_t length = chrome->used - chrome->event;
    size_t left = PAGE_BYTES - (size_t)((chrome->written + chrome->event) % PAGE_BYTES);
    char *text = chrome->buffer + chrome->event;
    if (length > left) {
        memmove(text + left, text, length);
        memset(text, '\n', left);
        chrome->used += left;
    }
    if (chrome->used >= FLUSH_BYTES)
        chrome_flush(chrome);
    chrome->event = chrome->used;
}

/* ---- events --------------------------------------------------------------------------------- */

static void write_name(struct chrome *chrome, const char *what, unsigned pid, unsigned tid,
                       const char *name, uint32_t number)
{
    put(chrome, "{\"ph\":\"M\",\"name\":\"");
    put_text(chrome, what);
    put(chrome, "\",\"pid\":");
    put_number(chrome, pid);
    put(chrome, ",\"tid\":");
    put_number(chrome, tid);
    put(chrome, ",\"args\":{\"name\":\"");
    put_text(chrome, name);
    if (number != UINT32_MAX) {
        put(chrome, " ");
        put_number(chrome, number);
    }
    put(chrome, "\"}},\n");
    end_event(chrome);
}

static void track_place(uint16_t track, unsigned *pid, unsigned *tid)
{
    bool stream = TRACE_IS_STREAM(track);
    *pid = stream ? DEVICE_PID(TRACE_DEVICE(track)) : HOST_PID;
    *tid = stream ? TRACE_STREAM(track) + 1u : track;
}

static void name_track(struct chrome *chrome, uint16_t track)
{
    unsigned pid, tid;
    if (chrome->named[track / 8] & 1 << track % 8)
        return;
    chrome->named[track / 8] |= (uint8_t)(1 << track % 8);
    track_place(track, &pid, &tid);
    if (TRACE_IS_STREAM(track))
        write_name(chrome, "thread_name", pid, tid, "stream", TRACE_STREAM(track));
    else
        write_name(chrome, "thread_name", pid, tid, "worker", TRACE_WORKER(track));
}

static void write_head(struct chrome *chrome)
{
    char stamp[32];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    put(chrome, "[\n");
    end_event(chrome);
    write_name(chrome, "process_name", HOST_PID, 0, "gpuimgd", UINT32_MAX);
    for (uint32_t d = 0; d < chrome->config->devices; d++)
        write_name(chrome, "process_name", DEVICE_PID(d), 0, chrome->config->names[d],
                   UINT32_MAX);
    put(chrome, "{\"ph\":\"M\",\"name\":\"gpuimgd\",\"pid\":1,\"tid\":0,\"args\":{\"version\":"
                "\"" GPUIMGD_VERSION "\",\"daemon\":");
    put_quoted(chrome, chrome->config->daemon);
    put(chrome, ",\"engine\":");
    put_quoted(chrome, chrome->config->engine);
    put(chrome, ",\"began\":");
    put_quoted(chrome, stamp);
    put(chrome, "}},\n");
    end_event(chrome);
}

static void write_slice(struct chrome *chrome, const struct trace_job *job,
                        const struct trace_slice *slice)
{
    unsigned pid, tid;
    track_place(slice->track, &pid, &tid);
    put(chrome, "{\"ph\":\"X\",\"name\":\"");
    put_text(chrome, trace_names[slice->what]);
    put(chrome, "\",\"pid\":");
    put_number(chrome, pid);
    put(chrome, ",\"tid\":");
    put_number(chrome, tid);
    put_time(chrome, slice->begin_ns);
    put(chrome, ",\"dur\":");
    put_us(chrome, slice->end_ns - slice->begin_ns);
    put(chrome, ",\"args\":{\"job\":");
    put_number(chrome, job->number);
    put(chrome, "}},\n");
    end_event(chrome);
}

/* The beginning or the end of an asynchronous slice of the job that is being written. */
static void begin_async(struct chrome *chrome, const char *phase,
                        uint64_t at_ns)
{
    put(chrome, "{\"ph\":\"");
    put_text(chrome, phase);
    put(chrome, "\",\"cat\":\"job\",\"id\":\"");
    put_number(chrome, chrome->jobs); /* an attempt may come to the same daemon again */
    put(chrome, "\",\"pid\":1,\"tid\":0");
    put_time(chrome, at_ns);
    put(chrome, ",\"name\":\"");
}

static void write_job(struct chrome *chrome, const struct trace_job *job, const char *phase,
                      uint64_t at_ns)
{
    begin_async(chrome, phase, at_ns);
    put(chrome, "job ");
    put_number(chrome, job->number);
    if (*phase == 'b') {
        put(chrome, "\",\"args\":{\"attempt\":");
        put_number(chrome, job->attempt);
        put(chrome, ",\"end\":\"");
        put_text(chrome, job->end);
        put(chrome, "\",\"width\":");
        put_number(chrome, job->width);
        put(chrome, ",\"height\":");
        put_number(chrome, job->height);
        put(chrome, "}},\n");
    } else {
        put(chrome, "\"},\n");
    }
    end_event(chrome);
}

static void write_wait(struct chrome *chrome, const struct trace_slice *slice)
{
    for (int end = 0; end < 2; end++) {
        begin_async(chrome, end ? "e" : "b", end ? slice->end_ns : slice->begin_ns);
        put_text(chrome, trace_names[slice->what]);
        put(chrome, "\"},\n");
        end_event(chrome);
    }
}

static void write_counter(struct chrome *chrome, const char *name, uint64_t at_ns, uint64_t value)
{
    put(chrome, "{\"ph\":\"C\",\"name\":\"");
    put_text(chrome, name);
    put(chrome, "\",\"pid\":1");
    put_time(chrome, at_ns);
    put(chrome, ",\"args\":{\"value\":");
    put_number(chrome, value);
    put(chrome, "}},\n");
    end_event(chrome);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static bool has_room(struct chrome *chrome)
{
    if (chrome->full || chrome->failed)
        return false;
    uint64_t need = JOB_EVENTS_MAX * 256 + TAIL_BYTES + PAGE_BYTES;
    if (chrome->written + chrome->used + need <= chrome->config->bytes_max)
        return true;
    chrome->full = true;
    log_warning("trace: %s has %" PRIu64 " bytes, trace_bytes_max is %" PRIu64
                ": jobs that end from now on are left out",
                chrome->path, chrome->written + chrome->used, chrome->config->bytes_max);
    return false;
}

void chrome_add(struct chrome *chrome, const struct trace_job *job)
{
    if (!has_room(chrome)) {
        chrome->left_out++;
        return;
    }
    chrome->jobs++;
    chrome->slices_left_out += job->left_out;
    write_job(chrome, job, "b", job->begin_ns);
    for (uint32_t i = 0; i < job->count; i++) {
        const struct trace_slice *slice = &job->slices[i];
        if (slice->track == TRACE_OF_JOB) {
            write_wait(chrome, slice);
        } else {
            name_track(chrome, slice->track);
            write_slice(chrome, job, slice);
        }
    }
    write_job(chrome, job, "e", job->end_ns);
    for (size_t i = 0; i < 2; i++) {
        const struct trace_sample *sample = &job->samples[i];
        uint64_t at = sample->at_ns, last = chrome->counted_ns; /* in no order */
        if (at == 0 || (at > last ? at - last : last - at) < COUNTER_NS)
            continue;
        chrome->counted_ns = at;
        write_counter(chrome, "in flight", at, sample->inflight);
        write_counter(chrome, "pinned bytes", at, sample->pinned_bytes);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

/* The trace of the process before, which may have been killed, is what is looked for: it stays. */
static bool keep_old(const char *path)
{
    struct stat found;
    char old[4096 + 8];
    if (lstat(path, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0)
        return true;
    snprintf(old, sizeof old, "%s.old", path);
    return rename(path, old) == 0;
}

enum status chrome_open(const struct trace_config *config, struct chrome **result,
                        struct error *error)
{
    struct chrome *chrome = calloc(1, sizeof *chrome);
    struct stat found;
    if (!chrome)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the trace");
    chrome->path = config->chrome;
    chrome->config = config;
    chrome->fd = -1;
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if (keep_old(chrome->path))
        chrome->fd = open(chrome->path, flags, 0644);
    if (chrome->fd < 0)
        error_set(error, STATUS_WRITE_FAILED, "option trace is \"%s\", which cannot be opened: %s",
                  chrome->path, strerror(errno));
    else if (fstat(chrome->fd, &found) != 0 || !S_ISREG(found.st_mode))
        error_set(error, STATUS_WRITE_FAILED, "option trace is \"%s\", which is no regular file",
                  chrome->path);
    if (error->status != STATUS_OK) {
        if (chrome->fd >= 0)
            close(chrome->fd);
        free(chrome);
        return error->status;
    }
    write_head(chrome);
    chrome_flush(chrome);
    *result = chrome;
    return STATUS_OK;
}

void chrome_close(struct chrome *chrome, uint64_t missed)
{
    if (!chrome)
        return;
    chrome->left_out += missed;
    put(chrome, "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"end of the trace\",\"pid\":1,\"tid\":0");
    put_time(chrome, clock_now_ns());
    put(chrome, ",\"args\":{\"jobs\":");
    put_number(chrome, chrome->jobs);
    put(chrome, ",\"jobs left out\":");
    put_number(chrome, chrome->left_out);
    put(chrome, ",\"slices left out\":");
    put_number(chrome, chrome->slices_left_out);
    put(chrome, "}}\n]\n");
    end_event(chrome);
    chrome_flush(chrome);
    log_info("trace: %s has %" PRIu64 " jobs; %" PRIu64 " were left out", chrome->path,
             chrome->jobs, chrome->left_out);
    close(chrome->fd);
    free(chrome);
}
