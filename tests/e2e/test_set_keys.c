/*
 * test_set_keys.c - jobs with many images whose outputs are Redis keys: each is stored as soon as
 * its image is encoded, before the job ends. The pixels are those of the inputs, inverted here.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define MANY 300
#define PNG(index)                                                                                 \
    (struct picture_png)                                                                           \
    {                                                                                              \
        .width = 9, .height = 7, .colour_type = 2, .seed = 1000 + (unsigned)(index)                \
    }

/* ---- inputs and outputs --------------------------------------------------------------------- */

static void set_inputs(redisContext *client, const char *ns, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct picture_file file = picture_png(&PNG(i));
        freeReplyObject(
            redis_command(client, "SET %s:img:in/%u.png %b", ns, i, file.bytes, file.length));
        picture_free(&file);
    }
}

/* "[{'key':'NS:img:in/0.png'},...]" */
static const char *inputs_text(const char *ns, unsigned count)
{
    char *text = malloc(count * (strlen(ns) + 40) + 3), *at = text;
    *at++ = '[';
    for (unsigned i = 0; i < count; i++)
        at += sprintf(at, "%s{'key':'%s:img:in/%u.png'}", i ? "," : "", ns, i);
    strcpy(at, "]");
    return text_keep(text);
}

static struct raster inverted_png(const struct picture_png *options)
{
    struct raster raster = {.width = options->width, .height = options->height};
    raster.pixels = picture_png_expected(options, &raster.channels);
    for (size_t i = 0; i < (size_t)raster.width * raster.height * raster.channels; i++)
        raster.pixels[i] = (uint8_t)(255 - raster.pixels[i]);
    return raster;
}

static struct raster inverted(unsigned index)
{
    return inverted_png(&PNG(index));
}

static void check_value(redisContext *client, const char *key, unsigned index)
{
    redisReply *value = redis_command(client, "GET %s", key);
    if (value->type != REDIS_REPLY_STRING)
        fail_msg("%s does not exist", key);
    check_pixels(key, raster_decode((uint8_t *)value->str, value->len, RASTER_COLOUR),
                 inverted(index), 0);
    freeReplyObject(value);
}

static void check_values(redisContext *client, const char *ns, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        check_value(client, text_of("%s:img:out/in/%u", ns, i), i);
}

static cJSON *next_result(void)
{
    cJSON *result = world_result(w, 60);
    assert_non_null(result);
    return result;
}

static long long stored(const char *pattern)
{
    return redis_integer(w->client, "EVAL %s 0 %s", "return #redis.call('KEYS', ARGV[1])", pattern);
}

#define OUTPUT "{'key':'gpuimgd:img:out/%p','format':'png'}"

static void push_many(const char *id, unsigned count, const char *output)
{
    world_push(w, "{'id':'%s','inputs':%s,'ops':['invert'],'output':%s}", id,
               inputs_text("gpuimgd", count), output);
}

static void finish(void)
{
    check_stop(&w->daemons[0]);
    check_clean(w);
}

/* ---- keys to keys --------------------------------------------------------------------------- */

TEST(test_many_keys_to_keys)
{
    set_inputs(w->client, "gpuimgd", MANY);
    start_ready(0);
    world_push(
        w,
        "{'inputs':%s,'outputs':["
        "{'output':{'key':'gpuimgd:img:out/%%p','format':'png','ttl_s':1000},'ops':['invert']},"
        "{'output':{'key':'gpuimgd:img:%%n.gray','format':'png'},'ops':['grayscale']},"
        "{'output':'files/%%p.png','ops':['invert']},"
        "{'output':{'path':'all.tar','format':'png'},'ops':['invert']}]}",
        inputs_text("gpuimgd", MANY));
    cJSON *result = next_result();
    check_has(result, "{'status':'done','images.count':300,'images.done':300,'images.failed':0,"
                      "'images.errors':null,'outputs.0.key':'gpuimgd:img:out/%%p',"
                      "'outputs.0.images':300,'outputs.1.images':300,'outputs.2.images':300,"
                      "'outputs.3.images':300}");
    long long bytes = 0;
    check_values(w->client, "gpuimgd", MANY);
    assert_int_equal(ctl_run(w, "tar -C %s -xf %s/all.tar", w->out, w->out).status, 0);
    for (unsigned i = 0; i < MANY; i++) {
        bytes += redis_integer(w->client, "STRLEN gpuimgd:img:out/in/%u", i);
        assert_in_range(redis_integer(w->client, "TTL gpuimgd:img:out/in/%u", i), 900, 1000);
        assert_int_equal(redis_integer(w->client, "TTL gpuimgd:img:%06u.gray", i), -1);
        check_output(w, text_of("files/in/%u.png", i), inverted(i), 0);
        check_output(w, text_of("in/%u.png", i), inverted(i), 0);
    }
    assert_true(json_number(result, "outputs.0.bytes") == (double)bytes);
    assert_true(json_number(result, "outputs.3.bytes") > (double)bytes);
    cJSON_Delete(result);
    finish();
}

