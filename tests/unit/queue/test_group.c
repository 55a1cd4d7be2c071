/* Tests of the shards of a daemon as one source of jobs: places, reads, a shard that is away. */
#include "queue/lease/group.h"

#include <signal.h>

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/lease/lease_impl.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/redis_server.h"
#include "tests/fixtures/test.h"

#define SHARDS 4
#define HELD_MAX 64

/* A daemon that holds leases until the test ends them. */
struct rig {
    struct redis_server *server, *other; /* other: of the odd shards, or NULL */
    uv_loop_t loop;
    struct options options;
    char inst[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    struct group *group;
    uint32_t places, spare;     /* in all */
    struct lease *held[HELD_MAX];
    size_t count, leased[SHARDS], settled, settled_of[SHARDS], stale, reads;
    uint32_t attempt;           /* of the last lease */
    bool closed;
};
static struct rig rig;

static void offer(void)
{
    group_set_places(rig.group, rig.places - (uint32_t)rig.count, rig.spare, true);
}

static void on_leased(void *context, struct lease *lease)
{
    (void)context;
    assert_true(rig.count < rig.places + rig.spare);
    assert_int_equal(lease->shards, SHARDS);
    rig.held[rig.count++] = lease;
    rig.leased[lease->shard]++;
    rig.attempt = lease->attempt;
}

static void on_lost(void *context, struct lease *lease)
{
    (void)context, (void)lease;
}

static void on_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    (void)context, (void)dead;
    rig.settled++;
    rig.settled_of[lease->shard]++;
    rig.stale += stale;
}

static void on_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    (void)context, (void)length;
    assert_null(error);
    free(bytes);
    rig.reads++;
}

static void on_closed(void *context)
{
    (void)context;
    rig.closed = true;
}

static void finish_one(void)
{
    struct lease *lease = rig.held[--rig.count];
    queue_done(lease->queue, lease, &(struct queue_answer){.result = strdup("{}")});
}

#define run_until(condition) assert_true(await(20, (uv_run(&rig.loop, UV_RUN_NOWAIT), condition)))

static void run_for(uint64_t ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < end)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static redisContext *client_of(unsigned shard)
{
    return redis_server_connect(rig.other && shard % 2 ? rig.other : rig.server);
}

static void push(unsigned shard, unsigned count)
{
    redisContext *client = client_of(shard);
    for (unsigned i = 0; i < count; i++)
        redisAppendCommand(client, "LPUSH {t:%u}:jobs {}", shard);
    redis_drain(client, count);
    redisFree(client);
}

static void set(const char *name, const char *value)
{
    struct error error = {0};
    assert_true(options_set(&rig.options, name, value, &error));
}

static bool all_ready(void)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (!group_shard_view(rig.group, i).ready)
            return false;
    return true;
}

/* Whether a shard does not know yet that its list has jobs. */
static bool is_any_idle(void)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (rig.group->queues[i]->idle.now)
            return true;
    return false;
}

static void set_up_leases(uint32_t places, bool two_servers, const char *lease_s)
{
    struct queue_events events = {NULL, on_leased, on_lost, on_settled, NULL, NULL};
    struct error error = {0};
    rig = (struct rig){.places = places, .server = redis_server_start(NULL)};
    rig.other = two_servers ? redis_server_start(NULL) : NULL;
    signal(SIGPIPE, SIG_IGN);
    log_init();
    assert_true(options_init(&rig.options, &error));
    set("redis", two_servers ? text_of("%s %s", rig.server->address, rig.other->address)
                             : rig.server->address);
    set("namespace", "t");
    set("shards", "4");
    set("lease_s", lease_s);
    set("renew_s", "0.1");
    set("reap_s", "0.2");
    set("block_s", "0.2");
    assert_true(instance_self(rig.inst, rig.daemon));
    uv_loop_init(&rig.loop);
    rig.group = group_create(&rig.loop, &rig.options, rig.inst, &events, &error);
    assert_non_null(rig.group);
    group_start(rig.group);
    run_until(all_ready());
}

