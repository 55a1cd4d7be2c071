/* test_queue.c - the client against a real redis-server: batches, lost leases, outages, drain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netdb.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/log.h"
#include "queue/instance.h"
#include "queue/queue.h"
#include "tests/tools/redis_server.h"

#define LEASES_MAX 1024

/* A daemon that takes leases and does with them what the test says. */
struct bench {
    struct redis_server *server;
    redisContext *redis;
    uv_loop_t loop;
    struct queue *queue;
    struct queue_config config;
    char inst[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    bool finish_at_once;       /* answer each lease from inside `leased` */
    struct lease *leases[LEASES_MAX];
    size_t lease_count;        /* held */
    size_t leased, settled, stale, dead, lost;
    bool closed;
    uint8_t *bytes;            /* what queue_read gave */
    size_t length;
    enum status read_status;
    int reads;
};

/* ---- a resolver of our own ------------------------------------------------------------------- */

#define DEAD_NAME "dead.test" /* no answer before release_resolver */

static sem_t resolver_release;
static atomic_int resolver_waits;

/* In the place of the C library's: "A+B" is a name with these two addresses. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    char text[256], *save;
    struct addrinfo **last = found;
    (void)hints;
    if (strcmp(name, DEAD_NAME) == 0) {
        atomic_fetch_add(&resolver_waits, 1);
        sem_wait(&resolver_release);
        atomic_fetch_sub(&resolver_waits, 1);
        return EAI_AGAIN;
    }
    *found = NULL;
    snprintf(text, sizeof text, "%s", name);
    for (char *at = strtok_r(text, "+", &save); at; at = strtok_r(NULL, "+", &save)) {
        struct {
            struct addrinfo info;
            struct sockaddr_in address;
        } *one = calloc(1, sizeof *one);
        one->info.ai_family = one->address.sin_family = AF_INET;
        one->info.ai_socktype = SOCK_STREAM;
        one->info.ai_addr = (struct sockaddr *)&one->address;
        one->info.ai_addrlen = sizeof one->address;
        one->address.sin_port = htons((uint16_t)atoi(service));
        inet_pton(AF_INET, at, &one->address.sin_addr);
        *last = &one->info;
        last = &one->info.ai_next;
    }
    return *found ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *info)
{
    while (info) {
        struct addrinfo *next = info->ai_next;
        free(info);
        info = next;
    }
}

static void release_resolver(void)
{
    while (atomic_load(&resolver_waits) > 0) {
        sem_post(&resolver_release);
        usleep(1000);
    }
}

/* ---- the bench ------------------------------------------------------------------------------- */

static void take_off(struct bench *bench, struct lease *lease)
{
    for (size_t i = 0; i < bench->lease_count; i++)
        if (bench->leases[i] == lease)
            bench->leases[i] = bench->leases[--bench->lease_count];
}

static void done(struct bench *bench, struct lease *lease)
{
    char id[32];
    snprintf(id, sizeof id, "%llu", (unsigned long long)lease->number);
    take_off(bench, lease);
    queue_done(bench->queue, lease, strdup("{\"status\":\"done\"}"), id, NULL, NULL, 0);
}

static void on_leased(void *context, struct lease *lease)
{
    struct bench *bench = context;
    bench->leased++;
    assert_true(bench->lease_count < LEASES_MAX);
    bench->leases[bench->lease_count++] = lease;
    if (bench->finish_at_once)
        done(bench, lease);
}

static void on_lost(void *context, struct lease *lease)
{
    struct bench *bench = context;
    assert_true(lease->lost);
    bench->lost++;
}

static void on_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct bench *bench = context;
    assert_true(lease->settled);
    bench->settled++;
    bench->stale += stale;
    bench->dead += dead;
    if (bench->finish_at_once)
        queue_set_places(bench->queue, 64);
}

static void wake(uv_timer_t *timer)
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

static void turn(struct bench *bench)
{
    static uv_timer_t timer;
    uv_timer_init(&bench->loop, &timer);
    uv_timer_start(&timer, wake, 5, 0);
    uv_run(&bench->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&bench->loop, UV_RUN_NOWAIT);
}

