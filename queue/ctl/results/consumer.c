#include "queue/ctl/results/consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "queue/redis/connection.h"

/* How often a consumer of the list reads the list `taken` again. Redis may run a BLMOVE that an
 * earlier process of this name sent after this process has begun. */
#define REREAD_S 2.0

void consumer_init(struct consumer *consumer)
{
    snprintf(consumer->key, sizeof consumer->key, "%s:results%s", consumer->ns,
             consumer->stream ? ":stream" : "");
    snprintf(consumer->taken, sizeof consumer->taken, "%s:results:taken:%s", consumer->ns,
             consumer->name);
    strcpy(consumer->cursor, "0-0");
}

void consumer_clear(struct consumer *consumer)
{
    for (size_t i = 0; i < consumer->count; i++) {
        free(consumer->results[i].id);
        free(consumer->results[i].text);
    }
    consumer->count = 0;
}

/* ---- commands ------------------------------------------------------------------------------ */

/* Waits until Redis accepts writes again, by a write that changes nothing. */
static void wait_for_redis(struct consumer *consumer)
{
    redisReply *reply =
        consumer->stream
            ? client_ask(consumer->client, "XACK %s %s 0-0", consumer->key, consumer->group)
            : client_ask(consumer->client, "LREM %s 0 %s", consumer->taken, "");
    consumer->failed = !reply && !client_interrupted();
    freeReplyObject(reply);
}

/* Returns true if the reply is no error. Else frees it and prepares the next try, which begins with
 * the results that a lost reply may have had. */
static bool accept_reply(struct consumer *consumer, redisReply *reply, const char *command)
{
    if (client_reply_ok(consumer->client, reply, command))
        return true;
    consumer->resumed = false;
    if (reply && redis_error_is(reply->str, "NOGROUP"))
        consumer->ready = false; /* the stream was deleted, or Redis lost it */
    else if (!reply && consumer->others)
        ; /* the caller calls client_up */
    else if (client_is_transient(reply))
        wait_for_redis(consumer);
    else
        consumer->failed = true;
    freeReplyObject(reply);
    return false;
}

static redisReply *ask(struct consumer *consumer, int argc, const char **argv)
{
    client_send_words(consumer->client, argc, argv, NULL);
    redisReply *reply = client_take(consumer->client);
    return accept_reply(consumer, reply, argv[0]) ? reply : NULL;
}

static bool is_array(const redisReply *reply, size_t least)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

static bool is_string(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_STRING;
}

/* Takes the text out of a reply. */
static char *move_text(redisReply *reply)
{
    char *text = reply->str;
    reply->str = NULL;
    return text;
}

/* Adds a result and takes its texts out of the replies. id: NULL in a list; text: not a string if
 * the result was trimmed. */
static void add(struct consumer *consumer, redisReply *id, redisReply *text)
{
    if (consumer->count == CONSUMER_BATCH) /* uncovered: gone */
        return;
    struct consumer_result *result = &consumer->results[consumer->count++];
    *result = (struct consumer_result){.id = id ? move_text(id) : NULL};
    if (is_string(text)) {
        result->bytes = text->len;
        result->text = move_text(text);
    }
}

/* ---- a stream ------------------------------------------------------------------------------ */

static void make_group(struct consumer *consumer)
{
    const char *argv[] = {"XGROUP", "CREATE", consumer->key, consumer->group,
                          consumer->only_new ? "$" : "0", "MKSTREAM"};
    client_send_words(consumer->client, 6, argv, NULL);
    redisReply *reply = client_take(consumer->client);
    if (reply && reply->type == REDIS_REPLY_ERROR && redis_error_is(reply->str, "BUSYGROUP"))
        consumer->ready = true;
    else if (accept_reply(consumer, reply, "XGROUP"))
        consumer->ready = true;
    else
        return;
    freeReplyObject(reply);
    consumer->only_new = false; /* if the group disappears, a new one must not skip results */
}

/* Adds the entries of a stream: pairs of an ID and fields. A trimmed entry has nil for its fields;
 * the XAUTOCLAIM of Redis 6.2 has nil for the whole entry. */
