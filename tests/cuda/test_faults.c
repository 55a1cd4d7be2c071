/*
 * Tests of the CUDA engine's error paths: each error at each call, hanging streams, and refused
 * memory. They use the stand-in CUDA runtime (tests/cuda/fault.h) and need no GPU.
 */
#include "tests/cuda/jobs.h"

#include <pthread.h>

#define JOBS 6
#define STREAMS 2

static struct jobs jobs; /* of the running test */

static const int lasting[] = {214, 220, 226, 700, 702, 709, 710, 714, 715,
                              716, 717, 718, 719, 721, 810, 911, 999};

/* Each job has a stream to itself. */
static void open_jobs(int devices, double hang_grace_s)
{
    struct jobs_how how = {.count = JOBS, .streams = STREAMS, .devices = devices,
                           .hang_grace_s = hang_grace_s, .alone = true};
    jobs_open(&jobs, &how);
}

static struct engine *open_engine(void)
{
    return jobs_engine(&(struct jobs_how){.streams = STREAMS});
}

/* ---- lasting errors -------------------------------------------------------------------------- */

static void lasting_error(const char *at, int error, unsigned nth)
{
    open_jobs(1, 0);
    jobs_set_fault(at, error, nth, 1);
    jobs_run(&jobs);
    if (cuda_fault_struck() != 1)
        fail_msg("%s, %u: error %d struck %u times", at, nth, error, cuda_fault_struck());
    jobs_check_latched(&jobs);
    unsigned charged = jobs_charged(&jobs);
    if (charged < 1 || charged > STREAMS)
        fail_msg("%s, %u: error %d is charged to %u jobs", at, nth, error, charged);
    jobs_close(&jobs);
}

TEST(test_each_lasting_error_at_each_call)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaEventRecord", "cudaMemcpyAsync",
                                        "launch", "cudaLaunchHostFunc", "cudaStreamQuery"};
    for (size_t e = 0; e < COUNT_OF(lasting); e++)
        for (size_t c = 0; c < COUNT_OF(calls); c++)
            lasting_error(calls[c], lasting[e], 1);
}

/* A job makes four event records, two copies and up to three launches (one for orientation). */
TEST(test_a_lasting_error_at_the_nth_call)
{
    for (unsigned nth = 1; nth <= 3 * 4; nth++)
        lasting_error("cudaEventRecord", 700, nth);
    for (unsigned nth = 1; nth <= 3 * 2; nth++)
        lasting_error("cudaMemcpyAsync", 700, nth);
    for (unsigned nth = 1; nth <= 3 * 2; nth++)
        lasting_error("launch", 700, nth);
}

TEST(test_each_lasting_error_on_the_device)
{
    static const char *const places[] = {"copy", "kernel"};
    for (size_t e = 0; e < COUNT_OF(lasting); e++)
        for (size_t p = 0; p < COUNT_OF(places); p++)
            lasting_error(places[p], lasting[e], 1 + (unsigned)e % 3);
}

/* One of two devices fails, whose index is returned. All its jobs fail, and those that were on it
 * are charged. The jobs of the other end well. */
static uint32_t break_one_of_two(void)
{
    open_jobs(2, 0);
    jobs_hold("kernel", 719, 2);
    jobs_submit(&jobs, 0, JOBS);
    jobs_let_go();
    jobs_wait(&jobs, JOBS);
    uint32_t struck = engine_device_state(jobs.engine, 0) == DEVICE_FAILED ? 0 : 1;
    assert_int_equal(engine_device_state(jobs.engine, struck), DEVICE_FAILED);
    assert_true(jobs_charged(&jobs) >= 1 && jobs_charged(&jobs) <= STREAMS);
    for (unsigned i = 0; i < JOBS; i++) {
        const struct engine_task *task = &jobs.job[i].task;
        bool failed = jobs.job[i].memory.device == struck && task->error.status != STATUS_OK;
        assert_int_equal(task->error.status, failed ? STATUS_GPU_FAILED : STATUS_OK);
        assert_int_equal(task->returned, failed && !task->suspect);
        assert_true(failed || !task->suspect);
    }
    return struck;
}

