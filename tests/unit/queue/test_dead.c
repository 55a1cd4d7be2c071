/* Tests of the list of dead jobs and of their errors, against a real Redis. */
#include "tests/fixtures/queue/script_bench.h"

TEST(test_dead_is_trimmed)
{
    for (int i = 1; i <= 3; i++) {
        redis_integer(redis, "HSET t:job:%d raw dead%d state leased attempt 3 token A:1", i, i);
        const char *number = text_of("%d", i);
        nack(number, "A:1", "retry", i == 3 ? "1 2" : "0 2");
    }
    expect("dead3 dead2", "LRANGE t:dead 0 -1");
}

/* Exhausts the attempts of jobs with the texts and results "<name><i>". */
static void die(const char *name, int first, int last)
{
    for (int i = first; i <= last; i++) {
        redis_integer(redis, "HSET t:job:1 raw %s%d state leased attempt 3 token A:1", name, i);
        expect_eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1",
                    text_of("2000 9 2000 3 100 1 A:1 retry {\"job\":\"%s%d\"} 0 0 0", name, i),
                    "0 2");
    }
}

/* Expects the dead job at this place to have this text and the error of job `error` ("": none). */
static void expect_dead(int place, const char *text, const char *error)
{
    const char *wanted = text_of(",\"job\":\"%s\"}", error);
    redisReply *reply = eval(SCRIPT_ID_DEAD, "t:dead", text_of("%d 1", place));
    assert_int_equal(reply->elements, 2);
    assert_string_equal(reply->element[0]->str, text);
    const char *record = reply->element[1]->str;
    if (*error ? strncmp(record, "{\"of\":\"", 7) || !strstr(record, wanted) : *record)
        fail_msg("the error of %s is \"%s\"", text, record);
    freeReplyObject(reply);
}

TEST(test_the_error_of_a_dead_job)
{
    expect("2", "LPUSH t:dead old new"); /* pushed by an older daemon */
    die("x", 1, 3);
    expect_dead(0, "x3", "x3");
    expect_dead(2, "x1", "x1");
    expect_dead(3, "new", "");
    expect_dead(4, "old", "");
    redisReply *reply = eval(SCRIPT_ID_DEAD, "t:dead", "1 100");
    assert_int_equal(reply->elements, 8);
    assert_string_equal(reply->element[0]->str, "x2");
    freeReplyObject(reply);
    expect_eval(SCRIPT_ID_DEAD, "t:dead", "5 100", "");
    /* Its time of death, by Redis's clock. */
    long long now = now_ms() / 1000;
    const char *record = redis_text(redis, "LINDEX t:dead:errors 0");
    const char *time = strstr(record, "\"time\":");
    assert_non_null(time);
    assert_in_range(atof(time + 7), now - 60, now + 1);
    /* REVIVE removes the error together with its job. */
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "x2 1", "1");
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "x2 1", "0");
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "old 0", "1");
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
    die("x", 1, 1); /* and once more */
    expect("x1 x5 x3 x2", "LRANGE t:dead 0 -1");
    for (int i = 0; i < 4; i++) {
        static const char *const left[] = {"x1", "x5", "x3", "x2"};
        expect_dead(i, left[i], left[i]);
    }
    /* Errors of jobs that are no longer listed do not pile up. */
    die("y", 1, 300);
    redis_integer(redis, "LTRIM t:dead 0 9");
    die("z", 1, 1);
    expect("11", "LLEN t:dead");
    expect("111", "LLEN t:dead:errors");
    expect_dead(10, "y291", "y291");
    redis_integer(redis, "DEL t:dead");
    expect_eval(SCRIPT_ID_DEAD, "t:dead", "0 100", "");
}

/* Each of several jobs with the same text has its own error. */
TEST(test_errors_of_equal_dead_jobs)
{
    for (int i = 1; i <= 3; i++) {
        redis_integer(redis, "HSET t:job:1 raw same state leased attempt 3 token A:1");
        const char *args = text_of("9 9 9 3 100 1 A:1 retry {\"job\":\"n%d\"} 0 0 0", i);
        expect_eval(SCRIPT_ID_NACK, NACK_KEYS "t:job:1", args, "0 2");
    }
    expect_dead(0, "same", "n3");
    expect_dead(1, "same", "n2");
    expect_dead(2, "same", "n1");
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "same 1", "1");
    expect_dead(0, "same", "n2");
    expect_dead(1, "same", "n1");
}

TEST_MAIN(.name = "dead", .setup = start_server, .teardown = stop_server, .each_setup = empty)
