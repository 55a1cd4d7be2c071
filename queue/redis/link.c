#include "queue/redis/link.h"

#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "conf/limits.h"
#include "conf/list.h"
#include "conf/text.h"
#include "queue/redis/tls.h"

#define READ_BYTES (64 * KIB)
/* After a reply, hiredis keeps its buffer if it is at most this large. A reply to FETCH with small
 * jobs fits. */
#define REPLY_BYTES_KEPT (128 * KIB)
#define KEEPALIVE_S 60
/* A large command has more time: Redis reads it, copies it and appends it to the append-only file
 * before it replies. 32 MiB per second is the rate of a slow disk. */
#define SENT_BYTES_PER_MS (32 * KIB)
/* If a timer fires this late, this process was suspended, and the timeout starts again. */
#define SLEPT_MS 200
/* No more TLS records are made while this many bytes of them are not written. Up to a quarter and
 * one piece more can wait, because they are flushed in quarters (make_all_records). */
#define RECORDS_BYTES_MAX (256 * KIB)
/* Progress counts only if more bytes than this moved, or more are left. Otherwise it may be a small
 * command. */
#define SENT_BYTES_LEAST (64 * KIB)

/* A command without a reply yet. */
struct call {
    struct list_node node;
    link_reply_cb callback;
    void *context;
    uint64_t timeout_ms;
    uint64_t deadline_ms;
};

struct link {
    uv_loop_t *loop;
    struct link_events events;
    bool closing;            /* link_close was called */
    bool is_unix, connected;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } at;
    bool stream_open; /* `at` must still be closed, or its close callback is due */
    uv_timer_t timer; /* timeout of the connect, then of the oldest call */
    bool timer_open;  /* as stream_open */
    uint64_t connect_ms, connect_end_ms;
    struct addrinfo *found, *next; /* all addresses, and the one in use now: next_address goes on */
    uv_connect_t connect;
    redisReader *reader;
    struct list calls;
    const struct options *conf; /* conf to record_bytes are only used with TLS; else NULL or 0 */
    const char *host;
    struct tls *tls;         /* the session with the current address; NULL before the connect */
    struct list writes;      /* commands that are not TLS records yet */
    int64_t waiting_bytes;   /* of `writes` */
    size_t record_bytes;     /* of records in the stream's write queue */
    int64_t given_bytes;     /* of all commands so far */
    int64_t sent_bytes;      /* of given_bytes, delivered to the server at the last measurement */
    char *read_buffer;
};

/* A command that is not written completely. */
struct write {
    uv_write_t request;
    struct list_node node; /* in `writes`, with TLS */
    size_t length;         /* of `command` */
    size_t done;           /* bytes of command and body that are TLS records */
    struct link_body body;
    char command[];
};

/* TLS records that the stream is writing. */
struct records {
    uv_write_t request;
    size_t length;
    char bytes[];
};

static void open_next(struct link *link);
static bool next_address(struct link *link);
static void written(uv_write_t *request, int status);

/* ---- the end ------------------------------------------------------------------------------ */

static void free_when_closed(struct link *link)
{
    if (link->stream_open || link->timer_open)
        return;
    for (struct list_node *node; (node = list_pop(&link->writes));)
        written(&container_of(node, struct write, node)->request, UV_ECANCELED);
    tls_free(link->tls);
    if (link->reader)
        redisReaderFree(link->reader);
    if (link->found)
        freeaddrinfo(link->found);
    free(link->read_buffer);
    free(link);
}

static void stream_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->stream_open = false;
    if (link->closing)
        free_when_closed(link);
    else /* next_address closed it */
        open_next(link);
}

static void timer_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->timer_open = false;
    free_when_closed(link);
}

void link_close(struct link *link)
{
    link->closing = true;
    if (link->stream_open && !uv_is_closing(&link->at.handle))
        uv_close(&link->at.handle, stream_closed);
    uv_close((uv_handle_t *)&link->timer, timer_closed);
}

void link_cancel_calls(struct link *link)
{
    struct list_node *node;
    while ((node = list_pop(&link->calls)) != NULL) {
        struct call *call = container_of(node, struct call, node);
        if (call->callback)
            call->callback(call->context, NULL);
        free(call);
    }
}

