/*
 * Random chains of operations. One plan of a whole chain must give the same bytes as one plan per
 * operation, and CUDA must give the same bytes as the CPU.
 *
 * The test prints its seed; GPUIMGD_TEST_SEED=N repeats it. Operations and their parameters come
 * from the table of operations.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "gpu/colour/conversion.h"
#include "gpu/plan/op.h"
#include "tests/fixtures/gpu/overlay.h"
#include "tests/fixtures/profile.h"
#include "tests/fixtures/reference.h"

#define CHAINS 1000
#define CHAINS_QUICK 100
#define STEPS_MAX 5
#define VARIANTS_MAX 4
#define FLIGHT 8 /* plans in flight on the device */

/* The state of the random numbers, and the size of the image before the next operation. */
struct draw {
    uint32_t state, width, height;
};

static uint32_t draw_below(struct draw *draw, uint32_t count)
{
    return (test_random(&draw->state) >> 3) % count;
}

static uint32_t draw_from(struct draw *draw, uint32_t low, uint32_t high)
{
    return low + draw_below(draw, high - low + 1);
}

static double draw_real(struct draw *draw, double low, double high)
{
    return low + (high - low) * draw_below(draw, 100001) / 100000;
}

static const char *draw_word(struct draw *draw, const char *const *words, uint32_t count)
{
    return words[draw_below(draw, count)];
}
#define DRAW_WORD(draw, ...)                                                                       \
    draw_word(draw, (const char *const[]){__VA_ARGS__},                                            \
              COUNT_OF(((const char *const[]){__VA_ARGS__})))

static const char *draw_bool(struct draw *draw)
{
    return DRAW_WORD(draw, "true", "false");
}

/* ---- random parameters from the table of operations, each after a comma ---- */

/* Numbers near 0 (or near min, if that is above 0) are more likely; both signs occur. */
static double draw_number(struct draw *draw, double min, double max)
{
    double part = pow(draw_real(draw, 0, 1), 3), low = min < 0 ? 0 : min;
    bool negative = min < 0 && draw_below(draw, 2);
    return negative ? min * part : low + (max - low) * part;
}

static void draw_matrix(struct draw *draw, const struct op_param *param, FILE *out)
{
    for (int i = 0; i < param->rows * param->columns; i++) {
        bool last = i % param->columns == param->columns - 1;
        fprintf(out, "%s%.4f", i == 0 ? "[[" : i % param->columns == 0 ? "],[" : ",",
                last ? draw_number(draw, -param->last_max, param->last_max)
                     : draw_number(draw, param->min, param->max));
    }
    fprintf(out, "]]");
}

static void draw_color(struct draw *draw, FILE *out)
{
    uint32_t kind = draw_below(draw, 4), gray = draw_below(draw, 256);
    if (kind == 0) {
        fprintf(out, "\"transparent\"");
    } else if (kind == 1) {
        fprintf(out, "[%u,%u,%u]", gray, gray, gray);
    } else {
        fprintf(out, "[%u,%u", draw_below(draw, 256), draw_below(draw, 256));
        fprintf(out, ",%u", draw_below(draw, 256));
        fprintf(out, kind == 2 ? "]" : ",%u]", draw_below(draw, 256));
    }
}

static void draw_value(struct draw *draw, const struct op_param *param, FILE *out)
{
    uint32_t words = 0;
    while (param->words && param->words[words])
        words++;
    switch (param->kind) {
    case OP_KIND_INTEGER:
        fprintf(out, "%u", draw_from(draw, (uint32_t)param->min, (uint32_t)param->max));
        break;
    case OP_KIND_ODD:
        fprintf(out, "%u", 2 * draw_from(draw, (uint32_t)param->min / 2,
                                         (uint32_t)param->max / 2) + 1);
        break;
    case OP_KIND_NUMBER:
        fprintf(out, "%.3f", draw_number(draw, param->min, param->max));
        break;
    case OP_KIND_BOOLEAN: fprintf(out, "%s", draw_bool(draw)); break;
    case OP_KIND_WORD: fprintf(out, "\"%s\"", draw_word(draw, param->words, words)); break;
    case OP_KIND_MATRIX: draw_matrix(draw, param, out); break;
    case OP_KIND_COLOR: draw_color(draw, out); break;
    case OP_KIND_INTEGERS:
        for (int i = 0; i < param->columns; i++)
            fprintf(out, "%c%u", i ? ',' : '[',
                    draw_from(draw, (uint32_t)param->min, (uint32_t)param->max));
        fputc(']', out);
        break;
    case OP_KIND_PLACE:
    case OP_KIND_TEXT:
    case OP_KIND_NUMBERS:
    case OP_KIND_ODD_MATRIX: fail_msg("%s needs a generator of its own", param->name);
    }
}

