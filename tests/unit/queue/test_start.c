/*
 * Tests of START, CANCEL and NS:paused against a real Redis: times, one job per id at a time,
 * cancels of jobs that no daemon has fetched, and the pause of all daemons.
 */
#include "conf/limits.h"
#include "tests/fixtures/queue/script_bench.h"

/* Expects "decision kept"; kept is mostly empty. The id "''" means none. */
static void start_texts(const char *number, const char *token, const char *id, int unique,
                        const char *not_before, const char *expires, const char *expected)
{
    char keys[256], args[256];
    int length = snprintf(keys, sizeof keys, "t:lease t:delayed t:cancel t:job:%s", number);
    if (*id != '\'')
        snprintf(keys + length, sizeof keys - (size_t)length, " t:waits:%s t:unique:%s t:result:%s",
                 id, id, id);
    snprintf(args, sizeof args, "t 10000 %s %s %s %d %s %s", number, token, id, unique,
             not_before, expires);
    expect_eval(SCRIPT_ID_START, keys, args, expected);
}

static void start_timed(const char *number, const char *token, const char *id, int unique,
                        long long not_before, long long expires, const char *expected)
{
    start_texts(number, token, id, unique, text_of("%lld", not_before), text_of("%lld", expires),
                expected);
}

static void start(const char *number, const char *token, const char *id, const char *expected)
{
    start_timed(number, token, id, 1, -1, -1, expected);
}

/* Ends a unique job with a result as daemons write it. */
static void done(const char *number, const char *token, const char *id, const char *status,
                 const char *expected)
{
    const char *keys = text_of("t:lease t:results t:job:%s t:result:%s t:unique:%s t:waits:%s "
                               "t:woken", number, id, id, id);
    const char *args = text_of("100 60000 %s %s {\"id\":\"%s\",\"job\":%s,\"status\":\"%s\"} "
                               "2 0 0", number, token, id, number, status);
    expect_eval(SCRIPT_ID_DONE, keys, args, expected);
}

static void bury(const char *number, const char *token, const char *id, const char *expected)
{
    const char *keys = text_of(NACK_KEYS "t:job:%s t:result:%s t:unique:%s t:waits:%s", number, id,
                               id, id);
    const char *args = text_of("100 60000 9 1 100 %s %s retry {\"id\":\"%s\",\"job\":%s,"
                               "\"status\":\"dead\"} 2 0 0", number, token, id, number);
    expect_eval(SCRIPT_ID_NACK, keys, args, expected);
}

static void cancel(const char *id, const char *expected)
{
    const char *keys = text_of("t:jobs t:cancel t:woken t:waits:%s t:result:%s", id, id);
    expect_eval(SCRIPT_ID_CANCEL, keys, id, expected);
}

/* ---- times -------------------------------------------------------------------------------- */

TEST(test_without_conditions_it_goes)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:1", "''", 0, -1, -1, "1 ");
    start_timed("1", "B:1", "''", 0, -1, -1, "0 "); /* the lease of another daemon */
    start_timed("2", "A:1", "''", 0, -1, -1, "-1 ");
}

