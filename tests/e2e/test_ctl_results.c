/*
 * test_ctl_results.c - gpuimgctl results: shows results, and takes them as a consumer of the stream
 * or the list. tests/scripts/test_clients.sh kills such consumers while jobs run.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/text_file.h"

#define STREAM "--from=stream"

/* A script without blanks: how many results the first group has read. */
#define ENTRIES_READ "return((redis.call('XINFO','GROUPS',KEYS[1])[1]or{})[10]or(0))"

/* Results with the numbers from `first` to `last`, as a daemon posts them. */
static void post_in(const char *ns, bool stream, int first, int last)
{
    for (int i = first; i <= last; i++) {
        char text[80];
        snprintf(text, sizeof text, "{\"job\":%d,\"id\":\"r%d\",\"status\":\"done\"}", i, i);
        if (stream)
            freeReplyObject(redis_command(w->client, "XADD %s:results:stream * job %d result %s",
                                          ns, i, text));
        else
            redis_integer(w->client, "LPUSH %s:results %s", ns, text);
    }
}

static void post(bool stream, int first, int last)
{
    post_in(w->ns, stream, first, last);
}

/* Runs the command, whose lines must be the results from `first` to `last` in this order. */
static void expect_results(const char *line, int first, int last)
{
    cJSON *lines = ctl_json(w, 0, line);
    assert_int_equal(cJSON_GetArraySize(lines), last - first + 1);
    for (int i = first; i <= last; i++)
        assert_int_equal(json_number(cJSON_GetArrayItem(lines, i - first), "job"), i);
}

TEST(test_showing_leaves_them_there)
{
    for (int stream = 0; stream < 2; stream++) {
        const char *from = stream ? STREAM : "";
        post(stream, 1, 150);
        expect_results(text_of("ctl results $at --json %s", from), 1, 150);
        expect_results(text_of("ctl results $at --json %s -n 70", from), 1, 70);
        ctl_expect(w, 0, text_of("ctl results $at %s -n 1", from), "done   r1", NULL);
    }
    assert_int_equal(redis_integer(w->client, "LLEN %s:results", w->ns), 150);
    assert_int_equal(redis_integer(w->client, "XLEN %s:results:stream", w->ns), 150);
}

TEST(test_following_a_list)
{
    post(false, 1, 150);
    /* A process of this name took the first two and died. */
    for (int i = 0; i < 2; i++)
        freeReplyObject(redis_command(w->client, "LMOVE %s:results %s:results:taken:c RIGHT LEFT",
                                      w->ns, w->ns));
    expect_results("ctl results $at --json -f --consumer=c -n 100", 1, 100);
    expect_results("ctl results $at --json -f --consumer=other -n 50", 101, 150);
    assert_int_equal(redis_integer(w->client, "EXISTS %s:results %s:results:taken:c "
                                   "%s:results:taken:other", w->ns, w->ns, w->ns), 0);
}

/* Each group gets all results. Its consumers share them. */
TEST(test_following_a_stream)
{
    post(true, 1, 150);
    expect_results("ctl results $at --json -f " STREAM " -g a -n 100 --consumer=c", 1, 100);
    expect_results("ctl results $at --json -f " STREAM " -g a -n 50 --consumer=d", 101, 150);
    expect_results("ctl results $at --json -f --results=stream -g b -n 150", 1, 150);
    const char *line = "ctl results $at --json -f " STREAM " -g c --new -n 1";
    struct process process = ctl_begin(w, line);
    assert_true(world_until(w, patience(20), 3, "EVAL %s 1 %s:results:stream",
                            "return(#redis.call('XINFO','GROUPS',KEYS[1]))", w->ns));
    post(true, 151, 151);
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "\"job\":151"));
    assert_null(strstr(run.out, "\"job\":150"));
}

