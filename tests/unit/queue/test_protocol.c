/* Tests of each script of the protocol, transition by transition, against a real Redis. Further
 * tests are in test_start.c, test_dead.c, test_reap.c and test_watch.c. */
#include "tests/fixtures/queue/script_bench.h"
#include "tests/fixtures/text_file.h"

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
    long long now = now_ms();
    assert_in_range(number_of("ZSCORE t:lease 1"), now, now + 10999);
}

TEST(test_fetch_drops_forged_entries)
{
    expect("1", "LPUSH t:jobs real");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 real");
    /* One leased job, jobs that do not exist, and a key of another type. */
    expect("OK", "SET t:job:9 x");
    expect("6", "LPUSH t:jobs @1 @2 @9 @0001 @9999999999999999 last");
    fetch("A", 2, 9, 1, 1, "0 -1 5 0 2 1 last");
    /* '@' without a number, or with one that is too long, is a job text: it becomes bad_json. */
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
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS " t:job:1 t:job:2 t:job:3 t:job:1",
                "A 10000 keep none 1 1 2 1 3 1 1 2", "0 -1 -1 2:1 3:1 1:2");
    expect("2", "ZRANGEBYSCORE t:lease 1 1"); /* job 1 was renewed, job 2 was not */
}

TEST(test_renew_of_the_right_to_run_alone)
{
    expect("OK", "SET t:alone:owner A PX 100");
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 keep none", "1 -1 -1");
    assert_true(redis_integer(redis, "PTTL t:alone:owner") > 5000);
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, "B 10000 7 none", "0 -1 -1");
    expect("A", "GET t:alone:owner");
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 7 none", "0 -1 -1");
    expect("nil", "GET t:alone:owner");
}

/* Redis may run a RENEW after a later FETCH: the connection broke, or it had lost the script. */
TEST(test_a_late_renew_does_not_end_the_right_of_a_later_fetch)
{
    redis_integer(redis, "HSET t:job:1 raw one state alone attempt 2");
    redis_integer(redis, "HSET t:job:2 raw two state alone attempt 2");
    expect("2", "LPUSH t:alone 1 2");
    fetch("A", 5, 1, 1, 0, "0 -1 0 1 1 3 one");
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 4 none", "1 -1 -1");
    fetch("B", 1, 1, 1, 0, "0 -1 0 0"); /* two jobs never run alone at the same time */
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 keep none", "1 -1 -1");
    assert_in_range(redis_integer(redis, "PTTL t:alone:owner:fetch"), 5000, 10000);
    expect_eval(SCRIPT_ID_RENEW, RENEW_KEYS, "A 10000 5 none", "0 -1 -1");
    expect("0", "EXISTS t:alone:owner t:alone:owner:fetch");
    fetch("B", 2, 1, 1, 0, "0 -1 0 1 2 3 two");
    expect_eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("B"), "B 1000", "1");
    expect("0", "EXISTS t:alone:owner t:alone:owner:fetch");
}

TEST(test_resume_gives_back_what_is_unknown)
{
    expect("4", "LPUSH t:jobs a b c d");
    fetch("A", 1, 1, 1, 0, "3 -1 0 0 1 1 a");
    fetch("A", 2, 1, 1, 0, "2 -1 0 0 2 1 b");
    fetch("B", 1, 1, 1, 0, "1 -1 0 0 3 1 c");
    fetch("A", 3, 1, 1, 0, "0 -1 0 0 4 1 d");
    redis_integer(redis, "HSET t:job:1 attempt 3 crashed 1"); /* two attempts used: to :alone */
    /* Job 2 is known, 3 belongs to B, and 4 is from a fetch whose reply is on its way. */
    expect_eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 3 2:2", "1 0");
    expect("1", "LRANGE t:alone 0 -1");
    expect("alone 2", "HMGET t:job:1 state attempt");
    expect("2 3 4", "ZRANGE t:lease 0 -1");
    expect_eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 4", "2 0");
    expect("@2 @4", "LRANGE t:jobs 0 -1");
    expect("ready 0 nil", "HMGET t:job:4 state attempt token");
    fetch("A", 5, 1, 1, 0, "2 -1 0 1 1 3 a"); /* :alone comes first, because no job runs */
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
    expect_eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:job:2 t:job:3",
                "2 9 1 A:1 r1 0 0 0 2 A:1 r2 0 0 0 3 A:1 r3 0 0 0", "1 1 1 1");
    expect("r3 r2", "LRANGE t:results 0 -1");
}

