/*
 * Tests of small tasks that share a stream: which tasks do, how many calls that saves, how the time
 * is divided, and how one failing task affects the others; and of the engine's memory. Uses the
 * stand-in CUDA runtime.
 */
#include "tests/cuda/jobs.h"

#include "gpu/cuda/device.h"

#define WAITING 12

static struct jobs jobs; /* of the running test */

static uint32_t slot_of(unsigned number)
{
    return jobs.job[number].task.slot;
}

/* ---- which tasks share a stream -------------------------------------------------------------- */

/* Two tasks take the two streams while the others wait. The others run together when a stream is
 * free. */
TEST(test_those_that_wait_share_a_stream)
{
    jobs_open(&jobs, &(struct jobs_how){.count = 2 + WAITING, .streams = 2});
    jobs_hold("cudaLaunchHostFunc", 0, 1);
    jobs_submit(&jobs, 0, 1);
    jobs_submit(&jobs, 1, 1);
    jobs_submit(&jobs, 2, WAITING);
    assert_int_not_equal(slot_of(0), slot_of(1));
    assert_int_equal(cuda_fault_passed(), 2);
    jobs_let_go();
    jobs_wait(&jobs, jobs.count);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), jobs.count);
    assert_int_equal(cuda_fault_passed(), 3);
    for (unsigned i = 2; i < jobs.count; i++)
        assert_int_equal(slot_of(i), slot_of(2));
    jobs_close(&jobs);
}

TEST(test_a_batch_has_its_bound)
{
    jobs_open(&jobs, &(struct jobs_how){.streams = 8});
    jobs.count = 2 * BATCH_TASKS_MAX + 3;
    for (unsigned i = 0; i < jobs.count; i++)
        jobs_prepare(&jobs, i, 60, 70, JOBS_OPS);
    jobs_hold("cudaLaunchHostFunc", 0, 1);
    jobs_submit(&jobs, 0, jobs.count);
    for (unsigned i = 0; i < jobs.count; i++)
        assert_int_equal(slot_of(i), i / BATCH_TASKS_MAX);
    assert_int_equal(cuda_fault_passed(), 3);
    jobs_let_go();
    jobs_wait(&jobs, jobs.count);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), jobs.count);
    jobs_close(&jobs);
}

/* One stream, with small tasks before and after a large one, and one that must run alone. */
TEST(test_large_ones_go_alone_and_in_order)
{
    static const unsigned order[] = {0, 1, 3, 2, 4};
    jobs_open(&jobs, &(struct jobs_how){.streams = 1});
    jobs.count = 5;
    for (unsigned i = 0; i < 5; i++)
        jobs_prepare(&jobs, i, i == 2 ? 1200 : 64, i == 2 ? 700 : 64, JOBS_OPS);
    assert_true(jobs.job[2].plan.device_bytes > BATCH_TASK_BYTES);
    jobs.job[4].task.alone = true;
    jobs_hold("cudaLaunchHostFunc", 0, 1);
    jobs_submit(&jobs, 0, 1);
    jobs_submit(&jobs, 1, 4);
    jobs_let_go();
    jobs_wait(&jobs, 5);
    assert_int_equal(cuda_fault_passed(), 4); /* 1 and 3 ran together, before the large one */
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(jobs.ended[i], order[i]);
    jobs_close(&jobs);
}

TEST(test_a_batch_is_one_devices)
{
    jobs_open(&jobs, &(struct jobs_how){.count = 10, .streams = 2, .devices = 2});
    jobs_hold("cudaLaunchHostFunc", 0, 2);
    jobs_submit(&jobs, 0, 10);
    assert_int_equal(cuda_fault_passed(), 2);
    jobs_let_go();
    jobs_wait(&jobs, 10);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 10);
    unsigned first = 0;
    for (unsigned i = 0; i < 10; i++)
        first += jobs.job[i].memory.device == 0;
    assert_int_equal(first, 5);
    jobs_close(&jobs);
}

/* ---- saved calls ----------------------------------------------------------------------------- */

/* Jobs of fewer than BATCH_PIXELS_LIGHT pixels together. */
#define TOGETHER 64

