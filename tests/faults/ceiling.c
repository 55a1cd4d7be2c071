/*
 * ceiling.c - jobs that need as much memory as possible; the daemon must stay below its limit.
 *
 * Both workers hang while the daemon fetches as many jobs as it can, with `inflight` 4,096. Then
 * Redis is stopped and the workers continue, so that each job keeps its memory. Redis continues
 * when the daemon is idle. The maximum resident memory must be below the sum of pinned_bytes,
 * host_bytes and the constants of gpuimgd.conf(5) (conf/limits.h). At last each job must have its
 * result.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "tests/faults/rig.h"

#define WORKERS 2
#define PINNED_BYTES (80 * MIB)
#define HOST_BYTES   (128 * MIB)
#define JOBS_EACH_MAX 256

/* ---- the attacks ----------------------------------------------------------------------------- */

/* 57 MB of tables from 5 KB: three outputs of 32 resizes each. */
static void write_tables(FILE *text, const char *id)
{
    fprintf(text, "{\"id\":\"%s\",\"input\":\"p.jpg\",\"outputs\":[", id);
    for (int output = 0; output < 3; output++) {
        fprintf(text, "%s{\"output\":\"%s-%d.png\",\"ops\":[", output ? "," : "", id, output);
        for (int op = 0; op < JOB_OPS_MAX; op++)
            fprintf(text, "%s{\"op\":\"resize\",\"width\":%d,\"height\":%d,\"fit\":\"exact\"}",
                op ? "," : "", SIDE_DEFAULT - op % 2, 1 + op % 2);
        fprintf(text, "]}");
    }
    fprintf(text, "]}");
}

/* 18.7 MB for Redis. */
static void write_key(FILE *text, const char *id)
{
    fprintf(text, "{\"id\":\"%s\",\"input\":\"p.jpg\",\"output\":{\"key\":\"gpuimgd:img:o\","
        "\"format\":\"png\",\"compression\":0},\"ops\":[{\"op\":\"resize\",\"width\":2500,"
        "\"height\":2500,\"fit\":\"exact\",\"filter\":\"nearest\"}]}", id);
}

/* 4 MiB of a colour profile from 16 KB. */
static void write_profile(FILE *text, const char *id)
{
    fprintf(text, "{\"id\":\"%s\",\"input\":\"icc.png\",\"output\":{\"path\":\"%s.png\","
        "\"compression\":1}}", id, id);
}

/* 2.7 MB of nodes from 64 KB. */
static void write_meta(FILE *text, const char *id)
{
    fprintf(text, "{\"id\":\"%s\",\"input\":\"p.jpg\",\"output\":\"%s.png\",\"meta\":[0", id, id);
    while ((size_t)ftell(text) < JOB_BYTES_MAX - 8)
        fprintf(text, ",0");
    fprintf(text, "]}");
}

/* As many nodes in an operation, which keeps them. The job fails: the kernel is too large. */
static void write_kernel(FILE *text, const char *id)
{
    fprintf(text, "{\"id\":\"%s\",\"input\":\"p.jpg\",\"outputs\":[{\"output\":\"%s.png\"},"
        "{\"output\":\"%s-2.png\",\"ops\":[{\"op\":\"convolve\",\"kernel\":[[0", id, id, id);
    while ((size_t)ftell(text) < JOB_BYTES_MAX - 8)
        fprintf(text, ",0");
    fprintf(text, "]]}]}]}");
}

/* The largest number of operations per job, all the same and without an image. */
static void write_same(FILE *text, const char *id, const char *op)
{
    fprintf(text, "{\"id\":\"%s\",\"input\":\"tiny.png\",\"outputs\":[", id);
    for (int output = 0; output < JOB_OUTPUTS_MAX; output++) {
        fprintf(text, "%s{\"ops\":[\"%s\"", output ? "," : "", op);
        for (int i = 1; i < JOB_OPS_MAX; i++)
            fprintf(text, ",\"%s\"", op);
        fprintf(text, "]}");
    }
    fprintf(text, "]}");
}

/* 3 MB of passes from 5 KB: each hash is four of them. */
static void write_passes(FILE *text, const char *id)
{
    write_same(text, id, "phash");
}

/* 4 MB of values from 7 KB. */
static void write_values(FILE *text, const char *id)
{
    write_same(text, id, "histogram");
}

#define OVERLAYS 12

/* Up to 29 MB of overlays that no other job of the moment has, and a decoder of 4 MB. Half of
 * host_bytes holds two such jobs. */