__attribute__((format(printf, 2, 3))) static void fail(struct link *link, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_printable(text);
    link->events.broken(link->events.context, text);
}

static struct call *first_call(const struct link *link)
{
    struct list_node *first = list_first(&link->calls);
    return first ? container_of(first, struct call, node) : NULL;
}

/* ---- timeouts ----------------------------------------------------------------------------- */

/* Bytes of commands that were delivered to the server: those that neither this struct nor libuv
 * nor, on TCP, the kernel still buffers. With TLS, about: records are a little longer than the
 * commands, and those not flushed yet count as delivered. It serves only to see progress. */
static int64_t sent_bytes(struct link *link)
{
    int fd, held = 0;
    if (!link->is_unix && uv_fileno(&link->at.handle, &fd) == 0 &&
        ioctl(fd, SIOCOUTQ, &held) != 0) /* uncovered: promise */
        held = 0;
    return link->given_bytes - link->waiting_bytes -
           (int64_t)uv_stream_get_write_queue_size(&link->at.stream) - held;
}

/* Whether a large command made progress since the last measurement. A small command does not count:
 * the kernel of the server's host takes a new RENEW even if Redis hangs. */
static bool is_making_progress(struct link *link)
{
    int64_t sent = sent_bytes(link), moved = sent - link->sent_bytes;
    int64_t left = link->given_bytes - sent;
    link->sent_bytes = sent;
    return moved > 0 && (left > (int64_t)SENT_BYTES_LEAST || moved > (int64_t)SENT_BYTES_LEAST);
}

static void connect_timed_out(struct link *link)
{
    if (!link->stream_open && !link->found)
        link->events.lookup_timed_out(link->events.context);
    else if (!next_address(link)) /* uncovered: moment */
        fail(link,
             link->tls ? "no TLS handshake within %g s; does the server speak TLS on this port?"
                       : "no connection within %g s",
             (double)link->connect_ms / 1000);
}

static void timer_cb(uv_timer_t *timer)
{
    struct link *link = timer->data;
    struct call *call = first_call(link);
    if (link->closing) /* uncovered: memory */
        return;
    if (!call) {
        if (!link->connected)
            connect_timed_out(link);
        return;
    }
    uint64_t now = uv_now(link->loop);
    if (is_making_progress(link) || now > call->deadline_ms + SLEPT_MS)
        call->deadline_ms = now + call->timeout_ms;
    if (now >= call->deadline_ms)
        fail(link, "no answer within %g s", (double)call->timeout_ms / 1000);
    else
        uv_timer_start(&link->timer, timer_cb, call->deadline_ms - now, 0);
}

/* Restarts the timer for the oldest call. The others need none, because replies arrive in the order
 * of the commands. */
static void watch_calls(struct link *link)
{
    struct call *call = first_call(link);
    if (!call) {
        uv_timer_stop(&link->timer);
        return;
    }
    uint64_t now = uv_now(link->loop);
    link->sent_bytes = sent_bytes(link);
    uv_timer_start(&link->timer, timer_cb, call->deadline_ms > now ? call->deadline_ms - now : 0,
                   0);
}

static void restart_timeout(struct link *link)
{
    struct call *call = first_call(link);
    if (call)
        call->deadline_ms = uv_now(link->loop) + call->timeout_ms;
}

/* ---- commands and replies ----------------------------------------------------------------- */

static void written(uv_write_t *request, int status)
{
    struct write *write = container_of(request, struct write, request);
    (void)status; /* ignored: read_cb then gets an error as well, and calls fail() */
    if (write->body.release)
        write->body.release(write->body.context);
    free(write);
}

static void skip(uv_buf_t *part, size_t *bytes)
{
    size_t skipped = *bytes < part->len ? *bytes : part->len;
    *bytes -= skipped;
    part->base += skipped;
    part->len -= skipped;
}

/* Writes a command without TLS. uv_try_write comes first, because the socket usually takes all
 * bytes at once, and uv_write would cost two more system calls. */
