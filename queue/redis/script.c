#include "queue/redis/script.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/scripts.inc"

#define SHA1_DIGITS 40

static const struct {
    const char *name, *text;
    size_t length;
} scripts[SCRIPT_ID_COUNT] = {
#define ROW(script) [SCRIPT_ID_##script] = {#script, SCRIPT_##script, sizeof SCRIPT_##script - 1}
    ROW(FETCH), ROW(LOOK), ROW(START), ROW(DONE), ROW(NACK), ROW(RENEW), ROW(RESUME), ROW(REAP),
    ROW(LEAVE), ROW(CANCEL), ROW(REVIVE), ROW(DEAD),
#undef ROW
};

/* The SHA-1 of each script as SCRIPT LOAD returned it; "" before that. It depends on the text
 * alone, so all connections share it. */
static char sha1[SCRIPT_ID_COUNT][SHA1_DIGITS + 1];

#define CHUNK_BYTES 4096
#define HEAD 3 /* EVALSHA, the SHA-1, the number of keys */

struct chunk {
    struct chunk *next;
    size_t used, bytes;
    char text[];
};

struct script_call {
    enum script script;
    const char *ns;
    const char **argv;
    size_t *lengths;
    struct chunk *chunks; /* memory for formatted keys and arguments; the current one first */
    size_t count, capacity;
    size_t keys;
    bool failed;        /* an addition found no memory */
    char key_count[16];
    struct redis *redis;
    script_reply_cb callback;
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

/* What script_call_new returns if memory is short. */
static struct script_call no_call = {.failed = true};

static void call_free(struct script_call *call)
{
    if (call == &no_call) /* uncovered: memory */
        return;
    for (struct chunk *next; call->chunks; call->chunks = next) {
        next = call->chunks->next;
        free(call->chunks);
    }
    free(call->argv);
    free(call->lengths);
    free(call);
}

static bool grow(struct script_call *call)
{
    size_t capacity = call->capacity ? 2 * call->capacity : 64;
    const char **argv = realloc(call->argv, capacity * sizeof *argv);
    call->argv = argv ? argv : call->argv;
    size_t *lengths = realloc(call->lengths, capacity * sizeof *lengths);
    call->lengths = lengths ? lengths : call->lengths;
    if (!argv || !lengths)
        return false;
    call->capacity = capacity;
    return true;
}

/* `bytes` must stay valid until the reply. */
static void add(struct script_call *call, const char *bytes, size_t length)
{
    if (call->failed || (call->count == call->capacity && !grow(call))) {
        call->failed = true;
        return;
    }
    call->argv[call->count] = bytes;
    call->lengths[call->count++] = length;
}

/* Returns memory that lives as long as the call. Sets `failed` and returns NULL if it is short. */
static char *reserve(struct script_call *call, size_t bytes)
{
    struct chunk *chunk = call->chunks;
    if (!chunk || chunk->bytes - chunk->used < bytes) {
        size_t capacity = bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes;
        chunk = call->failed ? NULL : malloc(sizeof *chunk + capacity);
        if (!chunk) {
            call->failed = true;
            return NULL;
        }
        *chunk = (struct chunk){.next = call->chunks, .bytes = capacity};
        call->chunks = chunk;
    }
    chunk->used += bytes;
    return chunk->text + chunk->used - bytes;
}

/* Adds "PREFIX:REST", or REST alone if prefix is NULL. */
__attribute__((format(printf, 3, 0))) static void add_format(struct script_call *call,
                                                             const char *prefix,
                                                             const char *format, va_list args)
{
    char brief[64]; /* long enough for most: saves a second vsnprintf */
    va_list again;
    va_copy(again, args);
    int made = vsnprintf(brief, sizeof brief, format, args);
    size_t rest = made < 0 ? 0 : (size_t)made, head = prefix ? strlen(prefix) + 1 : 0;
    char *text = reserve(call, head + rest + 1);
    if (text && prefix) {
        memcpy(text, prefix, head - 1);
        text[head - 1] = ':';
    }
    if (text && rest < sizeof brief)
        memcpy(text + head, brief, rest + 1);
    else if (text)
        vsnprintf(text + head, rest + 1, format, again);
    va_end(again);
    call->failed |= made < 0;
    add(call, text, head + rest);
}

void script_call_ns_key(struct script_call *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_format(call, call->ns, format, args);
    va_end(args);
    call->keys++;
}

struct script_call *script_call_new(enum script script, const char *ns, ...)
{
    struct script_call *call = calloc(1, sizeof *call);
    const char *name;
    va_list names;
    if (!call)
        return &no_call;
    call->script = script;
    call->ns = ns;
    for (int i = 0; i < HEAD; i++)
        add(call, "", 0);
    va_start(names, ns);
    while ((name = va_arg(names, const char *)))
        script_call_ns_key(call, "%s", name);
    va_end(names);
    return call;
}

void script_call_key(struct script_call *call, const char *key)
{
    size_t length = strlen(key);
    char *copy = reserve(call, length);
    if (copy)
        memcpy(copy, key, length);
    add(call, copy, length);
    call->keys++;
}

void script_call_text(struct script_call *call, const char *text)
{
    add(call, text, strlen(text));
}

void script_call_bytes(struct script_call *call, const void *bytes, size_t length)
{
    add(call, length ? bytes : "", length);
}

void script_call_format(struct script_call *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_format(call, NULL, format, args);
    va_end(args);
}

void script_call_number(struct script_call *call, uint64_t number)
{
    char *text = reserve(call, TEXT_DIGITS_MAX);
    add(call, text, text ? text_number(text, number) : 0);
}

void script_call_ms(struct script_call *call, double seconds)
{
    double ms = ceil(seconds * 1000);
    script_call_number(call, ms >= 1 ? ms < 1e15 ? (uint64_t)ms : (uint64_t)1e15 : 1);
}

static void answered(void *context, redisReply *reply);

static void loaded(void *context, redisReply *reply)
{
    char *name = context;
    if (reply && reply->type == REDIS_REPLY_STRING && reply->len == SHA1_DIGITS)
        memcpy(name, reply->str, SHA1_DIGITS + 1);
}

static bool send_as(struct script_call *call, const char *command, const char *script,
                    size_t length)
{
    call->argv[0] = command;
    call->argv[1] = script;
    call->argv[2] = call->key_count;
    call->lengths[0] = strlen(command);
    call->lengths[1] = length;
    call->lengths[2] = strlen(call->key_count);
    return redis_send(call->redis, (int)call->count, call->argv, call->lengths, 0, answered, call);
}

static bool send_name(struct script_call *call)
{
    return send_as(call, "EVALSHA", sha1[call->script], SHA1_DIGITS);
}

/* EVAL goes first, so that its reply does not wait for another one. A Redis that was suspended
 * stops at the first reply that it cannot write, if this process has exited meanwhile. EVAL alone
 * is not enough: Redis may evict a script that was loaded by EVAL. */
static bool send_text(struct script_call *call)
{
    struct redis *redis = call->redis;
    enum script script = call->script;
    const char *text = scripts[script].text;
    size_t length = scripts[script].length;
    const char *argv[] = {"SCRIPT", "LOAD", text};
    size_t lengths[] = {6, 4, length};
    if (!send_as(call, "EVAL", text, length))
        return false;
    redis_send(redis, 3, argv, lengths, 0, loaded, sha1[script]);
    return true;
}

static void answered(void *context, redisReply *reply)
{
    struct script_call *call = context;
    if (reply && reply->type == REDIS_REPLY_ERROR &&
        redis_refusal(reply->str) == REDIS_REFUSAL_NOSCRIPT) {
        if (send_text(call))
            return;
        reply = NULL; /* uncovered: memory */
    }
    call->callback(call->context, reply);
    call_free(call);
}

/* Adds the key NS:never, which does not exist. While a Cluster slot migrates, Redis refuses a call
 * before it starts if one of its keys is missing. Without this key, a script could fail halfway at
 * the first migrated key, and a job that was popped from one list would be lost. */
static void add_guard_key(struct script_call *call)
{
    size_t at = HEAD + call->keys;
    script_call_ns_key(call, "never");
    if (call->failed)
        return;
    const char *key = call->argv[call->count - 1];
    size_t length = call->lengths[call->count - 1], tail = call->count - 1 - at;
    memmove(&call->argv[at + 1], &call->argv[at], tail * sizeof *call->argv);
    memmove(&call->lengths[at + 1], &call->lengths[at], tail * sizeof *call->lengths);
    call->argv[at] = key;
    call->lengths[at] = length;
}

bool script_call_send(struct script_call *call, struct redis *redis, script_reply_cb callback,
                      void *context)
{
    add_guard_key(call);
    snprintf(call->key_count, sizeof call->key_count, "%zu", call->keys);
    call->redis = redis;
    call->callback = callback;
    call->context = context;
    if (call->failed || !(*sha1[call->script] ? send_name(call) : send_text(call))) {
        call_free(call);
        return false;
    }
    return true;
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
