#include "queue/redis/script.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/redis/command.h"
#include "queue/scripts.inc"

#define SHA1_DIGITS 40

static const struct {
    const char *name, *text;
    size_t length;
} scripts[SCRIPT_ID_COUNT] = {
#define X(script) [SCRIPT_ID_##script] = {#script, SCRIPT_##script, sizeof SCRIPT_##script - 1},
    SCRIPT_LIST(X)
#undef X
};

/* The SHA-1 of each script as SCRIPT LOAD returned it; "" before that. It depends on the text
 * alone, so all connections share it. */
static char sha1[SCRIPT_ID_COUNT][SHA1_DIGITS + 1];

/* The longest formatted key or argument: a namespace, a fixed part, and an id or INST. */
#define FORMAT_BYTES_MAX 640

struct script_call {
    enum script script;
    const char *ns;
    struct command command; /* the keys and arguments; send_as writes the words before them */
    size_t keys, arguments;
    unsigned holders;       /* references: the caller, and each write that is not complete */
    struct redis *redis;
    redis_reply_cb callback;
    void *context;
};

const char *script_name(enum script script)
{
    return scripts[script].name;
}

const char *script_text(enum script script)
{
    return scripts[script].text;
}

/* script_call_new returns this call if memory is short; script_call_send then fails. */
static struct script_call no_call = {.ns = "", .command.failed = true};

/* The buffers of the last calls of FETCH and DONE, for their next calls. Each free of a block of
 * this size makes malloc merge all of its small free blocks. */
#define SPARE_BYTES_MAX (64 * KIB)
static struct command spare[SCRIPT_ID_COUNT];

static void keep_buffer(struct script_call *call)
{
    struct command *kept = &spare[call->script];
    bool is_frequent = call->script == SCRIPT_ID_FETCH || call->script == SCRIPT_ID_DONE;
    if (!is_frequent || call->command.capacity > SPARE_BYTES_MAX || kept->text) {
        free(call->command.text);
        return;
    }
    *kept = (struct command){.text = call->command.text, .capacity = call->command.capacity};
}

static void leave(void *context)
{
    struct script_call *call = context;
    if (call == &no_call || --call->holders > 0) /* uncovered: memory */
        return;
    keep_buffer(call);
    free(call);
}

static void add_key(struct script_call *call, const char *key, size_t length)
{
    assert(call->arguments == 0 || call->command.failed);
    call->keys++;
    command_add(&call->command, key, length);
}

/* Adds the key NS:never, which never exists. While a Cluster moves a hash slot to another node,
 * Redis refuses a call before it starts if one of its keys is missing. Without this key, a script
 * could fail halfway at the first key that has been moved, and a job that was popped from one list
 * would be lost. */
static void end_keys(struct script_call *call)
{
    if (call->arguments == 0)
        script_call_ns_key(call, "never");
}

void script_call_bytes(struct script_call *call, const void *bytes, size_t length)
{
    end_keys(call);
    call->arguments++;
    command_add(&call->command, bytes, length);
}

/* Writes "NS:REST", or REST alone if ns is NULL, and returns its length. */
__attribute__((format(printf, 4, 0))) static size_t
format_text(struct script_call *call, char text[FORMAT_BYTES_MAX], const char *ns,
            const char *format, va_list args)
{
    size_t head = ns ? strlen(ns) + 1 : 0;
    int rest = head < FORMAT_BYTES_MAX
                   ? vsnprintf(text + head, FORMAT_BYTES_MAX - head, format, args)
                   : -1;
    if (rest < 0 || head + (size_t)rest >= FORMAT_BYTES_MAX) {
        call->command.failed = true;
        return 0;
    }
    if (ns) {
        memcpy(text, ns, head - 1);
        text[head - 1] = ':';
    }
    return head + (size_t)rest;
}

void script_call_ns_key(struct script_call *call, const char *format, ...)
{
    char text[FORMAT_BYTES_MAX];
    va_list args;
    va_start(args, format);
    add_key(call, text, format_text(call, text, call->ns, format, args));
    va_end(args);
}

/* Writes "HEAD:REST" without printf, which would take most of the time of a call for small jobs.
 * Returns the length, or 0 if it does not fit. */
static size_t join(struct script_call *call, char text[FORMAT_BYTES_MAX], const char *head,
                   const char *rest, size_t rest_bytes)
{
    size_t bytes = strlen(head);
    if (bytes + 1 + rest_bytes > FORMAT_BYTES_MAX) {
        call->command.failed = true;
        return 0;
    }
    memcpy(text, head, bytes);
    text[bytes] = ':';
    memcpy(text + bytes + 1, rest, rest_bytes);
    return bytes + 1 + rest_bytes;
}

void script_call_job_key(struct script_call *call, uint64_t number)
{
    char text[FORMAT_BYTES_MAX], rest[4 + TEXT_DIGITS_MAX] = "job:";
    size_t bytes = 4 + text_number(rest + 4, number);
    add_key(call, text, join(call, text, call->ns, rest, bytes));
}

