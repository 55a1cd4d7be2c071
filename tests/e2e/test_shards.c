/*
 * test_shards.c - one daemon serves several shards: keys, results, fairness, last attempts, an
 * outage of one server, drains, and the views of an operator.
 */
#include <signal.h>
#include <unistd.h>

#include "queue/redis/shard.h"
#include "tests/fixtures/http.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/test_world.h"

#define SHARDS 4

/* ---- jobs of a shard ------------------------------------------------------------------------- */

/* Pushes `count` jobs with ids PREFIX0, PREFIX1, ... to the shard. */
static void push_to(redisContext *client, unsigned shard, unsigned count, const char *prefix)
{
    for (unsigned i = 0; i < count; i++)
        redisAppendCommand(client, "LPUSH {gpuimgd:%u}:jobs %s", shard,
                           text_of("{\"id\":\"%s%u\",\"input\":\"p.jpg\",\"output\":\"%s%u.png\"}",
                                   prefix, i, prefix, i));
    redis_drain(client, count);
}

/* Takes `count` results of the shard: all must be done, name the shard, and have other ids. */
static void take_from(redisContext *client, unsigned shard, unsigned count, const char *prefix)
{
    bool seen[2000] = {false};
    for (unsigned taken = 0; taken < count; taken++) {
        redisReply *reply = redis_command(client, "BRPOP {gpuimgd:%u}:results 30", shard);
        assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
        cJSON *result = cJSON_Parse(reply->element[1]->str);
        const char *id = json_text(result, "id");
        assert_string_equal(json_text(result, "status"), "done");
        assert_int_equal(json_number(result, "shard"), shard);
        assert_memory_equal(id, prefix, strlen(prefix));
        unsigned number = (unsigned)atoi(id + strlen(prefix));
        assert_true(number < COUNT_OF(seen) && !seen[number]);
        seen[number] = true;
        cJSON_Delete(result);
        freeReplyObject(reply);
    }
    assert_int_equal(redis_integer(client, "LLEN {gpuimgd:%u}:results", shard), 0);
}

/* No keys of jobs or leases may be left, in any shard. */
static void check_shards_clean(redisContext *client)
{
    static const char *const kinds[] = {"jobs", "delayed", "alone", "alone:owner", "lease", "dead",
                                        "results"};
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        for (size_t i = 0; i < COUNT_OF(kinds); i++)
            if (redis_integer(client, "EXISTS {gpuimgd:%u}:%s", shard, kinds[i]))
                fail_msg("the key {gpuimgd:%u}:%s is left", shard, kinds[i]);
        redisReply *jobs = redis_command(client, "KEYS {gpuimgd:%u}:job:*", shard);
        assert_int_equal(jobs->elements, 0);
        freeReplyObject(jobs);
    }
}

/* ---- one server ------------------------------------------------------------------------------ */

TEST(test_each_shard_is_served)
{
    struct process *daemon = start_ready(0, "--shards=4");
    assert_true(process_logged(daemon, 0, "lists {gpuimgd:0}:jobs to {gpuimgd:3}:jobs", 10));
    assert_true(process_logged(daemon, 0, "shard 3: Redis at", 10));
    for (unsigned shard = 0; shard < SHARDS; shard++)
        push_to(w->client, shard, 50, text_of("s%u-", shard));
    for (unsigned shard = 0; shard < SHARDS; shard++)
        take_from(w->client, shard, 50, text_of("s%u-", shard));
    /* The numbers of jobs are equal in all shards; log lines tell them apart. */
    freeReplyObject(redis_command(w->client, "LPUSH {gpuimgd:2}:jobs %s",
                                  "{\"id\":\"x\",\"input\":\"none.jpg\",\"output\":\"x.png\"}"));
    assert_true(process_logged(daemon, 0, "job 2:51 x (none.jpg) failed: input_missing", 10));
    freeReplyObject(redis_command(w->client, "DEL {gpuimgd:2}:results"));
    check_stop(daemon);
    check_shards_clean(w->client);
}