static bool start_write(struct link *link, struct write *write, size_t length)
{
    const struct link_body *body = &write->body;
    uv_buf_t parts[] = {uv_buf_init(write->command, (unsigned)length),
                        uv_buf_init((char *)body->bytes, (unsigned)body->length)};
    int count = uv_try_write(&link->at.stream, parts, body->length > 0 ? 2 : 1);
    size_t done = count > 0 ? (size_t)count : 0; /* errors are ignored: see `written` */
    if (done == length + body->length) {
        written(&write->request, 0);
        return true;
    }
    skip(&parts[0], &done);
    skip(&parts[1], &done);
    return uv_write(&write->request, &link->at.stream, parts, 2, written) == 0;
}

/* ---- records of TLS ----------------------------------------------------------------------- */

static void make_all_records(struct link *link);

static void records_written(uv_write_t *request, int status)
{
    struct records *records = container_of(request, struct records, request);
    struct link *link = request->data;
    (void)status; /* ignored: read_cb then gets an error as well, and calls fail() */
    link->record_bytes -= records->length;
    free(records);
    if (!link->closing && link->connected)
        make_all_records(link);
}

/* Writes all records that TLS has made. */
static void flush_records(struct link *link)
{
    size_t length = tls_waiting(link->tls);
    struct records *records = length > 0 ? malloc(sizeof *records + length) : NULL;
    if (!records) /* nothing to write, or memory is short: the next flush tries again */
        return;
    records->length = length;
    records->request.data = link;
    tls_take(link->tls, records->bytes, length);
    uv_buf_t part = uv_buf_init(records->bytes, (unsigned)length);
    int count = uv_try_write(&link->at.stream, &part, 1);
    size_t done = count > 0 ? (size_t)count : 0;
    skip(&part, &done);
    link->record_bytes += length;
    if (part.len > 0 &&
        uv_write(&records->request, &link->at.stream, &part, 1, records_written) == 0)
        return;
    link->record_bytes -= length; /* written, or reading ends with the error */
    free(records);
}

/* Returns the length of the next piece of a command and its body, and sets *bytes to it. */
static size_t next_piece(const struct write *write, const char **bytes)
{
    bool in_body = write->done >= write->length;
    size_t at = in_body ? write->done - write->length : write->done;
    size_t left = (in_body ? write->body.length : write->length) - at;
    *bytes = (in_body ? write->body.bytes : write->command) + at;
    return left < TLS_PIECE_BYTES ? left : TLS_PIECE_BYTES;
}

/* Turns the next piece of a command into records. Returns false after a fault: the read callback
 * reports it, or the command times out. */
static bool make_records(struct link *link, struct write *write)
{
    const char *bytes;
    size_t length = next_piece(write, &bytes);
    if (!tls_write(link->tls, bytes, length))
        return false;
    write->done += length;
    link->waiting_bytes -= (int64_t)length;
    if (write->done == write->length + write->body.length) {
        list_remove(&link->writes, &write->node);
        written(&write->request, 0);
    }
    return true;
}

/* Turns commands into TLS records and writes them, until RECORDS_BYTES_MAX bytes of records wait: a
 * large body is then not in memory twice. records_written goes on with the rest. */
static void make_all_records(struct link *link)
{
    struct list_node *node;
    bool good = true;
    while (good && link->record_bytes < RECORDS_BYTES_MAX && (node = list_first(&link->writes))) {
        good = make_records(link, container_of(node, struct write, node));
        if (tls_waiting(link->tls) >= RECORDS_BYTES_MAX / 4)
            flush_records(link);
    }
    flush_records(link);
}

static bool start_tls_write(struct link *link, struct write *write)
{
    link->waiting_bytes += (int64_t)(write->length + write->body.length);
    list_push(&link->writes, &write->node);
    make_all_records(link);
    return true;
}