/* Only the device that fails ends its jobs. */
TEST(test_the_other_device_is_not_charged)
{
    uint32_t struck = break_one_of_two();
    assert_int_equal(engine_device_state(jobs.engine, !struck), DEVICE_IN_SERVICE);
    assert_null(engine_fault(jobs.engine));
    jobs_close(&jobs);
}

/* The other device gets all new jobs, but no pinned memory of jobs that were on the failed one. */
TEST(test_the_other_device_goes_on)
{
    uint32_t struck = break_one_of_two();
    const uint8_t *stuck[JOBS] = {NULL};
    for (unsigned i = 0; i < JOBS; i++) {
        if (jobs.job[i].task.suspect)
            stuck[i] = jobs.job[i].memory.input;
        engine_release(jobs.engine, &jobs.job[i].memory);
    }
    struct engine_memory memory;
    struct error error = {0};
    assert_int_equal(engine_reserve_on(jobs.engine, struck, &jobs.job[0].plan, &memory, &error),
                     ENGINE_NEVER);
    assert_int_equal(error.status, STATUS_GPU_FAILED);
    for (unsigned i = 0; i < JOBS; i++)
        job_close(&jobs.job[i], jobs.engine);
    for (unsigned round = 0; round < 2; round++) {
        jobs.answered = 0;
        memset(jobs.done, 0, sizeof jobs.done);
        for (unsigned i = 0; i < JOBS; i++) {
            jobs_prepare(&jobs, i, 60 + i * 10, 70, JOBS_OPS);
            assert_int_equal(jobs.job[i].memory.device, !struck);
            for (unsigned j = 0; j < JOBS; j++)
                assert_ptr_not_equal(jobs.job[i].memory.input, stuck[j]);
        }
        jobs_run(&jobs);
        assert_int_equal(jobs_with(&jobs, STATUS_OK), JOBS);
        for (unsigned i = 0; i < JOBS && round == 0; i++)
            job_close(&jobs.job[i], jobs.engine);
    }
    engine_set_in_service(jobs.engine, !struck, false, "the last one");
    assert_string_equal(engine_fault(jobs.engine)->text, "the last one");
    for (unsigned i = 0; i < JOBS; i++)
        job_close(&jobs.job[i], jobs.engine);
    jobs_set_no_fault(2);
    engine_close(jobs.engine);
}

/* If a check takes the only device out of service, no job is charged. */
TEST(test_the_only_device_fails_its_check)
{
    open_jobs(1, 0);
    jobs_hold("", 0, 1);
    jobs_submit(&jobs, 0, JOBS);
    engine_set_in_service(jobs.engine, 0, false, "a pixel is wrong");
    engine_set_in_service(jobs.engine, 0, false, "another one, too");
    jobs_wait(&jobs, JOBS);
    assert_string_equal(engine_fault(jobs.engine)->text, "a pixel is wrong");
    assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), JOBS);
    assert_int_equal(jobs_charged(&jobs), 0);
    jobs_check_latched(&jobs);
    jobs_let_go();
    jobs_close(&jobs);
}

/* A device that fails its check leaves service: its jobs end without a charge, it runs only checks,
 * and it comes back. */