static void run_ms(struct bench *bench, unsigned ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000ull;
    while (uv_hrtime() < end)
        turn(bench);
}

static void start_queue(struct bench *bench)
{
    struct queue_events events = {bench, on_leased, on_lost, on_settled};
    struct error error = {0};
    bench->queue = queue_create(&bench->loop, &bench->config, &events, &error);
    assert_non_null(bench->queue);
    queue_start(bench->queue);
}

static struct bench *set_up(struct redis_server *server)
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

static void on_closed(void *context)
{
    ((struct bench *)context)->closed = true;
}

static void close_queue(struct bench *bench, double timeout_s)
{
    bench->closed = false;
    queue_close(bench->queue, timeout_s, on_closed, bench);
    run_until(bench, bench->closed);
    queue_destroy(bench->queue);
    bench->queue = NULL;
}

static void tear_down(struct bench *bench)
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

static struct bench *set_up_started(void)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->redis = redis_server_connect(bench->server);
    start_queue(bench);
    return bench;
}

static void push(struct bench *bench, int count)
{
    for (int i = 0; i < count; i++)
        redisAppendCommand(bench->redis, "LPUSH t:jobs {\"n\":%d}", i);
    for (int i = 0; i < count; i++) {
        void *reply = NULL;
        assert_int_equal(redisGetReply(bench->redis, &reply), REDIS_OK);
        freeReplyObject(reply);
    }
}

static void reconnect(struct bench *bench)
{
    redisFree(bench->redis);
    bench->redis = redis_server_connect(bench->server);
}

/* calls=N of one command. */
static long long calls(struct bench *bench, const char *command)
{
    char name[64];
    char *info = redis_string(bench->redis, "INFO commandstats");
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(info, name);
    long long count = at ? atoll(at + strlen(name)) : 0;
    free(info);
    return count;
}

static void test_fetches_and_acks_in_batches(void **state)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    push(bench, 1000);
    bench->finish_at_once = true;
    start_queue(bench);
    queue_set_places(bench->queue, 64);
    run_until(bench, bench->settled == 1000);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1000);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 0);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:job:1"), 0);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:result:1000"), 1);
    /* FETCH and DONE of 1000 jobs each, and a few calls beside them. */
    assert_true(calls(bench, "evalsha") + calls(bench, "eval") <= 2 * 1000 / 8);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

static void test_wakes_up_when_idle(void **state)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    bench->config.block_s = 5;
    start_queue(bench);
    queue_set_places(bench->queue, 4);
    run_until(bench, calls(bench, "evalsha") + calls(bench, "eval") >= 3);
    run_ms(bench, 100);
    uint64_t before = uv_hrtime();
    push(bench, 1);
    run_until(bench, bench->leased == 1);
    assert_true(uv_hrtime() - before < 2000000000ull); /* not block_s */
    assert_string_equal(bench->leases[0]->raw, "{\"n\":0}");
    assert_int_equal(bench->leases[0]->raw_bytes, 7);
    assert_int_equal(bench->leases[0]->attempt, 1);
    done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 1);
    tear_down(bench);
}

static void test_fetches_no_more_than_places(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 10);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    run_ms(bench, 100);
    assert_int_equal(bench->leased, 3);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 7);
    assert_int_equal(queue_view(bench->queue)->length, 7);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 4);
    while (bench->lease_count)
        done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 4);
    tear_down(bench);
}

static void test_retry_waits_and_ends_dead(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 1);
    queue_set_places(bench->queue, 4);
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        run_until(bench, bench->leased == attempt);
        struct lease *lease = bench->leases[0];
        assert_int_equal(lease->attempt, attempt);
        assert_int_equal(lease->alone, attempt == 3);
        take_off(bench, lease);
        queue_nack(bench->queue, lease, NACK_RETRY, strdup("{\"status\":\"dead\"}"), "x", NULL);
        queue_set_places(bench->queue, 4);
        run_until(bench, bench->settled == attempt);
    }
    assert_int_equal(bench->dead, 1);
    assert_int_equal(queue_view(bench->queue)->dead, 1);
    assert_int_equal(queue_view(bench->queue)->redelivered, 2);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:dead"), 1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1);
    char *result = redis_string(bench->redis, "GET t:result:x");
    assert_string_equal(result, "{\"status\":\"dead\"}");
    free(result);
    tear_down(bench);
}

