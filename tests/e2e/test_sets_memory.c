/*
 * test_sets_memory.c - jobs with many images in a daemon with little memory and few workers: their
 * images wait for memory that other images, members and results hold, and yet each job ends. So do
 * the single jobs beside them.
 */
#include <stdio.h>
#include <string.h>

#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define LARGE 6

/* Members of 0.5 MB, and small ones between them: together they fill the pool of input files. */
static void put_shard(const char *name, size_t count, uint32_t seed)
{
    struct shard_member members[64];
    struct picture_file small = picture_load(in_path("small.jpg")), large[LARGE];
    for (size_t i = 0; i < LARGE; i++)
        large[i] = picture_load(in_path(text_of("g/%zu.jpg", i)));
    for (size_t i = 0; i < count; i++) {
        uint32_t r = picture_random(&seed);
        const struct picture_file *file = r % 2 ? &large[r % LARGE] : &small;
        members[i] = (struct shard_member){text_of("%03zu.jpg", i), file->bytes, file->length};
    }
    struct picture_file shard = shard_make(members, count);
    picture_save(&shard, in_path(name));
    picture_free(&shard);
    picture_free(&small);
    for (size_t i = 0; i < LARGE; i++)
        picture_free(&large[i]);
}

static void fill(void)
{
    put_jpeg("small.jpg", .width = 100, .height = 80);
    for (uint32_t i = 0; i < LARGE; i++)
        put_jpeg(text_of("g/%u.jpg", i), .width = 1100, .height = 800, .quality = 95,
                 .seed = i + 1);
    put_shard("a.tar", 48, 7);
    put_shard("b.tar", 64, 9);
}

/* The sources and outputs of eight jobs. Each holds another kind of memory while it waits. */
static void push_sets(void)
{
    static const char resize[] = "'ops':[{'op':'resize','width':300,'height':300,'fit':'exact'}]";
    static const char list[] = "['g/0.jpg','small.jpg','g/1.jpg','g/2.jpg','g/3.jpg','g/4.jpg',"
                               "'small.jpg','g/5.jpg']";
    static const char keys[] = "[{'key':'gpuimgd:img:k'},'g/1.jpg',{'key':'gpuimgd:img:k'},"
                               "'g/2.jpg',{'key':'gpuimgd:img:k'},'g/3.jpg']";
    for (int i = 0; i < 2; i++) {
        world_push(w,
                   "{'inputs':{'archive':'a.tar'},'output':{'path':'a%d.tar','format':'png'},"
                   "'ops':['sobel']}",
                   i);
        world_push(w,
                   "{'inputs':{'archive':'b.tar'},'outputs':[{'output':'b%d/%%p.jpg',%s},"
                   "{'output':{'path':'b%d.npy','pack':'array'},%s}]}",
                   i, resize, i, resize);
        world_push(w,
                   "{'inputs':%s,'outputs':[{'output':{'path':'l%d.npy','pack':'array'},%s},"
                   "{'output':{'path':'l%d/%%n.png'},'ops':['sobel']}]}",
                   list, i, resize, i);
        world_push(w, "{'inputs':%s,'output':{'path':'k%d.npy','pack':'array'},%s}", keys, i,
                   resize);
    }
    for (int i = 0; i < 6; i++)
        world_push(w, "{'input':'g/%d.jpg','output':'s%d.jpg','ops':['sobel']}", i, i);
}

static void run_all_sets(const char *workers, const char *inflight)
{
    world_set_picture(w, "gpuimgd:img:k", picture_load(in_path("g/3.jpg")));
    push_sets();
    struct process *daemon = start_ready(0, "--host_bytes=24M", "--pinned_bytes=32M", workers,
                                         inflight, "--input_bytes_max=6M");
    for (int i = 0; i < 14; i++) {
        cJSON *result = check_next(w);
        if (json_at(result, "images"))
            check_has(result, "{'images.failed':0}");
        check_done(result);
    }
    check_stop(daemon);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
}

TEST(test_one_worker)
{
    run_all_sets("--workers=1", "--inflight=1");
}

TEST(test_two_workers)
{
    run_all_sets("--workers=2", "--inflight=8");
}

TEST(test_four_workers)
{
    run_all_sets("--workers=4", "--inflight=16");
}

/* A job that waits for its turn longer than its timeout_s, which bounds each image. */
TEST(test_turns_cost_no_time)
{
    char inputs[2048] = "'g/0.jpg'";
    size_t end = strlen(inputs);
    for (int i = 1; i < 100; i++)
        end += (size_t)snprintf(inputs + end, sizeof inputs - end, ",'g/%d.jpg'", i % LARGE);
    world_push(w, "{'inputs':[%s],'output':'first/%%n.png'}", inputs);
    world_push(w, "{'inputs':['small.jpg'],'output':'second.tar','timeout_s':%g}", patience(0.3));
    struct process *daemon = start_ready(0, "--workers=1", "--inflight=4");
    double start = process_now();
    for (int i = 0; i < 2; i++)
        check_done(check_next(w));
    assert_true(process_now() - start > patience(0.3)); /* else nothing was tested */
    check_stop(daemon);
}

WORLD_MAIN(EMPTY_WORLD, .fill = fill)
