/* queue_costs.c - see queue_costs.h.
 *
 * CONNECTIONS connections send one call each and then read all replies, so that Redis is seldom
 * idle in between. The CPU time is that of the Redis process: parsing, the script, the socket. Per
 * item: from calls with 1 and with ITEMS items. */
#include "tests/bench/queue_costs.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue/redis/script.h"
#include "tests/bench/queue_clerk.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/redis_server.h"

#define CONNECTIONS 32
#define ROUNDS 4    /* the least counts: other programs only add to it */
#define CALLS 1600  /* of one measurement */
#define ITEMS 64
#define CALLS_OF_ITEMS 160
#define NAMES 1000
#define IDLE_CLIENTS 500
#define IDLE_S 1.0
#define SLEEP_S 0.003 /* of Redis before a cold call */
#define COLD_CALLS 192
#define HEAD           10 /* members of the reply of FETCH before the jobs */
#define INST "host-000001:0b7c9c2e-1c7f-4d15-9f7e-3f4e1d2c5b6a:4026531836:12345:6789012"
#define RESULT                                                                                     \
    "{\"job\":123456,\"status\":\"done\",\"input\":{\"path\":\"in.jpg\",\"format\":\"jpeg\","      \
    "\"width\":256,\"height\":256,\"bytes\":10000},\"outputs\":[{\"path\":\"out.jpg\","            \
    "\"format\":\"jpeg\",\"width\":256,\"height\":256,\"bytes\":10000}],\"attempt\":1,"            \
    "\"engine\":\"cpu\",\"daemon\":\"host-000001:12345\",\"ms\":{\"queue\":1.234,\"total\":1.2}}"

/* The words of a command. */
struct words {
    size_t count, used;
    const char *at[1024];
    char room[128 * 1024];
};

struct meter {
    struct redis_server *server;
    clockid_t clock;
    redisContext *redis[CONNECTIONS];
    char sha[SCRIPT_ID_COUNT][41];
    struct words words;
    unsigned items;               /* of each call */
    double pause_s;               /* before each call */
    unsigned long long *numbers;  /* leased jobs */
    size_t leased;
};

__attribute__((format(printf, 2, 3))) static void word(struct meter *meter, const char *format,
                                                       ...)
{
    struct words *words = &meter->words;
    char *at = words->room + words->used;
    size_t left = sizeof words->room - words->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(at, left, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= left || words->count == 1024)
        abort();
    words->at[words->count++] = at;
    words->used += (size_t)length + 1;
}

/* Begins a call of a script with the keys t:NAME of a list of names, and `more` keys. */
static void begin(struct meter *meter, enum script script, unsigned more, const char *names)
{
    char copy[256];
    unsigned count = more + 1; /* t:never */
    snprintf(copy, sizeof copy, "%s", names);
    for (const char *at = names; *at; at++)
        count += at == names || at[-1] == ' ';
    word(meter, "EVALSHA");
    word(meter, "%s", meter->sha[script]);
    word(meter, "%u", count);
    for (char *name = strtok(copy, " "); name; name = strtok(NULL, " "))
        word(meter, "t:%s", name);
}

/* Appends the words of call `i`. */
typedef void (*maker)(struct meter *meter, unsigned i);
typedef void (*reader)(struct meter *meter, const redisReply *reply);

static void flush(redisContext *redis)
{
    int written = 0;
    while (!written)
        if (redisBufferWrite(redis, &written) != REDIS_OK)
            abort();
}

/* Runs `calls` calls; returns Redis's CPU time per call in us. `lines`: connections used. */
static double spend(struct meter *meter, unsigned calls, unsigned lines, maker make, reader read)
{
    double start = clock_s(meter->clock);
    for (unsigned i = 0; i < calls; i += lines) {
        for (unsigned line = 0; line < lines; line++) {
            meter->words.count = meter->words.used = 0;
            if (meter->pause_s > 0)
                process_sleep(meter->pause_s);
            make(meter, i + line);
            redisAppendCommandArgv(meter->redis[line], (int)meter->words.count, meter->words.at,
                                   NULL);
            flush(meter->redis[line]);
        }
        for (unsigned line = 0; line < lines; line++) {
            redisReply *reply = NULL;
            if (redisGetReply(meter->redis[line], (void **)&reply) != REDIS_OK ||
                reply->type == REDIS_REPLY_ERROR) {
                printf("%s: %s\n", meter->words.at[0], reply ? reply->str : "no reply");
                abort();
            }
            if (read)
                read(meter, reply);
            freeReplyObject(reply);
        }
    }
    return (clock_s(meter->clock) - start) * 1e6 / calls;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void make_ping(struct meter *meter, unsigned i)
{
    (void)i;
    word(meter, "PING");
}

static void make_push(struct meter *meter, unsigned i)
{
    (void)i;
    word(meter, "LPUSH");
    word(meter, "t:jobs");
    for (unsigned item = 0; item < meter->items; item++)
        word(meter, CLERK_JOB);
}

static void make_take(struct meter *meter, unsigned i)
{
    (void)i;
    word(meter, "RPOP");
    word(meter, "t:results");
    word(meter, "%u", meter->items);
}

static void make_fetch(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_FETCH, 0,
          "jobs delayed alone alone:owner lease inst seq cancel paused watcher wake woken");
    word(meter, "t:never");
    word(meter, "t");
    word(meter, INST);
    word(meter, "%u", i + 1);
    word(meter, "%u", meter->items);
    word(meter, "600000");
    word(meter, "3");
    word(meter, "65536");
    word(meter, "1");
    word(meter, "0");
    word(meter, "none");
}

