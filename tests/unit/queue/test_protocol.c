/* test_protocol.c - each script of the protocol against a real Redis, transition by transition. */
#include "tests/fixtures/queue/script_bench.h"

#define LOOK_KEYS "t:jobs t:delayed t:alone t:alone:owner t:watcher t:paused t:woken"
#define LEAVE_KEYS(inst) "t:inst t:alone:owner t:stats:" inst " t:leases:" inst " t:watcher t:wake"
#define NACK_KEYS "t:lease t:results t:jobs t:delayed t:alone t:dead t:woken "

static void nack(const char *number, const char *token, const char *kind, const char *expected)
{
    char keys[256], args[256];
    snprintf(keys, sizeof keys, NACK_KEYS "t:job:%s t:result:id t:img:v", number);
    snprintf(args, sizeof args, "100 60000 2 3 100 %s %s %s result 1 0 1 bytes 100", number, token,
             kind);
    expect_reply(eval(SCRIPT_ID_NACK, keys, args), args, expected);
}

static void expire(const char *number)
{
    expect("0", "ZADD t:lease 1 %s", number);
}

TEST(test_fetch_takes_in_order)
{
    expect("3", "LPUSH t:jobs a b c");
    expect("4", "RPUSH t:jobs first");
    fetch("A", 1, 2, 1, 0, "2 -1 0 0 1 1 first 2 1 a");
    expect("raw first state leased token A:1 owner A attempt 1", "HGETALL t:job:1");
    expect("1 2", "ZRANGE t:lease 0 -1");
    expect("A", "ZRANGE t:inst 0 -1");
    fetch("A", 2, 64, 1, 2, "0 -1 0 0 3 1 b 4 1 c");
    fetch("A", 3, 64, 1, 4, "0 -1 0 0");
    redisReply *time = redis_command(redis, "TIME");
    long long now = atoll(time->element[0]->str);
    freeReplyObject(time);
    char *expiry = redis_string(redis, "ZSCORE t:lease 1");
    assert_in_range(atoll(expiry), now * 1000, now * 1000 + 10999);
    free(expiry);
}

TEST(test_fetch_drops_forged_entries)
{
    expect("1", "LPUSH t:jobs real");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 real");
    /* One that is leased, ones that are not there, one of another type. */
    expect("OK", "SET t:job:9 x");
    expect("6", "LPUSH t:jobs @1 @2 @9 @0001 @9999999999999999 last");
    fetch("A", 2, 9, 1, 1, "0 -1 5 0 2 1 last");
    /* '@' and no number, or one that is too long, is text like any other: bad_json later. */
    expect("3", "LPUSH t:jobs @ @x @12345678901234567");
    fetch("A", 3, 9, 1, 1, "0 -1 0 0 3 1 @ 4 1 @x 5 1 @12345678901234567");
}

TEST(test_fetch_bounds_forged_entries_a_call)
{
    for (int i = 0; i < 200; i++)
        redis_integer(redis, "LPUSH t:jobs @77");
    fetch("A", 1, 1, 1, 0, "134 -1 66 0");
    fetch("A", 2, 1, 1, 0, "68 -1 66 0");
}

TEST(test_fetch_of_an_oversized_job_tells_its_length_and_beginning)
{
    expect("2", "LPUSH t:jobs aaaaaaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaaaaaaa");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 aaaaaaaaaaaaaaaaaaaa 2 1 21 aaaaaaaaaaaaaaaaaaaaa");
    expect("21", "HSTRLEN t:job:2 raw");
}

TEST(test_numbers_in_use_are_skipped)
{
    expect("2", "LPUSH t:jobs a b");
    redis_integer(redis, "HSET t:job:1 raw x state ready attempt 0");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 2 1 a 3 1 b");
    expect("OK", "SET t:seq 999999999999997");
    expect("1", "LPUSH t:jobs c");
    fetch("A", 2, 2, 1, 0, "0 -1 0 0 999999999999998 1 c");
    expect("1", "ZREM t:lease 999999999999998");
}

