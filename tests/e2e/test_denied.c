/*
 * test_denied.c - jobs that name keys which the daemon's Redis user must not write: only they fail.
 */
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define GOOD 20

static void start_as_worker(void)
{
    redisReply *reply = redis_command(
        w->client, "ACL SETUSER worker on >secret ~gpuimgd:[^ir]* ~gpuimgd:inst ~gpuimgd:results "
                   "~gpuimgd:result:* ~gpuimgd:img:ours* ~gpuimgd:reply:ours +@read +@write "
                   "+@scripting +@connection +@blocking +info +time");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    const char *password = text_of("%s/password", w->folder);
    assert_true(text_file_write(password, "secret", 6));
    start_ready(0, "--redis_username=worker", text_of("--redis_password_file=%s", password));
}

#define OUTPUT(key) "{'output':{'key':'gpuimgd:img:" key "','format':'png'}}"

static void push_all(void)
{
    for (int i = 0; i < GOOD; i++) {
        world_push(w, "{'meta':%d,'input':'p.png','output':{'key':'gpuimgd:img:ours:%d',"
                      "'format':'png'}}", i, i);
        if (i == GOOD / 2) {
            world_push(w, "{'id':'key','input':'p.png','outputs':[" OUTPUT("theirs") "]}");
            world_push(w, "{'id':'one','input':'p.png','outputs':[" OUTPUT("theirs") ","
                          OUTPUT("ours") "],'reply_to':'gpuimgd:reply:ours'}");
            world_push(w, "{'id':'reply','input':'p.png','output':'o.png',"
                          "'reply_to':'gpuimgd:reply:theirs'}");
        }
    }
}

/* A number that the daemon publishes. */
static long long published(const char *name)
{
    static const char script[] = "local key = redis.call('KEYS', 'gpuimgd:stats:*')[1]\n"
                                 "return key and cjson.decode(redis.call('GET', key))[ARGV[1]]";
    return redis_integer(w->client, "EVAL %s 0 %s", script, name);
}

static void check_denied(const cJSON *result)
{
    check_has(result, "{'status':'failed','error.code':'path_refused'}");
    assert_non_null(strstr(json_text(result, "error.message"), "gpuimgd:img:theirs"));
    assert_string_equal(json_text(result, "outputs.0.error.code"), "path_refused");
}

TEST(test_the_others_of_the_batch_are_done)
{
    unsigned good = 0, denied = 0, unanswered = 0;
    put_png("p.png", .width = 8, .height = 8, .colour_type = 2);
    push_all();
    start_as_worker();
    for (int i = 0; i < GOOD + 2; i++) {
        cJSON *result = check_next(w);
        const char *id = json_text(result, "id");
        if (strcmp(id, "key") == 0) {
            check_denied(result);
            denied++;
        } else {
            assert_string_equal(json_text(result, "status"), "done");
            unanswered += strcmp(id, "reply") == 0;
            good++;
        }
        cJSON_Delete(result);
    }
    assert_int_equal(good, GOOD + 1);
    assert_int_equal(denied, 1);
    assert_int_equal(unanswered, 1);
    cJSON *one = world_result_from(w, "gpuimgd:reply:ours", 10);
    check_denied(one);
    check_has(one, "{'outputs.1.error':null,'outputs.1.width':8}");
    cJSON_Delete(one);
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:img:ours"), 1);
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:img:theirs gpuimgd:reply:theirs"), 0);
    assert_true(await(20, published("jobs") >= GOOD + 3));
    assert_int_equal(published("done"), GOOD + 1);
    assert_int_equal(published("failed"), 2);
    assert_true(world_settle(w));
    check_stop(&w->daemons[0]);
}

TEST_MAIN(.each_setup = open_world, .each_teardown = close_world)