TEST(test_a_device_leaves_service_and_comes_back)
{
    struct job check;
    struct error error = {0};
    open_jobs(2, 0);
    jobs_hold("", 0, 2);
    jobs_submit(&jobs, 0, JOBS);
    engine_set_in_service(jobs.engine, 1, false, "a pixel is wrong");
    assert_int_equal(engine_device_state(jobs.engine, 1), DEVICE_OUT);
    assert_null(engine_fault(jobs.engine));
    jobs_wait(&jobs, 1); /* the only one that waited for a stream */
    jobs_let_go();
    jobs_wait(&jobs, JOBS);
    assert_int_equal(jobs_charged(&jobs), 0);
    for (unsigned i = 0; i < JOBS; i++) {
        bool returned = jobs.job[i].memory.device == 1;
        assert_int_equal(jobs.job[i].task.returned, returned);
        assert_int_equal(jobs.job[i].task.error.status,
                         returned ? STATUS_GPU_FAILED : STATUS_OK);
    }
    job_open(&check, 50, 50, 3, JOBS_OPS);
    for (unsigned is_check = 0; is_check < 2; is_check++) {
        assert_int_equal(engine_reserve_on(jobs.engine, 1, &check.plan, &check.memory, &error),
                         ENGINE_RESERVED);
        check.task.is_check = is_check;
        test_run(jobs.engine, &check.task);
        assert_int_equal(check.task.returned, !is_check);
        assert_int_equal(check.task.error.status, is_check ? STATUS_OK : STATUS_GPU_FAILED);
        engine_release(jobs.engine, &check.memory);
    }
    for (unsigned back = 0; back < 2; back++) {
        uint32_t device = 0;
        engine_set_in_service(jobs.engine, 1, back, "still wrong");
        for (unsigned i = 0; i < 2; i++) {
            struct engine_memory memory;
            assert_int_equal(engine_reserve(jobs.engine, &check.plan, &memory, &error),
                             ENGINE_RESERVED);
            device |= memory.device;
            engine_release(jobs.engine, &memory);
            if (i == 0) /* the first device then has a job more */
                assert_int_equal(engine_reserve_on(jobs.engine, 0, &check.plan, &check.memory,
                                                   &error), ENGINE_RESERVED);
        }
        assert_int_equal(device, back);
        engine_release(jobs.engine, &check.memory);
    }
    job_close(&check, jobs.engine);
    jobs_close(&jobs);
}

/* ---- many threads ---------------------------------------------------------------------------- */

#define THREADS 4
#define JOBS_PER_THREAD 50

struct customer {
    pthread_t thread;
    struct job job;
    struct task_wait wait;
    unsigned ok, returned, others;
};

static void on_served(struct engine_task *task)
{
    task_wait_ended(&container_of(task, struct customer, job.task)->wait);
}

/* Reserves memory, runs a job and releases the memory, again and again. */
static void *be_served(void *argument)
{
    struct customer *customer = argument;
    struct job *job = &customer->job;
    struct error error = {0};
    for (size_t i = 0; i < JOBS_PER_THREAD; i++) {
        const struct engine_task *task = &job->task;
        if (!engine_fits(jobs.engine, &job->plan) ||
            engine_reserve(jobs.engine, &job->plan, &job->memory, &error) != ENGINE_RESERVED)
            break;
        plan_put_constants(&job->plan, job->memory.input);
        engine_submit(jobs.engine, &job->task);
        if (!task_wait_for(&customer->wait, i + 1, 10))
            break;
        customer->ok += task->error.status == STATUS_OK;
        customer->returned += task->returned;
        customer->others += task->error.status != STATUS_OK && !task->returned;
        engine_release(jobs.engine, &job->memory);
    }
    return NULL;
}

/* Several threads use two devices. Meanwhile one device leaves service and comes back. */
TEST(test_many_threads)
{
    static struct customer customers[THREADS];
    memset(customers, 0, sizeof customers);
    jobs_open(&jobs, &(struct jobs_how){.streams = STREAMS, .devices = 2});
    for (unsigned i = 0; i < THREADS; i++) {
        struct customer *customer = &customers[i];
        task_wait_open(&customer->wait);
        job_open(&customer->job, 60 + i, 50, 3, JOBS_OPS);
        customer->job.task.done = on_served;
        assert_int_equal(pthread_create(&customer->thread, NULL, be_served, customer), 0);
    }
    for (unsigned i = 0; i < 10; i++) {
        usleep(2000);
        engine_set_in_service(jobs.engine, 1, i % 2, "a pixel is wrong");
        engine_take_activity(jobs.engine, i % 2, &(struct engine_activity){0});
    }
    for (unsigned i = 0; i < THREADS; i++) {
        struct customer *customer = &customers[i];
        pthread_join(customer->thread, NULL);
        task_wait_close(&customer->wait);
        assert_int_equal(customer->ok + customer->returned, JOBS_PER_THREAD);
        assert_int_equal(customer->others, 0);
        assert_true(customer->ok > 0);
        job_close(&customer->job, jobs.engine);
    }
    jobs_close(&jobs);
}

