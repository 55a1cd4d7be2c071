/* Tests of an idle daemon that learns of pushes to lists with a priority. Unless a test says
 * otherwise, the daemon polls once per hour, so only a message of Redis can be in time. */
#include "tests/fixtures/queue/queue_bench.h"

static struct bench *set_up_idle(double block_s, const char *user)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.block_s = block_s;
    bench->config.lease_s = 3600; /* nothing is renewed during the test */
    bench->config.renew_s = bench->config.reap_s = 600;
    bench->config.redis_username = (char *)user;
    bench->finish_at_once = true;
    if (user)
        freeReplyObject(redis_command(bench->redis, "ACL SETUSER %s on nopass ~t:* +@read +@write "
                                                    "+@scripting +@connection +@blocking +info "
                                                    "+time", user));
    return bench;
}

static void start(struct bench *bench)
{
    start_queue(bench);
    queue_set_places(bench->queue, 64);
}

static long long subscribers(struct bench *bench)
{
    redisReply *reply = redis_command(bench->redis, "PUBSUB NUMSUB __redis__:invalidate");
    long long count = reply->element[1]->integer;
    freeReplyObject(reply);
    return count;
}

/* Redis reports changes, and waits for a push to t:jobs as well. */
static bool is_listening(struct bench *bench)
{
    char *clients = redis_string(bench->redis, "INFO clients");
    bool listens = strstr(clients, "tracking_clients:1") && strstr(clients, "blocked_clients:1");
    free(clients);
    return listens && subscribers(bench) == 1;
}

static struct bench *set_up_listening(void)
{
    struct bench *bench = set_up_idle(3600, NULL);
    start(bench);
    run_until(bench, is_listening(bench));
    return bench;
}

static void push_and_await(struct bench *bench, int priority)
{
    size_t settled = bench->settled;
    redis_integer(bench->redis, "LPUSH t:jobs:%d job", priority);
    run_until(bench, bench->settled == settled + 1);
}

TEST(test_a_push_to_each_list_is_noticed)
{
    struct bench *bench = set_up_listening();
    for (int i = 0; i < 30; i++)
        push_and_await(bench, i % 10);
    push(bench, 1);
    run_until(bench, bench->settled == 31);
    tear_down(bench);
}

TEST(test_a_push_before_the_subscription_is_noticed)
{
    struct bench *bench = set_up_idle(3600, NULL);
    for (int i = 0; i < 10; i++) {
        redis_integer(bench->redis, "LPUSH t:jobs:%d job", i);
        if (i == 0)
            start(bench);
        turn(bench);
    }
    run_until(bench, bench->settled == 10);
    tear_down(bench);
}

/* No script and no check of the lists for a while; the first ones end soon after the start. */
static bool is_quiet(struct bench *bench)
{
    long long before = calls(bench, "evalsha") + calls(bench, "eval") + calls(bench, "exists");
    run_ms(bench, 300);
    return calls(bench, "evalsha") + calls(bench, "eval") + calls(bench, "exists") == before;
}

/* Idle daemons send nothing but LOOK. */
TEST(test_waiting_sends_nothing)
{
    struct bench *bench = set_up_listening();
    run_until(bench, is_quiet(bench));
    tear_down(bench);
}

static void kill_and_await(struct bench *bench, const char *type)
{
    assert_true(redis_integer(bench->redis, "CLIENT KILL TYPE %s SKIPME yes", type) > 0);
    run_until(bench, !is_listening(bench));
    run_until(bench, is_listening(bench));
}

TEST(test_each_connection_may_break)
{
    struct bench *bench = set_up_listening();
    kill_and_await(bench, "pubsub");
    push_and_await(bench, 9);
    kill_and_await(bench, "normal");
    push_and_await(bench, 0);
    tear_down(bench);
}

/* Redis forgets which keys it tracks, and reports it. */
TEST(test_redis_is_emptied)
{
    struct bench *bench = set_up_listening();
    push_and_await(bench, 5);
    freeReplyObject(redis_command(bench->redis, "FLUSHALL"));
    run_ms(bench, 20);
    push_and_await(bench, 5);
    tear_down(bench);
}

/* The user has no password, so any will do. */
static void write_password(struct bench *bench)
{
    const char *path = text_of("%s/password", bench->server->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("any\n", file);
    fclose(file);
    bench->config.redis_password_file = (char *)path;
}

/* An ACL that permits only the keys of an older version stops no other list. */
TEST(test_denied_lists)
{
    struct bench *bench = set_up_idle(0.05, "worker");
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker resetkeys ~t:[^js]* ~t:jobs "
                                                "~t:job:* ~t:seq ~t:jobs:8 ~t:jobs:7"));
    write_password(bench);
    for (int i = 0; i < 2; i++) {
        push(bench, 100);
        for (int list = 7; list <= 9; list++)
            for (int job = 0; job < 100; job++)
                redis_integer(bench->redis, "LPUSH t:jobs:%d job", list);
    }
    start(bench);
    run_until(bench, bench->settled == 600); /* NS:shares is denied, too */
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs:9"), 200);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker ~t:*"));
    run_until(bench, bench->settled == 800);
    tear_down(bench);
}

/* The rights that an older manual gave: LOOK finds the job. */
TEST(test_a_user_that_may_not_subscribe)
{
    struct bench *bench = set_up_idle(0.05, "worker");
    write_password(bench);
    start(bench);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    run_ms(bench, 100);
    assert_int_equal(subscribers(bench), 0);
    push_and_await(bench, 9);
    push_and_await(bench, 0);
    tear_down(bench);
}

/* A list whose key has another type does not keep the daemon busy, and holds up no other list. */
TEST(test_a_key_of_another_type)
{
    struct bench *bench = set_up_idle(3600, NULL);
    freeReplyObject(redis_command(bench->redis, "SET t:jobs:3 text"));
    start(bench);
    run_until(bench, is_listening(bench));
    run_until(bench, is_quiet(bench));
    push_and_await(bench, 9);
    push_and_await(bench, 2);
    redis_integer(bench->redis, "DEL t:jobs:3");
    run_ms(bench, 20);
    push_and_await(bench, 3);
    tear_down(bench);
}

/* The list replaces the key between FETCH, which skipped it, and the first EXISTS. */
TEST(test_a_list_replaces_a_key_of_another_type)
{
    struct bench *bench = set_up_idle(3600, NULL);
    freeReplyObject(redis_command(bench->redis, "SET t:jobs:3 text"));
    start(bench);
    run_until(bench, redis_integer(bench->redis, "EXISTS t:watcher") == 1); /* by FETCH */
    assert_int_equal(subscribers(bench), 0); /* EXISTS comes later */
    redis_integer(bench->redis, "DEL t:jobs:3");
    redis_integer(bench->redis, "LPUSH t:jobs:3 job");
    run_until(bench, bench->settled == 1);
    tear_down(bench);
}

TEST(test_lengths_of_the_view)
{
    struct bench *bench = set_up_idle(3600, NULL);
    bench->finish_at_once = false;
    redis_integer(bench->redis, "LPUSH t:jobs a b");
    redis_integer(bench->redis, "LPUSH t:jobs:9 a b c");
    redis_integer(bench->redis, "LPUSH t:jobs:0 a");
    start_queue(bench);
    queue_set_places(bench->queue, 2);
    run_until(bench, bench->leased == 2);
    const struct queue_view *view = queue_view(bench->queue);
    assert_int_equal(view->length, 4);
    assert_int_equal(view->lengths[9], 1);
    assert_int_equal(view->lengths[0], 1);
    tear_down(bench);
}

TEST_MAIN(.name = "listen")
