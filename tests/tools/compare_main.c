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

#define INPUTS 60
#define NO_CUDA 77

static const char *const chains[] = {
    "[]",
    "['grayscale']",
    "['sobel']",
    "['grayscale','sobel']",
    "[{'op':'grayscale','weights':[13933,46871,4732]}]",
    "[{'op':'grayscale','weights':[32768,16384,16384]},{'op':'sobel','magnitude':'l2'}]",
    "[{'op':'sobel','magnitude':'l1'}]",
    "[{'op':'sobel','border':'replicate'}]",
    "[{'op':'sobel','border':'zero','magnitude':'l1'}]",
    "['sobel','sobel']",
    "['canny']",
    "[{'op':'resize','width':256}]",
    "[{'op':'resize','width':200,'height':200,'fit':'cover'},'sobel']",
    "[{'op':'resize','width':97,'height':61,'fit':'exact','filter':'bicubic'}]",
    "[{'op':'rotate','angle':90},'invert']",
    "[{'op':'flip','axis':'vertical'},{'op':'gamma','gamma':1.8}]",
    "['transpose','grayscale']",
    "[{'op':'gaussian','ksize':7},{'op':'levels','in_black':20,'in_white':230}]",
    "[{'op':'unsharp','ksize':5}]",
    "[{'op':'median','size':3},'otsu']",
    "['equalize','histogram','stats']",
    "['phash',{'op':'threshold','value':90}]",
};
#define CHAINS (sizeof chains / sizeof *chains)

/* The part of an output after its path. */
static const struct {
    const char *suffix, *settings;
} outputs[] = {
    {"jpg", ""},
    {"jpg", ",'quality':100"},
    {"jpg", ",'quality':40"},
    {"jpg", ",'progressive':true"},
    {"png", ""},
};
#define OUTPUTS (sizeof outputs / sizeof *outputs)

static struct picture_file make_input(uint32_t i, uint32_t width, uint32_t height)
{
    static const int png_types[] = {0, 2, 3, 4, 6}, subsamplings[] = {420, 422, 444};
    static const enum picture_colour colours[] = {PICTURE_YCBCR, PICTURE_YCBCR, PICTURE_GRAY,
                                                  PICTURE_YCBCR, PICTURE_RGB,   PICTURE_YCBCR,
                                                  PICTURE_CMYK,  PICTURE_YCCK};
    int type = png_types[i / 4 % 5];
    if (i % 4 == 3)
        return make_png(.width = width, .height = height, .seed = i + 1, .level = 1,
                        .colour_type = type, .bit_depth = i % 8 == 7 && type != 3 ? 16 : 8,
                        .transparent = i % 12 == 3 && type < 4);
    return make_jpeg(.width = width, .height = height, .seed = i + 1,
                     .progressive = i % 4 == 1, .orientation = (int)(i % 8) + 1,
                     .colour = colours[i / 3 % 8], .subsampling = subsamplings[i % 3],
                     .quality = 50 + (int)(i * 7 % 50), .restart_rows = i % 5 == 2);
}

static void put_inputs(struct world *world, uint32_t *random)
{
    for (uint32_t i = 0; i < INPUTS; i++) {
        bool tiny = i % 6 == 5;
        uint32_t width = 1 + picture_random(random) % (tiny ? 9 : 1900);
        uint32_t height = 1 + picture_random(random) % (tiny ? 9 : 1400);
        world_put_picture(world, text_of("%u.img", i), make_input(i, width, height));
    }
}

static const char *output_name(unsigned job, uint32_t seed)
{
    return text_of("%u.%s", job, outputs[(seed + job) % OUTPUTS].suffix);
}

/* Starts a daemon with this engine, gives it all jobs, and counts the results with status done. */
static bool run_engine(struct world *world, const char *engine, unsigned jobs, uint32_t seed)
{
    unsigned done = 0;
    uint32_t random = seed;
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
        world_push(world, "{'id':'%u','input':'%u.img','output':{'path':'%s'%s},'ops':%s,"
                          "'background':[%u,30,200]}",
                   i, pick % INPUTS, output_name(i, seed),
                   outputs[(seed + i) % OUTPUTS].settings, chains[(pick >> 9) % CHAINS],
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
        bool same = same_file(&world, output_name(i, seed));
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
