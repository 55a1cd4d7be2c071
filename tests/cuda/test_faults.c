/*
 * Tests of the CUDA engine's ways out: each error at each call, devices that stand still, memory
 * that is refused. They run on the stand-in (tests/cuda/fault.h), so on every machine.
 */
#include "tests/unit/engine_job.h"

#include <unistd.h>

#include "tests/cuda/cuda_runtime.h"
#include "tests/cuda/fault.h"

#define JOBS 6
#define STREAMS 2
#define OPS "[\"grayscale\",\"sobel\"]"

static const int lasting[] = {214, 220, 226, 700, 702, 709, 710, 714, 715,
                              716, 717, 718, 719, 721, 810, 911, 999};
#define LASTING_COUNT (sizeof lasting / sizeof *lasting)

static char hold_path[64];

struct batch {
    struct engine *engine;
    struct job jobs[JOBS];
    unsigned done[JOBS];
};

static struct batch *running;

static void on_done(struct engine_task *task)
{
    struct job *job = container_of(task, struct job, task);
    running->done[job - running->jobs]++;
    test_done_count++;
}

static void set_fault(const char *at, int error, unsigned nth, unsigned times)
{
    struct cuda_fault fault = {.error = error, .nth = nth, .times = times, .devices = 1};
    snprintf(fault.at, sizeof fault.at, "%s", at);
    cuda_fault_set(&fault);
}

static void set_no_fault(int devices)
{
    cuda_fault_set(&(struct cuda_fault){.devices = devices});
}

static struct engine *open_engine(double hang_grace_s)
{
    struct engine *engine = NULL;
    struct error error = {0};
    struct engine_config config = {.kind = "cuda", .devices = "all", .streams = STREAMS,
                                   .pinned_bytes = 64 * MIB, .device_bytes = 64 * MIB,
                                   .hang_grace_s = hang_grace_s, .wake = bell_ring,
                                   .wake_context = &test_bell};
    if (engine_open(&config, &engine, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return engine;
}

/* Opens the engine while nothing is wrong, and reserves for all jobs. */
static void batch_open(struct batch *batch, int devices, double hang_grace_s)
{
    set_no_fault(devices);
    memset(batch, 0, sizeof *batch);
    running = batch;
    batch->engine = open_engine(hang_grace_s);
    for (unsigned i = 0; i < JOBS; i++) {
        job_open(&batch->jobs[i], 60 + i * 10, 70, 3, OPS);
        assert_int_equal(job_reserve(&batch->jobs[i], batch->engine), ENGINE_RESERVED);
        batch->jobs[i].task.done = on_done;
    }
}

/* Until all have been answered, ten seconds at most. */
static void batch_wait(struct batch *batch)
{
    uint64_t limit_ns = now_ns() + 10000000000ull;
    for (unsigned answered = 0; answered < JOBS && now_ns() < limit_ns;) {
        bell_wait(&test_bell);
        engine_reap(batch->engine);
        answered = 0;
        for (unsigned i = 0; i < JOBS; i++)
            answered += batch->done[i] > 0;
    }
    for (unsigned i = 0; i < JOBS; i++)
        if (batch->done[i] != 1)
            fail_msg("job %u was answered %u times", i, batch->done[i]);
}

static void batch_submit(struct batch *batch)
{
    for (unsigned i = 0; i < JOBS; i++)
        engine_submit(batch->engine, &batch->jobs[i].task);
}

static unsigned batch_count(const struct batch *batch, enum status status)
{
    unsigned count = 0;
    for (unsigned i = 0; i < JOBS; i++)
        count += batch->jobs[i].task.error.status == status;
    return count;
}

static unsigned batch_charged(const struct batch *batch)
{
    unsigned count = 0;
    for (unsigned i = 0; i < JOBS; i++)
        count += batch->jobs[i].task.on_device;
    return count;
}

/* After a fault nothing is begun: a new job is answered at once, and none gets memory. */
static void check_latched(struct batch *batch)
{
    struct job late;
    struct error error = {0};
    assert_non_null(engine_fault(batch->engine));
    assert_int_equal(batch_count(batch, STATUS_OK) + batch_count(batch, STATUS_GPU_FAILED), JOBS);
    job_open(&late, 50, 50, 3, OPS);
    assert_int_equal(engine_reserve(batch->engine, &late.plan, &late.memory, &error), ENGINE_WAIT);
    assert_null(late.memory.input);
    assert_int_equal(error.status, STATUS_OK);
    late.memory = batch->jobs[0].memory;
    test_run(batch->engine, &late.task);
    assert_int_equal(late.task.error.status, STATUS_GPU_FAILED);
    assert_false(late.task.on_device);
    memset(&late.memory, 0, sizeof late.memory);
    job_close(&late, batch->engine);
}

static void check_pictures(struct batch *batch)
{
    struct engine *cpu = test_engine_open("cpu", 1, 64 * MIB, 0);
    for (unsigned i = 0; i < JOBS; i++)
        if (batch->jobs[i].task.error.status == STATUS_OK)
            compare_with_cpu(cpu, &batch->jobs[i], OPS);
    engine_close(cpu);
}

static void batch_close(struct batch *batch)
{
    check_pictures(batch);
    for (unsigned i = 0; i < JOBS; i++)
        job_close(&batch->jobs[i], batch->engine);
    assert_int_equal(engine_pinned_usage(batch->engine).used, 0);
    assert_int_equal(engine_device_usage(batch->engine).used, 0);
    set_no_fault(1); /* the device is whole again, and all that it holds can be freed */
    engine_close(batch->engine);
}

/* ---- errors that last ------------------------------------------------------------------------ */

static void lasting_error(const char *at, int error, unsigned nth)
{
    static struct batch batch;
    batch_open(&batch, 1, 0);
    set_fault(at, error, nth, 1);
    batch_submit(&batch);
    batch_wait(&batch);
    if (cuda_fault_struck() != 1)
        fail_msg("%s, %u: error %d struck %u times", at, nth, error, cuda_fault_struck());
    check_latched(&batch);
    unsigned charged = batch_charged(&batch);
    if (charged < 1 || charged > STREAMS)
        fail_msg("%s, %u: error %d is charged to %u jobs", at, nth, error, charged);
    batch_close(&batch);
}

static void test_each_lasting_error_at_each_call(void **state)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaEventRecord", "cudaMemcpyAsync",
                                        "launch", "cudaLaunchHostFunc", "cudaStreamQuery"};
    (void)state;
    for (size_t e = 0; e < LASTING_COUNT; e++)
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
            lasting_error(calls[c], lasting[e], 1);
}

