/*
 * queue_bench.h - a queue on a Redis of its own, and a daemon that does with leases what a test
 * says.
 */
#ifndef GPUIMGD_TESTS_UNIT_QUEUE_QUEUE_BENCH_H
#define GPUIMGD_TESTS_UNIT_QUEUE_QUEUE_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/lease/queue.h"
#include "tests/fixtures/redis_server.h"

#define LEASES_MAX 1024

/* A daemon that takes leases and does with them what the test says. */
struct bench {
    struct redis_server *server;
    redisContext *redis;
    uv_loop_t loop;
    struct bench *first;       /* whose server, connection and loop this one shares; NULL: none */
    struct queue *queue;
    struct queue_config config;
    char inst[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    bool finish_at_once;       /* answer each lease from inside `leased` */
    struct lease *leases[LEASES_MAX];
    size_t lease_count;        /* held */
    size_t leased, settled, stale, dead, lost;
    size_t denied;             /* of the settled ones */
    size_t start_decisions[START_CANCELLED + 1];
    char kept[256]; /* the last decision's */
    bool closed;
    uint8_t *bytes;            /* what queue_read gave */
    size_t length;
    enum status read_status;
    int reads;
};

static inline void take_off(struct bench *bench, struct lease *lease)
{
    for (size_t i = 0; i < bench->lease_count; i++)
        if (bench->leases[i] == lease)
            bench->leases[i] = bench->leases[--bench->lease_count];
}

static inline void done(struct bench *bench, struct lease *lease)
{
    char id[32];
    snprintf(id, sizeof id, "%llu", (unsigned long long)lease->number);
    take_off(bench, lease);
    queue_done(bench->queue, lease, &(struct queue_answer){
                                        .result = strdup("{\"status\":\"done\"}"), .id = id});
}

static inline void on_leased(void *context, struct lease *lease)
{
    struct bench *bench = context;
    bench->leased++;
    assert_true(bench->lease_count < LEASES_MAX);
    bench->leases[bench->lease_count++] = lease;
    if (bench->finish_at_once)
        done(bench, lease);
}

static inline void on_lost(void *context, struct lease *lease)
{
    struct bench *bench = context;
    assert_true(lease->lost);
    bench->lost++;
}

static inline void on_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct bench *bench = context;
    assert_true(lease->settled);
    bench->settled++;
    bench->stale += stale;
    bench->dead += dead;
    bench->denied += lease->denied != NULL;
    if (bench->finish_at_once)
        queue_set_places(bench->queue, 64);
}

static inline void on_start_decided(void *context, struct lease *lease,
                                    enum start_decision decision, const char *kept)
{
    struct bench *bench = context;
    bench->start_decisions[decision]++;
    snprintf(bench->kept, sizeof bench->kept, "%s", kept);
    if (decision != START_WAITS)
        return;
    take_off(bench, lease);
    queue_give_back(bench->queue, lease);
}

static inline void on_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct bench *bench = context;
    free(bench->bytes);
    bench->bytes = bytes;
    bench->length = length;
    bench->read_status = error ? error->status : STATUS_OK;
    bench->reads++;
}

static inline void wake(uv_timer_t *timer)
{
    (void)timer;
}

/* Runs the loop until the condition holds, 10 s at most (valgrind is slow). */
#define run_until(bench, condition)                                                                \
    do {                                                                                           \
        uint64_t end_ = uv_hrtime() + 10000000000ull;                                              \
        while (!(condition) && uv_hrtime() < end_)                                                 \
            turn(bench);                                                                           \
        assert_true(condition);                                                                    \
    } while (0)

static inline uv_loop_t *loop_of(struct bench *bench)
{
    return bench->first ? &bench->first->loop : &bench->loop;
}

static inline void turn(struct bench *bench)
{
    static uv_timer_t timer;
    uv_timer_init(loop_of(bench), &timer);
    uv_timer_start(&timer, wake, 5, 0);
    uv_run(loop_of(bench), UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop_of(bench), UV_RUN_NOWAIT);
}

static inline void run_ms(struct bench *bench, unsigned ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000ull;
    while (uv_hrtime() < end)
        turn(bench);
}

static inline void start_queue(struct bench *bench)
{
    struct queue_events events = {bench, on_leased, on_lost, on_settled, on_start_decided};
    struct error error = {0};
    bench->queue = queue_create(loop_of(bench), &bench->config, &events, &error);
    assert_non_null(bench->queue);
    queue_start(bench->queue);
}

static inline struct bench *set_up(struct redis_server *server)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->server = server;
    assert_true(instance_self(bench->inst, bench->daemon));
    uv_loop_init(&bench->loop);
    bench->config = (struct queue_config){
        .redis = server ? server->address : NULL,
        .ns = "t",
        .instance = bench->inst,
        .lease_s = 5,
        .renew_s = 0.1,
        .reap_s = 0.2,
        .retry_delay_s = 0.05,
        .block_s = 0.2,
        .connect_timeout_s = 1,
        .command_timeout_s = 1,
        .auth_retry_s = 0.2,
        .attempts = 3,
        .batch = 64,
        .result_ttl_s = 60,
        .results_max = 100000,
        .dead_max = 1000,
    };
    return bench;
}

static inline void on_closed(void *context)
{
    ((struct bench *)context)->closed = true;
}

static inline void close_queue(struct bench *bench, double timeout_s)
{
    bench->closed = false;
    queue_close(bench->queue, timeout_s, on_closed, bench);
    run_until(bench, bench->closed);
    queue_destroy(bench->queue);
    bench->queue = NULL;
}

static inline void tear_down(struct bench *bench)
{
    if (bench->queue)
        close_queue(bench, 0);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bench->loop), 0);
    if (bench->redis)
        redisFree(bench->redis);
    redis_server_stop(bench->server);
    free(bench->bytes);
    free(bench);
}

/* One more daemon, of another host, beside the first one. */
static inline struct bench *set_up_beside(struct bench *first, const char *host)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->first = first;
    bench->server = first->server;
    bench->redis = first->redis;
    bench->config = first->config;
    snprintf(bench->inst, sizeof bench->inst, "%s%s", host, strchr(first->inst, ':'));
    snprintf(bench->daemon, sizeof bench->daemon, "%s%s", host, strchr(first->daemon, ':'));
    bench->config.instance = bench->inst;
    return bench;
}

/* Before the first one's tear_down. */
static inline void tear_down_beside(struct bench *bench)
{
    if (bench->queue)
        close_queue(bench, 0);
    free(bench);
}

static inline struct bench *set_up_started(void)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->redis = redis_server_connect(bench->server);
    start_queue(bench);
    return bench;
}

static inline void push(struct bench *bench, int count)
{
    for (int i = 0; i < count; i++)
        redisAppendCommand(bench->redis, "LPUSH t:jobs {\"n\":%d}", i);
    for (int i = 0; i < count; i++) {
        void *reply = NULL;
        assert_int_equal(redisGetReply(bench->redis, &reply), REDIS_OK);
        freeReplyObject(reply);
    }
}

static inline void reconnect(struct bench *bench)
{
    redisFree(bench->redis);
    bench->redis = redis_server_connect(bench->server);
}

static inline void expect_text(struct bench *bench, const char *expected, const char *command)
{
    char *text = redis_string(bench->redis, command);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* calls=N of one command. */
static inline long long calls(struct bench *bench, const char *command)
{
    char name[64];
    char *info = redis_string(bench->redis, "INFO commandstats");
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(info, name);
    long long count = at ? atoll(at + strlen(name)) : 0;
    free(info);
    return count;
}

#endif