/* A consumer that died had read results 1 and 2, and never acknowledged them. */
TEST(test_results_of_a_dead_consumer)
{
    post(true, 1, 3);
    freeReplyObject(redis_command(w->client, "XGROUP CREATE %s:results:stream g 0", w->ns));
    freeReplyObject(redis_command(w->client, "XREADGROUP GROUP g dead COUNT 2 STREAMS "
                                  "%s:results:stream >", w->ns));
    expect_results("ctl results $at --json -f " STREAM " -g g --consumer=live -n 1", 3, 3);
    post(true, 4, 4);
    freeReplyObject(redis_command(w->client, "XREADGROUP GROUP g live COUNT 1 STREAMS "
                                  "%s:results:stream >", w->ns));
    /* Its own come at once; those of the other one after --idle. */
    expect_results("ctl results $at --json -f " STREAM " -g g --consumer=live -n 1", 4, 4);
    expect_results("ctl results $at --json -f " STREAM " -g g --consumer=live -n 2 --idle=0.1", 1,
                   2);
}

/* A trimmed entry is still pending; it must not come back forever. */
TEST(test_trimmed_results)
{
    post(true, 1, 3);
    freeReplyObject(redis_command(w->client, "XGROUP CREATE %s:results:stream g 0", w->ns));
    freeReplyObject(redis_command(w->client, "XREADGROUP GROUP g c COUNT 2 STREAMS "
                                  "%s:results:stream >", w->ns));
    redis_integer(w->client, "XTRIM %s:results:stream MAXLEN 2", w->ns);
    struct ctl_run run = ctl_run(w, "ctl results $at --json -f %s -g g --consumer=c -n 2", STREAM);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "\"job\":2"));
    assert_non_null(strstr(run.out, "\"job\":3"));
    assert_non_null(strstr(run.err, "1 results were trimmed"));
}

/* The output ends while results come: those that were not written stay. */
TEST(test_closed_output_loses_nothing)
{
    post(true, 1, 3);
    ctl_expect(w, 70, "ctl results $at -f " STREAM " >/dev/full", "cannot write", NULL);
    expect_results("ctl results $at --json -f " STREAM " -n 3", 1, 3);
}

/* Redis restarts, and the stream is deleted with its groups, while a consumer waits. */
TEST(test_redis_restarts)
{
    struct process process =
        ctl_begin(w, "ctl results $at --json -f " STREAM " -g g --new -n 4 --consumer=c");
    assert_true(world_until(w, patience(20), 1, "EXISTS %s:results:stream", w->ns));
    post(true, 1, 1);
    redis_server_restart(w->redis);
    world_reconnect(w);
    post(true, 2, 2);
    assert_true(world_until(w, patience(20), 2, "EVAL %s 1 %s:results:stream",
                            ENTRIES_READ, w->ns));
    redis_integer(w->client, "DEL %s:results:stream", w->ns);
    post(true, 3, 4);
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 0);
    for (int i = 1; i <= 4; i++)
        assert_non_null(strstr(run.out, text_of("\"job\":%d,", i)));
}

/* ---- shards -------------------------------------------------------------------------------- */

#define TWO "$at --shards=2 --json "

/* 100 results in each of two shards; the numbers of jobs are the same. */
static void post_to_shards(bool stream)
{
    for (int i = 0; i < 2; i++)
        post_in(text_of("{%s:%d}", w->ns, i), stream, 1, 100);
}

TEST(test_results_of_shards)
{
    for (int stream = 0; stream < 2; stream++) {
        const char *from = stream ? STREAM : "";
        post_to_shards(stream);
        cJSON *lines = ctl_json(w, 0, text_of("ctl results " TWO "%s", from));
        assert_int_equal(cJSON_GetArraySize(lines), 200);
        lines = ctl_json(w, 0, text_of("ctl results " TWO "%s -f -n 30 --shard=1", from));
        assert_int_equal(cJSON_GetArraySize(lines), 30);
        lines = ctl_json(w, 0, text_of("ctl results " TWO "%s -f -n 170", from));
        assert_int_equal(cJSON_GetArraySize(lines), 170);
        int counts[101] = {0};
        for (int i = 0; i < 170; i++)
            counts[(int)json_number(cJSON_GetArrayItem(lines, i), "job")]++;
        for (int i = 1; i <= 100; i++)
            assert_int_equal(counts[i], i <= 30 ? 1 : 2);
    }
    assert_int_equal(redis_integer(w->client, "EXISTS {%s:0}:results {%s:1}:results", w->ns, w->ns),
                     0);
}

