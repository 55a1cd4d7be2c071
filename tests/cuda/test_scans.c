/*
 * Tests of progressive JPEGs on a device: groups of them share a launch, and each one leaves its
 * group when its own scans have ended. Uses the stand-in CUDA runtime.
 */
#include "tests/cuda/jobs.h"

#include <semaphore.h>

#include "gpu/cuda/device.h"
#include "gpu/jpeg/upload.h"
#include "gpu/simt/simt.h"
#include "tests/fixtures/process.h"

static struct jobs jobs; /* of the running test */
static struct jobs_file file, large;

/* Opens the engine with `count` jobs whose file the device decodes. long_slots 0: all. */
static void open_jobs(unsigned count, uint32_t long_slots)
{
    jobs_file_read(&file, make_jpeg(.width = 40, .height = 30, .progressive = true));
    jobs_file_read(&large, make_jpeg(.width = 300, .height = 260, .progressive = true,
                                     .quality = 100, .subsampling = 444));
    jobs_open(&jobs, &(struct jobs_how){.streams = 1});
    assert_true(engine_prepare_codecs(jobs.engine));
    if (long_slots > 0)
        atomic_store(&cuda_engine(jobs.engine)->devices[0].long_count, long_slots);
    jobs.count = count;
    for (unsigned i = 0; i < count; i++)
        jobs_prepare_file(&jobs, i, &file, DECODE_COLOUR, JOBS_OPS, 0);
}

/* Replaces the file of a job. */
static void use_file(unsigned number, const struct jobs_file *other)
{
    job_close(&jobs.job[number], jobs.engine);
    jobs_prepare_file(&jobs, number, other, DECODE_COLOUR, JOBS_OPS, 0);
}

static void close_jobs(void)
{
    atomic_store(&cuda_engine(jobs.engine)->devices[0].long_count, LONG_STREAMS);
    jobs_close(&jobs);
    jobs_file_clear(&file);
    jobs_file_clear(&large);
}

static uint32_t declined(unsigned number)
{
    const struct job *job = &jobs.job[number];
    return ((const struct plan_report *)(job->memory.output + job->plan.report_at))->declined;
}

static struct image result_of(unsigned number)
{
    const struct job *job = &jobs.job[number];
    return plan_result(&job->plan, 0, job->memory.input, job->memory.output);
}

/* The jobs from `first` on have ended well, with the result of `first`. */
static void check_jobs(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        assert_int_equal(jobs.job[i].task.error.status, STATUS_OK);
        assert_int_equal(declined(i), 0);
        test_same(result_of(i), result_of(first), "progressive");
    }
}

/* ---- images end one by one ------------------------------------------------------------------- */

static sem_t ends; /* how many images may still end */

static void wait_for_turn(void)
{
    while (sem_wait(&ends) != 0)
        ;
}

static void let_end(unsigned count)
{
    while (count-- > 0)
        sem_post(&ends);
}

static void hold_ends(void)
{
    sem_init(&ends, 0, 0);
    simt_publishes = wait_for_turn;
}

static void let_all_end(void)
{
    let_end(JOBS_MAX);
}

/* Waits until the device's thread has started so many second parts. */
static void wait_for_batches(unsigned count)
{
    uint64_t limit_ns = clock_now_ns() + (uint64_t)(patience(30) * 1e9);
    while (cuda_calls("cudaLaunchHostFunc") < count && clock_now_ns() < limit_ns)
        usleep(200);
    assert_int_equal(cuda_calls("cudaLaunchHostFunc"), count);
}

/* Waits until the scans of so many images have not ended, as the device's thread sees it. The gate
 * stops the thread, so that its numbers can be read. */
static void wait_for_scanning(size_t count)
{
    const struct cuda_device *device = &cuda_engine(jobs.engine)->devices[0];
    uint64_t limit_ns = clock_now_ns() + (uint64_t)(patience(30) * 1e9);
    size_t scanning;
    do {
        struct jobs_gate gate;
        jobs_enter_gate(&gate, jobs.engine, 0);
        scanning = device->scanning;
        jobs_pass_gate(&gate);
    } while (scanning != count && clock_now_ns() < limit_ns);
    assert_int_equal(scanning, count);
}

