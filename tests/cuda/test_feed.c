/*
 * Tests of tasks that are fed: rows that go to the device before their task is submitted, what
 * becomes of them, and each call that can fail on the way. They run on the stand-in
 * (tests/cuda/fault.h), so on every machine.
 */
#include "gpu/cuda/device.h"
#include "tests/cuda/jobs.h"

#define STREAMS 2

static char hold_path[64];

static void open_jobs(struct jobs *jobs, unsigned count, unsigned streams, double hang_grace_s)
{
    struct jobs_how how = {.count = count, .streams = streams, .hang_grace_s = hang_grace_s};
    jobs_open(jobs, &how);
}

static void hold(void)
{
    struct cuda_fault fault = {.devices = 1};
    snprintf(fault.hold, sizeof fault.hold, "%s", hold_path);
    fclose(fopen(hold_path, "w"));
    cuda_fault_set(&fault);
}

static size_t rows_bytes(const struct job *job, uint32_t rows)
{
    return plan_input(&job->plan, job->memory.input).stride * rows;
}

static void feed_rows(struct jobs *jobs, unsigned number, uint32_t rows)
{
    engine_feed(jobs->engine, &jobs->job[number].task, rows_bytes(&jobs->job[number], rows));
}

/* Device memory is plain memory here. */
static bool has_arrived(const struct job *job, uint32_t rows)
{
    return memcmp(job->memory.device_block.memory, job->memory.input, rows_bytes(job, rows)) == 0;
}

static void await_strips(const struct jobs *jobs)
{
    const struct cuda_engine *cuda = container_of(jobs->engine, struct cuda_engine, base);
    assert_int_equal(cudaStreamSynchronize(cuda->devices[0].feed), cudaSuccess);
}

/* Answers meanwhile, but there must be none. */
static void expect_no_answer(struct jobs *jobs, unsigned answered)
{
    for (int i = 0; i < 20; i++) {
        usleep(5000);
        engine_reap(jobs->engine);
    }
    assert_int_equal(jobs->answered, answered);
}

/* ---- what is fed ----------------------------------------------------------------------------- */

/* The rows that a decoder has not made yet are something else when the others are copied. */
static void test_rows_go_before_the_turn(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 1, STREAMS, 0);
    struct job *job = &jobs.job[0];
    struct image whole = plan_input(&job->plan, job->memory.input);
    size_t late = rows_bytes(job, whole.height) - rows_bytes(job, 50);
    uint8_t *kept = malloc(late), *at = job->memory.input + rows_bytes(job, 50);
    memcpy(kept, at, late);
    memset(at, 0xEE, late);
    jobs_set_fault("cudaMemcpyAsync", 0, UINT32_MAX, 1); /* counted */
    feed_rows(&jobs, 0, 20);
    feed_rows(&jobs, 0, 20);
    feed_rows(&jobs, 0, 10);
    assert_int_equal(cuda_fault_passed(), 1);
    feed_rows(&jobs, 0, 50);
    assert_int_equal(cuda_fault_passed(), 2);
    assert_true(job->task.fed && job->task.fed_bytes == rows_bytes(job, 50));
    await_strips(&jobs);
    assert_true(has_arrived(job, 50));
    memcpy(at, kept, late);
    free(kept);
    jobs_submit(&jobs, 0, 1);
    jobs_wait(&jobs, 1);
    assert_int_equal(job->task.error.status, STATUS_OK);
    assert_int_equal(cuda_fault_passed(), 4);
    assert_true(job->task.started_ns > 0 && job->task.h2d_ms > 0);
    struct engine_activity activity = engine_take_activity(jobs.engine);
    assert_int_equal(activity.h2d_bytes, job->plan.input_bytes);
    jobs_close(&jobs);
}

/* All of it, so that the turn has nothing to copy in. */
static void test_all_is_fed(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 1, 1, 0);
    struct job *job = &jobs.job[0];
    jobs_set_fault("cudaMemcpyAsync", 0, UINT32_MAX, 1);
    engine_feed(jobs.engine, &job->task, job->plan.input_bytes);
    jobs_submit(&jobs, 0, 1);
    jobs_wait(&jobs, 1);
    assert_int_equal(job->task.error.status, STATUS_OK);
    assert_int_equal(cuda_fault_passed(), 2);
    jobs_close(&jobs);
}

/* The turn begins while a strip is on its way still: kernels wait for it. */
static void test_the_turn_waits_for_the_rows(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 1, STREAMS, 0);
    jobs_set_fault("copy", cudaErrorNotReady, 1, 1); /* it stands still */
    feed_rows(&jobs, 0, 30);
    feed_rows(&jobs, 0, 60);
    jobs_submit(&jobs, 0, 1);
    expect_no_answer(&jobs, 0);
    assert_false(has_arrived(&jobs.job[0], 30));
    jobs_set_no_fault(1); /* it goes on */
    jobs_wait(&jobs, 1);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_OK);
    jobs_close(&jobs);
}

