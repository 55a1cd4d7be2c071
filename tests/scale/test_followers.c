/*
 * test_followers.c - thousands of jobs wait for one with their id while several daemons run. One
 * daemon is killed while the jobs are woken: each job gets one result.
 */
#include "tests/fixtures/test_world.h"

#define DAEMONS   4
#define FOLLOWERS 3000

static void push_followers(void)
{
    for (int i = 0; i < FOLLOWERS; i++)
        world_push(w, "{'id':'x','unique':true,'meta':%d,'input':'p.png','output':'%d.png'}", i, i);
}

/* Takes results, each the first of its job, and returns the number of wrong ones. */
static unsigned take_results(unsigned char seen[FOLLOWERS], unsigned count)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < count; i++) {
        cJSON *result = world_result(w, 20);
        double meta = json_number(result, "meta");
        bool good = meta >= 0 && meta < FOLLOWERS && !seen[(int)meta] &&
                    strcmp(json_text(result, "status"), "done") == 0 &&
                    json_number(result, "same_as") > 0;
        if (good)
            seen[(int)meta] = 1;
        wrong += !good;
        cJSON_Delete(result);
        if (!good)
            break;
    }
    return wrong;
}

TEST(test_each_follower_has_one_result)
{
    static unsigned char seen[FOLLOWERS];
    struct process *victim = &w->daemons[DAEMONS - 1];
    put_png("p.png", .width = 8, .height = 8, .colour_type = 2);
    for (size_t i = 0; i < DAEMONS; i++)
        start_ready(i);
    /* The first job passes START, so that it has the id, and is delayed. */
    world_push(w, "{'id':'x','unique':true,'input':'p.png','output':'first.png',"
                  "'not_before':90000000000,'reply_to':'gpuimgd:reply:first'}");
    assert_true(world_until(w, 10, 1, "EXISTS gpuimgd:unique:x"));
    assert_true(world_until(w, 10, 1, "ZCARD gpuimgd:delayed"));
    push_followers();
    assert_true(world_until(w, 60, FOLLOWERS + 1, "SCARD gpuimgd:waits:x"));
    /* All followers wait: make the first job due. */
    redis_integer(w->client, "HSET gpuimgd:job:1 raw %s",
                  "{\"id\":\"x\",\"unique\":true,\"input\":\"p.png\",\"output\":\"first.png\","
                  "\"reply_to\":\"gpuimgd:reply:first\"}");
    redis_integer(w->client, "ZADD gpuimgd:delayed XX 0 1");
    cJSON *first = world_result_from(w, "gpuimgd:reply:first", 20);
    assert_string_equal(json_text(first, "status"), "done");
    cJSON_Delete(first);
    assert_int_equal(take_results(seen, FOLLOWERS / 10), 0);
    process_kill9(victim);
    assert_int_equal(take_results(seen, FOLLOWERS - FOLLOWERS / 10), 0);
    assert_true(world_settle(w));
    for (size_t i = 0; i < DAEMONS - 1; i++)
        check_stop(&w->daemons[i]);
    static const char *const gone[] = {"gpuimgd:waits:*", "gpuimgd:woken*", "gpuimgd:job:*",
                                       "gpuimgd:unique:*"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_int_equal(redis_integer(w->client, "EVAL %s 0 %s",
                                       "return #redis.call('KEYS', ARGV[1])", gone[i]), 0);
}

TEST_MAIN(.each_setup = open_world, .each_teardown = close_world)
