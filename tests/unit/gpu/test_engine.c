/*
 * Tests of engine.h: open, reserve, run on many threads or many streams, deadlines, and usage
 * figures. CUDA tests are skipped on machines without a device.
 */
#include <pthread.h>

#include "tests/fixtures/gpu/engine_job.h"

static const char *const all_ops[] = {
    "[\"grayscale\"]", "[\"sobel\"]", "[]", "[\"grayscale\",\"sobel\"]",
    "[{\"op\":\"sobel\",\"magnitude\":\"l2\",\"border\":\"zero\"},\"sobel\"]",
};
#define OPS_COUNT (sizeof(all_ops) / sizeof(all_ops[0]))

/* ---- the CPU engine ---- */

TEST(test_auto_gives_an_engine)
{
    struct engine *engine = test_engine_open("auto", 2, 64 * MIB, 64 * MIB);
    assert_non_null(engine);
    assert_true(strlen(engine_description(engine)) > 3);
    print_message("auto: %s\n", engine_description(engine));
    assert_null(engine_fault(engine));
    engine_close(engine);
    engine_close(NULL);
}

TEST(test_cpu_names)
{
    struct engine *cpu = test_engine_open("cpu", 4, 64 * MIB, 0);
    assert_true(engine_is_synchronous(cpu));
    assert_string_equal(engine_name(cpu, 0), "cpu");
    assert_int_equal(engine_slots(cpu), 0);
    assert_int_equal(strncmp(engine_description(cpu), "CPU (", 5), 0);
    assert_int_equal(engine_pinned_usage(cpu).budget, 64 * MIB);
    assert_int_equal(engine_device_usage(cpu, 0).budget, 0);
    assert_int_equal(engine_device_state(cpu, 0), DEVICE_IN_SERVICE);
    engine_close(cpu);
}

/* One of these jobs needs 4 MB of pinned memory and 7 MB of device (or CPU scratch) memory. */
static void check_shortage(struct engine *engine)
{
    struct job first, second, large;
    struct error error = {0};
    job_open(&first, 1000, 1000, 3, "[\"sobel\"]");
    job_open(&second, 1000, 1000, 3, "[\"sobel\"]");
    job_open(&large, 3000, 2000, 3, "[\"sobel\"]");
    assert_int_equal(job_reserve(&first, engine), ENGINE_RESERVED);
    assert_int_equal(job_reserve(&second, engine), ENGINE_WAIT);
    assert_null(second.memory.input);
    assert_int_equal(engine_reserve(engine, &large.plan, &large.memory, &error), ENGINE_NEVER);
    assert_int_equal(error.status, STATUS_OVER_BUDGET);
    assert_non_null(strstr(error.text, "_bytes"));
    test_run(engine, &first.task);
    assert_int_equal(first.task.error.status, STATUS_OK);
    job_close(&first, engine);
    assert_int_equal(job_reserve(&second, engine), ENGINE_RESERVED);
    test_run(engine, &second.task);
    assert_int_equal(second.task.error.status, STATUS_OK);
    job_close(&second, engine);
    job_close(&large, engine);
    assert_int_equal(engine_pinned_usage(engine).used, 0);
    assert_int_equal(engine_device_usage(engine, 0).used, 0);
}

TEST(test_cpu_shortage)
{
    struct engine *cpu = test_engine_open("cpu", 1, 10 * MIB, 0);
    check_shortage(cpu);
    engine_close(cpu);
}

TEST(test_cpu_deadline)
{
    struct engine *cpu = test_engine_open("cpu", 1, 64 * MIB, 0);
    struct job job;
    job_open(&job, 300, 200, 3, "[\"sobel\",\"sobel\"]");
    assert_int_equal(job_reserve(&job, cpu), ENGINE_RESERVED);
    job.task.deadline_ns = clock_now_ns() - 1;
    test_run(cpu, &job.task);
    assert_int_equal(job.task.error.status, STATUS_TIMEOUT);
    job.task.deadline_ns = clock_now_ns() + 60000000000ull;
    job.task.error = (struct error){0};
    test_run(cpu, &job.task);
    assert_int_equal(job.task.error.status, STATUS_OK);
    job_close(&job, cpu);
    engine_close(cpu);
}

/* CPU seconds of this thread; other programs do not lengthen them. */
static double run_s(struct engine *cpu, struct job *job, uint64_t deadline_ns)
{
    job->task.deadline_ns = deadline_ns;
    uint64_t start_ns = clock_thread_cpu_ns();
    test_run(cpu, &job->task);
    return (double)(clock_thread_cpu_ns() - start_ns) * 1e-9;
}

