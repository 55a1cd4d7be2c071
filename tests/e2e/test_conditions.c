/*
 * test_conditions.c - jobs that are delayed, expire, are duplicates or are cancelled, and paused
 * daemons, on a real Redis.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/redis/script.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static struct process *start_one(void)
{
    struct process *daemon = start_ready(0);
    return daemon;
}

static void stop(struct process *daemon)
{
    check_stop(daemon);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

/* Redis's clock, Unix seconds. */
static double redis_now(void)
{
    redisReply *time = redis_command(w->client, "TIME");
    double now = atof(time->element[0]->str) + atof(time->element[1]->str) / 1e6;
    freeReplyObject(time);
    return now;
}

/* Cancels like gpuimgctl. Returns the stored result, malloc'd, or NULL. */
static char *cancel(const char *id)
{
    redisReply *reply =
        redis_command(w->client, "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                 "gpuimgd:waits:%s gpuimgd:result:%s %s",
                      script_text(SCRIPT_ID_CANCEL), id, id, id);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    char *kept = reply->element[0]->str ? strdup(reply->element[0]->str) : NULL;
    freeReplyObject(reply);
    return kept;
}

static bool is_there(const char *name)
{
    return text_file_count(w->out, name) > 0;
}

/* ---- times -------------------------------------------------------------------------------- */

TEST(test_not_before)
{
    struct process *daemon = start_one();
    double due = redis_now() + patience(1.5);
    freeReplyObject(redis_command(w->client, "CONFIG RESETSTAT"));
    world_push(w, "{'id':'later','input':'p.jpg','output':'later.png','not_before':%.3f}", due);
    check_done(check_answer(w, "{'input':'p.jpg','output':'now.png'}"));
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:delayed"));
    assert_false(is_there("/later.png"));
    cJSON *result = check_next(w);
    assert_true(redis_now() >= due);
    check_has(result, "{'id':'later','attempt':1}");
    check_message(result);
    check_done(result);
    /* No daemon polled during the wait. */
    const char *info = redis_text(w->client, "INFO commandstats");
    const char *at = strstr(info, "cmdstat_evalsha:calls=");
    assert_non_null(at);
    assert_in_range(atoi(at + strlen("cmdstat_evalsha:calls=")), 1, 60);
    stop(daemon);
}

/* Relative times count from the moment when a daemon first has the job. */
TEST(test_relative_times)
{
    struct process *daemon = start_one();
    double wait = patience(1.5), pushed = redis_now();
    world_push(w, "{'id':'inawhile','input':'p.jpg','output':'inawhile.png',"
                  "'not_before':'+%.3f','expires':'+1000'}", wait);
    check_done(check_answer(w, "{'input':'p.jpg','output':'now.png','expires':'+1000'}"));
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:delayed"));
    assert_false(is_there("/inawhile.png"));
    cJSON *result = check_next(w);
    assert_true(redis_now() >= pushed + wait);
    check_has(result, "{'id':'inawhile','attempt':1}");
    check_done(result);
    check_failed(check_answer(w, "{'input':'p.jpg','output':'x.png','not_before':5}"), "bad_job",
                 "not_before is 5, before 2001", "\"+5\"", NULL);
    check_failed(check_answer(w, "{'input':'p.jpg','output':'x.png','expires':%.0f}",
                              redis_now() * 1000),
                 "bad_job", "looks like milliseconds", NULL);
    stop(daemon);
}

TEST(test_expires)
{
    struct process *daemon = start_one();
    check_failed(check_answer(w, "{'input':'p.jpg','output':'late.png','expires':%.3f}",
                              redis_now() - 1),
                 "expired", "the job expired at ", NULL);
    assert_false(is_there("/late.png"));
    check_done(check_answer(w, "{'input':'p.jpg','output':'intime.png','expires':%.3f}",
                            redis_now() + 1000));
    check_failed(check_answer(w, "{'input':'p.jpg','output':'x.png','not_before':1e9,"
                                 "'expires':1e9}"),
                 "bad_job", "expires", "not_before", NULL);
    stop(daemon);
}

/* A retry needs a start too: the job expires before its next attempt is due. laters: how often the
 * disk has had no room for it; or NULL. */
static void check_expires_before_its_retry(bool is_relative, const char *laters, const char *says)
{
    struct process *daemon = start_unprivileged("--retry_delay_s=600");
    const char *folder = out_path("locked");
    double wait = patience(3); /* in which the first attempt ends */
    const char *expires =
        is_relative ? text_of("'+%.3f'", wait) : text_of("%.3f", redis_now() + wait);
    assert_int_equal(mkdir(folder, 0555), 0); /* write_failed */
    world_push(w, "{'input':'p.jpg','output':'locked/x.png','expires':%s}", expires);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:delayed"));
    if (laters)
        (void)redis_integer(w->client, "HSET gpuimgd:job:%lld laters %s",
                            redis_integer(w->client, "INCRBY gpuimgd:seq 0"), laters);
    cJSON *result = check_next(w);
    assert_true(json_number(result, "attempt") == 2);
    check_failed(result, "expired", says, NULL);
    rmdir(folder);
    stop(daemon);
}