/* One in four optional parameters is left out. */
static void draw_params(struct draw *draw, const struct op *op, FILE *out)
{
    op_each_param (param, op) {
        if (param->need != OP_REQUIRED && draw_below(draw, 4) == 0)
            continue;
        fprintf(out, ",\"%s\":", param->name);
        draw_value(draw, param, out);
    }
}

/* ---- generators for operations whose random parameters would hardly ever be valid ---- */

static void draw_grayscale(struct draw *draw, FILE *out)
{
    uint32_t red = draw_below(draw, 65537), green = draw_below(draw, 65537 - red);
    fprintf(out, ",\"weights\":[%u,%u,%u]", red, green, 65536 - red - green);
}

static const char *draw_gravity(struct draw *draw)
{
    return DRAW_WORD(draw, "center", "north", "northeast", "east", "southeast", "south",
                     "southwest", "west", "northwest");
}

/* With attention, a thin image is enlarged beyond every limit before it is cut. */
static void draw_place(struct draw *draw, FILE *out)
{
    bool thin = draw->width > 40 * draw->height || draw->height > 40 * draw->width;
    uint32_t kind = draw_below(draw, 4);
    if (kind == 0 && !thin)
        fprintf(out, ",\"gravity\":\"attention\"");
    else if (kind == 1)
        fprintf(out, ",\"gravity\":\"%s\"", DRAW_WORD(draw, "north", "southeast", "west"));
    else if (kind == 2)
        fprintf(out, ",\"focus\":[%.3f,%.3f]", draw_real(draw, 0, 1), draw_real(draw, 0, 1));
}

/* With enlarge and only one side given, a thin image would exceed every limit. */
static void draw_resize(struct draw *draw, FILE *out)
{
    const char *fit = DRAW_WORD(draw, "inside", "cover", "exact", "contain");
    bool one_side = strcmp(fit, "inside") == 0 && draw_below(draw, 2);
    fprintf(out, ",\"fit\":\"%s\",\"filter\":\"%s\",\"fast_shrink\":%s", fit,
            DRAW_WORD(draw, "nearest", "box", "bilinear", "bicubic", "lanczos3"), draw_bool(draw));
    if (one_side) {
        fprintf(out, ",\"%s\":%u", DRAW_WORD(draw, "width", "height"), draw_from(draw, 1, 300));
        return;
    }
    fprintf(out, ",\"width\":%u", draw_from(draw, 1, 300));
    fprintf(out, ",\"height\":%u,\"enlarge\":%s", draw_from(draw, 1, 300), draw_bool(draw));
    if (strcmp(fit, "contain") == 0) {
        fprintf(out, ",\"gravity\":\"%s\",\"color\":", draw_gravity(draw));
        draw_color(draw, out);
    }
    if (strcmp(fit, "cover") == 0)
        draw_place(draw, out);
}

static void draw_pad(struct draw *draw, FILE *out)
{
    if (draw_below(draw, 2)) {
        fprintf(out, ",\"width\":%u", draw->width + draw_below(draw, 50));
        fprintf(out, ",\"height\":%u", draw->height + draw_below(draw, 50));
        fprintf(out, ",\"gravity\":\"%s\"", draw_gravity(draw));
    } else {
        fprintf(out, ",\"left\":%u,\"bottom\":%u", draw_below(draw, 50), draw_below(draw, 50));
        fprintf(out, ",\"top\":%u", draw_below(draw, 50));
    }
    fprintf(out, ",\"color\":");
    draw_color(draw, out);
}

/* Every second angle is a multiple of 90. A long image is only turned by these, because the whole
 * image after several rotations would be large. */
static void draw_rotate(struct draw *draw, FILE *out)
{
    bool quarters = draw_below(draw, 2) || draw->width > 400 || draw->height > 400;
    if (quarters)
        fprintf(out, ",\"angle\":%d", 90 * ((int)draw_below(draw, 9) - 4));
    else
        fprintf(out, ",\"angle\":%.3f", draw_real(draw, -360, 360));
    fprintf(out, ",\"clockwise\":%s,\"expand\":%s", draw_bool(draw), draw_bool(draw));
    if (draw_below(draw, 2)) {
        fprintf(out, ",\"background\":");
        draw_color(draw, out);
    }
}