/* There may be no reader. */
TEST(test_reply_lists_are_trimmed_and_counted)
{
    expect("3", "LPUSH t:jobs a b c");
    fetch("A", 1, 3, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c");
    expect("2", "LPUSH t:reply:r old older");
    expect_eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:reply:r t:job:2 t:reply:r",
                "2 9999 1 A:1 r1 0 1 0 2 A:1 r2 0 1 0", "2 1 1");
    expect("r2 r1", "LRANGE t:reply:r 0 -1");
    expect_eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:3 t:reply:r",
                "2 9999 9 1 100 3 A:1 retry r3 0 1 0", "1 2");
    expect("r3 r2", "LRANGE t:reply:r 0 -1");
}

TEST(test_a_reply_key_that_is_no_list)
{
    expect("1", "LPUSH t:jobs a");
    expect("OK", "SET t:reply:r oops");
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    expect_eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:reply:r", "9 9 1 A:1 r 0 1 0", "0 1");
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
    fetch("A", 2, 1, 1, 0, "1 -1 0 0 1 1 a"); /* before b, and still its first attempt */
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
    fetch("A", 5, 1, 1, 1, "0 -1 0 0 1 3 a"); /* beside other jobs: no daemon died */
    expect("0", "EXISTS t:img:v");
    nack("1", "A:5", "retry", "0 2");
    expect("bytes", "GET t:img:v");
    assert_in_range(redis_integer(redis, "TTL t:img:v"), 90, 100);
    expect("a", "LRANGE t:dead 0 -1");
    expect("result", "LRANGE t:results 0 -1");
    expect("result", "GET t:result:id");
    expect("0", "EXISTS t:job:1");
    /* The operator's way to try a dead job again. */
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
        expect_eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1", "9 9 9 5000 1000 1 A:1 retry '' 0 0 0",
                    "0 1");
        redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 1 1 10000 3 20 1 0");
        assert_in_range(reply->element[1]->integer, cases[i].most_ms - 900, cases[i].most_ms);
        freeReplyObject(reply);
    }
}

TEST(test_alone)
{
    redis_integer(redis, "HSET t:job:1 raw one state alone attempt 2");
    redis_integer(redis, "HSET t:job:2 raw two state alone attempt 2");
    expect("4", "LPUSH t:alone 1 99 @1 2");
    expect("1", "LPUSH t:jobs normal");
    fetch("A", 1, 8, 0, 0, "0 -1 0 0 3 1 normal"); /* it may not run alone jobs */
    expect("1", "LPUSH t:jobs normal");
    fetch("A", 2, 8, 1, 1, "1 -1 0 1");         /* it claims the right, and waits for its own job */
    fetch("B", 1, 0, 1, 0, "1 -1 0 0");         /* it has neither the right nor a place */
    fetch("A", 3, 8, 1, 0, "1 -1 0 1 1 3 one"); /* one, although there are more places */
    expect("A", "GET t:alone:owner");
    assert_true(redis_integer(redis, "PTTL t:alone:owner") > 5000);
    fetch("A", 4, 8, 1, 0, "1 -1 2 1 2 3 two");
    fetch("A", 5, 8, 1, 0, "0 -1 0 0 4 1 normal"); /* no more alone jobs: it releases the right */
    expect("nil", "GET t:alone:owner");
}

/* Only a job whose last attempt ended by REAP runs its last one alone: it may kill its daemon. */
TEST(test_only_a_job_that_crashed_runs_alone)
{
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    expire("1");
    nack("2", "A:1", "retry", "0 1");
    reap("B", 1, "", "1 0");
    expect("ready 1 1", "HMGET t:job:1 state attempt crashed");
    redis_integer(redis, "ZADD t:delayed 1 2");
    fetch("A", 2, 2, 1, 0, "0 -1 0 0 2 2 b 1 2 a");
    nack("2", "A:2", "retry", "0 1");
    expire("1");
    reap("B", 1, "", "1 0");
    expect("alone 2 1", "HMGET t:job:1 state attempt crashed");
    redis_integer(redis, "ZADD t:delayed 1 2");
    fetch("A", 3, 9, 1, 0, "1 -1 0 1 1 3 a"); /* b waits until the job alone has ended */
    nack("1", "A:3", "back", "0 1");          /* a drain: it did not fail */
    expect("alone 2 1", "HMGET t:job:1 state attempt crashed");
    fetch("A", 4, 9, 0, 0, "0 -1 0 0 2 3 b");
    expect("1", "LLEN t:alone");
}

