/*
 * compare - runs the same jobs on the CPU engine and on CUDA: all results must be equal.
 *
 *     compare --daemon PATH [--jobs 200] [--seed N] [--folder FOLDER]
 *
 * The inputs are made, or are the JPEG, PNG, WebP and AVIF files below FOLDER. A job with a file of
 * FOLDER may fail, with the same error on both engines.
 *
 * Exit status: 0: all results are equal; 1: a result differs; 77: there is no CUDA device.
 */
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fixtures/arguments.h"
#include "tests/fixtures/profile.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define INPUTS 60
#define FILES_MAX 100000
#define NAME_MAX_BYTES 512
#define NO_CUDA 77

/* Names below `folder`, or below the world's input_root if it is empty. */
static struct {
    char folder[PATH_MAX];
    unsigned count;
    char names[FILES_MAX][NAME_MAX_BYTES];
} inputs;

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
    "['to_srgb']",
    "['to_srgb',{'op':'resize','width':330}]",
    "['to_srgb',{'op':'crop','x':0,'y':0,'width':1,'height':1},{'op':'pad','left':9,'top':4}]",
    "[{'op':'color_matrix','matrix':[[0.4,0.4,0.2,0],[0,1,0,5],[0.1,0.1,0.8,0]]}]",
    "[{'op':'convolve','kernel':[[1,2,1],[2,4,2],[1,2,1]],'scale':16}]",
    "[{'op':'rotate','angle':7.5}]",
    "['blurhash','thumbhash','histogram']",
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
#ifdef GPUIMGD_WEBP
    {"webp", ""},
    {"webp", ",'quality':100"},
    {"webp", ",'quality':40"},
#endif
#ifdef GPUIMGD_AVIF
    {"avif", ""},
    {"avif", ",'quality':95,'effort':1"},
    {"avif", ",'quality':30,'effort':3"},
#endif
};
#define OUTPUTS (sizeof outputs / sizeof *outputs)

/* Every third input has a profile. At these widths, the last four RGB pixels of a row end after its
 * padding. */
static const uint32_t widths[] = {9,   10,  21,  41,  42,  53,  330,
                                  426, 533, 554, 682, 853, 1066, 1290};

static bool is_png(uint32_t i)
{
    return i % 4 == 3;
}

static int png_type(uint32_t i)
{
    static const int types[] = {0, 2, 3, 4, 6};
    return types[i / 4 % 5];
}

static bool has_colours(uint32_t i)
{
    return png_type(i) != 0 && png_type(i) != 4;
}

static struct picture_file profile_at(uint32_t i)
{
    static const struct profile_matrix *const matrices[] = {&profile_p3, &profile_adobe,
                                                            &profile_prophoto};
    if (i % 3 != 0)
        return (struct picture_file){0};
    return is_png(i) && !has_colours(i) ? profile_of_gray(1.8) /* libpng refuses RGB for gray */
                                        : profile_of_matrix(matrices[i / 3 % 3]);
}

static struct picture_file make_input(uint32_t i, uint32_t width, uint32_t height,
                                      struct picture_file icc)
{
    static const int subsamplings[] = {420, 422, 444};
    static const enum picture_colour colours[] = {PICTURE_YCBCR, PICTURE_YCBCR, PICTURE_GRAY,
                                                  PICTURE_YCBCR, PICTURE_RGB,   PICTURE_YCBCR,
                                                  PICTURE_CMYK,  PICTURE_YCCK};
    int type = png_type(i);
    if (is_png(i))
        return make_png(.width = width, .height = height, .seed = i + 1, .level = 1,
                        .colour_type = type, .bit_depth = i % 8 == 7 && type != 3 ? 16 : 8,
                        .transparent = i % 12 == 3 && type < 4, .icc = icc.bytes,
                        .icc_bytes = icc.length);
    return make_jpeg(.width = width, .height = height, .seed = i + 1,
                     .progressive = i % 4 == 1, .orientation = (int)(i % 8) + 1,
                     .colour = colours[i / 3 % 8], .subsampling = subsamplings[i % 3],
                     .quality = 50 + (int)(i * 7 % 50), .restart_rows = i % 5 == 2,
                     .icc = icc.bytes, .icc_bytes = icc.length);
}

