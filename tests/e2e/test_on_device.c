/*
 * test_on_device.c - jobs that end while they are on a device: cancelled, past their deadline, lost
 * to another daemon, or given back. Runs the CUDA engine on the stand-in runtime, which holds
 * kernels while a test says so.
 */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/redis/script.h"
#include "tests/fixtures/apng_file.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static char hold[128];

static void name_hold(void)
{
    snprintf(hold, sizeof hold, "%s/hold", w->folder);
}

/* Opens nothing if the stand-in runtime is missing: the tests then skip themselves. */
static int open_with_standin(void **state)
{
    const char *program = getenv("GPUIMGD_STANDIN");
    return program && access(program, X_OK) == 0 ? open_world(state) : 0;
}

static struct process *start_program(const char *program, const char *more)
{
    const struct process_options how = {.program = program};
    const char *const options[] = {"--engine=cuda", "--streams=2", "--webp=cpu",
                                   "--avif=cpu",    more,          NULL};
    setenv("GPUIMGD_CUDA_FAULT", text_of("hold=%s", hold), 1);
    struct process *daemon = world_start_with(w, 0, &how, options);
    unsetenv("GPUIMGD_CUDA_FAULT");
    check_ready(daemon);
    return daemon;
}

static struct process *start(const char *more)
{
    return start_program(getenv("GPUIMGD_STANDIN"), more);
}

/* Starts a daemon, and leaves a job with this id on its device. more: further keys of the job. */
static struct process *start_with_held_job(const char *id, const char *more)
{
    if (!w->folder[0])
        skip();
    unlink(hold);
    struct process *daemon = start(NULL);
    assert_true(text_file_write(hold, "", 0));
    world_push(w, "{'id':'%s','input':'p.jpg','output':'%s.png','ops':['sobel']%s}", id, id, more);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    process_sleep(patience(0.3)); /* until the job is on the device */
    return daemon;
}

/* The job leaves nothing behind, and the daemon runs another job. */
static void check_whole(struct process *daemon, const char *id)
{
    assert_int_equal(text_file_count(w->out, text_of("/%s.png", id)), 0);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
    assert_int_equal(process_log_count(daemon, 0, "is replaced"), 0);
    check_done(check_answer(w, "{'input':'p.jpg','output':'next.png','ops':['sobel']}"));
    check_stop(daemon);
}

TEST(test_cancelled)
{
    struct process *daemon = start_with_held_job("cancelled", "");
    redisReply *reply =
        redis_command(w->client, "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                 "gpuimgd:waits:cancelled gpuimgd:result:cancelled cancelled",
                      script_text(SCRIPT_ID_CANCEL));
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    process_sleep(patience(2)); /* until the daemon knows */
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    unlink(hold);
    check_ended(check_next(w), "cancelled", "cancelled");
    check_whole(daemon, "cancelled");
}

/* The job fails with a timeout; the device does not count as hung yet. */
TEST(test_too_late)
{
    struct process *daemon = start_with_held_job("late", text_of(",'timeout_s':%g", patience(2)));
    process_sleep(patience(2.1));
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    unlink(hold);
    cJSON *result = check_next(w);
    assert_non_null(strstr(json_text(result, "error.message"), "while the job was on cuda:0"));
    check_ended(result, "failed", "timeout");
    check_whole(daemon, "late");
}

TEST(test_lost)
{
    struct process *daemon = start_with_held_job("lost", "");
    size_t mark = process_log_mark(daemon);
    redisReply *lease = redis_command(w->client, "ZPOPMIN gpuimgd:lease");
    assert_int_equal(lease->elements, 2);
    redis_integer(w->client, "DEL gpuimgd:job:%s", lease->element[0]->str);
    freeReplyObject(lease);
    assert_true(process_logged(daemon, mark, "the lease expired, another daemon may", 20));
    unlink(hold);
    check_whole(daemon, "lost");
}