/* ---- errors of one call ---------------------------------------------------------------------- */

/* If an event cannot be recorded, only the job's timing is missing. */
TEST(test_an_error_of_one_call_is_one_jobs)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaMemcpyAsync", "launch",
                                        "cudaEventRecord"};
    static const int errors[] = {cudaErrorInvalidValue, cudaErrorMemoryAllocation,
                                 cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources};
    for (size_t c = 0; c < COUNT_OF(calls); c++) {
        for (size_t e = 0; e < COUNT_OF(errors); e++) {
            open_jobs(1, 0);
            jobs_set_fault(calls[c], errors[e], 1 + (unsigned)e, 1);
            jobs_run(&jobs);
            assert_int_equal(cuda_fault_struck(), 1);
            assert_null(engine_fault(jobs.engine));
            unsigned failed = strcmp(calls[c], "cudaEventRecord") == 0 ? 0 : 1;
            unsigned unmeasured = 0;
            for (unsigned i = 0; i < JOBS; i++)
                unmeasured += jobs.job[i].task.started_ns == 0;
            assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), failed);
            assert_int_equal(jobs_with(&jobs, STATUS_OK), JOBS - failed);
            assert_int_equal(unmeasured, 1);
            assert_int_equal(jobs_charged(&jobs), 0);
            jobs_close(&jobs);
        }
    }
}

/* If a stream cannot enqueue its report, or reports an error, the engine fails. */
TEST(test_an_error_of_the_report_is_a_fault)
{
    static const char *const calls[] = {"cudaLaunchHostFunc", "cudaStreamQuery"};
    for (size_t c = 0; c < COUNT_OF(calls); c++)
        lasting_error(calls[c], cudaErrorInvalidValue, 1);
}

/* ---- hanging streams ------------------------------------------------------------------------- */

/* One stream hangs, or does not report. The deadline is 0.5 s, the grace period 150 ms. */
static void never_reported(const char *at, int error)
{
    open_jobs(1, 0.15);
    jobs_set_fault(at, error, 1, 1);
    uint64_t start_ns = clock_now_ns();
    for (unsigned i = 0; i < JOBS; i++)
        jobs.job[i].task.deadline_ns = start_ns + (i == 0 ? 500000000ull : 60000000000ull);
    jobs_submit(&jobs, 0, 1);
    while (cuda_fault_struck() == 0)
        usleep(1000);
    jobs_submit(&jobs, 1, JOBS - 1);
    jobs_wait(&jobs, JOBS);
    assert_true(clock_now_ns() - start_ns >= 650000000ull);
    jobs_check_latched(&jobs);
    assert_int_equal(jobs.job[0].task.error.status, STATUS_GPU_FAILED);
    assert_true(jobs.job[0].task.suspect);
    for (unsigned i = 1; i < JOBS; i++) /* they used the other stream */
        assert_int_equal(jobs.job[i].task.error.status, STATUS_OK);
    jobs_close(&jobs);
}

TEST(test_a_kernel_that_never_ends)
{
    never_reported("kernel", cudaErrorNotReady);
}

TEST(test_a_report_that_never_comes)
{
    never_reported("report", cudaSuccess);
}

/* ---- refused memory -------------------------------------------------------------------------- */

TEST(test_no_pinned_memory)
{
    jobs_set_fault("cudaHostAlloc", cudaErrorMemoryAllocation, 1, 0);
    memset(&jobs, 0, sizeof jobs);
    jobs_running = &jobs;
    jobs.engine = open_engine();
    jobs.count = JOBS;
    for (unsigned i = 0; i < JOBS; i++)
        jobs_prepare(&jobs, i, 500 + i, 400, JOBS_OPS);
    assert_true(cuda_fault_struck() > 0);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), JOBS);
    assert_null(engine_fault(jobs.engine));
    jobs_close(&jobs);
}