/* A pass stops soon after the deadline. */
static void check_deadline_within(struct engine *cpu, const char *ops, const char *text)
{
    struct job job;
    job_open(&job, 3000, 1503, 1, ops); /* orientation 1 adds no pass */
    assert_int_equal(job_reserve(&job, cpu), ENGINE_RESERVED);
    double whole_s = run_s(cpu, &job, 0);
    assert_int_equal(job.task.error.status, STATUS_OK);
    double late_s = run_s(cpu, &job, clock_now_ns() + (uint64_t)(whole_s * 1e9 / 5));
    assert_int_equal(job.task.error.status, STATUS_TIMEOUT);
    if (!strstr(job.task.error.text, text))
        fail_msg("%s: \"%s\" instead of \"%s\"", ops, job.task.error.text, text);
    if (late_s >= whole_s / 2)
        fail_msg("%s: %g s with a deadline at a fifth of %g s", ops, late_s, whole_s);
    job_close(&job, cpu);
}

#define ONES "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"
#define ONES_5 ONES "," ONES "," ONES "," ONES "," ONES

TEST(test_cpu_deadline_within_a_pass)
{
    static const char *const rows[][2] = {
        {"[{\"op\":\"convolve\",\"kernel\":[" ONES_5 "," ONES_5 "," ONES_5 "]}]",
         "convolve, pass 1 of 1"},
        {"[{\"op\":\"median\",\"size\":5}]", "median, pass 1 of 1"},
        {"[{\"op\":\"gaussian\",\"ksize\":31}]", "gaussian, pass 1 of 1"},
        {"[{\"op\":\"unsharp\",\"ksize\":31}]", "unsharp, pass 1 of 1"},
        {"[{\"op\":\"canny\",\"low\":0}]", "canny, pass 1 of 1"},
        {"[{\"op\":\"resize\",\"width\":18000,\"height\":1503,\"fit\":\"exact\"}]",
         "resample x, pass 1 of 1"},
        {"[{\"op\":\"resize\",\"width\":3000,\"height\":9000,\"fit\":\"exact\"}]",
         "resample y, pass 1 of 1"},
        {"[{\"op\":\"resize\",\"width\":1,\"height\":1,\"fit\":\"exact\"}]",
         "resample x, pass 1 of 2"},
    };
    struct engine *cpu = test_engine_open("cpu", 1, 64 * MIB, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_deadline_within(cpu, rows[i][0], rows[i][1]);
    engine_close(cpu);
}

#define THREADS 4
#define JOBS_A_THREAD 12

struct worker {
    pthread_t thread;
    struct engine *engine;
    uint32_t number;
    unsigned wrong;
};

/* cmocka's asserts belong to the main thread, so workers count failures. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    for (uint32_t i = 0; i < JOBS_A_THREAD; i++) {
        struct job *job = malloc(sizeof(*job)), *again = malloc(sizeof(*again));
        const char *ops = all_ops[(i + worker->number) % OPS_COUNT];
        uint32_t width = 50 + i * 37, height = 300 - i * 11, channels = i % 2 ? 3 : 4;
        job_open(job, width, height, channels, ops);
        job_open(again, width, height, channels, ops);
        if (job_reserve(job, worker->engine) != ENGINE_RESERVED ||
            job_reserve(again, worker->engine) != ENGINE_RESERVED) {
            worker->wrong++;
        } else {
            engine_run(worker->engine, &job->task);
            engine_run(worker->engine, &again->task);
            struct image a = plan_result(&job->plan, 0, job->memory.input, job->memory.output);
            struct image b =
                plan_result(&again->plan, 0, again->memory.input, again->memory.output);
            for (uint32_t y = 0; y < a.height; y++)
                worker->wrong += memcmp(a.pixels + y * a.stride, b.pixels + y * b.stride,
                                        (size_t)a.width * a.channels) != 0;
            worker->wrong += job->task.error.status != STATUS_OK;
        }
        job_close(job, worker->engine);
        job_close(again, worker->engine);
        free(job);
        free(again);
    }
    return NULL;
}

TEST(test_cpu_many_threads)
{
    struct engine *cpu = test_engine_open("cpu", 1, 256 * MIB, 0);
    struct worker workers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.engine = cpu, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].wrong, 0);
    struct engine_activity activity = {0}, again = {0};
    engine_take_activity(cpu, 0, &activity);
    engine_take_activity(cpu, 0, &again);
    assert_true(activity.kernel_s > 0);
    assert_true(activity.any_s >= activity.kernel_s * 0.999);
    assert_true(again.any_s == 0);
    assert_int_equal(engine_pinned_usage(cpu).used, 0);
    engine_close(cpu);
}

TEST(test_a_wrong_engine_is_refused)
{
    struct engine *engine = NULL;
    struct error error = {0};
    struct engine_config config = {.kind = "cuda", .devices = "77", .streams = 1,
                                   .pinned_bytes = MIB};
    assert_int_equal(engine_open(&config, &engine, &error), STATUS_GPU_FAILED);
    assert_null(engine);
    assert_true(strlen(error.text) > 10);
}

/* ---- the CUDA engine ---- */

static struct engine *open_cuda(uint32_t streams, size_t pinned, size_t device)
{
    struct engine *engine = test_engine_open("cuda", streams, pinned, device);
    if (!engine)
        skip();
    return engine;
}

TEST(test_names_cuda)
{
    struct engine *cuda = open_cuda(3, 64 * MIB, 64 * MIB);
    assert_false(engine_is_synchronous(cuda));
    assert_int_equal(strncmp(engine_name(cuda, 0), "cuda:", 5), 0);
    assert_int_equal(engine_slots(cuda) % 3, 0);
    assert_true(engine_slots(cuda) >= 3);
    print_message("cuda: %s\n", engine_description(cuda));
    engine_close(cuda);
}

TEST(test_shortage_cuda)
{
    struct engine *pinned = open_cuda(1, 6 * MIB, 64 * MIB);
    check_shortage(pinned);
    engine_close(pinned);
    if (engine_slots(pinned = open_cuda(1, 64 * MIB, 10 * MIB)) == 1) /* otherwise a second fits */
        check_shortage(pinned);
    engine_close(pinned);
}

#define CUDA_JOBS 200

/* Many jobs of random sizes over `streams` slots; together they exceed the device memory. */
static void many_jobs(uint32_t streams)
{
    struct engine *cuda = open_cuda(streams, 512 * MIB, 512 * MIB);
    struct engine *cpu = test_engine_open("cpu", 1, 64 * MIB, 0);
    unsigned count = test_quick() ? 24 : CUDA_JOBS;
    size_t before = test_wait.ended;
    struct job *jobs = calloc(count, sizeof(*jobs));
    uint32_t random = 4711;
    for (unsigned i = 0; i < count; i++) {
        uint32_t width = 1 + test_random(&random) % 900, height = 1 + test_random(&random) % 400;
        uint32_t channels = (uint32_t[]){1, 3, 4}[test_random(&random) % 3];
        job_open(&jobs[i], width, height, channels, all_ops[i % OPS_COUNT]);
        assert_int_equal(job_reserve(&jobs[i], cuda), ENGINE_RESERVED);
        engine_submit(cuda, &jobs[i].task);
    }
    test_wait_for(before + count);
    double copied_ms = 0;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(jobs[i].task.error.status, STATUS_OK);
        assert_false(jobs[i].task.suspect);
        compare_with_cpu(cpu, &jobs[i], all_ops[i % OPS_COUNT]);
        copied_ms += jobs[i].task.h2d_ms;
        job_close(&jobs[i], cuda);
    }
    assert_true(copied_ms > 0);
    struct engine_activity activity = {0};
    engine_take_activity(cuda, 0, &activity);
    assert_true(activity.h2d_s > 0 && activity.kernel_s > 0 && activity.d2h_s > 0);
    assert_true(activity.any_s <=
                activity.h2d_s + activity.kernel_s + activity.d2h_s + 1e-9);
    assert_true(activity.h2d_bytes > activity.d2h_bytes);
    assert_int_equal(engine_pinned_usage(cuda).used, 0);
    assert_int_equal(engine_device_usage(cuda, 0).used, 0);
    free(jobs);
    engine_close(cuda);
    engine_close(cpu);
}

