#include "daemon/telemetry/chrome.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "conf/text.h"
#include "queue/job/writer.h"

#define PAGE_BYTES   4096
/* One write, plus one event and the newlines that pad a page before it. */
#define FLUSH_BYTES  (64 * 1024)
#define BUFFER_BYTES (FLUSH_BYTES + PAGE_BYTES + EVENT_MAX)
/* The longest event: about 150 bytes of keys, six numbers, and names of at most 400 bytes. */
#define EVENT_MAX 1024
/* Events of a job with TRACE_SLICES_MAX slices, each on a track that is not named yet. */
#define JOB_EVENTS_MAX (4 * TRACE_SLICES_MAX + 8)
/* Reserved for the event that ends the trace. */
#define TAIL_BYTES (2 * EVENT_MAX)

#define HOST_PID 1
#define DEVICE_PID(device) (2 + (device))

/* Minimum distance between two samples of a counter. */
#define COUNTER_NS 1000000

static_assert(EVENT_MAX <= PAGE_BYTES, "an event fits a page");

struct chrome {
    int fd;
    const char *path;
    const struct trace_config *config;
    uint64_t written;    /* bytes in the file */
    size_t used;         /* bytes in the buffer */
    struct writer event; /* the current event */
    uint64_t counted_ns; /* time of the last counter samples */
    uint64_t jobs, left_out, slices_left_out;
    bool full, failed;
    uint8_t named[0x10000 / 8]; /* one bit per track: its name is written */
    char buffer[BUFFER_BYTES];
};

/* ---- file ----------------------------------------------------------------------------------- */

/* After a failed or short write the file is cut back to its last whole event, and no event is
 * written to it again. */
void chrome_flush(struct chrome *chrome)
{
    if (chrome->used == 0 || chrome->failed) {
        chrome->used = 0;
        return;
    }
    ssize_t written = write(chrome->fd, chrome->buffer, chrome->used);
    if (written != (ssize_t)chrome->used) { /* uncovered: service */
        const char *why = written < 0 ? strerror(errno) : "no space left";
        chrome->failed = true;
        log_error("trace: %s cannot be written: %s; the trace ends here", chrome->path, why);
        if (written > 0 && ftruncate(chrome->fd, (off_t)chrome->written) != 0)
            log_error("trace: the last line of %s is incomplete: %s", chrome->path,
                      strerror(errno));
    } else {
        chrome->written += chrome->used;
    }
    chrome->used = 0;
}

/* Moves the event from the writer to the buffer. An event that would cross a page boundary starts
 * on the next page. */
static void end_event(struct chrome *chrome, const char *end)
{
    struct writer *event = &chrome->event;
    size_t length = event->length + strlen(end);
    size_t left = PAGE_BYTES - (size_t)((chrome->written + chrome->used) % PAGE_BYTES);
    if (!event->failed && length <= EVENT_MAX) {
        if (length > left) {
            memset(chrome->buffer + chrome->used, '\n', left);
            chrome->used += left;
        }
        memcpy(chrome->buffer + chrome->used, event->text, event->length);
        memcpy(chrome->buffer + chrome->used + event->length, end, strlen(end));
        chrome->used += length;
    }
    writer_restart(event);
    if (chrome->used >= FLUSH_BYTES)
        chrome_flush(chrome);
}

/* ---- events --------------------------------------------------------------------------------- */

static struct writer *begin_event(struct chrome *chrome, const char *phase, const char *name,
                                  unsigned pid, unsigned tid)
{
    struct writer *event = &chrome->event;
    writer_open(event, NULL, '{');
    writer_text(event, "ph", phase);
    writer_text(event, "name", name);
    writer_number(event, "pid", pid);
    writer_number(event, "tid", tid);
    return event;
}

/* The format counts in microseconds; the three decimals are the nanoseconds. */
static void put_time(struct chrome *chrome, uint64_t at_ns)
{
    uint64_t origin_ns = chrome->config->origin_ns;
    writer_thousandths(&chrome->event, "ts",
                       at_ns > origin_ns ? (double)(at_ns - origin_ns) / 1e3 : 0);
}

static void end_arguments(struct chrome *chrome, const char *end)
{
    writer_close(&chrome->event, '}');
    writer_close(&chrome->event, '}');
    end_event(chrome, end);
}

static void write_name(struct chrome *chrome, const char *what, unsigned pid, unsigned tid,
                       const char *name)
{
    struct writer *event = begin_event(chrome, "M", what, pid, tid);
    writer_open(event, "args", '{');
    writer_text(event, "name", name);
    end_arguments(chrome, ",\n");
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
    char name[32];
    if (chrome->named[track / 8] & 1 << track % 8)
        return;
    chrome->named[track / 8] |= (uint8_t)(1 << track % 8);
    track_place(track, &pid, &tid);
    if (TRACE_IS_STREAM(track))
        snprintf(name, sizeof name, "stream %d", TRACE_STREAM(track));
    else
        snprintf(name, sizeof name, "worker %d", TRACE_WORKER(track));
    write_name(chrome, "thread_name", pid, tid, name);
}

