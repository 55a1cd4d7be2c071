/* Tests of admission: memory is counted to the byte, and no job overtakes a waiting one. */
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "tests/fixtures/test.h"

#define LANE_BYTES 1000
#define PINNED_BYTES (128 * MIB)
#define JOBS 4

static struct pipeline pipeline;
static struct engine *engine;
static struct admission *const admission = &pipeline.admission;

static int set_up(void **state)
{
    struct engine_config config = {.kind = "cpu", .devices = "all", .streams = 1,
                                   .pinned_bytes = PINNED_BYTES};
    struct error error = {0};
    memset(&pipeline, 0, sizeof pipeline);
    if (engine_open(&config, &engine, &error) != STATUS_OK)
        return -1;
    admission_open(admission, engine, LANE_BYTES, JOBS - 1, JOBS);
    return 0;
}

static int tear_down(void **state)
{
    admission_close(admission);
    engine_close(engine);
    return 0;
}

static struct job_run run_of(size_t codec_bytes, size_t pinned_bytes)
{
    struct job_run run = {.pipeline = &pipeline};
    run.info.codec_bytes = codec_bytes;
    run.plan.input_bytes = pinned_bytes;
    return run;
}

static size_t pinned_used(void)
{
    return engine_pinned_usage(engine).used;
}

TEST(each_gets_what_it_needs_or_waits)
{
    struct job_run a = run_of(600, MIB), b = run_of(400, MIB),
                   c = run_of(1, MIB);
    assert_true(admission_pass(&a));
    assert_true(admission_pass(&b));
    assert_int_equal(admission->lane_bytes, LANE_BYTES);
    assert_int_equal(pinned_used(), 2 * MIB);
    assert_false(admission_pass(&c)); /* not a byte is free */
    assert_int_equal(pinned_used(), 2 * MIB);
    assert_int_equal(admission->line, 1);
    admission_keep_encoder(&a); /* it has no encoder's memory to keep */
    assert_int_equal(admission->lane_bytes, 400);
    assert_true(admission_try(&c));
    assert_int_equal(admission->line, 0);
    struct job_run *all[] = {&a, &b, &c};
    for (int twice = 0; twice < 2; twice++)
        for (size_t i = 0; i < 3; i++)
            admission_release(all[i]);
    assert_int_equal(admission->lane_bytes, 0);
    assert_int_equal(pinned_used(), 0);
}

static void expect_lack(struct job_run *run, enum blocked_by by, uint64_t wanted, uint64_t free,
                        uint64_t limit)
{
    struct blocked_memory memory;
    admission_look(run, &memory);
    assert_int_equal(memory.by, by);
    assert_int_equal(memory.wanted, wanted);
    assert_int_equal(memory.free, free);
    assert_int_equal(memory.limit, limit);
    assert_int_equal(memory.since_ns, wanted > 0 ? 7 : memory.since_ns);
}

TEST(the_lacking_memory_is_named)
{
    struct job_run a = run_of(600, 100 * MIB), lane = run_of(500, MIB),
                   pinned = run_of(1, 64 * MIB), later = run_of(1, 1);
    lane.timing.entered_ns = pinned.timing.entered_ns = 7;
    assert_true(admission_pass(&a));
    assert_false(admission_pass(&lane));
    expect_lack(&lane, BLOCKED_BY_CODECS, 500, 400, LANE_BYTES);
    admission_release(&lane);
    assert_false(admission_pass(&pinned));
    expect_lack(&pinned, BLOCKED_BY_PINNED, 64 * MIB, 28 * MIB, PINNED_BYTES);
    assert_false(admission_pass(&later));
    /* The CPU engine takes the scratch memory from the same block. */
    pinned.plan.output_bytes = 1;
    pinned.plan.scratch_bytes = MIB;
    expect_lack(&pinned, BLOCKED_BY_PINNED, 65 * MIB + buffer_align(1), 28 * MIB, PINNED_BYTES);
    pinned.plan.output_bytes = pinned.plan.scratch_bytes = 0;
    admission_release(&a);
    assert_true(admission_try(&pinned));
    assert_true(admission_try(&later));
    expect_lack(&later, BLOCKED_BY_NOTHING, 0, 0, 0);
    admission_release(&pinned);
    admission_release(&later);
}

TEST(nobody_overtakes)
{
    struct job_run running = run_of(10, 100 * MIB), large = run_of(10, 100 * MIB),
                   small = run_of(10, MIB), gone = run_of(10, MIB);
    assert_true(admission_pass(&running));
    assert_false(admission_pass(&large));
    assert_false(admission_pass(&small)); /* it fits, but must wait for the large one */
    admission_wait(&gone);
    admission_wait(&gone);
    assert_int_equal(admission->line, 3);
    assert_false(admission_try(&large));
    admission_release(&gone); /* a job that leaves the line leaves no gap */
    admission_release(&running);
    assert_true(admission_try(&large));
    assert_true(admission_try(&small));
    assert_int_equal(admission->line, 0);
    admission_release(&large);
    admission_release(&small);
}