static void draw_crop(struct draw *draw, FILE *out)
{
    uint32_t width = draw_from(draw, 1, draw->width), height = draw_from(draw, 1, draw->height);
    fprintf(out, ",\"width\":%u,\"height\":%u", width, height);
    if (draw_below(draw, 2)) {
        fprintf(out, ",\"gravity\":\"%s\"", draw_gravity(draw));
        return;
    }
    fprintf(out, ",\"x\":%u", draw_below(draw, draw->width - width + 1));
    fprintf(out, ",\"y\":%u", draw_below(draw, draw->height - height + 1));
}

/* The sum of the absolute weights, divided by the scale, may be at most 127. */
static void draw_convolve(struct draw *draw, FILE *out)
{
    uint32_t rows = 2 * draw_below(draw, draw_below(draw, 2) ? 2 : 8) + 1;
    uint32_t columns = 2 * draw_below(draw, draw_below(draw, 2) ? 2 : 8) + 1;
    double sum = 0;
    fprintf(out, ",\"kernel\":[");
    for (uint32_t y = 0; y < rows; y++) {
        for (uint32_t x = 0; x < columns; x++) {
            int quarters = (int)draw_below(draw, 41) - 16;
            sum += abs(quarters) / 4.0;
            fprintf(out, "%s%.2f", x ? "," : y ? ",[" : "[", quarters / 4.0);
        }
        fprintf(out, "]");
    }
    double scale = sum / draw_real(draw, 0.5, 100);
    fprintf(out, "],\"scale\":%.6f,\"offset\":%.2f,\"border\":\"%s\"", sum > 0 ? scale : 1.0,
            draw_real(draw, -255, 255), DRAW_WORD(draw, "reflect101", "replicate", "zero"));
}

/* Many overlays are near the image's own size and partly outside. */
static void draw_composite(struct draw *draw, FILE *out)
{
    fprintf(out, ",\"input\":\"%s-%ux%u\"", DRAW_WORD(draw, "colour", "gray", "opaque"),
            draw_from(draw, 1, 80), draw_from(draw, 1, 80));
    if (draw_below(draw, 2))
        fprintf(out, ",\"gravity\":\"%s\"",
                DRAW_WORD(draw, "center", "north", "east", "southeast", "southwest"));
    if (draw_below(draw, 2))
        fprintf(out, ",\"x\":%d,\"y\":%d", (int)draw_below(draw, 2 * draw->width) -
                (int)draw->width, (int)draw_below(draw, 160) - 80);
    if (draw_below(draw, 3) == 0)
        fprintf(out, ",\"scale\":%.3f", draw_real(draw, 0.001, 0.3));
    fprintf(out, ",\"opacity\":%.3f,\"tile\":%s", draw_real(draw, 0, 1), draw_bool(draw));
}

/* The fixture makes the overlay from the text, as from the name of an image. */
static void draw_text_op(struct draw *draw, FILE *out)
{
    fprintf(out, ",\"text\":\"%s-%ux%u\",\"gravity\":\"%s\",\"opacity\":%.3f,\"tile\":%s",
            DRAW_WORD(draw, "colour", "gray"), draw_from(draw, 1, 80), draw_from(draw, 1, 40),
            draw_gravity(draw), draw_real(draw, 0, 1), draw_bool(draw));
}

static const struct {
    const char *name;
    void (*draw)(struct draw *draw, FILE *out);
} generators[] = {
    {"grayscale", draw_grayscale}, {"resize", draw_resize},
    {"crop", draw_crop},           {"pad", draw_pad},
    {"rotate", draw_rotate},       {"convolve", draw_convolve},
    {"composite", draw_composite}, {"text", draw_text_op},
};

/* How often each operation was drawn. */
static unsigned drawn[64];

/* ---- a chain ---- */

struct chain_case {
    struct plan_source source;
    uint32_t variants, fill;
    bool opaque[VARIANTS_MAX];
    cJSON *json[VARIANTS_MAX];
    struct op_item *ops[VARIANTS_MAX];
    char *text; /* for messages */
};