/* The text comes from outside the daemon (host name, device name): make it printable. */
static void put_foreign(struct writer *event, const char *key, const char *text)
{
    char plain[121];
    text_copy(plain, sizeof plain, text);
    text_make_printable(plain);
    writer_text(event, key, plain);
}

static void write_head(struct chrome *chrome)
{
    char stamp[CLOCK_STAMP_BYTES];
    clock_stamp(stamp);
    memcpy(chrome->buffer, "[\n", 2);
    chrome->used = 2;
    write_name(chrome, "process_name", HOST_PID, 0, "gpuimgd");
    for (uint32_t d = 0; d < chrome->config->devices; d++)
        write_name(chrome, "process_name", DEVICE_PID(d), 0, chrome->config->names[d]);
    struct writer *event = begin_event(chrome, "M", "gpuimgd", HOST_PID, 0);
    writer_open(event, "args", '{');
    writer_text(event, "version", GPUIMGD_VERSION);
    put_foreign(event, "daemon", chrome->config->daemon);
    put_foreign(event, "engine", chrome->config->engine);
    writer_text(event, "began", stamp);
    end_arguments(chrome, ",\n");
}

static void write_slice(struct chrome *chrome, const struct trace_job *job,
                        const struct trace_slice *slice)
{
    unsigned pid, tid;
    track_place(slice->track, &pid, &tid);
    struct writer *event = begin_event(chrome, "X", trace_names[slice->what], pid, tid);
    put_time(chrome, slice->begin_ns);
    writer_thousandths(event, "dur", (double)(slice->end_ns - slice->begin_ns) / 1e3);
    writer_open(event, "args", '{');
    writer_number(event, "job", job->number);
    end_arguments(chrome, ",\n");
}

/* Begins (phase "b") or ends ("e") an asynchronous slice of the current job. Its id is a count: the
 * same daemon may get the same job again. described: the job, where its slice begins; else NULL. */
static void write_async(struct chrome *chrome, const char *phase, uint64_t at_ns, const char *name,
                        const struct trace_job *described)
{
    char id[TEXT_DIGITS_MAX + 1];
    struct writer *event = begin_event(chrome, phase, name, HOST_PID, 0);
    id[text_number(id, chrome->jobs)] = '\0';
    writer_text(event, "cat", "job");
    writer_text(event, "id", id);
    put_time(chrome, at_ns);
    if (described) {
        writer_open(event, "args", '{');
        writer_number(event, "attempt", described->attempt);
        writer_text(event, "end", described->end);
        writer_number(event, "width", described->width);
        writer_number(event, "height", described->height);
        writer_close(event, '}');
    }
    writer_close(event, '}');
    end_event(chrome, ",\n");
}

static void write_counter(struct chrome *chrome, const char *name, uint64_t at_ns, uint64_t value)
{
    struct writer *event = begin_event(chrome, "C", name, HOST_PID, 0);
    put_time(chrome, at_ns);
    writer_open(event, "args", '{');
    writer_number(event, "value", value);
    end_arguments(chrome, ",\n");
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
    log_warning("trace: %s has %" PRIu64 " bytes and trace_bytes_max is %" PRIu64
                ": later jobs are not recorded",
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
    char name[32];
    snprintf(name, sizeof name, "job %" PRIu64, job->number);
    write_async(chrome, "b", job->begin_ns, name, job);
    for (uint32_t i = 0; i < job->count; i++) {
        const struct trace_slice *slice = &job->slices[i];
        if (slice->track == TRACE_OF_JOB) {
            write_async(chrome, "b", slice->begin_ns, trace_names[slice->what], NULL);
            write_async(chrome, "e", slice->end_ns, trace_names[slice->what], NULL);
        } else {
            name_track(chrome, slice->track);
            write_slice(chrome, job, slice);
        }
    }
    write_async(chrome, "e", job->end_ns, name, NULL);
    for (size_t i = 0; i < 2; i++) {
        const struct trace_sample *sample = &job->samples[i];
        uint64_t at = sample->at_ns, last = chrome->counted_ns; /* jobs do not end in order */
        if (at == 0 || (at > last ? at - last : last - at) < COUNTER_NS)
            continue;
        chrome->counted_ns = at;
        write_counter(chrome, "in flight", at, sample->inflight);
        write_counter(chrome, "pinned bytes", at, sample->pinned_bytes);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Keeps the previous trace as NAME.old: after a crash it is the interesting one. */
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
        error_set(error, STATUS_WRITE_FAILED, "option trace is \"%s\", which is not a regular file",
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
    struct writer *event = begin_event(chrome, "i", "end of the trace", HOST_PID, 0);
    writer_text(event, "s", "g");
    put_time(chrome, clock_now_ns());
    writer_open(event, "args", '{');
    writer_number(event, "jobs", chrome->jobs);
    writer_number(event, "jobs left out", chrome->left_out);
    writer_number(event, "slices left out", chrome->slices_left_out);
    end_arguments(chrome, "\n]\n");
    chrome_flush(chrome);
    log_info("trace: %s has %" PRIu64 " jobs; %" PRIu64 " are missing", chrome->path, chrome->jobs,
             chrome->left_out);
    close(chrome->fd);
    free(chrome->event.text);
    free(chrome);
}
