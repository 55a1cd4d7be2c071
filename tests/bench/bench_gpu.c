/*
 * bench_gpu - measures the engine and its kernels with pixels from memory, without codecs.
 *
 *     bench_gpu [STREAMS ...]                       everything
 *     bench_gpu kernels|cpu [WIDTHxHEIGHT [NAME]]   one table; only rows whose name contains NAME
 *     bench_gpu small|resize|reads                  one table
 *
 * The tables, in this order:
 *   1. The copy rates of the machine.
 *   2. The engine on three loads, with 1, 2, 4, 8, 16 and its own number of streams. The bound is
 *      the larger of copies alone and kernels alone, for the same jobs in the same run.
 *   3. The cost of a small job for the device's thread.
 *   4. Each kernel against the device's copy rate. The image is as smooth as a photograph; another
 *      column has noise, which causes bank conflicts in table lookups from shared memory.
 *   5. Resizing to one and to several sizes; `cpu WIDTHxHEIGHT resize`: only this table, for the
 *      CPU engine.
 *   6. Reads of a table in constant, shared and global memory.
 *
 * Table 4 has columns for one stream and for four streams in turn, and "alike" for a single copy of
 * equally many bytes: FIGURES.md says why. Run it at 15 megapixels (the default) and at 48, near
 * the default limit of 50. Without a device, only the passes of the CPU engine run, on one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/op_list.h"
#include "gpu/engine/task_wait.h"
#include "tests/bench/bench_device.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/profile.h"

/* The size of the image in pixels. */
static uint32_t width = 5120, height = 2880;

static double mpixels(void)
{
    return (double)width * height * 1e-6;
}

struct load {
    const char *name;
    uint32_t channels; /* 6: RGB of 16 bits */
    int orientation;
    bool opaque;
    const char *ops;
    unsigned jobs; /* per run of the engine; 0: measure kernels only */
    struct plan plan;
    bool ycc; /* the source is Y, Cb and Cr */
};

#define KERNEL_3 "[[-1,-1,-1],[-1,9,-1],[-1,-1,-1]]"
#define ONES_15 "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"
#define ONES_5_ROWS ONES_15 "," ONES_15 "," ONES_15 "," ONES_15 "," ONES_15
#define KERNEL_15 "[" ONES_5_ROWS "," ONES_5_ROWS "," ONES_5_ROWS "]"
#define CONVOLVE(kernel) "[{\"op\":\"convolve\",\"kernel\":" kernel "}]"
#define SLOW_CHAIN                                                                                \
    "[{\"op\":\"convolve\",\"kernel\":" KERNEL_15 "},{\"op\":\"median\",\"size\":5}]"
#define GAUSSIAN_OP(ksize) "{\"op\":\"gaussian\",\"ksize\":" #ksize "}"
#define GAUSSIAN(ksize) "[" GAUSSIAN_OP(ksize) "]"

#define LOAD(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__, {.idle = false}, false                                                        \
    }
#define LOAD_YCC(...)                                                                              \
    {                                                                                              \
        __VA_ARGS__, 0, {.idle = false}, true                                                      \
    }

#define GAMMA "{\"op\":\"gamma\",\"gamma\":2.2}"
#define LEVELS "{\"op\":\"levels\",\"in_black\":16,\"in_white\":235}"
#define SEPIA                                                                                      \
    "{\"op\":\"color_matrix\",\"matrix\":[[0.393,0.769,0.189,0],[0.349,0.686,0.168,0],"            \
    "[0.272,0.534,0.131,0]]}"
#define PAD "{\"op\":\"pad\",\"left\":100,\"top\":10,\"right\":99,\"bottom\":10}"
#define PAD_CLEAR "{\"op\":\"pad\",\"left\":100,\"right\":99,\"color\":\"transparent\"}"
#define ROTATE "{\"op\":\"rotate\",\"angle\":12,\"expand\":false}"
/* load_ops replaces @ and a letter by a number of pixels. */
#define CROP "{\"op\":\"crop\",\"x\":1,\"y\":0,\"width\":@n,\"height\":@h}"
#define CROP_TALL "{\"op\":\"crop\",\"x\":0,\"y\":1,\"width\":@h,\"height\":@n}"