TEST(test_before_its_time_it_waits_and_keeps_its_attempt)
{
    long long due = now_ms() + 60000;
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:1", "''", 0, due, -1, "2 ");
    expect("delayed 0 nil nil", "HMGET t:job:1 state attempt token owner");
    expect("0", "ZCARD t:lease");
    assert_true(number_of("ZSCORE t:delayed 1") == due);
    start_timed("1", "A:1", "''", 0, due, -1, "0 "); /* its lease has ended */
    /* Making it due by hand does not start it. */
    expect("0", "ZADD t:delayed XX 0 1");
    fetch("A", 2, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:2", "''", 0, due, -1, "2 ");
    expect("0", "ZADD t:delayed XX 0 1");
    fetch("A", 3, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:3", "''", 0, now_ms() - 1, -1, "1 ");
}

TEST(test_after_its_time_it_has_expired)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    long long late = now_ms() + 60000;
    start_timed("1", "A:1", "''", 0, -1, late, "1 ");
    start_timed("1", "A:1", "''", 0, -1, now_ms(), "3 ");
    start_timed("1", "A:1", "''", 0, -1, 0, "3 ");
    expect("A:1", "HGET t:job:1 token"); /* its daemon answers */
}

TEST(test_expired_for_lack_of_room)
{
    long long end = now_ms() + 60000;
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:1", "''", 0, -1, end, "1 ");
    expect_eval(SCRIPT_ID_NACK, "t:lease t:results t:jobs t:delayed t:alone t:dead t:woken t:job:1",
                "9 9 9 3 1 1 A:1 later '' 0 0 0", "0 1");
    expect("0", "ZADD t:delayed XX 0 1");
    fetch("A", 2, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:2", "''", 0, -1, end, "1 ");
    start_timed("1", "A:2", "''", 0, -1, now_ms(), "3 1"); /* once */
}

TEST(test_a_retry_waits_no_longer_than_it_lasts)
{
    long long end = now_ms() + 30000;
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_timed("1", "A:1", "''", 0, -1, end, "1 ");
    expect_eval(SCRIPT_ID_NACK, "t:lease t:results t:jobs t:delayed t:alone t:dead t:woken t:job:1",
                "9 9 9 3 100000 1 A:1 retry '' 0 0 0", "0 1");
    assert_true(number_of("ZSCORE t:delayed 1") == end);
}

/* Waits for the next millisecond of Redis's clock. */
static void let_time_pass(void)
{
    long long seen = now_ms();
    while (now_ms() <= seen)
        continue;
}

TEST(test_a_relative_time_begins_at_the_first_start)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    long long before = now_ms();
    start_texts("1", "A:1", "''", 0, "+60000", "-1", "2 ");
    long long due = number_of("ZSCORE t:delayed 1");
    assert_in_range(due, before + 60000, now_ms() + 60000);
    assert_true(number_of("HGET t:job:1 not_before") == due);
    /* Fetched again, it keeps its due time. */
    let_time_pass();
    expect("0", "ZADD t:delayed XX 0 1");
    fetch("A", 2, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_texts("1", "A:2", "''", 0, "+60000", "-1", "2 ");
    assert_true(number_of("ZSCORE t:delayed 1") == due);
    redis_integer(redis, "HSET t:job:1 not_before %lld", now_ms());
    expect("0", "ZADD t:delayed XX 0 1");
    fetch("A", 3, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_texts("1", "A:3", "''", 0, "+60000", "-1", "1 ");
    start_texts("1", "B:3", "''", 0, "+60000", "-1", "0 ");
}

TEST(test_a_retry_does_not_postpone_a_relative_end)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    start_texts("1", "A:1", "''", 0, "-1", "+30000", "1 ");
    long long end = number_of("HGET t:job:1 expires");
    assert_in_range(end, now_ms() + 1, now_ms() + 30000);
    let_time_pass();
    expect_eval(SCRIPT_ID_NACK, "t:lease t:results t:jobs t:delayed t:alone t:dead t:woken t:job:1",
                "9 9 9 3 100000 1 A:1 retry '' 0 0 0", "0 1");
    assert_true(number_of("ZSCORE t:delayed 1") == end);
    expect("0", "ZADD t:delayed XX 0 1");
    fetch("A", 2, 1, 1, 0, "0 -1 0 0 1 2 a");
    start_texts("1", "A:2", "''", 0, "-1", "+30000", "1 ");
    assert_true(number_of("HGET t:job:1 expires") == end);
    redis_integer(redis, "HSET t:job:1 expires %lld", now_ms());
    start_texts("1", "A:2", "''", 0, "-1", "+30000", "3 ");
}

/* The relative end of a job that waits for the first with its id is set while it waits. */
TEST(test_a_follower_has_its_relative_end)
{
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    start("1", "A:1", "x", "1 ");
    start_texts("2", "A:1", "x", 1, "-1", "+30000", "2 ");
    assert_true(number_of("HGET t:job:2 expires") > now_ms());
}

/* ---- one job per id at a time ------------------------------------------------------------- */

/* a and b have the same id; both are leased, and a is the first. */
static void lay_out_two(void)
{
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    start("1", "A:1", "x", "1 ");
    expect("1", "GET t:unique:x");
    start("1", "A:1", "x", "1 ");
    start("2", "A:1", "x", "2 ");
    expect("2", "SMEMBERS t:waits:x");
    expect("delayed 0 1", "HMGET t:job:2 state attempt follows");
}

TEST(test_the_second_is_answered_by_the_first)
{
    lay_out_two();
    done("1", "A:1", "x", "done", "0 1");
    expect("0", "EXISTS t:unique:x");
    fetch("B", 1, 2, 1, 0, "0 -1 0 0 2 1 b"); /* woken: it is due now */
    start("2", "B:1", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"done\"}");
    start("2", "B:1", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"done\"}");
    expect("0", "EXISTS t:waits:x t:unique:x");
    expect("0", "HEXISTS t:job:2 waits");
    /* A third job gets the kept result; when that is deleted, a fourth becomes the first. */
    expect("2", "LPUSH t:jobs c d");
    fetch("B", 2, 2, 1, 0, "0 -1 0 0 3 1 c 4 1 d");
    start("3", "B:2", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"done\"}");
    expect("1", "DEL t:result:x");
    start("4", "B:2", "x", "1 ");
}

TEST(test_a_first_one_that_failed_answers_too)
{
    lay_out_two();
    done("1", "A:1", "x", "failed", "0 1");
    fetch("B", 1, 2, 1, 0, "0 -1 0 0 2 1 b");
    start("2", "B:1", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"failed\"}");
}

/* Jobs that waited for it get its result; a job pushed later is tried again. */
TEST(test_a_first_one_that_died)
{
    lay_out_two();
    bury("1", "A:1", "x", "0 2");
    expect("0", "EXISTS t:unique:x");
    fetch("B", 1, 2, 1, 0, "0 -1 0 0 2 1 b");
    start("2", "B:1", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"dead\"}");
    expect("a", "LMOVE t:dead t:jobs RIGHT LEFT");
    fetch("B", 2, 2, 1, 0, "0 -1 0 0 3 1 a");
    start("3", "B:2", "x", "1 ");
}

/* A result repeats the `meta` of its job, which may be the result of another job. */
TEST(test_a_result_in_the_meta_of_a_dead_one_counts_for_nothing)
{
    static const char *const heads[] = {"\"job\":1,", "\"job\":1,\"shard\":0,"};
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    for (int i = 0; i < 2; i++) {
        const char *const meta = "\"meta\":{\"id\":\"p\",\"job\":3,\"status\":\"done\"}";
        expect("OK", "SET t:result:x {\"id\":\"x\",%s\"status\":\"dead\",%s}", heads[i], meta);
        start(i ? "2" : "1", "A:1", "x", "1 "); /* a retry */
        redis_integer(redis, "DEL t:unique:x");
        const char *done = text_of("{\"id\":\"x\",%s\"status\":\"done\",%s}", heads[i], meta);
        expect("OK", "SET t:result:x %s", done);
        start(i ? "2" : "1", "A:1", "x", text_of("4 %s", done));
    }
}

TEST(test_the_daemon_of_the_first_dies)
{
    lay_out_two();
    expect("0", "ZADD t:lease XX 1 1");
    reap("B", 1, "", "1 0");
    freeReplyObject(fetch_some("t B 1 1 10000 3 20 1 0", 1)); /* the second still waits */
    start("1", "B:1", "x", "1 ");
    done("1", "B:1", "x", "done", "0 1");
    /* The second job's daemon dies between START and DONE. */
    fetch("B", 2, 1, 1, 0, "0 -1 0 0 2 1 b");
    start("2", "B:2", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"done\"}");
    expect("0", "ZADD t:lease XX 1 2");
    reap("C", 1, "", "1 0");
    fetch("C", 1, 1, 1, 0, "0 -1 0 0 2 2 b");
    start("2", "C:1", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"done\"}");
}

TEST(test_a_first_one_that_is_not_there_holds_nothing)
{
    lay_out_two();
    expect("1", "DEL t:job:1");
    expect("0", "ZADD t:delayed XX 0 2");
    fetch("B", 1, 1, 1, 0, "0 -1 0 0 2 1 b");
    start("2", "B:1", "x", "1 "); /* it becomes the first */
    expect("2", "GET t:unique:x");
    /* A different job with that number holds nothing either. */
    expect("OK", "SET t:unique:y 2");
    expect("1", "LPUSH t:jobs c");
    fetch("B", 2, 1, 1, 0, "0 -1 0 0 3 1 c");
    start("3", "B:2", "y", "1 ");
    /* Neither does a value that is not a number or not a result. */
    redis_integer(redis, "DEL t:unique:z");
    redis_integer(redis, "HSET t:unique:z a b");
    redis_integer(redis, "HSET t:result:z a b");
    redis_integer(redis, "HSET t:waits:z a b");
    expect("2", "LPUSH t:jobs d e");
    fetch("B", 3, 2, 1, 0, "0 -1 0 0 4 1 d 5 1 e");
    start("4", "B:3", "z", "1 ");
    start("5", "B:3", "z", "2 ");
    done("4", "B:3", "z", "done", "0 1");
    fetch("B", 4, 1, 1, 0, "0 -1 0 0 5 1 e");
}

/* Adds jobs from number 100 that wait for job 1, in the state that START leaves. */
static void put_followers(int count)
{
    freeReplyObject(redis_command(redis,
                                  "EVAL %s 0 %d",
                                  "for n = 100, 99 + ARGV[1] do\n"
                                  "  redis.call('HSET', 't:job:' .. n, 'raw', 'f', 'state',\n"
                                  "             'delayed', 'attempt', 0, 'follows', 1,\n"
                                  "             'waits', 'x')\n"
                                  "  redis.call('ZADD', 't:delayed', 4e12, n)\n"
                                  "  redis.call('SADD', 't:waits:x', n)\n"
                                  "end", count));
}

/* All commands so far, including those in scripts. */
static long long commands(void)
{
    long long sum = 0;
    char *info = redis_string(redis, "INFO commandstats");
    for (const char *at = info; (at = strstr(at, ":calls=")) != NULL; at++)
        sum += atoll(at + 7);
    free(info);
    return sum;
}

/* The cost of a script must not grow with the number of jobs that wait for its job. */
TEST(test_the_end_of_the_first_costs_the_same_for_many)
{
    for (int cancels = 0; cancels < 2; cancels++) {
        long long costs[2];
        for (int many = 0; many < 2; many++) {
            empty(NULL);
            lay_out_two();
            put_followers(many ? 5000 : 1);
            long long before = commands();
            if (cancels)
                cancel("x", "nil");
            else
                done("1", "A:1", "x", "done", "0 1");
            costs[many] = commands() - before;
        }
        assert_int_equal(costs[0], costs[1]);
    }
    for (int i = 0; i < 10; i++) {
        long long before = commands();
        freeReplyObject(eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t B 1 64 10000 3 20 1 0"));
        assert_in_range(commands() - before, 100, 2000);
    }
}

/* Any daemon can continue the wake-ups of another, also after Redis was killed. A job pushed
 * meanwhile waits for the followers in the list, not for all that follow. */
TEST(test_followers_are_woken_in_parts)
{
    lay_out_two();
    put_followers(1000);
    done("1", "A:1", "x", "done", "0 1");
    redisFree(redis);
    redis_server_restart(server);
    redis = redis_server_connect(server);
    expect("1001", "ZCARD t:delayed");
    expect("OK", "SET t:watcher Z"); /* so that only wake-ups are left to do */
    static const char keys[] = "t:jobs t:delayed t:alone t:alone:owner t:watcher t:paused t:woken";
    redisReply *look = eval(SCRIPT_ID_LOOK, keys, "");
    assert_int_equal(look->element[0]->integer, 1);
    freeReplyObject(look);
    size_t taken = 0;
    bool seen = false;
    for (int i = 0; redis_integer(redis, "EXISTS t:woken t:jobs") > 0; i++) {
        const char *args = text_of("t %c %d 8 10000 3 20 1 0", 'B' + i % 3, i);
        redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, args);
        assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
        taken += (reply->elements - FETCH_HEAD) / 3;
        freeReplyObject(reply);
        assert_in_range(redis_integer(redis, "LLEN t:jobs"), 0, 64);
        if (i == 10)
            redis_integer(redis, "LPUSH t:jobs lone");
        if (i > 10 && !seen)
            seen = redis_integer(redis, "EXISTS t:job:3") == 1; /* the lone job was fetched */
        if (i == 25)
            assert_true(seen);
        assert_true(i < 400);
    }
    assert_int_equal(taken, 1001 + 1);
    expect("0", "ZCARD t:delayed");
    expect("1002", "ZCARD t:lease");
}

/* Jobs pushed before the followers were woken come first. */
TEST(test_followers_do_not_jump_the_queue)
{
    lay_out_two();
    expect("2", "LPUSH t:jobs c d");
    done("1", "A:1", "x", "done", "0 1");
    fetch("B", 1, 3, 1, 0, "0 -1 0 0 3 1 c 4 1 d 2 1 b");
    /* A follower that becomes due after its keys were deleted does not overtake either. */
    start("2", "B:1", "x", "4 {\"id\":\"x\",\"job\":1,\"status\":\"done\"}");
    expect("1", "DEL t:result:x");
    start("3", "B:1", "x", "1 ");
    start("2", "B:1", "x", "2 ");
    expect("0", "ZADD t:delayed XX 0 2");
    expect("1", "LPUSH t:jobs e");
    fetch("B", 2, 2, 1, 0, "0 -1 0 0 5 1 e 2 1 b");
}

/* A new first job starts while the followers of the last one are woken: each is woken once. */
TEST(test_one_that_waits_again_is_not_woken_again)
{
    lay_out_two();
    put_followers(200);
    done("1", "A:1", "x", "cancelled", "0 1");
    freeReplyObject(fetch_some("t B 1 2 10000 3 20 1 0", 2));
    redisReply *two = redis_command(redis, "ZRANGE t:lease 0 1");
    start(two->element[0]->str, "B:1", "x", "1 ");
    start(two->element[1]->str, "B:1", "x", "2 ");
    size_t taken = 0;
    for (int i = 2; redis_integer(redis, "EXISTS t:woken t:jobs") > 0; i++) {
        const char *args = text_of("t B %d 64 10000 3 20 1 0", i);
        redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, args);
        taken += (reply->elements - FETCH_HEAD) / 3;
        freeReplyObject(reply);
        assert_true(i < 50);
    }
    assert_int_equal(taken, 199);
    expect(two->element[1]->str, "SMEMBERS t:waits:x");
    freeReplyObject(two);
}

TEST(test_an_older_result_does_not_stop_the_first)
{
    lay_out_two();
    expect("OK", "SET t:result:x {\"id\":\"x\",\"job\":9,\"status\":\"failed\"}");
    start("1", "A:1", "x", "1 ");
}

/* ---- cancels ------------------------------------------------------------------------------ */

TEST(test_cancel_of_what_nobody_has_looked_at)
{
    expect("2", "LPUSH t:jobs a b");
    cancel("x", "nil");
    expect("4", "LPUSH t:jobs c");
    /* A cancel may apply to any job that is fetched before its fence. */
    redisReply *reply = fetch_some("t A 1 1 10000 3 20 1 0", 1);
    assert_true(reply->element[4]->integer >= 4000000000000000);
    freeReplyObject(reply);
    start_timed("1", "A:1", "x", 0, -1, -1, "5 ");
    start_timed("1", "A:1", "y", 0, -1, -1, "1 ");
    /* After the fence it applies only to lower numbers. c was pushed later. */
    fetch_marked("A", 2, 2, 1, 1, "2 0", "0 -1 0 0 2 1 b 3 1 c");
    start("2", "A:2", "x", "5 ");
    start("3", "A:2", "x", "1 ");
    expect("2", "ZSCORE t:cancel x");
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS " t:job:1", "A 10000 keep none 1 1", "0 2 -1");
}