static void build(struct plan *plan, const struct plan_source *source,
                  const struct plan_target *targets, size_t count, const char *what)
{
    struct plan_target own[VARIANTS_MAX];
    struct error error = {0};
    for (size_t i = 0; i < count; i++) {
        own[i] = targets[i];
        own[i].overlays = &test_overlays;
    }
    if (plan_build(plan, source, own, count, &test_limits, &error) != STATUS_OK)
        fail_msg("%s: %s", what, error.text);
}

/* One random operation as JSON. Its parameters may contradict each other. */
static char *draw_text(struct draw *draw, const struct op *op)
{
    char *text = NULL;
    size_t length = 0, own = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    while (own < COUNT_OF(generators) && strcmp(generators[own].name, op->name) != 0)
        own++;
    if (draw_below(draw, 4) == 0) {
        fprintf(out, "[\"%s\"]", op->name);
    } else {
        fprintf(out, "[{\"op\":\"%s\"", op->name);
        if (own < COUNT_OF(generators))
            generators[own].draw(draw, out);
        else
            draw_params(draw, op, out);
        fprintf(out, "}]");
    }
    fclose(out);
    return text;
}

/* Draws one operation that is valid for the image in draw, and updates draw to its result. */
static cJSON *draw_op(struct draw *draw, const struct plan_source *like)
{
    uint32_t which = draw_below(draw, (uint32_t)op_count);
    struct plan_source source = *like;
    struct plan plan;
    struct error error;
    cJSON *json = NULL;
    struct op_item *ops = NULL;
    char *text = NULL;
    unsigned tries = 0;
    do {
        if (tries++ == 100)
            fail_msg("%s: %s", text, error.text);
        cJSON_Delete(json);
        op_list_free(ops);
        free(text);
        error = (struct error){0};
        text = draw_text(draw, op_table[which]);
        json = test_json(text);
    } while (op_list_parse(&ops, json, -1, &error) != STATUS_OK);
    drawn[which]++;
    source.width = draw->width;
    source.height = draw->height;
    build(&plan, &source, &(struct plan_target){.ops = ops}, 1, text);
    draw->width = plan.variants[0].width;
    draw->height = plan.variants[0].height;
    plan_clear(&plan);
    cJSON *op = cJSON_DetachItemFromArray(json, 0);
    cJSON_Delete(json);
    op_list_free(ops);
    free(text);
    return op;
}

/* Puts the first operations of another output before those to be drawn, so that the two outputs
 * share passes. */
static void draw_same(struct draw *draw, const struct plan_source *like, const cJSON *other,
                      cJSON *json)
{
    struct plan_source source = *like;
    struct plan plan;
    int count = (int)draw_below(draw, (uint32_t)cJSON_GetArraySize(other) + 1);
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(json, cJSON_Duplicate(cJSON_GetArrayItem(other, i), true));
    char *text = cJSON_PrintUnformatted(json);
    struct op_item *ops = test_ops(text);
    source.width = draw->width;
    source.height = draw->height;
    build(&plan, &source, &(struct plan_target){.ops = ops}, 1, text);
    draw->width = plan.variants[0].width;
    draw->height = plan.variants[0].height;
    plan_clear(&plan);
    op_list_free(ops);
    free(text);
}

/* At these widths, the last four RGB pixels of a row end after its padding. */
static const uint32_t odd_widths[] = {9,   10,  21,  41,  42,  53,  330,
                                      426, 533, 554, 682, 853, 1066, 1290};
static struct picture_file profiles[4];

/* A width whose rows end within two pixels of a multiple of 32 bytes. */
static uint32_t draw_edge(struct draw *draw, uint32_t channels)
{
    uint32_t width = STRIDE_ALIGN * draw_from(draw, 1, 30) / channels;
    return width + draw_below(draw, 5) - 2;
}

static void draw_size(struct draw *draw, struct plan_source *source)
{
    uint32_t kind = draw_below(draw, 20);
    source->width = draw_from(draw, 1, 300);
    source->height = draw_from(draw, 1, kind < 10 ? 300 : 90);
    if (kind == 0)
        source->width = 1;
    if (kind == 1)
        source->height = 1;
    if (kind == 2 || kind == 3)
        source->width = draw_from(draw, 508, 517);
    if (kind == 4) {
        source->width = draw_from(draw, 2044, 2053);
        source->height = draw_from(draw, 1, 40);
    }
    if (kind == 5 || kind == 6)
        source->width = draw_edge(draw, source->channels);
    if (kind == 7) {
        source->width = odd_widths[draw_below(draw, COUNT_OF(odd_widths))];
        source->height = draw_from(draw, 1, 40);
    }
}