static void test_alone_runs_with_nothing_beside(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    /* A neighbour runs while a job on its last attempt waits. */
    push(bench, 1);
    queue_set_places(bench->queue, 8);
    run_until(bench, bench->leased == 1);
    redis_integer(bench->redis, "HSET t:job:77 raw last state alone attempt 2");
    redis_integer(bench->redis, "LPUSH t:alone 77");
    run_until(bench, redis_integer(bench->redis, "EXISTS t:alone:owner") == 1);
    push(bench, 2);
    run_ms(bench, 400);
    assert_int_equal(bench->leased, 1);
    done(bench, bench->leases[0]);
    run_until(bench, bench->leased == 2);
    run_ms(bench, 300);
    assert_int_equal(bench->leased, 2);
    assert_true(bench->leases[0]->alone);
    assert_string_equal(bench->leases[0]->raw, "last");
    done(bench, bench->leases[0]);
    run_until(bench, bench->leased == 4);
    assert_false(bench->leases[0]->alone);
    run_until(bench, redis_integer(bench->redis, "EXISTS t:alone:owner") == 0);
    tear_down(bench);
}

static void test_lost_lease(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 2);
    queue_set_places(bench->queue, 2);
    run_until(bench, bench->leased == 2);
    redis_integer(bench->redis, "HSET t:job:1 token other:1 owner other");
    run_until(bench, bench->lost == 1);
    while (bench->lease_count)
        done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 2);
    assert_int_equal(bench->stale, 1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:job:1"), 1);
    tear_down(bench);
}

static void test_survives_redis_kill_and_restart(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 20);
    queue_set_places(bench->queue, 20);
    run_until(bench, bench->leased == 20);
    redis_server_kill9(bench->server);
    while (bench->lease_count)
        done(bench, bench->leases[0]);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_CONNECTING);
    assert_int_equal(queue_view(bench->queue)->unacknowledged, 20);
    assert_true(*queue_view(bench->queue)->reason);
    run_ms(bench, 300);
    assert_int_equal(bench->settled, 0);
    redis_server_restart(bench->server);
    reconnect(bench);
    run_until(bench, bench->settled == 20);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 20);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_READY);
    push(bench, 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 21);
    tear_down(bench);
}

/* Each script's text goes over the line once, and again where Redis has lost it. */
static void test_scripts_are_loaded_again(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    bench->finish_at_once = true;
    queue_set_places(bench->queue, 64);
    push(bench, 1);
    run_until(bench, bench->settled == 1);
    long long by_text = calls(bench, "eval"), by_name = calls(bench, "evalsha");
    freeReplyObject(redis_command(bench->redis, "SCRIPT FLUSH"));
    for (size_t i = 0; i < 20; i++) {
        push(bench, 1);
        run_until(bench, bench->settled == 2 + i);
    }
    assert_in_range(calls(bench, "eval") - by_text, 2, 10);
    assert_true(calls(bench, "evalsha") - by_name >= 40);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

/* While it is still loading its data, Redis answers everything with LOADING. */
static void test_waits_out_loading(void **state)
{
    struct bench *bench =
        set_up(redis_server_start("--key-load-delay", "200", NULL)); /* us a command */
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    push(bench, 4000); /* it looks at its connections after each 1024 */
    start_queue(bench);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    redis_server_restart_nowait(bench->server);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "LOADING") != NULL);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    reconnect(bench);
    tear_down(bench);
}

static void write_password(const char *path, const char *password)
{
    FILE *file = fopen(path, "w");
    fprintf(file, "%s\n", password);
    fclose(file);
}

static void test_wrong_password_then_right(void **state)
{
    char path[256];
    struct bench *bench = set_up(redis_server_start("--requirepass", "right", NULL));
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    freeReplyObject(redis_command(bench->redis, "AUTH right"));
    push(bench, 1);
    snprintf(path, sizeof path, "%s/password", bench->server->folder);
    write_password(path, "wrong");
    bench->config.password_file = path;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "WRONGPASS") != NULL);
    assert_int_equal(bench->leased, 0);
    write_password(path, "right");
    run_until(bench, bench->leased == 1);
    done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 1);
    tear_down(bench);
}