/* The job number, the shard and the keys of one job. The keys of a job belong to its shard. */
TEST(test_keys_belong_to_the_shard)
{
    static const char job[] = "{\"id\":\"k\",\"input\":{\"key\":\"{gpuimgd:1}:img:in\"},"
                              "\"output\":{\"key\":\"{gpuimgd:1}:img:out\",\"format\":\"png\"}}";
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 64, .height = 48});
    freeReplyObject(redis_command(w->client, "SET {gpuimgd:1}:img:in %b", file.bytes, file.length));
    picture_free(&file);
    start_ready(0, "--shards=4");
    freeReplyObject(redis_command(w->client, "LPUSH {gpuimgd:1}:jobs %s", job));
    take_from(w->client, 1, 1, "k");
    assert_true(redis_integer(w->client, "STRLEN {gpuimgd:1}:img:out") > 50);
    freeReplyObject(redis_command(w->client, "LPUSH {gpuimgd:2}:jobs %s", job));
    cJSON *result = world_result_from(w, "{gpuimgd:2}:results", 20);
    assert_non_null(strstr(json_text(result, "error.message"), "{gpuimgd:2}:img:"));
    cJSON_Delete(result);
    check_stop(&w->daemons[0]);
}

/* A later unique job with the same id is answered by the kept result, which names the shard. */
TEST(test_unique)
{
    static const char job[] = "{\"id\":\"123456789\",\"input\":\"p.jpg\",\"output\":\"u.png\","
                              "\"unique\":true}";
    start_ready(0, "--shards=4");
    for (int i = 0; i < 2; i++) {
        freeReplyObject(redis_command(w->client, "LPUSH {gpuimgd:2}:jobs %s", job));
        cJSON *result = world_result_from(w, "{gpuimgd:2}:results", 20);
        assert_string_equal(json_text(result, "status"), "done");
        assert_int_equal(json_number(result, "shard"), 2);
        assert_int_equal(json_number(result, "job"), i + 1);
        assert_int_equal(json_at(result, "same_as") != NULL, i == 1);
        cJSON_Delete(result);
    }
    check_stop(&w->daemons[0]);
}

/* A shard with a few jobs does not wait for one with many. */
TEST(test_shards_share_the_places)
{
    struct process *daemon = start_ready(0, "--shards=4", "--inflight=4");
    process_signal(daemon, SIGUSR2);
    assert_true(process_logged(daemon, 0, "fetching is paused", 10));
    push_to(w->client, 0, 1000, "many");
    push_to(w->client, 3, 10, "few");
    process_signal(daemon, SIGUSR2);
    take_from(w->client, 3, 10, "few");
    long long left = redis_integer(w->client, "LLEN {gpuimgd:0}:jobs");
    if (left < 800)
        fail_msg("only %lld jobs of the busy shard are left", left);
    take_from(w->client, 0, 1000, "many"); /* a busy shard alone gets all places */
    check_stop(daemon);
    check_shards_clean(w->client);
}

/* Jobs on their last attempt run alone, although each shard has one and others have more jobs. */
TEST(test_last_attempts_run_alone)
{
    struct process *daemon = start_ready(0, "--shards=4", "--attempts=2");
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        freeReplyObject(redis_command(
            w->client, "HSET {gpuimgd:%u}:job:900 raw %s state alone attempt 1", shard,
            text_of("{\"id\":\"a0\",\"input\":\"p.jpg\",\"output\":\"a%u.png\"}", shard)));
        redis_integer(w->client, "LPUSH {gpuimgd:%u}:alone 900", shard);
        push_to(w->client, shard, 30, "b");
    }
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        unsigned alone = 0;
        for (int i = 0; i < 31; i++) {
            cJSON *result = world_result_from(w, text_of("{gpuimgd:%u}:results", shard), 30);
            assert_string_equal(json_text(result, "status"), "done");
            alone += strcmp(json_text(result, "id"), "a0") == 0;
            assert_int_equal(json_number(result, "attempt"),
                             *json_text(result, "id") == 'a' ? 2 : 1);
            cJSON_Delete(result);
        }
        assert_int_equal(alone, 1);
    }
    assert_int_equal(process_log_count(daemon, 0, "they run one at a time"), SHARDS);
    check_stop(daemon);
    check_shards_clean(w->client);
}

