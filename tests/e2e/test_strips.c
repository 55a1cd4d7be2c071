/*
 * test_strips.c - large pictures, whose rows go to a device while they are decoded, and are encoded
 * while they come back: the same files and the same errors as on the CPU engine. On the CUDA
 * engine's own code with the tests' runtime, and on a device where there is one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fixtures/check.h"
#include "tests/fixtures/twin.h"

static struct world world;
static struct world *const w = &world;
static struct process_options how; /* of the CUDA daemon */

/* Each is more than 16 MiB decoded, the PNGs as RGBA, but for the luma of what is not "gray". */
static const struct twin_job jobs[] = {
    {"colour.jpg", "'output':'%s.jpg','ops':['invert']"},
    {"colour.jpg", "'output':{'path':'%s.png','compression':1},"
                   "'ops':['transpose',{'op':'crop','x':7,'y':9,'width':900,'height':700}]"},
    {"colour.jpg", "'outputs':[{'output':'%s.jpg','ops':['sobel']},"
                   "{'output':'small.png','ops':[{'op':'resize','width':300}]}]"},
    {"colour.jpg", "'output':'%s.jpg','ops':['sobel']"},
    {"gray.jpg", "'output':'%s.jpg','ops':['sobel']"},
    {"progressive.jpg", "'output':'%s.jpg','ops':['invert']"},
    {"gray.jpg", "'output':{'path':'%s.jpg','progressive':true},'ops':['sobel']"},
    {"colour.jpg", "'output':{'path':'%s.png','compression':1},'ops':['invert']"},
    {"turned.png", "'output':'%s.jpg','ops':['invert']"},
    {"interlaced.png", "'output':'%s.jpg','ops':['invert','stats']"},
};
#define JOBS (sizeof jobs / sizeof *jobs)

static void put_pictures(void)
{
    struct picture_jpeg jpeg = {.width = 3011, .height = 1999};
    struct picture_png png = {.width = 2203, .height = 1999, .colour_type = 3,
                              .transparent = true, .level = 1};
    struct picture_file file = picture_jpeg(&jpeg);
    struct picture_file cut = picture_cut(&file, file.length * 2 / 3);
    world_put_picture(w, "colour.jpg", file);
    world_put_picture(w, "cut.jpg", cut);
    jpeg.progressive = true;
    world_put_picture(w, "progressive.jpg", picture_jpeg(&jpeg));
    png.orientation = 6;
    file = picture_png(&png);
    cut = picture_cut(&file, file.length * 2 / 3);
    world_put_picture(w, "turned.png", file);
    world_put_picture(w, "cut.png", cut);
    png.interlaced = true;
    world_put_picture(w, "interlaced.png", picture_png(&png));
    jpeg = (struct picture_jpeg){.width = 4500, .height = 4100, .colour = PICTURE_GRAY};
    world_put_picture(w, "gray.jpg", picture_jpeg(&jpeg));
}

static int open_world(void)
{
    world_open(w, redis_server_start(NULL, NULL));
    put_pictures();
    return 0;
}

static int open_standin(void **state)
{
    (void)state;
    const char *program = getenv("GPUIMGD_STANDIN");
    if (!program || access(program, X_OK) != 0)
        return 0;
    how = (struct process_options){.program = program};
    return open_world();
}

/* Opens nothing where there is no device: the tests then skip themselves. */
static int open_cuda(void **state)
{
    (void)state;
    how = (struct process_options){0};
    if (world_has_cuda())
        return open_world();
    print_error("skipped: no CUDA device here, or a daemon built without CUDA\n");
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(w);
    return 0;
}

static void need_engine(void)
{
    if (!w->folder[0])
        skip();
}

static struct process *start(const char *engine)
{
    char option[32];
    const struct process_options plain = {0};
    const char *const options[] = {option, "--streams=2", "--pinned_bytes=512M",
                                   "--device_bytes=512M", NULL};
    bool cuda = strcmp(engine, "cuda") == 0;
    snprintf(option, sizeof option, "--engine=%s", engine);
    struct process *daemon = world_start_with(w, 0, cuda ? &how : &plain, options);
    check_ready(daemon);
    return daemon;
}