/* A second SIGTERM returns the job immediately, and the next daemon runs it. */
TEST(test_given_back)
{
    struct process *daemon = start_with_held_job("back", "");
    size_t mark = process_log_mark(daemon);
    process_signal(daemon, SIGTERM);
    assert_true(process_logged(daemon, mark, "draining", 20));
    process_signal(daemon, SIGTERM);
    assert_int_equal(process_wait(daemon, 20), 0);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 1);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 0);
    assert_int_equal(text_file_count(w->out, "/back.png"), 0);
    unlink(hold);
    daemon = start(NULL);
    cJSON *result = check_next(w);
    assert_true(json_number(result, "attempt") == 1);
    check_done(result);
    check_stop(daemon);
}

/* The jobs with many images that the daemon runs, as it has published. */
static const char running_sets[] =
    "local key = redis.call('KEYS', 'gpuimgd:stats:*')[1] "
    "local sets = key and cjson.decode(redis.call('GET', key)).sets "
    "return sets and #sets or 0";

static void wait_for_sets(long long wanted)
{
    double end = process_now() + patience(20);
    while (redis_integer(w->client, "EVAL %s 0", running_sets) != wanted) {
        assert_true(process_now() < end);
        process_sleep(0.05);
    }
}

/* Jobs with many images wait for the device: beside it, twice as many run as workers, but only as
 * many animations. */
TEST(test_twice_as_many_sets_as_workers)
{
    const struct picture_png picture = {.width = 20, .height = 10, .colour_type = 2};
    const struct apng_part frames[] = {{.image = picture, .delay = 1, .delay_unit = 10},
                                       {.image = picture, .delay = 1, .delay_unit = 10}};
    if (!w->folder[0])
        skip();
    world_put_picture(w, "a.png", apng_write(&(struct apng_file){.frames = frames, .count = 2}));
    struct process *daemon = start("--workers=1");
    for (int kind = 0; kind < 2; kind++) {
        assert_true(text_file_write(hold, "", 0));
        for (int i = 0; i < 3; i++)
            world_push(w, "{%s,'output':'%d-%d.tar','ops':['sobel']}",
                       kind == 0 ? "'inputs':['p.jpg','p.jpg']" : "'input':'a.png','frames':'all'",
                       kind, i);
        wait_for_sets(kind == 0 ? 2 : 1);
        process_sleep(patience(1.5)); /* until it has published again */
        wait_for_sets(kind == 0 ? 2 : 1);
        unlink(hold);
        for (int i = 0; i < 3; i++)
            check_done(check_next(w));
        wait_for_sets(0);
    }
    check_stop(daemon);
}

/* With few descriptors, few jobs are in flight. The images of one are no jobs: while more of them
 * are in flight, single jobs are fetched. */
TEST(test_images_take_no_places_of_jobs)
{
    enum { images = 400, descriptors = 400, jobs = 20 };
    if (!w->folder[0])
        skip();
    const char *limited = text_of("%s/limited", w->folder);
    const char *shell = text_of("#!/bin/sh\nulimit -n %d && exec %s \"$@\"\n", descriptors,
                                getenv("GPUIMGD_STANDIN"));
    assert_true(text_file_write(limited, shell, strlen(shell)));
    assert_int_equal(chmod(limited, 0700), 0);
    struct process *daemon = start_program(limited, "--workers=2");
    assert_true(text_file_write(hold, "", 0));
    char inputs[images * 8] = "'p.jpg'";
    for (size_t i = 1, end = strlen(inputs); i < images; i++)
        end += (size_t)snprintf(inputs + end, sizeof inputs - end, ",'p.jpg'");
    world_push(w, "{'inputs':[%s],'output':'images.tar','ops':['sobel']}", inputs);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    process_sleep(patience(1)); /* until its images are in flight */
    for (int i = 0; i < jobs; i++)
        world_push(w, "{'input':'p.jpg','output':'single-%d.png','ops':['sobel']}", i);
    assert_true(world_until(w, 10, 1 + jobs, "ZCARD gpuimgd:lease"));
    unlink(hold);
    for (int i = 0; i < 1 + jobs; i++)
        check_done(check_next(w));
    check_stop(daemon);
}

int main(void)
{
    world_options = &(struct world_options){.photo = {"p.jpg", 300, 200}, .fill = name_hold};
    return run_all(.setup = open_with_standin, .teardown = close_world);
}
