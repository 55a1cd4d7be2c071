/* test_admission.c - memory to the byte, and nobody overtakes one who waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "daemon/pipeline_impl.h"

#define CODEC_BYTES 1000
#define PINNED_BYTES (64 * MIB)

struct bench {
    struct pipeline pipeline;
    struct engine *engine;
};

static int set_up(void **state)
{
    static struct bench bench;
    struct engine_config config = {.kind = "cpu", .devices = "all", .streams = 1,
                                   .pinned_bytes = PINNED_BYTES};
    struct error error = {0};
    memset(&bench, 0, sizeof bench);
    if (engine_open(&config, &bench.engine, &error) != STATUS_OK)
        return -1;
    admission_open(&bench.pipeline.admission, bench.engine, CODEC_BYTES);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    admission_close(&bench->pipeline.admission);
    engine_close(bench->engine);
    return 0;
}

static struct work work_of(struct bench *bench, size_t codec_bytes, size_t pinned_bytes)
{
    struct work work = {.pipeline = &bench->pipeline};
    work.info.codec_bytes = codec_bytes;
    work.plan.input_bytes = pinned_bytes;
    return work;
}

static size_t pinned_used(const struct bench *bench)
{
    return engine_pinned_usage(bench->engine).used;
}

static void each_gets_what_it_needs_or_waits(void **state)
{
    struct bench *bench = *state;
    struct admission *admission = &bench->pipeline.admission;
    struct work a = work_of(bench, 600, MIB), b = work_of(bench, 400, MIB),
                c = work_of(bench, 1, MIB);
    assert_true(admission_pass(&a));
    assert_true(admission_pass(&b));
    assert_int_equal(admission->codec_bytes, CODEC_BYTES);
    assert_int_equal(pinned_used(bench), 2 * MIB);
    assert_false(admission_pass(&c)); /* not one byte more */
    assert_int_equal(pinned_used(bench), 2 * MIB);
    assert_int_equal(admission->line, 1);
    admission_keep_encoder(&a); /* there is none that needs anything */
    assert_int_equal(admission->codec_bytes, 400);
    assert_true(admission_try(&c));
    assert_int_equal(admission->line, 0);
    struct work *all[] = {&a, &b, &c};
    for (int twice = 0; twice < 2; twice++)
        for (size_t i = 0; i < 3; i++)
            admission_release(all[i]);
    assert_int_equal(admission->codec_bytes, 0);
    assert_int_equal(pinned_used(bench), 0);
}

static void nobody_overtakes(void **state)
{
    struct bench *bench = *state;
    struct work running = work_of(bench, 10, 40 * MIB), large = work_of(bench, 10, 40 * MIB),
                small = work_of(bench, 10, MIB), gone = work_of(bench, 10, MIB);
    assert_true(admission_pass(&running));
    assert_false(admission_pass(&large));
    assert_false(admission_pass(&small)); /* there is room for it, but not before the large one */
    admission_wait(&gone);
    admission_wait(&gone);
    assert_int_equal(bench->pipeline.admission.line, 3);
    assert_false(admission_try(&large));
    admission_release(&gone); /* whoever gives up leaves no gap */
    admission_release(&running);
    assert_true(admission_try(&large));
    assert_true(admission_try(&small));
    assert_int_equal(bench->pipeline.admission.line, 0);
    admission_release(&large);
    admission_release(&small);
}

static void what_never_fits_fails(void **state)
{
    struct bench *bench = *state;
    struct work codec = work_of(bench, CODEC_BYTES + 1, MIB),
                pinned = work_of(bench, 1, PINNED_BYTES + 1);
    assert_true(admission_pass(&codec));
    assert_int_equal(codec.error.status, STATUS_OVER_BUDGET);
    assert_true(admission_pass(&pinned));
    assert_int_equal(pinned.error.status, STATUS_OVER_BUDGET);
    assert_int_equal(bench->pipeline.admission.codec_bytes, 0);
    assert_int_equal(bench->pipeline.admission.line, 0);
    admission_release(&codec);
    admission_release(&pinned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_gets_what_it_needs_or_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_overtakes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_never_fits_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