/* An overlay of 256 x 256 pixels all over the image: the most work per pixel. */
#define COMPOSITE "[{\"op\":\"composite\",\"input\":\"noise\",\"tile\":true,\"opacity\":0.5}]"

static struct load loads[] = {
    LOAD("sobel, gray", 1, 1, false, "[\"sobel\"]", 800),
    LOAD("RGB to edges", 3, 1, false, "[\"grayscale\",\"sobel\"]", 400),
    /* These kernels take about as long as the copies. */
    LOAD("RGB to RGB", 3, 1, false, SLOW_CHAIN, 300),
    LOAD("RGB to edges, l2", 3, 1, false, "[{\"op\":\"sobel\",\"magnitude\":\"l2\"}]", 0),
    LOAD("RGBA to edges", 4, 1, false, "[\"sobel\"]", 0),
    LOAD("levels, edges, RGB", 3, 1, false, "[\"grayscale\"," LEVELS ",\"sobel\"]", 0),
    LOAD("grayscale, RGB", 3, 1, false, "[\"grayscale\"]", 0),
    LOAD("flatten, RGBA", 4, 1, true, "[]", 0),
    LOAD("transpose, gray", 1, 1, false, "[\"transpose\"]", 0),
    LOAD("transpose, RGB", 3, 1, false, "[\"transpose\"]", 0),
    LOAD("transpose, RGBA", 4, 1, false, "[\"transpose\"]", 0),
    LOAD("rotate 90, gray", 1, 6, false, "[]", 0),
    LOAD("rotate 90, RGB", 3, 6, false, "[]", 0),
    LOAD("rotate 90, RGBA", 4, 6, false, "[]", 0),
    LOAD("rotate 180, gray", 1, 3, false, "[]", 0),
    LOAD("rotate 180, RGB", 3, 3, false, "[]", 0),
    LOAD("rotate 270, gray", 1, 8, false, "[]", 0),
    LOAD("rotate 270, RGB", 3, 8, false, "[]", 0),
    LOAD("flip h, gray", 1, 2, false, "[]", 0),
    LOAD("flip h, RGB", 3, 2, false, "[]", 0),
    LOAD("flip h, RGBA", 4, 2, false, "[]", 0),
    LOAD("flip v, gray", 1, 4, false, "[]", 0),
    LOAD("flip v, RGB", 3, 4, false, "[]", 0),
    /* Almost the whole image, from an odd byte on. */
    LOAD("crop, flip v, RGB", 3, 4, false, "[" CROP "]", 0),
    LOAD("crop, rotate, gray", 1, 6, false, "[" CROP_TALL "]", 0),
    LOAD("pad, gray", 1, 1, false, "[" PAD "]", 0),
    LOAD("pad, RGB", 3, 1, false, "[" PAD "]", 0),
    LOAD("pad, RGBA", 4, 1, false, "[" PAD "]", 0),
    LOAD("pad RGB to RGBA", 3, 1, false, "[" PAD_CLEAR "]", 0),
    LOAD("rotate 12, gray", 1, 1, false, "[" ROTATE "]", 0),
    LOAD("rotate 12, RGB", 3, 1, false, "[" ROTATE "]", 0),
    LOAD("rotate 12, RGBA", 4, 1, false, "[" ROTATE "]", 0),
    LOAD("invert, gray", 1, 1, false, "[\"invert\"]", 0),
    LOAD("gamma, RGB", 3, 1, false, "[" GAMMA "]", 0),
    LOAD("levels, RGBA", 4, 1, false, "[" LEVELS "]", 0),
    LOAD("threshold, RGB", 3, 1, false, "[\"threshold\"]", 0),
    LOAD("threshold, RGBA", 4, 1, false, "[\"threshold\"]", 0),
    LOAD("matrix, RGB", 3, 1, false, "[" SEPIA "]", 0),
    LOAD("matrix, RGBA", 4, 1, false, "[" SEPIA "]", 0),
    LOAD("to_srgb, RGB", 3, 1, false, "[\"to_srgb\"]", 0),
    LOAD("to_srgb, RGBA", 4, 1, false, "[\"to_srgb\"]", 0),
    LOAD("to_srgb table, RGB", 3, 1, false, "[\"to_srgb\"]", 0),
    LOAD_YCC("YCC to RGB", 3, 1, false, "[]"),
    LOAD_YCC("YCC to RGB, table", 3, 1, false, "[" GAMMA "]"),
    LOAD_YCC("YCC to Y", 3, 1, false, "[\"grayscale\"]"),
    LOAD("tint, gray", 1, 1, false, "[" SEPIA "]", 0),
    LOAD("4 tables, RGB", 3, 1, false, "[\"invert\"," GAMMA "," LEVELS "," GAMMA "]", 0),
    LOAD("table gray table", 3, 1, false, "[" GAMMA ",\"grayscale\"," LEVELS "]", 0),
    LOAD("table mx table RGB", 3, 1, false, "[" GAMMA "," SEPIA "," LEVELS "]", 0),
    LOAD("table mx table RGBA", 4, 1, false, "[" GAMMA "," SEPIA "," LEVELS "]", 0),
    LOAD("gaussian 5, gray", 1, 1, false, GAUSSIAN(5), 0),
    LOAD("gaussian 5, RGB", 3, 1, false, GAUSSIAN(5), 0),
    LOAD("gaussian 5, RGBA", 4, 1, false, GAUSSIAN(5), 0),
    LOAD("gaussian 9, RGB", 3, 1, false, GAUSSIAN(9), 0),
    LOAD("gaussian 17, RGB", 3, 1, false, GAUSSIAN(17), 0),
    LOAD("gaussian 31, RGB", 3, 1, false, GAUSSIAN(31), 0),
    LOAD("gamma, gaussian 5, RGB", 3, 1, false, "[" GAMMA "," GAUSSIAN_OP(5) "]", 0),
    LOAD("gray, gaussian 5, RGB", 3, 1, false, "[\"grayscale\"," GAUSSIAN_OP(5) "]", 0),
    LOAD("unsharp 5, RGB", 3, 1, false, "[\"unsharp\"]", 0),
    LOAD("convolve 3, gray", 1, 1, false, CONVOLVE(KERNEL_3), 0),
    LOAD("convolve 3, RGB", 3, 1, false, CONVOLVE(KERNEL_3), 0),
    LOAD("convolve 15, RGB", 3, 1, false, CONVOLVE(KERNEL_15), 0),
    LOAD("median 3, RGB", 3, 1, false, "[\"median\"]", 0),
    LOAD("median 5, RGB", 3, 1, false, "[{\"op\":\"median\",\"size\":5}]", 0),
    LOAD("composite, RGB", 3, 1, false, COMPOSITE, 0),
    LOAD("composite, RGBA", 4, 1, false, COMPOSITE, 0),
    LOAD("canny, gray", 1, 1, false, "[\"canny\"]", 0),
    LOAD("canny, RGB", 3, 1, false, "[\"canny\"]", 0),
    LOAD("512, gray", 1, 1, false, "[{\"op\":\"resize\",\"width\":512}]", 0),
    LOAD("512, RGB", 3, 1, false, "[{\"op\":\"resize\",\"width\":512}]", 0),
    LOAD("512, RGBA", 4, 1, false, "[{\"op\":\"resize\",\"width\":512}]", 0),
    LOAD("half, RGB", 3, 1, false, "[{\"op\":\"resize\",\"width\":@d}]", 0),
    LOAD("1.5 times, RGB", 3, 1, false, "[{\"op\":\"resize\",\"width\":@m,\"enlarge\":true}]", 0),
    LOAD("512, RGB 16", 6, 1, false, "[{\"op\":\"resize\",\"width\":512}]", 0),
    LOAD("half, RGB 16", 6, 1, false, "[{\"op\":\"resize\",\"width\":@d}]", 0),
    LOAD("transpose, RGB 16", 6, 1, false, "[\"transpose\"]", 0),
    LOAD("histogram, gray", 1, 1, false, "[\"histogram\"]", 0),
    LOAD("histogram, RGB", 3, 1, false, "[\"histogram\"]", 0),
    LOAD("histogram, RGB>Y", 3, 1, false, "[{\"op\":\"histogram\",\"gray\":true}]", 0),
    LOAD("stats, gray", 1, 1, false, "[\"stats\"]", 0),
    LOAD("stats, RGB", 3, 1, false, "[\"stats\"]", 0),
    LOAD("otsu, gray", 1, 1, false, "[\"otsu\"]", 0),
    LOAD("otsu, RGB", 3, 1, false, "[\"otsu\"]", 0),
    LOAD("equalize, gray", 1, 1, false, "[\"equalize\"]", 0),
    LOAD("palette, gray", 1, 1, false, "[\"palette\"]", 0),
    LOAD("palette, RGB", 3, 1, false, "[\"palette\"]", 0),
    LOAD("phash, gray", 1, 1, false, "[\"phash\"]", 0),
    LOAD("phash, RGB", 3, 1, false, "[\"phash\"]", 0),
    LOAD("blurhash, gray", 1, 1, false, "[\"blurhash\"]", 0),
    LOAD("blurhash, RGB", 3, 1, false, "[\"blurhash\"]", 0),
    LOAD("thumbhash, RGB", 3, 1, false, "[\"thumbhash\"]", 0),
    LOAD("attention, RGB", 3, 1, false,
         "[{\"op\":\"resize\",\"width\":512,\"height\":512,\"fit\":\"cover\","
         "\"gravity\":\"attention\"}]",
         0),
};
#define LOADS (sizeof(loads) / sizeof(loads[0]))
#define SMALL_JOBS 20000
#define SMALL_PLACES 64 /* jobs in flight */
#define EDGES_LOAD   1  /* the index of its load */