/* An image whose key is denied fails, and the others go on. */
TEST(test_denied_keys)
{
    set_inputs(w->client, "gpuimgd", 100);
    freeReplyObject(redis_command(
        w->client, "ACL SETUSER worker on >secret ~gpuimgd:[^i]* ~gpuimgd:inst ~gpuimgd:img:in/* "
                   "~gpuimgd:img:*[02468] +@read +@write +@scripting +@connection +@blocking +info "
                   "+time"));
    const char *password = text_of("%s/password", w->folder);
    assert_true(text_file_write(password, "secret", 6));
    start_ready(0, "--redis_username=worker", text_of("--redis_password_file=%s", password));
    push_many("skip", 100, OUTPUT);
    cJSON *result = next_result();
    check_has(result, "{'status':'done','images.done':50,'images.failed':50,"
                      "'outputs.0.images':50}");
    for (int i = 0; i < 50; i++) {
        int image = (int)json_number(result, text_of("images.errors.%d.image", i));
        assert_int_equal(image % 2, 1);
        assert_string_equal(json_text(result, text_of("images.errors.%d.error.code", i)),
                            "path_refused");
        assert_non_null(strstr(json_text(result, text_of("images.errors.%d.error.message", i)),
                               text_of("the key \"gpuimgd:img:out/in/%d\" (", image)));
    }
    cJSON_Delete(result);
    assert_int_equal(stored("gpuimgd:img:out/*"), 50);
    for (unsigned i = 0; i < 100; i += 2)
        check_value(w->client, text_of("gpuimgd:img:out/in/%u", i), i);
    world_push(w, "{'inputs':%s,'output':%s,'on_error':'fail'}", inputs_text("gpuimgd", 10),
               OUTPUT);
    check_failed(next_result(), "path_refused", "gpuimgd:img:out/in/", NULL);
    check_stop(&w->daemons[0]);
}

/* ---- outages -------------------------------------------------------------------------------- */

/* Waits until some outputs are stored. */
static void wait_for_some(void)
{
    assert_true(await(30, stored("gpuimgd:img:out/*") > 10));
}

/* One slow worker, so that an event comes amid the job. */
static void start_slowly(size_t index)
{
    start_ready(index, "--workers=1", "--inflight=4");
}

#define SLOW                                                                                       \
    (struct picture_png)                                                                           \
    {                                                                                              \
        .width = 400, .height = 300, .colour_type = 2, .seed = 7                                   \
    }

static void set_slow_inputs(unsigned count)
{
    struct picture_file file = picture_png(&SLOW);
    for (unsigned i = 0; i < count; i++)
        freeReplyObject(
            redis_command(w->client, "SET gpuimgd:img:in/%u.png %b", i, file.bytes, file.length));
    picture_free(&file);
}

/* All outputs are there, and whole. */
static void check_slow_outputs(unsigned count)
{
    struct raster expected = inverted_png(&SLOW);
    redisReply *first = redis_command(w->client, "GET gpuimgd:img:out/in/0");
    assert_int_equal(first->type, REDIS_REPLY_STRING);
    check_pixels("0", raster_decode((uint8_t *)first->str, first->len, RASTER_COLOUR), expected, 0);
    for (unsigned i = 1; i < count; i++) {
        redisReply *value = redis_command(w->client, "GET gpuimgd:img:out/in/%u", i);
        assert_int_equal(value->len, first->len);
        assert_memory_equal(value->str, first->str, first->len);
        freeReplyObject(value);
    }
    freeReplyObject(first);
}