/* With leases that do not run out while a busy machine keeps the test from its loop. */
static void set_up(uint32_t places, bool two_servers)
{
    set_up_leases(places, two_servers, "15");
}

static void tear_down(void)
{
    while (rig.count > 0)
        finish_one();
    group_close(rig.group, 5, on_closed, NULL);
    run_until(rig.closed);
    group_destroy(rig.group);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    options_clear(&rig.options);
    redis_server_stop(rig.other);
    redis_server_stop(rig.server);
}

/* on_leased checks that no shard brings more jobs than there are places. The shares are not exact:
 * a shard whose calls return sooner fetches more often. */
TEST(busy_shards_share_the_places)
{
    set_up(7, false);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        push(shard, 150);
    offer();
    while (rig.leased[0] + rig.leased[1] + rig.leased[2] + rig.leased[3] < 300) {
        run_until(rig.count > 0);
        while (rig.count > 0)
            finish_one();
        offer();
    }
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_in_range(rig.leased[shard], 30, 150);
    tear_down();
}

/* The jobs of the odd shards do not end: they may be slow, or their Redis is. The test waits until
 * Redis has acknowledged the end of the others; before that, their places would count twice, as
 * free and as held, and each share would be larger. */
TEST(a_slow_shard_keeps_to_its_share)
{
    set_up(16, false);
    group_set_places(rig.group, 0, 0, true);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        push(shard, 100);
    run_for(100);
    run_until(!is_any_idle());
    offer();
    size_t ended = 0;
    while (ended < 90) {
        run_until(rig.leased[0] + rig.leased[2] > ended);
        size_t kept = 0, count = rig.count;
        for (size_t i = 0; i < count; i++) {
            struct lease *lease = rig.held[i];
            if (lease->shard % 2) {
                rig.held[kept++] = lease;
            } else {
                queue_done(lease->queue, lease, &(struct queue_answer){.result = strdup("{}")});
                ended++;
            }
        }
        rig.count = kept;
        run_until(rig.settled == ended);
        offer();
    }
    assert_int_equal(rig.leased[1], 4);
    assert_int_equal(rig.leased[3], 4);
    tear_down();
}

/* All places are promised to a FETCH of shard 1 whose reply does not come. */
TEST(no_job_waits_for_the_places_of_a_slow_shard)
{
    set_up(4, true);
    set("inflight", "4");
    rig.spare = 4;
    offer();
    run_for(600); /* until all shards are idle, also on a busy machine */
    group_set_places(rig.group, 0, 0, true);
    push(1, 10);
    run_for(100);
    run_until(!rig.group->queues[1]->idle.now); /* shard 1 knows that it has jobs */
    kill(rig.other->pid, SIGSTOP);
    offer();
    run_for(100); /* until FETCH of shard 1 has asked for all places, while shard 0 is idle */
    uint64_t start_ns = uv_hrtime();
    for (size_t jobs = 1; jobs <= 3; jobs++) {
        push(0, 1);
        run_until(rig.leased[0] == jobs);
        finish_one();
        run_until(rig.settled == jobs);
        offer();
    }
    assert_in_range(uv_hrtime() - start_ns, 0, 2000000000);
    push(0, 5);
    run_until(rig.leased[0] == 3 + 2);
    run_for(100);
    assert_int_equal(rig.leased[0], 3 + 2); /* its share is an equal part */
    assert_int_equal(rig.leased[1], 0);
    kill(rig.other->pid, SIGCONT);
    run_until(rig.leased[1] == 4); /* none of them returns to the queue */
    tear_down();
}

TEST(one_busy_shard_gets_all_places)
{
    set_up(20, false);
    offer();
    push(2, 100);
    run_until(rig.leased[2] == 20);
    /* The others are idle and hold none; one gets the next place that is free. */
    push(1, 5);
    uint64_t end = uv_hrtime() + 50000000;
    while (uv_hrtime() < end)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    assert_int_equal(rig.leased[1], 0);
    finish_one();
    offer();
    run_until(rig.leased[1] + rig.leased[2] == 21);
    assert_int_equal(rig.leased[1], 1);
    tear_down();
}