/* The large file is the last that is submitted, but its scans begin first, and end first. */
TEST(test_images_end_in_their_own_order)
{
    open_jobs(4, 1);
    use_file(3, &large);
    hold_ends();
    jobs_submit(&jobs, 0, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(jobs.job[i].task.decode_slot, 1);
    let_end(1);
    wait_for_batches(1);
    let_end(1);
    /* The second part of the first one is enqueued, and the next one waits for the stream. */
    wait_for_scanning(2);
    jobs_settle(&jobs);
    assert_int_equal(cuda_calls("cudaLaunchHostFunc"), 1);
    let_all_end();
    jobs_wait(&jobs, 4);
    assert_int_equal(jobs.ended[0], 3);
    assert_int_equal(jobs.ended[1], 0);
    check_jobs(0, 3);
    check_jobs(3, 1);
    close_jobs();
}

/* Their times do not depend on the group's end, and no task has more than its own. */
TEST(test_images_of_a_group_have_times)
{
    open_jobs(3, 1);
    hold_ends();
    uint64_t start_ns = clock_now_ns();
    jobs_submit(&jobs, 0, 3);
    let_end(1);
    wait_for_batches(1);
    usleep(50000);
    let_all_end();
    jobs_wait(&jobs, 3);
    uint64_t end_ns = clock_now_ns();
    for (unsigned i = 0; i < 3; i++) {
        const struct engine_task *task = &jobs.job[i].task;
        double most_ms = clock_ms(start_ns, end_ns);
        assert_true(task->started_ns >= start_ns && task->started_ns <= task->decode_at_ns);
        assert_true(task->decode_at_ns < task->kernel_at_ns && task->kernel_at_ns <= end_ns);
        assert_true(task->h2d_ms >= 0 && task->decode_ms > 0 && task->decode_ms <= task->kernel_ms);
        assert_true(task->h2d_ms + task->kernel_ms + task->d2h_ms <= most_ms);
        assert_true(i == 0 || task->decode_ms >= 50);
        assert_int_equal(task->slot, 0);
    }
    assert_true(jobs.job[0].task.decode_ms < jobs.job[1].task.decode_ms);
    close_jobs();
}

/* ---- many images ------------------------------------------------------------------------------
 */

/* Whether the device's thread takes no progressive files before its next look at the scans. */
static bool is_patient(struct cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    bool patient = device->patient && !device->urgent;
    pthread_mutex_unlock(&device->lock);
    return patient;
}

/* Progressive files do not wake the thread then, and other tasks do. Nothing is forgotten. */
TEST(test_files_that_come_while_many_are_decoded)
{
    enum { first = LONG_STREAMS + 8, later = 9, others = 3 };
    struct cuda_device *device;
    open_jobs(first + later, 0);
    jobs.count = first + later + others;
    for (unsigned i = first + later; i < jobs.count; i++)
        jobs_prepare(&jobs, i, 64, 64, JOBS_OPS);
    device = &cuda_engine(jobs.engine)->devices[0];
    hold_ends();
    jobs_submit(&jobs, 0, first);
    for (unsigned i = 0; !is_patient(device) && i < patience(30) * 1e3; i++)
        usleep(1000);
    for (unsigned i = 0; i < later; i++) {
        engine_submit(jobs.engine, &jobs.job[first + i].task);
        assert_true(is_patient(device));
        usleep(i * 300);
    }
    jobs_submit(&jobs, first + later, others);
    jobs_wait(&jobs, others);
    assert_int_equal(jobs_answered(&jobs), others);
    for (unsigned i = 0; i < others; i++)
        assert_true(jobs.ended[i] >= first + later);
    let_all_end();
    let_all_end();
    jobs_wait(&jobs, jobs.count);
    check_jobs(0, first + later);
    close_jobs();
}

/* The thread is patient only while it has more than a file per slot. */
TEST(test_a_file_that_comes_after_many)
{
    enum { first = LONG_STREAMS + 8 };
    open_jobs(first + 1, 0);
    jobs_submit(&jobs, 0, first);
    jobs_wait(&jobs, first);
    jobs_submit(&jobs, first, 1);
    jobs_wait(&jobs, first + 1);
    check_jobs(0, first + 1);
    close_jobs();
}

/* ---- one task of a group fails --------------------------------------------------------------- */

/* Replaces bytes in the middle of each scan. */
static void damage(unsigned number)
{
    const struct job *job = &jobs.job[number];
    const struct jpeg_frame *frame =
        (const struct jpeg_frame *)(job->memory.input + job->plan.frame_at);
    for (uint32_t i = 0; i < frame->scan_count; i++)
        memset(job->memory.input + frame->scans[i].at + frame->scans[i].bytes / 2, 0x55,
               frame->scans[i].bytes / 3);
}

TEST(test_a_damaged_image_of_a_group_is_declined)
{
    open_jobs(5, 1);
    damage(2);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 5);
    assert_int_not_equal(declined(2), 0);
    check_jobs(0, 2);
    check_jobs(3, 2);
    close_jobs();
}