static void write_overlays(FILE *text, const char *id)
{
    unsigned number = (unsigned)strtoul(id + strcspn(id, "0123456789"), NULL, 10);
    fprintf(text, "{\"id\":\"%s\",\"input\":\"p.jpg\",\"output\":\"%s.png\",\"ops\":[", id, id);
    for (unsigned i = 0; i < 5; i++)
        fprintf(text, "{\"op\":\"composite\",\"input\":\"over%u.png\",\"opacity\":0.%u},",
                (number * 5 + i) % OVERLAYS, 1 + number % 9);
    fprintf(text, "{\"op\":\"composite\",\"scale\":0.%u,\"input\":\"progressive%u.jpg\"}]}",
            1 + number % 9, number % 3);
}

static void put_overlays(struct rig *rig)
{
    for (unsigned i = 0; i < OVERLAYS; i++)
        world_put_picture(&rig->world, text_of("over%u.png", i), picture_png(&(struct picture_png){
            .width = 1200, .height = 1200, .colour_type = 6, .level = 1, .seed = i}));
    for (unsigned i = 0; i < 3; i++)
        world_put_picture(&rig->world, text_of("progressive%u.jpg", i),
                          picture_jpeg(&(struct picture_jpeg){
            .width = 1000, .height = 1000, .progressive = true, .seed = i}));
}

static void put_inputs(struct rig *rig)
{
    put_overlays(rig);
    struct picture_file icc = picture_icc(ICC_BYTES_MAX, "RGB ");
    memset(icc.bytes + 128, 0, icc.length - 128); /* no tags; compresses to almost nothing */
    world_put_picture(&rig->world, "icc.png", picture_png(&(struct picture_png){
        .width = 16, .height = 16, .colour_type = 2, .level = 9, .icc = icc.bytes,
        .icc_bytes = icc.length}));
    picture_free(&icc);
    world_put_picture(&rig->world, "tiny.png", picture_png(&(struct picture_png){
        .width = 16, .height = 16, .colour_type = 2}));
}

/* ---- the measurement ------------------------------------------------------------------------- */

static size_t ceiling(void)
{
    return PINNED_BYTES + HOST_BYTES + HEAP_BASE_BYTES + WORKERS * WORKER_BYTES +
           INFLIGHT_CEILING * HEAP_JOB_BYTES;
}

/* Waits until no more jobs are fetched: all are, or the daemon has no room for more. */
static void wait_for_fetches(struct rig *rig)
{
    long long left = -1, before;
    do {
        before = left;
        process_mark(&rig->world.daemons[0]);
        process_sleep(patience(0.3));
        left = redis_integer(rig->world.client, "LLEN %s:jobs", rig->world.ns);
    } while (left > 0 && left != before);
}

/* Waits until the daemon uses no CPU time. */
static void wait_for_rest(struct rig *rig, struct process *daemon, double seconds)
{
    double deadline = process_now() + patience(seconds), spent = -1, before;
    do {
        before = spent;
        process_mark(&rig->world.daemons[0]);
        process_sleep(patience(0.5));
        spent = process_cpu_s(daemon);
    } while (spent - before > 0.03 && process_now() < deadline);
}

struct attack {
    const char *prefix;
    void (*write)(FILE *text, const char *id);
    unsigned jobs;
};

static void push(struct rig *rig, const struct attack *attack, unsigned number)
{
    const char *id = text_of("%s%u", attack->prefix, number);
    char *bytes = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&bytes, &length);
    attack->write(text, id);
    fclose(text);
    if (length > JOB_BYTES_MAX)
        abort();
    rig_expects(rig, id);
    world_push_bytes(&rig->world, bytes, length);
    free(bytes);
}

/* Jobs of all kinds, in rotation. */
static void push_all(struct rig *rig, const struct attack *attacks, size_t count)
{
    for (unsigned number = 0; number < JOBS_EACH_MAX; number++)
        for (size_t i = 0; i < count; i++)
            if (number < attacks[i].jobs)
                push(rig, &attacks[i], number);
}

/* Starts a daemon that fetches the jobs and runs them while Redis is stopped. */
static struct process *begin(struct rig *rig, const struct attack *attacks, size_t count,
                             const char *lease)
{
    rig_raise(rig, "hold");
    const char *fault = text_of("run=read,action=hang,match=hold,while=%s", rig_flag(rig, "hold"));
    put_inputs(rig);
    struct process *daemon =
        rig_start(rig, 0, fault, "--workers=2", "--inflight=4096", "--pinned_bytes=80M",
                  "--host_bytes=128M", lease, "--command_timeout_s=600", "--job_timeout_s=600",
                  "--hang_grace_s=600", "--stats_interval_s=600", "--drain_timeout_s=1", NULL);
    rig_push(rig, "hold", WORKERS);
    push_all(rig, attacks, count);
    wait_for_fetches(rig);
    redis_server_freeze(rig->world.redis, true);
    rig_lower(rig, "hold");
    wait_for_rest(rig, daemon, 120);
    return daemon;
}