TEST(test_one_stream_cuda)
{
    many_jobs(1);
}

TEST(test_four_streams_cuda)
{
    many_jobs(4);
}

TEST(test_eight_streams_cuda)
{
    many_jobs(8);
}

/* Small images of different sizes on one stream: most wait, and then share launches. Without a
 * device, passes of the CPU engine take the place of kernels, and smaller images are enough. */
static void shared_launches(struct engine *cuda, struct engine *cpu, const char *ops,
                            uint32_t channels)
{
    enum { count = 60 };
    struct job *jobs = calloc(count, sizeof *jobs);
    size_t before = test_wait.ended;
    uint32_t random = 42, part = test_quick() ? 4 : 1;
    for (unsigned i = 0; i < count; i++) {
        uint32_t width = 1 + test_random(&random) % (400 / part);
        uint32_t height = 1 + test_random(&random) % (300 / part);
        job_open(&jobs[i], width, height, channels, ops);
        assert_int_equal(job_reserve(&jobs[i], cuda), ENGINE_RESERVED);
    }
    for (unsigned i = 0; i < count; i++)
        engine_submit(cuda, &jobs[i].task);
    test_wait_for(before + count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(jobs[i].task.error.status, STATUS_OK);
        compare_with_cpu(cpu, &jobs[i], ops);
        job_close(&jobs[i], cuda);
    }
    free(jobs);
}