/* A job makes four records, two copies and three launches (it is turned, too). */
static void test_a_lasting_error_at_the_nth_call(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 3 * 4; nth++)
        lasting_error("cudaEventRecord", 700, nth);
    for (unsigned nth = 1; nth <= 3 * 2; nth++)
        lasting_error("cudaMemcpyAsync", 700, nth);
    for (unsigned nth = 1; nth <= 3 * 2; nth++)
        lasting_error("launch", 700, nth);
}

static void test_each_lasting_error_on_the_device(void **state)
{
    static const char *const places[] = {"copy", "kernel"};
    (void)state;
    for (size_t e = 0; e < LASTING_COUNT; e++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            lasting_error(places[p], lasting[e], 1 + (unsigned)e % 3);
}

/* Of two devices one fails: jobs on the other are not charged with it. */
static void test_the_other_device_is_not_charged(void **state)
{
    static struct batch batch;
    (void)state;
    struct cuda_fault fault = {.at = "kernel", .error = 719, .nth = 1, .times = 1, .devices = 2};
    batch_open(&batch, 2, 0);
    snprintf(fault.hold, sizeof fault.hold, "%s", hold_path);
    fclose(fopen(hold_path, "w"));
    cuda_fault_set(&fault);
    batch_submit(&batch);
    unlink(hold_path);
    batch_wait(&batch);
    check_latched(&batch);
    assert_true(batch_charged(&batch) >= 1 && batch_charged(&batch) <= STREAMS);
    unsigned struck = UINT32_MAX;
    for (unsigned i = 0; i < JOBS; i++) {
        if (!batch.jobs[i].task.on_device)
            continue;
        assert_true(struck == UINT32_MAX || struck == batch.jobs[i].memory.device);
        struck = batch.jobs[i].memory.device;
    }
    assert_int_equal(engine_devices(batch.engine), 2);
    batch_close(&batch);
}

/* What somebody else found out about the engine is charged to no job. */
static void test_a_condemned_engine(void **state)
{
    static struct batch batch;
    struct cuda_fault fault = {.devices = 1};
    (void)state;
    batch_open(&batch, 1, 0);
    snprintf(fault.hold, sizeof fault.hold, "%s", hold_path);
    fclose(fopen(hold_path, "w"));
    cuda_fault_set(&fault);
    batch_submit(&batch);
    engine_condemn(batch.engine, "a pixel is wrong");
    engine_condemn(batch.engine, "another one, too");
    batch_wait(&batch);
    assert_string_equal(engine_fault(batch.engine)->text, "a pixel is wrong");
    assert_int_equal(batch_count(&batch, STATUS_GPU_FAILED), JOBS);
    assert_int_equal(batch_charged(&batch), 0);
    check_latched(&batch);
    unlink(hold_path);
    batch_close(&batch);
}

/* ---- errors of one call ---------------------------------------------------------------------- */

static void test_an_error_of_one_call_is_one_jobs(void **state)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaEventRecord", "cudaMemcpyAsync",
                                        "launch"};
    static const int errors[] = {cudaErrorInvalidValue, cudaErrorMemoryAllocation,
                                 cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources};
    static struct batch batch;
    (void)state;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
            batch_open(&batch, 1, 0);
            set_fault(calls[c], errors[e], 1 + (unsigned)e, 1);
            batch_submit(&batch);
            batch_wait(&batch);
            assert_int_equal(cuda_fault_struck(), 1);
            assert_null(engine_fault(batch.engine));
            assert_int_equal(batch_count(&batch, STATUS_GPU_FAILED), 1);
            assert_int_equal(batch_count(&batch, STATUS_OK), JOBS - 1);
            assert_int_equal(batch_charged(&batch), 0);
            batch_close(&batch);
        }
    }
}