static void test_acl_user_database_and_tcp(void **state)
{
    char path[256];
    struct bench *bench = set_up(redis_server_start(NULL));
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker on >secret ~t:* +@read "
                                                "+@write +@scripting +@connection +@blocking "
                                                "+info +time +config|get")); /* PROTOCOL.md */
    freeReplyObject(redis_command(bench->redis, "SELECT 3"));
    push(bench, 1);
    snprintf(path, sizeof path, "%s/password", bench->server->folder);
    write_password(path, "secret");
    bench->config.redis = bench->server->tcp;
    bench->config.username = "worker";
    bench->config.password_file = path;
    bench->config.database = 3;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 1);
    /* Rights that are taken away: waits, and goes on when they are back. */
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker -evalsha -eval"));
    queue_set_places(bench->queue, 1);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "NOPERM") != NULL);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_WAITING);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker +evalsha +eval"));
    push(bench, 1);
    run_until(bench, bench->leased == 2);
    tear_down(bench);
}

static void test_cut_connection_and_resume(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 2);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    /* A lease whose FETCH was not answered: known to Redis, unknown to the daemon. */
    redis_integer(bench->redis, "HSET t:job:50 raw cut state leased attempt 1 owner %s token %s:0",
                  bench->inst, bench->inst);
    redis_integer(bench->redis, "ZADD t:lease 99999999999999 50");
    redis_integer(bench->redis, "CLIENT KILL TYPE normal SKIPME yes");
    run_until(bench, redis_integer(bench->redis, "ZCARD t:lease") == 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 2);
    assert_string_equal(bench->leases[1]->raw, "cut");
    assert_int_equal(bench->leases[1]->attempt, 1); /* the attempt came back */
    assert_int_equal(bench->lost, 0);
    while (bench->lease_count)
        done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 2);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

static void test_frozen_redis_is_left_and_come_back_to(void **state)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    bench->config.command_timeout_s = 0.3;
    bench->config.connect_timeout_s = 0.3;
    start_queue(bench);
    push(bench, 3);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    redis_server_freeze(bench->server, true);
    while (bench->lease_count) /* their DONE is carried out later, and its answer lost */
        done(bench, bench->leases[0]);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "no answer") != NULL);
    redis_server_freeze(bench->server, false);
    run_until(bench, bench->settled == 3);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 3);
    tear_down(bench);
}

static void test_full_redis_drains(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 50);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    freeReplyObject(redis_command(bench->redis, "CONFIG SET maxmemory 1"));
    char *refused = redis_string(bench->redis, "LPUSH t:jobs x");
    assert_non_null(strstr(refused, "OOM"));
    free(refused);
    bench->finish_at_once = true;
    queue_set_places(bench->queue, 64);
    run_until(bench, bench->settled == 50);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 50);
    tear_down(bench);
}

static void test_wrongtype_is_waited_out(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    freeReplyObject(redis_command(bench->redis, "SET t:results oops"));
    done(bench, bench->leases[0]);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "WRONGTYPE") != NULL);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_WAITING);
    assert_int_equal(queue_view(bench->queue)->unacknowledged, 1);
    redis_integer(bench->redis, "DEL t:results");
    run_until(bench, bench->settled == 1);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1);
    tear_down(bench);
}