/* The fifth large job gets no memory until one of four has ended. Small jobs' bytes count. */
TEST(no_more_than_can_soon_begin)
{
    struct job_run small[JOBS + 2], large[JOBS], next = run_of(1, 4 * MIB + 1);
    for (size_t i = 0; i < JOBS + 2; i++) {
        small[i] = run_of(1, SMALL_JOB_BYTES / 2);
        assert_true(admission_pass(&small[i]));
    }
    for (size_t i = 0; i < JOBS + 1; i++)
        assert_false(admission_release(&small[i]));
    for (size_t i = 0; i < JOBS - 1; i++) {
        large[i] = run_of(1, 10 * MIB);
        assert_true(admission_pass(&large[i]));
    }
    assert_false(admission_pass(&next));
    assert_false(admission_is_short(admission));
    assert_true(admission_release(&small[JOBS + 1])); /* makes room for `next` */
    assert_true(admission_try(&next));
    assert_int_equal(pinned_used(), buffer_align(4 * MIB + 1) + (JOBS - 1) * 10 * MIB);
    /* An abandoned job keeps its memory, but no longer counts as running. */
    struct job_run last = run_of(1, 10 * MIB), more = run_of(1, 104 * MIB);
    assert_false(admission_pass(&last));
    admission_abandon(&large[0]);
    assert_true(admission_try(&last));
    admission_abandon(&large[1]);
    admission_abandon(&large[2]);
    assert_false(admission_pass(&more));
    assert_true(admission_is_short(admission));
    struct job_run *all[] = {&large[0], &large[1], &large[2], &next, &last, &more};
    for (int twice = 0; twice < 2; twice++)
        for (size_t i = 0; i < COUNT_OF(all); i++)
            admission_release(all[i]);
    assert_int_equal(admission->jobs[0], 0);
    assert_int_equal(admission->bytes[0], 0);
    assert_false(admission_is_short(admission));
    assert_int_equal(pinned_used(), 0);
}

/* Jobs of lower priorities do not keep an urgent one from being ready: it overtakes them at the
 * workers. */
TEST(less_urgent_ones_do_not_count)
{
    struct job_run large[JOBS - 1], urgent = run_of(1, 40 * MIB), other = run_of(1, 40 * MIB);
    urgent.worker_task.rank.priority = 9;
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        large[i] = run_of(1, 10 * MIB);
        large[i].worker_task.rank.priority = 4;
        assert_true(admission_pass(&large[i]));
    }
    other.worker_task.rank.priority = 4;
    admission_wait(&other);
    assert_false(admission_try(&other));
    assert_true(admission_try(&urgent));
    admission_release(&urgent);
    admission_release(&other);
    for (size_t i = 0; i < COUNT_OF(large); i++)
        admission_release(&large[i]);
    for (size_t p = 0; p < JOB_PRIORITIES; p++)
        assert_int_equal(admission->jobs[p] + admission->bytes[p], 0);
}

/* A device runs more jobs at once than there are workers, and needs no memory of libjpeg. */
TEST(jobs_of_a_device_need_no_worker)
{
    struct job_run device[2 * JOBS], large[JOBS - 1], next = run_of(1, 40 * MIB);
    for (size_t i = 0; i < COUNT_OF(device); i++) {
        device[i] = run_of(LANE_BYTES, 8 * MIB);
        device[i].input.decoder = CODEC_ON_DEVICE;
        assert_true(admission_pass(&device[i]));
    }
    assert_int_equal(admission->lane_bytes, 0);
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        large[i] = run_of(1, 10 * MIB);
        assert_true(admission_pass(&large[i]));
    }
    assert_false(admission_pass(&next));
    for (size_t i = 0; i < COUNT_OF(large); i++)
        admission_release(&large[i]);
    assert_false(admission_step_aside(&next)); /* jobs of the device hold memory */
    assert_true(admission_try(&next));
    for (size_t i = 0; i < COUNT_OF(device); i++)
        admission_release(&device[i]);
    admission_release(&next);
    assert_int_equal(admission->holders, 0);
    assert_int_equal(pinned_used(), 0);
}

/* Memory of abandoned jobs may never come back: a job that needs it lets the others pass. */
TEST(nobody_waits_for_the_abandoned)
{
    struct job_run hung = run_of(10, 100 * MIB), running = run_of(10, MIB),
                   large = run_of(10, 100 * MIB), small = run_of(10, MIB);
    assert_true(admission_pass(&hung));
    assert_true(admission_pass(&running));
    admission_abandon(&hung);
    assert_false(admission_pass(&large));
    assert_false(admission_step_aside(&large)); /* the running job may still make room */
    assert_false(admission_pass(&small));
    admission_release(&running);
    assert_false(admission_try(&large));
    assert_true(admission_step_aside(&large));
    assert_int_equal(admission->line, 1);
    assert_true(admission_try(&small));
    admission_release(&hung); /* the hung worker has returned */
    admission_wait(&large);
    assert_int_equal(admission->line, 1);
    assert_true(admission_try(&large));
    admission_release(&large);
    admission_release(&small);
    assert_int_equal(pinned_used(), 0);
}

