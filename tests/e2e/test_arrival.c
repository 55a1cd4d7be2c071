/*
 * test_arrival.c - large results, which are encoded while they come back from a device: the same
 * files as on the CPU engine, and jobs that end while the rest of their rows does not come. On the
 * CUDA engine's own code with the tests' runtime, whose streams rest between two pieces of a result
 * while the test wants it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/redis/script.h"
#include "tests/fixtures/check.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/trace_file.h"
#include "tests/fixtures/twin.h"

static struct world world;
static struct world *const w = &world;
static struct process_options how; /* of the CUDA daemon */
static char rest[128], hold[128], trace[128];

/* Each has a result of 8 MiB or more. */
static const struct twin_job jobs[] = {
    {"gray.jpg", "'output':'%s.jpg','ops':['sobel']"},
    {"gray.jpg", "'output':{'path':'%s.jpg','progressive':true},'ops':['sobel']"},
    {"colour.jpg", "'output':'%s.jpg','ops':['invert']"},
    {"colour.jpg", "'output':{'path':'%s.jpg','progressive':true},'ops':['transpose']"},
    {"colour.jpg", "'output':{'path':'%s.png','compression':1},'ops':['invert']"},
    {"alpha.png", "'output':{'path':'%s.png','compression':1},'ops':['invert']"},
};
#define JOBS (sizeof jobs / sizeof *jobs)

static int open_world(void **state)
{
    (void)state;
    const char *program = getenv("GPUIMGD_STANDIN");
    if (!program || access(program, X_OK) != 0)
        return 0;
    how = (struct process_options){.program = program};
    world_open(w, redis_server_start(NULL, NULL));
    snprintf(rest, sizeof rest, "%s/rest", w->folder);
    snprintf(hold, sizeof hold, "%s/hold", w->folder);
    snprintf(trace, sizeof trace, "%s/t.json", w->folder);
    struct picture_jpeg jpeg = {.width = 3011, .height = 2999, .colour = PICTURE_GRAY};
    struct picture_png png = {.width = 1603, .height = 1501, .colour_type = 3,
                              .transparent = true, .level = 1};
    world_put_picture(w, "gray.jpg", picture_jpeg(&jpeg));
    jpeg = (struct picture_jpeg){.width = 2011, .height = 1499};
    world_put_picture(w, "colour.jpg", picture_jpeg(&jpeg));
    world_put_picture(w, "alpha.png", picture_png(&png));
    world_put_slow(w);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(w);
    return 0;
}

static void need_standin(void)
{
    if (!w->folder[0])
        skip();
    unlink(rest);
    unlink(hold);
}

static struct process *start(const char *engine)
{
    char engine_option[32], trace_option[160], fault[280];
    const struct process_options plain = {0};
    const char *const options[] = {engine_option, trace_option, "--streams=2",
                                   "--pinned_bytes=512M", "--device_bytes=512M", NULL};
    bool cuda = strcmp(engine, "cuda") == 0;
    snprintf(engine_option, sizeof engine_option, "--engine=%s", engine);
    snprintf(trace_option, sizeof trace_option, "--trace=%s", trace);
    snprintf(fault, sizeof fault, "rest=%s,hold=%s", rest, hold);
    setenv("GPUIMGD_CUDA_FAULT", fault, 1);
    struct process *daemon = world_start_with(w, 0, cuda ? &how : &plain, options);
    unsetenv("GPUIMGD_CUDA_FAULT");
    check_ready(daemon);
    return daemon;
}

/* From now on streams rest behind each piece of a result that is not the last one. */
static void rest_streams(void)
{
    assert_true(text_file_write(rest, "", 0));
}

static size_t files_begun(void)
{
    return text_file_count(w->out, ".tmp");
}

static void await_files(size_t count)
{
    double deadline = process_now() + patience(20);
    while (files_begun() < count && process_now() < deadline)
        process_sleep(0.002);
    assert_int_equal(files_begun(), count);
}

static void push_large(const char *id, const char *more)
{
    world_push(w, "{'id':'%s','input':'gray.jpg','output':'%s.png','ops':['sobel']%s}", id, id,
               more);
}

