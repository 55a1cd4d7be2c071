/*
 * redis.c - see redis.h.
 *
 * struct redis lives as long as its owner wants; each connection it makes is a struct link of its
 * own, which goes its way alone once it has been let go of: its handles close, and the last close
 * callback frees it. So no callback of an old connection can reach a new one.
 */
#include "queue/redis.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conf/list.h"
#include "conf/log.h"
#include "conf/text.h"
#include "queue/lookup.h"

#define READ_BYTES (64 * KIB)
#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS 5000
#define PASSWORD_BYTES_MAX 4096
#define KEEPALIVE_S 60
/* A large command has this much more time: Redis reads it, copies it and writes it to its
 * append-only file before it answers (32 MiB a second, a slow disk). */
#define SENT_BYTES_PER_MS (32 * KIB)
/* What is under way when the last of a command leaves says nothing of how fast the line is. */
#define SENT_BYTES_LEAST (64 * KIB)

struct redis {
    uv_loop_t *loop;
    struct redis_options options;
    struct redis_events events;
    struct link *link;       /* NULL between two tries */
    struct lookup *lookup;   /* of the host's name; a slow one outlives the try that began it */
    struct addrinfo *found;  /* what it found between two tries */
    bool up, closing;
    bool doubtful;           /* it was dropped, and has not shown since that it is of use */
    uv_timer_t retry;
    uint64_t backoff_ms;
    char said[ERROR_TEXT_MAX]; /* what the log was told last, so that it is told once */
    void (*closed)(void *context);
    void *closed_context;
};

/* A command whose answer is awaited. */
struct call {
    struct list_node node;
    redis_reply_cb callback;
    void *context;
    uint64_t timeout_ms;
    uint64_t deadline_ms;
};

struct link {
    struct redis *redis;     /* NULL once it was let go of */
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } at;
    bool stream_open;
    uv_timer_t timer;        /* of the connect, then of the oldest call */
    bool timer_open;
    uint64_t connect_end_ms;
    struct addrinfo *found, *next; /* the addresses, and the one that is tried */
    uv_connect_t connect;
    redisReader *reader;
    struct list calls;
    int64_t given_bytes;     /* to the stream, ever */
    int64_t sent_bytes;      /* of these had arrived when the timer last looked */
    char *read_buffer;
    char refusal[ERROR_TEXT_MAX]; /* the first error among the answers to AUTH, SELECT and PING */
};

struct write {
    uv_write_t request;
    char *command;
};

static void try_connect(struct redis *redis);
static void link_open(struct link *link);
static bool next_address(struct link *link);

/* ---- letting go of a link ----------------------------------------------------------------- */

static void link_free_when_closed(struct link *link)
{
    if (link->stream_open || link->timer_open)
        return;
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
    if (link->redis) /* the next of several addresses */
        link_open(link);
    else
        link_free_when_closed(link);
}

static void timer_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->timer_open = false;
    link_free_when_closed(link);
}

static void retry_cb(uv_timer_t *timer)
{
    try_connect(timer->data);
}

static void say_down(struct redis *redis, const char *reason)
{
    if (*redis->options.name && strcmp(redis->said, reason) != 0)
        log_warning("%s: %s; trying again", redis->options.name, reason);
    text_copy(redis->said, sizeof redis->said, reason);
}

/* Detaches the link: it closes by itself, what was sent on it gets NULL, and the next try is due
 * after the delay. */
static void let_go(struct redis *redis, const char *reason, uint64_t delay_ms)
{
    struct link *link = redis->link;
    char text[ERROR_TEXT_MAX];
    if (!link)
        return;
    text_copy(text, sizeof text, reason);
    redis->link = NULL;
    redis->up = false;
    link->redis = NULL;
    if (link->stream_open && !uv_is_closing(&link->at.handle))
        uv_close(&link->at.handle, stream_closed);
    uv_close((uv_handle_t *)&link->timer, timer_closed);
    if (!redis->closing) {
        say_down(redis, text);
        uv_timer_start(&redis->retry, retry_cb, delay_ms, 0);
        redis->events.down(redis->events.context, text);
    }
    struct list_node *node;
    while ((node = list_pop(&link->calls)) != NULL) {
        struct call *call = container_of(node, struct call, node);
        if (call->callback)
            call->callback(call->context, NULL);
        free(call);
    }
}

