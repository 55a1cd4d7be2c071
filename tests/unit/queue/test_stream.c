/* Tests of results in a stream (results = stream), script by script, against a real Redis. */
#include "tests/fixtures/queue/script_bench.h"

#define STREAM "t:results:stream"

/* Adds `count` results with the numbers and texts 1, 2, ... as entries 1-0, 2-0, ... */
static void fill(int count)
{
    for (int i = 1; i <= count; i++)
        freeReplyObject(redis_command(redis, "XADD " STREAM " %d-0 job %d result r%d", i, i, i));
}

static void make_group(const char *name)
{
    expect("OK", "XGROUP CREATE " STREAM " %s 0 MKSTREAM", name);
}

static void read_some(const char *group, int count)
{
    freeReplyObject(redis_command(redis, "XREADGROUP GROUP %s c COUNT %d STREAMS " STREAM " >",
                                  group, count));
}

/* Leases job 1 to A:1, and further jobs. */
static void lease(int count)
{
    freeReplyObject(redis_command(redis, "FLUSHALL"));
    for (int i = 0; i < count; i++)
        redis_integer(redis, "LPUSH t:jobs a");
    freeReplyObject(fetch_some("t A 1 9 10000 3 20 1 0", (size_t)count));
}

/* The fields of all entries, without their IDs. */
static void expect_entries(const char *expected)
{
    redisReply *reply = redis_command(redis, "XRANGE " STREAM " - +");
    char text[400] = "";
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *fields = reply->element[i]->element[1];
        for (size_t j = 0; j < fields->elements; j++) {
            if (*text)
                strcat(text, " ");
            strcat(text, fields->element[j]->str);
        }
    }
    assert_string_equal(text, expected);
    freeReplyObject(reply);
}

TEST(test_done_adds_to_the_stream)
{
    lease(4);
    redis_integer(redis, "LPUSH t:results old"); /* the list of another setting stays as it is */
    redis_integer(redis, "HSET t:job:3 token B:1");
    expect_eval(SCRIPT_ID_DONE,
                "t:lease " STREAM " t:job:1 t:result:x t:job:2 t:reply:r t:job:3 t:job:4",
                "9 60000 1 A:1 r1 1 0 0 2 A:1 r2 0 1 0 3 A:1 r3 0 0 0 4 A:1 r4 0 0 0",
                "0 1 1 0 1");
    expect_entries("job 1 result r1 job 4 result r4");
    expect("r1", "GET t:result:x");
    expect("r2", "LRANGE t:reply:r 0 -1");
    expect("old", "LRANGE t:results 0 -1");
    expect("3", "ZRANGE t:lease 0 -1");
    /* Sent again, because the reply was lost. */
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:4", "9 60000 4 A:1 r4 0 0 0", "0 -1");
    expect("2", "XLEN " STREAM);
}

TEST(test_a_dead_job_and_a_wrong_reply_key)
{
    lease(2);
    redis_integer(redis, "HSET t:reply:r a b");
    expect_eval(SCRIPT_ID_NACK,
                "t:lease " STREAM " t:jobs t:delayed t:alone t:dead t:woken t:job:1 t:job:2 "
                "t:reply:r",
                "9 60000 9 1 100 1 A:1 retry r1 0 0 0 2 A:1 retry r2 0 1 0", "0 2 2");
    expect_entries("job 1 result r1 job 2 result r2");
    expect("a a", "LRANGE t:dead 0 -1");
    expect("0", "EXISTS t:results");
}

TEST(test_forget_keeps_what_a_group_needs)
{
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "0");
    fill(300);
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "300"); /* no group */
    make_group("a");
    make_group("b");
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "300"); /* nobody has read */
    read_some("a", 250);
    read_some("b", 200);
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "300"); /* all that was read is pending */
    for (int i = 1; i <= 200; i++) {
        expect("1", "XACK " STREAM " a %d-0", i);
        if (i != 150)
            expect("1", "XACK " STREAM " b %d-0", i);
    }
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "151"); /* from 150 on */
    expect("1", "XACK " STREAM " b 150-0");
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "100");
    read_some("b", 1000);
    for (int i = 201; i <= 300; i++)
        redis_integer(redis, "XACK " STREAM " b %d-0", i);
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "100"); /* pending for the other group */
    expect("1", "XGROUP DESTROY " STREAM " a");
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "0");
    expect("1", "EXISTS " STREAM); /* with its groups */
}

/* IDs are numbers, not text: 9-0 comes before 10-0, and 5-9 before 5-10. */
TEST(test_forget_compares_ids_as_numbers)
{
    static const char *const ids[] = {"5-9", "5-10", "9-0", "10-0"};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            char left[4];
            redis_integer(redis, "DEL " STREAM);
            for (int k = 0; k < 4; k++)
                freeReplyObject(redis_command(redis, "XADD " STREAM " %s job 1 result r", ids[k]));
            make_group("a");
            make_group("b");
            expect("OK", "XGROUP SETID " STREAM " a %s", ids[i]);
            expect("OK", "XGROUP SETID " STREAM " b %s", ids[j]);
            snprintf(left, sizeof left, "%d", 3 - (i < j ? i : j));
            expect_eval(SCRIPT_ID_FORGET, STREAM, "", left);
        }
}

