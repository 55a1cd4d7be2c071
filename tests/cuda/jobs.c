#include "tests/cuda/jobs.h"

#include "codecs/codec.h"
#include "codecs/jpeg/header.h"
#include "gpu/jpeg/codec_memory.h"
#include "gpu/jpeg/decode.h"
#include "tests/fixtures/process.h"

struct jobs *jobs_running;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the answers */

void jobs_on_done(struct engine_task *task)
{
    struct job *job = container_of(task, struct job, task);
    unsigned number = (unsigned)(job - jobs_running->job);
    pthread_mutex_lock(&lock);
    jobs_running->done[number]++;
    jobs_running->ended[jobs_running->answered++] = number;
    pthread_mutex_unlock(&lock);
}

void jobs_set_fault(const char *at, int error, unsigned nth, unsigned times)
{
    struct cuda_fault fault = {.error = error, .nth = nth, .times = times, .devices = 1};
    snprintf(fault.at, sizeof fault.at, "%s", at);
    cuda_fault_set(&fault);
}

void jobs_set_no_fault(int devices)
{
    cuda_fault_set(&(struct cuda_fault){.devices = devices ? devices : 1});
}

struct engine *jobs_engine(const struct jobs_how *how)
{
    struct engine *engine = NULL;
    struct error error = {0};
    struct engine_config config = {.kind = "cuda", .devices = "all", .streams = how->streams,
                                   .pinned_bytes = 128 * MIB, .device_bytes = 128 * MIB,
                                   .hang_grace_s = how->hang_grace_s};
    if (engine_open(&config, &engine, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return engine;
}

static char hold_path[64];

__attribute__((destructor)) void jobs_let_go(void)
{
    if (hold_path[0])
        unlink(hold_path);
}

void jobs_hold(const char *at, int error, int devices)
{
    struct cuda_fault fault = {.error = error, .nth = error ? 1 : UINT32_MAX, .times = 1,
                               .devices = devices};
    snprintf(hold_path, sizeof hold_path, "/tmp/gpuimgd-hold-%ld", (long)getpid());
    snprintf(fault.at, sizeof fault.at, "%s", at);
    snprintf(fault.hold, sizeof fault.hold, "%s", hold_path);
    fclose(fopen(hold_path, "w"));
    cuda_fault_set(&fault);
}

void jobs_prepare(struct jobs *jobs, unsigned number, uint32_t width, uint32_t height,
                  const char *ops)
{
    struct job *job = &jobs->job[number];
    jobs->ops[number] = ops;
    job_open(job, width, height, 3, ops);
    assert_int_equal(job_reserve(job, jobs->engine), ENGINE_RESERVED);
    job->task.done = jobs_on_done;
}

/* ---- JPEG files ------------------------------------------------------------------------------ */

void jobs_file_read(struct jobs_file *file, struct picture_file bytes)
{
    static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT,
                                               .side_max = SIDE_DEFAULT,
                                               .jpeg_scans_max = JPEG_SCANS_DEFAULT};
    struct codec_context *context = codec_context_create();
    struct image_info info = {0};
    struct error error = {0};
    file->file = bytes;
    assert_int_equal(codec_probe(context, bytes.bytes, bytes.length, &limits, &info, &error),
                     STATUS_OK);
    assert_true(codec_read_frame(context, bytes.bytes, bytes.length, &info, &limits,
                                 &file->frame));
    image_info_clear(&info);
    codec_context_destroy(context);
}

void jobs_file_clear(struct jobs_file *file)
{
    picture_free(&file->file);
}

static void plan_file(struct job *job, const struct jobs_file *file, enum decode_as as,
                      const char *ops, int quality)
{
    struct error error = {0};
    const struct jpeg_frame *frame = &file->frame;
    size_t bytes = file->file.length;
    struct plan_source source = {.width = frame->width,
                                 .height = frame->height,
                                 .orientation = 1,
                                 .eighths = 8,
                                 .channels = as == DECODE_LUMA ? 1 : 3,
                                 .file = {.codec = DEVICE_CODEC_JPEG,
                                          .bytes = bytes,
                                          .frame_bytes = sizeof *frame,
                                          .prepared_bytes = JPEG_DECODE_PREPARED_BYTES,
                                          .work_bytes = jpeg_decoder_bytes(frame, bytes, as, 8)}};
    job->ops = test_ops(ops);
    struct plan_target target = {.ops = job->ops, .opaque = true};
    if (quality > 0) {
        target.encoder = (struct plan_encoder){.codec = DEVICE_CODEC_JPEG,
                                               .quality = quality,
                                               .h = 2,
                                               .v = 2,
                                               .header_bytes = jpeg_prelude_bytes(0)};
        target.measure_encoder = jpeg_measure_encoder;
    }
    assert_int_equal(plan_build(&job->plan, &source, &target, 1, &test_limits, &error), STATUS_OK);
}

static void put_header(const struct job *job)
{
    struct codec_context *context = codec_context_create();
    const struct plan_variant *variant = &job->plan.variants[0];
    const struct plan_encoder *encoder = &variant->encoder;
    struct encode_request request = {.format = format_by_name("jpeg"),
                                     .encoder = {.quality = encoder->quality}};
    struct error error = {0};
    assert_int_equal(
        jpeg_prelude_make(context, &request, variant->width, variant->height, variant->channels,
                          (struct jpeg_prelude *)(job->memory.input + encoder->header_at), &error),
        STATUS_OK);
    codec_context_destroy(context);
}

void jobs_prepare_file(struct jobs *jobs, unsigned number, const struct jobs_file *file,
                       enum decode_as as, const char *ops, int quality)
{
    struct job *job = &jobs->job[number];
    struct error error = {0};
    memset(job, 0, sizeof *job);
    plan_file(job, file, as, ops, quality);
    job->task = (struct engine_task){.plan = &job->plan, .memory = &job->memory,
                                     .done = jobs_on_done};
    assert_int_equal(engine_reserve(jobs->engine, &job->plan, &job->memory, &error),
                     ENGINE_RESERVED);
    memcpy(job->memory.input, file->file.bytes, file->file.length);
    memcpy(job->memory.input + job->plan.frame_at, &file->frame, sizeof file->frame);
    memset(job->memory.output, 0, job->plan.output_bytes);
    plan_put_constants(&job->plan, job->memory.input);
    if (quality > 0)
        put_header(job);
}

/* ---- running --------------------------------------------------------------------------------- */

void jobs_open(struct jobs *jobs, const struct jobs_how *how)
{
    jobs_set_no_fault(how->devices);
    memset(jobs, 0, sizeof *jobs);
    jobs_running = jobs;
    jobs->engine = jobs_engine(how);
    jobs->count = how->count;
    for (unsigned i = 0; i < jobs->count; i++) {
        jobs_prepare(jobs, i, 60 + i * 10, 70, JOBS_OPS);
        jobs->job[i].task.alone = how->alone;
    }
}

static void on_gate(struct engine_task *task)
{
    struct jobs_gate *gate = container_of(task, struct jobs_gate, task);
    task_wait_ended(&gate->entered);
    if (!task_wait_for(&gate->opened, 1, 60))
        abort();
    task_wait_ended(&gate->left);
}

void jobs_enter_gate(struct jobs_gate *gate, struct engine *engine, uint32_t device)
{
    static const struct plan nothing = {.idle = true};
    gate->memory = (struct engine_memory){.device = device};
    gate->task = (struct engine_task){.plan = &nothing, .memory = &gate->memory, .done = on_gate};
    task_wait_open(&gate->entered);
    task_wait_open(&gate->opened);
    task_wait_open(&gate->left);
    engine_submit(engine, &gate->task);
    if (!task_wait_for(&gate->entered, 1, 60))
        fail_msg("the thread of device %u does not answer", device);
}

void jobs_pass_gate(struct jobs_gate *gate)
{
    task_wait_ended(&gate->opened);
    if (!task_wait_for(&gate->left, 1, 60))
        abort();
    task_wait_close(&gate->entered);
    task_wait_close(&gate->opened);
    task_wait_close(&gate->left);
}

void jobs_submit(struct jobs *jobs, unsigned first, unsigned count)
{
    struct jobs_gate gates[2];
    uint32_t devices = engine_devices(jobs->engine);
    assert_true(devices <= COUNT_OF(gates));
    for (uint32_t d = 0; d < devices; d++)
        jobs_enter_gate(&gates[d], jobs->engine, d);
    for (unsigned i = first; i < first + count; i++)
        engine_submit(jobs->engine, &jobs->job[i].task);
    for (uint32_t d = 0; d < devices; d++)
        jobs_pass_gate(&gates[d]);
    jobs_settle(jobs);
}

/* The thread calls `done` of tasks that do nothing before it starts batches, so the first gate may
 * be passed before these. It takes the second one in a later turn. */
void jobs_settle(struct jobs *jobs)
{
    struct jobs_gate gate;
    for (uint32_t d = 0; d < engine_devices(jobs->engine); d++)
        for (int turn = 0; turn < 2; turn++) {
            jobs_enter_gate(&gate, jobs->engine, d);
            jobs_pass_gate(&gate);
        }
}

unsigned jobs_answered(const struct jobs *jobs)
{
    pthread_mutex_lock(&lock);
    unsigned answered = jobs->answered;
    pthread_mutex_unlock(&lock);
    return answered;
}

void jobs_wait(struct jobs *jobs, unsigned wanted)
{
    uint64_t limit_ns = clock_now_ns() + (uint64_t)(patience(60) * 1e9);
    while (jobs_answered(jobs) < wanted && clock_now_ns() < limit_ns)
        usleep(200);
    if (jobs_answered(jobs) != wanted)
        fail_msg("%u jobs of %u were answered", jobs_answered(jobs), wanted);
    for (unsigned i = 0; i < jobs->count && wanted == jobs->count; i++)
        if (jobs->done[i] != 1)
            fail_msg("job %u was answered %u times", i, jobs->done[i]);
}

void jobs_run(struct jobs *jobs)
{
    jobs_submit(jobs, 0, jobs->count);
    jobs_wait(jobs, jobs->count);
}

unsigned jobs_with(const struct jobs *jobs, enum status status)
{
    unsigned count = 0;
    for (unsigned i = 0; i < jobs->count; i++)
        count += jobs->job[i].task.error.status == status;
    return count;
}

unsigned jobs_charged(const struct jobs *jobs)
{
    unsigned count = 0;
    for (unsigned i = 0; i < jobs->count; i++)
        count += jobs->job[i].task.suspect;
    return count;
}

void jobs_check_latched(struct jobs *jobs)
{
    struct job late;
    struct error error = {0};
    assert_non_null(engine_fault(jobs->engine));
    assert_int_equal(jobs_with(jobs, STATUS_OK) + jobs_with(jobs, STATUS_GPU_FAILED),
                     jobs->count);
    job_open(&late, 50, 50, 3, JOBS_OPS);
    assert_int_equal(engine_reserve(jobs->engine, &late.plan, &late.memory, &error), ENGINE_WAIT);
    assert_null(late.memory.input);
    assert_int_equal(error.status, STATUS_OK);
    late.memory = jobs->job[0].memory;
    test_run(jobs->engine, &late.task);
    assert_int_equal(late.task.error.status, STATUS_GPU_FAILED);
    assert_false(late.task.suspect);
    memset(&late.memory, 0, sizeof late.memory);
    job_close(&late, jobs->engine);
}

void jobs_close(struct jobs *jobs)
{
    struct engine *cpu = test_engine_open("cpu", 1, 64 * MIB, 0);
    for (unsigned i = 0; i < jobs->count; i++)
        if (jobs->done[i] && jobs->ops[i] && jobs->job[i].task.error.status == STATUS_OK)
            compare_with_cpu(cpu, &jobs->job[i], jobs->ops[i]);
    engine_close(cpu);
    size_t stuck = 0;
    for (unsigned i = 0; i < jobs->count; i++) {
        if (jobs->job[i].task.suspect && !engine_fault(jobs->engine))
            stuck += buffer_align(jobs->job[i].memory.pinned_block.bytes);
        job_close(&jobs->job[i], jobs->engine);
    }
    assert_int_equal(engine_pinned_usage(jobs->engine).used, stuck);
    for (uint32_t d = 0; d < engine_devices(jobs->engine); d++)
        assert_int_equal(engine_device_usage(jobs->engine, d).used, 0);
    jobs_set_no_fault(1); /* repairs the device, so that its memory can be freed */
    engine_close(jobs->engine);
}