static void store_large_images(void)
{
    char *large = calloc(1, 2 * QUEUE_READ_LARGE);
    memset(large, 'x', 2 * QUEUE_READ_LARGE);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        redisContext *client = client_of(shard);
        freeReplyObject(redis_command(client, "SET {t:%u}:img:a %b", shard, large,
                                      (size_t)(2 * QUEUE_READ_LARGE)));
        redisFree(client);
    }
    free(large);
}

static void read_large(struct lease *lease)
{
    assert_non_null(
        queue_read(lease->queue, text_of("{t:%u}:img:a", lease->shard), MIB, NULL, on_read, NULL));
}

/* Four large images at a time, of all shards together. */
TEST(reads_share_one_limit)
{
    set_up(4, false);
    store_large_images();
    offer();
    for (unsigned shard = 0; shard < SHARDS; shard++)
        push(shard, 1);
    run_until(rig.count == SHARDS);
    for (unsigned i = 0; i < 2 * SHARDS; i++)
        read_large(rig.held[i % SHARDS]);
    run_until(rig.reads == READS_LARGE_MAX);
    uint64_t end = uv_hrtime() + 50000000;
    while (uv_hrtime() < end)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    assert_int_equal(rig.reads, READS_LARGE_MAX);
    for (size_t released = 0; released < 2 * SHARDS; released++) {
        run_until(rig.reads > released);
        queue_read_release(rig.held[0]->queue, 2 * QUEUE_READ_LARGE);
    }
    assert_int_equal(rig.reads, 2 * SHARDS);
    tear_down();
}

/* STRLEN begins the read of a large image. Reads that Redis refuses try again for a while, and hold
 * no room between the tries. */
TEST(refused_reads_leave_their_room)
{
    set_up(2, true);
    store_large_images();
    redisContext *client = client_of(1);
    freeReplyObject(redis_command(client, "ACL SETUSER default -strlen"));
    offer();
    push(1, 1);
    run_until(rig.count == 1);
    push(0, 1);
    run_until(rig.count == 2);
    for (unsigned i = 0; i < READS_LARGE_MAX; i++)
        read_large(rig.held[0]);
    run_for(50);
    read_large(rig.held[1]);
    run_until(rig.reads == 1);
    freeReplyObject(redis_command(client, "ACL SETUSER default +strlen"));
    redisFree(client);
    queue_read_release(rig.held[1]->queue, 2 * QUEUE_READ_LARGE);
    run_until(rig.reads == 1 + READS_LARGE_MAX);
    tear_down();
}

/* The other server accepts no writes while it has fewer than this many replicas. */
static void require_replicas(unsigned count)
{
    redisContext *client = client_of(1);
    freeReplyObject(redis_command(client, "CONFIG SET min-replicas-to-write %u", count));
    redisFree(client);
}

/* The ends of a shard that is away wait for a lease. Then the jobs run again, at the same attempt.
 */
static void check_dropped_ends(bool refuses)
{
    set_up_leases(8, true, "1");
    push(1, 3);
    offer();
    run_until(rig.count == 3);
    if (refuses)
        require_replicas(1);
    else
        redis_server_kill9(rig.other);
    run_until(!group_shard_view(rig.group, 1).ready && !group_shard_view(rig.group, 3).ready);
    assert_int_equal(group_view(rig.group)->state, QUEUE_READY);
    assert_non_null(strstr(group_view(rig.group)->reason, "shard 1: "));
    assert_non_null(strstr(group_view(rig.group)->reason, "; shard 3: "));
    while (rig.count > 0)
        finish_one();
    run_until(group_waiting_ends(rig.group) == 3);
    offer();
    push(0, 2);
    run_until(rig.leased[0] == 2);
    assert_int_equal(rig.settled, 0);
    run_until(rig.settled == 3);
    assert_int_equal(rig.stale, 3);
    assert_int_equal(group_waiting_ends(rig.group), 0);
    if (refuses)
        require_replicas(0);
    else
        redis_server_restart(rig.other);
    offer();
    run_until(rig.leased[1] == 6);
    assert_int_equal(rig.attempt, 1);
    tear_down();
}