/* A job with one large result, whose encode has begun and waits for the second piece. */
static void begin_encode(const char *id, const char *more)
{
    rest_streams();
    push_large(id, more);
    await_files(1);
}

static void check_no_file(const char *id)
{
    char name[32];
    snprintf(name, sizeof name, "/%s.png", id);
    assert_int_equal(text_file_count(w->out, name), 0);
    assert_int_equal(files_begun(), 0);
}

/* ---- what is done ---------------------------------------------------------------------------- */

static const cJSON *slice_of(const cJSON *events, double job, const char *name)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
        if (strcmp(json_text(event, "name"), name) == 0 && json_number(event, "args.job") == job)
            return event;
    fail_msg("job %.0f has no %s in the trace", job, name);
    return NULL;
}

/* The trace shows that it was so. */
static void check_trace(const double *numbers)
{
    bool whole;
    cJSON *events = trace_file_read(trace, &whole);
    assert_true(whole && trace_file_good(events));
    for (size_t i = 0; i < JOBS; i++) {
        const cJSON *down = slice_of(events, numbers[i], "D2H");
        const cJSON *encode = slice_of(events, numbers[i], "encode");
        double down_end = json_number(down, "ts") + json_number(down, "dur");
        assert_true(json_number(encode, "ts") > json_number(down, "ts"));
        assert_true(json_number(encode, "ts") < down_end);
        assert_true(json_number(encode, "ts") + json_number(encode, "dur") > down_end);
    }
    cJSON_Delete(events);
}

static void test_encoded_while_it_comes(void **state)
{
    double numbers[JOBS];
    (void)state;
    need_standin();
    struct process *daemon = start("cpu");
    twin_draw(w, jobs, JOBS, "cpu");
    check_stop(daemon);
    daemon = start("cuda");
    for (size_t i = 0; i < JOBS; i++) {
        rest_streams();
        twin_push(w, jobs, i, "cuda");
        await_files(1);
        process_sleep(0.05);
        assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
        unlink(rest);
        cJSON *result = check_next(w);
        check_message(result);
        assert_true(json_number(result, "attempt") == 1);
        assert_true(json_number(result, "ms.d2h") > 50 && json_number(result, "ms.encode") > 50);
        numbers[i] = json_number(result, "job");
        check_done(result);
        twin_check(w, jobs, i, "cuda");
    }
    check_stop(daemon);
    check_trace(numbers);
}

/* Streams that rest hold up nobody whose result comes back as a whole: it does where there are
 * values to be had, or several outputs, and where it is not large. */
static void test_as_a_whole(void **state)
{
    static const char *const rows[] = {
        "'output':'w.jpg','ops':['invert','stats']",
        "'outputs':[{'output':'w.jpg','ops':['invert']},{'output':'v.jpg','ops':['transpose']}]",
        "'output':'w.jpg','ops':['sobel']",
        "'ops':['invert','stats']",
    };
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rest_streams();
        check_done(check_answer(w, "{'input':'colour.jpg',%s}", rows[i]));
        unlink(rest);
        check_done(check_answer(w, "{'input':'colour.jpg','output':'x.png',"
                                   "'ops':[{'op':'resize','width':64}]}"));
    }
    check_stop(daemon);
}

/* Two are fetched at once: the one that is first on the device is not alone. */
static void test_not_alone(void **state)
{
    static const char one[] = "{\"input\":\"gray.jpg\",\"output\":\"1.jpg\",\"ops\":[\"sobel\"]}";
    static const char two[] = "{\"input\":\"gray.jpg\",\"output\":\"2.jpg\",\"ops\":[\"sobel\"]}";
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    rest_streams();
    assert_int_equal(redis_integer(w->client, "LPUSH gpuimgd:jobs %s %s", one, two), 2);
    check_done(check_next(w));
    unlink(rest);
    check_done(check_next(w));
    check_stop(daemon);
}

/* ---- what ends meanwhile --------------------------------------------------------------------- */

static void cancel(const char *id)
{
    redisReply *reply =
        redis_command(w->client, "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                 "gpuimgd:waits:%s gpuimgd:result:%s %s",
                      script_text(SCRIPT_ID_CANCEL), id, id, id);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
}