static void die(const char *what, const struct error *error)
{
    fprintf(stderr, "bench_gpu: %s: %s\n", what, error->text);
    exit(1);
}

/* Returns a size for ops that depends on the size of the image. */
static uint32_t side_named(char letter)
{
    return letter == 'h'   ? height
           : letter == 'n' ? width - 1 /* narrower */
           : letter == 'd' ? width / 2
                           : width * 3 / 2; /* m: more */
}

static struct op_item *load_ops(const struct load *load)
{
    struct error error = {0};
    struct op_item *ops;
    char text[1024];
    size_t at = 0;
    for (const char *from = load->ops; *from && at < sizeof(text) - 16; from++) {
        if (*from != '@')
            text[at++] = *from;
        else
            at += (size_t)sprintf(text + at, "%u", side_named(*++from));
    }
    text[at] = '\0';
    cJSON *json = cJSON_Parse(text);
    if (op_list_parse(&ops, json, -1, &error) != STATUS_OK)
        die(load->name, &error);
    cJSON_Delete(json);
    return ops;
}

static enum status find_overlay(void *context, const struct plan_overlay_request *request,
                                struct plan_overlay *overlay, struct error *error)
{
    enum { side = 256 };
    static uint8_t pixels[side * side * 4];
    uint32_t noise = 1;
    (void)context, (void)request, (void)error;
    for (size_t i = 0; i < sizeof pixels; i++) {
        noise = noise * 1664525 + 1013904223;
        pixels[i] = (uint8_t)(noise >> 24);
    }
    *overlay = (struct plan_overlay){.image = {pixels, side, side, 4, side * 4}};
    return STATUS_OK;
}

