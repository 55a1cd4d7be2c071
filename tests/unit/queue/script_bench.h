/*
 * script_bench.h - a Redis of its own, and the protocol's scripts called on it one by one.
 */
#ifndef GPUIMGD_TESTS_UNIT_QUEUE_SCRIPT_BENCH_H
#define GPUIMGD_TESTS_UNIT_QUEUE_SCRIPT_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/redis/script.h"
#include "tests/fixtures/redis_server.h"

#define ARGS_MAX 64

static struct redis_server *server;
static redisContext *redis;

static inline int start_server(void **state)
{
    (void)state;
    server = redis_server_start("--enable-debug-command", "yes", NULL);
    redis = redis_server_connect(server);
    return 0;
}

static inline int stop_server(void **state)
{
    (void)state;
    redisFree(redis);
    redis_server_stop(server);
    return 0;
}

static inline int empty(void **state)
{
    (void)state;
    freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 0"));
    freeReplyObject(redis_command(redis, "FLUSHALL"));
    return 0;
}

/* EVAL with keys and arguments given as one line of words; "''" is the empty one. */
static inline redisReply *eval(enum script script, const char *keys, const char *args)
{
    const char *argv[ARGS_MAX] = {"EVAL", script_text(script), "0"};
    char words[4096], count[16];
    int argc = 3, key_count = 0;
    snprintf(words, sizeof words, "%s|%s", keys, args);
    char *bar = strchr(words, '|');
    for (char *word = strtok(words, " |"); word; word = strtok(NULL, " |")) {
        assert_true(argc < ARGS_MAX);
        key_count += word < bar;
        argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
    }
    snprintf(count, sizeof count, "%d", key_count);
    argv[2] = count;
    redisReply *reply = redisCommandArgv(redis, argc, argv, NULL);
    assert_non_null(reply);
    return reply;
}

static inline void print(const redisReply *reply, char *text, size_t size)
{
    size_t used = strlen(text);
    switch (reply->type) {
    case REDIS_REPLY_INTEGER: snprintf(text + used, size - used, "%lld", reply->integer); break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < reply->elements; i++) {
            print(reply->element[i], text, size);
            used = strlen(text);
            if (i + 1 < reply->elements)
                snprintf(text + used, size - used, " ");
        }
        break;
    case REDIS_REPLY_NIL: snprintf(text + used, size - used, "nil"); break;
    default: snprintf(text + used, size - used, "%s", reply->str);
    }
}

/* Runs a command (or a script, below) and compares its reply, written as words. */
static inline void expect_reply(redisReply *reply, const char *what, const char *expected)
{
    char text[4096] = "";
    print(reply, text, sizeof text);
    freeReplyObject(reply);
    if (strcmp(text, expected) != 0)
        fail_msg("%s: \"%s\", expected \"%s\"", what, text, expected);
}

__attribute__((format(printf, 2, 3))) static inline void expect(const char *expected,
                                                                const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    redisReply *reply = redisCommand(redis, text);
    assert_non_null(reply);
    expect_reply(reply, text, expected);
}

#define FETCH_KEYS                                                                                 \
    "t:jobs t:delayed t:alone t:alone:owner t:lease t:inst t:seq t:cancel t:paused t:watcher "   \
    "t:wake t:woken"

/* Takes elements out of a reply that a test does not look at. */
static inline void leave_out(redisReply *reply, size_t at, size_t count)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < at + count)
        return;
    for (size_t i = at; i < at + count; i++)
        freeReplyObject(reply->element[i]);
    reply->elements -= count;
    memmove(&reply->element[at], &reply->element[at + count],
            (reply->elements - at) * sizeof *reply->element);
}

#define FETCH_HEAD 7
#define FETCH_WATCH 6

/* The usual call: lease of 10 s, 3 attempts, 20 bytes of a job at most. What it says of cancels and
 * of a pause is expected to be `marks`; who watches the list is left out. */
static inline void fetch_marked(const char *inst, int counter, int places, int may_alone,
                                int running, const char *marks, const char *expected)
{
    char args[256], whole[4096];
    const char *leases = expected;
    for (int i = 0; i < 4; i++)
        leases += strcspn(leases, " ") + (i < 3);
    snprintf(whole, sizeof whole, "%.*s %s%s", (int)(leases - expected), expected, marks,
             leases);
    snprintf(args, sizeof args, "t %s %d %d 10000 3 20 %d %d none", inst, counter, places,
             may_alone, running);
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, args);
    leave_out(reply, FETCH_WATCH, 1);
    expect_reply(reply, args, whole);
}

static inline void fetch(const char *inst, int counter, int places, int may_alone, int running,
                  const char *expected)
{
    fetch_marked(inst, counter, places, may_alone, running, "-1 0", expected);
}

#define RENEW_KEYS "t:lease t:inst t:alone:owner t:cancel t:watcher t:wake"
#define REAP_KEYS "t:lease t:inst t:jobs t:alone t:alone:owner t:watcher"

/* looked: 1 for the leases that a test ended at 1 ms, 0 for none. Expects the reply without the
 * time and the count of leases that ended since. */
static inline void reap(const char *inst, long long looked, const char *gone,
                        const char *expected)
{
    char args[256];
    snprintf(args, sizeof args, "t %s 9 10000 3 20 64 %lld %s", inst, looked, gone);
    redisReply *reply = eval(SCRIPT_ID_REAP, REAP_KEYS, args);
    leave_out(reply, 2, 2);
    expect_reply(reply, args, expected);
}

#endif
