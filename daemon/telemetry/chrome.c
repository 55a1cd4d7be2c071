#include "daemon/telemetry/chrome.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "conf/text.h"

#define PAGE_BYTES   4096
/* The buffer is written when it has this much. It then has room for one event more, and for the
 * newlines that move this event to the next page. */
#define FLUSH_BYTES  (64 * 1024)
#define BUFFER_BYTES (FLUSH_BYTES + PAGE_BYTES + EVENT_MAX)
/* The longest event: about 150 bytes of keys, six numbers, and names of at most 400 bytes. */
#define EVENT_MAX 1024
/* No event of a job is longer: its numbers have at most 20 digits, its names 13 letters. */
#define EVENT_USUAL 384
/* The most events of a job: TRACE_SLICES_MAX slices, with a name for each worker or stream. */
#define JOB_EVENTS_MAX (4 * TRACE_SLICES_MAX + 8)
/* Reserved for the event that ends the trace. */
#define TAIL_BYTES (2 * EVENT_MAX)

/* Room for the ids of the client's trace as members of an event. */
#define CONTEXT_BYTES 96

/* Room for a name of the host or of a device: its first 120 bytes, escaped for JSON. */
#define FOREIGN_BYTES 242

#define HOST_PID 1
#define DEVICE_PID(device) (2 + (device))

/* Samples of the jobs in flight and of the pinned memory are at least this far apart. */
#define COUNTER_NS 1000000

static_assert(EVENT_MAX <= PAGE_BYTES, "an event fits a page");

struct chrome {
    int fd;
    const char *path;
    const struct trace_config *config;
    uint64_t written;    /* bytes in the file */
    size_t used;         /* bytes in the buffer */
    uint64_t counted_ns; /* time of the last samples: COUNTER_NS */
    uint64_t jobs, left_out, slices_left_out;
    bool full;                  /* bytes_max is reached */
    bool failed;                /* a write has failed */
    uint8_t named[0x10000 / 8]; /* one bit per track (trace_job.h): its name is written */
    char buffer[BUFFER_BYTES];
};

/* ---- file ----------------------------------------------------------------------------------- */

/* Writes the buffer. If that fails, cuts the file after its last whole event and writes no more
 * events. */