/* Calls for jobs in one batch, and one by one. The clock may record one more event. */
TEST(test_calls_a_batch_makes)
{
    static const struct {
        const char *call;
        unsigned of_batch, of_job;
    } rows[] = {{"cudaSetDevice", 1, 0},        {"cudaEventRecord", 4, 0},
                {"cudaMemcpyAsync", 0, 2},      {"cudaLaunchHostFunc", 1, 0},
                {"cudaEventElapsedTime", 4, 0}, {"report", 1, 0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned batches = 1; batches <= TOGETHER; batches += TOGETHER - 1) {
            struct jobs_how how = {.count = TOGETHER, .streams = 2, .alone = batches > 1};
            jobs_open(&jobs, &how);
            jobs_set_fault(rows[i].call, 0, UINT32_MAX, 1);
            jobs_run(&jobs);
            unsigned wanted = rows[i].of_batch * batches + rows[i].of_job * jobs.count;
            if (cuda_fault_passed() != wanted && cuda_fault_passed() != wanted + 1)
                fail_msg("%u batches: %s %u times, not %u", batches, rows[i].call,
                         cuda_fault_passed(), wanted);
            jobs_close(&jobs);
        }
    }
}

/* ---- shared launches ------------------------------------------------------------------------- */

/* Of these passes, the hashes can share a launch, and the orients: all images have the EXIF
 * orientation 4, and some are transposed. The images have the right size for hashes already. */
static const char *const hash_ops[] = {
    "[\"phash\"]",
    "[\"invert\"]",
    "[\"invert\",\"phash\",\"transpose\"]",
    "[\"phash\",\"stats\",\"invert\",\"phash\"]",
};

static void open_hashes(unsigned count, bool alone)
{
    jobs_open(&jobs, &(struct jobs_how){.streams = 2});
    jobs.count = count;
    for (unsigned i = 0; i < count; i++) {
        jobs_prepare(&jobs, i, 32, 32, hash_ops[i % COUNT_OF(hash_ops)]);
        jobs.job[i].task.alone = alone;
    }
}

static unsigned launches_of_hashes(unsigned count, bool alone)
{
    open_hashes(count, alone);
    jobs_set_fault("launch", 0, UINT32_MAX, 1);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), count);
    unsigned launches = cuda_fault_passed();
    jobs_close(&jobs);
    return launches;
}

/* Three of four jobs have hashes, of one or two images, and passes before and after them. */
TEST(test_hashes_share_a_launch)
{
    unsigned hashes = 9, oriented = 12, transposed = 3;
    unsigned saved = hashes - 1 + oriented - 1 + transposed - 1;
    assert_int_equal(launches_of_hashes(12, false), launches_of_hashes(12, true) - saved);
    assert_int_equal(launches_of_hashes(1, false), launches_of_hashes(1, true));
}

/* How many of eight jobs fail if `times` launches in a row are refused, from the nth on. */
static unsigned failed_hashes(unsigned nth, unsigned times)
{
    open_hashes(8, false);
    jobs_set_fault("launch", cudaErrorLaunchOutOfResources, nth, times);
    jobs_run(&jobs);
    unsigned failed = jobs_with(&jobs, STATUS_GPU_FAILED);
    assert_int_equal(cuda_fault_struck(), times);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 8 - failed);
    assert_null(engine_fault(jobs.engine));
    assert_int_equal(jobs_charged(&jobs), 0);
    jobs_close(&jobs);
    return failed;
}

/* Refuses each launch in turn. If a shared launch is refused, the engine tries each pass alone, and
 * only a second refusal fails a job. Any other refused launch fails its own job. */
TEST(test_a_shared_launch_that_is_refused)
{
    static const unsigned passes[] = {8, 6, 2}; /* oriented, hashes, transposed */
    unsigned launches = launches_of_hashes(8, false), shared = 0;
    for (unsigned nth = 1; nth <= launches; nth++) {
        unsigned failed = failed_hashes(nth, 1);
        assert_true(failed <= 1);
        if (failed == 0) {
            assert_true(shared < COUNT_OF(passes));
            assert_int_equal(failed_hashes(nth, 2), 1);
            assert_int_equal(failed_hashes(nth, 1 + passes[shared]), passes[shared]);
            shared++;
        }
    }
    assert_int_equal(shared, COUNT_OF(passes));
}