/* One in three sources has a profile. */
static void draw_profile(struct draw *draw, struct plan_source *source)
{
    const struct picture_file *profile = &profiles[draw_below(draw, COUNT_OF(profiles))];
    if (draw_below(draw, 3) > 0)
        return;
    source->icc = profile->bytes;
    source->icc_bytes = profile->length;
}

static void case_open(struct chain_case *c, uint32_t seed, uint32_t number)
{
    static const uint32_t channels[] = {1, 3, 4};
    struct draw draw = {.state = (seed * 2654435761u) ^ (number * 2246822519u + 374761393u)};
    draw.state += draw.state == 0;
    for (int i = 0; i < 8; i++)
        test_random(&draw.state);
    memset(c, 0, sizeof(*c));
    c->source.channels = channels[draw_below(&draw, 3)];
    draw_size(&draw, &c->source);
    draw_profile(&draw, &c->source);
    c->source.ycc = c->source.channels == 3 && draw_below(&draw, 2);
    c->source.orientation = (int)(draw_below(&draw, 2) ? draw_from(&draw, 1, 8) : 1);
    for (int i = 0; i < 3; i++)
        c->source.background[i] = (uint8_t)draw_below(&draw, 256);
    c->variants = draw_below(&draw, 3) ? 1 : draw_from(&draw, 2, VARIANTS_MAX);
    c->fill = draw_below(&draw, 1000000);

    size_t length = 0;
    FILE *out = open_memstream(&c->text, &length);
    assert_non_null(out);
    fprintf(out, "seed %u, chain %u: %u x %u x %u%s%s, orientation %d", seed, number,
            c->source.width, c->source.height, c->source.channels, c->source.ycc ? " (ycc)" : "",
            c->source.icc_bytes > 0 ? " (profile)" : "", c->source.orientation);
    for (uint32_t v = 0; v < c->variants; v++) {
        bool turned = c->source.orientation >= 5;
        struct plan_source like = c->source;
        like.orientation = 1;
        draw.width = turned ? c->source.height : c->source.width;
        draw.height = turned ? c->source.width : c->source.height;
        c->opaque[v] = draw_below(&draw, 2);
        c->json[v] = cJSON_CreateArray();
        bool same = v > 0 && draw_below(&draw, 2);
        if (same)
            draw_same(&draw, &like, c->json[draw_below(&draw, v)], c->json[v]);
        for (uint32_t steps = draw_from(&draw, !same, same ? 2 : STEPS_MAX); steps > 0; steps--)
            cJSON_AddItemToArray(c->json[v], draw_op(&draw, &like));
        char *json = cJSON_PrintUnformatted(c->json[v]);
        c->ops[v] = test_ops(json);
        fprintf(out, "; %s%s", json, c->opaque[v] ? ", opaque" : "");
        free(json);
    }
    fclose(out);
}

static void case_close(struct chain_case *c)
{
    for (uint32_t v = 0; v < c->variants; v++) {
        cJSON_Delete(c->json[v]);
        op_list_free(c->ops[v]);
    }
    free(c->text);
}

/* ---- running a plan ---- */

struct carried {
    struct plan plan;
    struct engine_memory memory;
    struct engine_task task;
};

/* Reserves memory with guards after results and scratch, and fills in the source. */
static void carried_open(struct carried *carried, struct engine *engine,
                         const struct chain_case *c)
{
    struct plan_target targets[VARIANTS_MAX] = {{.ops = NULL}};
    struct plan *plan = &carried->plan;
    memset(carried, 0, sizeof(*carried));
    for (uint32_t v = 0; v < c->variants; v++)
        targets[v] = (struct plan_target){.ops = c->ops[v], .opaque = c->opaque[v]};
    build(plan, &c->source, targets, c->variants, c->text);
    test_reserve(engine, plan, &carried->memory);
    test_fill_source(plan, carried->memory.input, c->fill);
    carried->task = (struct engine_task){.plan = plan, .memory = &carried->memory,
                                         .done = test_done};
}

static void carried_check(const struct carried *carried, const char *what)
{
    if (carried->task.error.status != STATUS_OK)
        fail_msg("%s: %s", what, carried->task.error.text);
    test_guards(&carried->plan, &carried->memory, what);
}

static void carried_close(struct carried *carried, struct engine *engine)
{
    engine_release(engine, &carried->memory);
    plan_clear(&carried->plan);
}

