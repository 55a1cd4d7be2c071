/*
 * Tests of the image that the self-test and the periodic check send through a device. It must run
 * every launcher of gpu/ops, and detect a wrong bit of any of them. Uses the stand-in CUDA runtime.
 */
#include "tests/cuda/jobs.h"

#include "daemon/selfcheck/test_image.h"
#include "gpu/plan/pass.h"

/* The Makefile takes the names from the sources of gpu/ops, so every new launcher is included. */
#define LAUNCHER(name)         pass_cuda name;
#define LAUNCHER_OF_MANY(name) pass_cuda_many name;
#include "tests/cuda/launchers.inc"
#undef LAUNCHER
#undef LAUNCHER_OF_MANY

static const struct launcher {
    const char *name;
    pass_cuda *one;
    pass_cuda_many *many;
} launchers[] = {
#define LAUNCHER(name)         {#name, name, NULL},
#define LAUNCHER_OF_MANY(name) {#name, NULL, name},
#include "tests/cuda/launchers.inc"
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

struct check {
    struct test_image *test_image;
    struct engine *engine;
    struct codec_context *codec;
    const struct pass_type *types[64]; /* of the launches, in order */
    unsigned count;
};

static void check_open(struct check *check)
{
    struct error error = {0};
    jobs_set_no_fault(1);
    *check = (struct check){.engine = jobs_engine(&(struct jobs_how){.streams = 1})};
    check->test_image = test_image_create(&error);
    if (!check->test_image)
        fail_msg("%s", error.text);
    check->codec = codec_context_create();
    const struct plan *plan = test_image_plan(check->test_image);
    for (enum plan_phase phase = 0; phase < PHASES; phase++)
        for (uint32_t v = 0; v < plan->variant_count; v++) {
            const struct plan_variant *variant = &plan->variants[v];
            for (uint32_t p = phase_begin(variant, phase); p < phase_end(variant, phase); p++)
                if (pass_runs(&variant->passes[p]))
                    check->types[check->count++] = variant->passes[p].type;
        }
}

static void check_close(struct check *check)
{
    jobs_set_no_fault(1);
    codec_context_destroy(check->codec);
    test_image_destroy(check->test_image);
    engine_close(check->engine);
}

/* Whether the device's result equals the CPU engine's. nth: the kernel, from 1, that flips a bit;
 * 0: none. */
static bool passes(struct check *check, unsigned nth)
{
    struct engine_memory memory;
    struct error error = {0};
    struct engine_task task = {
        .plan = test_image_plan(check->test_image), .memory = &memory, .done = test_done};
    cuda_fault_set(&(struct cuda_fault){
        .at = "kernel", .bit = nth > 0, .nth = nth ? nth : 1000, .times = 1, .devices = 1});
    assert_int_equal(engine_reserve(check->engine, task.plan, &memory, &error), ENGINE_RESERVED);
    assert_true(test_image_decode(check->test_image, check->codec, &memory, &error));
    test_run(check->engine, &task);
    assert_int_equal(task.error.status, STATUS_OK);
    assert_int_equal(cuda_fault_passed(), check->count);
    assert_int_equal(cuda_fault_struck(), nth > 0);
    bool same = test_image_compare(check->test_image, check->codec, &memory, &error);
    assert_int_equal(error.status, same ? STATUS_OK : STATUS_GPU_FAILED);
    engine_release(check->engine, &memory);
    return same;
}

static bool launched_by(const struct pass_type *type, const struct launcher *launcher)
{
    return launcher->one ? type->cuda == launcher->one : type->cuda_many == launcher->many;
}

TEST(test_a_wrong_bit_of_each_kernel_is_found)
{
    struct check check;
    bool found[64] = {false};
    check_open(&check);
    assert_true(passes(&check, 0));
    for (unsigned i = 0; i < check.count; i++)
        found[i] = !passes(&check, i + 1);
    for (size_t l = 0; l < LAUNCHERS; l++) {
        unsigned runs = 0, finds = 0;
        for (unsigned i = 0; i < check.count; i++) {
            runs += launched_by(check.types[i], &launchers[l]);
            finds += launched_by(check.types[i], &launchers[l]) && found[i];
        }
        if (finds == 0)
            fail_msg("%s: a wrong bit in any of its %u passes is not detected; a chain of "
                     "daemon/selfcheck/test_image.c must run it",
                     launchers[l].name, runs);
    }
    check_close(&check);
}

TEST_MAIN()