static uint64_t next_backoff(struct redis *redis)
{
    uint64_t now_ms = redis->backoff_ms;
    redis->backoff_ms = now_ms * 2 < BACKOFF_LAST_MS ? now_ms * 2 : BACKOFF_LAST_MS;
    return (uint64_t)((double)now_ms * (0.75 + 0.25 * erand48(redis->options.dice)));
}

__attribute__((format(printf, 2, 3))) static void fail(struct redis *redis, const char *format,
                                                       ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_printable(text);
    let_go(redis, text, next_backoff(redis));
}

static void fail_auth(struct redis *redis, const char *text)
{
    let_go(redis, text, (uint64_t)ceil(redis->options.auth_retry_s * 1000));
}

/* ---- timeouts ----------------------------------------------------------------------------- */

/* Bytes of commands that have arrived: neither libuv nor, on TCP, the socket holds them. */
static int64_t sent_bytes(struct link *link)
{
    int fd, held = 0;
    if (!link->redis->options.address.is_unix && uv_fileno(&link->at.handle, &fd) == 0 &&
        ioctl(fd, SIOCOUTQ, &held) != 0)
        held = 0;
    return link->given_bytes - (int64_t)uv_stream_get_write_queue_size(&link->at.stream) - held;
}

/* Looks whether a large command is still on its way, or was a moment ago. */
static bool line_moves(struct link *link)
{
    int64_t sent = sent_bytes(link), moved = sent - link->sent_bytes;
    link->sent_bytes = sent;
    return moved > 0 && (sent < link->given_bytes || moved > (int64_t)SENT_BYTES_LEAST);
}

static void connect_timed_out(struct link *link)
{
    struct redis *redis = link->redis;
    double timeout_s = redis->options.connect_timeout_s;
    if (!redis->options.address.is_unix && !link->found)
        fail(redis, "the name %s is not found within %g s", redis->options.address.host, timeout_s);
    else if (!next_address(link))
        fail(redis, "no connection within %g s", timeout_s);
}

static void timer_cb(uv_timer_t *timer)
{
    struct link *link = timer->data;
    struct redis *redis = link->redis;
    struct list_node *first = list_first(&link->calls);
    if (!redis)
        return;
    if (!first) {
        if (!redis->up)
            connect_timed_out(link);
        return;
    }
    struct call *call = container_of(first, struct call, node);
    uint64_t now = uv_now(redis->loop);
    if (line_moves(link))
        call->deadline_ms = now + call->timeout_ms;
    if (now >= call->deadline_ms)
        fail(redis, "no answer within %g s", (double)call->timeout_ms / 1000);
    else
        uv_timer_start(&link->timer, timer_cb, call->deadline_ms - now, 0);
}

/* Looks at the oldest call: answers come in the order of the commands. */
static void watch_calls(struct link *link)
{
    struct list_node *first = list_first(&link->calls);
    if (!first) {
        uv_timer_stop(&link->timer);
        return;
    }
    struct call *call = container_of(first, struct call, node);
    uint64_t now = uv_now(link->redis->loop);
    link->sent_bytes = sent_bytes(link);
    uv_timer_start(&link->timer, timer_cb, call->deadline_ms > now ? call->deadline_ms - now : 0,
                   0);
}

/* ---- commands and replies ----------------------------------------------------------------- */

static void written(uv_write_t *request, int status)
{
    struct write *write = request->data;
    (void)status; /* a failed write shows itself as an end of reading */
    redisFreeCommand(write->command);
    free(write);
}