/* The launches of jobs with images of 320 columns, or with images that are too large to share a
 * launch with those of other jobs. */
static unsigned launches_of_outputs(unsigned count, bool large, size_t outputs)
{
    static const char *const ops = "[{'op':'resize','width':12}]";
    uint32_t width = large ? 1200 : 320, height = large ? 1005 : 61; /* with orientation 1 */
    jobs_open(&jobs, &(struct jobs_how){.streams = 2});
    jobs.count = count;
    for (unsigned i = 0; i < count; i++) {
        jobs.ops[i] = ops;
        job_open_outputs(&jobs.job[i], width, height, 3, ops, outputs);
        assert_int_equal(job_reserve(&jobs.job[i], jobs.engine), ENGINE_RESERVED);
        jobs.job[i].task.done = jobs_on_done;
    }
    jobs_set_fault("launch", 0, UINT32_MAX, 1);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), count);
    unsigned launches = cuda_fault_passed();
    jobs_close(&jobs);
    return launches;
}

/* The outputs of a job are resized together, and so are those of small jobs. */
TEST(test_outputs_share_launches)
{
    for (size_t outputs = 1; outputs <= 5; outputs += test_quick() ? 2 : 1) {
        assert_int_equal(launches_of_outputs(1, false, outputs), 2);
        assert_int_equal(launches_of_outputs(6, false, outputs), 2);
        assert_int_equal(launches_of_outputs(1, true, outputs), 2);
        assert_int_equal(launches_of_outputs(3, true, outputs), 6);
    }
}

/* ---- shares of the time ---------------------------------------------------------------------- */

static uint64_t end_ns(uint64_t begin_ns, double ms)
{
    return begin_ns + (uint64_t)(ms * 1e6 + 0.5);
}

/* Shares are proportional to the bytes, and follow one another: copies in, kernels, copies out. */
TEST(test_shares_of_the_time)
{
    uint64_t begin_ns = clock_now_ns();
    jobs_open(&jobs, &(struct jobs_how){.count = 8, .streams = 1});
    jobs_run(&jobs);
    double sum_ms = 0;
    uint64_t input_bytes = 0, output_bytes = 0, at_ns[3] = {0};
    for (unsigned i = 0; i < 8; i++) {
        const struct engine_task *task = &jobs.job[i].task, *first = &jobs.job[0].task;
        uint64_t begins[3] = {task->started_ns, task->kernel_at_ns, task->d2h_at_ns};
        double ms[3] = {task->h2d_ms, task->kernel_ms, task->d2h_ms};
        for (int part = 0; part < 3; part++) {
            assert_true(begins[part] >= begin_ns && begins[part] >= at_ns[part]);
            at_ns[part] = end_ns(begins[part], ms[part]);
            sum_ms += ms[part];
        }
        assert_true(ms[0] > 0 && ms[1] > 0);
        double bytes = (double)jobs.job[i].plan.input_bytes / (double)jobs.job[0].plan.input_bytes;
        assert_true(ms[0] > 0.99 * bytes * first->h2d_ms - 1e-5 &&
                    ms[0] < 1.01 * bytes * first->h2d_ms + 1e-5);
        input_bytes += jobs.job[i].plan.input_bytes;
        output_bytes += jobs.job[i].plan.output_bytes;
    }
    assert_true(at_ns[0] <= jobs.job[0].task.kernel_at_ns);
    assert_true(at_ns[1] <= jobs.job[0].task.d2h_at_ns);
    assert_true(at_ns[2] <= clock_now_ns());
    struct engine_activity activity = {0};
    engine_take_activity(jobs.engine, 0, &activity);
    assert_true(sum_ms * 1e-3 <= activity.any_s + 1e-9 &&
                sum_ms * 1e-3 > activity.any_s - 1e-6);
    assert_int_equal(activity.h2d_bytes, input_bytes);
    assert_int_equal(activity.d2h_bytes, output_bytes);
    assert_int_equal(activity.turns, 1);
    assert_int_equal(activity.tasks, 8);
    jobs_close(&jobs);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* One stream. The batch is charged with the error; the three single jobs after it are not. */
static void lasting_error(const char *at, unsigned nth)
{
    jobs_open(&jobs, &(struct jobs_how){.count = 8, .streams = 1});
    for (unsigned i = 5; i < 8; i++)
        jobs.job[i].task.alone = true;
    jobs_set_fault(at, cudaErrorIllegalAddress, nth, 1);
    jobs_run(&jobs);
    if (cuda_fault_struck() != 1)
        fail_msg("%s, %u: struck %u times", at, nth, cuda_fault_struck());
    jobs_check_latched(&jobs);
    for (unsigned i = 0; i < 8; i++)
        if (jobs.job[i].task.suspect != (i < 5))
            fail_msg("%s, %u: job %u is %s", at, nth, i, i < 5 ? "not charged" : "charged");
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 8);
    jobs_close(&jobs);
}