static void put_inputs(struct world *world, uint32_t *random)
{
    for (uint32_t i = 0; i < INPUTS; i++) {
        bool tiny = i % 6 == 5;
        uint32_t width = 1 + picture_random(random) % (tiny ? 9 : 1900);
        uint32_t height = 1 + picture_random(random) % (tiny ? 9 : 1400);
        struct picture_file icc = profile_at(i);
        if (i % 2 == 0)
            width = widths[i / 2 % (sizeof widths / sizeof *widths)];
        snprintf(inputs.names[i], sizeof *inputs.names, "%u.img", i);
        world_put_picture(world, inputs.names[i], make_input(i, width, height, icc));
        picture_free(&icc);
    }
    inputs.count = INPUTS;
}

/* ---- files of a user ---- */

static bool has_suffix(const char *path)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png", ".webp", ".avif"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

/* A name with a quotation mark or a backslash would need an escape in the job. */
static int add_file(const char *path, const struct stat *about, int type, struct FTW *walk)
{
    const char *name = path + strlen(inputs.folder) + 1;
    (void)about, (void)walk;
    if (type != FTW_F || !has_suffix(path) || strpbrk(name, "\"'\\") ||
        strlen(name) >= sizeof *inputs.names)
        return 0;
    snprintf(inputs.names[inputs.count++], sizeof *inputs.names, "%s", name);
    return inputs.count == FILES_MAX;
}

static bool find_files(const char *folder)
{
    if (!realpath(folder, inputs.folder) || nftw(inputs.folder, add_file, 16, FTW_PHYS) < 0)
        perror(folder);
    else if (inputs.count == 0)
        fprintf(stderr, "%s: no .jpg, .jpeg, .png, .webp or .avif file\n", folder);
    return inputs.count > 0;
}

/* ---- jobs ---- */

static const char *output_name(unsigned job, uint32_t seed)
{
    return text_of("%u.%s", job, outputs[(seed + job) % OUTPUTS].suffix);
}

/* What must be equal in the results of both engines besides the files: the code of an error, or the
 * values. malloc'd. */
static char *text_of_result(const cJSON *result)
{
    const cJSON *values = cJSON_GetObjectItem(result, "values");
    const cJSON *error = cJSON_GetObjectItem(result, "error");
    char *text = values ? cJSON_PrintUnformatted(values) : NULL, *all = NULL;
    if (asprintf(&all, "%s %s %s", json_text(result, "status"), json_text(error, "code"),
                 text ? text : "") < 0)
        all = NULL;
    free(text);
    return all;
}

static void push_job(struct world *world, unsigned job, uint32_t pick, uint32_t seed)
{
    world_push(world, "{'id':'%u','input':'%s','output':{'path':'%s'%s},'ops':%s,"
                      "'background':[%u,30,200]}",
               job, inputs.names[pick % inputs.count], output_name(job, seed),
               outputs[(seed + job) % OUTPUTS].settings, chains[(pick >> 9) % CHAINS], pick >> 24);
}

/* Starts a daemon with this engine, gives it all jobs, and keeps the text of each result. Returns
 * whether all results came; a made input may not fail. */