static struct image carried_result(const struct carried *carried, uint32_t variant)
{
    return plan_result(&carried->plan, variant, carried->memory.input, carried->memory.output);
}

/* The values of the operations as in the result's JSON. */
static char *carried_values(const struct carried *carried, uint32_t variant)
{
    cJSON *values = plan_values(&carried->plan, variant, carried->memory.output);
    char *text = cJSON_PrintUnformatted(values);
    assert_non_null(text);
    cJSON_Delete(values);
    return text;
}

static void compare_values(const char *got, const char *want, uint32_t variant, const char *what)
{
    if (strcmp(got, want) != 0)
        fail_msg("%s: variant %u gives %s instead of %s", what, variant, got, want);
}

/* ---- one plan against one plan per operation ---- */

static uint32_t seed;

static void copy_image(struct image to, struct image from)
{
    for (uint32_t y = 0; y < from.height; y++)
        memcpy(to.pixels + y * to.stride, from.pixels + y * from.stride,
               (size_t)from.width * from.channels);
}

static struct image image_new(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image image = {NULL, width, height, channels, image_stride(width, channels)};
    image.pixels = calloc(1, image_bytes(width, height, channels));
    assert_non_null(image.pixels);
    return image;
}

/* Moves the values to `all`; the second value of a name becomes name_2, and so on. */
static void add_values(cJSON *all, cJSON *more)
{
    cJSON *value;
    while ((value = cJSON_DetachItemFromArray(more, 0))) {
        char name[40];
        snprintf(name, sizeof(name), "%s", value->string);
        for (int number = 2; cJSON_HasObjectItem(all, name); number++)
            snprintf(name, sizeof(name), "%s_%d", value->string, number);
        cJSON_AddItemToObject(all, name, value);
    }
    cJSON_Delete(more);
}

/* Runs a separate plan over `image`, frees `image`, and adds the values of the plan. */
static struct image apply(struct image image, const struct plan_source *like, int orientation,
                          const struct op_item *ops, bool opaque, cJSON *values, const char *what)
{
    struct plan_source source = *like;
    struct plan_target target = {.ops = ops, .opaque = opaque};
    struct engine_memory memory;
    struct error error = {0};
    struct plan plan;
    source.width = image.width;
    source.height = image.height;
    source.channels = image.channels;
    source.ycc = false;
    source.orientation = orientation;
    build(&plan, &source, &target, 1, what);
    assert_int_equal(engine_reserve(cpu, &plan, &memory, &error), ENGINE_RESERVED);
    copy_image(plan_input(&plan, memory.input), image);
    struct engine_task task = {.plan = &plan, .memory = &memory};
    test_run(cpu, &task);
    add_values(values, plan_values(&plan, 0, memory.output));
    struct image view = plan_result(&plan, 0, memory.input, memory.output);
    struct image result = image_new(view.width, view.height, view.channels);
    copy_image(result, view);
    engine_release(cpu, &memory);
    plan_clear(&plan);
    free(image.pixels);
    return result;
}

/* Converts an image of Y, Cb and Cr as a decoder would, and frees it. */
static struct image leave_ycc(struct image ycc, enum decode_as as)
{
    struct image to = image_new(ycc.width, ycc.height, as == DECODE_LUMA ? 1 : 3);
    for (uint32_t y = 0; y < to.height; y++)
        for (size_t x = 0; x < to.width; x++) {
            const uint8_t *from = ycc.pixels + y * ycc.stride + 3 * x;
            if (as == DECODE_LUMA)
                to.pixels[y * to.stride + x] = from[0];
            else
                reference_ycc_pixel(from, to.pixels + y * to.stride + 3 * x);
        }
    free(ycc.pixels);
    return to;
}