TEST(test_redis_restarts)
{
    set_slow_inputs(MANY);
    start_slowly(0);
    push_many("a", MANY, OUTPUT);
    for (int i = 0; i < 2; i++) {
        long long before = stored("gpuimgd:img:out/*");
        assert_true(await(30, stored("gpuimgd:img:out/*") > before + 10));
        redis_server_restart(w->redis);
        world_reconnect(w);
    }
    cJSON *result = next_result();
    check_has(result, "{'status':'done','attempt':1,'images.done':300,'images.failed':0}");
    cJSON_Delete(result);
    check_slow_outputs(MANY);
    finish();
}

TEST(test_the_daemon_is_killed)
{
    set_slow_inputs(100);
    start_slowly(0);
    push_many("a", 100, OUTPUT);
    wait_for_some();
    process_kill9(&w->daemons[0]);
    assert_true(stored("gpuimgd:img:out/*") < 100);
    start_ready(1);
    cJSON *result = next_result();
    check_has(result, "{'status':'done','attempt':2,'images.done':100,'images.failed':0}");
    cJSON_Delete(result);
    check_slow_outputs(100);
    check_stop(&w->daemons[1]);
    check_clean(w);
}

/* After a cancel or the loss of the lease, nothing more is stored, except what was on its way. */
static void check_stopped(void)
{
    process_sleep(patience(0.2));
    long long before = stored("gpuimgd:img:out/*");
    assert_in_range(before, 1, MANY - 1);
    process_sleep(patience(0.3));
    assert_int_equal(stored("gpuimgd:img:out/*"), before);
}

TEST(test_a_cancelled_job_stores_nothing_more)
{
    set_slow_inputs(MANY);
    start_slowly(0);
    push_many("a", MANY, OUTPUT);
    wait_for_some();
    ctl_expect(w, 0, "ctl cancel $at a", "a", NULL);
    cJSON *result = next_result();
    check_has(result, "{'status':'cancelled','error.code':'cancelled'}");
    cJSON_Delete(result);
    check_stopped();
    finish();
}

TEST(test_a_lost_job_stores_nothing_more)
{
    set_slow_inputs(MANY);
    start_slowly(0);
    push_many("a", MANY, OUTPUT);
    wait_for_some();
    long long number = atoll(redis_text(w->client, "GET gpuimgd:seq"));
    freeReplyObject(redis_command(w->client, "HSET gpuimgd:job:%lld token other:1", number));
    assert_true(process_logged(&w->daemons[0], 0, "the lease expired", 20));
    check_stopped();
    redis_integer(w->client, "DEL gpuimgd:job:%lld gpuimgd:lease", number);
    assert_true(await(20, (process_signal(&w->daemons[0], SIGUSR1),
                           process_logged(&w->daemons[0], 0, " inflight=0 ", 0.1))));
    check_stop(&w->daemons[0]);
}

/* ---- memory --------------------------------------------------------------------------------- */

static long resident_kib(const struct process *daemon)
{
    char *text = text_file_read(text_of("/proc/%d/status", (int)daemon->pid));
    const char *at = text ? strstr(text, "VmRSS:") : NULL;
    long kib = at ? atol(at + 6) : -1;
    free(text);
    return kib;
}

/* While Redis takes no value, the outputs that wait stay within host_bytes, and the clock of
 * timeout_s stands. */
TEST(test_memory_while_redis_is_full)
{
    enum { COUNT = 60, SIDE = 1000 }; /* 180 MB of outputs */
    struct picture_file file = make_png(.width = SIDE, .height = SIDE, .colour_type = 2, .seed = 5);
    for (unsigned i = 0; i < COUNT; i++)
        world_put(w, text_of("in/%u.png", i), file.bytes, file.length);
    picture_free(&file);
    struct process *daemon = start_ready(0, "--host_bytes=48M", "--pinned_bytes=32M",
                                         "--input_bytes_max=8M", "--workers=2");
    long before = resident_kib(daemon), most = 0;
    world_push(w, "{'inputs':{'folder':'in'},'ops':['invert'],'timeout_s':%g,"
                  "'output':{'key':'gpuimgd:img:out/%%p','format':'raw'}}",
               patience(1));
    assert_true(await(20, stored("gpuimgd:img:out/*") > 0));
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 1"));
    assert_true(process_logged(daemon, 0, "Redis refuses SET of the key", 20));
    for (int i = 0; i < 15; i++) {
        process_sleep(patience(0.1));
        long now = resident_kib(daemon);
        most = now > most ? now : most;
    }
    long long some = stored("gpuimgd:img:out/*");
    assert_in_range(some, 1, COUNT - 10);
    assert_true(before > 0 && most < before + (48 + 32 + 36) * 1024);
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 0"));
    cJSON *result = next_result();
    check_has(result, "{'status':'done','images.done':60,'outputs.0.bytes':%d}",
              COUNT * SIDE * SIDE * 3);
    cJSON_Delete(result);
    assert_true(process_logged(daemon, 0, "Redis accepts SET again", 10));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(redis_integer(w->client, "STRLEN gpuimgd:img:out/in/%u", i),
                         SIDE * SIDE * 3);
    finish();
}

