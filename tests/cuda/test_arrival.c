/*
 * Tests of results that come back in pieces, of which their task's owner is told: what is told and
 * when, and each call that can fail meanwhile. They run on the stand-in (tests/cuda/fault.h), so on
 * every machine.
 */
#include "gpu/cuda/device.h"
#include "tests/cuda/jobs.h"

#define STREAMS 2
#define TOLD_MAX 8

/* What the large job's owner was told; under the lock, for it is told on a stream's thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct told {
    unsigned count;
    size_t bytes[TOLD_MAX];
    uint64_t sums[TOLD_MAX]; /* of what was there then */
    bool answered;           /* by then */
} told;

static uint64_t sum_of(const uint8_t *bytes, size_t count)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i + sizeof word <= count; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sum = sum * 31 + word;
    }
    return sum;
}

static void on_arrived(struct engine_task *task, size_t bytes)
{
    pthread_mutex_lock(&lock);
    if (told.count == TOLD_MAX)
        abort();
    told.answered = told.answered || jobs_running->done[0] > 0;
    told.bytes[told.count] = bytes;
    told.sums[told.count++] = sum_of(task->memory->output, bytes);
    pthread_mutex_unlock(&lock);
}

static unsigned told_count(void)
{
    pthread_mutex_lock(&lock);
    unsigned count = told.count;
    pthread_mutex_unlock(&lock);
    return count;
}

/* Job 0 is large, gray and of this size, and its owner is told; two more are small. */
static void open_sized(struct jobs *jobs, uint32_t width, uint32_t height, double hang_grace_s)
{
    struct jobs_how how = {.count = 3, .streams = STREAMS, .hang_grace_s = hang_grace_s};
    memset(&told, 0, sizeof told);
    jobs_open(jobs, &how);
    job_close(&jobs->job[0], jobs->engine);
    job_open(&jobs->job[0], width, height, 1, JOBS_OPS);
    assert_int_equal(job_reserve(&jobs->job[0], jobs->engine), ENGINE_RESERVED);
    jobs->job[0].task.done = jobs_on_done;
    jobs->job[0].task.arrived = on_arrived;
}

/* Its result comes in three pieces, of 4, 4 and 1 MiB; told of are two. */
static void open_jobs(struct jobs *jobs, double hang_grace_s)
{
    open_sized(jobs, 3072, 3072, hang_grace_s);
    assert_int_equal(jobs->job[0].plan.output_bytes, 9 * MIB);
}

/* What was told is so still: those bytes were there, and stayed. */
static void check_told(const struct jobs *jobs, unsigned count)
{
    assert_int_equal(told_count(), count);
    assert_false(told.answered);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(told.bytes[i], STRIP_BYTES << i);
        assert_true(told.sums[i] == sum_of(jobs->job[0].memory.output, told.bytes[i]));
    }
}

static void expect_no_answer(struct jobs *jobs)
{
    for (int i = 0; i < 20; i++) {
        usleep(5000);
        engine_reap(jobs->engine);
    }
    assert_int_equal(jobs->answered, 0);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void test_pieces_that_double(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_sized(&jobs, 4320, 4100, 0);
    jobs_set_fault("cudaMemcpyAsync", 0, UINT32_MAX, 1); /* counted */
    jobs_submit(&jobs, 0, 1);
    jobs_wait(&jobs, 1);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_OK);
    assert_int_equal(cuda_fault_passed(), 1 + 4);
    check_told(&jobs, 3);
    assert_true(jobs.job[0].task.started_ns > 0 && jobs.job[0].task.d2h_ms > 0);
    assert_int_equal(engine_take_activity(jobs.engine).d2h_bytes, jobs.job[0].plan.output_bytes);
    jobs_submit(&jobs, 1, 2);
    jobs_wait(&jobs, 3);
    jobs_close(&jobs);
}

/* The owner hears of the first piece while the second one does not come. */
static void test_told_before_the_end(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 0);
    jobs_set_fault("copy", cudaErrorNotReady, 3, 1); /* it stands still */
    jobs_submit(&jobs, 0, 1);
    while (told_count() == 0)
        usleep(1000);
    expect_no_answer(&jobs);
    assert_int_equal(told_count(), 1);
    jobs_set_no_fault(1); /* it goes on */
    jobs_submit(&jobs, 1, 2);
    jobs_wait(&jobs, 3);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
    check_told(&jobs, 2);
    jobs_close(&jobs);
}

/* One copy, and no word: of a result that is not large, of one whose owner does not ask. */
static void test_one_copy(void **state)
{
    static struct jobs jobs;
    (void)state;
    for (int asks = 0; asks < 2; asks++) {
        open_sized(&jobs, 3072, asks ? 2700 : 3072, 0);
        assert_int_equal(jobs.job[0].plan.output_bytes < ARRIVAL_BYTES_MIN, asks);
        if (!asks)
            jobs.job[0].task.arrived = NULL;
        jobs_set_fault("cudaMemcpyAsync", 0, UINT32_MAX, 1);
        jobs_submit(&jobs, 0, 1);
        jobs_wait(&jobs, 1);
        assert_int_equal(cuda_fault_passed(), 2);
        assert_int_equal(told_count(), 0);
        jobs_submit(&jobs, 1, 2);
        jobs_wait(&jobs, 3);
        jobs_close(&jobs);
    }
}

