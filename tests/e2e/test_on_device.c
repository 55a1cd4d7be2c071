/*
 * test_on_device.c - jobs that end while they are on a device: cancelled, past their deadline, lost
 * to another daemon, or given back. Runs the CUDA engine on the stand-in runtime, which holds
 * kernels while a test says so.
 */
#include <signal.h>
#include <unistd.h>

#include "queue/redis/script.h"
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

static struct process *start(void)
{
    const struct process_options how = {.program = getenv("GPUIMGD_STANDIN")};
    const char *const options[] = {"--engine=cuda", "--streams=2", "--webp=cpu", NULL};
    setenv("GPUIMGD_CUDA_FAULT", text_of("hold=%s", hold), 1);
    struct process *daemon = world_start_with(w, 0, &how, options);
    unsetenv("GPUIMGD_CUDA_FAULT");
    check_ready(daemon);
    return daemon;
}

/* Starts a daemon, and leaves a job with this id on its device. more: further keys of the job. */
static struct process *start_with_held_job(const char *id, const char *more)
{
    if (!w->folder[0])
        skip();
    unlink(hold);
    struct process *daemon = start();
    assert_true(text_file_write(hold, "", 0));
    world_push(w, "{'id':'%s','input':'p.jpg','output':'%s.png','ops':['sobel']%s}", id, id, more);
    world_until(w, 20, 1, "ZCARD gpuimgd:lease");
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
    daemon = start();
    cJSON *result = check_next(w);
    assert_true(json_number(result, "attempt") == 1);
    check_done(result);
    check_stop(daemon);
}

int main(void)
{
    world_options = &(struct world_options){.photo = {"p.jpg", 300, 200}, .fill = name_hold};
    return run_all(.setup = open_with_standin, .teardown = close_world);
}