static void test_key_outputs_and_reply(void **state)
{
    struct bench *bench = set_up_started();
    struct queue_value values[2] = {{.key = "t:img:a", .bytes = 3, .ttl_s = 100},
                                    {.key = "t:img:b", .bytes = 0}};
    (void)state;
    push(bench, 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    values[0].value = malloc(3);
    memcpy(values[0].value, "a\0b", 3);
    queue_done(bench->queue, bench->leases[0], strdup("{}"), NULL, "t:reply:me", values, 2);
    run_until(bench, bench->settled == 1);
    assert_int_equal(redis_integer(bench->redis, "STRLEN t:img:a"), 3);
    assert_true(redis_integer(bench->redis, "TTL t:img:a") > 90);
    assert_int_equal(redis_integer(bench->redis, "TTL t:img:b"), -1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:reply:me"), 1);
    assert_true(redis_integer(bench->redis, "TTL t:reply:me") > 50);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 0);
    tear_down(bench);
}

/* The answer may take long while the bytes of the command still move. */
static void test_large_done_over_a_slow_line(void **state)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct queue_value value = {.key = "t:img:a", .bytes = 1 << 20};
    (void)state;
    redis_server_slow_line(bench->server, 2000); /* half a second at least for the whole of it */
    bench->redis = redis_server_connect(bench->server);
    bench->config.redis = bench->server->line;
    bench->config.command_timeout_s = 0.3;
    start_queue(bench);
    push(bench, 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    value.value = calloc(1, value.bytes);
    queue_done(bench->queue, bench->leases[0], strdup("{}"), NULL, NULL, &value, 1);
    run_until(bench, bench->settled == 1);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "STRLEN t:img:a"), 1 << 20);
    tear_down(bench);
}

static void on_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct bench *bench = context;
    free(bench->bytes);
    bench->bytes = bytes;
    bench->length = length;
    bench->read_status = error ? error->status : STATUS_OK;
    bench->reads++;
}

static void test_read(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    freeReplyObject(redis_command(bench->redis, "SET t:img:a %b", "\0\1\2\3", (size_t)4));
    redis_integer(bench->redis, "LPUSH t:img:list x");
    struct {
        const char *key;
        uint64_t max;
        enum status status;
    } cases[] = {
        {"t:img:a", 4, STATUS_OK},
        {"t:img:a", 3, STATUS_INPUT_TOO_LARGE},
        {"t:img:none", 4, STATUS_INPUT_MISSING},
        {"t:img:list", 4, STATUS_INPUT_MISSING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = bench->reads;
        assert_non_null(queue_read(bench->queue, cases[i].key, cases[i].max, on_read, bench));
        run_until(bench, bench->reads == before + 1);
        assert_int_equal(bench->read_status, cases[i].status);
        if (cases[i].status == STATUS_OK) {
            assert_int_equal(bench->length, 4);
            assert_memory_equal(bench->bytes, "\0\1\2\3", 4);
        }
    }
    /* Cancelled before and after it was sent: no callback. */
    int before = bench->reads;
    queue_read_cancel(bench->queue, queue_read(bench->queue, "t:img:a", 4, on_read, bench));
    run_ms(bench, 50);
    redis_server_kill9(bench->server);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_CONNECTING);
    queue_read_cancel(bench->queue, queue_read(bench->queue, "t:img:a", 4, on_read, bench));
    assert_int_equal(bench->reads, before);
    /* A Redis that stays away: input_unreadable in the end. */
    bench->config.connect_timeout_s = 0.1;
    queue_read(bench->queue, "t:img:a", 4, on_read, bench);
    redis_server_restart(bench->server);
    reconnect(bench);
    run_until(bench, bench->reads == before + 1);
    assert_int_equal(bench->read_status, STATUS_OK);
    tear_down(bench);
}

/* A read that Redis refuses waits before it tries again, however many others come meanwhile. */
static void test_refused_reads_wait_for_their_own_retry(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    freeReplyObject(redis_command(bench->redis, "SET t:img:a x"));
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default -strlen"));
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    for (int i = 0; i < 12; i++) {
        queue_read(bench->queue, "t:img:a", 4, on_read, bench);
        run_ms(bench, 10);
    }
    assert_int_equal(bench->reads, 0);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default +strlen"));
    run_until(bench, bench->reads == 12);
    assert_int_equal(bench->read_status, STATUS_OK);
    tear_down(bench);
}

static void test_drain(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 5);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    bench->closed = false;
    queue_close(bench->queue, 5, on_closed, bench);
    queue_set_places(bench->queue, 10);
    run_ms(bench, 100);
    assert_false(bench->closed); /* three are running still */
    assert_int_equal(bench->leased, 3);
    done(bench, bench->leases[0]);
    struct lease *lease = bench->leases[0];
    take_off(bench, lease);
    queue_nack(bench->queue, lease, NACK_GIVE_BACK, NULL, NULL, NULL);
    done(bench, bench->leases[0]);
    run_until(bench, bench->closed);
    assert_int_equal(bench->settled, 3);
    queue_destroy(bench->queue);
    bench->queue = NULL;
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:inst"), 0);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 3);
    tear_down(bench);
}