/* A profile with a matrix or, if there is lcms2, with tables; none without to_srgb. */
static struct picture_file profile_for(const struct load *load)
{
    struct picture_file p3 = {NULL, 0}, table;
    if (!strstr(load->name, "to_srgb"))
        return p3;
    p3 = profile_of_matrix(&profile_p3);
    if (!strstr(load->name, "table") || !profile_has_lcms)
        return p3;
    table = profile_of_table(&p3, 17);
    picture_free(&p3);
    return table;
}

static void load_open(struct load *load)
{
    static const struct plan_overlays overlays = {.find = find_overlay};
    struct error error = {0};
    struct op_item *ops = load_ops(load);
    struct plan_source source = {.width = width, .height = height, .channels = load->channels,
                                 .ycc = load->ycc, .orientation = load->orientation,
                                 .background = {255, 255, 255}};
    struct plan_target target = {.ops = ops,
                                 .opaque = load->opaque,
                                 .deep = image_is_deep(load->channels),
                                 .overlays = &overlays};
    struct picture_file profile = profile_for(load);
    source.icc = profile.bytes;
    source.icc_bytes = profile.length;
    struct plan_limits limits = {.pixels_max = PIXELS_CEILING, .side_max = SIDE_CEILING};
    if (plan_build(&load->plan, &source, &target, 1, &limits, &error) != STATUS_OK)
        die(load->name, &error);
    op_list_free(ops);
    picture_free(&profile);
}