TEST(ends_of_a_shard_that_is_down_are_dropped)
{
    check_dropped_ends(false);
}

TEST(ends_of_a_shard_that_refuses_are_dropped)
{
    check_dropped_ends(true);
}

/* The results of shard 1 cannot be stored, but its leases are renewed. */
TEST(ends_that_only_done_refuses_are_dropped)
{
    set_up_leases(8, true, "1");
    redisContext *client = client_of(1);
    freeReplyObject(redis_command(client, "SET {t:1}:results text"));
    push(1, 3);
    offer();
    run_until(rig.count == 3);
    while (rig.count > 0)
        finish_one();
    run_until(rig.settled == 3);
    assert_int_equal(rig.stale, 3);
    freeReplyObject(redis_command(client, "DEL {t:1}:results"));
    redisFree(client);
    offer();
    run_until(rig.leased[1] == 6);
    assert_int_equal(rig.attempt, 1);
    tear_down();
}

/* Ends a job of the shard with an output of so many bytes to a key. */
static void finish_with_output(unsigned shard, size_t bytes)
{
    char key[32];
    struct queue_value value = {.key = key, .value = calloc(1, bytes), .bytes = bytes, .ttl_s = 9};
    size_t at = rig.count;
    while (at > 0 && rig.held[at - 1]->shard != shard)
        at--;
    assert_true(at > 0);
    struct lease *lease = rig.held[at - 1];
    rig.held[at - 1] = rig.held[--rig.count];
    snprintf(key, sizeof key, "{t:%u}:img:o", shard);
    queue_done(lease->queue, lease,
               &(struct queue_answer){
                   .result = strdup("{}"), .values = &value, .value_count = 1});
}

/* The call of shard 1 is under way to a server that hangs. Shard 0 needs more than is left of the
 * common limit. Shard 2 would fit, but does not overtake it; its small calls do. */
TEST(large_outputs_wait_in_order)
{
    set_up(8, true);
    push(0, 1);
    push(1, 1);
    push(2, 2);
    offer();
    run_until(rig.count == 4);
    redis_server_freeze(rig.other, true);
    finish_with_output(1, 40 * MIB);
    run_for(50);
    finish_with_output(0, 40 * MIB);
    run_for(50);
    finish_with_output(2, 100);
    run_until(rig.settled_of[2] == 1);
    finish_with_output(2, 20 * MIB);
    run_for(300);
    assert_int_equal(rig.settled, 1);
    redis_server_freeze(rig.other, false);
    assert_true(await(20, (run_for(20), rig.settled == 4)));
    assert_int_equal(rig.stale, 0);
    tear_down();
}

/* ---- outputs that are stored one by one ----------------------------------------------------- */

struct stored {
    unsigned count, failed;
    char error[ERROR_TEXT_MAX]; /* the last one */
    enum status status;
};

static void on_stored(void *context, const struct error *error)
{
    struct stored *stored = context;
    stored->count++;
    stored->failed += error != NULL;
    if (error) {
        stored->status = error->status;
        snprintf(stored->error, sizeof stored->error, "%s", error->text);
    }
}

static void store(struct stored *stored, unsigned shard, unsigned index, size_t bytes)
{
    size_t at = 0;
    while (rig.held[at]->shard != shard)
        at++;
    struct queue_value value = {
        .key = text_of("{t:%u}:img:%u", shard, index), .value = calloc(1, bytes), .bytes = bytes};
    assert_non_null(queue_store(rig.held[at]->queue, &value, &(struct rank){0}, on_stored, stored));
}