static bool send_call(struct link *link, int argc, const char **argv, const size_t *lengths,
                           uint64_t timeout_ms, redis_reply_cb callback, void *context)
{
    struct call *call = calloc(1, sizeof *call);
    struct write *write = calloc(1, sizeof *write);
    char *command = NULL;
    long long bytes = call && write ? redisFormatCommandArgv(&command, argc, argv, lengths) : -1;
    if (bytes < 0) {
        free(call);
        free(write);
        return false;
    }
    write->command = command;
    write->request.data = write;
    uv_buf_t buffer = uv_buf_init(command, (unsigned)bytes);
    if (uv_write(&write->request, &link->at.stream, &buffer, 1, written) != 0) {
        redisFreeCommand(command);
        free(call);
        free(write);
        return false;
    }
    call->callback = callback;
    call->context = context;
    call->timeout_ms = timeout_ms + (uint64_t)bytes / SENT_BYTES_PER_MS;
    call->deadline_ms = uv_now(link->redis->loop) + call->timeout_ms;
    link->given_bytes += bytes;
    list_push(&link->calls, &call->node);
    if (link->calls.length == 1)
        watch_calls(link);
    return true;
}

bool redis_send(struct redis *redis, int argc, const char **argv, const size_t *lengths,
                double timeout_s, redis_reply_cb callback, void *context)
{
    if (!redis->up)
        return false;
    timeout_s = timeout_s > 0 ? timeout_s : redis->options.command_timeout_s;
    return send_call(redis->link, argc, argv, lengths, (uint64_t)ceil(timeout_s * 1000),
                     callback, context);
}

/* Hands one reply to whoever waits for it; false when the link is no more. */
static bool deliver(struct link *link, redisReply *reply)
{
    struct list_node *node = list_pop(&link->calls);
    if (!node) {
        freeReplyObject(reply);
        fail(link->redis, "an answer that nothing was asked for");
        return false;
    }
    struct call *call = container_of(node, struct call, node);
    if (!list_empty(&link->calls)) { /* its time begins when what was before it is through */
        struct call *next = container_of(list_first(&link->calls), struct call, node);
        next->deadline_ms = uv_now(link->redis->loop) + next->timeout_ms;
    }
    watch_calls(link);
    if (call->callback)
        call->callback(call->context, reply);
    freeReplyObject(reply);
    free(call);
    return link->redis != NULL;
}

