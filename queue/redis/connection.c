/* connection.c - makes a link to the server that the route names, and a new one when it breaks. */
#include "queue/redis/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/redis/link.h"
#include "queue/redis/lookup.h"
#include "queue/redis/route.h"

/* The pause before a reconnect begins at the first value and doubles up to the second one. */
#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS 5000
/* The longest pause before a change to another server: spreads the daemons after a failover. */
#define SWITCH_MS          100
#define PASSWORD_BYTES_MAX 4096

struct redis {
    uv_loop_t *loop;
    struct redis_options options;
    struct redis_events events;
    struct route_member member;
    struct redis_endpoint at; /* the server of the current or last link */
    struct link *link;        /* NULL between two attempts to connect */
    struct lookup *lookup;    /* of at.host, or NULL; a slow one may last for several attempts */
    struct addrinfo *found;   /* result of a lookup that ended between two attempts, or NULL */
    bool up, closing;
    bool awaits_route;       /* the next attempt waits until the route knows the server */
    bool suspect;            /* redis_drop or a new route has given up a link, and
                                redis_mark_healthy was not called since */
    uv_timer_t retry;        /* the pause before the next attempt */
    uint64_t backoff_ms;     /* length of the next pause, before randomization */
    uint64_t up_ms;          /* when the connection last came up, uv_now */
    char refusal[ERROR_TEXT_MAX];     /* why the handshake failed first; else "" */
    char last_logged[ERROR_TEXT_MAX]; /* the last reason that was logged */
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- down --------------------------------------------------------------------------------- */

static void retry_cb(uv_timer_t *timer)
{
    redis_start(timer->data);
}

/* Logs a reason once, even if several servers give it in turn. */
static void log_down(struct redis *redis, const char *reason, uint64_t delay_ms)
{
    char endpoint[REDIS_ENDPOINT_TEXT_MAX], again[40] = "trying again";
    bool known = strcmp(redis->last_logged, reason) == 0;
    text_copy(redis->last_logged, sizeof redis->last_logged, reason);
    if (!redis->options.logs || known)
        return;
    const char *advice = redis_advice(reason), *name = redis->options.conf->redis;
    const char *log_prefix = redis->options.log_prefix ? redis->options.log_prefix : "";
    if (delay_ms > BACKOFF_LAST_MS) /* uncovered: refusal */
        snprintf(again, sizeof again, "trying again each %.3g s", (double)delay_ms / 1e3);
    redis_endpoint_text(&redis->at, endpoint, sizeof endpoint);
    if (route_varies(redis->options.route) && !redis->awaits_route)
        log_warning("%sRedis at %s: %s: %s%s; %s", log_prefix, name, endpoint, reason, advice,
                    again);
    else
        log_warning("%sRedis at %s: %s%s; %s", log_prefix, name, reason, advice, again);
}

/* Closes the link, answers its commands with NULL, and schedules the next attempt. */
static void detach_link(struct redis *redis, const char *reason, uint64_t delay_ms)
{
    struct link *link = redis->link;
    char text[ERROR_TEXT_MAX];
    if (!link)
        return;
    text_copy(text, sizeof text, reason);
    redis->link = NULL;
    redis->up = false;
    link_close(link);
    if (!redis->closing) {
        log_down(redis, text, delay_ms);
        uv_timer_start(&redis->retry, retry_cb, delay_ms, 0);
        redis->events.down(redis->events.context, text);
    }
    link_cancel_calls(link);
}

/* Returns the next pause. It is random, so that daemons that lost the same Redis do not reconnect
 * at the same moment. After a connection that lasted 2 x BACKOFF_LAST_MS, pauses are short again.
 */
static uint64_t next_backoff(struct redis *redis)
{
    if (redis->up && uv_now(redis->loop) - redis->up_ms >= 2 * BACKOFF_LAST_MS)
        redis_reset_backoff(redis);
    uint64_t now_ms = redis->backoff_ms;
    redis->backoff_ms = now_ms * 2 < BACKOFF_LAST_MS ? now_ms * 2 : BACKOFF_LAST_MS;
    return (uint64_t)((double)now_ms * (0.25 + 0.75 * erand48(redis->options.random_state)));
}

static void broken(void *context, const char *reason)
{
    struct redis *redis = context;
    route_failed(redis->options.route, &redis->at, redis->up);
    detach_link(redis, reason, next_backoff(redis));
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
    broken(redis, text);
}

static void fail_auth(struct redis *redis, const char *text)
{
    detach_link(redis, text, (uint64_t)ceil(redis->options.conf->auth_retry_s * 1000));
}

/* Reconnects to the current server of the route: within SWITCH_MS if the old connection was
 * healthy, else after the backoff. */
static void switch_server(struct redis *redis, const char *reason)
{
    uint64_t delay_ms = redis->suspect
                            ? next_backoff(redis)
                            : (uint64_t)(SWITCH_MS * erand48(redis->options.random_state));
    redis->suspect = true;
    detach_link(redis, reason, delay_ms);
}

/* ---- the route ---------------------------------------------------------------------------- */

static void route_changed(void *context)
{
    struct redis *redis = context;
    char endpoint[REDIS_ENDPOINT_TEXT_MAX], text[ERROR_TEXT_MAX];
    struct redis_endpoint here;
    if (redis->closing || !route_server(redis->options.route, &here)) /* uncovered: moment */
        return;
    bool elsewhere = !redis_endpoint_equal(&here, &redis->at);
    if (redis->awaits_route) {
        redis_start(redis);
    } else if (elsewhere && !redis->link) {
        redis->backoff_ms = BACKOFF_FIRST_MS;
        uv_timer_start(&redis->retry, retry_cb, next_backoff(redis), 0);
    } else if (elsewhere) {
        redis_endpoint_text(&here, endpoint, sizeof endpoint);
        snprintf(text, sizeof text, "changing to %s", endpoint);
        switch_server(redis, text);
    }
}

static void route_unresolved(void *context, const char *reason)
{
    struct redis *redis = context;
    if (redis->closing || !redis->awaits_route) /* uncovered: sentinel */
        return;
    log_down(redis, reason, 0);
    redis->events.down(redis->events.context, reason);
}

/* Handles MOVED replies that the route accepts, and pub/sub messages if `pushed` is set. Returns
 * whether it has handled the reply. After MOVED the route closes the link to the old node, so
 * the command gets a NULL reply, as after a broken connection. */
static bool intercept(void *context, const redisReply *reply)
{
    struct redis *redis = context;
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "MOVED ", 6) == 0)
        return route_moved(redis->options.route, &redis->at, reply->str + 6);
    if (!redis->events.pushed || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "message") != 0)
        return false;
    redis->events.pushed(redis->events.context, reply);
    return true;
}