TEST(test_a_second_cancel_reaches_further)
{
    expect("1", "LPUSH t:jobs a");
    cancel("x", "nil");
    expect("3", "LPUSH t:jobs b");
    cancel("x", "nil");
    expect("5", "LPUSH t:jobs c");
    freeReplyObject(fetch_some("t A 1 2 10000 3 20 1 0", 2)); /* replaces the first fence */
    start("2", "A:1", "x", "5 ");
    fetch_marked("A", 2, 2, 1, 2, "2 0", "0 -1 0 0 3 1 c");
    start("3", "A:2", "x", "1 ");
}

TEST(test_a_fence_that_is_gone)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    cancel("x", "nil");
    expect("1", "DEL t:jobs");
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 1 10000 3 20 1 1");
    freeReplyObject(reply);
    expect("1", "ZSCORE t:cancel x");
    expect("1", "LPUSH t:jobs b");
    fetch_marked("A", 3, 1, 1, 1, "1 0", "0 -1 0 0 2 1 b");
    /* A fence without a cancel, and a text that looks like a fence. */
    expect("2", "LPUSH t:jobs @cancel:7:nobody @cancel:");
    fetch_marked("A", 4, 2, 1, 2, "1 0", "0 -1 0 0 3 1 @cancel:");
    expect("x x\n", "ZRANGE t:cancel 0 -1");
}

