/* Tests of share.c: which passes the outputs of a job share, their memory, and equal results. */
#include "tests/fixtures/gpu/both_engines.h"
#include "tests/fixtures/gpu/overlay.h"

#include "gpu/plan/op.h"
#include "gpu/plan/pass.h"

#define OUTPUTS       6
#define RESIZE(width) "{'op':'resize','width':" #width "}"
#define BLUR(size)    "{'op':'gaussian','ksize':" #size "}"

/* The outputs of a job, and for each of them the number of skipped passes, of early and of joint
 * passes. */
struct job {
    int orientation;
    const char *ops[OUTPUTS];
    uint32_t skipped[OUTPUTS], early[OUTPUTS], joint[OUTPUTS];
};

/* clang-format off */
static const struct job jobs[] = {
    {6, {"[" RESIZE(40) "]", "[" RESIZE(8) ",'invert']", "[" RESIZE(20) "]", "['sobel']",
         "['blurhash']", "[" RESIZE(25) ",'phash']"},
     {0, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, {2, 2, 2, 0, 0, 2}},
    /* equal outputs have one result */
    {8, {"[" RESIZE(40) "]", "[" RESIZE(40) "]", "[" RESIZE(20) "]", "[" RESIZE(20) "]"},
     {0, 3, 1, 3}, {1, 1, 1, 1}, {2, 0, 2, 0}},
    /* The shared image is the result of the third output. */
    {3, {"['median'," RESIZE(40) "]", "['median'," RESIZE(20) "]", "['median']",
         "['median','stats']", "['median']"},
     {0, 2, 2, 2, 2}, {2, 2, 2, 2, 2}, {2, 2, 0, 0, 0}},
    /* A crop at an unaligned column is read by its own orientation. Overlays are never shared. */
    {5, {"[{'op':'crop','width':99,'height':70}," RESIZE(40) "]", "[" RESIZE(40) "]",
         "[" RESIZE(20) "]", "[{'op':'composite','input':'colour-40x20'}," RESIZE(30) "]",
         "[{'op':'composite','input':'colour-40x20'}," RESIZE(30) "]",
         "[{'op':'resize','width':30,'height':30,'fit':'cover','gravity':'attention'}]"},
     {0, 0, 1, 1, 1, 1}, {0, 1, 1, 1, 1, 1}, {0, 2, 2, 0, 0, 2}},
    /* What a pass reads through a prologue stays there. */
    {1, {"['grayscale'," RESIZE(40) "]", "['grayscale'," RESIZE(20) "]", "['grayscale','invert']",
         "['grayscale','gaussian']", "['grayscale','median']"},
     {0, 1, 0, 0, 0}, {1, 1, 0, 0, 0}, {2, 2, 0, 0, 0}},
    {1, {"[" RESIZE(40) "]", "['sobel']", "[" RESIZE(20) ",'stats']", "[]"},
     {0, 0, 0, 0}, {0, 0, 0, 0}, {2, 0, 2, 0}},
    /* two levels, and a branch, which is skipped as a whole or not at all */
    {7, {"['gaussian'," RESIZE(40) "]", "[" RESIZE(40) "]", "['gaussian'," RESIZE(20) "]",
         "['phash'," RESIZE(40) "]", "['phash','sobel']", "['phash','stats'," RESIZE(20) "]"},
     {0, 1, 2, 1, 5, 5}, {2, 1, 2, 1, 1, 1}, {2, 2, 2, 0, 0, 0}},
    {2, {"['otsu','histogram'," RESIZE(9) "]", "['otsu','histogram']", "['otsu'," RESIZE(9) "]",
         "['thumbhash']", "['thumbhash','invert']"},
     {0, 3, 2, 1, 4}, {2, 2, 2, 1, 1}, {0, 0, 0, 0, 0}},
    /* At most two images of the source's size are kept. */
    {1, {"[" BLUR(3) ",'invert']", "[" BLUR(3) ",'sobel']", "[" BLUR(5) ",'invert']",
         "[" BLUR(5) ",'sobel']", "[" BLUR(7) ",'invert']", "[" BLUR(7) ",'sobel']"},
     {0, 1, 0, 1, 0, 0}, {1, 1, 1, 1, 0, 0}, {0, 0, 0, 0, 0, 0}},
};
/* clang-format on */

struct built {
    struct plan plan;
    struct plan_source source;
    struct plan_target targets[OUTPUTS];
    uint32_t count;
};

static void build(struct built *built, const struct plan_source *source, const char *const *ops)
{
    struct error error = {0};
    built->source = *source;
    memcpy(built->source.background, test_background, sizeof(test_background));
    for (built->count = 0; built->count < OUTPUTS && ops[built->count]; built->count++)
        built->targets[built->count] =
            (struct plan_target){.ops = test_ops(ops[built->count]), .overlays = &test_overlays};
    if (plan_build(&built->plan, &built->source, built->targets, built->count, &test_limits,
                   &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void clear(struct built *built)
{
    plan_clear(&built->plan);
    for (uint32_t v = 0; v < built->count; v++)
        op_list_free(built->targets[v].ops);
}

static uint32_t count_skipped(const struct plan_variant *variant)
{
    uint32_t count = 0;
    while (count < variant->pass_count && variant->passes[count].same)
        count++;
    for (uint32_t p = count; p < variant->pass_count; p++)
        assert_null(variant->passes[p].same);
    return count;
}

TEST(test_shared_passes)
{
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        const struct job *job = &jobs[i];
        struct built built;
        build(&built, SOURCE(160, 120, 3, .orientation = job->orientation), job->ops);
        for (uint32_t v = 0; v < built.count; v++) {
            const struct plan_variant *variant = &built.plan.variants[v];
            uint32_t skipped = count_skipped(variant);
            if (skipped != job->skipped[v] || variant->early != job->early[v] ||
                variant->joint != job->joint[v])
                fail_msg("job %zu, output %u: %u skipped, %u early and %u joint passes", i, v,
                         skipped, variant->early, variant->joint);
        }
        clear(&built);
    }
}

/* ---- memory ---- */

#define FILE_BYTES 1000

/* Inverted, and resized to two widths: the bytes of the images, and of the work space of all joint
 * passes. */
static size_t shared_bytes, first_bytes, second_bytes, work_bytes;

static void measure_two(struct built *built, struct plan_file file)
{
    static const char *const ops[OUTPUTS] = {"['invert'," RESIZE(400) "]",
                                             "['invert'," RESIZE(200) "]"};
    build(built, SOURCE(960, 640, 3, .file = file), ops);
    const struct pass *first = built->plan.variants[0].passes;
    const struct pass *second = built->plan.variants[1].passes;
    shared_bytes = buffer_align(first[0].to_bytes);
    first_bytes = buffer_align(first[1].to_bytes);
    second_bytes = buffer_align(second[1].to_bytes);
    work_bytes = 0;
    for (uint32_t p = 1; p < 3; p++)
        work_bytes += buffer_align(first[p].work_bytes) + buffer_align(second[p].work_bytes);
    assert_int_equal(shared_bytes, 960 * 640 * 3);
    assert_int_equal(first_bytes, 640 * 1216);
    assert_int_equal(first[0].to_place.offset, second[1].from_place.offset);
}

/* A plan of the first output alone needs the inverted image and the other one between its passes.
 * Joint passes have results of their own; they replace the source if a device has decoded it. */
TEST(test_memory_of_shared_images)
{
    struct built built;
    measure_two(&built, (struct plan_file){.bytes = 0});
    assert_int_equal(built.plan.scratch_bytes,
                     shared_bytes + first_bytes + second_bytes + work_bytes);
    assert_int_equal(built.plan.device_bytes, buffer_align(built.plan.input_bytes) +
                                                  built.plan.scratch_bytes +
                                                  buffer_align(built.plan.output_bytes));
    clear(&built);
    measure_two(&built, (struct plan_file){
                            .codec = DEVICE_CODEC_JPEG, .bytes = FILE_BYTES, .frame_bytes = 64});
    assert_int_equal(built.plan.scratch_bytes, shared_bytes + work_bytes + 960 * 640 * 3);
    clear(&built);
}

/* Tables of skipped passes take no memory. */
TEST(test_constants_of_shared_passes)
{
    static const char *const one[OUTPUTS] = {"[" RESIZE(40) "]"};
    static const char *const two[OUTPUTS] = {"[" RESIZE(40) "]", "[" RESIZE(40) ",'invert']"};
    struct built built;
    build(&built, SOURCE(160, 120, 3), one);
    size_t bytes = built.plan.constants_bytes;
    clear(&built);
    build(&built, SOURCE(160, 120, 3), two);
    assert_int_equal(built.plan.constants_bytes, bytes);
    clear(&built);
}

/* ---- encoders ---- */

static bool measure(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                    uint32_t channels)
{
    encoder->capacity = (size_t)width * height * channels;
    encoder->work_bytes = 256;
    return true;
}

/* An image is either downloaded or encoded on the device. The other outputs need their own. */
TEST(test_results_of_two_encoders)
{
    static const struct {
        bool encoded[4];
        uint32_t skipped[4], owner[4];
    } rows[] = {
        {{false, false, false, false}, {0, 3, 3, 3}, {0, 0, 0, 0}},
        {{true, true, true, true}, {0, 3, 3, 3}, {0, 0, 0, 0}},
        {{true, false, true, false}, {0, 1, 3, 3}, {0, 1, 0, 1}},
        {{false, true, true, false}, {0, 1, 3, 3}, {0, 1, 1, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan_target targets[4];
        struct error error = {0};
        struct plan plan;
        for (uint32_t v = 0; v < 4; v++)
            targets[v] = (struct plan_target){
                .ops = test_ops("[" RESIZE(40) "]"),
                .encoder = {.codec = rows[i].encoded[v] ? DEVICE_CODEC_PNG : DEVICE_CODEC_NONE},
                .measure_encoder = measure};
        assert_int_equal(plan_build(&plan, SOURCE(160, 120, 3, .orientation = 6), targets, 4,
                                    &test_limits, &error),
                         STATUS_OK);
        for (uint32_t v = 0; v < 4; v++) {
            const struct plan_variant *variant = &plan.variants[v];
            const struct plan_variant *owner = &plan.variants[rows[i].owner[v]];
            if (count_skipped(variant) != rows[i].skipped[v])
                fail_msg("row %zu: output %u skips %u", i, v, count_skipped(variant));
            assert_int_equal(plan_is_encoded(variant), rows[i].encoded[v]);
            if (plan_is_encoded(variant))
                assert_int_equal(variant->encoder.image_at, owner->encoder.image_at);
            else
                assert_int_equal(variant->offset, owner->offset);
            for (uint32_t u = 0; u < v && plan_is_encoded(variant); u++) {
                assert_int_not_equal(variant->offset, plan.variants[u].offset);
                assert_true(!plan_is_encoded(&plan.variants[u]) ||
                            variant->encoder.work_at != plan.variants[u].encoder.work_at);
            }
            op_list_free(targets[v].ops);
        }
        plan_clear(&plan);
    }
}

/* ---- equal passes ---- */

/* Fills the stack below the caller, where plan_build will have its variables. */
static __attribute__((noinline)) void fill_stack(uint8_t byte)
{
    volatile uint8_t stack[65536];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = byte;
}

/* The parameters of passes have no bytes that are not set: otherwise the same passes would differ
 * at random. */
TEST(test_parameters_are_set)
{
    static const char *const some[] = {
        "[{'op':'resize','width':30,'height':30,'fit':'cover','gravity':'attention'}]",
        "[{'op':'resize','width':30,'filter':'nearest'}]",
        "[{'op':'rotate','angle':5}]",
        "[{'op':'pad','top':3}]",
        "['invert','median']",
        "[{'op':'convolve','kernel':[[1,2,1]]}]",
        "['threshold','unsharp']",
        "[{'op':'color_matrix','matrix':[[0,1,0,0],[0,0,1,0],[1,0,0,8]]}]"};
    for (size_t i = 0; i < op_count + COUNT_OF(some); i++) {
        char name[64];
        struct error ignored = {0};
        struct op_item *ops;
        struct plan plans[2];
        snprintf(name, sizeof name, "['%s']", i < op_count ? op_table[i]->name : "");
        const char *text = i < op_count ? name : some[i - op_count];
        if (test_parse(&ops, text, -1, &ignored) != STATUS_OK)
            continue; /* it has required parameters */
        op_list_free(ops);
        for (int p = 0; p < 2; p++) {
            fill_stack(p ? 0x5A : 0xA5);
            test_plan(&plans[p], SOURCE(60, 40, 3, .ycc = i % 2, .orientation = 6), NULL, text);
        }
        for (uint32_t p = 0; p < plans[0].variants[0].pass_count; p++)
            assert_memory_equal(plans[0].variants[0].passes[p].params,
                                plans[1].variants[0].passes[p].params, PASS_PARAMS_BYTES_MAX);
        plan_clear(&plans[0]);
        plan_clear(&plans[1]);
    }
}

/* ---- results ---- */

static char *values_of(const struct plan *plan, size_t variant, const uint8_t *output)
{
    cJSON *json = plan_values(plan, variant, output);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

/* Each output of the job must have the pixels and the values that it has alone. */
static void check_job(struct engine *engine, const struct plan_source *source,
                      const char *const *ops)
{
    struct built built;
    struct engine_memory memory;
    build(&built, source, ops);
    test_reserve(engine, &built.plan, &memory);
    test_fill(plan_input(&built.plan, memory.input), 5);
    test_carry_out(engine, &built.plan, &memory, "together");
    for (uint32_t v = 0; v < built.count; v++) {
        struct gpu_run alone;
        gpu_run_open(&alone, engine, &built.source, NULL, ops[v]);
        test_fill(alone.input, 5);
        gpu_run_finish(&alone);
        test_same(plan_result(&built.plan, v, memory.input, memory.output), alone.result,
                  alone.what);
        char *got = values_of(&built.plan, v, memory.output);
        char *want = values_of(&alone.plan, 0, alone.memory.output);
        assert_string_equal(got, want);
        free(got);
        free(want);
        gpu_run_close(&alone);
    }
    engine_release(engine, &memory);
    clear(&built);
}

static void all_jobs(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        for (int orientation = 1; orientation <= ORIENTATION_MAX; orientation++)
            each_channels (channels)
                check_job(engine,
                          SOURCE(163, 121, channels, .orientation = orientation,
                                 .ycc = channels == 3 && orientation % 2),
                          jobs[i].ops);
}

ON_BOTH(jobs)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
