/*
 * compare - runs the same jobs on the CPU engine and on CUDA: all output files must be equal.
 *
 *     compare --daemon PATH [--jobs 200] [--seed N]
 *
 * Exit status: 0: all files are equal; 1: a file differs; 77: there is no CUDA device.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fixtures/arguments.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define INPUTS 24
#define NO_CUDA 77

static const char *const chains[] = {
    "[]",
    "['grayscale']",
    "['sobel']",
    "['grayscale','sobel']",
    "[{'op':'grayscale','weights':[13933,46871,4732]}]",
    "[{'op':'grayscale','weights':[32768,16384,16384]},{'op':'sobel','magnitude':'l2'}]",
    "[{'op':'sobel','magnitude':'l1'}]",
    "[{'op':'sobel','magnitude':'l2'}]",
    "[{'op':'sobel','border':'replicate'}]",
    "[{'op':'sobel','border':'zero','magnitude':'l1'}]",
    "['sobel','sobel']",
};
#define CHAINS (sizeof chains / sizeof *chains)

static void put_inputs(struct world *world, uint32_t *random)
{
    static const int colours[] = {0, 2, 3, 4, 6};
    for (uint32_t i = 0; i < INPUTS; i++) {
        char name[32];
        bool tiny = i % 6 == 5;
        uint32_t width = 1 + picture_random(random) % (tiny ? 9 : 1900);
        uint32_t height = 1 + picture_random(random) % (tiny ? 9 : 1400);
        struct picture_jpeg jpeg = {.width = width, .height = height, .seed = i + 1,
                                    .progressive = i % 4 == 0, .orientation = (int)(i / 2 % 8) + 1,
                                    .colour = i % 10 == 2 ? PICTURE_GRAY : PICTURE_YCBCR};
        struct picture_png png = {.width = width, .height = height, .seed = i + 1, .level = 1,
                                  .colour_type = colours[i / 2 % 5],
                                  .bit_depth = i % 12 == 7 && colours[i / 2 % 5] != 3 ? 16 : 8,
                                  .transparent = i % 12 == 5 && colours[i / 2 % 5] < 4};
        snprintf(name, sizeof name, "%u.img", i);
        world_put_picture(world, name, i % 2 ? picture_png(&png) : picture_jpeg(&jpeg));
    }
}

/* Starts a daemon with this engine, gives it all jobs, and counts the results with status done. */
static bool run_engine(struct world *world, const char *engine, unsigned jobs, uint32_t random)
{
    unsigned done = 0;
    const char *out = text_of("%s/%s", world->out, engine);
    snprintf(world->ns, sizeof world->ns, "%s", engine);
    mkdir(out, 0755);
    struct process *daemon = world_start(world, 0, text_of("--output_root=%s", out),
                                         text_of("--engine=%s", engine), "--lease_s=30",
                                         "--renew_s=5", NULL);
    if (!world_ready(daemon))
        return false;
    for (unsigned i = 0; i < jobs; i++) {
        uint32_t pick = picture_random(&random);
        world_push(world, "{'id':'%u','input':'%u.img','output':'%u.%s','ops':%s,"
                          "'background':[%u,30,200]}",
                   i, pick % INPUTS, i, pick >> 8 & 1 ? "jpg" : "png", chains[(pick >> 9) % CHAINS],
                   pick >> 24);
    }
    for (unsigned i = 0; i < jobs; i++) {
        cJSON *result = world_result(world, 60);
        bool right = result && !strcmp(json_text(result, "status"), "done") &&
                     !strncmp(json_text(result, "engine"), engine, strlen(engine));
        char *text = right ? NULL : cJSON_PrintUnformatted(result);
        if (!right)
            printf("%s: not done: %s\n", engine, text ? text : "no result");
        free(text);
        done += right;
        cJSON_Delete(result);
        if (!result)
            break;
    }
    process_signal(daemon, SIGTERM);
    return process_wait(daemon, 30) == 0 && done == jobs;
}

static bool same_file(const struct world *world, const char *name)
{
    const char *path[2];
    size_t length[2] = {0, 0};
    unsigned char *bytes[2];
    for (int i = 0; i < 2; i++) {
        path[i] = text_of("%s/%s/%s", world->out, i ? "cuda" : "cpu", name);
        bytes[i] = text_file_bytes(path[i], &length[i]);
    }
    bool same = bytes[0] && bytes[1] && length[0] == length[1] &&
                !memcmp(bytes[0], bytes[1], length[0]);
    if (!same) {
        char where[160] = "";
        struct raster cpu = raster_load(path[0], RASTER_COLOUR);
        struct raster cuda = raster_load(path[1], RASTER_COLOUR);
        size_t count = raster_differ(&cuda, &cpu, 0, where, sizeof where);
        printf("%s differs: cpu %zu bytes, cuda %zu bytes; %zu samples, first (cuda against cpu) "
               "%s\n", name, length[0], length[1], count, where);
        raster_clear(&cpu);
        raster_clear(&cuda);
    }
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

static int compare(unsigned jobs, uint32_t seed)
{
    struct world world;
    uint32_t random = seed;
    unsigned equal = 0;
    world_open(&world, redis_server_start(NULL, NULL));
    put_inputs(&world, &random);
    bool ran = run_engine(&world, "cpu", jobs, seed) && run_engine(&world, "cuda", jobs, seed);
    for (unsigned i = 0, told = 0; i < jobs && told < 5; i++) {
        bool jpeg = access(text_of("%s/cpu/%u.jpg", world.out, i), F_OK) == 0;
        bool same = same_file(&world, text_of("%u.%s", i, jpeg ? "jpg" : "png"));
        equal += same;
        told += !same;
    }
    printf("%u of %u outputs are equal on cpu and cuda (seed %u)\n", equal, jobs, seed);
    world_close(&world);
    return ran && equal == jobs ? 0 : 1;
}

int main(int argc, char **argv)
{
    unsigned jobs = 200, seed = 1;
    const char *daemon = getenv("GPUIMGD");
    const struct argument options[] = {{"daemon", .text = &daemon}, {"jobs", .number = &jobs},
                                       {"seed", .number = &seed}, {.name = NULL}};
    if (arguments_read(argc, argv, options) != argc || !daemon || jobs == 0) {
        fprintf(stderr, "usage: compare --daemon PATH [--jobs N] [--seed N]\n");
        return 64;
    }
    setenv("GPUIMGD", daemon, 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!world_has_cuda()) {
        printf("no CUDA device here, or a daemon built without CUDA\n");
        return NO_CUDA;
    }
    return compare(jobs, seed | 1);
}