static bool run_engine(struct world *world, const char *engine, unsigned jobs, uint32_t seed,
                       char **texts)
{
    unsigned right = 0;
    uint32_t random = seed;
    const char *out = text_of("%s/%s", world->out, engine);
    snprintf(world->ns, sizeof world->ns, "%s", engine);
    mkdir(out, 0755);
    const char *in = text_of("--input_root=%s", inputs.folder[0] ? inputs.folder : world->in);
    struct process *daemon = world_start(world, 0, in, text_of("--output_root=%s", out),
                                         text_of("--engine=%s", engine), "--lease_s=30",
                                         "--renew_s=5", NULL);
    if (!world_ready(daemon))
        return false;
    for (unsigned i = 0; i < jobs; i++)
        push_job(world, i, picture_random(&random), seed);
    for (unsigned i = 0; i < jobs; i++) {
        cJSON *result = world_result(world, 60);
        if (!result) {
            printf("%s: no result in time\n", engine);
            break;
        }
        unsigned job = (unsigned)strtoul(json_text(result, "id"), NULL, 10);
        texts[job] = text_of_result(result);
        bool done = strcmp(json_text(result, "status"), "done") == 0 &&
                    strncmp(json_text(result, "engine"), engine, strlen(engine)) == 0;
        if (!done && !inputs.folder[0])
            printf("%s: job %u is not done: %s\n", engine, job, texts[job]);
        right += done || inputs.folder[0];
        cJSON_Delete(result);
    }
    process_signal(daemon, SIGTERM);
    return process_wait(daemon, 30) == 0 && right == jobs;
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
    const char *suffix = strrchr(name, '.');
    if (!same && (strcmp(suffix, ".webp") == 0 || strcmp(suffix, ".avif") == 0)) {
        printf("%s differs: cpu %zu bytes, cuda %zu bytes\n", name, length[0], length[1]);
    } else if (!same) {
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

static bool same_result(const struct world *world, unsigned job, uint32_t seed, const char *cpu,
                        const char *cuda)
{
    if (!cpu || !cuda || strcmp(cpu, cuda) != 0) {
        printf("job %u: cpu gives \"%s\", cuda \"%s\"\n", job, cpu ? cpu : "no result",
               cuda ? cuda : "no result");
        return false;
    }
    return strncmp(cpu, "done", 4) != 0 || same_file(world, output_name(job, seed));
}

static int compare(unsigned jobs, uint32_t seed)
{
    struct world world;
    uint32_t random = seed;
    unsigned equal = 0, done = 0;
    char **cpu = calloc(jobs, sizeof *cpu), **cuda = calloc(jobs, sizeof *cuda);
    if (!cpu || !cuda)
        abort();
    world_open(&world, redis_server_start(NULL, NULL));
    if (!inputs.folder[0])
        put_inputs(&world, &random);
    bool ran = run_engine(&world, "cpu", jobs, seed, cpu) &&
               run_engine(&world, "cuda", jobs, seed, cuda);
    for (unsigned i = 0, told = 0; i < jobs && told < 5; i++) {
        bool same = same_result(&world, i, seed, cpu[i], cuda[i]);
        equal += same;
        done += cpu[i] && strncmp(cpu[i], "done", 4) == 0;
        told += !same;
    }
    printf("%u of %u results are equal on cpu and cuda, %u with files (%u inputs, seed %u)\n",
           equal, jobs, done, inputs.count, seed);
    for (unsigned i = 0; i < jobs; i++) {
        free(cpu[i]);
        free(cuda[i]);
    }
    free(cpu);
    free(cuda);
    world_close(&world);
    return ran && equal == jobs ? 0 : 1;
}

int main(int argc, char **argv)
{
    unsigned jobs = 200, seed = 1;
    const char *daemon = getenv("GPUIMGD"), *folder = NULL;
    const struct argument options[] = {{"daemon", .text = &daemon}, {"jobs", .number = &jobs},
                                       {"seed", .number = &seed}, {"folder", .text = &folder},
                                       {.name = NULL}};
    if (arguments_read(argc, argv, options) != argc || !daemon || jobs == 0) {
        fprintf(stderr, "usage: compare --daemon PATH [--jobs N] [--seed N] [--folder FOLDER]\n");
        return 64;
    }
    setenv("GPUIMGD", daemon, 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!world_has_cuda()) {
        printf("no CUDA device here, or a daemon built without CUDA\n");
        return NO_CUDA;
    }
    if (folder && !find_files(folder))
        return 1;
    return compare(jobs, seed | 1);
}