TEST(test_no_device_memory)
{
    struct job job;
    struct error error = {0};
    jobs_set_fault("cudaMalloc", cudaErrorMemoryAllocation, 1, 0);
    struct engine *engine = open_engine();
    job_open(&job, 300, 200, 3, JOBS_OPS);
    assert_int_equal(engine_reserve(engine, &job.plan, &job.memory, &error), ENGINE_NEVER);
    assert_int_equal(error.status, STATUS_OUT_OF_MEMORY);
    assert_true(status_retryable(error.status));
    assert_non_null(strstr(error.text, "device memory, although device_bytes allows"));
    jobs_set_no_fault(1);
    assert_int_equal(job_reserve(&job, engine), ENGINE_RESERVED);
    test_run(engine, &job.task);
    assert_int_equal(job.task.error.status, STATUS_OK);
    job_close(&job, engine);
    assert_null(engine_fault(engine));
    engine_close(engine);
}

/* If a device fails during an allocation, the engine reports the fault. */
static void refused_for_good(const char *call, int lasting_error)
{
    struct job job;
    struct error error = {0};
    jobs_set_fault(call, lasting_error, 1, 1);
    struct engine *engine = open_engine();
    job_open(&job, 300, 200, 3, JOBS_OPS);
    if (engine_reserve(engine, &job.plan, &job.memory, &error) != ENGINE_WAIT)
        fail_msg("%s: after error %d memory is still given: %s", call, lasting_error, error.text);
    assert_int_equal(error.status, STATUS_OK);
    assert_non_null(engine_fault(engine));
    assert_non_null(strstr(engine_fault(engine)->text, "cuda:0"));
    jobs_set_no_fault(1);
    job_close(&job, engine);
    assert_int_equal(engine_pinned_usage(engine).used, 0);
    engine_close(engine);
}

TEST(test_a_lasting_error_for_want_of_memory)
{
    for (size_t e = 0; e < COUNT_OF(lasting); e++) {
        refused_for_good("cudaMalloc", lasting[e]);
        refused_for_good("cudaHostAlloc", lasting[e]);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

TEST(test_a_device_that_cannot_be_opened)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaMemGetInfo",
                                        "cudaDeviceGetAttribute",
                                        "cudaDeviceGetStreamPriorityRange",
                                        "cudaStreamCreateWithPriority", "cudaEventCreate",
                                        "cudaEventRecord", "cudaStreamSynchronize"};
    struct engine_config config = {.kind = "auto", .devices = "all", .pinned_bytes = MIB};
    for (size_t c = 0; c < COUNT_OF(calls); c++) {
        for (unsigned nth = 1; nth <= 2; nth++) {
            struct engine *engine = NULL;
            struct error error = {0};
            jobs_set_fault(calls[c], 702, nth, 1);
            enum status status = engine_open(&config, &engine, &error);
            if (cuda_fault_struck() == 0) { /* there is no second such call */
                assert_int_equal(nth, 2);
                engine_close(engine);
                continue;
            }
            assert_int_equal(status, STATUS_GPU_FAILED);
            assert_null(engine);
            assert_non_null(strstr(error.text, "cuda:0"));
        }
    }
}