TEST(test_shared_launches_cuda)
{
    static const char *const lists[] = {
        "['sobel']",
        "[{'op':'invert'},{'op':'sobel','magnitude':'l1','border':'zero'}]",
        "[{'op':'gaussian','ksize':5}]",
        "['grayscale',{'op':'gaussian','sigma':0.9}]",
        "[{'op':'gaussian','sigma':2}]",
        "[{'op':'gaussian','sigma':4}]",
        "[{'op':'gamma','gamma':1.7},{'op':'gaussian','sigma':1.2}]",
        "[{'op':'unsharp','sigma':1,'amount':1.5}]",
        "[{'op':'resize','width':31,'height':47,'fit':'exact'}]",
        "[{'op':'resize','width':500,'height':100,'fit':'exact'},'sobel']",
        "['phash']",
    };
    struct engine *cuda = open_cuda(1, 256 * MIB, 256 * MIB);
    struct engine *cpu = test_engine_open("cpu", 1, 64 * MIB, 0);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        each_channels(channels) shared_launches(cuda, cpu, lists[i], channels);
    engine_close(cuda);
    engine_close(cpu);
}

TEST(test_deadline_cuda)
{
    struct engine *cuda = open_cuda(1, 64 * MIB, 64 * MIB);
    struct job job;
    job_open(&job, 640, 480, 3, "[\"sobel\"]");
    assert_int_equal(job_reserve(&job, cuda), ENGINE_RESERVED);
    job.task.deadline_ns = 1;
    test_run(cuda, &job.task);
    assert_int_equal(job.task.error.status, STATUS_TIMEOUT);
    assert_null(engine_fault(cuda));
    job.task.deadline_ns = clock_now_ns() + 60000000000ull;
    test_run(cuda, &job.task);
    assert_int_equal(job.task.error.status, STATUS_OK);
    job_close(&job, cuda);
    engine_close(cuda);
}

/* Jobs with pauses for several seconds; the engine renews the clock's base meanwhile. */
TEST(test_times_over_seconds_cuda)
{
    struct engine *cuda = open_cuda(2, 128 * MIB, 128 * MIB);
    struct job job;
    double sum_s = 0;
    uint64_t span_ns = test_quick() ? 500000000ull : 5000000000ull;
    job_open(&job, 2000, 1500, 3, "[\"sobel\"]");
    assert_int_equal(job_reserve(&job, cuda), ENGINE_RESERVED);
    uint64_t start_ns = clock_now_ns();
    unsigned jobs = 0;
    for (; clock_now_ns() - start_ns < span_ns; jobs++) {
        const struct timespec pause = {0, 20000000};
        test_run(cuda, &job.task);
        assert_int_equal(job.task.error.status, STATUS_OK);
        sum_s += (job.task.h2d_ms + job.task.kernel_ms + job.task.d2h_ms) * 1e-3;
        nanosleep(&pause, NULL);
    }
    struct engine_activity activity = {0};
    engine_take_activity(cuda, 0, &activity);
    print_message("cuda: %u jobs one by one: any %.6f s, sum of the parts %.6f s\n", jobs,
                  activity.any_s, sum_s);
    assert_true(activity.any_s > 0.9 * sum_s && activity.any_s < 1.1 * sum_s);
    job_close(&job, cuda);
    engine_close(cuda);
}

TEST_MAIN()
