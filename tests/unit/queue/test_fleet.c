/* Tests of the script FLEET against a real Redis. */
#include "tests/fixtures/queue/script_bench.h"

#define LATER "99999999999999"

static void name(const char *instance, const char *until)
{
    redis_integer(redis, "ZADD t:inst %s %s", until, instance);
}

static void expect_part(const redisReply *reply, size_t daemon, const char *instance, bool alive,
                        const char *stats)
{
    redisReply *const *parts = &reply->element[3 + 4 * daemon];
    assert_string_equal(parts[0]->str, instance);
    assert_int_equal(parts[1]->str[0] != '-', alive);
    assert_string_equal(parts[3]->str, stats);
    assert_int_equal(parts[2]->integer > 0, *stats != '\0');
}

static redisReply *fleet(const char *arguments, long long names, long long alive, long long sorted,
                         size_t daemons)
{
    redisReply *reply = eval(SCRIPT_ID_FLEET, "t:inst", arguments);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_int_equal(reply->elements, 3 + 4 * daemons);
    assert_int_equal(reply->element[0]->integer, names);
    assert_int_equal(reply->element[1]->integer, alive);
    assert_int_equal(reply->element[2]->integer, sorted);
    return reply;
}

TEST(test_daemons_in_the_order_of_their_names)
{
    freeReplyObject(fleet("0 100 2048 9000", 0, 0, 0, 0));
    name("c", LATER);
    name("a", "5");
    name("d", LATER);
    name("b", LATER);
    freeReplyObject(redis_command(redis, "SET t:stats:b {} PX 5000"));
    freeReplyObject(redis_command(redis, "SET t:stats:c long PX 5000"));
    redis_integer(redis, "LPUSH t:stats:d x");
    redisReply *reply = fleet("0 100 2048 3", 4, 3, 4, 4);
    expect_part(reply, 0, "a", false, "");
    expect_part(reply, 1, "b", true, "{}");
    assert_string_equal(reply->element[3 + 4 * 2]->str, "c");
    assert_string_equal(reply->element[3 + 4 * 2 + 3]->str, ""); /* longer than 3 bytes */
    expect_part(reply, 3, "d", true, "");                        /* another type */
    freeReplyObject(reply);
    reply = fleet("1 2 2048 9000", 4, 3, 4, 2);
    expect_part(reply, 0, "b", true, "{}");
    expect_part(reply, 1, "c", true, "long");
    freeReplyObject(reply);
    freeReplyObject(fleet("4 100 2048 9000", 4, 3, 4, 0));
    freeReplyObject(fleet("0 100 2 9000", 4, 3, 2, 2)); /* of more names, some */
}

TEST(test_it_writes_nothing)
{
    name("a", LATER);
    freeReplyObject(fleet("0 100 2048 9000", 1, 1, 1, 1));
    redis_integer(redis, "DEL t:inst");
    redis_integer(redis, "LPUSH t:inst x");
    redisReply *reply = eval(SCRIPT_ID_FLEET, "t:inst", "0 100 2048 9000");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    assert_int_equal(redis_integer(redis, "DBSIZE"), 1);
}

/* A page of a large fleet takes a few milliseconds of Redis. */
TEST(test_a_large_fleet)
{
    for (int i = 0; i < 3000; i++)
        name(text_of("host%04d:boot:ns:%d:9", i * 7919 % 3000, i), LATER);
    redisReply *reply = fleet("1900 100 2048 9000", 3000, 3000, 2048, 100);
    for (size_t i = 1; i < 100; i++)
        assert_true(strcmp(reply->element[3 + 4 * (i - 1)]->str, reply->element[3 + 4 * i]->str) <
                    0);
    freeReplyObject(reply);
}

TEST_MAIN(.name = "fleet", .setup = start_server, .teardown = stop_server, .each_setup = empty)
