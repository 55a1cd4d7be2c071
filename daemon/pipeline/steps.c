/* What a worker does with a job in each stage. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/pipeline/pipeline_impl.h"
#include "daemon/pipeline/work.h"

/* ---- read ----------------------------------------------------------------------------------- */

/* Room for the file in the file pool, and for the byte that files_read_input wants beside it.
 * false: the job waits for room, or has failed. */
static bool take_room(struct work *work)
{
    struct pool *pool = work->pipeline->file_pool;
    uint64_t bytes = work->file_bytes + 1;
    bool exhausted = false;
    if (!pool_fits(pool, bytes)) {
        error_set(&work->error, STATUS_OVER_BUDGET,
                  "the input needs %" PRIu64 " bytes; half of host_bytes, %zu, is all there is",
                  bytes, pool_usage(pool).budget);
        return false;
    }
    if (pool_take(pool, bytes, &work->file, &exhausted))
        return true;
    if (exhausted)
        error_set(&work->error, STATUS_OUT_OF_MEMORY, "no memory for an input of %" PRIu64 " bytes",
                  work->file_bytes);
    else
        work->again = true;
    return false;
}

static void read_path(struct work *work)
{
    const char *path = work->job.input.path;
    struct files_input input;
    if (files_open_input(work->pipeline->parts.files, path, work->input_bytes_max, &input,
                         &work->error) != STATUS_OK)
        return;
    work->file_bytes = input.size;
    work->input_identity = input.identity;
    if (take_room(work)) {
        enum status status =
            files_read_input(input.fd, path, work->file.memory, work->file_bytes, &work->error);
        (void)status; /* kept in work->error */
    }
    close(input.fd);
}

