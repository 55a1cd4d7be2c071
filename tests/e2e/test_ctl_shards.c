/*
 * test_ctl_shards.c - gpuimgctl with several shards: four on one Redis, and two on two servers.
 *
 * The shards of ids are those of zlib's crc32. With four: cat 0, dog 1, fox 2; with two: cat 0,
 * dog 1.
 */
#include <unistd.h>

#include "conf/clock.h"
#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/text_file.h"

#define SHARDS 4
#define SHARD  "{%s:%d}"

static void put_files(void)
{
    ctl_put_files();
    put_small_png("fox.png", 4);
}

/* Deletes everything in all shards, and starts no daemon. */
static int empty_shards(void **state)
{
    freeReplyObject(redis_command(w->client, "FLUSHALL"));
    return empty_world(state);
}

static long long length_of(int shard, const char *key)
{
    return redis_integer(w->client, "LLEN " SHARD ":%s", w->ns, shard, key);
}

#define FOUR "$at --shards=4 "

/* ---- sending ------------------------------------------------------------------------------- */

TEST(test_an_id_has_a_shard)
{
    ctl_expect(w, 0, "for id in cat dog fox; do ctl submit " FOUR "one.png -o x/%i.png --id $id; "
                     "done", "1 sent", NULL);
    for (int i = 0; i < SHARDS; i++)
        assert_int_equal(length_of(i, "jobs"), i < 3);
    ctl_expect(w, 0, "ctl submit " FOUR "one.png -o x/%i.png --id cat --shard 3 -p 9", NULL);
    assert_int_equal(length_of(3, "jobs:9"), 1);
    cJSON *lines = ctl_json(w, 0, "ctl submit " FOUR "one.png -o y.png --id dog --json");
    check_has(lines, "{'0.id':'dog','0.shard':1}");
    ctl_expect(w, 64, "ctl submit " FOUR "one.png -o x.png --shard 4",
               "--shard is \"4\"; it must be a number from 0 to 3", NULL);
    ctl_expect(w, 64, "ctl submit $at one.png -o x.png --shard 1", "from 0 to 0", NULL);
}

/* With --wait the jobs have no ids. */
TEST(test_jobs_without_ids_go_to_all_shards)
{
    put_small_pngs("many", 40);
    ctl_expect(w, 75, "ctl submit " FOUR "-r in/many -o x --wait --timeout 0.2",
               "0 of 40 jobs have ended", "and its like in the other shards", NULL);
    for (int i = 0; i < SHARDS; i++)
        assert_int_equal(length_of(i, "jobs"), 10);
    char *job = redis_string(w->client, "LINDEX " SHARD ":jobs 0", w->ns, 2);
    if (!strstr(job, text_of("\"reply_to\":\"{%s:2}:reply:", w->ns)))
        fail_msg("no reply list of shard 2: %s", job);
    free(job);
}

TEST(test_results_of_all_shards)
{
    put_small_pngs("many", 40);
    struct process *daemon = start_ready(0, "--shards=4");
    ctl_expect(w, 0, "ctl submit " FOUR "-r in/many -o x --ops invert --wait", "40 done in ", NULL);
    ctl_expect(w, 0, "ctl submit " FOUR "--keys -r in/many -o got --ops invert --id k%i",
               "40 done in ", NULL);
    struct raster got = raster_load(text_of("%s/got/39.png", w->folder), RASTER_COLOUR);
    assert_int_equal(got.width, 8);
    raster_clear(&got);
    redisReply *left = redis_command(w->client, "KEYS *:img:*");
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
    ctl_expect(w, 0, "ctl submit " FOUR "one.png -o dog.png --id dog && "
                     "ctl result " FOUR "dog k7 k8 k9 --wait", "done   dog -> dog.png",
               "done   k9", NULL);
    assert_int_equal(redis_integer(w->client, "EXISTS " SHARD ":result:dog", w->ns, 1), 1);
    ctl_expect(w, 1, "ctl result " FOUR "dog --shard 0", "no result of dog", NULL);
    ctl_expect(w, 0, "ctl submit " FOUR "one.png -o later.png --id fox --set not_before='\"+60\"' "
                     "&& ctl cancel " FOUR "fox", "fox: all waiting and running jobs", NULL);
    ctl_expect(w, 1, "ctl result " FOUR "fox --wait", "cancelled", NULL);
    ctl_expect(w, 0, "cp in/one.png logo.png; ctl submit " FOUR "-k -r in/many -o lay "
                     "--ops composite:input=logo.png", "40 done in ", NULL);
    left = redis_command(w->client, "KEYS *:img:*");
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
    ctl_expect(w, 0, "ctl drain " FOUR, "drained: no job runs", NULL);
    ctl_expect(w, 0, "ctl resume " FOUR, "daemons fetch jobs again", NULL);
    check_stop(daemon);
}