/* One is fed, and does not end; others have the only stream as ever. */
static void test_others_have_the_streams(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 5, 1, 0);
    jobs.job[1].task.alone = true;
    feed_rows(&jobs, 0, 40);
    jobs_submit(&jobs, 1, 4);
    jobs_wait(&jobs, 4);
    feed_rows(&jobs, 0, 60);
    jobs_submit(&jobs, 0, 1);
    jobs_wait(&jobs, 5);
    assert_int_equal(jobs.ended[4], 0);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 5);
    jobs_close(&jobs);
}

/* A small one that was fed has a turn of its own. */
static void test_it_shares_no_turn(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 4, 1, 0);
    feed_rows(&jobs, 2, 40);
    feed_rows(&jobs, 3, 10);
    jobs_submit(&jobs, 0, 4);
    jobs_wait(&jobs, 4);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 4);
    assert_int_equal(engine_take_activity(jobs.engine).turns, 3);
    jobs_close(&jobs);
}

/* ---- what is withdrawn ----------------------------------------------------------------------- */

/* Nothing is computed, and the answer comes when the device is done with the memory. */
static void test_withdrawn_after_two_strips(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 2, 1, 0);
    jobs_set_fault("copy", cudaErrorNotReady, 2, 1);
    feed_rows(&jobs, 0, 20);
    feed_rows(&jobs, 0, 40);
    jobs.job[0].task.withdrawn = true;
    jobs_submit(&jobs, 0, 1);
    expect_no_answer(&jobs, 0);
    jobs_set_fault("launch", 0, UINT32_MAX, 1);
    jobs_wait(&jobs, 1);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_CANCELLED);
    assert_int_equal(cuda_fault_passed(), 0);
    assert_true(jobs.job[0].task.started_ns == 0);
    assert_null(engine_fault(jobs.engine));
    jobs_submit(&jobs, 1, 1);
    jobs_wait(&jobs, 2);
    assert_int_equal(jobs.job[1].task.error.status, STATUS_OK);
    jobs_close(&jobs);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* Past its deadline while it waits for a stream: it must have its turn, in which nothing is done.
 * The one beside it, which was fed nothing, ends at once. */
static void test_too_late_for_a_turn(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 3, 1, 0);
    hold();
    jobs_submit(&jobs, 0, 1);
    feed_rows(&jobs, 1, 40);
    jobs.job[1].task.deadline_ns = jobs.job[2].task.deadline_ns = now_ns() + 20000000ull;
    jobs_submit(&jobs, 1, 2);
    jobs_wait(&jobs, 1);
    assert_int_equal(jobs.ended[0], 2);
    expect_no_answer(&jobs, 1);
    unlink(hold_path);
    jobs_wait(&jobs, 3);
    assert_int_equal(jobs.ended[2], 1);
    assert_int_equal(jobs_with(&jobs, STATUS_TIMEOUT), 2);
    assert_non_null(strstr(jobs.job[1].task.error.text, "waited for cuda:0"));
    assert_null(engine_fault(jobs.engine));
    jobs_close(&jobs);
}

/* A strip never arrives: its task's turn does not end, and that is found out as ever. */
static void test_a_strip_that_hangs(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 3, STREAMS, 0.15);
    jobs_set_fault("copy", cudaErrorNotReady, 1, 1);
    feed_rows(&jobs, 0, 20);
    while (cuda_fault_struck() == 0)
        usleep(1000);
    uint64_t start_ns = now_ns();
    jobs.job[0].task.deadline_ns = start_ns + 50000000ull;
    jobs_submit(&jobs, 0, 3);
    jobs_wait(&jobs, 3);
    assert_true(now_ns() - start_ns >= 200000000ull);
    jobs_check_latched(&jobs);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_GPU_FAILED);
    assert_true(jobs.job[0].task.on_device);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 2);
    jobs_close(&jobs);
}

/* ---- calls that fail ------------------------------------------------------------------------- */

/* What was not copied then goes with the turn. */
static void test_a_strip_that_is_refused(void **state)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaMemcpyAsync"};
    static struct jobs jobs;
    (void)state;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (unsigned nth = 1; nth <= 2; nth++) {
            open_jobs(&jobs, 2, STREAMS, 0);
            jobs_set_fault(calls[c], cudaErrorInvalidValue, nth, 1);
            feed_rows(&jobs, 0, 20);
            feed_rows(&jobs, 0, 40);
            feed_rows(&jobs, 0, 60);
            assert_int_equal(cuda_fault_struck(), 1);
            assert_int_equal(cuda_fault_passed(), nth); /* and then no more */
            assert_true(jobs.job[0].task.fed);
            assert_int_equal(jobs.job[0].task.fed_bytes, nth == 1 ? 0 : rows_bytes(jobs.job, 20));
            jobs_submit(&jobs, 0, 2);
            jobs_wait(&jobs, 2);
            assert_int_equal(jobs_with(&jobs, STATUS_OK), 2);
            assert_null(engine_fault(jobs.engine));
            jobs_close(&jobs);
        }
    }
}

/* Three jobs, and one stream: the first was fed two strips, and is `withdrawn` perhaps; the others
 * wait behind it. Whatever fails, only the first is charged. */