static void read_fetch(struct meter *meter, const redisReply *reply)
{
    for (size_t i = HEAD; i + 2 < reply->elements; i += 3)
        meter->numbers[meter->leased++] = strtoull(reply->element[i]->str, NULL, 10);
    if (reply->elements != HEAD + 3 * meter->items)
        abort();
}

static unsigned long long number_of(const struct meter *meter, unsigned call, unsigned item)
{
    return meter->numbers[(size_t)call * meter->items + item];
}

/* Replies came in the order of the calls: call i leased numbers with the counter i + 1. */
static void add_keys(struct meter *meter, unsigned i)
{
    for (unsigned item = 0; item < meter->items; item++)
        word(meter, "t:job:%llu", number_of(meter, i, item));
    word(meter, "t:never");
}

static void make_done(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_DONE, meter->items, "lease results");
    add_keys(meter, i);
    word(meter, "100000000");
    word(meter, "3600000");
    for (unsigned item = 0; item < meter->items; item++) {
        word(meter, "%llu", number_of(meter, i, item));
        word(meter, INST ":%u", i + 1);
        word(meter, RESULT);
        word(meter, "0");
        word(meter, "0");
        word(meter, "0");
    }
}

static void make_nack(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_NACK, meter->items, "lease results jobs delayed alone dead woken");
    add_keys(meter, i);
    word(meter, "100000000");
    word(meter, "3600000");
    word(meter, "100000");
    word(meter, "3");
    word(meter, "1000");
    for (unsigned item = 0; item < meter->items; item++) {
        word(meter, "%llu", number_of(meter, i, item));
        word(meter, INST ":%u", i + 1);
        word(meter, "back");
        word(meter, "%s", "");
        word(meter, "0");
        word(meter, "0");
        word(meter, "0");
    }
}

static void make_start(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_START, meter->items, "lease delayed cancel");
    add_keys(meter, i);
    word(meter, "t");
    word(meter, "300000");
    for (unsigned item = 0; item < meter->items; item++) {
        word(meter, "%llu", number_of(meter, i, item));
        word(meter, INST ":%u", i + 1);
        word(meter, "%s", "");
        word(meter, "0");
        word(meter, "-1");
        word(meter, "+60000");
    }
}

static void make_renew(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_RENEW, meter->items, "lease inst alone:owner cancel watcher wake");
    add_keys(meter, i);
    word(meter, INST);
    word(meter, "600000");
    word(meter, "drop");
    word(meter, "none");
    for (unsigned item = 0; item < meter->items; item++) {
        word(meter, "%llu", number_of(meter, i, item));
        word(meter, "%u", i + 1);
    }
}

static void make_look(struct meter *meter, unsigned i)
{
    (void)i;
    begin(meter, SCRIPT_ID_LOOK, 0, "jobs delayed alone alone:owner watcher paused woken");
    word(meter, "t:never");
}

static void make_names(struct meter *meter, unsigned i)
{
    (void)i;
    word(meter, "ZRANGE");
    word(meter, "t:inst");
    word(meter, "0");
    word(meter, "%u", meter->items - 1);
}

static void make_name(struct meter *meter, unsigned i)
{
    word(meter, "ZADD");
    word(meter, "t:inst");
    word(meter, "%u", 4000000000u + i * 7919u % 1000u);
    word(meter, "host-%06u" "%s", i, strchr(INST, ':'));
}

static void make_reap(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_REAP, 0, "lease inst jobs alone alone:owner watcher");
    word(meter, "t:never");
    word(meter, "t");
    word(meter, INST);
    word(meter, "%u", i + 1);
    word(meter, "600000");
    word(meter, "3");
    word(meter, "65536");
    word(meter, "64");
    word(meter, "1");
}