/* Only results that were lost count as trimmed. */
TEST(test_trimmed_results_are_counted)
{
    lease(3);
    fill(5);
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:1", "4 9 1 A:1 n1 0 0 0", "2 1");
    expect("4", "XLEN " STREAM); /* no group: 1 and 2 are lost */
    make_group("a");
    read_some("a", 2);
    expect("1", "XACK " STREAM " a 3-0");
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:2", "4 9 2 A:1 n2 0 0 0", "0 1");
    expect_entries("job 4 result r4 job 5 result r5 job 1 result n1 job 2 result n2");
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:3", "4 9 3 A:1 n3 0 0 0", "1 1");
    expect("4", "XLEN " STREAM); /* 4 is lost, although it is pending */
    expect_eval(SCRIPT_ID_FORGET, STREAM, "", "4");
}

/* A dead consumer has result 1. The others go on, and the stream is full. */
TEST(test_a_pending_result_outlives_acknowledged_ones)
{
    lease(3);
    fill(5);
    make_group("a");
    make_group("b");
    read_some("a", 3);
    read_some("b", 9);
    expect("2", "XACK " STREAM " a 2-0 3-0");
    expect("5", "XACK " STREAM " b 1-0 2-0 3-0 4-0 5-0");
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:1", "5 9 1 A:1 n1 0 0 0", "0 1");
    expect_entries("job 1 result r1 job 3 result r3 job 4 result r4 job 5 result r5 "
                   "job 1 result n1");
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:2", "5 9 2 A:1 n2 0 0 0", "0 1");
    expect_entries("job 1 result r1 job 4 result r4 job 5 result r5 job 1 result n1 "
                   "job 2 result n2");
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:3", "5 9 3 A:1 n3 0 0 0", "1 1");
    expect_entries("job 4 result r4 job 5 result r5 job 1 result n1 job 2 result n2 "
                   "job 3 result n3");
}

/* The list of pending entries has more that are deleted than one look reads. Those after them are
 * pending, too, so the oldest is lost, and counts as trimmed. */
TEST(test_deleted_pending_entries_hide_none)
{
    lease(1);
    fill(260);
    make_group("a");
    read_some("a", 260);
    for (int i = 2; i <= 200; i++)
        expect("1", "XDEL " STREAM " %d-0", i);
    expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:1", "61 9 1 A:1 n1 0 0 0", "1 1");
    expect("61", "XLEN " STREAM);
    expect("1", "XDEL " STREAM " 201-0"); /* it is still there */
}

static void set_acl(const char *rule)
{
    expect("OK", "ACL SETUSER default %s", rule);
}

/* A batch that failed after its first write would be sent again, and its results added twice. */
TEST(test_denied_housekeeping_adds_no_result_twice)
{
    static const char *const commands[] = {"xinfo", "xpending", "xlen"};
    for (int i = 0; i < 3; i++) {
        lease(2);
        fill(2);
        make_group("a");
        read_some("a", 1);
        set_acl(text_of("-%s", commands[i]));
        expect_eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:1", "2 9 1 A:1 n1 0 0 0", "1 1");
        expect_eval(SCRIPT_ID_NACK, "t:lease " STREAM " t:jobs t:delayed t:alone t:dead t:woken "
                    "t:job:2", "2 9 9 1 100 2 A:1 retry n2 0 0 0", "1 2");
        redisReply *reply = eval(SCRIPT_ID_FORGET, STREAM, "");
        assert_int_equal(reply->type, REDIS_REPLY_ERROR); /* the daemon logs it */
        freeReplyObject(reply);
        set_acl(text_of("+%s", commands[i]));
        expect_entries("job 1 result n1 job 2 result n2");
    }
}

/* Without XTRIM the stream would have no bound. */
TEST(test_denied_xtrim_refuses_before_any_write)
{
    lease(1);
    fill(2);
    set_acl("-xtrim");
    char *before = redis_string(redis, "DEBUG DIGEST");
    for (int i = 0; i < 2; i++) {
        redisReply *reply =
            i ? eval(SCRIPT_ID_NACK, "t:lease " STREAM " t:jobs t:delayed t:alone t:dead t:woken "
                     "t:job:1", "2 9 9 1 100 1 A:1 retry n1 0 0 0")
              : eval(SCRIPT_ID_DONE, "t:lease " STREAM " t:job:1", "2 9 1 A:1 n1 0 0 0");
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        freeReplyObject(reply);
        assert_string_equal(before, redis_text(redis, "DEBUG DIGEST"));
    }
    free(before);
    set_acl("+xtrim");
}

TEST_MAIN(.name = "stream", .setup = start_server, .teardown = stop_server, .each_setup = empty)