/* By default 8 streams if the device copies in both directions at the same time, else 4. */
TEST(test_streams_of_a_device)
{
    static const struct {
        uint32_t streams, slots;
        int copiers;
    } rows[] = {{0, 8, 2}, {0, 8, 3}, {0, 4, 1}, {3, 3, 2}, {64, 64, 1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct engine *engine = NULL;
        struct error error = {0};
        struct engine_config config = {.kind = "cuda", .streams = rows[i].streams,
                                       .pinned_bytes = MIB, .device_bytes = MIB};
        cuda_fault_set(&(struct cuda_fault){.devices = 2, .copiers = rows[i].copiers});
        assert_int_equal(engine_open(&config, &engine, &error), STATUS_OK);
        assert_int_equal(engine_slots_of(engine, 1), rows[i].slots);
        assert_int_equal(engine_slots(engine), 2 * rows[i].slots);
        engine_close(engine);
    }
}

/* UUIDs of the stand-in: GPU-0, GPU-1, MIG-0 and MIG-1. */
TEST(test_devices_by_uuid)
{
    static const struct {
        const char *devices, *refusal; /* NULL: none */
        uint32_t count;
    } rows[] = {
        {"GPU-1", NULL, 1},
        {"GPU-1,GPU-0", NULL, 2},
        {"MIG-1", NULL, 1},
        {"GPU-2", "names 1 device(s) by UUID, but CUDA shows 0 of them; nvidia-smi -L lists", 0},
        {"GPU-0,GPU-7", "names 2 device(s) by UUID, but CUDA shows 1 of them", 0},
        {"MIG-0,MIG-1", "CUDA shows 1 of them; nvidia-smi -L lists the UUIDs, and CUDA shows", 0},
        {"MIG-7", "CUDA shows 0 of them", 0},
        {"GPU-0,1", "devices is \"GPU-0,1\"; it must be all, at most 16 different numbers, or", 0},
        {"GPU-0,GPU-0", "it must be all", 0},
        {"GPU-0,", "it must be all", 0},
        {"GPU-", "it must be all", 0},
        {"GPU-0 ", "it must be all", 0},
        {"0,GPU-1", "it must be all, or at most 16 different numbers or UUIDs", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct engine *engine = NULL;
        struct error error = {0};
        struct engine_config config = {.kind = "auto", .devices = rows[i].devices, .streams = 1,
                                       .pinned_bytes = MIB, .device_bytes = MIB};
        cuda_fault_set(&(struct cuda_fault){.devices = 2});
        enum status status = engine_open(&config, &engine, &error);
        unsetenv("CUDA_VISIBLE_DEVICES");
        if (!rows[i].refusal != (status == STATUS_OK) ||
            (rows[i].refusal && !strstr(error.text, rows[i].refusal)))
            fail_msg("%s: %s", rows[i].devices, error.text);
        if (engine)
            assert_int_equal(engine_devices(engine), rows[i].count);
        engine_close(engine);
    }
}

/* Each cause has a message that says what to do; `auto` uses the CPU. */
TEST(test_no_device_to_be_had)
{
    static const struct {
        int error, driver;
        const char *sentence;
    } rows[] = {
        {cudaErrorNoDevice, 12080, "shows no GPU to this process; nvidia-smi and"},
        {cudaErrorInsufficientDriver, -1, "no NVIDIA driver is installed"},
        {cudaErrorInsufficientDriver, 12020,
         "too old: it supports CUDA 12.2, and gpuimgd was built with 12.8 (cudaError 35); "
         "install a"},
        {cudaErrorNotPermitted, 12080, "does not permit this user to use the GPU; see the owners"},
        {cudaErrorDevicesUnavailable, 12080, "exclusive or prohibited compute mode"},
        {cudaErrorSystemNotReady, 12080, "is nvidia-fabricmanager running?"},
        {cudaErrorSystemDriverMismatch, 12080, "different versions; reboot, or reload the module"},
        {cudaErrorCompatNotSupportedOnDevice, 12080, "forward compatibility library"},
        {cudaErrorUnknown, 12080, "does not start: an error of the stand-in (cudaError 999); does"},
    };
    struct engine_config config = {.devices = "all", .streams = STREAMS, .pinned_bytes = 64 * MIB,
                                   .device_bytes = 64 * MIB};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct engine *engine = NULL;
        struct error error = {0};
        struct cuda_fault fault = {.at = "cudaGetDeviceCount", .error = rows[i].error, .nth = 1,
                                   .times = 1, .driver = rows[i].driver};
        config.kind = "cuda";
        cuda_fault_set(&fault);
        assert_int_equal(engine_open(&config, &engine, &error), STATUS_GPU_FAILED);
        assert_null(engine);
        if (!strstr(error.text, rows[i].sentence))
            fail_msg("%d: %s", rows[i].error, error.text);
        assert_non_null(strstr(error.text, "; engine = auto would use the CPU"));
        config.kind = "auto";
        error = (struct error){0};
        cuda_fault_set(&fault);
        assert_int_equal(engine_open(&config, &engine, &error), STATUS_OK);
        assert_true(engine_is_synchronous(engine));
        engine_close(engine);
    }
}

TEST_MAIN()
