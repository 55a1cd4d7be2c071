/* Tests of which daemon watches the list: FETCH, RENEW, LOOK, LEAVE. */
#include "tests/fixtures/queue/script_bench.h"

/* FETCH with two places. Then `watcher` must watch, and `word` be left to wake another daemon. */
static void fetch_watch(const char *inst, const char *part, int watches, const char *watcher,
                        const char *word)
{
    const char *args = text_of("t %s 1 2 10000 3 20 1 0 %s", inst, part);
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, args);
    assert_true(reply->elements >= FETCH_HEAD);
    assert_int_equal(reply->element[FETCH_WATCH]->integer, watches);
    freeReplyObject(reply);
    expect(watcher, "GET t:watcher");
    expect(word, "LRANGE t:wake 0 -1");
}

TEST(test_one_daemon_watches)
{
    fetch_watch("A", "none", 2, "A", ""); /* there is no other daemon */
    expect("1", "LPUSH t:jobs a");
    fetch_watch("A", "watch", 2, "A", "");
    fetch_watch("B", "none", 0, "A", "");
    fetch_watch("A", "watch", 1, "A", ""); /* now there is another daemon */
    expect("1", "LPUSH t:jobs b");
    fetch_watch("A", "watch", 0, "-", "watch"); /* it took a job: another's turn to watch */
    fetch_watch("C", "wait", 0, "-", "watch");  /* nobody has read the wake-up yet */
    expect("watch", "LPOP t:wake");             /* C reads it */
    expect("3", "LPUSH t:jobs c d e");
    fetch_watch("C", "watch", 0, "nil", "fetch"); /* one job is left: another daemon fetches too */
    fetch_watch("D", "none", 0, "-", "watch");
    /* A newer wake-up replaces one that nobody has read. */
    expect("3", "LPUSH t:jobs f g h");
    fetch_watch("E", "none", 0, "nil", "fetch");
    redis_integer(redis, "DEL t:jobs");
    fetch_watch("E", "none", 1, "E", ""); /* the old wake-up is dropped */
    /* A daemon that blocks on the wake-up list gets the watch by a wake-up. */
    redis_integer(redis, "DEL t:watcher");
    fetch_watch("F", "wait", 0, "-", "watch");
    fetch_watch("A", "none", 0, "-", "watch");
    assert_in_range(redis_integer(redis, "PTTL t:watcher"), 5000, 10000);
    /* Keys of other types are replaced. */
    expect("2", "DEL t:watcher t:wake");
    redis_integer(redis, "HSET t:watcher a b");
    redis_integer(redis, "HSET t:wake a b");
    fetch_watch("A", "none", 1, "A", "");
    redis_integer(redis, "HSET t:wake a b");
    expect("3", "LPUSH t:jobs i j k");
    fetch_watch("A", "watch", 0, "nil", "fetch");
}

static void renew_watch(const char *inst, const char *word, int watches, const char *watcher)
{
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, text_of("%s 10000 none %s", inst, word),
                text_of("0 -1 %d", watches));
    expect(watcher, "GET t:watcher");
}

TEST(test_the_watch_is_kept_by_renewal)
{
    renew_watch("A", "none", -1, "nil");
    renew_watch("A", "keep", 2, "A");
    expect("1", "PEXPIRE t:watcher 1000");
    renew_watch("B", "keep", 0, "A"); /* both wanted the watch; B gives in */
    renew_watch("A", "keep", 1, "A");
    assert_in_range(redis_integer(redis, "PTTL t:watcher"), 5000, 10000);
    renew_watch("B", "pass", 0, "A");
    expect("0", "EXISTS t:wake");
    renew_watch("A", "pass", 0, "-");
    expect("watch", "LPOP t:wake");
    renew_watch("B", "keep", 1, "B"); /* B has read the wake-up and takes the watch */
    reap("C", 0, "B", "0 0");
    expect("nil", "GET t:watcher");
    renew_watch("A", "keep", 2, "A");
    renew_watch("D", "none", -1, "A");
    expect_eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("A"), "A 1000", "1");
    expect("-", "GET t:watcher");
    expect("watch", "LRANGE t:wake 0 -1");
    expect_eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("D"), "D 1000", "1");
    expect("0", "EXISTS t:watcher t:wake");
}

static void look(const char *expected)
{
    char *before = redis_string(redis, "DEBUG DIGEST");
    expect_eval(SCRIPT_ID_LOOK, LOOK_KEYS, "", expected);
    char *after = redis_string(redis, "DEBUG DIGEST");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

TEST(test_look)
{
    look("1 0 -1 0 {}"); /* nobody watches */
    expect("OK", "SET t:watcher A");
    look("0 0 -1 0 {}");
    expect("1", "LPUSH t:jobs a");
    look("1 1 -1 0 {}");
    expect("OK", "SET t:paused 1");
    look("0 1 -1 1 {}");
    expect("2", "DEL t:paused t:jobs");
    expect("1", "LPUSH t:alone 7");
    look("1 0 -1 0 {}");
    expect("OK", "SET t:alone:owner B"); /* the owner runs the alone job */
    look("0 0 -1 0 {}");
    expect("1", "ZADD t:delayed 1 7");
    look("1 0 0 0 {}");
    expect("0", "ZADD t:delayed 99999999999999 7");
    redisReply *reply = eval(SCRIPT_ID_LOOK, LOOK_KEYS, "");
    assert_int_equal(reply->element[0]->integer, 0);
    assert_true(reply->element[2]->integer > 1000000);
    freeReplyObject(reply);
    static const char *const typed[] = {"t:jobs", "t:alone", "t:delayed"};
    for (size_t i = 0; i < 3; i++) { /* FETCH reports the key */
        freeReplyObject(redis_command(redis, "SET %s x", typed[i]));
        reply = eval(SCRIPT_ID_LOOK, LOOK_KEYS, "");
        assert_int_equal(reply->element[0]->integer, 1);
        freeReplyObject(reply);
        redis_integer(redis, "DEL %s", typed[i]);
    }
}

TEST(test_leave)
{
    expect("2", "ZADD t:inst 1 A 1 B");
    expect("OK", "SET t:alone:owner B");
    expect("OK", "SET t:stats:B {}");
    expect_eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("A"), "A 1000", "1");
    expect("B", "ZRANGE t:inst 0 -1");
    expect("B", "GET t:alone:owner");
    expect("{}", "GET t:stats:B");
    expect_eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("B"), "B 1000", "1");
    expect("0", "EXISTS t:inst t:alone:owner t:stats:B");
}

TEST_MAIN(.name = "watch", .setup = start_server, .teardown = stop_server, .each_setup = empty)