/* Counts each input byte and each output byte once, even if a kernel reads or writes it again. */
static double bytes_a_pixel(const struct load *load)
{
    const struct plan_variant *result = &load->plan.variants[0];
    double written = result->is_source ? 0 : (double)result->width * result->height;
    return load->channels + written * result->channels / ((double)width * height);
}

/* Fills the input with a smooth image with some noise, similar to a photograph. */
static void fill(const struct load *load, uint8_t *pixels)
{
    struct image image = plan_input(&load->plan, pixels);
    uint32_t state = 1;
    for (uint32_t y = 0; y < image.height; y++) {
        for (size_t x = 0; x < image.stride; x++) {
            state = state * 1664525u + 1013904223u;
            image.pixels[y * image.stride + x] = (uint8_t)((x + y * 3) / 7 + (state >> 28));
        }
    }
}

/* ---- the engine ---- */

static struct engine *open_engine(const char *kind, uint32_t streams)
{
    struct engine *engine = NULL;
    struct error error = {0};
    struct engine_config config = {.kind = kind,
                                   .devices = strcmp(kind, "cuda") == 0 ? "0" : "all",
                                   .streams = streams,
                                   .pinned_bytes = 4 * GIB,
                                   .device_bytes = 4 * GIB};
    if (engine_open(&config, &engine, &error) == STATUS_OK)
        return engine;
    printf("%s\n", error.text);
    return NULL;
}

/* ---- the CPU ---- */

/* Only rows whose name contains `name`. */
static void bench_cpu(const char *name)
{
    struct engine *engine = open_engine("cpu", 1);
    if (!engine)
        exit(1);
    printf("\n%s, one thread, %d x %d\n%-22s %9s %9s\n", engine_description(engine), width, height,
           "pass", "MP/s", "GB/s");
    for (size_t i = 0; i < LOADS; i++) {
        const struct load *load = &loads[i];
        struct error error = {0};
        struct engine_memory memory;
        double best_s = 1e9;
        if (!strstr(load->name, name))
            continue;
        if (engine_reserve(engine, &load->plan, &memory, &error) != ENGINE_RESERVED)
            die("reserve", &error);
        fill(load, memory.input);
        plan_put_constants(&load->plan, memory.input);
        for (int repeat = 0; repeat < 7; repeat++) {
            struct engine_task task = {.plan = &load->plan, .memory = &memory};
            engine_run(engine, &task);
            if (task.kernel_ms * 1e-3 < best_s)
                best_s = task.kernel_ms * 1e-3;
        }
        printf("%-22s %9.0f %9.1f\n", load->name, mpixels() / best_s,
               mpixels() / best_s * 1e-3 * bytes_a_pixel(load));
        engine_release(engine, &memory);
    }
    if (strstr("resize", name) && bench_resize_cpu(engine) < 0)
        exit(1);
    engine_close(engine);
}

/* ---- a device ---- */

#ifdef GPUIMGD_CUDA

/* The counters belong to the device's thread while tasks run. */
static struct {
    struct engine *engine;
    unsigned to_submit;
    struct task_wait wait;
    uint64_t thread_cpu_ns; /* of the device's thread, at the end of the last job */
} run;

/* Ends the program if a measurement failed, which has printed why. */
static double must(double seconds)
{
    if (seconds < 0)
        exit(1);
    return seconds;
}

static void open_run(uint32_t streams)
{
    run.engine = open_engine("cuda", streams);
    if (!run.engine)
        exit(1);
}

struct slot {
    struct engine_memory memory;
    struct engine_task task;
};

/* Submits the next job in the place of a finished one, as a daemon with a backlog does. */
static void job_done(struct engine_task *task)
{
    if (task->error.status != STATUS_OK)
        die("a job failed", &task->error);
    if (run.to_submit > 0) {
        run.to_submit--;
        engine_submit(run.engine, task);
    }
    run.thread_cpu_ns = clock_thread_cpu_ns();
    task_wait_ended(&run.wait);
}