/* The deadline passes while the group runs. The device keeps the memory until the scans end. */
TEST(test_a_late_image_of_a_group_fails_alone)
{
    open_jobs(4, 1);
    hold_ends();
    jobs.job[1].task.deadline_ns = clock_now_ns() + 300000000ull;
    jobs_submit(&jobs, 0, 4);
    while (clock_now_ns() <= jobs.job[1].task.deadline_ns)
        usleep(5000);
    assert_int_equal(jobs_answered(&jobs), 0);
    let_all_end();
    jobs_wait(&jobs, 4);
    assert_int_equal(jobs.job[1].task.error.status, STATUS_TIMEOUT);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
    check_jobs(2, 2);
    close_jobs();
}

/* Larger files than the kernel copies are copied one by one. */
TEST(test_an_image_that_is_not_uploaded_fails_alone)
{
    open_jobs(4, 1);
    jobs_file_clear(&large);
    jobs_file_read(&large, make_jpeg(.width = 520, .height = 400, .progressive = true,
                                     .quality = 100, .subsampling = 444));
    for (unsigned i = 0; i < 4; i++)
        use_file(i, &large);
    assert_true(large.file.length > UPLOAD_PIECE_BYTES_MAX);
    jobs_set_fault("cudaMemcpyAsync", cudaErrorInvalidValue, 2, 1);
    jobs_run(&jobs);
    assert_int_equal(jobs.job[1].task.error.status, STATUS_GPU_FAILED);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
    assert_null(engine_fault(jobs.engine));
    check_jobs(2, 2);
    close_jobs();
}

/* One of the launches for a group fails: the upload, the three kernels. The slot is free again. */
TEST(test_a_group_that_cannot_be_launched)
{
    for (unsigned nth = 2; nth <= 4; nth++) {
        open_jobs(4, 1);
        jobs_set_fault("codec launch", cudaErrorInvalidValue, nth, 1);
        jobs_submit(&jobs, 0, 3);
        jobs_wait(&jobs, 3);
        assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
        assert_int_equal(jobs_charged(&jobs), 0);
        jobs_submit(&jobs, 3, 1);
        jobs_wait(&jobs, 4);
        check_jobs(3, 1);
        close_jobs();
    }
}

TEST(test_a_group_whose_device_cannot_be_selected)
{
    open_jobs(4, 1);
    jobs_set_fault("cudaSetDevice", cudaErrorInvalidValue, 1, 1);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 4);
    close_jobs();
}