static void make_resume(struct meter *meter, unsigned i)
{
    begin(meter, SCRIPT_ID_RESUME, 0, "lease jobs alone");
    word(meter, "t:never");
    word(meter, "t");
    word(meter, INST "%u", i);
    word(meter, "3");
    word(meter, "1");
}

static void make_heartbeat(struct meter *meter, unsigned i)
{
    word(meter, "SET");
    word(meter, "t:stats:%u", i % 100);
    word(meter, "%01000u", i);
    word(meter, "PX");
    word(meter, "30000");
}

static void make_block(struct meter *meter, unsigned i)
{
    (void)i;
    word(meter, "BLPOP");
    word(meter, "t:wake");
    word(meter, "0.005");
}

/* ---- the measurement ------------------------------------------------------------------------- */

static void note(struct fleet_costs *costs, enum fleet_op op, double one, double many,
                 unsigned items)
{
    costs->item[op] = fmax((many - one) / (items - 1), 0);
    costs->call[op] = fmax(one - costs->item[op], 0);
}

/* The three commands after a RENEW, in one write. */
static double lengths_us(struct meter *meter)
{
    double start = clock_s(meter->clock);
    for (unsigned i = 0; i < CALLS; i += CONNECTIONS) {
        for (unsigned line = 0; line < CONNECTIONS; line++) {
            redisAppendCommand(meter->redis[line], "LLEN t:results");
            redisAppendCommand(meter->redis[line], "LLEN t:dead");
            redisAppendCommand(meter->redis[line], "ZCARD t:delayed");
            flush(meter->redis[line]);
        }
        for (unsigned line = 0; line < CONNECTIONS; line++)
            redis_drain(meter->redis[line], 3);
    }
    return (clock_s(meter->clock) - start) * 1e6 / CALLS;
}

/* The life of jobs: PUSH, FETCH, RENEW, START, DONE or NACK, TAKE. us[op]: per call. */
static void measure_jobs(struct meter *meter, unsigned items, unsigned calls,
                         double us[FLEET_OP_COUNT])
{
    meter->items = items;
    us[FLEET_PUSH] = spend(meter, 2 * calls, CONNECTIONS, make_push, NULL);
    meter->leased = 0;
    us[FLEET_FETCH] = spend(meter, calls, CONNECTIONS, make_fetch, read_fetch);
    us[FLEET_RENEW] = spend(meter, calls, CONNECTIONS, make_renew, NULL);
    us[FLEET_START] = spend(meter, calls, CONNECTIONS, make_start, NULL);
    us[FLEET_NACK] = spend(meter, calls, CONNECTIONS, make_nack, NULL);
    meter->leased = 0;
    spend(meter, calls, CONNECTIONS, make_fetch, read_fetch);
    us[FLEET_DONE] = spend(meter, calls, CONNECTIONS, make_done, NULL);
    us[FLEET_TAKE] = spend(meter, calls, CONNECTIONS, make_take, NULL);
}

/* How much more calls cost after Redis slept: caches are cold, and the CPU must wake up. In units
 * of their cost, after an endless sleep. */
static double cold(struct meter *meter, const struct fleet_costs *costs)
{
    double extra = 0;
    const struct {
        enum fleet_op op;
        maker make;
        reader read;
    } calls[] = {{FLEET_PING, make_ping, NULL}, {FLEET_LOOK, make_look, NULL},
                 {FLEET_RESUME, make_resume, NULL}, {FLEET_FETCH, make_fetch, read_fetch},
                 {FLEET_DONE, make_done, NULL}};
    size_t count = sizeof calls / sizeof *calls;
    meter->items = 1;
    spend(meter, COLD_CALLS, CONNECTIONS, make_push, NULL);
    meter->leased = 0;
    meter->pause_s = SLEEP_S;
    for (size_t i = 0; i < count; i++) {
        double hot = costs->call[calls[i].op] + costs->item[calls[i].op];
        double us = spend(meter, COLD_CALLS, 1, calls[i].make, calls[i].read) - costs->wake;
        extra += fmax(us / hot - 1, 0) / (double)count;
    }
    meter->pause_s = 0;
    return extra / (SLEEP_S / (SLEEP_S + FLEET_HALF_COLD_S));
}

static double connects_us(struct meter *meter, unsigned count)
{
    double start = clock_s(meter->clock);
    for (unsigned i = 0; i < count; i++) {
        redisContext *redis = redisConnect("127.0.0.1", meter->server->port);
        if (!redis || redis->err)
            abort();
        freeReplyObject(redis_command(redis, "PING"));
        redisFree(redis);
    }
    return (clock_s(meter->clock) - start) * 1e6 / count;
}