static double run_jobs(struct slot *slots, unsigned places, unsigned jobs)
{
    double start_s = clock_s(CLOCK_MONOTONIC);
    run.to_submit = jobs > places ? jobs - places : 0;
    task_wait_open(&run.wait);
    for (unsigned i = 0; i < places && i < jobs; i++)
        engine_submit(run.engine, &slots[i].task);
    if (!task_wait_for(&run.wait, jobs, 600))
        exit(1);
    task_wait_close(&run.wait);
    return clock_s(CLOCK_MONOTONIC) - start_s;
}

struct outcome {
    uint32_t streams;
    double wall_s, overlap, up, down;
};

/* Reserves memory of the open engine and fills a task for each place. */
static struct slot *open_places(const struct load *load, unsigned places, bool alone)
{
    struct error error = {0};
    struct slot *slots = calloc(places, sizeof(*slots));
    if (!slots)
        exit(1);
    for (unsigned i = 0; i < places; i++) {
        if (engine_reserve(run.engine, &load->plan, &slots[i].memory, &error) != ENGINE_RESERVED)
            die("reserve", &error);
        fill(load, slots[i].memory.input);
        plan_put_constants(&load->plan, slots[i].memory.input);
        slots[i].task = (struct engine_task){.plan = &load->plan, .memory = &slots[i].memory,
                                             .alone = alone, .done = job_done};
    }
    return slots;
}

static void close_places(struct slot *slots, unsigned places)
{
    for (unsigned i = 0; i < places; i++)
        engine_release(run.engine, &slots[i].memory);
    free(slots);
}

/* streams: 0 lets the engine choose. */
static struct outcome bench_streams(const struct load *load, uint32_t streams)
{
    open_run(streams);
    unsigned places = engine_slots(run.engine) + 4;
    struct slot *slots = open_places(load, places, false);
    run_jobs(slots, places, 2 * places);
    engine_take_activity(run.engine, 0, &(struct engine_activity){0});
    struct engine_activity activity = {0};
    double wall_s = run_jobs(slots, places, load->jobs);
    engine_take_activity(run.engine, 0, &activity);
    struct outcome outcome = {
        .streams = engine_slots(run.engine),
        .wall_s = wall_s,
        .overlap = (activity.h2d_s + activity.kernel_s + activity.d2h_s) / activity.any_s,
        .up = (double)activity.h2d_bytes / wall_s * 1e-9,
        .down = (double)activity.d2h_bytes / wall_s * 1e-9};
    close_places(slots, places);
    engine_close(run.engine);
    return outcome;
}

static void bench_engine(const struct load *load, const struct device_rates *rates,
                         const uint32_t *streams, size_t count)
{
    double copies_s =
        must(bench_copies_s(load->plan.input_bytes, load->plan.output_bytes, load->jobs));
    double kernels_s = must(bench_kernels_s(&load->plan, NULL, false)) * load->jobs;
    double bound_s = copies_s > kernels_s ? copies_s : kernels_s;
    printf("\n%s: %u jobs of %.1f MP; alone: copies in both directions %.1f ms, kernels %.1f ms\n",
           load->name, load->jobs, mpixels(), copies_s * 1e3, kernels_s * 1e3);
    printf("%8s %10s %9s %9s %9s %8s %14s\n", "streams", "wall ms", "up GB/s", "down GB/s",
           "GP/s", "overlap", "wall / bound");
    double best_s = 1e9;
    for (size_t i = 0; i <= count; i++) {
        bool chosen = i == count;
        char name[24];
        struct outcome o = bench_streams(load, chosen ? 0 : streams[i]);
        snprintf(name, sizeof(name), chosen ? "auto: %u" : "%u", o.streams);
        printf("%8s %10.1f %9.1f %9.1f %9.2f %8.2f %11.2f    up is %.0f%% of one way, %.0f%% of "
               "both", name, o.wall_s * 1e3, o.up, o.down,
               mpixels() * load->jobs / o.wall_s * 1e-3, o.overlap, o.wall_s / bound_s,
               100 * o.up / rates->h2d, 100 * o.up / rates->both);
        if (chosen)
            printf("; %.3f of the best time above", o.wall_s / best_s);
        printf("\n");
        best_s = o.wall_s < best_s ? o.wall_s : best_s;
    }
}