TEST(test_renew)
{
    expect("3", "LPUSH t:jobs a b c");
    fetch("A", 1, 3, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c");
    expire("1");
    expire("2");
    redis_integer(redis, "HSET t:job:2 token B:1");
    redis_integer(redis, "DEL t:job:3");
    expect_reply(eval(SCRIPT_ID_RENEW,
                      RENEW_KEYS " t:job:1 t:job:2 t:job:3 t:job:1",
                      "A 10000 keep none 1 1 2 1 3 1 1 2"), "RENEW", "0 -1 -1 2:1 3:1 1:2");
    expect("2", "ZRANGEBYSCORE t:lease 1 1"); /* 1 was put off, 2 was not */
}

TEST(test_renew_of_the_right_to_run_alone)
{
    expect("OK", "SET t:alone:owner A PX 100");
    expect_reply(eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 keep none"), "keep", "1 -1 -1");
    assert_true(redis_integer(redis, "PTTL t:alone:owner") > 5000);
    expect_reply(eval(SCRIPT_ID_RENEW, RENEW_KEYS, "B 10000 drop none"), "another's", "0 -1 -1");
    expect("A", "GET t:alone:owner");
    expect_reply(eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 drop none"), "drop", "0 -1 -1");
    expect("nil", "GET t:alone:owner");
}

TEST(test_resume_gives_back_what_is_unknown)
{
    expect("4", "LPUSH t:jobs a b c d");
    fetch("A", 1, 1, 1, 0, "3 -1 0 0 1 1 a");
    fetch("A", 2, 1, 1, 0, "2 -1 0 0 2 1 b");
    fetch("B", 1, 1, 1, 0, "1 -1 0 0 3 1 c");
    fetch("A", 3, 1, 1, 0, "0 -1 0 0 4 1 d");
    redis_integer(redis, "HSET t:job:1 attempt 3"); /* two used before: on to :alone */
    /* 2 is known, 3 is another's, 4 is from a fetch whose reply is on its way. */
    expect_reply(eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t A 3 3 2:2"), "RESUME", "1 0");
    expect("1", "LRANGE t:alone 0 -1");
    expect("alone 2", "HMGET t:job:1 state attempt");
    expect("2 3 4", "ZRANGE t:lease 0 -1");
    expect_reply(eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t A 3 4"), "RESUME", "2 0");
    expect("@2 @4", "LRANGE t:jobs 0 -1");
    expect("ready 0 nil", "HMGET t:job:4 state attempt token");
    fetch("A", 5, 1, 1, 0, "2 -1 0 1 1 3 a"); /* :alone first: nothing runs */
}

TEST(test_done)
{
    expect("4", "LPUSH t:jobs a b c d");
    fetch("A", 1, 4, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c 4 1 d");
    redis_integer(redis, "HSET t:job:3 token B:7");
    redis_integer(redis, "DEL t:job:4");
    redisReply *reply =
        eval(SCRIPT_ID_DONE,
             "t:lease t:results t:job:1 t:result:x t:img:o t:img:p t:job:2 t:reply:r t:job:3 "
             "t:img:q t:job:4",
             "100 60000 1 A:1 r1 1 0 2 bytes 0 more 50 2 A:1 r2 0 1 0 3 A:1 r3 0 0 1 x 0 "
             "4 A:1 r4 0 0 0");
    expect_reply(reply, "DONE", "0 1 1 0 -1");
    expect("r1", "LRANGE t:results 0 -1");
    expect("r1", "GET t:result:x");
    expect("r2", "LRANGE t:reply:r 0 -1");
    assert_in_range(redis_integer(redis, "PTTL t:result:x"), 50000, 60000);
    assert_in_range(redis_integer(redis, "PTTL t:reply:r"), 50000, 60000);
    expect("bytes", "GET t:img:o");
    expect("-1", "TTL t:img:o");
    assert_in_range(redis_integer(redis, "TTL t:img:p"), 40, 50);
    expect("nil", "GET t:img:q");
    expect("0", "EXISTS t:job:1 t:job:2");
    expect("3 4", "ZRANGE t:lease 0 -1");
}

TEST(test_done_twice_changes_nothing)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    for (int i = 0; i < 2; i++)
        expect_reply(eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 9 1 A:1 r 0 0 0"),
                     "DONE", i ? "0 -1" : "0 1");
    expect("1", "LLEN t:results");
}

TEST(test_results_are_trimmed_and_counted)
{
    expect("3", "LPUSH t:jobs a b c");
    fetch("A", 1, 3, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c");
    expect_reply(eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:job:2 t:job:3",
                      "2 9 1 A:1 r1 0 0 0 2 A:1 r2 0 0 0 3 A:1 r3 0 0 0"), "DONE", "1 1 1 1");
    expect("r3 r2", "LRANGE t:results 0 -1");
}

/* Nobody may ever read them. */
TEST(test_reply_lists_are_trimmed_and_counted)
{
    expect("3", "LPUSH t:jobs a b c");
    fetch("A", 1, 3, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c");
    expect("2", "LPUSH t:reply:r old older");
    expect_reply(eval(SCRIPT_ID_DONE,
                      "t:lease t:results t:job:1 t:reply:r t:job:2 t:reply:r",
                      "2 9999 1 A:1 r1 0 1 0 2 A:1 r2 0 1 0"),
                 "DONE", "2 1 1");
    expect("r2 r1", "LRANGE t:reply:r 0 -1");
    expect_reply(eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:3 t:reply:r",
                      "2 9999 9 1 100 3 A:1 retry r3 0 1 0"),
                 "NACK", "1 2");
    expect("r3 r2", "LRANGE t:reply:r 0 -1");
}

TEST(test_a_reply_key_that_is_no_list)
{
    expect("1", "LPUSH t:jobs a");
    expect("OK", "SET t:reply:r oops");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    expect_reply(eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:reply:r", "9 9 1 A:1 r 0 1 0"),
                 "DONE", "0 1");
    expect("r", "LRANGE t:results 0 -1");
}

TEST(test_nack_back_returns_the_attempt)
{
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 1, 1, 0, "1 -1 0 0 1 1 a");
    nack("1", "B:1", "back", "0 0");
    nack("1", "A:1", "back", "0 1");
    nack("1", "A:1", "back", "0 0");
    nack("7", "A:1", "back", "0 -1");
    fetch("A", 2, 1, 1, 0, "1 -1 0 0 1 1 a"); /* before b, and its first attempt again */
}

TEST(test_nack_retry_waits_longer_each_time_then_dead)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    nack("1", "A:1", "retry", "0 1");
    expect("delayed", "HGET t:job:1 state");
    expect("0", "ZCARD t:lease");
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 1 10000 3 20 1 0");
    assert_in_range(reply->element[1]->integer, 1, 100);
    assert_int_equal(reply->elements, FETCH_HEAD);
    freeReplyObject(reply);
    usleep(110000);
    fetch("A", 3, 1, 1, 0, "0 -1 0 0 1 2 a");
    nack("1", "A:3", "retry", "0 1");
    reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 4 1 10000 3 20 1 0");
    assert_in_range(reply->element[1]->integer, 300, 400); /* four times as long */
    freeReplyObject(reply);
    redis_integer(redis, "ZADD t:delayed 1 1");
    fetch("A", 5, 1, 1, 1, "0 -1 0 1"); /* the last one: alone, once nothing runs */
    fetch("A", 6, 1, 1, 0, "0 -1 0 1 1 3 a");
    expect("0", "EXISTS t:img:v");
    nack("1", "A:6", "retry", "0 2");
    expect("bytes", "GET t:img:v");
    assert_in_range(redis_integer(redis, "TTL t:img:v"), 90, 100);
    expect("a", "LRANGE t:dead 0 -1");
    expect("result", "LRANGE t:results 0 -1");
    expect("result", "GET t:result:id");
    expect("0", "EXISTS t:job:1");
    /* As the operator does it: */
    expect("a", "LMOVE t:dead t:jobs RIGHT LEFT");
    fetch("A", 7, 1, 1, 0, "0 -1 0 0 2 1 a");
}

TEST(test_the_delay_ends_at_an_hour)
{
    static const struct {
        int attempt;
        long long most_ms;
    } cases[] = {{1, 1000}, {6, 1024000}, {7, 3600000}, {2000, 3600000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        redis_integer(redis, "HSET t:job:1 raw a state leased attempt %d token A:1",
                      cases[i].attempt);
        expect_reply(eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1",
                          "9 9 9 5000 1000 1 A:1 retry '' 0 0 0"), "NACK", "0 1");
        redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 1 1 10000 3 20 1 0");
        assert_in_range(reply->element[1]->integer, cases[i].most_ms - 900, cases[i].most_ms);
        freeReplyObject(reply);
    }
}

TEST(test_dead_is_trimmed)
{
    for (int i = 1; i <= 3; i++) {
        redis_integer(redis, "HSET t:job:%d raw dead%d state leased attempt 3 token A:1", i, i);
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        nack(number, "A:1", "retry", i == 3 ? "1 2" : "0 2");
    }
    expect("dead3 dead2", "LRANGE t:dead 0 -1");
}

/* ---- why they died ---- */

/* Gives jobs up with the texts and results "<name><i>". */
static void die(const char *name, int first, int last)
{
    for (int i = first; i <= last; i++) {
        char keys[256], args[256];
        redis_integer(redis, "HSET t:job:1 raw %s%d state leased attempt 3 token A:1", name, i);
        snprintf(keys, sizeof keys, NACK_KEYS "t:job:1");
        snprintf(args, sizeof args, "2000 9 2000 3 100 1 A:1 retry {\"job\":\"%s%d\"} 0 0 0", name,
                 i);
        expect_reply(eval(SCRIPT_ID_NACK, keys, args), args, "0 2");
    }
}

/* The dead job at this place has this text, and the error of this one ("": none). */
static void expect_dead(int place, const char *text, const char *error)
{
    char args[32], wanted[64];
    snprintf(args, sizeof args, "%d 1", place);
    snprintf(wanted, sizeof wanted, ",\"job\":\"%s\"}", error);
    redisReply *reply = eval(SCRIPT_ID_DEAD, "t:dead", args);
    assert_int_equal(reply->elements, 2);
    assert_string_equal(reply->element[0]->str, text);
    const char *record = reply->element[1]->str;
    if (*error ? strncmp(record, "{\"of\":\"", 7) || !strstr(record, wanted) : *record)
        fail_msg("the error of %s is \"%s\"", text, record);
    freeReplyObject(reply);
}

TEST(test_the_error_of_a_dead_job)
{
    expect("2", "LPUSH t:dead old new"); /* by an older daemon */
    die("x", 1, 3);
    expect_dead(0, "x3", "x3");
    expect_dead(2, "x1", "x1");
    expect_dead(3, "new", "");
    expect_dead(4, "old", "");
    redisReply *reply = eval(SCRIPT_ID_DEAD, "t:dead", "1 100");
    assert_int_equal(reply->elements, 8);
    assert_string_equal(reply->element[0]->str, "x2");
    freeReplyObject(reply);
    expect_reply(eval(SCRIPT_ID_DEAD, "t:dead", "5 100"), "past the end", "");
    /* When it died, by Redis's clock. */
    reply = redis_command(redis, "TIME");
    double now = atof(reply->element[0]->str);
    freeReplyObject(reply);
    char *record = redis_string(redis, "LINDEX t:dead:errors 0");
    const char *time = strstr(record, "\"time\":");
    assert_non_null(time);
    assert_in_range(atof(time + 7), now - 60, now + 1);
    free(record);
    /* The error goes with its job, either way. */
    expect_reply(eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "x2 1"), "retry", "1");
    expect_reply(eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "x2 1"), "retry", "0");
    expect_reply(eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "old 0"), "drop", "1");
    expect("x3 x1 new", "LRANGE t:dead 0 -1");
    expect("x2", "LRANGE t:jobs 0 -1");
    expect("2", "LLEN t:dead:errors");
    expect_dead(1, "x1", "x1");
}