void script_call_token(struct script_call *call, const char *instance, uint64_t counter)
{
    char text[FORMAT_BYTES_MAX], digits[TEXT_DIGITS_MAX];
    size_t bytes = text_number(digits, counter);
    script_call_bytes(call, text, join(call, text, instance, digits, bytes));
}

struct script_call *script_call_new(enum script script, const char *ns, ...)
{
    struct script_call *call = calloc(1, sizeof *call);
    char text[FORMAT_BYTES_MAX];
    const char *name;
    va_list names;
    if (!call)
        return &no_call;
    call->script = script;
    call->ns = ns;
    call->holders = 1;
    call->command = spare[script];
    spare[script] = (struct command){0};
    va_start(names, ns);
    while ((name = va_arg(names, const char *)))
        add_key(call, text, join(call, text, ns, name, strlen(name)));
    va_end(names);
    return call;
}

void script_call_key(struct script_call *call, const char *key)
{
    add_key(call, key, strlen(key));
}

void script_call_text(struct script_call *call, const char *text)
{
    script_call_bytes(call, text, strlen(text));
}

void script_call_format(struct script_call *call, const char *format, ...)
{
    char text[FORMAT_BYTES_MAX];
    va_list args;
    va_start(args, format);
    script_call_bytes(call, text, format_text(call, text, NULL, format, args));
    va_end(args);
}

void script_call_number(struct script_call *call, uint64_t number)
{
    char digits[TEXT_DIGITS_MAX];
    script_call_bytes(call, digits, text_number(digits, number));
}

void script_call_ms(struct script_call *call, double seconds)
{
    double ms = ceil(seconds * 1000);
    script_call_number(call, ms >= 1 ? ms < 1e15 ? (uint64_t)ms : (uint64_t)1e15 : 1);
}

static void script_answered(void *context, redisReply *reply);

static void loaded(void *context, redisReply *reply)
{
    char *name = context;
    if (reply && reply->type == REDIS_REPLY_STRING && reply->len == SHA1_DIGITS)
        memcpy(name, reply->str, SHA1_DIGITS + 1);
}

static bool send_as(struct script_call *call, const char *name, const char *script, size_t length)
{
    struct command head = {0};
    const struct link_body body = {call->command.text, call->command.length, leave, call};
    char keys[TEXT_DIGITS_MAX];
    command_begin(&head, 3 + call->keys + call->arguments);
    command_add(&head, name, strlen(name));
    command_add(&head, script, length);
    command_add(&head, keys, text_number(keys, call->keys));
    call->holders++; /* for the body, which may be released at once */
    bool sent = !head.failed &&
                redis_send(call->redis, head.text, head.length, &body, 0, script_answered, call);
    free(head.text);
    call->holders -= !sent;
    return sent;
}

/* Sends the text of the script. EVAL comes first, so that its reply does not wait for that of
 * SCRIPT LOAD, and so that the script runs even if this process exits before Redis reads the
 * commands: Redis stops at the first reply that it cannot write. EVAL alone does not suffice,
 * because Redis may evict a script that EVAL has loaded. */
static bool send_text(struct script_call *call)
{
    const char *text = scripts[call->script].text;
    struct redis *redis = call->redis;
    char *name = sha1[call->script];
    if (!send_as(call, "EVAL", text, scripts[call->script].length))
        return false;
    redis_ask(redis, 0, loaded, name, "SCRIPT LOAD %s", text);
    return true;
}

static void script_answered(void *context, redisReply *reply)
{
    struct script_call *call = context;
    if (reply && reply->type == REDIS_REPLY_ERROR &&
        redis_refusal(reply->str) == REDIS_REFUSAL_NOSCRIPT) {
        if (send_text(call))
            return;
        reply = NULL; /* uncovered: memory */
    }
    call->callback(call->context, reply);
    leave(call);
}

bool script_call_send(struct script_call *call, struct redis *redis, redis_reply_cb callback,
                      void *context)
{
    const char *name = sha1[call->script];
    end_keys(call);
    call->redis = redis;
    call->callback = callback;
    call->context = context;
    bool sent = !call->command.failed &&
                (*name ? send_as(call, "EVALSHA", name, SHA1_DIGITS) : send_text(call));
    if (!sent)
        leave(call);
    return sent;
}

bool script_reply_is_array(const redisReply *reply, size_t least)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

long long script_reply_integer(const redisReply *reply, size_t index)
{
    if (index >= reply->elements || reply->element[index]->type != REDIS_REPLY_INTEGER)
        return 0; /* uncovered: server */
    return reply->element[index]->integer;
}

bool script_reply_number(const redisReply *reply, size_t index, uint64_t *number)
{
    char *end;
    if (index >= reply->elements || reply->element[index]->type != REDIS_REPLY_STRING)
        return false; /* uncovered: server */
    *number = strtoull(reply->element[index]->str, &end, 10);
    return end != reply->element[index]->str && !*end;
}
