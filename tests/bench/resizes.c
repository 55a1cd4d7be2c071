/* resizes.c - times resizing to one size, and to several sizes in one job, on a device and on
 * the CPU. */
#include <stdio.h>
#include <string.h>

#include "conf/limits.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/op_list.h"
#include "gpu/plan/pass.h"
#include "tests/bench/bench_device.h"

#define SIZES_MAX 3

static const struct row {
    const char *name;
    uint32_t channels, width, height, widths[SIZES_MAX]; /* of the results; 0: none */
    unsigned images;                                     /* that share launches */
} rows[] = {
    {"48 MP RGB to 512", 3, 8000, 6000, {512}, 1},
    {"48 MP RGB to 80", 3, 8000, 6000, {80}, 1},
    {"48 MP RGB to half", 3, 8000, 6000, {4000}, 1},
    {"48 MP gray to 512", 1, 8000, 6000, {512}, 1},
    {"14.7 MP RGB to 1200", 3, 4704, 3136, {1200}, 1},
    {"14.7 MP RGB to 640", 3, 4704, 3136, {640}, 1},
    {"14.7 MP RGB to 320", 3, 4704, 3136, {320}, 1},
    {"14.7 MP RGB to these three", 3, 4704, 3136, {1200, 640, 320}, 1},
    {"14.7 MP RGBA to 640", 4, 4704, 3136, {640}, 1},
    {"16 x 4 MP RGB to these three", 3, 2464, 1632, {1200, 640, 320}, 16},
    {"4 MP RGB to 1200", 3, 2560, 1600, {1200}, 1},
    {"4 MP RGB to 640", 3, 2560, 1600, {640}, 1},
    {"4 MP RGB to 320", 3, 2560, 1600, {320}, 1},
    {"4 MP RGB to these three", 3, 2560, 1600, {1200, 640, 320}, 1},
    {"1 MP RGB to 300", 3, 1024, 1024, {300}, 1},
    {"1 MP RGB to 4 MP", 3, 1200, 800, {2400}, 1},
    {"256 x 256 RGB to 128", 3, 256, 256, {128}, 1},
};

static void plan_close(struct plan *plan, struct op_item **ops)
{
    plan_clear(plan);
    for (size_t v = 0; v < SIZES_MAX; v++)
        op_list_free(ops[v]);
}

static int plan_open(struct plan *plan, const struct row *row, const char *filter,
                     struct op_item **ops)
{
    struct plan_source source = {
        .width = row->width, .height = row->height, .channels = row->channels, .orientation = 1};
    struct plan_limits limits = {.pixels_max = PIXELS_CEILING, .side_max = SIDE_CEILING};
    struct plan_target targets[SIZES_MAX] = {{.ops = NULL}};
    struct error error = {0};
    size_t count = 0;
    for (; count < SIZES_MAX && row->widths[count]; count++) {
        char text[120];
        snprintf(text, sizeof(text),
                 "[{\"op\":\"resize\",\"width\":%u,\"enlarge\":true,\"filter\":\"%s\"}]",
                 row->widths[count], filter);
        cJSON *json = cJSON_Parse(text);
        enum status status = op_list_parse(&ops[count], json, -1, &error);
        cJSON_Delete(json);
        if (status)
            return printf("%s: %s\n", row->name, error.text), -1;
        targets[count].ops = ops[count];
    }
    if (plan_build(plan, &source, targets, count, &limits, &error))
        return printf("%s: %s\n", row->name, error.text), -1;
    return 0;
}

#ifdef GPUIMGD_CUDA

/* Bytes of the source and the results. */
static double plan_io_bytes(const struct plan *plan, const struct row *row)
{
    double bytes = (double)row->width * row->height * row->channels;
    for (uint32_t v = 0; v < plan->variant_count; v++)
        bytes += (double)plan->variants[v].width * plan->variants[v].height * row->channels;
    return bytes;
}

int bench_resize(double copy)
{
    printf("\n%-28s %9s %9s %9s %9s %9s\n", "resize, lanczos3", "us", "of copy", "4 streams",
           "of copy", "GP/s");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct op_item *ops[SIZES_MAX] = {NULL};
        struct plan plan;
        if (plan_open(&plan, row, "lanczos3", ops) < 0)
            return -1;
        double s = bench_batches_s(&plan, row->images, false);
        double lanes_s = bench_batches_s(&plan, row->images, true);
        double share = 100e-9 * plan_io_bytes(&plan, row) / copy;
        plan_close(&plan, ops);
        if (s < 0 || lanes_s < 0)
            return -1;
        printf("%-28s %9.1f %8.0f%% %9.1f %8.0f%% %9.0f\n", row->name, s * 1e6 * row->images,
               share / s, lanes_s * 1e6 * row->images, share / lanes_s,
               (double)row->width * row->height * 1e-9 / lanes_s);
    }
    return 0;
}

#endif

/* Returns the shortest time of some runs; negative: the engine has no memory. */
static double cpu_s(struct engine *engine, const struct row *row, const char *filter)
{
    enum { runs = 7 };
    struct op_item *ops[SIZES_MAX] = {NULL};
    struct plan plan;
    struct engine_memory memory;
    struct error error = {0};
    double best = 1e9;
    if (plan_open(&plan, row, filter, ops) < 0)
        return -1;
    if (engine_reserve(engine, &plan, &memory, &error) != ENGINE_RESERVED)
        return printf("%s: %s\n", row->name, error.text), -1;
    struct image input = plan_input(&plan, memory.input);
    for (size_t i = 0; i < input.height * input.stride; i++)
        input.pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    plan_put_constants(&plan, memory.input);
    for (int run = 0; run < runs; run++) {
        struct engine_task task = {.plan = &plan, .memory = &memory};
        engine_run(engine, &task);
        best = task.kernel_ms < best ? task.kernel_ms : best;
    }
    engine_release(engine, &memory);
    plan_close(&plan, ops);
    return best * 1e-3;
}

int bench_resize_cpu(struct engine *engine)
{
    static const char *const filters[] = {"box", "bilinear", "bicubic", "lanczos3"};
    enum { filter_count = sizeof(filters) / sizeof(filters[0]) };
    printf("\n%-28s", "resize, ms");
    for (int f = 0; f < filter_count; f++)
        printf(" %9s", filters[f]);
    printf("\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].images > 1)
            continue;
        printf("%-28s", rows[i].name);
        for (int f = 0; f < filter_count; f++) {
            double s = cpu_s(engine, &rows[i], filters[f]);
            if (s < 0)
                return -1;
            printf(" %9.2f", s * 1e3);
        }
        printf("\n");
    }
    return 0;
}
