/*
 * Tests of many idle daemons on one Redis. A push wakes as many as it needs, waiting writes
 * nothing, and a daemon that stops or dies keeps no job from the others.
 *
 * Unless a test says otherwise, daemons poll once per hour, so only a wake-up can find a job in
 * time.
 */
#include "tests/fixtures/queue/queue_bench.h"

#define DAEMONS 12

struct fleet {
    struct bench *all[DAEMONS]; /* the first has the server and the event loop */
    redisContext *redis;
    bool finish_at_once;
    uint32_t places;
};

static size_t sum_leased(const struct fleet *fleet)
{
    size_t sum = 0;
    for (int i = 0; i < DAEMONS; i++)
        sum += fleet->all[i]->leased;
    return sum;
}

static size_t sum_settled(const struct fleet *fleet)
{
    size_t sum = 0;
    for (int i = 0; i < DAEMONS; i++)
        sum += fleet->all[i]->settled;
    return sum;
}

static long long blocked(const struct fleet *fleet)
{
    char *info = redis_string(fleet->redis, "INFO clients");
    long long count = atoll(strstr(info, "blocked_clients:") + 16);
    free(info);
    return count;
}

/* The number of clients that Redis lists as waiting in this command. */
static int waiting_in(const struct fleet *fleet, const char *command)
{
    char *list = redis_string(fleet->redis, "CLIENT LIST"), text[32];
    int count = 0;
    snprintf(text, sizeof text, " cmd=%s ", command);
    for (const char *at = list; (at = strstr(at, text)) != NULL; at++)
        count++;
    free(list);
    return count;
}

static struct fleet *start_fleet(double block_s, uint32_t places, bool finish_at_once)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    struct bench *first = set_up(redis_server_start(NULL));
    fleet->redis = first->redis;
    first->config.block_s = block_s;
    first->config.lease_s = 3600; /* no lease expires or is renewed during the test */
    first->config.renew_s = first->config.reap_s = 600;
    fleet->all[0] = first;
    /* Without another instance the first daemon would assume that it is alone. */
    redis_integer(fleet->redis, "ZADD t:inst 99999999999999 another:boot:ns:1:1");
    for (int i = 0; i < DAEMONS; i++) {
        const char *host = text_of("host%d", i);
        if (i > 0)
            fleet->all[i] = set_up_beside(first, host);
        fleet->all[i]->finish_at_once = finish_at_once;
        start_queue(fleet->all[i]);
        queue_set_places(fleet->all[i]->queue, places);
    }
    run_until(first, blocked(fleet) == DAEMONS);
    return fleet;
}

static void stop_fleet(struct fleet *fleet)
{
    for (int i = 1; i < DAEMONS; i++)
        tear_down_beside(fleet->all[i]);
    tear_down(fleet->all[0]);
    free(fleet);
}

/* The daemon that watches the list. */
static struct bench *watcher_of(struct fleet *fleet)
{
    char *name = redis_string(fleet->redis, "GET t:watcher");
    struct bench *found = NULL;
    for (int i = 0; name && i < DAEMONS; i++)
        if (strcmp(fleet->all[i]->inst, name) == 0)
            found = fleet->all[i];
    free(name);
    assert_non_null(found);
    return found;
}

/* Only FETCH calls ZRANGE, as long as no daemon polls. */
TEST(test_a_push_wakes_one_daemon)
{
    struct fleet *fleet = start_fleet(3600, 4, true);
    struct bench *first = fleet->all[0];
    long long before = calls(first, "zrange"), scripts = calls(first, "evalsha");
    for (size_t i = 1; i <= 100; i++) {
        push(first, 1);
        run_until(first, sum_settled(fleet) == i && blocked(fleet) == DAEMONS);
    }
    assert_in_range(calls(first, "zrange") - before, 100, 120);
    assert_in_range(calls(first, "evalsha") - scripts, 100, 250); /* including DONE */
    for (int i = 0; i < DAEMONS; i++) /* the daemons take turns */
        assert_in_range(fleet->all[i]->leased, 5, 12);
    stop_fleet(fleet);
}

/* The watcher gets a message, and the daemons take turns as for t:jobs. */
TEST(test_a_push_to_any_list_wakes_one_daemon)
{
    struct fleet *fleet = start_fleet(3600, 4, true);
    struct bench *first = fleet->all[0];
    long long scripts = calls(first, "evalsha");
    for (size_t i = 1; i <= 100; i++) {
        redis_integer(fleet->redis, "LPUSH t:jobs:%d job", (int)(i % 10));
        run_until(first, sum_settled(fleet) == i && blocked(fleet) == DAEMONS);
    }
    assert_in_range(calls(first, "evalsha") - scripts, 100, 450); /* including DONE */
    for (int i = 0; i < DAEMONS; i++)
        assert_in_range(fleet->all[i]->leased, 3, 20);
    stop_fleet(fleet);
}

static long long bytes_written(struct fleet *fleet)
{
    char *info = redis_string(fleet->redis, "INFO persistence");
    long long bytes = atoll(strstr(info, "aof_current_size:") + 17);
    free(info);
    return bytes;
}

TEST(test_waiting_writes_nothing)
{
    struct fleet *fleet = start_fleet(0.05, 4, true);
    struct bench *first = fleet->all[0];
    long long bytes = bytes_written(fleet);
    long long waits = calls(first, "blmove") + calls(first, "blpop"), looks = calls(first, "llen");
    run_until(first, calls(first, "blmove") + calls(first, "blpop") >= waits + 5 * DAEMONS &&
                         calls(first, "llen") >= looks + 10 * DAEMONS);
    assert_int_equal(bytes_written(fleet), bytes);
    stop_fleet(fleet);
}