/* The daemon is whole: it does a job of the same kind, and ends with nothing left behind. */
static void check_whole(struct process *daemon)
{
    assert_int_equal(process_log_count(daemon, 0, "is replaced"), 0);
    unlink(rest);
    twin_push(w, jobs, 0, "cuda");
    check_done(check_next(w));
    twin_check(w, jobs, 0, "cuda");
    check_stop(daemon);
}

static void test_cancelled_meanwhile(void **state)
{
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    begin_encode("cancelled", "");
    cancel("cancelled");
    process_sleep(patience(1.2)); /* until that was heard of */
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    unlink(rest);
    check_ended(check_next(w), "cancelled", "cancelled");
    check_no_file("cancelled");
    check_whole(daemon);
}

static void check_late(cJSON *result)
{
    assert_non_null(strstr(json_text(result, "error.message"), "while the job was on cuda:0"));
    assert_string_equal(json_text(result, "outputs.0.error.code"), "timeout");
    assert_null(json_at(result, "outputs.0.bytes"));
    check_ended(result, "failed", "timeout");
    check_no_file("late");
}

/* Neither is its worker taken to hang, which only waits, nor the device yet. */
static void test_too_late_meanwhile(void **state)
{
    char more[48];
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    snprintf(more, sizeof more, ",'timeout_s':%g", patience(0.6));
    begin_encode("late", more);
    process_sleep(patience(1));
    unlink(rest);
    check_late(check_next(w));
    check_whole(daemon);
}

/* The first rows are there, past the deadline, and no worker is free: its memory is not, either,
 * before the device is done with it. */
static void test_too_late_without_a_worker(void **state)
{
    char more[48];
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    snprintf(more, sizeof more, ",'timeout_s':%g", patience(0.5));
    assert_true(text_file_write(hold, "", 0));
    rest_streams();
    push_large("late", more);
    process_sleep(patience(0.6));
    for (int i = 0; i < 2; i++)
        world_push(w, "{'input':'slow.png','output':{'path':'s%d.png','compression':9}}", i);
    await_files(2);
    unlink(hold);
    for (int i = 0; i < 2; i++)
        check_done(check_next(w));
    unlink(rest);
    check_late(check_next(w));
    check_whole(daemon);
}

static void test_lost_meanwhile(void **state)
{
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    begin_encode("lost", "");
    size_t mark = process_log_mark(daemon);
    redisReply *lease = redis_command(w->client, "ZPOPMIN gpuimgd:lease");
    assert_int_equal(lease->elements, 2);
    redis_integer(w->client, "DEL gpuimgd:job:%s", lease->element[0]->str);
    freeReplyObject(lease);
    assert_true(process_logged(daemon, mark, "is no longer ours", 20));
    check_whole(daemon);
    check_no_file("lost");
}

/* Told to end twice while it comes: the job goes back at once, and is another one's. */
static void test_hurried_meanwhile(void **state)
{
    (void)state;
    need_standin();
    struct process *daemon = start("cuda");
    begin_encode("back", "");
    size_t mark = process_log_mark(daemon);
    process_signal(daemon, SIGTERM);
    assert_true(process_logged(daemon, mark, "draining", 20));
    process_signal(daemon, SIGTERM);
    assert_int_equal(process_wait(daemon, 20), 0);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 1);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 0);
    assert_int_equal(text_file_count(w->out, "/back.png"), 0);
    unlink(rest);
    daemon = start("cuda");
    cJSON *result = check_next(w);
    assert_true(json_number(result, "attempt") == 1);
    check_done(result);
    check_whole(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoded_while_it_comes), cmocka_unit_test(test_as_a_whole),
        cmocka_unit_test(test_not_alone),              cmocka_unit_test(test_cancelled_meanwhile),
        cmocka_unit_test(test_too_late_meanwhile),
        cmocka_unit_test(test_too_late_without_a_worker),
        cmocka_unit_test(test_lost_meanwhile),         cmocka_unit_test(test_hurried_meanwhile),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