TEST(test_cancel_wakes_what_waits)
{
    lay_out_two();
    start_timed("1", "A:1", "x", 1, now_ms() + 60000, -1, "2 ");
    cancel("x", "nil");
    freeReplyObject(fetch_some("t B 1 8 10000 3 20 1 0", 2));
    start_timed("1", "B:1", "x", 1, now_ms() + 60000, -1, "5 ");
    start("2", "B:1", "x", "5 ");
    expect("0", "EXISTS t:waits:x");
    done("1", "B:1", "x", "cancelled", "0 1");
    done("2", "B:1", "x", "cancelled", "0 1");
    expect("0", "EXISTS t:unique:x");
    /* A later job runs: the cancel was not for it, and a cancelled result does not answer it. */
    expect("1", "LPUSH t:jobs c");
    fetch_marked("B", 2, 1, 1, 0, "2 0", "0 -1 0 0 3 1 c");
    start("3", "B:2", "x", "1 ");
}

/* Cancelled jobs only need their answer. They go before waiting jobs, but take at most half. */
TEST(test_cancelled_ones_are_answered_first)
{
    lay_out_two();
    expect("2", "LPUSH t:jobs c d");
    cancel("x", "nil");
    redisReply *reply = fetch_some("t B 1 1 10000 3 20 1 0", 1);
    assert_string_equal(reply->element[FETCH_HEAD]->str, "2");
    freeReplyObject(reply);
    start("2", "B:1", "x", "5 ");
    for (int i = 0; i < 40; i++)
        redis_integer(redis, "LPUSH t:jobs e f");
    put_followers(300);
    cancel("x", "nil");
    reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t B 2 8 10000 3 20 1 0");
    int cancelled = 0;
    for (size_t i = FETCH_HEAD; i < reply->elements; i += 3)
        cancelled += atoi(reply->element[i]->str) >= 100;
    assert_int_equal(reply->elements, FETCH_HEAD + 8 * 3);
    assert_int_equal(cancelled, 4);
    freeReplyObject(reply);
}