TEST(test_drain_gives_back_in_all_shards)
{
    struct process *daemon = start_ready(0, "--shards=4", "--drain_timeout_s=0.1");
    for (unsigned shard = 0; shard < SHARDS; shard++)
        push_to(w->client, shard, 200, "d");
    assert_true(world_until(w, 20, 1, "EXISTS {gpuimgd:3}:lease"));
    check_stop(daemon);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        assert_int_equal(redis_integer(w->client, "ZCARD {gpuimgd:%u}:lease", shard), 0);
        assert_int_equal(redis_integer(w->client, "EXISTS {gpuimgd:%u}:inst", shard), 0);
        assert_int_equal(redis_integer(w->client, "LLEN {gpuimgd:%u}:jobs", shard) +
                             redis_integer(w->client, "LLEN {gpuimgd:%u}:results", shard), 200);
    }
    start_ready(0, "--shards=4");
    for (unsigned shard = 0; shard < SHARDS; shard++)
        take_from(w->client, shard, 200, "d");
    check_stop(&w->daemons[0]);
    check_shards_clean(w->client);
}

/* Reloaded options reach each shard. */
TEST(test_reload)
{
    const char *file = text_of("%s/shards.conf", w->folder);
    assert_true(text_file_write(file, "results = list\n", 15));
    struct process *daemon = start_ready(0, "-c", file, "--shards=4");
    push_to(w->client, 2, 3, "r");
    take_from(w->client, 2, 3, "r");
    assert_true(text_file_write(file, "results = id\n", 13));
    process_signal(daemon, SIGHUP);
    assert_true(process_logged(daemon, 0, "configuration reloaded", 10));
    push_to(w->client, 2, 1, "i");
    assert_true(world_until(w, 20, 1, "EXISTS {gpuimgd:2}:result:i0"));
    assert_int_equal(redis_integer(w->client, "EXISTS {gpuimgd:2}:results"), 0);
    check_stop(daemon);
}

/* Daemons with other numbers of shards run at the same time: each job has one result. */
TEST(test_growing)
{
    start_ready(0, "--shards=2");
    for (unsigned shard = 0; shard < 2; shard++)
        push_to(w->client, shard, 100, "g");
    push_to(w->client, 3, 20, "g"); /* nobody serves it yet */
    start_ready(1, "--shards=4");
    take_from(w->client, 3, 20, "g");
    for (unsigned shard = 0; shard < 2; shard++)
        take_from(w->client, shard, 100, "g");
    check_stop(&w->daemons[0]);
    push_to(w->client, 1, 20, "h");
    take_from(w->client, 1, 20, "h");
    check_stop(&w->daemons[1]);
    check_shards_clean(w->client);
}