static void fail_fed(const char *at, int error, unsigned nth, bool withdrawn)
{
    static struct jobs jobs;
    open_jobs(&jobs, 3, 1, 0);
    jobs_set_fault(at, error, nth, 1);
    feed_rows(&jobs, 0, 20);
    feed_rows(&jobs, 0, 40);
    jobs.job[0].task.withdrawn = withdrawn;
    jobs.job[1].task.alone = true;
    jobs_submit(&jobs, 0, 3);
    jobs_wait(&jobs, 3);
    if (cuda_fault_struck() != 1)
        fail_msg("%s, %u: error %d struck %u times", at, nth, error, cuda_fault_struck());
    assert_non_null(engine_fault(jobs.engine));
    assert_int_equal(jobs.job[0].task.error.status,
                     withdrawn ? STATUS_CANCELLED : STATUS_GPU_FAILED);
    for (unsigned i = 0; i < 3; i++)
        if (jobs.job[i].task.on_device != (i == 0))
            fail_msg("%s, %u: job %u is %s", at, nth, i, i == 0 ? "not charged" : "charged");
    if (!withdrawn)
        jobs_check_latched(&jobs);
    jobs_close(&jobs);
}

/* While it is fed, and when its turn begins. Where it cannot be said when the rows have arrived,
 * whatever the error, the device is not to be trusted. */
static void test_calls_that_fail_for_good(void **state)
{
    static const struct {
        const char *at;
        int error;
        unsigned nth;
    } rows[] = {{"cudaSetDevice", 700, 1},       {"cudaSetDevice", 702, 2},
                {"cudaSetDevice", 719, 3},       {"cudaMemcpyAsync", 700, 1},
                {"cudaMemcpyAsync", 999, 2},     {"copy", 700, 1},
                {"copy", 214, 2},                {"cudaEventRecord", 700, 1},
                {"cudaEventRecord", 700, 2},     {"cudaEventRecord", cudaErrorInvalidValue, 2},
                {"cudaStreamWaitEvent", 700, 1}, {"cudaStreamWaitEvent", cudaErrorInvalidValue, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fail_fed(rows[i].at, rows[i].error, rows[i].nth, false);
        fail_fed(rows[i].at, rows[i].error, rows[i].nth, true);
    }
}

/* It is fed on one device while the other one fails: it is not charged, and fed no more. */
static void test_the_other_device_fails(void **state)
{
    static struct jobs jobs;
    (void)state;
    jobs_open(&jobs, &(struct jobs_how){.count = 2, .streams = 1, .devices = 2});
    assert_int_not_equal(jobs.job[0].memory.device, jobs.job[1].memory.device);
    cuda_fault_set(&(struct cuda_fault){.at = "kernel", .error = 700, .nth = 1, .times = 1,
                                        .devices = 2});
    feed_rows(&jobs, 0, 20);
    jobs_submit(&jobs, 1, 1);
    jobs_wait(&jobs, 1);
    assert_true(jobs.job[1].task.on_device);
    feed_rows(&jobs, 0, 40);
    assert_int_equal(jobs.job[0].task.fed_bytes, rows_bytes(jobs.job, 20));
    jobs_submit(&jobs, 0, 1);
    jobs_wait(&jobs, 2);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_GPU_FAILED);
    assert_false(jobs.job[0].task.on_device);
    jobs_close(&jobs);
}

/* The same device fails, at another one's kernel: it may have been the rows. */
static void test_the_same_device_fails(void **state)
{
    static struct jobs jobs;
    (void)state;
    for (unsigned fed = 0; fed < 2; fed++) {
        open_jobs(&jobs, 2, 1, 0);
        jobs_set_fault("kernel", 700, 1, 1);
        if (fed)
            feed_rows(&jobs, 0, 20);
        jobs_submit(&jobs, 1, 1);
        jobs_wait(&jobs, 1);
        jobs_submit(&jobs, 0, 1);
        jobs_wait(&jobs, 2);
        assert_int_equal(jobs.job[0].task.error.status, STATUS_GPU_FAILED);
        assert_int_equal(jobs.job[0].task.on_device, fed);
        jobs_close(&jobs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_go_before_the_turn),
        cmocka_unit_test(test_all_is_fed),
        cmocka_unit_test(test_the_turn_waits_for_the_rows),
        cmocka_unit_test(test_others_have_the_streams),
        cmocka_unit_test(test_it_shares_no_turn),
        cmocka_unit_test(test_withdrawn_after_two_strips),
        cmocka_unit_test(test_too_late_for_a_turn),
        cmocka_unit_test(test_a_strip_that_hangs),
        cmocka_unit_test(test_a_strip_that_is_refused),
        cmocka_unit_test(test_calls_that_fail_for_good),
        cmocka_unit_test(test_the_other_device_fails),
        cmocka_unit_test(test_the_same_device_fails),
    };
    snprintf(hold_path, sizeof hold_path, "/tmp/gpuimgd-hold-feed-%ld", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(hold_path);
    return failed;
}