static void test_close_while_redis_is_down(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 2);
    queue_set_places(bench->queue, 2);
    run_until(bench, bench->leased == 2);
    redis_server_kill9(bench->server);
    done(bench, bench->leases[0]); /* the other one is left to queue_destroy */
    close_queue(bench, 0.2);
    redis_server_restart(bench->server);
    reconnect(bench);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 2);
    tear_down(bench);
}

/* A daemon that gives up goes without a close. */
static void test_destroy_without_close(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    push(bench, 1);
    queue_set_places(bench->queue, 2);
    run_until(bench, bench->leased == 1);
    queue_read(bench->queue, "t:img:a", 4, on_read, bench);
    queue_destroy(bench->queue);
    bench->queue = NULL;
    tear_down(bench);
}

/* Places that the daemon offers from inside `leased` count those leases that are yet to come. */
static void on_leased_and_offer(void *context, struct lease *lease)
{
    struct bench *bench = context;
    on_leased(context, lease);
    queue_set_places(bench->queue, 5 - (uint32_t)bench->lease_count);
}

static void test_offers_from_inside_leased(void **state)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct queue_events events = {bench, on_leased_and_offer, on_lost, on_settled};
    struct error error = {0};
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    push(bench, 20);
    bench->queue = queue_create(&bench->loop, &bench->config, &events, &error);
    queue_start(bench->queue);
    queue_set_places(bench->queue, 5);
    run_until(bench, bench->leased == 5);
    run_ms(bench, 100);
    assert_int_equal(bench->leased, 5);
    char *seq = redis_string(bench->redis, "GET t:seq");
    assert_string_equal(seq, "5"); /* not one more was fetched and given back */
    free(seq);
    tear_down(bench);
}

/* A process that was here, held a lease, and is gone. */
static void test_dead_neighbour_is_taken_over_at_once(void **state)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    char gone[INSTANCE_BYTES_MAX], *last;
    (void)state;
    bench->redis = redis_server_connect(bench->server);
    strcpy(gone, bench->inst);
    last = strrchr(gone, ':');
    strcpy(last, ":1"); /* our pid with another start time: not this process */
    redis_integer(bench->redis, "ZADD t:inst 99999999999999 %s", gone);
    redis_integer(bench->redis, "ZADD t:lease 99999999999999 7 99999999999999 8");
    redis_integer(bench->redis, "HSET t:job:7 raw seven state leased attempt 1 owner %s token x",
                  gone);
    redis_integer(bench->redis,
                  "HSET t:job:8 raw %s state leased attempt 3 owner %s token x",
                  "{\"id\":\"eight\",\"meta\":1.50}", gone);
    bench->config.reap_s = 60;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    assert_string_equal(bench->leases[0]->raw, "seven");
    assert_int_equal(bench->leases[0]->attempt, 2); /* the first one stays charged */
    run_until(bench, redis_integer(bench->redis, "LLEN t:dead") == 1);
    char *result = redis_string(bench->redis, "GET t:result:eight");
    assert_non_null(strstr(result, "\"id\":\"eight\",\"job\":8,\"status\":\"dead\""));
    assert_non_null(strstr(result, "\"code\":\"attempts_exhausted\""));
    assert_non_null(strstr(result, "\"meta\":1.50,"));
    assert_non_null(strstr(result, bench->daemon));
    free(result);
    assert_int_equal(redis_integer(bench->redis, "ZSCORE t:inst %s", gone), 0);
    tear_down(bench);
}

/* A listener that takes nobody in: who connects to it hears nothing. fds[0] is it. */
static void open_black_hole(const char *ip, int port, int fds[4])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    for (int i = 0; i < 4; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    for (int i = 1; i < 4; i++) /* its queue is full after them */
        connect(fds[i], (struct sockaddr *)&address, sizeof address);
}