static void read_loaded(struct work *work)
{
    if (!take_room(work))
        return;
    memcpy(work->file.memory, work->loaded, work->file_bytes);
    free(work->loaded);
    work->loaded = NULL;
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
static size_t take_targets(struct work *work, struct plan_target *targets)
{
    size_t count = 0;
    for (size_t i = 0; i < work->job.output_count; i++) {
        struct work_output *output = &work->outputs[i];
        output->format = output_format(&work->job.outputs[i], &work->info);
        if (output->error.status != STATUS_OK ||
            (output->format &&
             work_check_keys(work, i, output->format, &output->error) != STATUS_OK))
            continue;
        output->variant = count;
        targets[count++] = (struct plan_target){
            .ops = work->job.outputs[i].ops,
            .opaque = output->format && !output->format->alpha,
            .no_picture = !output->format,
            .number = work->job.listed ? (unsigned)i + 1 : 0,
            .error = &output->error,
        };
    }
    return count;
}

/* Chooses how the input is decoded; the source is what comes of that. No output's pixels may
 * depend on which others there are: a smaller decode is for the job that can have but one. */
static struct plan_source choose_decode(struct work *work, const struct plan_target *targets,
                                        size_t count)
{
    const struct image_info *info = &work->info;
    struct decode_request *decode = &work->decode;
    struct plan_source source = {
        .width = info->width,
        .height = info->height,
        .orientation = work->job.orient ? info->orientation : 1,
    };
    memcpy(source.background, work->job.background, sizeof source.background);
    decode->as = info->ycc ? plan_decode_as(targets, count) : DECODE_COLOUR;
    decode->eighths = info->scales && !work->job.listed ? plan_eighths(&source, targets[0].ops)
                                                        : DECODE_EIGHTHS;
    source.channels = decode->as == DECODE_LUMA ? 1 : info->channels;
    source.ycc = decode->as == DECODE_YCC;
    source.eighths = decode->eighths;
    return source;
}

/* What the plan and its values take of the heap. */
static void measure_plan(struct work *work)
{
    work->plan_bytes = plan_bytes(&work->plan);
    work->values_bytes = 0;
    for (size_t i = 0; i < work->job.output_count; i++)
        if (work->outputs[i].error.status == STATUS_OK)
            work->values_bytes += plan_values_bytes(&work->plan, work->outputs[i].variant);
}

void work_build_plan(struct work *work)
{
    struct plan_target targets[JOB_OUTPUTS_MAX];
    if (job_unpack(&work->job, &work->error) != STATUS_OK)
        return;
    size_t count = take_targets(work, targets);
    if (count == 0) {
        work->error = work->outputs[0].error;
        job_repack(&work->job);
        return;
    }
    struct plan_source source = choose_decode(work, targets, count);
    enum status status =
        plan_build(&work->plan, &source, targets, count, &work->plan_limits, &work->error);
    job_repack(&work->job);
    if (status != STATUS_OK)
        return;
    measure_plan(work);
    for (size_t i = 0; i < work->job.output_count; i++)
        if (work->outputs[i].error.status == STATUS_OK)
            return;
    work->error = work->outputs[0].error;
}

void work_start_clock(struct work *work)
{
    if (atomic_load(&work->deadline_ns) == CLOCK_STANDS)
        atomic_store(&work->deadline_ns, clock_now_ns() + work->left_ns);
}

/* Between read and decode the work waits for others. One that found no room has not begun. */
static void stop_clock(struct work *work)
{
    uint64_t now_ns = clock_now_ns(), deadline_ns = atomic_load(&work->deadline_ns);
    if (now_ns >= deadline_ns && !work->again)
        work_set_late(work);
    if (!work->again)
        work->left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    atomic_store(&work->deadline_ns, CLOCK_STANDS);
}

/* Builds the plan again, for what there is memory now. Outputs that failed the first time are left
 * out from the start; the others must come to the same. */
static void restore_plan(struct work *work)
{
    struct plan measured = work->plan;
    struct plan_target targets[JOB_OUTPUTS_MAX];
    if (job_unpack(&work->job, &work->error) != STATUS_OK)
        return;
    size_t count = take_targets(work, targets);
    enum status status = plan_build(&work->plan, &measured.source, targets, count,
                                    &work->plan_limits, &work->error);
    job_repack(&work->job);
    if (status != STATUS_OK)
        return;
    if (work->plan.input_bytes != measured.input_bytes ||
        work->plan.output_bytes != measured.output_bytes ||
        work->plan.scratch_bytes != measured.scratch_bytes ||
        plan_bytes(&work->plan) > work->plan_bytes)
        error_set(&work->error, STATUS_INTERNAL, "the plan is not the one that was admitted");
}

/* Before the job is admitted little of what it will need may lie on the heap. */
static void drop_large(struct work *work)
{
    if (work->error.status != STATUS_OK) {
        work_drop_plan(work);
        return;
    }
    if (work->info.icc_bytes > ICC_KEPT_BYTES)
        image_info_drop_icc(&work->info);
    work->plan_dropped = work->plan_bytes > PLAN_KEPT_BYTES;
    if (work->plan_dropped)
        plan_drop_passes(&work->plan);
}

void work_drop_plan(struct work *work)
{
    image_info_drop_icc(&work->info);
    plan_drop_passes(&work->plan);
}

/* The earlier of the job's deadline and the given time from now. */
static uint64_t deadline_within(const struct work *work, double seconds)
{
    uint64_t own = clock_after_s(clock_now_ns(), seconds);
    return own < work->deadline_ns ? own : work->deadline_ns;
}

/* What the decoder says of its time is about the job's where that was the shorter one. */
static void take_codec_error(struct work *work, const struct error *error)
{
    if (error->status == STATUS_DECODE_LIMIT && clock_now_ns() >= work->deadline_ns)
        error_set(&work->error, STATUS_TIMEOUT, "the job did not end within its %g s: %s",
                  work->job.timeout_s, error->text);
    else
        work->error = *error;
}

static void read_and_probe(struct work *work, struct worker_tools *tools)
{
    struct error error = {0};
    work->again = false;
    if (work->loaded)
        read_loaded(work);
    else
        read_path(work);
    if (work->again || work->error.status != STATUS_OK)
        return;
    work->limits.deadline_ns = deadline_within(work, work->decode_timeout_s);
    if (codec_probe(tools->codec, work->file.memory, work->file_bytes, &work->limits, &work->info,
                    &error) == STATUS_OK)
        work_build_plan(work);
    else
        take_codec_error(work, &error);
    drop_large(work);
}

void work_read(struct work *work, struct worker_tools *tools)
{
    read_and_probe(work, tools);
    stop_clock(work);
}

/* ---- decode --------------------------------------------------------------------------------- */

/* What was too large to keep before the job was admitted. */
static void restore_large(struct work *work, struct worker_tools *tools)
{
    struct error error = {0};
    if (work->plan_dropped)
        restore_plan(work);
    if (codec_read_icc(tools->codec, work->file.memory, work->file_bytes, &work->limits,
                       &work->info, &error) != STATUS_OK)
        take_codec_error(work, &error);
}

void work_decode(struct work *work, struct worker_tools *tools)
{
    struct error error = {0};
    work->limits.deadline_ns = deadline_within(work, work->decode_timeout_s);
    restore_large(work, tools);
    if (work->error.status != STATUS_OK)
        return;
    struct image image = plan_input(&work->plan, work->memory.input);
    plan_put_constants(&work->plan, work->memory.input);
    if (codec_decode(tools->codec, work->file.memory, work->file_bytes, &work->info,
                     &work->decode, &work->limits, &image, &error) != STATUS_OK)
        take_codec_error(work, &error);
}

/* ---- compute -------------------------------------------------------------------------------- */

void work_compute(struct work *work, struct worker_tools *tools)
{
    (void)tools;
    engine_run(work->pipeline->parts.engine, &work->task);
    if (work->task.error.status != STATUS_OK)
        work->error = work->task.error;
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
    struct work *work;
    struct queue_value *value;
    size_t capacity;
    size_t others; /* bytes of the job's other keys */
};

/* Room in the budget for so many bytes of keys in all. */
static enum status need_room(struct work *work, size_t bytes, struct error *error)
{
    size_t needed = bytes + work->values_bytes;
    if (bytes > KEY_OUTPUTS_BYTES_MAX)
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the job's keys have more than %llu bytes, which is all they may hold",
                         KEY_OUTPUTS_BYTES_MAX);
    if (needed <= work->results_room || admission_extend(work, needed - work->results_room))
        return STATUS_OK;
    size_t most = pipeline_codec_usage(work->pipeline).budget;
    if (needed > most)
        return error_set(error, STATUS_OVER_BUDGET,
                         "the job's keys need more than %zu bytes; three eighths of host_bytes, "
                         "%zu, is all there is", bytes, most);
    return error_set(error, STATUS_OUT_OF_MEMORY,
                     "the job's keys need more than the %zu bytes that were reserved for them, and "
                     "host_bytes has no more at the moment", work->results_room);
}