/* --explain checks a job by the rules of its shard: that of its id, or of its first key. */
TEST(test_explain)
{
    static const struct {
        const char *job, *says;
    } cases[] = {
        {"{'input':{'key':'{gpuimgd:3}:img:a'},'output':'o.png'}", "{gpuimgd:3}:img:a"},
        {"{'id':'123456789','input':{'key':'{gpuimgd:1}:img:a'},'output':'o.png'}",
         "must begin with \"{gpuimgd:2}:img:\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *path = text_of("%s/job.json", w->folder);
        char *text = strdup(cases[i].job);
        for (char *at = text; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        assert_true(text_file_write(path, text, strlen(text)));
        free(text);
        struct process *daemon = world_start(w, 0, "--shards=4", "--explain", path, NULL);
        assert_int_equal(process_wait(daemon, 20), 1);
        const char *log = text_keep(process_log(daemon));
        if (!strstr(log, cases[i].says))
            fail_msg("the log does not say %s: %s", cases[i].says, log);
    }
}

TEST(test_bad_options_are_refused)
{
    static const struct {
        const char *options[2], *says;
    } cases[] = {
        {{"--redis=a:1 b:2"}, "redis has 2 addresses, but option shards is 1"},
        {{"--shards=2", "--redis=a:1 b:2 c:3"}, "redis has 3 addresses, but option shards is 2"},
        {{"--shards=2", "--redis=a:1 b:0"}, "\"b:0\" must end in a port"},
        {{"--shards=2", "--namespace=a{b}"}, "option namespace is \"a{b}\""},
        {{"--shards=65"}, "option shards is \"65\"; it must be a whole number from 1 to 64"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct process *daemon = world_start(w, 0, cases[i].options[0], cases[i].options[1], NULL);
        assert_int_equal(process_wait(daemon, 20), 78);
        assert_true(process_logged(daemon, 0, cases[i].says, 5));
    }
}

/* ---- two servers ----------------------------------------------------------------------------- */

static bool metrics_have(const char *page, const char *line)
{
    struct http_reply reply = http_request(page, "GET", "/metrics");
    bool found = strstr(reply.body, line) != NULL;
    http_free(&reply);
    return found;
}

/* What an operator sees while shards 1 and 3 are away. The daemon has read the lengths of the lists
 * of the other shards after a RENEW. */
static void check_page(const char *page)
{
    static const char *const lines[] = {
        "gpuimgd_shard_up{namespace=\"gpuimgd\",shard=\"0\"} 1\n",
        "gpuimgd_shard_up{namespace=\"gpuimgd\",shard=\"3\"} 0\n",
        "gpuimgd_shard_results{namespace=\"gpuimgd\",shard=\"2\"} 1\n",
        "gpuimgd_shard_dead_jobs{namespace=\"gpuimgd\",shard=\"0\"} 2\n",
        "gpuimgd_ready{namespace=\"gpuimgd\"} 1\n"};
    redis_integer(w->client, "LPUSH {gpuimgd:2}:results text");
    redis_integer(w->client, "LPUSH {gpuimgd:0}:dead text text");
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        if (!await(20, metrics_have(page, lines[i])))
            fail_msg("/metrics has no line %s", lines[i]);
    redis_integer(w->client, "DEL {gpuimgd:2}:results");
    redis_integer(w->client, "DEL {gpuimgd:0}:dead");
    struct http_reply reply = http_request(page, "GET", "/readyz");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "running; shard 1: "));
    assert_non_null(strstr(reply.body, "; shard 3: "));
    http_free(&reply);
}

/* Shards 0 and 2 are on the world's server, 1 and 3 on another one, which stops and comes back. */
TEST(test_a_server_is_away)
{
    struct redis_server *second = redis_server_start("--appendonly", "yes", NULL);
    redisContext *other = redis_server_connect(second);
    const char *redis = text_of("--redis=%s %s", w->redis->address, second->address);
    const char *page = text_of("unix:%s/http", w->folder);
    struct process *daemon = start_ready(0, "--shards=4", redis, "--inflight=6",
                                         "--lease_s=1", "--renew_s=0.2",
                                         text_of("--metrics_listen=%s", page));
    push_to(w->client, 0, 20, "first");
    push_to(other, 1, 20, "first");
    take_from(w->client, 0, 20, "first");
    take_from(other, 1, 20, "first");
    push_to(other, 1, 400, "away");
    push_to(other, 3, 100, "away");
    assert_true(await(20, redis_integer(other, "LLEN {gpuimgd:1}:results") > 10));
    redis_server_kill9(second);
    redisFree(other);
    assert_true(process_noted(daemon, 0, "shard 1: ", 20)); /* in STATUS= */
    push_to(w->client, 2, 300, "here");
    take_from(w->client, 2, 300, "here");
    /* Longer than a lease: ends that wait for the server are dropped, and their jobs run again. */
    process_sleep(patience(1.5));
    push_to(w->client, 0, 100, "here");
    take_from(w->client, 0, 100, "here");
    check_page(page);
    redis_server_restart(second);
    other = redis_server_connect(second);
    take_from(other, 1, 400, "away");
    take_from(other, 3, 100, "away");
    check_stop(daemon);
    check_shards_clean(w->client);
    check_shards_clean(other);
    redisFree(other);
    redis_server_stop(second);
}

/* A server that hangs counts as away after command_timeout_s. Then its leases take no places. */
TEST(test_a_server_hangs)
{
    struct redis_server *second = redis_server_start(NULL);
    redisContext *other = redis_server_connect(second);
    const char *redis = text_of("--redis=%s %s", w->redis->address, second->address);
    struct process *daemon = start_ready(0, "--shards=2", redis, "--inflight=4",
                                         "--command_timeout_s=0.5", "--connect_timeout_s=0.5");
    push_to(other, 1, 400, "h");
    assert_true(await(20, redis_integer(other, "LLEN {gpuimgd:1}:results") > 10));
    redis_server_freeze(second, true);
    push_to(w->client, 0, 200, "g");
    take_from(w->client, 0, 200, "g");
    redis_server_freeze(second, false);
    take_from(other, 1, 400, "h");
    check_stop(daemon);
    check_shards_clean(w->client);
    check_shards_clean(other);
    redisFree(other);
    redis_server_stop(second);
}

int main(void)
{
    world_options = &(struct world_options){.photo = {"p.jpg", 64, 48}};
    return run_all(.setup = open_world, .teardown = close_world, .each_teardown = empty_world);
}