/* Without events there are no times, but results. */
TEST(test_a_group_that_is_not_measured)
{
    open_jobs(3, 1);
    jobs_set_fault("cudaEventRecord", cudaErrorInvalidValue, 1, 0);
    jobs_run(&jobs);
    check_jobs(0, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(jobs.job[i].task.started_ns, 0);
    close_jobs();
}

/* ---- the device fails or leaves service -------------------------------------------------------
 */

TEST(test_a_fault_ends_progressive_files)
{
    open_jobs(LONG_STREAMS + 3, 0);
    jobs_hold("cudaStreamQuery", cudaErrorIllegalAddress, 1);
    jobs_run(&jobs);
    jobs_let_go();
    assert_non_null(engine_fault(jobs.engine));
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), jobs.count);
    assert_int_equal(jobs_charged(&jobs), jobs.count);
    close_jobs();
}

/* The thread looked for ended scans just before. It refuses a file that comes later at once. */
TEST(test_a_file_that_comes_after_a_fault)
{
    enum { count = LONG_STREAMS + 8 };
    open_jobs(count + 1, 0);
    hold_ends();
    jobs_submit(&jobs, 0, count);
    jobs_set_fault("cudaStreamQuery", cudaErrorIllegalAddress, 1, 1);
    jobs_wait(&jobs, count);
    usleep(10000);
    engine_submit(jobs.engine, &jobs.job[count].task);
    jobs_wait(&jobs, count + 1);
    let_all_end();
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), count + 1);
    close_jobs();
}

/* The device breaks when some images of a group have ended, and wait for the only stream. */
TEST(test_a_fault_in_the_middle_of_a_group)
{
    open_jobs(4, 1);
    hold_ends();
    jobs_submit(&jobs, 0, 4);
    let_end(1);
    wait_for_batches(1); /* a second image that ended now would be in this batch */
    let_end(1);
    wait_for_scanning(2);
    jobs_set_fault("cudaStreamQuery", cudaErrorIllegalAddress, 1, 1);
    jobs_wait(&jobs, 4);
    let_all_end();
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 4);
    assert_int_equal(jobs_charged(&jobs), 3); /* not the one that waits */
    close_jobs();
}

/* The tasks end when their scans do, because the device still writes to their memory. */
TEST(test_a_device_leaves_service_with_a_group)
{
    open_jobs(3, 1);
    hold_ends();
    jobs_submit(&jobs, 0, 3);
    engine_set_in_service(jobs.engine, 0, false, "enough");
    jobs_settle(&jobs);
    let_all_end();
    jobs_wait(&jobs, 3);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
    close_jobs();
}

/* A group that hangs fails the device after the grace time of the earliest deadline. */
TEST(test_a_group_that_hangs)
{
    jobs_open(&jobs, &(struct jobs_how){.streams = 1, .hang_grace_s = 0.2});
    jobs_file_read(&file, make_jpeg(.width = 40, .height = 30, .progressive = true));
    assert_true(engine_prepare_codecs(jobs.engine));
    atomic_store(&cuda_engine(jobs.engine)->devices[0].long_count, 1);
    jobs.count = 3;
    for (unsigned i = 0; i < 3; i++)
        jobs_prepare_file(&jobs, i, &file, DECODE_COLOUR, JOBS_OPS, 0);
    jobs_set_fault("codec", cudaErrorNotReady, 1, 1);
    jobs.job[1].task.deadline_ns = clock_now_ns() + 100000000ull;
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
    assert_int_equal(jobs_charged(&jobs), 3);
    jobs_file_read(&large, make_jpeg(.width = 9, .height = 9));
    close_jobs();
}

/* The kernel that decodes scans does nothing. */
TEST(test_a_group_that_reports_nothing)
{
    open_jobs(3, 1);
    jobs_set_fault("codec", 0, 4, 1);
    jobs_run(&jobs);
    assert_int_equal(cuda_fault_struck(), 1);
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
    assert_int_equal(jobs_charged(&jobs), 3);
    close_jobs();
}