static enum status flush_to_memory(struct codec_sink *sink, size_t used, struct error *error)
{
    struct memory_sink *self = container_of(sink, struct memory_sink, sink);
    struct queue_value *value = self->value;
    size_t needed = value->bytes + used;
    if (need_room(self->work, needed + self->others, error) != STATUS_OK)
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

static struct encode_request encode_request(const struct work *work, size_t index)
{
    const struct job_output *wanted = &work->job.outputs[index];
    return (struct encode_request){
        .format = work->outputs[index].format,
        .encoder = wanted->encoder,
        .icc = work->info.icc,
        .icc_bytes = work->info.icc_bytes,
        .deadline_ns = work->deadline_ns,
    };
}

struct placing {
    const struct work *work;
    size_t index; /* of the output */
};

/* Two paths may lead to one file: through roots that lie in each other, hard links, mounts, or
 * names that a filesystem does not tell apart. Earlier outputs are in their places by now. */
static enum status may_replace(void *context, const struct files_identity *target,
                               struct error *error)
{
    const struct placing *placing = context;
    const struct work *work = placing->work;
    const char *path = work->job.outputs[placing->index].place.path;
    if (files_same(target, &work->input_identity))
        return error_set(error, STATUS_BAD_JOB, "the output \"%.100s\" is the file of the input, "
                         "\"%.100s\"; give it another name", path, work->job.input.path);
    for (size_t i = 0; i < placing->index; i++)
        if (work->outputs[i].placed && files_same(target, &work->outputs[i].identity))
            return error_set(error, STATUS_BAD_JOB, "the output \"%.100s\" is the file of another "
                             "output, \"%.100s\"; give it another name", path,
                             work->job.outputs[i].place.path);
    return STATUS_OK;
}

static void encode_to_path(struct work *work, size_t index, const struct image *image,
                           struct worker_tools *tools)
{
    struct work_output *output = &work->outputs[index];
    struct encode_request request = encode_request(work, index);
    struct disk *disk = &work->pipeline->disk;
    struct path_sink sink = {
        .sink = {.buffer = tools->sink, .capacity = SINK_BYTES, .flush = flush_to_file},
        .disk = disk};
    disk_begin_output(disk);
    enum status status =
        files_output_begin(work->pipeline->parts.files, &sink.file,
                           work->job.outputs[index].place.path, work->number,
                           work->fetch, index, &output->error);
    if (status == STATUS_OK)
        status = codec_encode(tools->codec, image, &request, &sink.sink, &output->error);
    if (status == STATUS_OK)
        status = files_output_finish(&sink.file, work->sync, &output->error);
    if (status == STATUS_OK && atomic_load(&work->cancelled))
        status = error_set(&output->error, STATUS_CANCELLED, "the job was cancelled before this "
                           "output was in its place");
    /* Another daemon may be at this job by now, or it was answered: leave its output alone. */
    if (status == STATUS_OK && !atomic_load(&work->lost))
        output->placed =
            files_output_place(&sink.file, work->sync, may_replace,
                               &(struct placing){.work = work, .index = index},
                               &output->error) == STATUS_OK;
    output->identity = sink.file.identity;
    if (disk_may_be_why(sink.file.reason)) {
        work->suspects_disk = true;
        disk_lack_room(disk);
    }
    files_output_end(&sink.file);
    disk_end_output(disk, sink.written);
    output->bytes = sink.sink.total;
}

static void encode_to_key(struct work *work, size_t index, const struct image *image,
                          struct worker_tools *tools)
{
    struct work_output *output = &work->outputs[index];
    struct encode_request request = encode_request(work, index);
    output->value = (struct queue_value){.key = work->job.outputs[index].place.key,
                                         .ttl_s = work->job.outputs[index].ttl_s};
    struct memory_sink sink = {
        .sink = {.buffer = tools->sink, .capacity = SINK_BYTES, .flush = flush_to_memory},
        .work = work,
        .value = &output->value};
    for (size_t i = 0; i < index; i++)
        sink.others += work->outputs[i].value.bytes;
    if (codec_encode(tools->codec, image, &request, &sink.sink, &output->error) == STATUS_OK) {
        end_value(&sink);
    } else {
        free(output->value.value);
        output->value = (struct queue_value){0};
    }
    output->bytes = sink.sink.total;
}

static void take_values(struct work *work, struct work_output *output)
{
    if (!plan_has_values(&work->plan, output->variant))
        return;
    output->values = plan_values(&work->plan, output->variant, work->memory.output);
    if (!output->values)
        error_set(&output->error, STATUS_OUT_OF_MEMORY, "no memory for an output's values");
}

/* What stays of the job until Redis has acknowledged it. */
static void measure_results(struct work *work)
{
    size_t bytes = work->values_bytes;
    for (size_t i = 0; i < work->job.output_count; i++)
        bytes += work->outputs[i].value.bytes;
    work->results_bytes = bytes < work->lane_bytes ? bytes : work->lane_bytes;
}

/* The job's error is that of its first output which is worth trying again, or else of the first
 * that failed: what can be had of an output must not depend on what is wrong with another. */
static void judge(struct work *work)
{
    const struct error *first = NULL;
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct error *error = &work->outputs[i].error;
        if (error->status == STATUS_OK)
            continue;
        if (!first || (status_retryable(error->status) && !status_retryable(first->status)))
            first = error;
    }
    if (first)
        work->error = *first;
}

void work_encode(struct work *work, struct worker_tools *tools)
{
    for (size_t i = 0; i < work->job.output_count && !atomic_load(&work->lost) &&
                       !atomic_load(&work->cancelled); i++) {
        struct work_output *output = &work->outputs[i];
        if (output->error.status != STATUS_OK)
            continue;
        take_values(work, output);
        if (output->error.status != STATUS_OK || !output->format)
            continue;
        struct image image = plan_result(&work->plan, output->variant, work->memory.input,
                                         work->memory.output);
        output->width = image.width;
        output->height = image.height;
        if (work->job.outputs[i].place.path)
            encode_to_path(work, i, &image, tools);
        else
            encode_to_key(work, i, &image, tools);
    }
    measure_results(work);
    judge(work);
    if (work->suspects_disk) /* if it can be written, it is the job's own error */
        work->suspects_disk = !disk_try(&work->pipeline->disk, tools->sink, &work->disk_error);
}