static void add_entries(struct consumer *consumer, const redisReply *entries)
{
    for (size_t i = 0; is_array(entries, i + 1); i++) {
        redisReply *entry = entries->element[i], *text = NULL;
        if (!is_array(entry, 2) || !is_string(entry->element[0])) {
            consumer->resumed = false; /* it is pending for this name now, and comes again */
            continue;
        }
        redisReply *fields = entry->element[1];
        for (size_t j = 0; is_array(fields, j + 2); j += 2)
            if (is_string(fields->element[j]) && strcmp(fields->element[j]->str, "result") == 0)
                text = fields->element[j + 1];
        add(consumer, entry->element[0], text);
    }
}

/* Reads entries of the stream. from: ">" reads new ones, "0" those that this name has read and not
 * acknowledged. */
static bool read_group(struct consumer *consumer, size_t limit, double wait_s, const char *from)
{
    char count[24], block_ms[24];
    snprintf(count, sizeof count, "%zu", limit);
    snprintf(block_ms, sizeof block_ms, "%.0f", wait_s * 1000 + 1); /* 0 is without end */
    const char *argv[11] = {"XREADGROUP", "GROUP", consumer->group, consumer->name, "COUNT", count};
    const char *const block[] = {"BLOCK", block_ms};
    const char *const rest[] = {"STREAMS", consumer->key, from};
    int argc = 6;
    for (int i = 0; wait_s > 0 && i < 2; i++)
        argv[argc++] = block[i];
    for (int i = 0; i < 3; i++)
        argv[argc++] = rest[i];
    redisReply *reply = ask(consumer, argc, argv);
    if (!reply)
        return false;
    if (is_array(reply, 1) && is_array(reply->element[0], 2))
        add_entries(consumer, reply->element[0]->element[1]);
    freeReplyObject(reply);
    return true;
}

/* Takes over results that other consumers have held for longer than idle_s: those consumers are
 * dead. */
static bool claim(struct consumer *consumer, size_t limit)
{
    char count[24], idle_ms[24];
    snprintf(count, sizeof count, "%zu", limit);
    snprintf(idle_ms, sizeof idle_ms, "%.0f", consumer->idle_s * 1000);
    const char *argv[] = {"XAUTOCLAIM", consumer->key, consumer->group, consumer->name, idle_ms,
                          consumer->cursor, "COUNT", count};
    redisReply *reply = ask(consumer, 8, argv);
    if (!reply)
        return false;
    if (is_array(reply, 2) && is_string(reply->element[0])) {
        snprintf(consumer->cursor, sizeof consumer->cursor, "%s", reply->element[0]->str);
        add_entries(consumer, reply->element[1]);
    }
    freeReplyObject(reply);
    if (strcmp(consumer->cursor, "0-0") == 0)
        consumer->claim_at_s = clock_now_s() + consumer->idle_s / 2;
    return true;
}

static void take_from_stream(struct consumer *consumer, size_t limit, double wait_s)
{
    if (!consumer->ready)
        make_group(consumer);
    if (!consumer->ready)
        return;
    if (!consumer->resumed) {
        if (!read_group(consumer, limit, 0, "0") || consumer->count > 0)
            return;
        consumer->resumed = true;
    }
    if (clock_now_s() >= consumer->claim_at_s &&
        (!claim(consumer, limit) || consumer->count > 0))
        return;
    read_group(consumer, limit, wait_s, ">");
}

/* ---- a list -------------------------------------------------------------------------------- */

/* Reads the results that an earlier process of this name took and did not settle. The oldest is the
 * last in the list. */
static bool read_taken(struct consumer *consumer, size_t limit)
{
    char first[24];
    snprintf(first, sizeof first, "-%zu", limit);
    const char *argv[] = {"LRANGE", consumer->taken, first, "-1"};
    redisReply *reply = ask(consumer, 4, argv);
    if (!reply)
        return false;
    for (size_t i = reply->elements; i-- > 0;)
        if (is_string(reply->element[i]))
            add(consumer, NULL, reply->element[i]);
    freeReplyObject(reply);
    return true;
}