/* The pool has 64 MiB and may grow to twice that, but not for a job that no worker could start. */
TEST(no_new_memory_for_those_in_reserve)
{
    struct job_run first[JOBS - 1], next = run_of(1, 5 * MIB);
    for (size_t i = 0; i < JOBS - 1; i++) {
        first[i] = run_of(1, 20 * MIB);
        assert_true(admission_pass(&first[i]));
    }
    assert_false(admission_pass(&next));
    assert_int_equal(engine_pinned_usage(engine).held, POOL_SEGMENT_BYTES);
    next.plan.input_bytes = 4 * MIB; /* fits into the first segment */
    assert_true(admission_try(&next));
    admission_release(&next);
    next.plan.input_bytes = 30 * MIB;
    admission_release(&first[1]);
    assert_true(admission_pass(&next));
    assert_int_equal(engine_pinned_usage(engine).held, 2 * POOL_SEGMENT_BYTES);
    admission_release(&next);
    for (size_t i = 0; i < JOBS - 1; i++)
        admission_release(&first[i]);
}

TEST(what_never_fits_fails)
{
    struct job_run codec = run_of(LANE_BYTES + 1, MIB),
                   pinned = run_of(1, PINNED_BYTES + 1);
    assert_true(admission_pass(&codec));
    assert_int_equal(codec.error.status, STATUS_OVER_BUDGET);
    assert_true(admission_pass(&pinned));
    assert_int_equal(pinned.error.status, STATUS_OVER_BUDGET);
    assert_int_equal(admission->lane_bytes, 0);
    assert_int_equal(admission->line, 0);
    admission_release(&codec);
    admission_release(&pinned);
}

/* A job with one output of 8 x 8 pixels, to a key as PNG. */
static struct job_run keyed_run(void)
{
    struct job_run run = run_of(100, MIB);
    run.job.output_count = 1;
    run.job.outputs[0].place.key = "k";
    run.outputs[0].format = format_by_name("png");
    run.outputs[0].metadata = METADATA_ICC;
    run.plan.variants[0] = (struct plan_variant){.width = 8, .height = 8, .channels = 3};
    return run;
}

/* The exact size of results that wait for Redis stays reserved after the job's release. */
TEST(results_stay_until_settled)
{
    admission->lane_bytes_max = 10000;
    struct job_run a = keyed_run(), b = keyed_run(), c = run_of(10000, MIB);
    const struct encoder_settings *encoder = &a.job.outputs[0].encoder;
    size_t most = codec_encoded_bytes(a.outputs[0].format, 8, 8, 3, encoder, 0);
    assert_true(most >= 8 * (8 * 3 + 1) && most < 5000);
    a.plan_bytes = 30, a.info.icc_bytes = 7, a.values_bytes = 20;
    assert_true(admission_pass(&a));
    size_t profile = codec_encoded_bytes(a.outputs[0].format, 8, 8, 3, encoder, 7) - most;
    assert_int_equal(a.reserved.results_room, most + profile + 20);
    assert_int_equal(admission->lane_bytes, 100 + 30 + 7 + a.reserved.results_room);
    assert_true(admission_pass(&b));
    assert_false(admission_extend(&b, 10000 - admission->lane_bytes + 1));
    assert_true(admission_extend(&b, 1000));
    assert_int_equal(b.reserved.results_room, most + 1000);
    admission_keep_encoder(&a);
    assert_int_equal(a.reserved.lane_bytes, 30 + 7 + a.reserved.results_room);
    a.reserved.results_bytes = 300;
    b.reserved.results_bytes = 0;
    admission_release(&a);
    admission_release(&b);
    admission_settle(&b);
    assert_int_equal(admission->lane_bytes, 300);
    assert_int_equal(pinned_used(), 0);
    assert_false(admission_pass(&c)); /* Redis is away */
    assert_true(admission_is_short(admission));
    admission_settle(&a);
    admission_settle(&a);
    assert_true(admission_try(&c));
    admission_release(&c);
    assert_int_equal(admission->lane_bytes, 0);
}

/* If the results may be larger than the lane, the job gets the whole lane for itself. */
TEST(results_beyond_the_lane)
{
    struct job_run large = keyed_run(), next = run_of(1, MIB);
    assert_true(admission_pass(&large));
    assert_int_equal(large.error.status, STATUS_OK);
    assert_int_equal(large.reserved.results_room, LANE_BYTES - 100);
    assert_false(admission_pass(&next));
    admission_release(&large);
    assert_true(admission_try(&next));
    admission_release(&next);
    large = keyed_run();
    large.plan_bytes = LANE_BYTES - 99;
    assert_true(admission_pass(&large));
    assert_int_equal(large.error.status, STATUS_OVER_BUDGET);
    admission_release(&large);
}

TEST_MAIN(.name = "admission", .each_setup = set_up, .each_teardown = tear_down)