/* Only the end of the first job wakes followers, not that of a bad job or of a follower. */
TEST(test_only_the_end_of_the_first_wakes)
{
    lay_out_two();
    expect("2", "LPUSH t:jobs c d");
    freeReplyObject(fetch_some("t A 2 2 10000 3 20 1 0", 2));
    start("4", "A:2", "x", "2 ");
    cancel("x", "nil");
    freeReplyObject(fetch_some("t B 1 2 10000 3 20 1 0", 2));
    start("2", "B:1", "x", "5 ");
    start("4", "B:1", "x", "5 ");
    expect("4", "LPUSH t:jobs e f g"); /* with the fence */
    freeReplyObject(fetch_some("t B 2 3 10000 3 20 1 0", 3));
    start("5", "B:2", "x", "2 ");
    done("2", "B:1", "x", "cancelled", "0 1");
    done("3", "A:2", "x", "failed", "0 1");
    expect("0", "EXISTS t:woken");
    done("1", "A:1", "x", "done", "0 1");
    expect("1", "LLEN t:woken");
    expect("0", "EXISTS t:waits:x");
}

TEST(test_cancel_of_what_has_ended)
{
    expect("OK", "SET t:result:x kept");
    cancel("x", "kept");
    redisReply *reply =
        eval(SCRIPT_ID_CANCEL, "t:jobs t:cancel t:woken t:waits: t:result:", "''");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "0 bytes"));
    freeReplyObject(reply);
    char id[JOB_ID_BYTES_MAX + 2];
    memset(id, 'x', sizeof id);
    id[JOB_ID_BYTES_MAX] = '\0';
    cancel(id, "nil");
    id[JOB_ID_BYTES_MAX] = 'x';
    id[JOB_ID_BYTES_MAX + 1] = '\0';
    cancel(id, "ERR the id has 129 bytes, must have 1 to 128");
}