static void send_move(struct consumer *consumer, const char *wait_s)
{
    const char *argv[] = {wait_s ? "BLMOVE" : "LMOVE", consumer->key, consumer->taken, "RIGHT",
                          "LEFT", wait_s};
    client_send_words(consumer->client, wait_s ? 6 : 5, argv, NULL);
}

static void take_moved(struct consumer *consumer)
{
    redisReply *reply = client_take(consumer->client);
    if (!accept_reply(consumer, reply, "LMOVE"))
        return;
    if (is_string(reply))
        add(consumer, NULL, reply);
    freeReplyObject(reply);
}

static void take_from_list(struct consumer *consumer, size_t limit, double wait_s)
{
    char timeout[24];
    if (clock_now_s() >= consumer->claim_at_s)
        consumer->resumed = false;
    if (!consumer->resumed) {
        if (!read_taken(consumer, limit) || consumer->count > 0)
            return;
        consumer->resumed = true;
        consumer->claim_at_s = clock_now_s() + REREAD_S;
    }
    snprintf(timeout, sizeof timeout, "%.3f", wait_s + 0.001); /* 0 is without end */
    send_move(consumer, wait_s > 0 ? timeout : NULL);
    take_moved(consumer);
    const char *argv[] = {"LLEN", consumer->key};
    redisReply *reply = consumer->count > 0 && limit > 1 ? ask(consumer, 2, argv) : NULL;
    size_t more = reply && reply->type == REDIS_REPLY_INTEGER ? (size_t)reply->integer : 0;
    freeReplyObject(reply);
    if (more > limit - 1)
        more = limit - 1;
    for (size_t i = 0; i < more; i++)
        send_move(consumer, NULL);
    for (size_t i = 0; i < more; i++)
        take_moved(consumer);
}

/* Removes the results by their text, so that repeating LREM does no harm. */
static bool settle_list(struct consumer *consumer)
{
    const char *argv[] = {"LREM", consumer->taken, "-1", NULL};
    size_t lengths[] = {4, strlen(consumer->taken), 2, 0};
    bool settled = true;
    for (size_t i = 0; i < consumer->count; i++) {
        argv[3] = consumer->results[i].text;
        lengths[3] = consumer->results[i].bytes;
        client_send_words(consumer->client, 4, argv, lengths);
    }
    for (size_t i = 0; i < consumer->count; i++) {
        redisReply *reply = client_take(consumer->client);
        settled &= client_reply_ok(consumer->client, reply, "LREM");
        freeReplyObject(reply);
    }
    for (size_t i = 0; i < consumer->count && !settled; i++) {
        argv[3] = consumer->results[i].text;
        lengths[3] = consumer->results[i].bytes;
        redisReply *reply = client_ask_words(consumer->client, 4, argv, lengths);
        if (!reply)
            return false;
        freeReplyObject(reply);
    }
    return true;
}

/* ---- both ---------------------------------------------------------------------------------- */

bool consumer_take(struct consumer *consumer, size_t limit, double wait_s)
{
    consumer_clear(consumer);
    consumer->failed = false;
    if (limit > CONSUMER_BATCH)
        limit = CONSUMER_BATCH;
    if (consumer->stream)
        take_from_stream(consumer, limit, wait_s);
    else
        take_from_list(consumer, limit, wait_s);
    return !consumer->failed;
}

bool consumer_settle(struct consumer *consumer)
{
    const char *argv[CONSUMER_BATCH + 3] = {"XACK", consumer->key, consumer->group};
    if (consumer->count == 0)
        return true;
    if (!consumer->stream)
        return settle_list(consumer);
    for (size_t i = 0; i < consumer->count; i++)
        argv[3 + i] = consumer->results[i].id;
    redisReply *reply =
        client_ask_words(consumer->client, (int)consumer->count + 3, argv, NULL);
    bool settled = reply != NULL;
    consumer->resumed &= settled;
    freeReplyObject(reply);
    return settled;
}