/* A stream that cannot be asked to report, or says that it failed, is not to be trusted. */
static void test_an_error_of_the_report_is_a_fault(void **state)
{
    static const char *const calls[] = {"cudaLaunchHostFunc", "cudaStreamQuery"};
    (void)state;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        lasting_error(calls[c], cudaErrorInvalidValue, 1);
}

/* ---- streams that do not come back ----------------------------------------------------------- */

/* One stream stands still, or does not report; with a deadline of 50 ms and a grace of 150. */
static void never_reported(const char *at, int error)
{
    static struct batch batch;
    batch_open(&batch, 1, 0.15);
    set_fault(at, error, 1, 1);
    uint64_t start_ns = now_ns();
    for (unsigned i = 0; i < JOBS; i++)
        batch.jobs[i].task.deadline_ns = start_ns + (i == 0 ? 50000000ull : 60000000000ull);
    engine_submit(batch.engine, &batch.jobs[0].task);
    while (cuda_fault_struck() == 0)
        usleep(1000);
    for (unsigned i = 1; i < JOBS; i++)
        engine_submit(batch.engine, &batch.jobs[i].task);
    batch_wait(&batch);
    assert_true(now_ns() - start_ns >= 200000000ull);
    check_latched(&batch);
    assert_int_equal(batch.jobs[0].task.error.status, STATUS_GPU_FAILED);
    assert_true(batch.jobs[0].task.on_device);
    for (unsigned i = 1; i < JOBS; i++) /* they had the other stream */
        assert_int_equal(batch.jobs[i].task.error.status, STATUS_OK);
    batch_close(&batch);
}

static void test_a_kernel_that_never_ends(void **state)
{
    (void)state;
    never_reported("kernel", cudaErrorNotReady);
}

static void test_a_report_that_never_comes(void **state)
{
    (void)state;
    never_reported("report", cudaSuccess);
}

/* ---- memory that is refused ------------------------------------------------------------------ */

static void test_no_pinned_memory(void **state)
{
    static struct batch batch;
    (void)state;
    set_fault("cudaHostAlloc", cudaErrorMemoryAllocation, 1, 0);
    memset(&batch, 0, sizeof batch);
    running = &batch;
    batch.engine = open_engine(0);
    for (unsigned i = 0; i < JOBS; i++) {
        job_open(&batch.jobs[i], 500 + i, 400, 3, OPS);
        assert_int_equal(job_reserve(&batch.jobs[i], batch.engine), ENGINE_RESERVED);
        batch.jobs[i].task.done = on_done;
    }
    assert_true(cuda_fault_struck() > 0);
    batch_submit(&batch);
    batch_wait(&batch);
    assert_int_equal(batch_count(&batch, STATUS_OK), JOBS);
    assert_null(engine_fault(batch.engine));
    batch_close(&batch);
}

static void test_no_device_memory(void **state)
{
    struct job job;
    struct error error = {0};
    (void)state;
    set_fault("cudaMalloc", cudaErrorMemoryAllocation, 1, 0);
    struct engine *engine = open_engine(0);
    job_open(&job, 300, 200, 3, OPS);
    assert_int_equal(engine_reserve(engine, &job.plan, &job.memory, &error), ENGINE_NEVER);
    assert_int_equal(error.status, STATUS_OUT_OF_MEMORY);
    assert_true(status_retryable(error.status));
    assert_non_null(strstr(error.text, "device memory, although device_bytes allows"));
    set_no_fault(1);
    assert_int_equal(job_reserve(&job, engine), ENGINE_RESERVED);
    test_run(engine, &job.task);
    assert_int_equal(job.task.error.status, STATUS_OK);
    job_close(&job, engine);
    assert_null(engine_fault(engine));
    engine_close(engine);
}