/* Each daemon that leaves jobs in the list wakes one more. */
TEST(test_a_burst_wakes_as_many_as_it_needs)
{
    struct fleet *fleet = start_fleet(3600, 4, false);
    struct bench *first = fleet->all[0];
    freeReplyObject(redis_command(fleet->redis, "LPUSH t:jobs 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 "
                                                "16 17 18 19 20 21 22"));
    run_until(first, sum_leased(fleet) == 22);
    int took_part = 0;
    for (int i = 0; i < DAEMONS; i++)
        took_part += fleet->all[i]->leased > 0;
    assert_int_equal(took_part, 6);
    run_until(first, blocked(fleet) == DAEMONS - 5); /* five have no free places */
    push(first, 30);
    run_until(first, sum_leased(fleet) == 4 * DAEMONS);
    assert_int_equal(redis_integer(fleet->redis, "LLEN t:jobs"), 52 - 4 * DAEMONS);
    stop_fleet(fleet);
}

/* A dead watcher wakes nobody: the others poll every block_s. One of them becomes the watcher when
 * the key of the dead one has expired. */
TEST(test_the_watcher_dies)
{
    struct fleet *fleet = start_fleet(0.2, 4, true);
    struct bench *first = fleet->all[0], *watcher = watcher_of(fleet);
    queue_destroy(watcher->queue);
    watcher->queue = NULL;
    run_until(first, blocked(fleet) == DAEMONS - 1);
    assert_int_equal(waiting_in(fleet, "blmove"), 0);
    push(first, 1);
    run_until(first, sum_settled(fleet) == 1);
    redis_integer(fleet->redis, "PEXPIRE t:watcher 1");
    run_until(first, waiting_in(fleet, "blmove") == 1);
    stop_fleet(fleet);
}

/* A watcher without free places passes the watch on, and so does one that is drained. */
TEST(test_a_watcher_that_stops_hands_on)
{
    struct fleet *fleet = start_fleet(3600, 4, false);
    struct bench *first = fleet->all[0], *watcher = watcher_of(fleet);
    queue_set_places(watcher->queue, 0);
    run_until(first, waiting_in(fleet, "blmove") == 2); /* it waits on, but does not matter */
    push(first, 1);
    run_until(first, sum_leased(fleet) == 1);
    assert_int_equal(watcher->leased, 0);
    stop_fleet(fleet);

    fleet = start_fleet(3600, 4, false);
    first = fleet->all[0];
    watcher = watcher_of(fleet);
    queue_close(watcher->queue, 60, on_closed, watcher);
    run_until(first, watcher->closed);
    queue_destroy(watcher->queue);
    watcher->queue = NULL;
    push(first, 1);
    run_until(first, sum_leased(fleet) == 1);
    stop_fleet(fleet);
}

/* A wake-up that reaches a daemon without free places is passed on. */
TEST(test_a_word_for_a_full_daemon_goes_on)
{
    struct fleet *fleet = start_fleet(3600, 4, false);
    struct bench *first = fleet->all[0], *watcher = watcher_of(fleet);
    struct bench *last = fleet->all[watcher == fleet->all[DAEMONS - 1] ? 0 : DAEMONS - 1];
    for (int i = 0; i < DAEMONS; i++)
        if (fleet->all[i] != watcher && fleet->all[i] != last)
            queue_set_places(fleet->all[i]->queue, 0);
    push(first, 5);
    run_until(first, sum_leased(fleet) == 5);
    assert_int_equal(last->leased, 1);
    stop_fleet(fleet);
}

/* A message reaches daemons between their LEAVE and the reply. They pass it on, and their names
 * stay removed. */
TEST(test_a_word_for_leaving_daemons)
{
    struct fleet *fleet = start_fleet(3600, 4, false);
    struct bench *first = fleet->all[0], *watcher = watcher_of(fleet);
    for (int i = 0; i < DAEMONS; i++)
        if (fleet->all[i] != watcher)
            queue_close(fleet->all[i]->queue, 60, on_closed, fleet->all[i]);
    freeReplyObject(redis_command(fleet->redis, "SET t:watcher -"));
    redis_integer(fleet->redis, "LPUSH t:wake watch");
    for (int i = 0; i < DAEMONS; i++) {
        struct bench *daemon = fleet->all[i];
        if (daemon == watcher)
            continue;
        run_until(first, daemon->closed);
        queue_destroy(daemon->queue);
        daemon->queue = NULL;
    }
    assert_int_equal(redis_integer(fleet->redis, "ZCARD t:inst"), 2); /* the watcher and another */
    stop_fleet(fleet);
}

/* An older daemon without watch and wake-ups blocks on the list as well. */
TEST(test_beside_an_older_version)
{
    struct fleet *fleet = start_fleet(3600, 4, true);
    struct bench *first = fleet->all[0];
    redisContext *older = redis_server_connect(first->server);
    void *reply = NULL;
    assert_int_equal(redisAppendCommand(older, "BLMOVE t:jobs t:jobs RIGHT RIGHT 0"), REDIS_OK);
    int sent = 0;
    assert_int_equal(redisBufferWrite(older, &sent), REDIS_OK);
    run_until(first, blocked(fleet) == DAEMONS + 1);
    push(first, 1);
    run_until(first, sum_settled(fleet) == 1);
    assert_int_equal(redisGetReply(older, &reply), REDIS_OK); /* it is woken, and takes nothing */
    freeReplyObject(reply);
    redisFree(older);
    stop_fleet(fleet);
}

TEST_MAIN(.name = "idle")