TEST(test_expires_before_its_retry)
{
    check_expires_before_its_retry(false, "2",
                                   "; before, the disk had no room for an output 2 times");
}

TEST(test_relative_end_before_its_retry)
{
    check_expires_before_its_retry(true, NULL, "first took it; it is not started after that time");
}

/* ---- one job per id at a time ------------------------------------------------------------- */

static void check_same_as(cJSON *result, double number)
{
    assert_true(json_number(result, "same_as") == number);
    check_done(result);
}

TEST(test_the_second_gets_the_first_ones_result)
{
    world_push(w, "{'id':'u','unique':true,'meta':1,'input':'slow.png','output':'u1.png'}");
    for (int i = 2; i <= 4; i++)
        world_push(w, "{'id':'u','unique':true,'meta':%d,'reply_to':'gpuimgd:reply:%d',"
                      "'input':'p.jpg','output':'u%d.png'}", i, i, i);
    struct process *daemon = start_one();
    cJSON *first = check_next(w);
    double number = json_number(first, "job");
    check_has(first, "{'meta':1,'same_as':null}");
    check_done(first);
    for (int i = 2; i <= 4; i++) {
        const char *list = text_of("gpuimgd:reply:%d", i);
        const char *output = text_of("/u%d.png", i);
        cJSON *result = world_result_from(w, list, 20);
        assert_non_null(result);
        assert_true(json_number(result, "same_as") == number);
        assert_true(json_number(result, "job") != number);
        assert_true(json_number(result, "meta") == i);
        assert_string_equal(json_text(result, "outputs.0.path"), "u1.png");
        check_message(result);
        check_done(result);
        assert_false(is_there(output));
    }
    /* The stored result is the first job's. After it is deleted, the next job runs. */
    const char *kept = redis_text(w->client, "GET gpuimgd:result:u");
    assert_non_null(kept);
    assert_null(strstr(kept, "same_as"));
    /* A job that cannot start does not change the stored result; later jobs still get it. */
    check_failed(check_answer(w, "{'id':'u','unique':true,'input':'p.jpg','output':'u7.png',"
                                 "'ops':['sobell']}"), "unknown_op", "sobell", NULL);
    check_same_as(check_answer(w, "{'id':'u','unique':true,'input':'p.jpg','output':'u8.png'}"),
                  number);
    redis_integer(w->client, "DEL gpuimgd:result:u");
    check_done(check_answer(w, "{'id':'u','unique':true,'input':'p.jpg','output':'u5.png'}"));
    assert_true(is_there("/u5.png"));
    check_failed(check_answer(w, "{'unique':true,'input':'p.jpg','output':'u6.png'}"), "bad_job",
                 "unique", "id", NULL);
    stop(daemon);
}

/* ---- cancels ------------------------------------------------------------------------------ */

TEST(test_cancel_among_many_that_wait)
{
    enum { JOBS = 300 };
    for (int i = 0; i < JOBS; i++)
        world_push(w, "{'id':'%d','input':'p.jpg','output':'m%d.png'}", i, i);
    assert_null(cancel("7"));
    assert_null(cancel("250"));
    assert_null(cancel("nobody"));
    world_push(w, "{'id':'7','input':'p.jpg','output':'again.png'}"); /* pushed later: it runs */
    struct process *daemon = start_one();
    int cancelled = 0;
    for (int i = 0; i <= JOBS; i++) {
        cJSON *result = check_next(w);
        int id = atoi(json_text(result, "id"));
        if (strcmp(json_text(result, "status"), "done") == 0) {
            check_done(result);
            continue;
        }
        assert_true(id == 7 || id == 250);
        cancelled++;
        check_ended(result, "cancelled", "cancelled");
    }
    assert_int_equal(cancelled, 2);
    assert_false(is_there("/m7.png"));
    assert_false(is_there("/m250.png"));
    assert_true(is_there("/again.png"));
    char *kept = cancel("8"); /* the job has ended: cancel returns its result */
    assert_non_null(kept);
    assert_non_null(strstr(kept, "\"status\":\"done\""));
    free(kept);
    stop(daemon);
}

TEST(test_cancel_before_its_time)
{
    struct process *daemon = start_one();
    world_push(w, "{'id':'far','input':'p.jpg','output':'far.png','not_before':90000000000}");
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:delayed"));
    assert_null(cancel("far"));
    check_ended(check_next(w), "cancelled", "cancelled");
    stop(daemon);
}