/* An attempt that ended with an error has shown that the job does not kill its daemon. */
TEST(test_an_error_after_a_crash_ends_the_suspicion)
{
    redis_integer(redis, "HSET t:job:1 raw a state leased attempt 2 token A:1 owner A crashed 1");
    nack("1", "A:1", "retry", "0 1");
    expect("delayed nil", "HMGET t:job:1 state crashed");
    redis_integer(redis, "ZADD t:delayed 1 1");
    fetch("A", 2, 2, 1, 1, "0 -1 0 0 1 3 a");
}

/* The job waits longer each time, at most five minutes, and is never dead. */
TEST(test_nack_later_takes_no_attempt)
{
    static const long long delays_ms[] = {100, 400, 1600, 6400, 25600, 102400, 300000, 300000};
    redis_integer(redis, "HSET t:job:1 raw a state delayed attempt 2");
    for (size_t i = 0; i < sizeof delays_ms / sizeof delays_ms[0]; i++) {
        redis_integer(redis, "ZADD t:delayed 1 1");
        fetch("A", (int)i + 1, 1, 1, 0, "0 -1 0 0 1 3 a"); /* its last attempt */
        long long before_ms = now_ms();
        nack("1", text_of("A:%zu", i + 1), "later", "0 1");
        long long due_ms = number_of("ZSCORE t:delayed 1");
        assert_in_range(due_ms, before_ms + delays_ms[i], now_ms() + delays_ms[i]);
        expect(text_of("delayed 2 nil nil %zu", i + 1),
               "HMGET t:job:1 state attempt token owner laters");
        expect("0", "ZCARD t:lease");
    }
    expect("0", "EXISTS t:dead t:results t:img:v");
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
    expect_eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 1 1 10000 1 20 1 0",
                "0 -1 0 0 -1 0 2 {} - 1 1 1 a");
    expect_eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1", "9 9 9 1 100 1 A:1 back '' 0 0 0", "0 1");
    expect("@1", "LRANGE t:jobs 0 -1");
}