TEST(test_errors_of_dead_jobs_that_were_moved_by_hand)
{
    die("x", 1, 5);
    expect("x1", "LMOVE t:dead t:jobs RIGHT LEFT");
    expect("1", "LREM t:dead 1 x4");
    die("x", 1, 1); /* and again */
    expect("x1 x5 x3 x2", "LRANGE t:dead 0 -1");
    for (int i = 0; i < 4; i++) {
        static const char *const left[] = {"x1", "x5", "x3", "x2"};
        expect_dead(i, left[i], left[i]);
    }
    /* Those of jobs that are gone do not pile up. */
    die("y", 1, 300);
    redis_integer(redis, "LTRIM t:dead 0 9");
    die("z", 1, 1);
    expect("11", "LLEN t:dead");
    expect("111", "LLEN t:dead:errors");
    expect_dead(10, "y291", "y291");
    redis_integer(redis, "DEL t:dead");
    expect_reply(eval(SCRIPT_ID_DEAD, "t:dead", "0 100"), "none", "");
}

/* Of jobs with the same text each has its own. */
TEST(test_errors_of_equal_dead_jobs)
{
    for (int i = 1; i <= 3; i++) {
        char args[128];
        redis_integer(redis, "HSET t:job:1 raw same state leased attempt 3 token A:1");
        snprintf(args, sizeof args, "9 9 9 3 100 1 A:1 retry {\"job\":\"n%d\"} 0 0 0", i);
        expect_reply(eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1", args), args, "0 2");
    }
    expect_dead(0, "same", "n3");
    expect_dead(1, "same", "n2");
    expect_dead(2, "same", "n1");
    expect_reply(eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "same 1"), "retry", "1");
    expect_dead(0, "same", "n2");
    expect_dead(1, "same", "n1");
}