bool link_send(struct link *link, const char *command, size_t length, const struct link_body *body,
               uint64_t timeout_ms, link_reply_cb callback, void *context)
{
    static const struct link_body none;
    struct write *write = malloc(sizeof *write + length);
    struct call *call = calloc(1, sizeof *call);
    body = body ? body : &none;
    if (write && call) {
        write->body = *body;
        write->length = length;
        write->done = 0;
        memcpy(write->command, command, length);
        if (link->tls ? !start_tls_write(link, write)
                      : !start_write(link, write, length)) { /* uncovered: memory */
            free(call);
            call = NULL;
        }
    }
    if (!write || !call) { /* uncovered: memory */
        free(write);
        free(call);
        return false;
    }
    call->callback = callback;
    call->context = context;
    call->timeout_ms = timeout_ms + (length + body->length) / SENT_BYTES_PER_MS;
    call->deadline_ms = uv_now(link->loop) + call->timeout_ms;
    link->given_bytes += (int64_t)(length + body->length);
    list_push(&link->calls, &call->node);
    if (link->calls.length == 1)
        watch_calls(link);
    return true;
}

bool link_is_idle(const struct link *link)
{
    return list_empty(&link->calls);
}

/* Passes a reply to the oldest call. Returns false if the link was closed meanwhile. */
static bool deliver(struct link *link, redisReply *reply)
{
    if (link->events.intercept && link->events.intercept(link->events.context, reply)) {
        freeReplyObject(reply);
        return !link->closing;
    }
    struct call *call = first_call(link);
    if (!call) { /* uncovered: server */
        freeReplyObject(reply);
        fail(link, "the server sent a reply without a command");
        return false;
    }
    list_remove(&link->calls, &call->node);
    restart_timeout(link);
    watch_calls(link);
    if (call->callback)
        call->callback(call->context, reply);
    freeReplyObject(reply);
    free(call);
    return !link->closing;
}

static void parse(struct link *link)
{
    void *reply;
    for (;;) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) { /* uncovered: server */
            fail(link, "the server does not speak the Redis protocol: %s", link->reader->errstr);
            return;
        }
        if (!reply || !deliver(link, reply))
            return;
    }
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct link *link = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(link->read_buffer, READ_BYTES);
}

/* Returns false if the link was closed meanwhile. */
static bool take_replies(struct link *link, const char *bytes, size_t length)
{
    if (redisReaderFeed(link->reader, bytes, length) != REDIS_OK) {
        fail(link, "out of memory for a reply"); /* uncovered: memory */
        return false;
    }
    restart_timeout(link); /* a part of a reply is progress, too */
    parse(link);
    return !link->closing;
}

/* Goes on with the TLS handshake. Returns true when it is complete and the link is open. */
static bool shake_hands(struct link *link)
{
    struct error error = {0};
    bool complete = tls_handshake(link->tls, &error);
    flush_records(link); /* also after an error: an alert for the server */
    if (error.status != STATUS_OK) {
        fail(link, "%s", error.text);
    } else if (complete) {
        link->connected = true;
        link->events.connected(link->events.context);
    }
    return complete && !link->closing;
}

static void take_records(struct link *link, const uv_buf_t *buffer, size_t length)
{
    struct error error = {0};
    if (!tls_receive(link->tls, buffer->base, length)) { /* uncovered: memory */
        fail(link, "out of memory for a reply");
        return;
    }
    if (!link->connected && !shake_hands(link))
        return;
    /* The buffer is free again: TLS has copied the records. */
    for (size_t count; (count = tls_read(link->tls, link->read_buffer, READ_BYTES, &error)) > 0;)
        if (!take_replies(link, link->read_buffer, count))
            return;
    if (error.status != STATUS_OK)
        fail(link, "%s", error.text);
    else
        make_all_records(link); /* TLS itself may have made records */
}

static void read_cb(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer)
{
    struct link *link = stream->data;
    if (link->closing || bytes == 0) /* uncovered: memory */
        return;
    if (bytes < 0) {
        fail(link, bytes == UV_EOF ? "the server closed the connection%s" : "%s",
             bytes != UV_EOF                 ? uv_strerror((int)bytes)
             : link->tls && !link->connected ? " in the TLS handshake"
                                             : "");
        return;
    }
    if (link->tls)
        take_records(link, buffer, (size_t)bytes);
    else
        take_replies(link, buffer->base, (size_t)bytes);
}

/* ---- connecting --------------------------------------------------------------------------- */

