/* script.h - the Lua scripts of the queue protocol, and a builder for calls of them.
 *
 * A call is sent as EVALSHA. The first call of a script is sent as EVAL, followed by SCRIPT LOAD;
 * so is a call after Redis has replied NOSCRIPT. A call frees itself after its callback. Loop
 * thread only. */
#pragma once

#include "queue/redis/connection.h"

/* CANCEL, REVIVE and DEAD are called by clients (gpuimgctl), never by a daemon. */
#define SCRIPT_LIST(X)                                                                             \
    X(FETCH)                                                                                       \
    X(LOOK)                                                                                        \
    X(START)                                                                                       \
    X(DONE)                                                                                        \
    X(NACK) X(RENEW) X(RESUME) X(REAP) X(LEAVE) X(FORGET) X(FLEET) X(CANCEL) X(REVIVE) X(DEAD)

enum script {
#define X(script) SCRIPT_ID_##script,
    SCRIPT_LIST(X)
#undef X
    SCRIPT_ID_COUNT
};

/* The name, for example "FETCH", and the source without comments. Static strings. */
const char *script_name(enum script script);
const char *script_text(enum script script);

struct script_call;

/* Starts a call with the keys "NS:NAME" of a list of names, ended by NULL. Add all further keys
 * first and then all arguments, in the order that the script's header lists; they are copied. Never
 * returns NULL: if memory is short, here or in an addition, script_call_send returns false. `ns` is
 * borrowed until the call is sent. */
struct script_call *script_call_new(enum script script, const char *ns, ...)
    __attribute__((sentinel));
/* Adds the key "NS:REST", where REST is formatted as by printf. */
void script_call_ns_key(struct script_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the key "NS:job:NUMBER". */
void script_call_job_key(struct script_call *call, uint64_t number);
void script_call_key(struct script_call *call, const char *key);
void script_call_text(struct script_call *call, const char *text);
void script_call_bytes(struct script_call *call, const void *bytes, size_t length);
/* Adds the argument "INSTANCE:COUNTER", the token of a lease. */
void script_call_token(struct script_call *call, const char *instance, uint64_t counter);
void script_call_format(struct script_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void script_call_number(struct script_call *call, uint64_t number);
/* Adds a duration in whole milliseconds, rounded up, at least 1. */
void script_call_ms(struct script_call *call, double seconds);

/* Sends the call and takes ownership of it. Returns false if the connection is down or memory is
 * short; the call is then freed and the callback is not called. */
bool script_call_send(struct script_call *call, struct redis *redis, redis_reply_cb callback,
                      void *context);

/* These functions accept a reply of any form. */
bool script_reply_is_array(const redisReply *reply, size_t least); /* of at least that length */
long long script_reply_integer(const redisReply *reply, size_t index); /* 0: not an integer */
/* Reads a number that the script sent as a string. */
bool script_reply_number(const redisReply *reply, size_t index, uint64_t *number);