/* The daemon then decodes on the host. All that was opened is closed. */
TEST(test_progressive_streams_that_cannot_be_opened)
{
    static const char *const calls[] = {"cudaDeviceGetStreamPriorityRange",
                                        "cudaStreamCreateWithPriority", "cudaEventCreate",
                                        "cudaHostAlloc", "cudaMalloc"};
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        jobs_open(&jobs, &(struct jobs_how){.count = 3, .streams = 2});
        jobs_set_fault(calls[i], cudaErrorMemoryAllocation, i == 0 ? 1 : 7, 1);
        assert_false(engine_prepare_codecs(jobs.engine));
        assert_int_equal(cuda_fault_struck(), 1);
        jobs_run(&jobs);
        assert_int_equal(jobs_with(&jobs, STATUS_OK), 3);
        jobs_close(&jobs);
    }
}

/* ---- beside other tasks ---------------------------------------------------------------------- */

/* While all long slots are busy and more files wait, other tasks start; and the other way round.
 * cudaSetDevice is the first call for a batch. */
static void two_kinds(bool progressive_first)
{
    enum { progressive = 20, others = 4, slots = 1 };
    open_jobs(progressive, slots);
    jobs.count = progressive + others;
    for (unsigned i = progressive; i < jobs.count; i++) {
        jobs_prepare(&jobs, i, 64, 64, JOBS_OPS);
        jobs.job[i].task.alone = true;
    }
    jobs_hold("cudaSetDevice", 0, 1);
    for (int kind = 0; kind < 2; kind++) {
        bool now = (kind == 0) == progressive_first;
        jobs_submit(&jobs, now ? 0 : progressive, now ? progressive : others);
        assert_int_equal(cuda_fault_passed(), kind + 1);
    }
    assert_int_equal(jobs_answered(&jobs), 0);
    jobs_let_go();
    jobs_wait(&jobs, jobs.count);
    check_jobs(0, progressive);
    for (unsigned i = 0; i < jobs.count; i++) {
        assert_int_equal(jobs.job[i].task.decode_slot, i < progressive);
        assert_int_equal(jobs.job[i].task.slot, 0);
    }
    close_jobs();
}

TEST(test_progressive_files_delay_no_other_tasks)
{
    two_kinds(true);
}

TEST(test_other_tasks_delay_no_progressive_files)
{
    two_kinds(false);
}

/* Streams share the hardware's queues. Work that waits for scans would delay other streams. */
TEST(test_nothing_is_enqueued_after_scans)
{
    enum { count = 3 };
    open_jobs(count, 0);
    jobs_hold("cudaLaunchHostFunc", 0, 1);
    jobs_submit(&jobs, 0, count);
    unsigned calls = cuda_calls(NULL), queries = cuda_calls("cudaStreamQuery");
    usleep(3 * DEVICE_LONG_NS / 1000);
    jobs_settle(&jobs);
    assert_int_equal(cuda_fault_passed(), 0);
    assert_int_equal(cuda_calls(NULL) - calls, cuda_calls("cudaStreamQuery") - queries);
    jobs_let_go();
    jobs_wait(&jobs, count);
    check_jobs(0, count);
    close_jobs();
}

/* Baseline and progressive files share the second part. */
TEST(test_both_kinds_of_files_share_a_batch)
{
    struct jobs_file baseline;
    jobs_file_read(&baseline, make_jpeg(.width = 40, .height = 30));
    open_jobs(6, 2);
    for (unsigned i = 1; i < 6; i += 2)
        use_file(i, &baseline);
    for (unsigned i = 0; i < 6; i++)
        jobs.job[i].task.rank = (struct rank){0};
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(declined(i), 0);
        test_same(result_of(i), result_of(i % 2), "both kinds");
        assert_int_equal(jobs.job[i].task.decode_slot > 0, i % 2 == 0);
    }
    close_jobs();
    jobs_file_clear(&baseline);
}

static int clear(void **state)
{
    (void)state;
    simt_publishes = NULL;
    return 0;
}

TEST_MAIN(.each_setup = clear, .each_teardown = clear)