/* A device that has failed meanwhile says so to whoever asks for memory. */
static void refused_for_good(const char *call, int lasting_error)
{
    struct job job;
    struct error error = {0};
    set_fault(call, lasting_error, 1, 1);
    struct engine *engine = open_engine(0);
    job_open(&job, 300, 200, 3, OPS);
    if (engine_reserve(engine, &job.plan, &job.memory, &error) != ENGINE_WAIT)
        fail_msg("%s: after error %d memory is still given: %s", call, lasting_error, error.text);
    assert_int_equal(error.status, STATUS_OK);
    assert_non_null(engine_fault(engine));
    assert_non_null(strstr(engine_fault(engine)->text, "cuda:0"));
    set_no_fault(1);
    job_close(&job, engine);
    assert_int_equal(engine_pinned_usage(engine).used, 0);
    engine_close(engine);
}

static void test_a_lasting_error_for_want_of_memory(void **state)
{
    (void)state;
    for (size_t e = 0; e < LASTING_COUNT; e++) {
        refused_for_good("cudaMalloc", lasting[e]);
        refused_for_good("cudaHostAlloc", lasting[e]);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static void test_a_device_that_cannot_be_opened(void **state)
{
    static const char *const calls[] = {"cudaSetDevice", "cudaMemGetInfo",
                                        "cudaDeviceGetAttribute", "cudaStreamCreateWithFlags",
                                        "cudaEventCreate", "cudaEventRecord",
                                        "cudaStreamSynchronize"};
    struct engine_config config = {.kind = "auto", .devices = "all", .pinned_bytes = MIB,
                                   .wake = bell_ring, .wake_context = &test_bell};
    (void)state;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (unsigned nth = 1; nth <= 2; nth++) {
            struct engine *engine = NULL;
            struct error error = {0};
            set_fault(calls[c], 702, nth, 1);
            enum status status = engine_open(&config, &engine, &error);
            if (cuda_fault_struck() == 0) { /* it has no second such call */
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

/* Unless their number is given: 8 streams where copies go both ways at once. */
static void test_streams_of_a_device(void **state)
{
    static const struct {
        uint32_t streams, slots;
        int copiers;
    } rows[] = {{0, 8, 2}, {0, 8, 3}, {0, 4, 1}, {3, 3, 2}, {64, 64, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
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

/* Each reason has a sentence that says what to do; auto goes on with the CPU. */
static void test_no_device_to_be_had(void **state)
{
    static const struct {
        int error, driver;
        const char *sentence;
    } rows[] = {
        {cudaErrorNoDevice, 12080, "shows no GPU to this process; nvidia-smi and"},
        {cudaErrorInsufficientDriver, -1, "there is no NVIDIA driver here"},
        {cudaErrorInsufficientDriver, 12020,
         "too old: it has CUDA 12.2, and gpuimgd was built with 12.8 (cudaError 35); install a"},
        {cudaErrorNotPermitted, 12080, "does not permit this user to use the GPU; see the owners"},
        {cudaErrorDevicesUnavailable, 12080, "exclusive or prohibited compute mode"},
        {cudaErrorSystemNotReady, 12080, "is nvidia-fabricmanager running?"},
        {cudaErrorSystemDriverMismatch, 12080, "of different versions; reboot, or load the module"},
        {cudaErrorCompatNotSupportedOnDevice, 12080, "forward compatibility library"},
        {cudaErrorUnknown, 12080, "does not start: an error of the stand-in (cudaError 999); does"},
    };
    struct engine_config config = {.devices = "all", .streams = STREAMS, .pinned_bytes = 64 * MIB,
                                   .device_bytes = 64 * MIB};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
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
        assert_non_null(strstr(error.text, "; engine = auto goes on with the CPU"));
        config.kind = "auto";
        error = (struct error){0};
        cuda_fault_set(&fault);
        assert_int_equal(engine_open(&config, &engine, &error), STATUS_OK);
        assert_true(engine_is_synchronous(engine));
        engine_close(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_lasting_error_at_each_call),
        cmocka_unit_test(test_a_lasting_error_at_the_nth_call),
        cmocka_unit_test(test_each_lasting_error_on_the_device),
        cmocka_unit_test(test_the_other_device_is_not_charged),
        cmocka_unit_test(test_a_condemned_engine),
        cmocka_unit_test(test_an_error_of_one_call_is_one_jobs),
        cmocka_unit_test(test_an_error_of_the_report_is_a_fault),
        cmocka_unit_test(test_a_kernel_that_never_ends),
        cmocka_unit_test(test_a_report_that_never_comes),
        cmocka_unit_test(test_no_pinned_memory),
        cmocka_unit_test(test_no_device_memory),
        cmocka_unit_test(test_a_lasting_error_for_want_of_memory),
        cmocka_unit_test(test_a_device_that_cannot_be_opened),
        cmocka_unit_test(test_streams_of_a_device),
        cmocka_unit_test(test_no_device_to_be_had),
    };
    snprintf(hold_path, sizeof hold_path, "/tmp/gpuimgd-hold-%ld", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(hold_path);
    return failed;
}