/* ---- the handshake: AUTH, SELECT, ROLE, PING ---------------------------------------------- */

/* Returns the first line of the file, malloc'd, or NULL with `reason` set. Each connect reads the
 * file, so that a new password needs no restart. */
static char *read_password(const char *path, char *reason, size_t size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    /* Only a regular file: another one, as a FIFO, may give no bytes yet, or never end. */
    bool regular = fd < 0 || fstat(fd, &info) != 0 || S_ISREG(info.st_mode);
    char *text = fd >= 0 && regular ? malloc(PASSWORD_BYTES_MAX) : NULL;
    ssize_t length = text ? read(fd, text, PASSWORD_BYTES_MAX - 1) : -1;
    if (length < 0) {
        snprintf(reason, size, "cannot read the password file %.200s: %s", path,
                 regular ? strerror(errno) : "it is no regular file");
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

bool redis_password_check(const char *path, struct error *error)
{
    char reason[ERROR_TEXT_MAX];
    char *password = read_password(path, reason, sizeof reason);
    if (!password)
        return error_refuse(error, "%s", reason);
    explicit_bzero(password, strlen(password));
    free(password);
    return true;
}

static void log_up(struct redis *redis)
{
    char endpoint[REDIS_ENDPOINT_TEXT_MAX];
    redis->suspect = false;
    redis->last_logged[0] = '\0';
    redis_endpoint_text(&redis->at, endpoint, sizeof endpoint);
    bool varies = route_varies(redis->options.route);
    if (redis->options.logs)
        log_info("%sRedis at %s: connected%s%s",
                 redis->options.log_prefix ? redis->options.log_prefix : "",
                 redis->options.conf->redis, varies ? " to " : "", varies ? endpoint : "");
}

static void finish_handshake(struct redis *redis)
{
    if (!link_is_idle(redis->link))
        return;
    if (*redis->refusal) {
        text_make_printable(redis->refusal);
        if (redis_refusal(redis->refusal) == REDIS_REFUSAL_AUTH)
            fail_auth(redis, redis->refusal);
        else
            fail(redis, "%s", redis->refusal);
        return;
    }
    redis->up = true;
    redis->up_ms = uv_now(redis->loop);
    if (!redis->suspect)
        log_up(redis);
    redis->events.up(redis->events.context);
}

/* Whether a reply of ROLE comes from a replica. A Sentinel may name an old master that has become
 * one. Replies of other handshake commands are no arrays. */
static bool is_replica(const redisReply *role)
{
    return role->type == REDIS_REPLY_ARRAY &&
           (role->elements == 0 || role->element[0]->type != REDIS_REPLY_STRING ||
            strcmp(role->element[0]->str, "master") != 0);
}

static void handshake_reply(void *context, redisReply *reply)
{
    struct redis *redis = context;
    if (!reply) /* uncovered: moment */
        return;
    bool is_ping = link_is_idle(redis->link); /* PING is the last one; an ACL may deny it */
    const char *why = "";
    if (reply->type == REDIS_REPLY_ERROR && !(is_ping && redis_error_is(reply->str, "NOPERM")))
        why = reply->str;
    else if (is_replica(reply)) /* uncovered: sentinel */
        why = "it is not the master";
    if (!*redis->refusal)
        text_copy(redis->refusal, sizeof redis->refusal, why);
    finish_handshake(redis);
}

static bool ask(struct redis *redis, double timeout_s, redis_reply_cb callback, void *context,
                const char *format, va_list args)
{
    char *command = NULL;
    int length = redisvFormatCommand(&command, format, args);
    bool sent = length > 0 && link_send(redis->link, command, (size_t)length, NULL,
                                        (uint64_t)ceil(timeout_s * 1000), callback, context);
    free(command);
    return sent;
}

__attribute__((format(printf, 2, 3))) static bool send_handshake(struct redis *redis,
                                                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool sent = ask(redis, redis->options.conf->connect_timeout_s, handshake_reply, redis, format,
                    args);
    va_end(args);
    return sent;
}

/* Sends AUTH with the user and the password of the URL or of the options, if there are any. Returns
 * false after a failure, which has closed the link. */
static bool send_auth(struct redis *redis)
{
    const struct options *conf = redis->options.conf;
    const struct redis_address *address = route_address(redis->options.route);
    bool is_sentinel = redis->options.is_sentinel, from_url = *address->password;
    const char *username = from_url      ? address->user
                           : is_sentinel ? conf->sentinel_username
                                         : conf->redis_username;
    const char *file = is_sentinel ? conf->sentinel_password_file : conf->redis_password_file;
    char reason[ERROR_TEXT_MAX];
    if (!from_url && (!file || !*file))
        return true;
    char *password =
        from_url ? strdup(address->password) : read_password(file, reason, sizeof reason);
    if (!password) {
        fail_auth(redis, from_url ? "out of memory for the password" : reason);
        return false;
    }
    bool sent = username && *username ? send_handshake(redis, "AUTH %s %s", username, password)
                                      : send_handshake(redis, "AUTH %s", password);
    explicit_bzero(password, strlen(password));
    free(password);
    if (!sent) /* uncovered: moment */
        fail(redis, "the connection broke while it was made");
    return sent;
}

static unsigned database_of(const struct redis *redis)
{
    long database = route_address(redis->options.route)->database;
    return redis->options.is_sentinel ? 0
           : database >= 0            ? (unsigned)database
                                      : (unsigned)redis->options.conf->redis_database;
}

static void connected(void *context)
{
    struct redis *redis = context;
    bool ok = true;
    redis->refusal[0] = '\0';
    if (!send_auth(redis))
        return;
    if (database_of(redis) > 0)
        ok = send_handshake(redis, "SELECT %u", database_of(redis));
    if (ok && route_requires_master(redis->options.route))
        ok = send_handshake(redis, "ROLE");
    if (!ok || !send_handshake(redis, "PING"))
        fail(redis, "the connection broke while it was made"); /* uncovered: moment */
}

/* ---- connecting --------------------------------------------------------------------------- */

static uint64_t connect_timeout_ms(const struct redis *redis)
{
    return (uint64_t)ceil(redis->options.conf->connect_timeout_s * 1000);
}

static void lookup_timed_out(void *context)
{
    struct redis *redis = context;
    fail(redis, "the name %s is not found within %g s", redis->at.host,
         redis->options.conf->connect_timeout_s);
}

static void use_addresses(struct redis *redis)
{
    struct addrinfo *found = redis->found;
    redis->found = NULL;
    link_open(redis->link, found, connect_timeout_ms(redis));
}

static void looked_up(void *context, struct addrinfo *found, const char *reason)
{
    struct redis *redis = context;
    redis->lookup = NULL;
    redis->found = found; /* if the attempt has ended already, for the next one */
    if (redis->link && found)
        use_addresses(redis);
    else if (redis->link)
        fail(redis, "the name %s is not found: %s", redis->at.host, reason);
}

static void look_up(struct redis *redis)
{
    if (!redis->lookup)
        redis->lookup = lookup_start(redis->loop, &redis->at, looked_up, redis);
    if (!redis->lookup) /* uncovered: memory */
        fail(redis, "the name %s cannot be looked up: no memory or threads", redis->at.host);
}

static void forget_addresses(struct redis *redis)
{
    lookup_drop(redis->lookup);
    redis->lookup = NULL;
    if (redis->found)
        freeaddrinfo(redis->found);
    redis->found = NULL;
}

void redis_start(struct redis *redis)
{
    const struct link_events events = {redis, connected, broken, lookup_timed_out, intercept};
    struct redis_endpoint here;
    assert(!redis->link);
    if (redis->closing)
        return;
    redis->awaits_route = !route_server(redis->options.route, &here);
    if (redis->awaits_route)
        return;
    if (!redis_endpoint_equal(&here, &redis->at))
        forget_addresses(redis);
    redis->at = here;
    redis->link = link_new(redis->loop, &events, connect_timeout_ms(redis));
    if (redis->link && route_address(redis->options.route)->tls)
        link_use_tls(redis->link, redis->options.conf, redis->at.host);
    if (!redis->link) /* uncovered: memory */
        uv_timer_start(&redis->retry, retry_cb, BACKOFF_LAST_MS, 0);
    else if (here.is_unix)
        link_open_socket(redis->link, here.host);
    else if (redis->found) /* uncovered: sentinel */
        use_addresses(redis);
    else
        look_up(redis);
}

/* ---- the interface ------------------------------------------------------------------------ */

struct redis *redis_create(uv_loop_t *loop, const struct redis_options *options,
                           const struct redis_events *events)
{
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis) /* uncovered: memory */
        return NULL;
    redis->loop = loop;
    redis->options = *options;
    redis->events = *events;
    redis->member = (struct route_member){
        .context = redis, .changed = route_changed, .unresolved = route_unresolved};
    route_join(options->route, &redis->member);
    redis->backoff_ms = BACKOFF_FIRST_MS;
    uv_timer_init(loop, &redis->retry);
    redis->retry.data = redis;
    return redis;
}

static double timeout(const struct redis *redis, double timeout_s)
{
    return timeout_s > 0 ? timeout_s : redis->options.conf->command_timeout_s;
}

bool redis_send(struct redis *redis, const char *command, size_t length,
                const struct link_body *body, double timeout_s, redis_reply_cb callback,
                void *context)
{
    return redis->up && link_send(redis->link, command, length, body,
                                  (uint64_t)ceil(timeout(redis, timeout_s) * 1000), callback,
                                  context);
}

bool redis_ask(struct redis *redis, double timeout_s, redis_reply_cb callback, void *context,
               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool sent = redis->up && ask(redis, timeout(redis, timeout_s), callback, context, format, args);
    va_end(args);
    return sent;
}

bool redis_up(const struct redis *redis)
{
    return redis->up;
}

void redis_mark_healthy(struct redis *redis)
{
    if (redis->up && redis->suspect)
        log_up(redis);
}

void redis_reset_backoff(struct redis *redis)
{
    redis->backoff_ms = BACKOFF_FIRST_MS;
}

void redis_drop(struct redis *redis, const char *reason)
{
    route_failed(redis->options.route, &redis->at, false);
    switch_server(redis, reason);
}

static void retry_closed(uv_handle_t *handle)
{
    struct redis *redis = handle->data;
    void (*closed)(void *context) = redis->closed;
    void *context = redis->closed_context;
    free(redis);
    closed(context);
}

void redis_close(struct redis *redis, void (*closed)(void *context), void *context)
{
    redis->closing = true;
    redis->closed = closed;
    redis->closed_context = context;
    route_leave(redis->options.route, &redis->member);
    forget_addresses(redis);
    detach_link(redis, "closing", 0);
    uv_close((uv_handle_t *)&redis->retry, retry_closed);
}