/* Small outputs of shard 0, without a pause, do not keep back a large one of shard 1. */
TEST(stores_share_one_limit)
{
    struct stored small = {0}, large = {0};
    set_up(8, true);
    push(0, 1);
    push(1, 1);
    offer();
    run_until(rig.count == 2);
    for (unsigned i = 0; i < 10; i++)
        store(&small, 0, i, 2 * MIB);
    store(&large, 1, 0, STORES_BYTES + 1);
    unsigned pushed = 10;
    while (large.count == 0 && pushed < 3000) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        for (; pushed < small.count + 10; pushed++)
            store(&small, 0, pushed % 10, 2 * MIB);
    }
    assert_int_equal(large.count, 1);
    run_until(small.count == pushed);
    assert_int_equal(small.failed + large.failed, 0);
    redisContext *client = client_of(1);
    assert_int_equal(redis_integer(client, "STRLEN {t:1}:img:0"), STORES_BYTES + 1);
    assert_int_equal(redis_integer(client, "EXISTS {t:0}:img:0"), 0);
    redisFree(client);
    tear_down();
}

/* The outputs of a shard that is away fail after lease_s, as its ends are dropped. */
TEST(stores_of_a_shard_that_is_down_fail)
{
    struct stored here = {0}, away = {0};
    set_up_leases(8, true, "1");
    push(0, 1);
    push(1, 1);
    offer();
    run_until(rig.count == 2);
    redis_server_kill9(rig.other);
    for (unsigned i = 0; i < 100; i++)
        store(&away, 1, i, 20 * KIB);
    for (unsigned i = 0; i < 100; i++)
        store(&here, 0, i, 20 * KIB);
    run_until(here.count == 100);
    assert_int_equal(away.count, 0);
    run_until(away.count == 100);
    assert_int_equal(here.failed, 0);
    assert_int_equal(away.failed, 100);
    assert_int_equal(away.status, STATUS_WRITE_FAILED);
    assert_non_null(strstr(away.error, ":img:"));
    assert_non_null(strstr(away.error, "Redis has accepted no call for 1 s"));
    redis_server_restart(rig.other);
    run_until(all_ready());
    store(&away, 1, 0, 20 * KIB);
    run_until(away.count == 101);
    assert_int_equal(away.failed, 100);
    tear_down();
}

/* A daemon that the shard knows; it never calls. */
static void add_daemon(unsigned shard)
{
    redisContext *client = client_of(shard);
    freeReplyObject(redis_command(client, "ZADD {t:%u}:inst 99999999999999 else", shard));
    redisFree(client);
}

static bool watches(redisContext *client, unsigned shard, const char *inst)
{
    const char *watcher = redis_text(client, "GET {t:%u}:watcher", shard);
    return watcher && strcmp(watcher, inst) == 0;
}

/* LOOK finds a due job in the shard that the daemon watches, while another shard has all places. */
TEST(a_watcher_without_places_passes_the_watch)
{
    set_up(2, false);
    add_daemon(1);
    offer();
    redisContext *client = client_of(1);
    run_until(watches(client, 1, rig.inst));
    push(2, 3);
    run_until(rig.leased[2] == 2);
    assert_true(watches(client, 1, rig.inst));
    freeReplyObject(redis_command(client, "ZADD {t:1}:delayed 0 9"));
    run_until(watches(client, 1, "-"));
    redisFree(client);
    tear_down();
}

/* The replies to FETCH come after the close and make this daemon the watcher of shards 1 and 3, in
 * which it then has nothing to do. The daemon goes on to set places and to show the shards. */
TEST(a_shard_closes_before_another)
{
    set_up(4, true);
    add_daemon(1);
    add_daemon(3);
    redis_server_freeze(rig.other, true);
    push(0, 1);
    offer();
    run_until(rig.count == 1);
    group_close(rig.group, 5, on_closed, NULL);
    redis_server_freeze(rig.other, false);
    run_until(!group_shard_view(rig.group, 1).ready && !group_shard_view(rig.group, 3).ready);
    uint64_t end = uv_hrtime() + 50000000;
    while (uv_hrtime() < end) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        offer();
        assert_int_equal(group_view(rig.group)->state, QUEUE_READY);
    }
    assert_false(rig.closed);
    tear_down();
}

TEST_MAIN(.name = "group")