static void test_each_address_of_a_name_is_tried(void **state)
{
    static const char *const names[] = {
        "127.0.0.3+127.0.0.1",                 /* refused */
        "255.255.255.255+127.0.0.1",           /* unreachable, known at once */
        "127.0.0.2+127.0.0.1",                 /* silent */
        "255.255.255.255+127.0.0.2+127.0.0.3+127.0.0.1",
    };
    struct redis_server *server = redis_server_start(NULL);
    int fds[4];
    (void)state;
    open_black_hole("127.0.0.2", server->port, fds);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[128];
        struct bench *bench = set_up(server);
        bench->redis = redis_server_connect(server);
        snprintf(name, sizeof name, "%s:%d", names[i], server->port);
        bench->config.redis = name;
        start_queue(bench);
        run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
        bench->server = NULL; /* for the next one */
        tear_down(bench);
    }
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    redis_server_stop(server);
}

/* A resolver that does not answer is not waited for, and is asked once at a time. */
static void test_a_dead_resolver_delays_no_exit(void **state)
{
    struct bench *bench = set_up(NULL);
    (void)state;
    bench->config.redis = DEAD_NAME;
    bench->config.connect_timeout_s = 0.05;
    start_queue(bench);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "not found within") != NULL);
    run_until(bench, atomic_load(&resolver_waits) == 2);
    run_ms(bench, 500);
    assert_int_equal(atomic_load(&resolver_waits), 2); /* one for each connection */
    tear_down(bench);
    assert_int_equal(atomic_load(&resolver_waits), 2);
    release_resolver();
}

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"localhost:6379", true}, {"localhost", true}, {"127.0.0.1:1", true}, {"[::1]:6379", true},
        {"[::1]", true}, {"unix:/run/redis.sock", true}, {"h:65535", true},
        {"h:65536", false}, {"h:0", false}, {"h:", false}, {"h:6a", false}, {":1", false},
        {"", false}, {"::1", false}, {"[::1", false}, {"[]:1", false}, {"[::1]x", false},
        {"unix:relative", false}, {"rediss://h:1", false}, {"redis://h:1", false},
    };
    uv_loop_t loop;
    (void)state;
    uv_loop_init(&loop);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct queue_config config = {.redis = cases[i].text, .ns = "t", .instance = "i"};
        struct queue_events events = {0};
        struct error error = {0};
        struct queue *queue = queue_create(&loop, &config, &events, &error);
        if (!queue != !cases[i].good)
            fail_msg("\"%s\": %s", cases[i].text, error.text);
        assert_int_equal(error.status == STATUS_OK, cases[i].good);
        if (queue)
            queue_destroy(queue);
    }
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_each_address_of_a_name_is_tried),
        cmocka_unit_test(test_a_dead_resolver_delays_no_exit),
        cmocka_unit_test(test_fetches_and_acks_in_batches),
        cmocka_unit_test(test_wakes_up_when_idle),
        cmocka_unit_test(test_fetches_no_more_than_places),
        cmocka_unit_test(test_retry_waits_and_ends_dead),
        cmocka_unit_test(test_alone_runs_with_nothing_beside),
        cmocka_unit_test(test_lost_lease),
        cmocka_unit_test(test_survives_redis_kill_and_restart),
        cmocka_unit_test(test_scripts_are_loaded_again),
        cmocka_unit_test(test_waits_out_loading),
        cmocka_unit_test(test_wrong_password_then_right),
        cmocka_unit_test(test_acl_user_database_and_tcp),
        cmocka_unit_test(test_cut_connection_and_resume),
        cmocka_unit_test(test_frozen_redis_is_left_and_come_back_to),
        cmocka_unit_test(test_full_redis_drains),
        cmocka_unit_test(test_wrongtype_is_waited_out),
        cmocka_unit_test(test_key_outputs_and_reply),
        cmocka_unit_test(test_large_done_over_a_slow_line),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_refused_reads_wait_for_their_own_retry),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_close_while_redis_is_down),
        cmocka_unit_test(test_destroy_without_close),
        cmocka_unit_test(test_offers_from_inside_leased),
        cmocka_unit_test(test_dead_neighbour_is_taken_over_at_once),
    };
    signal(SIGPIPE, SIG_IGN);
    sem_init(&resolver_release, 0, 0);
    log_init();
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
