/* Tests of unique jobs whose lists somebody deleted by hand: no id is blocked for ever. */
#include "tests/fixtures/queue/script_bench.h"

#define START_KEYS(number)                                                                         \
    "t:lease t:delayed t:cancel t:job:" number " t:waits:x t:unique:x t:result:x"

/* START of a unique job with the id x. Longest wait: 300 s. */
static void start(const char *keys, const char *number, const char *token, const char *expected)
{
    expect_eval(SCRIPT_ID_START, keys, text_of("t 300000 %s %s x 1 -1 -1", number, token),
                expected);
}

/* Job 1 is the first with the id x, and was given back to `list`; job 2 comes after it. */
static void lay_out(const char *list)
{
    redis_integer(redis, "LPUSH %s a", list);
    fetch("A", 1, 1, 1, 0, "0 -1 0 0 1 1 a");
    start(START_KEYS("1"), "1", "A:1", "1 ");
    expect_eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1", "9 9 9 3 100 1 A:1 back '' 0 0 0", "0 1");
    expect("@1", "LRANGE %s 0 -1", list);
}

static void follower_comes(const char *list)
{
    redis_integer(redis, "LPUSH %s b", list);
    fetch("A", 2, 1, 1, 0, "0 -1 0 0 2 1 b");
    start(START_KEYS("2"), "2", "A:2", "2 ");
    expect("delayed 1", "HMGET t:job:2 state follows");
}

/* The job that was put back runs, and its result answers the follower. */
static void first_ends(void)
{
    redisReply *lease = fetch_some("t A 3 1 10000 3 20 1 0 none", 1);
    assert_string_equal(lease->element[FETCH_HEAD]->str, "1");
    freeReplyObject(lease);
    start(START_KEYS("1"), "1", "A:3", "1 ");
    const char *result = "{\"id\":\"x\",\"job\":1,\"status\":\"done\"}";
    expect_eval(SCRIPT_ID_DONE,
                "t:lease t:results t:job:1 t:result:x t:unique:x t:waits:x t:woken",
                text_of("9 60000 1 A:3 %s 2 0 0", result), "0 1");
    fetch("A", 4, 1, 1, 0, "0 -1 0 0 2 1 b");
    start(START_KEYS("2"), "2", "A:4", text_of("4 %s", result));
}

/* Checks that the follower waits for `least` to `most` ms. */
static void expect_wait(long long least, long long most)
{
    assert_in_range(number_of("ZSCORE t:delayed 2") - now_ms(), least, most);
}

TEST(test_a_deleted_list)
{
    static const char *const lists[] = {"t:jobs", "t:jobs:7"};
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        lay_out(lists[i]);
        redis_integer(redis, "DEL %s", lists[i]);
        follower_comes(lists[i]);
        expect("@1", "LRANGE %s 0 -1", lists[i]);
        first_ends();
    }
}

/* In a list with other jobs, the entry of the first one is not searched. */
TEST(test_a_deleted_entry_of_a_list_with_other_jobs)
{
    lay_out("t:jobs");
    expect("1", "DEL t:jobs");
    expect("2", "LPUSH t:jobs b c");
    fetch("A", 2, 1, 1, 0, "1 -1 0 0 2 1 b");
    start(START_KEYS("2"), "2", "A:2", "2 ");
    expect("c", "LRANGE t:jobs 0 -1");
    expect_wait(5000, 10000); /* it asks again soon */
    expect("0", "ZADD t:delayed 1 2");
    expect("1", "RPUSH t:alone 0"); /* keeps nothing from the lists: it may not run alone */
    fetch("A", 3, 1, 0, 0, "1 -1 0 0 3 1 c");
    fetch("A", 4, 1, 0, 0, "0 -1 0 0 2 1 b");
    expect("1", "LPUSH t:jobs d");
    start(START_KEYS("2"), "2", "A:4", "2 ");
    expect("d @1", "LRANGE t:jobs 0 -1");
    /* Another follower that asks again soon after adds no second entry. */
    redis_integer(redis, "HSET t:job:4 raw e state leased attempt 1 token A:5 follows 1");
    start(START_KEYS("4"), "4", "A:5", "2 ");
    expect("d @1", "LRANGE t:jobs 0 -1");
}

TEST(test_a_first_job_in_its_list_stays)
{
    lay_out("t:jobs");
    redis_integer(redis, "HSET t:job:2 raw b state leased attempt 1 token A:2");
    start(START_KEYS("2"), "2", "A:2", "2 ");
    expect("@1", "LRANGE t:jobs 0 -1");
}

TEST(test_deleted_sets)
{
    static const struct {
        const char *state, *set, *after;
    } cases[] = {
        {"delayed", "t:delayed", "1"}, {"leased", "t:lease", "1"}, {"burying", "t:lease", "1"},
        {"alone", "t:alone", "1"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        redis_integer(redis, "HSET t:job:1 raw a id x state %s attempt 1 token B:1 owner B",
                      cases[i].state);
        redis_integer(redis, "HSET t:job:2 raw b state leased attempt 1 token A:2");
        expect("OK", "SET t:unique:x 1");
        start(START_KEYS("2"), "2", "A:2", "2 ");
        if (strcmp(cases[i].state, "alone") == 0)
            expect("1", "LRANGE t:alone 0 -1");
        else
            assert_in_range(number_of("ZSCORE %s 1", cases[i].set), now_ms() - 5000, now_ms());
        expect("2", "SMEMBERS t:waits:x");
    }
}

/* A claim of a job that is gone, that is another one's, or that has lost its text is void. */
TEST(test_void_claims)
{
    static const char *const firsts[] = {"id x state ready", "raw a id y state ready",
                                         "raw a id x state odd", "raw a state ready"};
    for (size_t i = 0; i < COUNT_OF(firsts); i++) {
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        freeReplyObject(redis_command(redis, text_of("HSET t:job:1 %s", firsts[i])));
        redis_integer(redis, "HSET t:job:2 raw b state leased attempt 1 token A:2");
        expect("OK", "SET t:unique:x 1");
        start(START_KEYS("2"), "2", "A:2", "1 ");
        expect("2", "GET t:unique:x");
    }
}

TEST_MAIN(.name = "deleted", .setup = start_server, .teardown = stop_server, .each_setup = empty)