static void check_steps(const struct chain_case *c, uint32_t variant, const struct carried *fused)
{
    struct plan_source own = c->source;
    const struct plan_source *source = &own;
    cJSON *values = cJSON_CreateObject();
    struct image now = image_new(source->width, source->height, source->channels);
    test_fill(now, c->fill);
    if (source->ycc)
        now = leave_ycc(now, plan_decode_as(&(struct plan_target){.ops = c->ops[variant]}, 1));
    now = apply(now, source, source->orientation, NULL, false, values, c->text);
    const cJSON *op;
    cJSON_ArrayForEach(op, c->json[variant])
    {
        cJSON *json = cJSON_CreateArray();
        struct error error = {0};
        struct op_item *alone;
        cJSON_AddItemToArray(json, cJSON_Duplicate(op, true));
        assert_int_equal(op_list_parse(&alone, json, -1, &error), STATUS_OK);
        now = apply(now, source, 1, alone, false, values, c->text);
        if (op_list_converts_to_srgb(alone))
            own.icc_bytes = 0;
        op_list_free(alone);
        cJSON_Delete(json);
    }
    now = apply(now, source, 1, NULL, c->opaque[variant], values, c->text);
    test_same(carried_result(fused, variant), now, c->text);
    char *got = carried_values(fused, variant), *want = cJSON_PrintUnformatted(values);
    compare_values(got, want, variant, c->text);
    free(got);
    free(want);
    cJSON_Delete(values);
    free(now.pixels);
}

static uint32_t chain_count(void)
{
    return test_quick() ? CHAINS_QUICK : CHAINS;
}

TEST(test_one_plan_or_many)
{
    for (uint32_t i = 0; i < chain_count(); i++) {
        struct chain_case c;
        struct carried fused;
        case_open(&c, seed, i);
        carried_open(&fused, cpu, &c);
        test_run(cpu, &fused.task);
        carried_check(&fused, c.text);
        for (uint32_t v = 0; v < c.variants; v++)
            check_steps(&c, v, &fused);
        carried_close(&fused, cpu);
        case_close(&c);
    }
}

/* ---- CUDA against the CPU ---- */

static void check_flight(uint32_t first, uint32_t count)
{
    struct chain_case cases[FLIGHT];
    struct carried here[FLIGHT], there[FLIGHT];
    size_t expected = test_wait.ended;
    for (uint32_t i = 0; i < count; i++) {
        case_open(&cases[i], seed, first + i);
        carried_open(&here[i], cpu, &cases[i]);
        carried_open(&there[i], cuda, &cases[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (there[i].plan.idle)
            continue;
        engine_submit(cuda, &there[i].task);
        expected++;
    }
    for (uint32_t i = 0; i < count; i++)
        engine_run(cpu, &here[i].task);
    test_wait_for(expected);
    for (uint32_t i = 0; i < count; i++) {
        carried_check(&here[i], cases[i].text);
        carried_check(&there[i], cases[i].text);
        for (uint32_t v = 0; v < cases[i].variants; v++) {
            char *got = carried_values(&there[i], v), *want = carried_values(&here[i], v);
            test_same(carried_result(&there[i], v), carried_result(&here[i], v), cases[i].text);
            compare_values(got, want, v, cases[i].text);
            free(got);
            free(want);
        }
        carried_close(&here[i], cpu);
        carried_close(&there[i], cuda);
        case_close(&cases[i]);
    }
}

TEST(test_engines_agree_cuda)
{
    if (!cuda)
        skip();
    uint32_t count = chain_count();
    for (uint32_t i = 0; i < count; i += FLIGHT)
        check_flight(i, count - i < FLIGHT ? count - i : FLIGHT);
}

/* ---- the table ---- */

TEST(test_every_operation_was_drawn)
{
    assert_true(op_count >= 23 && op_count <= COUNT_OF(drawn));
    for (size_t i = 0; i < op_count; i++)
        if (drawn[i] == 0)
            fail_msg("no chain had %s", op_table[i]->name);
    for (size_t i = 0; i < COUNT_OF(generators); i++)
        assert_non_null(op_find(generators[i].name));
}

static int open_all(void **state)
{
    const char *given = getenv("GPUIMGD_TEST_SEED");
    seed = given && *given ? (uint32_t)strtoul(given, NULL, 10) : 20;
    print_message("GPUIMGD_TEST_SEED=%u\n", seed);
    profiles[0] = profile_of_matrix(&profile_p3);
    profiles[1] = profile_of_matrix(&profile_adobe);
    profiles[2] = profile_of_gray(1.8);
    profiles[3] = profile_has_lcms ? profile_of_table(&profiles[0], 9)
                                   : profile_of_matrix(&profile_prophoto);
    colour_cache_limit(64 * MIB); /* many sources have the same tables */
    return engines_open(state);
}

static int close_all(void **state)
{
    for (size_t i = 0; i < COUNT_OF(profiles); i++)
        picture_free(&profiles[i]);
    colour_cache_limit(0);
    return engines_close(state);
}

TEST_MAIN(.setup = open_all, .teardown = close_all)