/* Nothing comes back of a task that is withdrawn, or past its deadline when its turn comes. */
static void test_nothing_to_tell(void **state)
{
    static struct jobs jobs;
    (void)state;
    for (int late = 0; late < 2; late++) {
        open_jobs(&jobs, 0);
        engine_feed(jobs.engine, &jobs.job[0].task, STRIP_BYTES);
        jobs.job[0].task.withdrawn = !late;
        jobs.job[0].task.deadline_ns = late ? now_ns() - 1 : 0;
        jobs_submit(&jobs, 0, 3);
        jobs_wait(&jobs, 3);
        assert_int_equal(jobs.job[0].task.error.status, late ? STATUS_TIMEOUT : STATUS_CANCELLED);
        assert_int_equal(told_count(), 0);
        assert_int_equal(jobs_with(&jobs, STATUS_OK), 2);
        jobs_close(&jobs);
    }
}

/* ---- calls that fail ------------------------------------------------------------------------- */

/* The task alone fails, whatever it was told before, and goes well the next time. */
static void test_a_piece_that_is_refused(void **state)
{
    static const struct {
        const char *call;
        unsigned nth, told;
    } rows[] = {{"cudaMemcpyAsync", 2, 0},    {"cudaMemcpyAsync", 3, 1},
                {"cudaMemcpyAsync", 4, 2},    {"cudaLaunchHostFunc", 1, 0},
                {"cudaLaunchHostFunc", 2, 1}};
    static struct jobs jobs;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_jobs(&jobs, 0);
        jobs_set_fault(rows[i].call, cudaErrorInvalidValue, rows[i].nth, 1);
        jobs_submit(&jobs, 0, 1);
        jobs_wait(&jobs, 1);
        assert_int_equal(cuda_fault_struck(), 1);
        assert_int_equal(jobs.job[0].task.error.status, STATUS_GPU_FAILED);
        assert_false(jobs.job[0].task.on_device);
        assert_null(engine_fault(jobs.engine));
        check_told(&jobs, rows[i].told);
        memset(&told, 0, sizeof told);
        jobs.done[0] = 0;
        jobs_submit(&jobs, 0, 3);
        jobs_wait(&jobs, 4);
        assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
        check_told(&jobs, 2);
        jobs_close(&jobs);
    }
}

static void test_a_piece_that_strikes_the_device(void **state)
{
    static const struct {
        const char *at;
        int error;
        unsigned nth, told;
    } rows[] = {{"copy", 700, 2, 0},
                {"copy", 214, 3, 1},
                {"copy", 719, 4, 2},
                {"cudaMemcpyAsync", 700, 3, 1},
                {"cudaLaunchHostFunc", 719, 2, 1},
                {"cudaLaunchHostFunc", cudaErrorInvalidValue, 3, 2}}; /* the report of its end */
    static struct jobs jobs;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_jobs(&jobs, 0);
        jobs_set_fault(rows[i].at, rows[i].error, rows[i].nth, 1);
        jobs_submit(&jobs, 0, 1);
        jobs_wait(&jobs, 1);
        jobs_submit(&jobs, 1, 2);
        jobs_wait(&jobs, 3);
        jobs_check_latched(&jobs);
        assert_true(jobs.job[0].task.on_device);
        assert_int_equal(jobs_charged(&jobs), 1);
        assert_true(told_count() <= rows[i].told); /* a call may be refused before they are there */
        jobs_close(&jobs);
        assert_false(told.answered);
    }
}

/* ---- answers that come first ----------------------------------------------------------------- */

/* The other pieces come when the task was answered long ago: nobody is told. */
static void check_late_pieces(struct jobs *jobs)
{
    const struct cuda_engine *cuda = container_of(jobs->engine, struct cuda_engine, base);
    assert_int_equal(told_count(), 1);
    jobs_set_no_fault(1);
    for (unsigned s = 0; s < STREAMS; s++)
        assert_int_equal(cudaStreamSynchronize(cuda->devices[0].slots[s].stream), cudaSuccess);
    assert_int_equal(told_count(), 1);
    assert_false(told.answered);
    jobs_close(jobs);
}

static void test_a_piece_that_hangs(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 0.15);
    jobs_set_fault("copy", cudaErrorNotReady, 3, 1);
    jobs.job[0].task.deadline_ns = now_ns() + 1000000000ull;
    jobs_submit(&jobs, 0, 1);
    while (cuda_fault_struck() == 0)
        usleep(1000);
    jobs_submit(&jobs, 1, 2);
    jobs_wait(&jobs, 3);
    jobs_check_latched(&jobs);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_GPU_FAILED);
    assert_true(jobs.job[0].task.on_device);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 2);
    check_late_pieces(&jobs);
}

static void test_condemned_meanwhile(void **state)
{
    static struct jobs jobs;
    (void)state;
    open_jobs(&jobs, 0);
    jobs_set_fault("copy", cudaErrorNotReady, 3, 1);
    jobs_submit(&jobs, 0, 1);
    while (cuda_fault_struck() == 0)
        usleep(1000);
    engine_condemn(jobs.engine, "a pixel is wrong");
    jobs_submit(&jobs, 1, 2);
    jobs_wait(&jobs, 3);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
    assert_int_equal(jobs_charged(&jobs), 0);
    check_late_pieces(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_that_double),
        cmocka_unit_test(test_told_before_the_end),
        cmocka_unit_test(test_one_copy),
        cmocka_unit_test(test_nothing_to_tell),
        cmocka_unit_test(test_a_piece_that_is_refused),
        cmocka_unit_test(test_a_piece_that_strikes_the_device),
        cmocka_unit_test(test_a_piece_that_hangs),
        cmocka_unit_test(test_condemned_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