/* Closes the stream to the current address, after which the next one is tried. Returns false if the
 * current address is the last one. */
static bool next_address(struct link *link)
{
    if (!link->next || !link->next->ai_next)
        return false;
    link->next = link->next->ai_next;
    uv_timer_stop(&link->timer);
    uv_close(&link->at.handle, stream_closed); /* which calls open_next */
    tls_free(link->tls);
    link->tls = NULL;
    return true;
}

static void start_connect_timer(struct link *link)
{
    uint64_t now = uv_now(link->loop), count = 1;
    uint64_t left_ms = link->connect_end_ms > now ? link->connect_end_ms - now : 0;
    for (struct addrinfo *at = link->next; at && at->ai_next; at = at->ai_next)
        count++;
    uv_timer_start(&link->timer, timer_cb, left_ms / count, 0);
}

static void start_tls(struct link *link)
{
    struct error error = {0};
    link->tls = tls_new(link->conf, link->host, &error);
    if (link->tls)
        shake_hands(link);
    else
        fail(link, "%s", error.text);
}

void link_use_tls(struct link *link, const struct options *conf, const char *host)
{
    link->conf = conf;
    link->host = host;
}

static void connected(uv_connect_t *request, int status)
{
    struct link *link = request->data;
    if (link->closing || uv_is_closing(&link->at.handle)) /* timed out before */
        return;
    if (status != 0) {
        if (!next_address(link))
            fail(link, "cannot connect: %s", uv_strerror(status));
        return;
    }
    if (!link->is_unix) {
        uv_tcp_nodelay(&link->at.tcp, 1);
        uv_tcp_keepalive(&link->at.tcp, 1, KEEPALIVE_S);
    }
    if (!link->reader && (link->reader = redisReaderCreate()))
        link->reader->maxbuf = REPLY_BYTES_KEPT;
    if (!link->reader || uv_read_start(&link->at.stream, alloc_cb, read_cb) != 0) {
        fail(link, "out of memory for a connection"); /* uncovered: memory */
        return;
    }
    if (link->conf) {
        start_tls(link);
    } else {
        link->connected = true;
        link->events.connected(link->events.context);
    }
}

static void open_next(struct link *link)
{
    int status = uv_tcp_init(link->loop, &link->at.tcp);
    link->at.handle.data = link;
    link->stream_open = status == 0;
    if (status == 0) {
        start_connect_timer(link);
        status = uv_tcp_connect(&link->connect, &link->at.tcp, link->next->ai_addr, connected);
    }
    if (status != 0 && !(link->stream_open && next_address(link))) /* uncovered: moment */
        fail(link, "cannot connect: %s", uv_strerror(status));
}

void link_open(struct link *link, struct addrinfo *addresses, uint64_t connect_ms)
{
    link->found = link->next = addresses;
    link->connect_ms = connect_ms;
    link->connect_end_ms = uv_now(link->loop) + connect_ms;
    open_next(link);
}

void link_open_socket(struct link *link, const char *path)
{
    int status = uv_pipe_init(link->loop, &link->at.pipe, 0);
    link->is_unix = true;
    link->at.handle.data = link;
    link->stream_open = status == 0;
    if (status == 0) /* `connected` reports errors */
        uv_pipe_connect(&link->connect, &link->at.pipe, path, connected);
    else
        fail(link, "cannot connect: %s", uv_strerror(status)); /* uncovered: moment */
}

struct link *link_new(uv_loop_t *loop, const struct link_events *events, uint64_t connect_ms)
{
    struct link *link = calloc(1, sizeof *link);
    char *buffer = malloc(READ_BYTES);
    if (!link || !buffer) { /* uncovered: memory */
        free(link);
        free(buffer);
        return NULL;
    }
    link->loop = loop;
    link->events = *events;
    link->read_buffer = buffer;
    link->connect.data = link;
    list_init(&link->calls);
    list_init(&link->writes);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    link->timer_open = true;
    link->connect_ms = connect_ms;
    uv_update_time(loop);
    uv_timer_start(&link->timer, timer_cb, connect_ms, 0);
    return link;
}
