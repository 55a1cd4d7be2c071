/* What a worker does with a job in each stage. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/pipeline/pipeline_impl.h"
#include "daemon/pipeline/job_run.h"

/* ---- read ----------------------------------------------------------------------------------- */

/* Room for the file in the file pool, and for the byte that files_read_input wants beside it.
 * false: the job waits for room, or has failed. */
static bool take_room(struct job_run *run)
{
    struct pool *pool = run->pipeline->file_pool;
    uint64_t bytes = run->input.bytes + 1;
    bool exhausted = false;
    if (!pool_fits(pool, bytes)) {
        error_set(&run->error, STATUS_OVER_BUDGET,
                  "the input needs %" PRIu64 " bytes; half of host_bytes, %zu, is all there is",
                  bytes, pool_usage(pool).budget);
        return false;
    }
    if (pool_take(pool, bytes, &run->input.file, &exhausted))
        return true;
    if (exhausted)
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for an input of %" PRIu64 " bytes",
                  run->input.bytes);
    return false;
}

static void read_path(struct job_run *run)
{
    const char *path = run->job.input.path;
    struct files_input input;
    if (files_open_input(run->pipeline->parts.files, path, run->bounds.input_bytes_max, &input,
                         &run->error) != STATUS_OK)
        return;
    run->input.bytes = input.size;
    run->input.identity = input.identity;
    if (take_room(run)) {
        enum status status =
            files_read_input(input.fd, path, run->input.file.memory, run->input.bytes, &run->error);
        (void)status; /* kept in run->error */
    }
    close(input.fd);
}

static void read_loaded(struct job_run *run)
{
    if (!take_room(run))
        return;
    memcpy(run->input.file.memory, run->input.loaded, run->input.bytes);
    free(run->input.loaded);
    run->input.loaded = NULL;
}

/* The output's format: as asked, else by its path's suffix, else as the input; NULL where it has
 * no place to go to, or was refused for asking for a format that there is not. */
static const struct format *output_format(const struct job_output *output,
                                          const struct image_info *info)
{
    const struct format *format = NULL;
    if (!output->place.path && !output->place.key)
        return NULL;
    if (output->format)
        return format_by_name(output->format);
    if (output->place.path)
        format = format_of_path(output->place.path);
    return format ? format : info->format;
}

/* A target for each output that nothing is wrong with so far; returns how many. */
static size_t take_targets(struct job_run *run, struct plan_target *targets)
{
    size_t count = 0;
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct job_run_output *output = &run->outputs[i];
        output->format = output_format(&run->job.outputs[i], &run->info);
        if (output->error.status != STATUS_OK ||
            (output->format &&
             job_run_check_keys(run, i, output->format, &output->error) != STATUS_OK))
            continue;
        output->variant = count;
        targets[count++] = (struct plan_target){
            .ops = run->job.outputs[i].ops,
            .opaque = output->format && !output->format->alpha,
            .no_picture = !output->format,
            .number = run->job.listed ? (unsigned)i + 1 : 0,
            .error = &output->error,
        };
    }
    return count;
}

/* Chooses how the input is decoded; the source is what comes of that. No output's pixels may
 * depend on which others there are: a smaller decode is for the job that can have but one. */
static struct plan_source choose_decode(struct job_run *run, const struct plan_target *targets,
                                        size_t count)
{
    const struct image_info *info = &run->info;
    struct decode_request *decode = &run->decode;
    struct plan_source source = {
        .width = info->width,
        .height = info->height,
        .orientation = run->job.orient ? info->orientation : 1,
    };
    memcpy(source.background, run->job.background, sizeof source.background);
    decode->as = info->ycc ? plan_decode_as(targets, count) : DECODE_COLOUR;
    decode->eighths = info->scales && !run->job.listed ? plan_eighths(&source, targets[0].ops)
                                                        : DECODE_EIGHTHS;
    source.channels = decode->as == DECODE_LUMA ? 1 : info->channels;
    source.ycc = decode->as == DECODE_YCC;
    source.eighths = decode->eighths;
    return source;
}

/* What the plan and its values take of the heap. */
static void measure_plan(struct job_run *run)
{
    run->plan_bytes = plan_bytes(&run->plan);
    run->values_bytes = 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK)
            run->values_bytes += plan_values_bytes(&run->plan, run->outputs[i].variant);
}

void job_run_build_plan(struct job_run *run)
{
    struct plan_target targets[JOB_OUTPUTS_MAX];
    if (job_unpack(&run->job, &run->error) != STATUS_OK)
        return;
    size_t count = take_targets(run, targets);
    if (count == 0) {
        run->error = run->outputs[0].error;
        job_repack(&run->job);
        return;
    }
    struct plan_source source = choose_decode(run, targets, count);
    enum status status =
        plan_build(&run->plan, &source, targets, count, &run->bounds.plan, &run->error);
    job_repack(&run->job);
    if (status != STATUS_OK)
        return;
    measure_plan(run);
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK)
            return;
    run->error = run->outputs[0].error;
}