/* ---- operating ----------------------------------------------------------------------------- */

TEST(test_status_of_all_shards)
{
    ctl_expect(w, 0, "for id in cat dog fox; do ctl submit " FOUR "one.png -o x/%i.png --id $id; "
                     "done", NULL);
    redis_integer(w->client, "LPUSH " SHARD ":dead {} {}", w->ns, 3);
    for (int i = 0; i < 2; i++) { /* a daemon with a job in two shards */
        redis_integer(w->client, "ZADD " SHARD ":inst 99999999999999 far:boot:ns:12:34", w->ns, i);
        redis_integer(w->client, "HSET " SHARD ":job:7 owner far:boot:ns:12:34 attempt 1", w->ns,
                      i);
        redis_integer(w->client, "ZADD " SHARD ":lease 99999999999999 7", w->ns, i);
    }
    ctl_expect(w, 0, "ctl pause " FOUR "--shard 2", "paused until", "; 0 still run", NULL);
    ctl_expect(w, 0, "ctl status " FOUR, ", 4 shards\n",
               "paused     daemons fetch no jobs from 1 of 4 shards until", "waiting    3, the",
               "running    2\n", "dead       2 (", "      0         1         1         0 ",
               "  paused\n", "  far:12                          2\n", NULL);
    ctl_expect(w, 0, "ctl status " FOUR "--shard 3", "waiting    0\n", "dead       2 (", NULL);
    ctl_expect(w, 0, "ctl top " FOUR "-n 1", "shards  0: 1 + 1   1: 1 + 1   2: 1 + 0 PAUSED   "
               "3: 0 + 0\n", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl status " FOUR "--json");
    check_has(lines, "{'0.waiting':3,'0.leased':2,'0.dead':2,'0.paused':true,"
                     "'0.daemons.0.leases':2,'0.shards.0.shard':0,'0.shards.0.waiting':1,"
                     "'0.shards.2.paused':true,'0.shards.3.dead':2,'0.shards.3.paused':false}");
    assert_int_equal(cJSON_GetArraySize(json_at(lines, "0.daemons")), 1);
    assert_int_equal(cJSON_GetArraySize(json_at(lines, "0.shards")), SHARDS);
    assert_string_equal(json_text(lines, "0.shards.1.namespace"), text_of("{%s:1}", w->ns));
    const char *page = text_keep(text_file_read("conf/man/gpuimgctl.1"));
    const cJSON *member;
    cJSON_ArrayForEach(member, json_at(lines, "0.shards.0"))
        if (!strstr(page, member->string))
            fail_msg("gpuimgctl(1) lacks %s", member->string);
    lines = ctl_json(w, 0, "ctl resume " FOUR "--json");
    check_has(lines, "{'0.paused':false,'0.running':2,'0.shards.1.running':1}");
    assert_int_equal(redis_integer(w->client, "EXISTS " SHARD ":paused", w->ns, 2), 0);
    ctl_expect(w, 75, "ctl drain " FOUR "--timeout 0.1", "2 jobs still run", NULL);
    for (int i = 0; i < SHARDS; i++)
        assert_int_equal(redis_integer(w->client, "EXISTS " SHARD ":paused", w->ns, i), 1);
}

TEST(test_dead_jobs_of_all_shards)
{
    for (int i = 0; i < SHARDS; i++)
        for (int n = 0; n < 2; n++)
            redis_integer(w->client, "LPUSH " SHARD ":dead %s", w->ns, i,
                          text_of("{\"input\":\"%d-%d.png\",\"id\":\"id-%d-%d\"}", i, n, i, n));
    ctl_expect(w, 0, "ctl dead " FOUR, " #0:1  id-0-1 ", " #3:2  id-3-0 ", NULL);
    ctl_expect(w, 0, "ctl dead " FOUR "-n 1", " #3:1  id-3-1 ", "and 4 more", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl dead " FOUR "--json");
    assert_int_equal(cJSON_GetArraySize(lines), 2 * SHARDS);
    check_has(lines, "{'0.shard':0,'0.number':1,'7.shard':3,'7.number':2}");
    ctl_expect(w, 0, "ctl dead show " FOUR "'#2:1' id-1-0", "#2:1 id-2-1\n", "#1:2 id-1-0\n",
               NULL);
    ctl_expect(w, 64, "ctl dead show " FOUR "'#1'", "write '#SHARD:1', or add --shard", NULL);
    ctl_expect(w, 64, "ctl dead show " FOUR "'#4:1'", "the shards are 0 to 3", NULL);
    ctl_expect(w, 1, "ctl dead show " FOUR "'#3:3'", "no dead job has the number #3:3", NULL);
    ctl_expect(w, 64, "ctl dead show " FOUR "--shard 0 '#2:1'",
               "#2:1 is in shard 2, but --shard is 0", NULL);
    ctl_expect(w, 0, "ctl dead retry " FOUR "--shard 1 '#1'", "retried #1:1 id-1-1", NULL);
    ctl_expect(w, 0, "ctl dead drop " FOUR "id-3-0 '#3:1'", "dropped #3:2 id-3-0",
               "2 dead jobs dropped", NULL);
    assert_int_equal(length_of(1, "jobs"), 1);
    ctl_expect(w, 0, "ctl dead retry " FOUR "--all --shard 1", "1 dead job retried", NULL);
    ctl_expect(w, 0, "ctl dead retry " FOUR "--all", "4 dead jobs retried", NULL);
    for (int i = 0; i < SHARDS; i++)
        assert_int_equal(length_of(i, "jobs"), i < 3 ? 2 : 0);
    ctl_expect(w, 0, "ctl dead " FOUR, "there are no dead jobs\n", NULL);
}

/* The keys of a job begin with the namespace of its shard: that of its id, or any one. */
TEST(test_explain_with_shards)
{
#define JOB(id) text_of("echo '{\"input\":\"one.png\"," id "\"output\":{\"key\":\"{%s:2}:img:x\"," \
                        "\"format\":\"png\"}}' | ctl explain " FOUR "-", w->ns)
    ctl_expect(w, 0, JOB(""), ":2}:img:x: png, 8 x 8", NULL);
    ctl_expect(w, 0, JOB("\"id\":\"fox\","), ":2}:img:x: png, 8 x 8", NULL);
    ctl_expect(w, 1, JOB("\"id\":\"dog\","), "path_refused", ":1}:img:", NULL);
    ctl_expect(w, 1, text_of("%s --namespace=other", JOB("")), "path_refused", "{other:", NULL);
#undef JOB
}

/* ---- a shard that is away ------------------------------------------------------------------ */

/* Shard 1 of 2 is on a second server. */
#define TWO "$two --shards=2 "
static const char *two(const struct redis_server *second, const char *line)
{
    return text_of("two=\"$(echo \"$at\" | sed 's,--redis=[^ ]*,,')\"; ctl() { \"$GPUIMGCTL\" "
                   "\"$@\" --redis='%s %s'; }; %s", w->redis->tcp, second->tcp, line);
}

TEST(test_a_shard_is_away)
{
    struct redis_server *second = redis_server_start("--appendonly", "yes", NULL);
    redisContext *client = redis_server_connect(second);
    ctl_expect(w, 0, two(second, "ctl submit " TWO "one.png -o x.png --id dog"), "1 sent", NULL);
    assert_int_equal(redis_integer(client, "LLEN {%s:1}:jobs", w->ns), 1);
    redisFree(client);
    redis_server_kill9(second);
    ctl_expect(w, 69, two(second, "ctl status " TWO), "shard 1 is away: cannot reach Redis at ",
               "waiting    0\n", "      1  away: cannot reach Redis at ", NULL);
    cJSON *lines = ctl_json(w, 69, two(second, "ctl status " TWO "--json"));
    check_has(lines, "{'0.waiting':0,'0.shards.0.waiting':0,'0.shards.1.shard':1}");
    assert_non_null(strstr(json_text(lines, "0.shards.1.away"), "cannot reach Redis"));
    ctl_expect(w, 69, two(second, "ctl top " TWO "-n 1"), "shards  0: 0 + 0   1: AWAY\n", NULL);
    lines = ctl_json(w, 69, two(second, "ctl pause " TWO "--json"));
    check_has(lines, "{'0.paused':true,'0.shards.0.paused':true,'0.shards.1.shard':1}");
    assert_true(*json_text(lines, "0.shards.1.away"));
    ctl_expect(w, 69, two(second, "ctl drain " TWO), "no job of the shards that answer runs", NULL);
    ctl_expect(w, 69, two(second, "ctl resume " TWO), "daemons fetch jobs again", NULL);
    ctl_expect(w, 69, two(second, "ctl dead " TWO), "no dead jobs in the shards that answer", NULL);
    ctl_expect(w, 69, two(second, "ctl dead show " TWO "'#1:1'"),
               "job #1:1 not found: its shard, 1, is away", NULL);
    ctl_expect(w, 69, two(second, "ctl dead show order-7 " TWO),
               "no dead job has the id order-7 in the shards that answer", NULL);
    ctl_expect(w, 0, two(second, "ctl status " TWO "--shard 0"), "waiting    0\n", NULL);
    ctl_expect(w, 69, two(second, "ctl cancel " TWO "cat dog"), "cat: no job", "dog: not cancelled",
               NULL);
    ctl_expect(w, 69, two(second, "ctl result " TWO "cat dog"), "no result of cat: the job",
               "no result of dog: its shard, 1, is away", NULL);
    /* Only the job of the shard that is away is not sent. */
    ctl_expect(w, 69, two(second, "ctl submit " TWO "in/one.png in/cat.jpg -o x/ --id %n"),
               "in/one.png: not sent: its shard, 1, is away", "1 sent, 1 not sent", NULL);
    assert_int_equal(length_of(0, "jobs"), 2); /* with the fence of the cancel */
    /* Ids that submit makes avoid it, and so do jobs without ids. */
    put_small_pngs("many", 40);
    ctl_expect(w, 0, two(second, "ctl submit " TWO "-r in/many -o x"), "40 sent", NULL);
    ctl_expect(w, 75, two(second, "ctl submit " TWO "-r in/many -o x -w --timeout 0.2"),
               "0 of 40 jobs have ended", NULL);
    assert_int_equal(length_of(0, "jobs"), 82);
    redis_server_restart(second);
    ctl_expect(w, 0, two(second, "ctl cancel " TWO "dog"), "dog: all waiting", NULL);
    redis_server_kill9(second);
    redis_server_kill9(w->redis);
    ctl_expect(w, 69, two(second, "ctl status " TWO), "shard 0 is away", "shard 1 is away", NULL);
    redis_server_restart(w->redis);
    world_reconnect(w);
    redis_server_stop(second);
}

/* Without --wait, the jobs of a shard that goes away are not sent, the others are. */
TEST(test_a_shard_goes_away_between_names)
{
    struct redis_server *second = redis_server_start(NULL, NULL);
    struct process submit = ctl_begin(
        w, two(second, "(echo in/cat.jpg; until [ -e killed ]; do sleep 0.1; done; sleep 0.5; "
                       "echo in/one.png; sleep 0.3; echo in/fox.png) | "
                       "ctl submit " TWO "- -o x/ --id %n"));
    assert_true(world_until(w, patience(20), 1, "LLEN {%s:0}:jobs", w->ns));
    redis_server_kill9(second);
    assert_true(text_file_write(text_of("%s/killed", w->folder), "", 0));
    struct ctl_run run = ctl_end(&submit);
    if (run.status != 69 || !strstr(run.err, "shard") || !strstr(run.err, "2 sent, 1 not sent"))
        fail_msg("exit status %d\n%s%s", run.status, run.out, run.err);
    assert_int_equal(length_of(0, "jobs"), 2);
    redis_server_stop(second);
}

/* A submit that waits goes on with the other shards, and with this one when it is back. */
TEST(test_a_shard_goes_away_during_a_submit)
{
    struct redis_server *second = redis_server_start("--appendonly", "yes", NULL);
    struct process submit =
        ctl_begin(w, two(second, "ctl submit " TWO "in/one.png in/cat.jpg -o x/ --id %n -w"));
    redisContext *client = redis_server_connect(second);
    assert_true(world_until(w, patience(20), 1, "LLEN {%s:0}:jobs", w->ns));
    double until_s = clock_now_s() + patience(20);
    while (redis_integer(client, "LLEN {%s:1}:jobs", w->ns) == 0 && clock_now_s() < until_s)
        usleep(10000);
    redisFree(client);
    redis_server_kill9(second);
    const char *servers = text_of("--redis=%s %s", w->redis->tcp, second->tcp);
    struct process *daemon = start_ready(0, "--shards=2", servers);
    assert_true(world_until(w, patience(20), 0, "LLEN {%s:0}:jobs", w->ns));
    redis_server_restart(second);
    struct ctl_run run = ctl_end(&submit);
    if (run.status != 0 || !strstr(run.out, "2 done in ") ||
        !strstr(run.err, "shard 1 is away: cannot reach Redis at "))
        fail_msg("exit status %d\n%s%s", run.status, run.out, run.err);
    check_stop(daemon);
    redis_server_stop(second);
}

int main(void)
{
    world_options = &(struct world_options){.fill = put_files};
    return run_all(.setup = open_world, .teardown = close_world, .each_setup = empty_shards);
}