static void attack_with(struct rig *rig, const struct attack *attacks, size_t count)
{
    if (SANITIZED) {
        rig_skip(rig, "a sanitizer has memory of its own");
        return;
    }
    struct process *daemon = begin(rig, attacks, count, "--lease_s=600");
    size_t frozen = process_peak_kib(daemon);
    redis_server_freeze(rig->world.redis, false);
    bool all = rig_wait(rig, 200);
    size_t peak = process_peak_kib(daemon), most = ceiling() / KIB;
    fprintf(stderr, "ceiling, %s: %zu MiB while Redis was stopped, %zu in all, of %zu\n",
            count == 1 ? attacks->prefix : "mixture", frozen / 1024, peak / 1024, most / 1024);
    rig_saw_if(rig, all, "all answered");
    if (peak < most)
        rig_saw(rig, "below the ceiling");
    else
        rig_saw(rig, "%zu MiB, above %zu", peak / 1024, most / 1024);
    rig_saw_done(rig, "");
}

static const struct attack attacks[] = {
    {"tables", write_tables, 24},  {"key", write_key, 40},       {"profile", write_profile, 200},
    {"meta", write_meta, 240},     {"passes", write_passes, 200}, {"values", write_values, 80},
    {"overlays", write_overlays, 20}, {"kernel", write_kernel, 240},
};
#define ATTACKS (sizeof attacks / sizeof *attacks)

/* with: the prefix. */
static void attack_alone(struct rig *rig)
{
    for (size_t i = 0; i < ATTACKS; i++)
        if (strcmp(attacks[i].prefix, rig->fault->with[0]) == 0)
            attack_with(rig, &attacks[i], 1);
}

/* All but the last, whose jobs fail. */
static void attack_all(struct rig *rig)
{
    struct attack all[ATTACKS - 1];
    for (size_t i = 0; i < ATTACKS - 1; i++) {
        all[i] = attacks[i];
        all[i].jobs = (all[i].jobs + 2) / 3;
    }
    attack_with(rig, all, ATTACKS - 1);
}

/* The daemon ends before Redis has the results; the next daemon computes them again. */
static void end_without_redis(struct rig *rig)
{
    struct attack few = {"key", write_key, 3};
    struct process *daemon = begin(rig, &few, 1, rig_option_s("lease_s", 3));
    rig_saw_terminated(rig, daemon);
    redis_server_freeze(rig->world.redis, false);
    rig_start(rig, 1, NULL, NULL);
    rig_wait_done(rig, 30, "");
}

#define BELOW(jobs) "all answered; below the ceiling; " jobs " done once"

const struct fault_case ceiling_faults[] = {
    CASE("tables of 57 MB from 5 KB", "24 jobs", attack_alone, BELOW("26"), .with = {"tables"},
         .slow = true, .limit_s = 300),
    CASE("18.7 MB for Redis", "40 jobs, Redis frozen", attack_alone, BELOW("42"), .with = {"key"},
         .slow = true, .limit_s = 300),
    CASE("profiles of 4 MiB from 16 KB", "200 jobs, Redis frozen", attack_alone, BELOW("202"),
         .with = {"profile"}, .slow = true, .limit_s = 300),
    CASE("meta of 2.7 MB from 64 KB", "240 jobs, Redis frozen", attack_alone, BELOW("242"),
         .with = {"meta"}, .limit_s = 300),
    CASE("a kernel of 2.7 MB from 64 KB", "240 jobs, Redis frozen", attack_alone,
         BELOW("2") ", 240 other (kernel239: failed bad_op)", .with = {"kernel"}, .slow = true,
         .limit_s = 300),
    CASE("passes of 3 MB from 5 KB", "200 jobs, Redis frozen", attack_alone, BELOW("202"),
         .with = {"passes"}, .slow = true, .limit_s = 300),
    CASE("values of 4 MB from 7 KB", "80 jobs, Redis frozen", attack_alone, BELOW("82"),
         .with = {"values"}, .slow = true, .limit_s = 300),
    CASE("overlays of 33 MB", "20 jobs, Redis frozen", attack_alone, BELOW("22"),
         .with = {"overlays"}, .limit_s = 300),
    CASE("18.7 MB for Redis at the end", "SIGTERM, Redis frozen", end_without_redis,
         "exit 0; 5 done once"),
    CASE("all of these", "270 jobs, Redis frozen", attack_all, BELOW("272"), .slow = true,
         .limit_s = 300),
    {.name = NULL},
};