void chrome_flush(struct chrome *chrome)
{
    if (chrome->used == 0 || chrome->failed) {
        chrome->used = 0;
        return;
    }
    ssize_t written = write(chrome->fd, chrome->buffer, chrome->used);
    if (written != (ssize_t)chrome->used) { /* uncovered: service (tests/coverage/reasons.txt) */
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

/* ---- events --------------------------------------------------------------------------------- */

/* The format counts in microseconds; the three decimals are the nanoseconds. */
#define US        "%" PRIu64 ".%03" PRIu64
#define US_OF(ns) (ns) / 1000, (ns) % 1000

/* Writes an event. Single quotes in the format become double quotes. An event that
 * would cross a page boundary starts on the next page. */
static void put_event(struct chrome *chrome, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put_event(struct chrome *chrome, const char *format, ...)
{
    char quoted[EVENT_MAX], *event = chrome->buffer + chrome->used;
    size_t left = PAGE_BYTES - (size_t)((chrome->written + chrome->used) % PAGE_BYTES);
    text_copy(quoted, sizeof quoted, format);
    for (char *at = quoted; (at = strchr(at, '\''));)
        *at = '"';
    va_list args;
    va_start(args, format);
    size_t length = (size_t)vsnprintf(event, EVENT_MAX, quoted, args);
    va_end(args);
    assert(length < EVENT_MAX);
    if (length > left) {
        memmove(event + left, event, length);
        memset(event, '\n', left);
        chrome->used += left;
    }
    chrome->used += length;
    if (chrome->used >= FLUSH_BYTES)
        chrome_flush(chrome);
}

static uint64_t since_origin(const struct chrome *chrome, uint64_t at_ns)
{
    uint64_t origin_ns = chrome->config->origin_ns;
    return at_ns > origin_ns ? at_ns - origin_ns : 0;
}

static void name_process(struct chrome *chrome, unsigned pid, const char *name)
{
    put_event(chrome, "{'ph':'M','name':'process_name','pid':%u,'tid':0,'args':{'name':'%s'}},\n",
              pid, name);
}

/* Escapes a text for JSON. */
static const char *escaped(const char *text, char json[FOREIGN_BYTES])
{
    char plain[FOREIGN_BYTES / 2], *to = json;
    text_copy(plain, sizeof plain, text);
    text_make_printable(plain);
    for (const char *from = plain; *from; from++) {
        if (*from == '"' || *from == '\\')
            *to++ = '\\';
        *to++ = *from;
    }
    *to = '\0';
    return json;
}

static void write_head(struct chrome *chrome)
{
    char stamp[CLOCK_STAMP_BYTES], daemon[FOREIGN_BYTES], engine[FOREIGN_BYTES];
    clock_stamp(stamp);
    memcpy(chrome->buffer, "[\n", 2);
    chrome->used = 2;
    name_process(chrome, HOST_PID, "gpuimgd");
    for (uint32_t d = 0; d < chrome->config->devices; d++)
        name_process(chrome, DEVICE_PID(d), escaped(chrome->config->names[d], engine));
    put_event(chrome,
              "{'ph':'M','name':'gpuimgd','pid':%u,'tid':0,'args':{'version':'" GPUIMGD_VERSION
              "','daemon':'%s','engine':'%s','began':'%s'}},\n",
              HOST_PID, escaped(chrome->config->daemon, daemon),
              escaped(chrome->config->engine, engine), stamp);
}

/* Writes the ids of the client's trace as members of `args`, after `before`; "" without a trace. */
static const char *context_members(const struct trace_job *job, const char *before,
                                   char text[CONTEXT_BYTES])
{
    *text = '\0';
    if (*job->context.trace_id)
        snprintf(text, CONTEXT_BYTES, "%s\"trace_id\":\"%s\",\"parent_id\":\"%s\"", before,
                 job->context.trace_id, job->context.parent_id);
    return text;
}

/* Writes a slice of a worker or a stream, and the name of that track before its first slice. */
static void write_slice(struct chrome *chrome, const struct trace_job *job,
                        const struct trace_slice *slice)
{
    bool stream = TRACE_IS_STREAM(slice->track);
    char shard[24] = "", context[CONTEXT_BYTES];
    unsigned pid = stream ? DEVICE_PID(TRACE_DEVICE(slice->track)) : HOST_PID;
    unsigned tid = stream ? TRACE_STREAM(slice->track) + 1u : slice->track;
    uint8_t *named = &chrome->named[slice->track / 8], bit = (uint8_t)(1 << slice->track % 8);
    if (!(*named & bit))
        put_event(chrome,
                  "{'ph':'M','name':'thread_name','pid':%u,'tid':%u,'args':{'name':'%s %u'}},\n",
                  pid, tid, stream ? "stream" : "worker", tid - 1);
    *named |= bit;
    if (job->shards > 1)
        snprintf(shard, sizeof shard, ",\"shard\":%u", job->shard);
    put_event(chrome,
              "{'ph':'X','name':'%s','pid':%u,'tid':%u,'ts':" US ",'dur':" US
              ",'args':{'job':%" PRIu64 "%s%s}},\n",
              trace_names[slice->what], pid, tid, US_OF(since_origin(chrome, slice->begin_ns)),
              US_OF(slice->end_ns - slice->begin_ns), job->number, shard,
              context_members(job, ",", context));
}

/* Begins (phase "b") or ends ("e") an asynchronous slice of the current job. Its id is the count of
 * jobs, not the job's number, because the daemon may run the same job twice. arguments: further
 * members of the event, as JSON. */
static void write_async(struct chrome *chrome, const char *phase, uint64_t at_ns, const char *name,
                        const char *arguments)
{
    put_event(chrome,
              "{'ph':'%s','name':'%s','pid':%u,'tid':0,'cat':'job','id':'%" PRIu64 "','ts':" US
              "%s},\n", phase, name, HOST_PID, chrome->jobs,
              US_OF(since_origin(chrome, at_ns)), arguments);
}

static void write_counter(struct chrome *chrome, const char *name, uint64_t at_ns, uint64_t value)
{
    put_event(chrome,
              "{'ph':'C','name':'%s','pid':%u,'tid':0,'ts':" US ",'args':{'value':%" PRIu64
              "}},\n", name, HOST_PID, US_OF(since_origin(chrome, at_ns)), value);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static bool has_room(struct chrome *chrome)
{
    if (chrome->full || chrome->failed)
        return false;
    uint64_t need = JOB_EVENTS_MAX * EVENT_USUAL + TAIL_BYTES + PAGE_BYTES;
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
    char name[48], number[JOB_NAME_BYTES], context[CONTEXT_BYTES];
    char described[160 + CONTEXT_BYTES], waits[16 + CONTEXT_BYTES] = "";
    snprintf(name, sizeof name, "job %s", trace_job_name(job, number));
    snprintf(described, sizeof described,
             ",\"args\":{\"attempt\":%u,\"end\":\"%s\",\"width\":%u,\"height\":%u%s}", job->attempt,
             job->end, job->width, job->height, context_members(job, ",", context));
    if (*context)
        snprintf(waits, sizeof waits, ",\"args\":{%s}", context_members(job, "", context));
    write_async(chrome, "b", job->begin_ns, name, described);
    for (uint32_t i = 0; i < job->count; i++) {
        const struct trace_slice *slice = &job->slices[i];
        if (slice->track == TRACE_OF_JOB) {
            write_async(chrome, "b", slice->begin_ns, trace_names[slice->what], waits);
            write_async(chrome, "e", slice->end_ns, trace_names[slice->what], "");
        } else {
            write_slice(chrome, job, slice);
        }
    }
    write_async(chrome, "e", job->end_ns, name, "");
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

/* Renames an existing trace to NAME.old: after a crash and a restart, it shows what happened. */
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
    put_event(chrome, "{'ph':'i','name':'end of the trace','pid':%u,'tid':0,'s':'g','ts':" US
              ",'args':{'jobs':%" PRIu64 ",'jobs left out':%" PRIu64 ",'slices left out':%" PRIu64
              "}}\n]\n", HOST_PID, US_OF(since_origin(chrome, clock_now_ns())), chrome->jobs,
              chrome->left_out, chrome->slices_left_out);
    chrome_flush(chrome);
    log_info("trace: %s has %" PRIu64 " jobs; %" PRIu64 " are missing", chrome->path, chrome->jobs,
             chrome->left_out);
    close(chrome->fd);
    free(chrome);
}
