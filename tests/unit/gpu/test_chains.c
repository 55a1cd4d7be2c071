/*
 * Random chains of operations. One plan of a whole chain must give the same bytes as one plan per
 * operation, and CUDA must give the same bytes as the CPU.
 *
 * The test prints its seed; GPUIMGD_TEST_SEED=N repeats it. Operations and their parameters come
 * from the table of operations.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/op.h"
#include "tests/fixtures/gpu/random_chain.h"
#include "tests/fixtures/reference.h"

#define CHAINS 1000
#define CHAINS_QUICK 100
#define FLIGHT 8 /* plans in flight on the device */

/* ---- running a plan ---- */

struct carried {
    struct plan plan;
    struct engine_memory memory;
    struct engine_task task;
};

/* Reserves memory with guards after results and scratch, and fills in the source. */
static void carried_open(struct carried *carried, struct engine *engine,
                         const struct random_chain *c)
{
    struct plan_target targets[CHAIN_VARIANTS_MAX] = {{.ops = NULL}};
    struct plan *plan = &carried->plan;
    memset(carried, 0, sizeof(*carried));
    for (uint32_t v = 0; v < c->variants; v++)
        targets[v] = (struct plan_target){.ops = c->ops[v], .opaque = c->opaque[v]};
    random_chain_build(plan, &c->source, targets, c->variants, c->text);
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
    random_chain_build(&plan, &source, &target, 1, what);
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

static void check_steps(const struct random_chain *c, uint32_t variant, const struct carried *fused)
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
        struct random_chain c;
        struct carried fused;
        random_chain_open(&c, seed, i);
        carried_open(&fused, cpu, &c);
        test_run(cpu, &fused.task);
        carried_check(&fused, c.text);
        for (uint32_t v = 0; v < c.variants; v++)
            check_steps(&c, v, &fused);
        carried_close(&fused, cpu);
        random_chain_close(&c);
    }
}

/* ---- CUDA against the CPU ---- */

static void check_flight(uint32_t first, uint32_t count)
{
    struct random_chain cases[FLIGHT];
    struct carried here[FLIGHT], there[FLIGHT];
    size_t expected = test_wait.ended;
    for (uint32_t i = 0; i < count; i++) {
        random_chain_open(&cases[i], seed, first + i);
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
        random_chain_close(&cases[i]);
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
    random_chains_check_table();
}

static int open_all(void **state)
{
    const char *given = getenv("GPUIMGD_TEST_SEED");
    seed = given && *given ? (uint32_t)strtoul(given, NULL, 10) : 20;
    print_message("GPUIMGD_TEST_SEED=%u\n", seed);
    random_chains_begin();
    return engines_open(state);
}

static int close_all(void **state)
{
    random_chains_end();
    return engines_close(state);
}

TEST_MAIN(.setup = open_all, .teardown = close_all)