/* Measures the CPU time per job of the device's thread, which limits the rate of small jobs: once
 * with each job alone on a stream, once with jobs that share a stream's turn. */
static void bench_small(const struct load *like)
{
    uint32_t old_width = width, old_height = height;
    printf("\n%s, %d jobs waiting\n%-12s %9s %9s %12s %13s %7s %10s\n", like->name, SMALL_PLACES,
           "", "alone/s", "joint/s", "alone CPU us", "joint CPU us", "per turn", "device us");
    for (uint32_t side = 64; side <= 1024; side *= 2) {
        double rate[2], cpu_us[2];
        struct engine_activity activity;
        struct load load = *like;
        width = height = side;
        load_open(&load);
        for (int shared = 0; shared < 2; shared++) {
            open_run(0);
            struct slot *slots = open_places(&load, SMALL_PLACES, !shared);
            run_jobs(slots, SMALL_PLACES, 4 * SMALL_PLACES);
            engine_take_activity(run.engine, 0, &(struct engine_activity){0});
            uint64_t cpu_ns = run.thread_cpu_ns;
            rate[shared] = SMALL_JOBS / run_jobs(slots, SMALL_PLACES, SMALL_JOBS);
            cpu_us[shared] = (double)(run.thread_cpu_ns - cpu_ns) * 1e-3 / SMALL_JOBS;
            activity = (struct engine_activity){0};
            engine_take_activity(run.engine, 0, &activity);
            close_places(slots, SMALL_PLACES);
            engine_close(run.engine);
        }
        printf("%4u x %-5u %9.0f %9.0f %12.1f %13.1f %7.1f %10.1f\n", side, side, rate[0], rate[1],
               cpu_us[0], cpu_us[1], (double)activity.tasks / (double)activity.turns,
               activity.any_s * 1e6 / SMALL_JOBS);
        plan_clear(&load.plan);
    }
    width = old_width;
    height = old_height;
}

/* Times of copies of a whole gray, RGB and RGBA image, alone on one stream. `bytes` counts reads
 * and writes. */
#define COPIES 3
static struct {
    double bytes, s;
} copies[COPIES];

/* Returns the seconds of a copy that reads and writes as many bytes in total, by linear
 * interpolation. */
static double copy_alike_s(double bytes)
{
    size_t i = bytes > copies[1].bytes ? 1 : 0;
    double slope = (copies[i + 1].s - copies[i].s) / (copies[i + 1].bytes - copies[i].bytes);
    return copies[i].s + slope * (bytes - copies[i].bytes);
}

/* Prints the first columns of a row: alone on one stream, and on several streams in turn. */
static void print_kernel(const char *name, double s, double lanes_s, double bytes,
                         const struct device_rates *rates)
{
    double gb = bytes * 1e-9, share = 100 * gb / rates->copy;
    printf("%-22s %8.1f %7.0f %7.0f %6.0f%% %6.0f%% %8.1f %7.0f %6.0f%%", name, s * 1e6,
           mpixels() / s * 1e-3, gb / s, share / s, 100 * copy_alike_s(bytes) / s, lanes_s * 1e6,
           mpixels() / lanes_s * 1e-3, share / lanes_s);
}

static void bench_copies(const struct device_rates *rates)
{
    static const uint32_t channels[COPIES] = {1, 3, 4};
    static const char *const names[COPIES] = {"copy of gray", "copy of RGB", "copy of RGBA"};
    double lanes_s[COPIES];
    for (size_t i = 0; i < COPIES; i++) {
        size_t bytes = (size_t)width * height * channels[i];
        copies[i].bytes = 2 * (double)bytes;
        copies[i].s = must(bench_device_copy_s(bytes, false));
        lanes_s[i] = must(bench_device_copy_s(bytes, true));
    }
    for (size_t i = 0; i < COPIES; i++) {
        print_kernel(names[i], copies[i].s, lanes_s[i], copies[i].bytes, rates);
        printf("\n");
    }
}