/* One at a time, so that each has the device to itself, and then all at once. */
static void test_the_same_files(void **state)
{
    (void)state;
    need_engine();
    struct process *daemon = start("cpu");
    twin_draw(w, jobs, JOBS, "cpu");
    check_stop(daemon);
    daemon = start("cuda");
    for (size_t i = 0; i < JOBS; i++) {
        twin_push(w, jobs, i, "one");
        cJSON *result = check_next(w);
        check_message(result);
        assert_true(json_number(result, "attempt") == 1);
        assert_true(json_number(result, "ms.decode") > 0 && json_number(result, "ms.h2d") > 0);
        check_done(result);
        twin_check(w, jobs, i, "one");
    }
    for (size_t i = 0; i < JOBS; i++)
        twin_push(w, jobs, i, "all");
    for (size_t i = 0; i < JOBS; i++)
        check_done(check_next(w));
    for (size_t i = 0; i < JOBS; i++)
        twin_check(w, jobs, i, "all");
    check_stop(daemon);
}

static char *message_of(const char *input)
{
    cJSON *result = check_answer(w, "{'input':'%s','output':'none.png','ops':['invert']}", input);
    char *message = strdup(json_text(result, "error.message"));
    assert_null(json_at(result, "engine"));
    assert_null(json_at(result, "ms.h2d"));
    assert_true(json_number(result, "ms.decode") > 0);
    assert_true(json_number(result, "attempt") == 1);
    check_ended(result, "failed", "decode_failed");
    return message;
}

/* A file that ends when many of its rows are on the device: the same result, word for word. */
static void test_the_same_errors(void **state)
{
    static const char *const inputs[] = {"cut.jpg", "cut.png"};
    char *expected[2];
    (void)state;
    need_engine();
    struct process *daemon = start("cpu");
    for (size_t i = 0; i < 2; i++)
        expected[i] = message_of(inputs[i]);
    check_stop(daemon);
    daemon = start("cuda");
    for (size_t i = 0; i < 6; i++) {
        char *message = message_of(inputs[i % 2]);
        assert_string_equal(message, expected[i % 2]);
        free(message);
    }
    twin_push(w, jobs, 0, "behind");
    check_done(check_next(w));
    check_stop(daemon); /* with nothing left in Redis, and no file */
    for (size_t i = 0; i < 2; i++)
        free(expected[i]);
}

/* The time is over while it is decoded, whenever that is: by then some rows were copied, or none,
 * or all were. */
static void test_too_late(void **state)
{
    (void)state;
    need_engine();
    struct process *daemon = start("cuda");
    for (int ms = 5; ms < 200; ms += ms) {
        cJSON *result = check_answer(w, "{'input':'turned.png','output':'late.png',"
                                        "'ops':['invert'],'timeout_s':%g}", ms * 1e-3);
        if (strcmp(json_text(result, "status"), "done") == 0)
            check_done(result);
        else
            check_ended(result, "failed", "timeout");
    }
    twin_push(w, jobs, 0, "later");
    check_done(check_next(w));
    check_stop(daemon);
}

#define ON(engine, test) {#test " on " engine, test, NULL, NULL, NULL}
#define ALL(engine)                                                                                \
    {                                                                                              \
        ON(engine, test_the_same_files), ON(engine, test_the_same_errors),                         \
            ON(engine, test_too_late),                                                             \
    }

int main(void)
{
    const struct CMUnitTest on_standin[] = ALL("the stand-in");
    const struct CMUnitTest on_cuda[] = ALL("cuda");
    int failed = cmocka_run_group_tests(on_standin, open_standin, close_world);
    return failed + cmocka_run_group_tests(on_cuda, open_cuda, close_world);
}