void job_run_start_clock(struct job_run *run)
{
    if (atomic_load(&run->timing.deadline_ns) == CLOCK_STANDS)
        atomic_store(&run->timing.deadline_ns, clock_now_ns() + run->timing.left_ns);
}

/* Between read and decode the job waits for others. One that found no room has not begun. */
static void stop_clock(struct job_run *run)
{
    uint64_t now_ns = clock_now_ns(), deadline_ns = atomic_load(&run->timing.deadline_ns);
    bool began = !job_run_lacks_room(run);
    if (now_ns >= deadline_ns && began)
        job_run_set_late(run);
    if (began)
        run->timing.left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    atomic_store(&run->timing.deadline_ns, CLOCK_STANDS);
}

/* Builds the plan again, for what there is memory now. Outputs that failed the first time are left
 * out from the start; the others must come to the same. */
static void restore_plan(struct job_run *run)
{
    struct plan measured = run->plan;
    struct plan_target targets[JOB_OUTPUTS_MAX];
    if (job_unpack(&run->job, &run->error) != STATUS_OK)
        return;
    size_t count = take_targets(run, targets);
    enum status status = plan_build(&run->plan, &measured.source, targets, count,
                                    &run->bounds.plan, &run->error);
    job_repack(&run->job);
    if (status != STATUS_OK)
        return;
    if (run->plan.input_bytes != measured.input_bytes ||
        run->plan.output_bytes != measured.output_bytes ||
        run->plan.scratch_bytes != measured.scratch_bytes ||
        plan_bytes(&run->plan) > run->plan_bytes)
        error_set(&run->error, STATUS_INTERNAL, "the plan is not the one that was admitted");
}

/* Before the job is admitted little of what it will need may lie on the heap. */
static void drop_large(struct job_run *run)
{
    if (run->error.status != STATUS_OK) {
        job_run_drop_plan(run);
        return;
    }
    if (run->info.icc_bytes > ICC_KEPT_BYTES)
        image_info_drop_icc(&run->info);
    if (run->plan_bytes > PLAN_KEPT_BYTES)
        plan_drop_passes(&run->plan);
}

/* The earlier of the job's deadline and the given time from now. */
static uint64_t deadline_within(const struct job_run *run, double seconds)
{
    uint64_t own = clock_after_s(clock_now_ns(), seconds);
    return own < run->timing.deadline_ns ? own : run->timing.deadline_ns;
}

/* What the decoder says of its time is about the job's where that was the shorter one. */
static void take_codec_error(struct job_run *run, const struct error *error)
{
    if (error->status == STATUS_DECODE_LIMIT && clock_now_ns() >= run->timing.deadline_ns)
        error_set(&run->error, STATUS_TIMEOUT, "the job did not end within its %g s: %s",
                  run->job.timeout_s, error->text);
    else
        run->error = *error;
}

static void read_and_probe(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    if (run->input.loaded)
        read_loaded(run);
    else
        read_path(run);
    if (!run->input.file.memory || run->error.status != STATUS_OK)
        return;
    run->bounds.codec.deadline_ns = deadline_within(run, run->bounds.decode_timeout_s);
    if (codec_probe(tools->codec, run->input.file.memory, run->input.bytes, &run->bounds.codec,
                    &run->info, &error) == STATUS_OK)
        job_run_build_plan(run);
    else
        take_codec_error(run, &error);
    drop_large(run);
}

void job_run_read(struct job_run *run, struct worker_tools *tools)
{
    read_and_probe(run, tools);
    stop_clock(run);
}

/* ---- decode --------------------------------------------------------------------------------- */

/* What was too large to keep before the job was admitted. */
static void restore_large(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    if (run->plan_bytes > PLAN_KEPT_BYTES)
        restore_plan(run);
    if (codec_read_icc(tools->codec, run->input.file.memory, run->input.bytes, &run->bounds.codec,
                       &run->info, &error) != STATUS_OK)
        take_codec_error(run, &error);
}

void job_run_decode(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    run->bounds.codec.deadline_ns = deadline_within(run, run->bounds.decode_timeout_s);
    restore_large(run, tools);
    if (run->error.status != STATUS_OK)
        return;
    struct image image = plan_input(&run->plan, run->reserved.memory.input);
    plan_put_constants(&run->plan, run->reserved.memory.input);
    if (codec_decode(tools->codec, run->input.file.memory, run->input.bytes, &run->info,
                     &run->decode, &run->bounds.codec, &image, &error) != STATUS_OK)
        take_codec_error(run, &error);
}