TEST(test_old_cancels_make_room)
{
    for (int i = 0; i < 20000; i++)
        redisAppendCommand(redis, "ZADD t:cancel %d id%d", i + 1, i);
    for (int i = 0; i < 20000; i++) {
        void *reply = NULL;
        assert_int_equal(redisGetReply(redis, &reply), REDIS_OK);
        freeReplyObject(reply);
    }
    cancel("x", "nil");
    expect("20001", "ZCARD t:cancel"); /* a cancel has two members */
    expect("nil", "ZSCORE t:cancel id0");
    expect("2", "ZSCORE t:cancel id1");
}

/* A backlog of cancels is forgotten in steps. */
TEST(test_each_call_forgets_few_cancels)
{
    freeReplyObject(redis_command(redis, "EVAL %s 0", "for n = 1, 100000 do "
                                  "redis.call('ZADD', 't:cancel', n, 'c' .. n) end"));
    cancel("x", "nil");
    expect("99938", "ZCARD t:cancel"); /* 64 less, and two more */
    expect("1", "DEL t:jobs");
    for (int i = 1; i <= 1300; i++)
        freeReplyObject(fetch_some(text_of("t A %d 1 10000 3 20 1 0", i), 0));
    expect("20000", "ZCARD t:cancel");
    expect("c80002", "ZRANGE t:cancel 1 1"); /* the oldest are gone */
}

/* ---- the pause ---------------------------------------------------------------------------- */

TEST(test_paused_nothing_is_taken)
{
    expect("OK", "SET t:paused 1");
    expect("OK", "SET t:alone:owner A");
    expect("1", "LPUSH t:jobs a");
    redis_integer(redis, "HSET t:job:50 raw x state delayed attempt 1");
    redis_integer(redis, "ZADD t:delayed 1 50");
    fetch_marked("A", 1, 4, 1, 0, "-1 1", "1 -1 0 0");
    expect("A", "ZRANGE t:inst 0 -1");
    expect("50", "ZRANGE t:delayed 0 -1");
    expect("nil", "GET t:alone:owner");
    expect("1", "DEL t:paused");
    fetch("A", 2, 4, 1, 0, "0 -1 0 0 50 2 x 1 1 a");
}

TEST_MAIN(.name = "start", .setup = start_server, .teardown = stop_server, .each_setup = empty)