TEST(test_a_lasting_error_is_all_the_batchs)
{
    static const struct {
        const char *at;
        unsigned times;
    } rows[] = {{"cudaSetDevice", 1},      {"cudaEventRecord", 4}, {"cudaMemcpyAsync", 10},
                {"launch", 5},             {"copy", 10},           {"kernel", 5},
                {"cudaLaunchHostFunc", 1}, {"cudaStreamQuery", 1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (unsigned nth = 1; nth <= rows[i].times; nth++)
            lasting_error(rows[i].at, nth);
}

/* Jobs of the EXIF orientation 1, whose passes of sobel share a launch, but not those before. */
static void open_upright(unsigned count, uint32_t streams)
{
    jobs_open(&jobs, &(struct jobs_how){.streams = streams});
    jobs.count = count;
    for (unsigned i = 0; i < count; i++) {
        jobs_prepare(&jobs, i, 61 + i * 8, 70, "['invert','sobel']");
        assert_int_equal(jobs.job[i].plan.source.orientation, 1);
    }
}

/* If a call for one of the jobs is refused, that job fails and the others continue. */
TEST(test_an_error_of_one_call_is_one_jobs)
{
    static const struct {
        const char *call;
        unsigned times, failed;
    } rows[] = {{"cudaMemcpyAsync", 12, 1}, {"launch", 6, 1}, {"cudaEventRecord", 4, 0},
                {"cudaSetDevice", 1, 6}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned nth = 1; nth <= rows[i].times; nth++) {
            open_upright(6, 2);
            jobs_set_fault(rows[i].call, cudaErrorLaunchOutOfResources, nth, 1);
            jobs_run(&jobs);
            assert_int_equal(cuda_fault_struck(), 1);
            assert_null(engine_fault(jobs.engine));
            assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), rows[i].failed);
            assert_int_equal(jobs_with(&jobs, STATUS_OK), 6 - rows[i].failed);
            assert_int_equal(jobs_charged(&jobs), 0);
            bool measured = rows[i].failed == 1;
            for (unsigned j = 0; j < 6; j++)
                if (jobs.job[j].task.error.status == STATUS_OK)
                    assert_int_equal(jobs.job[j].task.started_ns != 0, measured);
            jobs_close(&jobs);
        }
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* Two of four tasks expire while another task runs: the batch leaves them out. */
TEST(test_those_too_late_do_not_start)
{
    open_upright(5, 1);
    jobs_hold("launch", 0, 1);
    jobs_submit(&jobs, 0, 1);
    jobs.job[1].task.deadline_ns = jobs.job[3].task.deadline_ns = 1;
    jobs.job[2].task.deadline_ns = clock_now_ns() + 60000000000ull;
    jobs_submit(&jobs, 1, 4);
    jobs_let_go();
    jobs_wait(&jobs, 5);
    assert_int_equal(jobs.job[1].task.error.status, STATUS_TIMEOUT);
    assert_int_equal(jobs.job[3].task.error.status, STATUS_TIMEOUT);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
    /* tasks 2 and 4 share the launch of sobel */
    unsigned launches = -1u;
    for (unsigned i = 0; i < 5; i++)
        launches += i % 2 && i < 4 ? 0 : jobs.job[i].plan.variants[0].pass_count;
    assert_int_equal(cuda_fault_passed(), launches);
    jobs_close(&jobs);
}

/* The first task's deadline passes while the batch is held: only that task is late. */
TEST(test_one_is_late_and_the_others_are_not)
{
    jobs_open(&jobs, &(struct jobs_how){.count = 4, .streams = 1});
    jobs_hold("launch", 0, 1);
    jobs.job[0].task.deadline_ns = clock_now_ns() + 500000000ull;
    jobs.job[1].task.deadline_ns = clock_now_ns() + 60000000000ull;
    jobs_submit(&jobs, 0, 4);
    while (clock_now_ns() <= jobs.job[0].task.deadline_ns)
        usleep(5000);
    usleep(120000); /* two polls of the device's thread */
    assert_int_equal(jobs_answered(&jobs), 0);
    jobs_let_go();
    jobs_wait(&jobs, 4);
    assert_null(engine_fault(jobs.engine));
    assert_int_equal(jobs.job[0].task.error.status, STATUS_TIMEOUT);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
    assert_int_equal(jobs_charged(&jobs), 0);
    jobs_close(&jobs);
}

/* A kernel never ends. The earliest deadline detects it, here that of the last job. */
TEST(test_a_batch_that_hangs)
{
    jobs_open(&jobs, &(struct jobs_how){.count = 4, .streams = 2, .hang_grace_s = 0.15});
    jobs_set_fault("kernel", cudaErrorNotReady, 1, 1);
    uint64_t start_ns = clock_now_ns();
    for (unsigned i = 0; i < 4; i++)
        jobs.job[i].task.deadline_ns = start_ns + (i == 3 ? 500000000ull : 60000000000ull);
    jobs_run(&jobs);
    assert_true(clock_now_ns() - start_ns >= 650000000ull);
    jobs_check_latched(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 4);
    assert_int_equal(jobs_charged(&jobs), 4);
    jobs_close(&jobs);
}

/* Small tasks wait for the only stream: one expires, and a fault ends the others. */
TEST(test_those_that_wait_end)
{
    jobs_open(&jobs, &(struct jobs_how){.count = 4, .streams = 1});
    jobs_hold("launch", 0, 1);
    jobs_submit(&jobs, 0, 1);
    jobs.job[2].task.deadline_ns = clock_now_ns() + 20000000ull;
    jobs_submit(&jobs, 1, 3);
    jobs_wait(&jobs, 1);
    assert_int_equal(jobs.job[2].task.error.status, STATUS_TIMEOUT);
    engine_set_in_service(jobs.engine, 0, false, "enough");
    jobs_wait(&jobs, 4);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
    assert_int_equal(jobs_charged(&jobs), 0);
    jobs_let_go();
    jobs_close(&jobs);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* All memory belongs to the pools, which have budgets, except 4 MiB per stream and 7 MiB per device
 * for the codecs. The manual states them (pinned_bytes, device_bytes). */
TEST(test_the_memory_of_the_codecs)
{
    struct cuda_given before = cuda_given();
    jobs_open(&jobs, &(struct jobs_how){.count = 6, .streams = 3, .devices = 2});
    assert_true(engine_prepare_codecs(jobs.engine));
    jobs_run(&jobs);
    size_t pools = 0, codecs = 2 * (3 * 4 * MIB + 7 * MIB);
    assert_int_equal(engine_slots(jobs.engine), 2 * 3);
    for (uint32_t d = 0; d < 2; d++)
        pools += engine_device_usage(jobs.engine, d).held;
    assert_int_equal(cuda_given().device - before.device, pools + codecs);
    assert_int_equal(cuda_given().pinned - before.pinned,
                     engine_pinned_usage(jobs.engine).held + codecs);
    jobs_close(&jobs);
}

TEST_MAIN()