/* ---- other servers -------------------------------------------------------------------------- */

/* The keys of a job are on the server of its shard. */
TEST(test_shards)
{
    start_ready(0, "--shards=3");
    for (unsigned shard = 0; shard < 3; shard++) {
        const char *ns = text_of("{gpuimgd:%u}", shard);
        set_inputs(w->client, ns, 40);
        char *job = NULL;
        assert_true(asprintf(&job,
                             "{'inputs':%s,'ops':['invert'],'output':"
                             "{'key':'%s:img:out/%%p','format':'png'}}",
                             inputs_text(ns, 40), ns) > 0);
        for (char *at = job; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        redis_integer(w->client, "LPUSH %s:jobs %s", ns, job);
        free(job);
    }
    for (unsigned shard = 0; shard < 3; shard++) {
        const char *ns = text_of("{gpuimgd:%u}", shard);
        cJSON *result = world_result_from(w, text_of("%s:results", ns), 20);
        check_has(result, "{'status':'done','images.done':40}");
        cJSON_Delete(result);
        check_values(w->client, ns, 40);
    }
    check_stop(&w->daemons[0]);
}

static const struct world_options cluster = {.servers = WORLD_CLUSTER};

/* The slot moves amid the job: what is not stored yet goes to the new node. */
TEST(test_a_slot_moves, IN_WORLD(&cluster))
{
    enum { COUNT = 150 };
    const char *ns = "{gpuimgd}";
    size_t from = fleet.owner, to = (from + 1) % 3;
    struct picture_file file = picture_png(&SLOW);
    for (unsigned i = 0; i < COUNT; i++)
        freeReplyObject(
            fleet_command(&fleet, "SET %s:img:in/%u.png %b", ns, i, file.bytes, file.length));
    picture_free(&file);
    start_ready(0, text_of("--redis=%s", fleet.address), "--namespace={gpuimgd}", "--workers=1",
                "--inflight=4");
    char *job = NULL;
    assert_true(asprintf(&job,
                         "{'inputs':%s,'ops':['invert'],'output':"
                         "{'key':'%s:img:out/%%p','format':'png'}}",
                         inputs_text(ns, COUNT), ns) > 0);
    for (char *at = job; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    fleet_integer(&fleet, "LPUSH %s:jobs %s", ns, job);
    free(job);
    assert_true(await(30, fleet_integer(&fleet, "EXISTS %s:img:out/in/10", ns)));
    assert_false(fleet_integer(&fleet, "EXISTS %s:img:out/in/%u", ns, COUNT - 1));
    fleet_slot_begin(&fleet, to);
    while (fleet_slot_move(&fleet, from, to, 50) > 0) {
    }
    fleet_slot_end(&fleet, to);
    assert_true(await(60, fleet_integer(&fleet, "LLEN %s:results", ns) == 1));
    assert_int_equal(fleet.owner, to);
    redisReply *reply = fleet_command(&fleet, "LPOP %s:results", ns);
    cJSON *result = cJSON_Parse(reply->str);
    check_has(result, "{'status':'done','images.done':150,'attempt':1}");
    cJSON_Delete(result);
    freeReplyObject(reply);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(fleet_integer(&fleet, "EXISTS %s:img:out/in/%u", ns, i), 1);
    check_stop(&w->daemons[0]);
}

TEST_MAIN(.each_setup = open_world, .each_teardown = close_world)