static void parse(struct link *link)
{
    void *reply;
    for (;;) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            fail(link->redis, "not the Redis protocol: %s", link->reader->errstr);
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

static void read_cb(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer)
{
    struct link *link = stream->data;
    if (!link->redis || bytes == 0)
        return;
    if (bytes < 0) {
        fail(link->redis, bytes == UV_EOF ? "the server closed the connection%s" : "%s",
             bytes == UV_EOF ? "" : uv_strerror((int)bytes));
        return;
    }
    if (redisReaderFeed(link->reader, buffer->base, (size_t)bytes) != REDIS_OK) {
        fail(link->redis, "out of memory for an answer");
        return;
    }
    struct list_node *first = list_first(&link->calls);
    if (first) { /* bytes of an answer are a sign of life */
        struct call *call = container_of(first, struct call, node);
        call->deadline_ms = uv_now(link->redis->loop) + call->timeout_ms;
    }
    parse(link);
}

/* ---- AUTH, SELECT, PING ------------------------------------------------------------------- */

/* The file's text without its last line break; NULL with `reason` set. Read at each connect, so
 * that a changed password needs no restart. */
static char *read_password(const char *path, char *reason, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(PASSWORD_BYTES_MAX) : NULL;
    ssize_t length = text ? read(fd, text, PASSWORD_BYTES_MAX - 1) : -1;
    if (length < 0) {
        snprintf(reason, size, "cannot read the password file %.200s: %s", path,
                 strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[length] = '\0';
        text[strcspn(text, "\r\n")] = '\0';
    }
    if (fd >= 0)
        close(fd);
    return text;
}

static void say_up(struct redis *redis)
{
    redis->doubtful = false;
    redis->backoff_ms = BACKOFF_FIRST_MS;
    redis->said[0] = '\0';
    if (*redis->options.name)
        log_info("%s: connected", redis->options.name);
}

static void greeted(void *context, redisReply *reply)
{
    struct link *link = context;
    if (!reply || !link->redis)
        return;
    if (reply->type == REDIS_REPLY_ERROR && !*link->refusal &&
        !(list_empty(&link->calls) && redis_error_is(reply->str, "NOPERM")))
        text_copy(link->refusal, sizeof link->refusal, reply->str);
    if (!list_empty(&link->calls))
        return;
    struct redis *redis = link->redis;
    if (*link->refusal) {
        text_make_printable(link->refusal);
        if (redis_refusal(link->refusal) == REDIS_REFUSAL_AUTH)
            fail_auth(redis, link->refusal);
        else
            fail(redis, "%s", link->refusal);
        return;
    }
    redis->up = true;
    if (!redis->doubtful)
        say_up(redis);
    redis->events.up(redis->events.context);
}

static bool greet(struct link *link, int argc, const char **argv)
{
    size_t lengths[3];
    for (int i = 0; i < argc; i++)
        lengths[i] = strlen(argv[i]);
    double timeout_s = link->redis->options.connect_timeout_s;
    return send_call(link, argc, argv, lengths, (uint64_t)ceil(timeout_s * 1000), greeted, link);
}

static void start_greeting(struct link *link)
{
    struct redis *redis = link->redis;
    const struct redis_options *options = &redis->options;
    char reason[ERROR_TEXT_MAX], number[16];
    bool ok = true;
    if (options->password_file && *options->password_file) {
        char *password = read_password(options->password_file, reason, sizeof reason);
        if (!password) {
            fail_auth(redis, reason);
            return;
        }
        if (options->username && *options->username)
            ok = greet(link, 3, (const char *[]){"AUTH", options->username, password});
        else
            ok = greet(link, 2, (const char *[]){"AUTH", password});
        explicit_bzero(password, strlen(password));
        free(password);
    }
    if (ok && options->database > 0) {
        snprintf(number, sizeof number, "%u", options->database);
        ok = greet(link, 2, (const char *[]){"SELECT", number});
    }
    if (!ok || !greet(link, 1, (const char *[]){"PING"}))
        fail(redis, "the connection broke while it was made");
}

/* ---- connecting --------------------------------------------------------------------------- */

/* The address that was tried is no good: goes on to the next one, if there is one. */
static bool next_address(struct link *link)
{
    if (!link->next || !link->next->ai_next)
        return false;
    link->next = link->next->ai_next;
    uv_timer_stop(&link->timer);
    uv_close(&link->at.handle, stream_closed); /* and from there link_open */
    return true;
}

/* The addresses that are left share the time that is left. */
static void start_connect_timer(struct link *link)
{
    uint64_t now = uv_now(link->redis->loop), count = 1;
    uint64_t left_ms = link->connect_end_ms > now ? link->connect_end_ms - now : 0;
    for (struct addrinfo *at = link->next; at && at->ai_next; at = at->ai_next)
        count++;
    uv_timer_start(&link->timer, timer_cb, left_ms / count, 0);
}

static void connected(uv_connect_t *request, int status)
{
    struct link *link = request->data;
    struct redis *redis = link->redis;
    if (!redis || uv_is_closing(&link->at.handle)) /* it took too long */
        return;
    if (status != 0) {
        if (!next_address(link))
            fail(redis, "cannot connect: %s", uv_strerror(status));
        return;
    }
    if (!redis->options.address.is_unix) {
        uv_tcp_nodelay(&link->at.tcp, 1);
        uv_tcp_keepalive(&link->at.tcp, 1, KEEPALIVE_S);
    }
    link->reader = redisReaderCreate();
    if (!link->reader || uv_read_start(&link->at.stream, alloc_cb, read_cb) != 0) {
        fail(redis, "out of memory for a connection");
        return;
    }
    start_greeting(link);
}

/* Opens the stream and connects it, to the socket or to the address that is next. */
static void link_open(struct link *link)
{
    struct redis *redis = link->redis;
    bool is_unix = redis->options.address.is_unix;
    int status = is_unix ? uv_pipe_init(redis->loop, &link->at.pipe, 0)
                         : uv_tcp_init(redis->loop, &link->at.tcp);
    link->at.handle.data = link;
    link->connect.data = link;
    link->stream_open = status == 0;
    if (status == 0) {
        start_connect_timer(link);
        if (is_unix)
            uv_pipe_connect(&link->connect, &link->at.pipe, redis->options.address.host,
                            connected);
        else
            status = uv_tcp_connect(&link->connect, &link->at.tcp, link->next->ai_addr, connected);
    }
    if (status != 0 && !(link->stream_open && next_address(link)))
        fail(redis, "cannot connect: %s", uv_strerror(status));
}

static uint64_t connect_timeout_ms(const struct redis *redis)
{
    return (uint64_t)ceil(redis->options.connect_timeout_s * 1000);
}

static void use_addresses(struct link *link)
{
    struct redis *redis = link->redis;
    link->found = link->next = redis->found;
    redis->found = NULL;
    link->connect_end_ms = uv_now(redis->loop) + connect_timeout_ms(redis);
    link_open(link);
}

static void looked_up(void *context, struct addrinfo *found, const char *reason)
{
    struct redis *redis = context;
    redis->lookup = NULL;
    redis->found = found; /* without a link: for the next one */
    if (redis->link && found)
        use_addresses(redis->link);
    else if (redis->link)
        fail(redis, "the name %s is not found: %s", redis->options.address.host, reason);
}

static void look_up(struct redis *redis)
{
    const struct redis_address *address = &redis->options.address;
    if (!redis->lookup)
        redis->lookup = lookup_start(redis->loop, address->host, address->port, looked_up, redis);
    if (!redis->lookup)
        fail(redis, "the name %s cannot be looked up: no memory or threads", address->host);
}

static void try_connect(struct redis *redis)
{
    struct link *link = calloc(1, sizeof *link);
    char *buffer = malloc(READ_BYTES);
    assert(!redis->link);
    if (redis->closing || !link || !buffer) {
        free(link);
        free(buffer);
        if (!redis->closing)
            uv_timer_start(&redis->retry, retry_cb, BACKOFF_LAST_MS, 0);
        return;
    }
    redis->link = link;
    link->redis = redis;
    link->read_buffer = buffer;
    list_init(&link->calls);
    uv_timer_init(redis->loop, &link->timer);
    link->timer.data = link;
    link->timer_open = true;
    uv_update_time(redis->loop);
    link->connect_end_ms = uv_now(redis->loop) + connect_timeout_ms(redis);
    uv_timer_start(&link->timer, timer_cb, connect_timeout_ms(redis), 0);
    if (redis->options.address.is_unix)
        link_open(link);
    else if (redis->found)
        use_addresses(link);
    else
        look_up(redis);
}

/* ---- the owner's side --------------------------------------------------------------------- */

static char *copy(const char *text)
{
    return strdup(text ? text : "");
}

struct redis *redis_create(uv_loop_t *loop, const struct redis_options *options,
                           const struct redis_events *events)
{
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    redis->loop = loop;
    redis->options = *options;
    redis->options.name = copy(options->name);
    redis->options.username = copy(options->username);
    redis->options.password_file = copy(options->password_file);
    redis->events = *events;
    redis->backoff_ms = BACKOFF_FIRST_MS;
    uv_timer_init(loop, &redis->retry);
    redis->retry.data = redis;
    return redis;
}

void redis_start(struct redis *redis)
{
    try_connect(redis);
}

bool redis_up(const struct redis *redis)
{
    return redis->up;
}

void redis_good(struct redis *redis)
{
    if (redis->up && redis->doubtful)
        say_up(redis);
}

void redis_drop(struct redis *redis, const char *reason)
{
    redis->doubtful = true;
    let_go(redis, reason, next_backoff(redis));
}

static void retry_closed(uv_handle_t *handle)
{
    struct redis *redis = handle->data;
    void (*closed)(void *context) = redis->closed;
    void *context = redis->closed_context;
    if (redis->found)
        freeaddrinfo(redis->found);
    free((char *)redis->options.name);
    free((char *)redis->options.username);
    free((char *)redis->options.password_file);
    free(redis);
    closed(context);
}

void redis_close(struct redis *redis, void (*closed)(void *context), void *context)
{
    redis->closing = true;
    redis->closed = closed;
    redis->closed_context = context;
    lookup_drop(redis->lookup);
    redis->lookup = NULL;
    let_go(redis, "closing", 0);
    uv_close((uv_handle_t *)&redis->retry, retry_closed);
}