/* What could not be acknowledged comes again at once. */
TEST(test_unsettled_results_of_shards)
{
    post_in(text_of("{%s:1}", w->ns), true, 1, 1);
    freeReplyObject(redis_command(w->client, "ACL SETUSER default -xack"));
    struct process process = ctl_begin(w, "ctl results " TWO STREAM " -f -n 3");
    struct ctl_run run = ctl_end(&process);
    freeReplyObject(redis_command(w->client, "ACL SETUSER default +xack"));
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.err, "shard 1 is away: "));
    cJSON *lines = ctl_json(w, 0, "ctl results " TWO STREAM " -f -n 1");
    check_has(lines, "{'0.job':1}");
}

/* Waits until the consumer has read a stream often enough to have ended one turn. */
static bool reads_again(redisContext *client)
{
    for (double until_s = clock_now_s() + patience(20); clock_now_s() < until_s; usleep(10000)) {
        char *info = redis_string(client, "INFO commandstats");
        const char *calls = strstr(info, "cmdstat_xreadgroup:calls=");
        bool often = calls && strtol(strchr(calls, '=') + 1, NULL, 10) >= 3;
        free(info);
        if (often)
            return true;
    }
    return false;
}

/* Waits until a consumer with its errors in the file `err` has reported that shard 1 is away. */
static bool says_away(int times)
{
    for (double until_s = clock_now_s() + patience(20); clock_now_s() < until_s; usleep(10000)) {
        char *text = text_file_read(text_of("%s/err", w->folder));
        int count = 0;
        for (const char *at = text; (at = strstr(at, "shard 1 is away")) != NULL; at++)
            count++;
        free(text);
        if (count >= times)
            return count == times;
    }
    return false;
}

/* A shard that is away does not stop the other. When it is back, its results come. Each time that
 * it goes away is reported once. */
TEST(test_a_shard_is_away)
{
    struct redis_server *other = redis_server_start(NULL);
    redisContext *client = redis_server_connect(other);
    post_to_shards(true);
    redis_server_kill9(other);
    struct process process =
        ctl_begin(w, text_of("ctl results " TWO STREAM " -f -g g -n 101 '--redis=%s %s' 2>err",
                             w->redis->address, other->address));
    assert_true(world_until(w, patience(20), 100, "EVAL %s 1 {%s:0}:results:stream",
                            ENTRIES_READ, w->ns));
    redisFree(client);
    assert_true(says_away(1));
    redis_server_restart(other);
    client = redis_server_connect(other);
    assert_true(reads_again(client));
    redisFree(client);
    redis_server_kill9(other);
    assert_true(says_away(2));
    redis_server_restart(other);
    client = redis_server_connect(other);
    freeReplyObject(redis_command(client, "XADD {%s:1}:results:stream * job 7 result {\"job\":7}",
                                  w->ns));
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 0);
    assert_true(says_away(2));
    assert_non_null(strstr(run.out, "{\"job\":7}"));
    redisFree(client);
    redis_server_stop(other);
}

TEST(test_usage)
{
    ctl_expect(w, 64, "ctl results $at --group=g", "--group has no effect without --follow", NULL);
    ctl_expect(w, 64, "ctl results $at -f --group=g", "--group is for a stream", NULL);
    ctl_expect(w, 64, "ctl results $at -f --from=here", "it must be list or stream", NULL);
    ctl_expect(w, 64, "ctl results $at -f --consumer=", "it must have 1 to 128", NULL);
    ctl_expect(w, 64, "ctl results $at -n 0", "--count is \"0\"", NULL);
    ctl_expect(w, 64, "ctl results $at -n 2.5", "--count is 2.5; it must be an integer", NULL);
    post(true, 1, 1);
    post(false, 2, 3);
    ctl_expect(w, 0, "ctl results $at -f -n 1", "1 results are in the stream", "done   r2", NULL);
    /* A result that no daemon posted. */
    redis_integer(w->client, "RPUSH %s:results text", w->ns);
    ctl_expect(w, 0, "ctl results $at -f -n 1", "not a JSON object: text", NULL);
    freeReplyObject(redis_command(w->client, "SET %s:results:stream x", w->ns));
    ctl_expect(w, 69, "ctl results $at -f " STREAM, "WRONGTYPE", NULL);
}

WORLD_MAIN(EMPTY_WORLD)