static void bench_kernels(const struct device_rates *rates, const char *name)
{
    printf("\n%u x %u\n%-22s %40s   %24s\n%-22s %8s %7s %7s %7s %7s %8s %7s %7s %8s\n", width,
           height, "", "one stream", "four streams in turn", "kernel", "us", "Gpx/s", "GB/s",
           "of copy", "alike", "us", "Gpx/s", "of copy", "of noise");
    bench_copies(rates);
    for (size_t i = 0; i < LOADS; i++) {
        const struct plan *plan = &loads[i].plan;
        if (!strstr(loads[i].name, name))
            continue;
        uint8_t *pixels = malloc(plan->input_bytes);
        if (!pixels)
            exit(1);
        fill(&loads[i], pixels);
        double s = must(bench_kernels_s(plan, pixels, false));
        double lanes_s = must(bench_kernels_s(plan, pixels, true));
        double noise_s = must(bench_kernels_s(plan, NULL, false));
        free(pixels);
        double bytes = mpixels() * 1e6 * bytes_a_pixel(&loads[i]);
        print_kernel(loads[i].name, s, lanes_s, bytes, rates);
        printf(" %7.0f%%\n", 100e-9 * bytes / noise_s / rates->copy);
    }
}

/* Whether the table is selected. `only` is its name, or NULL for all tables. */
static bool wanted(const char *only, const char *table)
{
    return !only || strcmp(only, table) == 0;
}

static int bench_device(const char *only, const char *name, const uint32_t *streams, size_t count)
{
    struct device_rates rates;
    if (bench_device_rates(&rates) < 0)
        return 1;
    printf("pinned copies: up %.1f GB/s, down %.1f; both at once %.1f each way\n", rates.h2d,
           rates.d2h, rates.both);
    printf("device copy, read and written: %.0f GB/s\n", rates.copy);
    if (wanted(only, "cpu"))
        bench_cpu("");
    for (size_t i = 0; i < LOADS && !only; i++)
        if (loads[i].jobs)
            bench_engine(&loads[i], &rates, streams, count);
    for (size_t i = 0; i < LOADS && wanted(only, "small"); i++)
        if (i == EDGES_LOAD || strcmp(loads[i].name, "phash, RGB") == 0)
            bench_small(&loads[i]);
    if (wanted(only, "kernels"))
        bench_kernels(&rates, name);
    if (wanted(only, "resize") && bench_resize(rates.copy) < 0)
        return 1;
    return wanted(only, "reads") && bench_reads() < 0;
}

#else

static int bench_device(const char *only, const char *name, const uint32_t *streams, size_t count)
{
    (void)only, (void)name, (void)streams, (void)count;
    return 1; /* open_engine opens no device */
}

#endif

static bool take_size(const char *text)
{
    return sscanf(text, "%ux%u", &width, &height) == 2 && width >= 16 && height >= 16 &&
           width <= SIDE_CEILING / 3 * 2 && height <= SIDE_CEILING;
}

int main(int argc, char **argv)
{
    uint32_t streams[8] = {1, 2, 4, 8, 16};
    size_t count = 5;
    bool cpu = argc >= 2 && strcmp(argv[1], "cpu") == 0;
    const char *only = argc >= 2 && atoi(argv[1]) == 0 ? argv[1] : NULL;
    if (only && argc >= 3 && !take_size(argv[2])) {
        fprintf(stderr, "bench_gpu: size is %s; it must be WIDTHxHEIGHT, each 16 to %u\n",
                argv[2], SIDE_CEILING / 3 * 2);
        return 1;
    }
    for (int i = 1; i < argc && i <= 8 && !only; i++) {
        streams[i - 1] = (uint32_t)atoi(argv[i]);
        count = (size_t)i;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* also into a file, since tables take minutes */
    for (size_t i = 0; i < LOADS; i++)
        load_open(&loads[i]);

    int result = 0;
    struct engine *engine = cpu ? NULL : open_engine("cuda", 1);
    if (engine) {
        printf("%s\n", engine_description(engine));
        engine_close(engine);
        result = bench_device(only, only && argc == 4 ? argv[3] : "", streams, count);
    } else {
        if (!cpu)
            printf("no CUDA device: the CPU engine only\n");
        bench_cpu(only && argc == 4 ? argv[3] : "");
    }
    for (size_t i = 0; i < LOADS; i++) {
        plan_clear(&loads[i].plan);
    }
    return result;
}