/* ---- compute -------------------------------------------------------------------------------- */

void job_run_compute(struct job_run *run, struct worker_tools *tools)
{
    (void)tools;
    engine_run(run->pipeline->parts.engine, &run->engine_task);
    if (run->engine_task.error.status != STATUS_OK)
        run->error = run->engine_task.error;
}

/* ---- encode --------------------------------------------------------------------------------- */

struct path_sink {
    struct codec_sink sink;
    struct files_output file;
    struct disk *disk;
    uint64_t written; /* bytes that are in the file */
};

static enum status flush_to_file(struct codec_sink *sink, size_t used, struct error *error)
{
    struct path_sink *self = container_of(sink, struct path_sink, sink);
    enum status status = files_output_write(&self->file, sink->buffer, used, error);
    if (status == STATUS_OK) {
        self->written += used;
        disk_add_bytes(self->disk, used);
    }
    return status;
}

struct memory_sink {
    struct codec_sink sink;
    struct job_run *run;
    struct queue_value *value;
    size_t capacity;
    size_t others; /* bytes of the job's other keys */
};

/* Room in the budget for so many bytes of keys in all. */
static enum status need_room(struct job_run *run, size_t bytes, struct error *error)
{
    size_t needed = bytes + run->values_bytes, room = run->reserved.results_room;
    if (bytes > KEY_OUTPUTS_BYTES_MAX)
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the job's keys have more than %llu bytes, which is all they may hold",
                         KEY_OUTPUTS_BYTES_MAX);
    if (needed <= room || admission_extend(run, needed - room))
        return STATUS_OK;
    size_t most = pipeline_codec_usage(run->pipeline).budget;
    if (needed > most)
        return error_set(error, STATUS_OVER_BUDGET,
                         "the job's keys need more than %zu bytes; three eighths of host_bytes, "
                         "%zu, is all there is", bytes, most);
    return error_set(error, STATUS_OUT_OF_MEMORY,
                     "the job's keys need more than the %zu bytes that were reserved for them, and "
                     "host_bytes has no more at the moment", room);
}

static enum status flush_to_memory(struct codec_sink *sink, size_t used, struct error *error)
{
    struct memory_sink *self = container_of(sink, struct memory_sink, sink);
    struct queue_value *value = self->value;
    size_t needed = value->bytes + used;
    if (need_room(self->run, needed + self->others, error) != STATUS_OK)
        return error->status;
    if (needed > self->capacity) {
        size_t capacity = self->capacity * 2 > needed ? self->capacity * 2 : needed;
        uint8_t *grown = realloc(value->value, capacity);
        if (!grown)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an output of %zu bytes",
                             needed);
        value->value = grown;
        self->capacity = capacity;
    }
    memcpy(value->value + value->bytes, sink->buffer, used);
    value->bytes = needed;
    return STATUS_OK;
}

/* Gives back what the buffer grew in advance. */
static void end_value(struct memory_sink *sink)
{
    uint8_t *shrunk = sink->value->bytes < sink->capacity
                          ? realloc(sink->value->value, sink->value->bytes) : NULL;
    if (shrunk)
        sink->value->value = shrunk;
}

static struct encode_request encode_request(const struct job_run *run, size_t index)
{
    const struct job_output *wanted = &run->job.outputs[index];
    return (struct encode_request){
        .format = run->outputs[index].format,
        .encoder = wanted->encoder,
        .icc = run->info.icc,
        .icc_bytes = run->info.icc_bytes,
        .deadline_ns = run->timing.deadline_ns,
    };
}

struct placing {
    const struct job_run *run;
    size_t index; /* of the output */
};

/* Two paths may lead to one file: through roots that lie in each other, hard links, mounts, or
 * names that a filesystem does not tell apart. Earlier outputs are in their places by now. */
static enum status may_replace(void *context, const struct files_identity *target,
                               struct error *error)
{
    const struct placing *placing = context;
    const struct job_run *run = placing->run;
    const char *path = run->job.outputs[placing->index].place.path;
    if (files_same(target, &run->input.identity))
        return error_set(error, STATUS_BAD_JOB, "the output \"%.100s\" is the file of the input, "
                         "\"%.100s\"; give it another name", path, run->job.input.path);
    for (size_t i = 0; i < placing->index; i++)
        if (run->outputs[i].placed && files_same(target, &run->outputs[i].identity))
            return error_set(error, STATUS_BAD_JOB, "the output \"%.100s\" is the file of another "
                             "output, \"%.100s\"; give it another name", path,
                             run->job.outputs[i].place.path);
    return STATUS_OK;
}