TEST(test_alone)
{
    redis_integer(redis, "HSET t:job:1 raw one state alone attempt 2");
    redis_integer(redis, "HSET t:job:2 raw two state alone attempt 2");
    expect("4", "LPUSH t:alone 1 99 @1 2");
    expect("1", "LPUSH t:jobs normal");
    fetch("A", 1, 8, 0, 0, "0 -1 0 0 3 1 normal"); /* may not */
    expect("1", "LPUSH t:jobs normal");
    fetch("A", 2, 8, 1, 1, "1 -1 0 1");         /* claims, and waits for its own job */
    fetch("B", 1, 0, 1, 0, "1 -1 0 0");         /* has not the right, and no place */
    fetch("A", 3, 8, 1, 0, "1 -1 0 1 1 3 one"); /* one, though there are places for more */
    expect("A", "GET t:alone:owner");
    assert_true(redis_integer(redis, "PTTL t:alone:owner") > 5000);
    fetch("A", 4, 8, 1, 0, "1 -1 2 1 2 3 two");
    fetch("A", 5, 8, 1, 0, "0 -1 0 0 4 1 normal"); /* none left: released */
    expect("nil", "GET t:alone:owner");
}

TEST(test_alone_is_released_when_it_may_not_go_on)
{
    expect("OK", "SET t:alone:owner A");
    redis_integer(redis, "HSET t:job:1 raw one state alone attempt 2");
    expect("1", "LPUSH t:alone 1");
    fetch("A", 1, 8, 0, 0, "0 -1 0 0");
    expect("nil", "GET t:alone:owner");
    fetch("B", 1, 8, 1, 0, "0 -1 0 1 1 3 one");
}