/* The calls of the next two tests, on job 1 leased to A:1, with one delayed job that is due. */
static const struct {
    enum script script;
    const char *keys, *args;
    const char *typed; /* keys whose wrong type refuses the call */
} script_calls[] = {
    {SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 1 10000 3 20 1 0",
     "t:jobs t:delayed t:alone t:alone:owner t:lease t:inst t:seq t:cancel t:woken "
     "t:protocol"},
    {SCRIPT_ID_START,
     "t:lease t:delayed t:cancel t:job:1 t:waits:x t:unique:x t:result:x",
     "t 1000 1 A:1 x 1 -1 -1", "t:lease t:delayed t:cancel"},
    {SCRIPT_ID_RENEW, RENEW_KEYS " t:job:1", "A 10000 keep keep 1 1",
     "t:lease t:inst t:alone:owner t:cancel t:protocol"},
    {SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 9", RESUME_KEYS},
    {SCRIPT_ID_REAP, REAP_KEYS, "t B 1 10000 3 20 64 1 A",
     "t:lease t:inst t:jobs t:alone t:alone:owner t:protocol"},
    {SCRIPT_ID_NACK, NACK_KEYS "t:job:1", "9 9 9 3 100 1 A:1 back '' 0 0 0",
     "t:lease t:results t:jobs t:delayed t:alone t:dead t:dead:errors "
     "t:woken"},
    {SCRIPT_ID_REVIVE, "t:dead t:jobs", "x 1", "t:dead t:jobs t:dead:errors t:protocol"},
    {SCRIPT_ID_DONE, "t:lease t:results t:job:1 t:result:x t:unique:x t:waits:x t:woken",
     "9 9 1 A:1 r 2 0 0", "t:lease t:results t:woken"},
    {SCRIPT_ID_DONE, "t:lease t:results:stream t:job:1", "9 9 1 A:1 r 0 0 0", "t:results:stream"},
    {SCRIPT_ID_NACK,
     "t:lease t:results:stream t:jobs t:delayed t:alone t:dead t:woken t:job:1",
     "9 9 9 1 100 1 A:1 retry r 0 0 0", "t:results:stream"},
    {SCRIPT_ID_FORGET, "t:results:stream", "", "t:results:stream"},
    {SCRIPT_ID_CANCEL, "t:jobs t:cancel t:woken t:waits:x t:result:x", "x",
     "t:jobs t:cancel t:woken t:protocol"},
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

/* START, RESUME, DONE and NACK touch only leases of their own daemon. No daemon has one when
 * NS:protocol is raised. */
TEST(test_an_older_program_changes_nothing)
{
    for (size_t i = 0; i < SCRIPT_CALLS; i++) {
        if (!strstr(script_calls[i].typed, "t:protocol"))
            continue;
        for (int garbage = 0; garbage < 2; garbage++) {
            const char *value = garbage ? "new" : "999";
            lay_out();
            expect("OK", "SET t:protocol %s", value);
            const char *before = redis_text(redis, "DEBUG DIGEST");
            expect_eval(script_calls[i].script, script_calls[i].keys, script_calls[i].args,
                        text_of("PROTOCOL t:protocol is %s, but this program knows only protocol "
                                "1; upgrade this program", value));
            assert_string_equal(before, redis_text(redis, "DEBUG DIGEST"));
        }
    }
}

/* The text of a script of a program that knows protocol 3 and works beside protocol 2. */
static const char *later_text(enum script script)
{
    static const char numbers[] = "PROTOCOL, PROTOCOL_LEAST = ";
    const char *text = text_of("%s", script_text(script));
    char *at = strstr(text, numbers);
    assert_non_null(at);
    memcpy(at + strlen(numbers), "3, 2", 4);
    return text;
}

TEST(test_a_later_program_waits_for_older_daemons)
{
    const char *renew = "EVAL %s 6 t:lease t:inst t:alone:owner t:cancel t:watcher t:wake %s 10000 "
                        "keep none";
    const char *refused = "PROTOCOL this program cannot work beside the %d daemons of an older "
                          "protocol in t, which have %d jobs; it waits until they have ended";
    const char *later = later_text(SCRIPT_ID_RENEW), *now = script_text(SCRIPT_ID_RENEW);
    lay_out();
    assert_string_equal(redis_text(redis, renew, later, "L"), text_of(refused, 1, 1));
    expect("1", "ZREM t:inst A");
    assert_string_equal(redis_text(redis, renew, later, "L"), text_of(refused, 0, 1));
    assert_string_equal(
        redis_text(redis, "EVAL %s 2 t:dead t:jobs x 1", later_text(SCRIPT_ID_REVIVE)),
        "PROTOCOL this program needs t:protocol 2, but it is 1; upgrade the daemons first");
    expect("nil", "GET t:protocol");
    expect("1", "ZREM t:lease 1");
    freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 1"));
    assert_null(redis_text(redis, renew, later, "L")); /* accepted: an array */
    freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 0"));
    expect("2", "GET t:protocol");
    expect("L", "ZRANGE t:inst 0 -1");
    assert_non_null(strstr(redis_text(redis, renew, now, "A"), "this program knows only"));
    assert_null(redis_text(redis, renew, later, "M"));
    expect("L M", "ZRANGE t:inst 0 -1");
}

TEST(test_all_work_over_maxmemory)
{
    for (size_t i = 0; i < SCRIPT_CALLS; i++) {
        lay_out();
        freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 1"));
        assert_non_null(strstr(redis_text(redis, "SET x y"), "OOM"));
        redisReply *reply = eval(script_calls[i].script, script_calls[i].keys,
                                 script_calls[i].args);
        if (reply->type == REDIS_REPLY_ERROR)
            fail_msg("%s: %s", script_name(script_calls[i].script), reply->str);
        freeReplyObject(reply);
        freeReplyObject(redis_command(redis, "CONFIG SET maxmemory 0"));
    }
}

/* The append-only file has the effects of a script as one step. */
TEST(test_transitions_survive_a_kill)
{
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    expect_eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 99999 1 A:1 r 0 0 0", "0 1");
    redisFree(redis);
    redis_server_restart(server);
    redis = redis_server_connect(server);
    expect("2", "ZRANGE t:lease 0 -1");
    expect("r", "LRANGE t:results 0 -1");
    expect("A:1", "HGET t:job:2 token");
    expect("2", "GET t:seq");
}

TEST_MAIN(.name = "protocol", .setup = start_server, .teardown = stop_server, .each_setup = empty)