/* Sixteen slow outputs: files that are complete when the cancel arrives stay. */
TEST(test_cancel_while_it_runs)
{
    char job[4096] = "{'id':'run','input':'slow.png','outputs':[";
    for (int i = 0; i < 16; i++) {
        size_t used = strlen(job);
        snprintf(job + used, sizeof job - used,
                 "%s{'output':{'path':'run%02d.png','compression':9},'ops':[]}", i ? "," : "", i);
    }
    struct process *daemon = start_one();
    world_push(w, "%s]}", job);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    assert_true(await(60, is_there("/run00.png")));
    assert_null(cancel("run"));
    cJSON *result = check_next(w);
    size_t there = text_file_count(w->out, "/run"), written = 0;
    for (int i = 0; i < 16; i++) {
        written += json_number(result, text_of("outputs.%d.bytes", i)) > 0;
    }
    assert_in_range(there, 1, 15);
    assert_int_equal(there, written);
    check_ended(result, "cancelled", "cancelled");
    process_sleep(0.7);
    assert_int_equal(text_file_count(w->out, "/run"), there);
    stop(daemon);
}

#ifdef GPUIMGD_AVIF

/* The first output shows when the worker encodes the second one several times, which takes seconds.
 * A worker that stops amid it writes nothing, and is free for other jobs. */
TEST(test_cancel_amid_an_avif)
{
    struct process *daemon = start_one();
    world_push(w,
               "{'id':'amid','input':'slow.png','outputs':["
               "{'output':'mark.png','ops':[{'op':'resize','width':8}]},"
               "{'output':{'path':'amid.avif','effort':3,'max_bytes':30000},'ops':[{'op':'resize',"
               "'width':2400,'enlarge':true}]}]}");
    assert_true(await(60, is_there("/mark.png")));
    double start = process_now();
    assert_null(cancel("amid"));
    cJSON *result = check_next(w);
    assert_true(process_now() - start < patience(2));
    assert_non_null(strstr(json_text(result, "outputs.1.error.message"), "amid an AVIF"));
    check_ended(result, "cancelled", "cancelled");
    assert_false(is_there("/amid.avif"));
    push_jobs(0, 2);
    take_jobs(2);
    stop(daemon);
}

TEST(test_timeout_amid_an_avif)
{
    struct process *daemon = start_one();
    double start = process_now();
    world_push(w,
               "{'id':'late','input':'slow.png','timeout_s':%.2f,'output':{'path':'late.avif',"
               "'effort':3,'max_bytes':30000},'ops':[{'op':'resize','width':2400,'enlarge':true}]}",
               patience(1));
    cJSON *result = check_next(w);
    assert_true(process_now() - start < patience(4));
    assert_true(
        strncmp(json_text(result, "error.message"), "the job exceeded its timeout_s of ", 34) == 0);
    check_ended(result, "failed", "timeout");
    assert_false(is_there("/late.avif"));
    stop(daemon);
}

#endif

/* Keys are stored together with the result, so a cancelled job stores none. */
TEST(test_cancel_of_outputs_in_redis)
{
    struct process *daemon = start_one();
    world_push(w, "{'id':'keys','input':'slow.png','outputs':["
                  "{'output':{'key':'gpuimgd:img:a','format':'png','compression':9},'ops':[]},"
                  "{'output':{'key':'gpuimgd:img:b','format':'png','compression':9},'ops':[]},"
                  "{'output':{'key':'gpuimgd:img:c','format':'png','compression':9},'ops':[]}]}");
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    assert_null(cancel("keys"));
    check_ended(check_next(w), "cancelled", "cancelled");
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:img:a gpuimgd:img:b gpuimgd:img:c"),
                     0);
    stop(daemon);
}

/* ---- the pause ---------------------------------------------------------------------------- */

TEST(test_paused_for_all)
{
    struct process *first = start_one();
    freeReplyObject(redis_command(w->client, "SET gpuimgd:paused 1"));
    assert_true(process_logged(first, 0, "gpuimgd:paused is set", 20));
    struct process *second = start_ready(1);
    assert_true(process_logged(second, 0, "gpuimgd:paused is set", 20));
    assert_true(process_noted(first, 0, "STATUS=paused on cpu", 20));
    /* Waits that began before the pause end first: Redis counts a BLMOVE at its end. */
    assert_true(await(20, strstr(redis_text(w->client, "INFO clients"), "blocked_clients:0\r")));
    freeReplyObject(redis_command(w->client, "CONFIG RESETSTAT"));
    world_push(w, "{'input':'p.jpg','output':'paused.png'}");
    process_sleep(1);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 1);
    /* Jobs in the list do not make a paused daemon poll continuously. */
    assert_null(strstr(redis_text(w->client, "INFO commandstats"), "cmdstat_blmove"));
    assert_int_equal(redis_integer(w->client, "DEL gpuimgd:paused"), 1);
    check_done(check_next(w));
    assert_true(process_logged(first, 0, "gpuimgd:paused is gone", 20));
    assert_true(process_logged(second, 0, "gpuimgd:paused is gone", 20));
    check_stop(second);
    stop(first);
}

WORLD_MAIN(EMPTY_WORLD, .photo = {"p.jpg", 160, 120}, .slow = true)