/* true: it could not be written, and the disk may be why. */
static bool encode_to_path(struct job_run *run, size_t index, const struct image *image,
                           struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    struct encode_request request = encode_request(run, index);
    struct disk *disk = &run->pipeline->disk;
    struct path_sink sink = {
        .sink = {.buffer = tools->sink, .capacity = SINK_BYTES, .flush = flush_to_file},
        .disk = disk};
    disk_begin_output(disk);
    enum status status =
        files_output_begin(run->pipeline->parts.files, &sink.file,
                           run->job.outputs[index].place.path, run->number,
                           run->fetch, index, &output->error);
    if (status == STATUS_OK)
        status = codec_encode(tools->codec, image, &request, &sink.sink, &output->error);
    if (status == STATUS_OK)
        status = files_output_finish(&sink.file, run->bounds.sync, &output->error);
    enum outcome outcome = atomic_load(&run->outcome);
    if (status == STATUS_OK && outcome == OUTCOME_CANCELLED)
        status = error_set(&output->error, STATUS_CANCELLED, "the job was cancelled before this "
                           "output was in its place");
    /* Another daemon may be at this job by now, or it was answered: leave its output alone. */
    if (status == STATUS_OK && outcome == OUTCOME_OPEN)
        output->placed =
            files_output_place(&sink.file, run->bounds.sync, may_replace,
                               &(struct placing){.run = run, .index = index},
                               &output->error) == STATUS_OK;
    output->identity = sink.file.identity;
    bool suspects_disk = disk_may_be_why(sink.file.reason);
    if (suspects_disk)
        disk_lack_room(disk);
    files_output_end(&sink.file);
    disk_end_output(disk, sink.written);
    output->bytes = sink.sink.total;
    return suspects_disk;
}

static void encode_to_key(struct job_run *run, size_t index, const struct image *image,
                          struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    struct encode_request request = encode_request(run, index);
    output->value = (struct queue_value){.key = run->job.outputs[index].place.key,
                                         .ttl_s = run->job.outputs[index].ttl_s};
    struct memory_sink sink = {
        .sink = {.buffer = tools->sink, .capacity = SINK_BYTES, .flush = flush_to_memory},
        .run = run,
        .value = &output->value};
    for (size_t i = 0; i < index; i++)
        sink.others += run->outputs[i].value.bytes;
    if (codec_encode(tools->codec, image, &request, &sink.sink, &output->error) == STATUS_OK) {
        end_value(&sink);
    } else {
        free(output->value.value);
        output->value = (struct queue_value){0};
    }
    output->bytes = sink.sink.total;
}

static void take_values(struct job_run *run, struct job_run_output *output)
{
    if (!plan_has_values(&run->plan, output->variant))
        return;
    output->values = plan_values(&run->plan, output->variant, run->reserved.memory.output);
    if (!output->values)
        error_set(&output->error, STATUS_OUT_OF_MEMORY, "no memory for an output's values");
}

/* What stays of the job until Redis has acknowledged it. */
static void measure_results(struct job_run *run)
{
    size_t bytes = run->values_bytes, most = run->reserved.lane_bytes;
    for (size_t i = 0; i < run->job.output_count; i++)
        bytes += run->outputs[i].value.bytes;
    run->reserved.results_bytes = bytes < most ? bytes : most;
}

/* The job's error is that of its first output which is worth trying again, or else of the first
 * that failed: what can be had of an output must not depend on what is wrong with another. */
static void judge(struct job_run *run)
{
    const struct error *first = NULL;
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct error *error = &run->outputs[i].error;
        if (error->status == STATUS_OK)
            continue;
        if (!first || (status_retryable(error->status) && !status_retryable(first->status)))
            first = error;
    }
    if (first)
        run->error = *first;
}

/* Returns as encode_to_path. */
static bool encode_output(struct job_run *run, size_t index, struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    if (output->error.status != STATUS_OK)
        return false;
    take_values(run, output);
    if (output->error.status != STATUS_OK || !output->format)
        return false;
    struct image image = plan_result(&run->plan, output->variant, run->reserved.memory.input,
                                     run->reserved.memory.output);
    output->width = image.width;
    output->height = image.height;
    if (run->job.outputs[index].place.path)
        return encode_to_path(run, index, &image, tools);
    encode_to_key(run, index, &image, tools);
    return false;
}

void job_run_encode(struct job_run *run, struct worker_tools *tools)
{
    bool suspects_disk = false;
    for (size_t i = 0; i < run->job.output_count && job_run_is_open(run); i++)
        suspects_disk |= encode_output(run, i, tools);
    measure_results(run);
    judge(run);
    bool works = !suspects_disk || disk_try(&run->pipeline->disk, tools->sink, &run->disk_error);
    (void)works; /* kept in run->disk_error; if the disk works, the error is the job's own */
}
