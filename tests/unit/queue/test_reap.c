/* Tests of REAP and RESUME on a real Redis: expired leases and the sets of leases. */
#include "tests/fixtures/queue/script_bench.h"

TEST(test_reap_expired)
{
    expect("4", "LPUSH t:jobs a b c d");
    fetch("A", 1, 4, 1, 0, "0 -1 0 0 1 1 a 2 1 b 3 1 c 4 1 d");
    redis_integer(redis, "HSET t:job:2 attempt 2");
    redis_integer(redis, "HSET t:job:3 attempt 3");
    redis_integer(redis, "DEL t:job:4");
    reap("B", 1, "", "0 0");
    for (int i = 1; i <= 4; i++) {
        const char *number = text_of("%d", i);
        expire(number);
    }
    reap("B", 0, "", "0 0"); /* this call takes no expired leases */
    reap("B", 1, "", "2 0 3 3 c");
    expect("@1", "LRANGE t:jobs 0 -1");
    expect("2", "LRANGE t:alone 0 -1");
    expect("burying B:9 B", "HMGET t:job:3 state token owner");
    expect("3", "ZRANGE t:lease 0 -1");
    reap("C", 1, "", "0 0"); /* a second reaper finds none */
    expect("1", "LLEN t:jobs");
    /* The late daemon's DONE is answered with stale. */
    expect_eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 9 1 A:1 r 0 0 0", "0 0");
    /* NACK ends the burial. If the reaper dies first, the next reaper repeats it. */
    expire("3");
    reap("C", 1, "", "0 0 3 3 c");
    nack("3", "B:9", "retry", "0 0");
    nack("3", "C:9", "retry", "0 2");
    expect("c", "LRANGE t:dead 0 -1");
}

/* REAP takes leases that had expired by the first look, unless the clock has gone back since. */
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
    expect_eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t B 3 10", "1 0");
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
    expect("ready 1", "HMGET t:job:1 state attempt"); /* the attempt still counts */
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

/* After each step NS:leases:INST has exactly the leases of that daemon. */
TEST(test_each_daemon_has_a_set_of_its_leases)
{
    expect("7", "LPUSH t:jobs a b c d e f g");
    fetch("A", 1, 6, 1, 0, "1 -1 0 0 1 1 a 2 1 b 3 1 c 4 1 d 5 1 e 6 1 f");
    fetch("B", 1, 1, 1, 0, "0 -1 0 0 7 1 g");
    expect("1 2 3 4 5 6", "SMEMBERS t:leases:A");
    expect("7", "SMEMBERS t:leases:B");
    expect_eval(SCRIPT_ID_DONE, "t:lease t:results t:job:1", "9 9 1 A:1 r 0 0 0", "0 1");
    nack("2", "A:1", "back", "0 1");
    expect_eval(SCRIPT_ID_START, "t:lease t:delayed t:cancel t:job:3",
                "t 1000 3 A:1 '' 0 99999999999999 -1", "2 ");
    expect("4 5 6", "SMEMBERS t:leases:A");
    redis_integer(redis, "HSET t:job:4 attempt 3");
    expire("4");
    expire("5");
    reap("B", 1, "", "1 0 4 3 d"); /* 4 belongs to the reaper, which buries it; 5 is listed */
    expect("6", "SMEMBERS t:leases:A");
    expect("4 7", "SMEMBERS t:leases:B");
    expect_eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t B 3 9", "1 0");
    expect("4", "SMEMBERS t:leases:B"); /* leased by fetch 9, whose reply is on its way */
    reap("C", 0, "A", "1 0");
    expect("0", "EXISTS t:leases:A");
    expect_eval(SCRIPT_ID_LEAVE, LEAVE_KEYS("B"), "B 1000", "1");
    expect("0", "EXISTS t:leases:B");
}

/* RENEW and RESUME repair a set with missing or foreign leases, and a key of another type. */
TEST(test_a_set_of_leases_is_put_right)
{
    static const char renew[] = RENEW_KEYS " t:job:1 t:job:2";
    expect("2", "LPUSH t:jobs a b");
    fetch("A", 1, 2, 1, 0, "0 -1 0 0 1 1 a 2 1 b");
    for (int i = 0; i < 2; i++) {
        redis_integer(redis, "DEL t:leases:A");
        if (i == 1)
            redis_integer(redis, "HSET t:leases:A a b");
        expect_eval(SCRIPT_ID_RENEW, renew, "A 10000 keep none 1 1 2 1", "0 -1 -1");
        expect("1 2", "SMEMBERS t:leases:A");
        assert_in_range(redis_integer(redis, "PTTL t:leases:A"), 90000, 100000);
    }
    redis_integer(redis, "SADD t:leases:A 77 78");
    redis_integer(redis, "HSET t:job:78 raw x state leased attempt 1 owner B token B:1");
    expect_eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 9 1:1 2:1", "0 0");
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
        expect_reply(eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 9"), "RESUME",
                     i == 0 ? "64 1" : "36 0");
    expect("100", "LLEN t:jobs");
}

/* Key lookups since the server's start. */
static long long lookups(void)
{
    char *info = redis_string(redis, "INFO stats");
    long long hits = 0, misses = 0;
    assert_int_equal(sscanf(strstr(info, "keyspace_hits:"),
                            "keyspace_hits:%lld keyspace_misses:%lld", &hits, &misses), 2);
    free(info);
    return hits + misses;
}

/* The cost of RESUME and REAP depends on the leases they take, not on those of other daemons. */
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
    redisReply *reply = eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 9 1:1");
    assert_in_range(lookups() - before, 1, 50);
    expect_reply(reply, "RESUME", "1 0");
    before = lookups();
    reap("C", 1, "A B", "3 0");
    assert_in_range(lookups() - before, 1, 100);
    before = lookups();
    reap("C", 0, "else:7", "64 1"); /* at most a batch */
    assert_in_range(lookups() - before, 64, 64 * 15);
    expect("936", "SCARD t:leases:else:7");
}

TEST_MAIN(.name = "reap", .setup = start_server, .teardown = stop_server, .each_setup = empty)
