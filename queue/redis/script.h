/*
 * script.h - the protocol's Lua scripts, and a call of one while it is built and answered.
 *
 * A call is EVALSHA, or EVAL and SCRIPT LOAD the first time and where Redis does not have the
 * script (any more). It frees itself after its callback. Loop thread only.
 */
#ifndef GPUIMGD_QUEUE_REDIS_SCRIPT_H
#define GPUIMGD_QUEUE_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/redis/connection.h"

enum script {
    SCRIPT_ID_FETCH,
    SCRIPT_ID_LOOK,
    SCRIPT_ID_START,
    SCRIPT_ID_DONE,
    SCRIPT_ID_NACK,
    SCRIPT_ID_RENEW,
    SCRIPT_ID_RESUME,
    SCRIPT_ID_REAP,
    SCRIPT_ID_LEAVE,
    SCRIPT_ID_CANCEL, /* this one and those below: of who pushes jobs, no daemon calls them */
    SCRIPT_ID_REVIVE,
    SCRIPT_ID_DEAD,
    SCRIPT_ID_COUNT
};

/* "FETCH", and the script's text. */
const char *script_name(enum script script);
const char *script_text(enum script script);

/* reply: NULL if the connection went down. */
struct script_call;
typedef void (*script_reply_cb)(void *context, redisReply *reply);

/* NULL when memory is short. Then keys first, arguments after them, each in the scripts' order. A
 * failed addition is remembered: script_call_send answers false for it. */
struct script_call *script_call_new(enum script script, const char *ns);
/* NS, ":", and a printf-style rest. */
void script_call_ns_key(struct script_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void script_call_key(struct script_call *call, const char *key); /* copied */
void script_call_text(struct script_call *call, const char *text); /* borrowed until the reply */
void script_call_bytes(struct script_call *call, const void *bytes, size_t length); /* borrowed */
void script_call_format(struct script_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void script_call_number(struct script_call *call, uint64_t number);
/* Whole milliseconds, at least 1. */
void script_call_ms(struct script_call *call, double seconds);

/* Sends and takes the call over; false, with the call freed and no callback to come, when the
 * connection is down or memory is short. */
bool script_call_send(struct script_call *call, struct redis *redis, script_reply_cb callback,
                      void *context);

/* Defensive reading of replies: an array of at least `least` elements, an integer, a number given
 * as text. */
bool script_reply_is_array(const redisReply *reply, size_t least);
long long script_reply_integer(const redisReply *reply, size_t index); /* 0 if it is none */
bool script_reply_number(const redisReply *reply, size_t index, uint64_t *number);

#endif