TEST(test_with_one_attempt_nothing_runs_alone)
{
    expect("1", "LPUSH t:jobs a");
    expect_reply(eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 1 1 10000 1 20 1 0"), "FETCH",
                 "0 -1 0 0 -1 0 2 1 1 a");
    expect_reply(eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1",
                      "9 9 9 1 100 1 A:1 back '' 0 0 0"), "NACK", "0 1");
    expect("@1", "LRANGE t:jobs 0 -1");
}

TEST(test_reap_expired)
{
    expect("4", "LPUSH t:jobs a b c d");
    fetch("A", 1, 4, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c 4 1 d");
    redis_integer(redis, "HSET t:job:2 attempt 2");
    redis_integer(redis, "HSET t:job:3 attempt 3");
    redis_integer(redis, "DEL t:job:4");
    reap("B", 1, "", "0 0");
    for (int i = 1; i <= 4; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        expire(number);
    }
    reap("B", 0, "", "0 0"); /* not the expired ones */
    reap("B", 1, "", "2 0 3 3 c");
    expect("@1", "LRANGE t:jobs 0 -1");
    expect("2", "LRANGE t:alone 0 -1");
    expect("burying B:9 B", "HMGET t:job:3 state token owner");
    expect("3", "ZRANGE t:lease 0 -1");
    reap("C", 1, "", "0 0"); /* a second reaper finds nothing */
    expect("1", "LLEN t:jobs");
    /* The late daemon is told that it is late. */
    expect_reply(eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 9 1 A:1 r 0 0 0"), "DONE",
                 "0 0");
    /* The burial ends with a NACK; had the reaper died, the next one would do it. */
    expire("3");
    reap("C", 1, "", "0 0 3 3 c");
    nack("3", "B:9", "retry", "0 0");
    nack("3", "C:9", "retry", "0 2");
    expect("c", "LRANGE t:dead 0 -1");
}

/* What had ended by the first look is taken, unless the clock has gone back since. */
TEST(test_reap_takes_what_had_ended_by_the_first_look)
{
    expect("3", "LPUSH t:jobs a b c");
    fetch("A", 1, 3, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c");
    expect("0", "ZADD t:lease 1000 1 2000 2");
    redisReply *reply = eval(SCRIPT_ID_REAP, REAP_KEYS, "t B 9 10000 3 20 64 -1");
    long long now = reply->element[2]->integer;
    assert_true(now > 1600000000000);
    assert_int_equal(reply->element[3]->integer, 2);
    freeReplyObject(reply);
    reap("B", now + 3600000, "", "0 0");
    reply = eval(SCRIPT_ID_REAP, REAP_KEYS, "t B 9 10000 3 20 64 1999");
    assert_int_equal(reply->element[0]->integer, 1);
    assert_int_equal(reply->element[3]->integer, 1);
    freeReplyObject(reply);
    expect("2 3", "ZRANGE t:lease 0 -1");
    reap("B", 2000, "", "1 0");
    reap("B", now, "", "0 0");
}

TEST(test_a_burial_is_resumed_without_an_attempt_back)
{
    expect("1", "LPUSH t:jobs a");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    redis_integer(redis, "HSET t:job:1 attempt 3");
    expire("1");
    reap("B", 1, "", "0 0 1 3 a");
    expect_reply(eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t B 3 10"), "RESUME", "1 0");
    expect("0", "LLEN t:jobs");
    reap("B", 1, "", "0 0 1 3 a");
}

TEST(test_reap_of_a_dead_daemon)
{
    expect("3", "LPUSH t:jobs a b c");
    fetch("A", 1, 1, 1, 0, "2 -1 0 0 1 1 a");
    fetch("B", 1, 1, 1, 0, "1 -1 0 0 2 1 b");
    expect("OK", "SET t:alone:owner A");
    reap("C", 0, "A", "1 0");
    expect("c @1", "LRANGE t:jobs 0 -1");
    expect("2", "ZRANGE t:lease 0 -1");
    expect("B", "ZRANGE t:inst 0 -1");
    expect("nil", "GET t:alone:owner");
    expect("ready 1", "HMGET t:job:1 state attempt"); /* the attempt stays charged */
    fetch("C", 1, 1, 1, 0, "1 -1 0 0 1 2 a");
}

TEST(test_reap_says_when_there_is_more)
{
    for (int i = 1; i <= 70; i++) {
        redis_integer(redis, "HSET t:job:%d raw x state leased attempt 1 owner A token A:1", i);
        redis_integer(redis, "ZADD t:lease 1 %d", i);
    }
    reap("B", 1, "", "64 1");
    reap("B", 1, "", "6 0");
}

/* In each step NS:leases:INST has just the leases of that daemon. */
TEST(test_each_daemon_has_a_set_of_its_leases)
{
    expect("7", "LPUSH t:jobs a b c d e f g");
    fetch("A", 1, 6, 1, 0, "1 -1 0 0 1 1 a 2 1 b 3 1 c 4 1 d 5 1 e 6 1 f");
    fetch("B", 1, 1, 1, 0, "0 -1 0 0 7 1 g");
    expect("1 2 3 4 5 6", "SMEMBERS t:leases:A");
    expect("7", "SMEMBERS t:leases:B");
    expect_reply(eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 9 1 A:1 r 0 0 0"), "DONE",
                 "0 1");
    nack("2", "A:1", "back", "0 1");
    expect_reply(eval(SCRIPT_ID_START, "t:lease t:delayed t:cancel t:job:3",
                      "t 1000 3 A:1 '' 0 99999999999999 -1"), "START", "2 ");
    expect("4 5 6", "SMEMBERS t:leases:A");
    redis_integer(redis, "HSET t:job:4 attempt 3");
    expire("4");
    expire("5");
    reap("B", 1, "", "1 0 4 3 d"); /* 4 is the reaper's, who buries it; 5 is in the queue */
    expect("6", "SMEMBERS t:leases:A");
    expect("4 7", "SMEMBERS t:leases:B");
    expect_reply(eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t B 3 9"), "RESUME", "1 0");
    expect("4", "SMEMBERS t:leases:B"); /* of fetch 9, whose reply is on its way */
    reap("C", 0, "A", "1 0");
    expect("0", "EXISTS t:leases:A");
    expect_reply(eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("B"), "B 1000"), "LEAVE", "1");
    expect("0", "EXISTS t:leases:B");
}

/* A set that lacks leases, has others, or is none, is put right by RENEW and by RESUME. */
TEST(test_a_set_of_leases_is_put_right)
{
    static const char renew[] = RENEW_KEYS " t:job:1 t:job:2";
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    for (int i = 0; i < 2; i++) {
        redis_integer(redis, "DEL t:leases:A");
        if (i == 1)
            redis_integer(redis, "HSET t:leases:A a b");
        expect_reply(eval(SCRIPT_ID_RENEW, renew, "A 10000 keep none 1 1 2 1"), "RENEW", "0 -1 -1");
        expect("1 2", "SMEMBERS t:leases:A");
        assert_in_range(redis_integer(redis, "PTTL t:leases:A"), 90000, 100000);
    }
    redis_integer(redis, "SADD t:leases:A 77 78");
    redis_integer(redis, "HSET t:job:78 raw x state leased attempt 1 owner B token B:1");
    expect_reply(eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t A 3 9 1:1 2:1"), "RESUME",
                 "0 0");
    expect("1 2", "SMEMBERS t:leases:A");
    redis_integer(redis, "SADD t:leases:A 77 78");
    reap("C", 0, "A", "2 0");
    expect("0", "EXISTS t:leases:A");
    redis_integer(redis, "HSET t:leases:D a b");
    reap("C", 0, "D", "0 0");
    expect("0", "EXISTS t:leases:D");
    expect("B:1", "HGET t:job:78 token");
}

TEST(test_resume_gives_back_in_batches)
{
    for (int i = 0; i < 100; i++)
        redis_integer(redis, "LPUSH t:jobs x");
    freeReplyObject(eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 1 100 10000 3 20 1 0"));
    expect("100", "SCARD t:leases:A");
    for (int i = 0; i < 2; i++)
        expect_reply(eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t A 3 9"), "RESUME",
                     i == 0 ? "64 1" : "36 0");
    expect("100", "LLEN t:jobs");
}

/* Lookups of keys since the server's start. */
static long long lookups(void)
{
    char *info = redis_string(redis, "INFO stats");
    long long hits = 0, misses = 0;
    assert_int_equal(sscanf(strstr(info, "keyspace_hits:"),
                            "keyspace_hits:%lld keyspace_misses:%lld", &hits, &misses), 2);
    free(info);
    return hits + misses;
}

/* What RESUME and REAP cost depends on what they take, and not on the leases of others. */
TEST(test_leases_of_others_cost_nothing)
{
    freeReplyObject(redis_command(
        redis, "EVAL %s 0", "for n = 1001, 101000 do "
                            "redis.call('HSET', 't:job:' .. n, 'raw', 'x', 'state', 'leased', "
                            "'attempt', 1, 'owner', 'else:' .. n % 100, 'token', 'else:1') "
                            "redis.call('ZADD', 't:lease', 99999999999999, n) "
                            "redis.call('SADD', 't:leases:else:' .. n % 100, n) end"));
    expect("4", "LPUSH t:jobs a b c d");
    fetch("A", 1, 2, 1, 0, "2 -1 0 0 1 1 a 2 1 b");
    fetch("B", 1, 2, 1, 0, "0 -1 0 0 3 1 c 4 1 d");
    long long before = lookups();
    redisReply *reply = eval(SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t A 3 9 1:1");
    assert_in_range(lookups() - before, 1, 50);
    expect_reply(reply, "RESUME", "1 0");
    before = lookups();
    reap("C", 1, "A B", "3 0");
    assert_in_range(lookups() - before, 1, 100);
    before = lookups();
    reap("C", 0, "else:7", "64 1"); /* a batch, whatever there is */
    assert_in_range(lookups() - before, 64, 64 * 15);
    expect("936", "SCARD t:leases:else:7");
}

/* A FETCH with two places; who watches afterwards, and the word that is left for the others. */
static void fetch_watch(const char *inst, const char *part, int watches, const char *watcher,
                        const char *word)
{
    char args[128];
    snprintf(args, sizeof args, "t %s 1 2 10000 3 20 1 0 %s", inst, part);
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, args);
    assert_true(reply->elements >= FETCH_HEAD);
    assert_int_equal(reply->element[FETCH_WATCH]->integer, watches);
    freeReplyObject(reply);
    expect(watcher, "GET t:watcher");
    expect(word, "LRANGE t:wake 0 -1");
}

TEST(test_one_daemon_watches)
{
    fetch_watch("A", "none", 2, "A", ""); /* there is no other one */
    expect("1", "LPUSH t:jobs a");
    fetch_watch("A", "watch", 2, "A", "");
    fetch_watch("B", "none", 0, "A", "");
    fetch_watch("A", "watch", 1, "A", ""); /* there is one now */
    expect("1", "LPUSH t:jobs b");
    fetch_watch("A", "watch", 0, "-", "watch"); /* has taken a job: another's turn */
    fetch_watch("C", "wait", 0, "-", "watch");  /* nobody has heard the word yet */
    expect("watch", "LPOP t:wake");             /* C */
    expect("3", "LPUSH t:jobs c d e");
    fetch_watch("C", "watch", 0, "nil", "fetch"); /* one is left: another fetches, too */
    fetch_watch("D", "none", 0, "-", "watch");
    /* A word that nobody has heard gives way to a newer one. */
    expect("3", "LPUSH t:jobs f g h");
    fetch_watch("E", "none", 0, "nil", "fetch");
    redis_integer(redis, "DEL t:jobs");
    fetch_watch("E", "none", 1, "E", ""); /* the word is out of date */
    /* One that waits for a word in a call that it cannot end becomes it by that. */
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
    char args[64], expected[16];
    snprintf(args, sizeof args, "%s 10000 none %s", inst, word);
    snprintf(expected, sizeof expected, "0 -1 %d", watches);
    expect_reply(eval(SCRIPT_ID_RENEW, RENEW_KEYS, args), args, expected);
    expect(watcher, "GET t:watcher");
}

TEST(test_the_watch_is_kept_by_renewal)
{
    renew_watch("A", "none", -1, "nil");
    renew_watch("A", "keep", 2, "A");
    expect("1", "PEXPIRE t:watcher 1000");
    renew_watch("B", "keep", 0, "A"); /* two thought so: one of them gives in */
    renew_watch("A", "keep", 1, "A");
    assert_in_range(redis_integer(redis, "PTTL t:watcher"), 5000, 10000);
    renew_watch("B", "pass", 0, "A");
    expect("0", "EXISTS t:wake");
    renew_watch("A", "pass", 0, "-");
    expect("watch", "LPOP t:wake");
    renew_watch("B", "keep", 1, "B"); /* it has heard the word, and says who it is */
    reap("C", 0, "B", "0 0");
    expect("nil", "GET t:watcher");
    renew_watch("A", "keep", 2, "A");
    renew_watch("D", "none", -1, "A");
    expect_reply(eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("A"), "A 1000"), "LEAVE", "1");
    expect("-", "GET t:watcher");
    expect("watch", "LRANGE t:wake 0 -1");
    expect_reply(eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("D"), "D 1000"), "LEAVE", "1");
    expect("0", "EXISTS t:watcher t:wake");
}

static void look(const char *expected)
{
    char *before = redis_string(redis, "DEBUG DIGEST");
    expect_reply(eval(SCRIPT_ID_LOOK, LOOK_KEYS, ""), "LOOK", expected);
    char *after = redis_string(redis, "DEBUG DIGEST");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

TEST(test_look)
{
    look("1 0 -1 0"); /* nobody watches */
    expect("OK", "SET t:watcher A");
    look("0 0 -1 0");
    expect("1", "LPUSH t:jobs a");
    look("1 1 -1 0");
    expect("OK", "SET t:paused 1");
    look("0 1 -1 1");
    expect("2", "DEL t:paused t:jobs");
    expect("1", "LPUSH t:alone 7");
    look("1 0 -1 0");
    expect("OK", "SET t:alone:owner B"); /* who runs it */
    look("0 0 -1 0");
    expect("1", "ZADD t:delayed 1 7");
    look("1 0 0 0");
    expect("0", "ZADD t:delayed 99999999999999 7");
    redisReply *reply = eval(SCRIPT_ID_LOOK, LOOK_KEYS, "");
    assert_int_equal(reply->element[0]->integer, 0);
    assert_true(reply->element[2]->integer > 1000000);
    freeReplyObject(reply);
    static const char *const typed[] = {"t:jobs", "t:alone", "t:delayed"};
    for (size_t i = 0; i < 3; i++) { /* FETCH says which key it is */
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
    expect_reply(eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("A"), "A 1000"), "LEAVE", "1");
    expect("B", "ZRANGE t:inst 0 -1");
    expect("B", "GET t:alone:owner");
    expect("{}", "GET t:stats:B");
    expect_reply(eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("B"), "B 1000"), "LEAVE", "1");
    expect("0", "EXISTS t:inst t:alone:owner t:stats:B");
}

/* The calls of the next two tests, on job 1 leased to A:1, with one due delayed job. */
static const struct {
    enum script script;
    const char *keys, *args;
    const char *typed; /* keys whose wrong type refuses the call */
} script_calls[] = {
    {SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 1 10000 3 20 1 0",
     "t:jobs t:delayed t:alone t:alone:owner t:lease t:inst t:seq t:cancel t:woken"},
    {SCRIPT_ID_START,
     "t:lease t:delayed t:cancel t:job:1 t:waits:x t:unique:x t:result:x",
     "t 1000 1 A:1 x 1 -1 -1", "t:lease t:delayed t:cancel"},
    {SCRIPT_ID_RENEW, RENEW_KEYS " t:job:1", "A 10000 keep keep 1 1",
     "t:lease t:inst t:alone:owner t:cancel"},
    {SCRIPT_ID_RESUME, "t:lease t:jobs t:alone", "t A 3 9", "t:lease t:jobs t:alone"},
    {SCRIPT_ID_REAP, REAP_KEYS, "t B 1 10000 3 20 64 1 A",
     "t:lease t:inst t:jobs t:alone t:alone:owner"},
    {SCRIPT_ID_NACK, NACK_KEYS "t:job:1", "9 9 9 3 100 1 A:1 back '' 0 0 0",
     "t:lease t:results t:jobs t:delayed t:alone t:dead t:dead:errors "
     "t:woken"},
    {SCRIPT_ID_REVIVE, "t:dead t:jobs", "x 1", "t:dead t:jobs t:dead:errors"},
    {SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:result:x t:unique:x t:waits:x t:woken",
     "9 9 1 A:1 r 2 0 0", "t:lease t:results t:woken"},
    {SCRIPT_ID_CANCEL, "t:jobs t:cancel t:woken t:waits:x t:result:x", "x",
     "t:jobs t:cancel t:woken"},
};
#define SCRIPT_CALLS (sizeof script_calls / sizeof *script_calls)

static void lay_out(void)
{
    freeReplyObject(redis_command(redis, "FLUSHALL"));
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 1, 1, 0, "1 -1 0 0 1 1 a");
    redis_integer(redis, "HSET t:job:50 raw x state delayed attempt 1");
    redis_integer(redis, "ZADD t:delayed 1 50");
}

TEST(test_wrong_types_refuse_before_any_write)
{
    for (size_t i = 0; i < SCRIPT_CALLS; i++) {
        char typed[256], *save;
        strcpy(typed, script_calls[i].typed);
        for (char *key = strtok_r(typed, " ", &save); key; key = strtok_r(NULL, " ", &save)) {
            lay_out();
            redis_integer(redis, "DEL %s", key);
            redis_integer(redis, "HSET %s a b", key);
            char *before = redis_string(redis, "DEBUG DIGEST");
            assert_int_equal(strlen(before), 40);
            redisReply *reply = eval(script_calls[i].script, script_calls[i].keys,
                                     script_calls[i].args);
            if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "WRONGTYPE ", 10) != 0 ||
                !strstr(reply->str, key))
                fail_msg("%s with a wrong %s", script_name(script_calls[i].script), key);
            freeReplyObject(reply);
            char *after = redis_string(redis, "DEBUG DIGEST");
            assert_string_equal(before, after);
            free(before);
            free(after);
        }
    }
}

TEST(test_all_work_over_maxmemory)
{
    for (size_t i = 0; i < SCRIPT_CALLS; i++) {
        lay_out();
        freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 1"));
        char *refused = redis_string(redis, "SET x y");
        assert_non_null(strstr(refused, "OOM"));
        free(refused);
        redisReply *reply = eval(script_calls[i].script, script_calls[i].keys,
                                 script_calls[i].args);
        if (reply->type == REDIS_REPLY_ERROR)
            fail_msg("%s: %s", script_name(script_calls[i].script), reply->str);
        freeReplyObject(reply);
        freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 0"));
    }
}

/* What a script did is in the append-only file as one step. */
TEST(test_transitions_survive_a_kill)
{
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    expect_reply(eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 99999 1 A:1 r 0 0 0"),
                 "DONE", "0 1");
    redisFree(redis);
    redis_server_restart(server);
    redis = redis_server_connect(server);
    expect("2", "ZRANGE t:lease 0 -1");
    expect("r", "LRANGE t:results 0 -1");
    expect("A:1", "HGET t:job:2 token");
    expect("2", "GET t:seq");
}

int main(void)
{
    return run_all(.name = "protocol", .setup = start_server, .teardown = stop_server,
                   .each_setup = empty);
}