static double idle_us(struct meter *meter)
{
    double start = clock_s(meter->clock);
    process_sleep(IDLE_S);
    return (clock_s(meter->clock) - start) * 1e6 / IDLE_S;
}

static void measure_idle(struct meter *meter, struct fleet_costs *costs)
{
    redisContext *clients[IDLE_CLIENTS];
    costs->idle = idle_us(meter);
    for (int i = 0; i < IDLE_CLIENTS; i++)
        if (!(clients[i] = redisConnect("127.0.0.1", meter->server->port)) || clients[i]->err)
            abort();
    process_sleep(0.2);
    costs->client = fmax((idle_us(meter) - costs->idle) / IDLE_CLIENTS, 0);
    for (int i = 0; i < IDLE_CLIENTS; i++)
        redisFree(clients[i]);
    costs->idle = fmax(costs->idle - costs->client * CONNECTIONS, 0);
}

static void measure_rest(struct meter *meter, struct fleet_costs *costs)
{
    const struct {
        enum fleet_op op;
        maker make;
    } plain[] = {{FLEET_PING, make_ping},     {FLEET_LOOK, make_look},
                 {FLEET_REAP, make_reap},     {FLEET_RESUME, make_resume},
                 {FLEET_PUBLISH, make_heartbeat}, {FLEET_BLOCK, make_block}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        costs->call[plain[i].op] = spend(meter, CALLS, CONNECTIONS, plain[i].make, NULL);
    costs->call[FLEET_LENGTHS] = lengths_us(meter);
    costs->wake = fmax(spend(meter, CALLS, 1, make_ping, NULL) - costs->call[FLEET_PING], 0);
    costs->call[FLEET_CONNECT] = fmax(connects_us(meter, 500) - 2 * costs->wake, 0);
    spend(meter, (NAMES + CONNECTIONS - 1) / CONNECTIONS * CONNECTIONS, CONNECTIONS, make_name,
          NULL);
    meter->items = 1;
    double one = spend(meter, CALLS, CONNECTIONS, make_names, NULL);
    meter->items = NAMES;
    note(costs, FLEET_NAMES, one, spend(meter, CONNECTIONS * 4, CONNECTIONS, make_names, NULL),
         NAMES);
}

static void keep_least(struct fleet_costs *costs, const struct fleet_costs *some)
{
    for (int i = 0; i < FLEET_OP_COUNT; i++) {
        costs->call[i] = fmin(costs->call[i], some->call[i]);
        costs->item[i] = fmin(costs->item[i], some->item[i]);
    }
    costs->wake = fmin(costs->wake, some->wake);
    costs->cold = fmin(costs->cold, some->cold);
    costs->idle = fmin(costs->idle, some->idle);
    costs->client = fmin(costs->client, some->client);
}

void queue_costs_measure(struct fleet_costs *costs)
{
    static struct meter meter;
    double one[FLEET_OP_COUNT] = {0}, many[FLEET_OP_COUNT] = {0};
    const enum fleet_op jobs[] = {FLEET_PUSH, FLEET_FETCH, FLEET_RENEW, FLEET_START, FLEET_NACK,
                                  FLEET_DONE, FLEET_TAKE};
    *costs = (struct fleet_costs){0};
    meter.server = redis_server_start("--appendonly", "no", NULL);
    meter.numbers = calloc(CALLS * 8, sizeof *meter.numbers);
    if (!meter.numbers || clock_getcpuclockid(meter.server->pid, &meter.clock) != 0)
        abort();
    for (int i = 0; i < CONNECTIONS; i++)
        if (!(meter.redis[i] = redisConnect("127.0.0.1", meter.server->port)) ||
            meter.redis[i]->err)
            abort();
    for (int i = 0; i < SCRIPT_ID_COUNT; i++) {
        char *sha = redis_string(meter.redis[0], "SCRIPT LOAD %s", script_text((enum script)i));
        snprintf(meter.sha[i], sizeof meter.sha[i], "%s", sha);
        free(sha);
    }
    for (int round = 0; round <= ROUNDS; round++) {
        struct fleet_costs some = {0};
        measure_jobs(&meter, 1, CALLS, one);
        measure_jobs(&meter, ITEMS, CALLS_OF_ITEMS, many);
        for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
            note(&some, jobs[i], one[jobs[i]], many[jobs[i]], ITEMS);
        measure_rest(&meter, &some);
        some.cold = cold(&meter, &some);
        measure_idle(&meter, &some);
        if (round == 1) /* the round before warms Redis up */
            *costs = some;
        else if (round > 1)
            keep_least(costs, &some);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        redisFree(meter.redis[i]);
    redis_server_stop(meter.server);
    free(meter.numbers);
}
