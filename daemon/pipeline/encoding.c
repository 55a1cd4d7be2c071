#include "daemon/pipeline/encoding.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/quality.h"
#include "codecs/ssim_quality.h"
#include "codecs/tensor.h"
#include "conf/clock.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "daemon/workers/split.h"
#include "gpu/plan/plan_values.h"

/* ---- to a file ------------------------------------------------------------------------------ */

struct path_sink {
    struct codec_sink sink;
    struct files_output file;
    struct workers *workers;
    struct disk *disk;
    int64_t occupied; /* its part of disk->occupied */
    size_t refused;   /* bytes of the write that failed */
};

static enum status flush_to_file(struct codec_sink *sink, size_t used, struct error *error)
{
    struct path_sink *self = container_of(sink, struct path_sink, sink);
    enum status status = split_write(self->workers, &self->file, sink->buffer, used, error);
    if (status == STATUS_OK) {
        self->occupied += (int64_t)used;
        disk_occupy(self->disk, (int64_t)used);
    } else {
        self->refused = used;
    }
    return status;
}

/* An encoder stops at the job's deadline, but does not know its name. */
static enum status name_timeout(const struct job_run *run, struct error *error)
{
    struct error late = *error;
    if (late.status != STATUS_TIMEOUT)
        return late.status;
    error_clear(error);
    return error_set(error, STATUS_TIMEOUT, "the job exceeded its timeout_s of %g s: %s",
                     run->job.timeout_s, late.text);
}

/* Finds the quality of a file with a given similarity, of at most a given size. */
static enum status find_quality(struct job_run *run, size_t index, const struct image *image,
                                struct encode_request *request, const struct codec_sink *sink,
                                struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    struct encoder_settings *settings = &request->encoder;
    struct ssim_trial found = {0};
    if (settings->ssim > 0 && codec_find_ssim(tools->codec, image, request, sink->buffer,
                                              sink->capacity, &found, &output->error) != STATUS_OK)
        return output->error.status;
    settings->quality = output->quality = found.quality > 0 ? found.quality : settings->quality;
    if (settings->max_bytes > 0 &&
        codec_find_quality(tools->codec, image, request, sink->buffer, sink->capacity,
                           &output->quality, &output->error) != STATUS_OK)
        return output->error.status;
    settings->quality = output->quality;
    if (settings->ssim > 0 && settings->quality < found.quality &&
        codec_measure_ssim(tools->codec, image, request, sink->buffer, sink->capacity, &found,
                           &output->error) != STATUS_OK)
        return output->error.status;
    output->ssim = found.ssim;
    return STATUS_OK;
}

static enum status count_only(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)sink, (void)used, (void)error; /* codec_encode counts the bytes in sink->total */
    return STATUS_OK;
}

/* A file of one of several formats. */
struct candidate {
    struct encode_request request; /* without format: none */
    uint64_t bytes;
    int quality, ssim;
};

/* Files that reach the similarity before others; then the smaller file, or the more similar one. */
static bool is_better(const struct candidate *one, const struct candidate *other)
{
    int wanted = one->request.encoder.ssim;
    bool reaches = one->ssim >= wanted;
    if (!other->request.format || reaches != (other->ssim >= wanted))
        return !other->request.format || reaches;
    return reaches ? one->bytes < other->bytes : one->ssim > other->ssim;
}

/* Says how long the worker does not look at the deadline. */
static void note_blind(struct job_run *run, size_t index, const struct encode_request *request)
{
    const struct plan_variant *variant = &run->plan.variants[run->outputs[index].variant];
    atomic_store(&run->timing.blind_ns,
                 codec_encoder_blind_ns(request->format, variant->width, variant->height,
                                        variant->channels, &request->encoder));
}

/* Finds the quality in a format of the list, and the size of the file. */
static enum status try_format(struct job_run *run, size_t index, const struct image *image,
                              const struct format *format, const struct codec_sink *sink,
                              struct worker_tools *tools, struct candidate *one)
{
    struct job_run_output *output = &run->outputs[index];
    struct codec_sink counter = {
        .buffer = sink->buffer, .capacity = sink->capacity, .flush = count_only};
    one->request.format = format;
    one->request.encoder = job_outputs_settings(&run->job.outputs[index], format);
    note_blind(run, index, &one->request);
    if (find_quality(run, index, image, &one->request, sink, tools) != STATUS_OK ||
        codec_encode(tools->codec, image, &one->request, &counter, &output->error) != STATUS_OK)
        return output->error.status;
    one->bytes = counter.total;
    one->quality = output->quality;
    one->ssim = output->ssim;
    return STATUS_OK;
}

/* Chooses the format of the list with the smallest file. A format that fails is left out. */
static enum status choose_format(struct job_run *run, size_t index, const struct image *image,
                                 struct encode_request *request, const struct codec_sink *sink,
                                 struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    const struct job_output *wanted = &run->job.outputs[index];
    struct candidate best = {.request = {.format = NULL}};
    const struct format *format = NULL;
    struct error first = {0};
    while ((format = job_outputs_next_format(wanted, format, image->width, image->height,
                                             image->channels))) {
        struct candidate one = {.request = *request};
        enum status status = try_format(run, index, image, format, sink, tools, &one);
        if (status == STATUS_OK && is_better(&one, &best))
            best = one;
        if (status != STATUS_OK && status != STATUS_ENCODE_FAILED)
            return status;
        if (first.status == STATUS_OK)
            first = output->error;
        output->error = (struct error){0};
    }
    if (!best.request.format && first.status != STATUS_OK) {
        output->error = first;
        return first.status;
    }
    if (!best.request.format)
        return error_set(&output->error, STATUS_IMAGE_TOO_LARGE,
                         "the result is %u x %u pixels with %u channels, which no format of the "
                         "list holds",
                         image->width, image->height, image->channels);
    *request = best.request;
    output->format = best.request.format;
    output->quality = best.quality;
    output->ssim = best.ssim;
    note_blind(run, index, request);
    return STATUS_OK;
}

static enum status encode_on_host(struct job_run *run, size_t index, struct codec_sink *sink,
                                  struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    struct encode_request request = job_outputs_encode_request(run, index);
    request.memory_max = run->reserved.opaque_only ? admission_encoder_bytes(run) : 0;
    struct image image = plan_result(&run->plan, output->variant, run->reserved.memory.input,
                                     run->reserved.memory.output);
    bool searches = request.encoder.max_bytes > 0 || request.encoder.ssim > 0;
    bool chooses = run->job.outputs[index].formats != 0;
    request.memory_max = run->reserved.opaque_only ? admission_encoder_bytes(run) : 0;
    note_blind(run, index, &request);
    if (searches && (chooses ? choose_format : find_quality)(run, index, &image, &request, sink,
                                                             tools) != STATUS_OK)
        return name_timeout(run, &output->error);
    if (codec_encode(tools->codec, &image, &request, sink, &output->error) != STATUS_OK)
        return name_timeout(run, &output->error);
    return STATUS_OK;
}

static enum status recompress(struct job_run *run, size_t index, struct codec_sink *sink,
                              struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    const struct encode_request request = {.format = output->format,
                                           .encoder = run->job.outputs[index].encoder,
                                           .deadline_ns = run->timing.deadline_ns,
                                           .caller = run->bounds.codec.caller};
    (void)!codec_recompress(tools->codec, run->input.seen, run->input.seen_bytes, &run->info,
                            &request, sink, &output->error);
    return name_timeout(run, &output->error);
}

/* Bytes of a tensor between two looks at the deadline: a slow disk takes a second. */
#define TENSOR_PIECE_BYTES (64 * MIB)

/* Writes the header before the tensor, and passes both on. */
static enum status write_tensor(struct job_run *run, size_t index, struct codec_sink *sink)
{
    struct job_run_output *output = &run->outputs[index];
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    bool is_part = run->job.outputs[index].pack == JOB_ARRAY; /* of an array with one header */
    size_t header = is_part ? 0 : tensor_header_bytes(output->format);
    size_t left = header + variant->tensor_bytes;
    uint8_t *file = plan_tensor(&run->plan, output->variant, run->reserved.memory.output) - header;
    static_assert(NPY_HEADER_BYTES <= BUFFER_ALIGN, "a header must have room before its tensor");
    if (!is_part)
        tensor_write_header(output->format, &run->job.outputs[index].encoder, variant->width,
                            variant->height, variant->channels, file);
    for (sink->buffer = file; left > 0; sink->buffer += sink->capacity, left -= sink->capacity) {
        sink->capacity = left < TENSOR_PIECE_BYTES ? left : TENSOR_PIECE_BYTES;
        if (clock_now_ns() >= atomic_load(&run->timing.deadline_ns))
            job_run_set_late(run, &output->error);
        else if (sink->flush(sink, sink->capacity, &output->error) == STATUS_OK)
            sink->total += sink->capacity;
        if (output->error.status != STATUS_OK)
            break;
    }
    return output->error.status;
}

/* Encodes the variant, or passes on the file that the device has encoded. */
static enum status write_encoded(struct job_run *run, size_t index, struct codec_sink *sink,
                                 struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    uint8_t *results = run->reserved.memory.output;
    if (output->format->tensor)
        return write_tensor(run, index, sink);
    if (run->job.outputs[index].encoder.recompress)
        return recompress(run, index, sink, tools);
    if (output->encoder == CODEC_ON_HOST) {
        enum status status = encode_on_host(run, index, sink, tools);
        atomic_store(&run->timing.blind_ns, 0);
        return status;
    }
    size_t bytes;
    const struct encoder_settings *settings = &run->job.outputs[index].encoder;
    const struct plan_report *report = plan_report(&run->plan, results);
    if (settings->max_bytes > 0 || settings->ssim > 0)
        output->quality = (int)report->quality[output->variant];
    output->ssim = (int)report->ssim[output->variant];
    sink->buffer = (uint8_t *)plan_encoded(&run->plan, output->variant, results, &bytes);
    sink->total = bytes;
    return sink->flush(sink, bytes, &output->error);
}

struct placing {
    const struct job_run *run;
    size_t index; /* of the output */
};

/* Refuses to replace the input or an earlier output of the job. Two paths can name one file:
 * through nested roots, hard links, mounts, or a filesystem that ignores case. */
static enum status may_replace(void *context, const struct files_identity *target,
                               struct error *error)
{
    const struct placing *placing = context;
    const struct job_run *run = placing->run;
    const struct files *files = run->pipeline->parts.files;
    const char *path = run->job.outputs[placing->index].place.path;
    if (run->is_image && files_same(target, &run->set->source.identity))
        return error_set(error, STATUS_BAD_JOB,
                         "the output \"%.100s\" is the archive of the input; "
                         "give it another name",
                         path);
    if (files_same(target, &run->input.identity) &&
        files_leads_to(files->input_root, run->job.input.path, target))
        return error_set(error, STATUS_BAD_JOB, "the output \"%.100s\" is the file of the input, "
                         "\"%.100s\"; give it another name", path, run->job.input.path);
    for (size_t i = 0; i < placing->index; i++)
        if (run->outputs[i].placed && files_same(target, &run->outputs[i].identity) &&
            files_leads_to(files->output_root, run->job.outputs[i].place.path, target))
            return error_set(error, STATUS_BAD_JOB, "the output \"%.100s\" is the file of another "
                             "output, \"%.100s\"; give it another name", path,
                             run->job.outputs[i].place.path);
    return STATUS_OK;
}

static enum status may_go_on(void *context, struct error *error)
{
    struct job_run *run = context;
    if (clock_now_ns() >= atomic_load(&run->timing.deadline_ns))
        job_run_set_late(run, error);
    else if (atomic_load(&run->outcome) == OUTCOME_CANCELLED)
        return error_set(error, STATUS_CANCELLED,
                         "the job was cancelled while the folders of an "
                         "output were created");
    return error->status;
}

/* The disk is full: notes how large the output is, and for how much of it there is room. */
static void note_room(struct job_run *run, const struct path_sink *sink)
{
    uint64_t free_bytes, written = (uint64_t)sink->occupied - SINK_BYTES;
    if (run->needed == 0 && files_output_room(&sink->file, &free_bytes)) {
        run->needed = written + sink->refused;
        run->room = written + free_bytes;
    }
}

/* The number of the output among all files of the job, for the name of its temporary file. The
 * first ones are those of the job itself: its tars and arrays. */
static size_t file_number(const struct job_run *run, size_t index)
{
    return run->is_image ? (run->image + 1) * JOB_OUTPUTS_MAX + index : index;
}

/* Returns the errno of a failed write that the disk may have caused, or 0. */
static int encode_to_path(struct job_run *run, size_t index, struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    struct disk *disk = &run->pipeline->disk;
    struct path_sink sink = {
        .sink = {.buffer = tools->sink, .capacity = SINK_BYTES, .flush = flush_to_file},
        .workers = run->pipeline->parts.workers,
        .disk = disk,
        .occupied = SINK_BYTES};
    struct files_making making = {.sync = run->bounds.sync,
                                  .may_go_on = may_go_on,
                                  .context = run,
                                  .known = run->is_image ? &run->set->outputs_known : NULL};
    worker_close_later(tools, -1); /* frees what the job's previous output has replaced */
    disk_occupy(disk, sink.occupied);
    enum status status = files_output_begin(
        run->pipeline->parts.files, &sink.file, run->job.outputs[index].place.path, run->number,
        run->fetch, file_number(run, index), &making, &output->error);
    if (status == STATUS_OK)
        status = write_encoded(run, index, &sink.sink, tools);
    if (status == STATUS_OK)
        status = files_output_finish(&sink.file, run->bounds.sync, &output->error);
    enum outcome outcome = atomic_load(&run->outcome);
    if (status == STATUS_OK && outcome == OUTCOME_CANCELLED)
        status = error_set(&output->error, STATUS_CANCELLED, "the job was cancelled before this "
                           "output was in its place");
    /* If the lease is lost, another daemon may write this output: do not touch it. */
    if (status == STATUS_OK && outcome == OUTCOME_OPEN)
        output->placed =
            files_output_place(&sink.file, run->bounds.sync, may_replace,
                               &(struct placing){.run = run, .index = index},
                               &output->error) == STATUS_OK;
    output->identity = sink.file.identity;
    run->is_lasting |= files_is_lasting(sink.file.reason);
    int reason = disk_may_be_why(sink.file.reason) ? sink.file.reason : 0;
    if (disk_is_full(reason)) {
        disk_lack_room(disk, 0);
        note_room(run, &sink);
    }
    /* The kernel frees the replaced file while the result is on its way. */
    worker_close_later(tools, sink.file.replaced);
    sink.file.replaced = -1;
    files_output_end(&sink.file);
    disk_occupy(disk, -sink.occupied);
    output->bytes = sink.sink.total;
    return reason;
}

/* ---- to a key or a URL ---------------------------------------------------------------------- */

struct memory_sink {
    struct codec_sink sink;
    struct job_run *run;
    struct queue_value *value;
    size_t capacity;
    size_t others; /* bytes of the job's earlier outputs in memory */
};

/* Reserves memory for `bytes`, the size of all of the job's outputs in memory so far. */
static enum status need_room(struct job_run *run, size_t bytes, struct error *error)
{
    size_t needed = bytes + run->values_bytes, room = run->reserved.results_room;
    bool is_packed = run->set && run->set->pack_count > 0; /* the admitted memory is the limit */
    if (bytes > KEY_OUTPUTS_BYTES_MAX && !is_packed)  /* uncovered: memory */
        return error_set(error, STATUS_ENCODE_FAILED,
                         "the outputs to keys and URLs are larger than %llu bytes in total, the "
                         "maximum for a job; use files", KEY_OUTPUTS_BYTES_MAX);
    if (needed <= room || admission_extend(run, needed - room))
        return STATUS_OK;
    size_t most = run->pipeline->admission.lane_bytes_max; /* uncovered: net */
    if (needed > most)
        return error_set(error, STATUS_OVER_BUDGET,
                         "the outputs to keys and URLs need at least %zu bytes; the limit is %zu "
                         "bytes, three eighths of host_bytes", bytes, most);
    return error_set(error, STATUS_OUT_OF_MEMORY,
                     "the outputs to keys and URLs need more than the %zu bytes reserved for them, "
                     "and all of host_bytes is in use", room);
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

/* Frees the unused end of the buffer. */
static void end_value(struct memory_sink *sink)
{
    uint8_t *shrunk = sink->value->bytes < sink->capacity
                          ? realloc(sink->value->value, sink->value->bytes) : NULL;
    if (shrunk)
        sink->value->value = shrunk;
}

/* Remembers where the bytes are, which come in pieces one after the other. */
static enum status flush_by_reference(struct codec_sink *sink, size_t used, struct error *error)
{
    struct memory_sink *self = container_of(sink, struct memory_sink, sink);
    (void)error;
    if (!self->value->value)
        self->value->value = sink->buffer;
    self->value->bytes += used;
    return STATUS_OK;
}

/* The bytes stay where they are until the image is in its tar or array. */
static void lend_output(struct job_run *run, size_t index, struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    output->value = (struct queue_value){0};
    struct memory_sink sink = {
        .sink = {.flush = flush_by_reference}, .run = run, .value = &output->value};
    output->is_borrowed = write_encoded(run, index, &sink.sink, tools) == STATUS_OK;
    run->is_parked |= output->is_borrowed;
    if (!output->is_borrowed)
        output->value = (struct queue_value){0};
    output->bytes = sink.sink.total;
}

static void encode_to_memory(struct job_run *run, size_t index, struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    output->value = (struct queue_value){.key = run->job.outputs[index].place.key,
                                         .ttl_s = run->job.outputs[index].ttl_s};
    struct memory_sink sink = {
        .sink = {.buffer = tools->sink, .capacity = SINK_BYTES, .flush = flush_to_memory},
        .run = run,
        .value = &output->value};
    for (size_t i = 0; i < index; i++)
        sink.others += run->outputs[i].value.bytes;
    if (write_encoded(run, index, &sink.sink, tools) == STATUS_OK) {
        end_value(&sink);
    } else {
        free(output->value.value);
        output->value = (struct queue_value){0};
    }
    output->bytes = sink.sink.total;
}

/* ---- all outputs ---------------------------------------------------------------------------- */

static void take_values(struct job_run *run, struct job_run_output *output)
{
    if (!plan_has_values(&run->plan, output->variant))
        return;
    output->values = plan_values(&run->plan, output->variant, run->reserved.memory.output);
    if (!output->values)
        error_set(&output->error, STATUS_OUT_OF_MEMORY, "no memory for an output's values");
}

/* Results stay in memory until Redis has acknowledged the job. */
static void measure_results(struct job_run *run)
{
    size_t bytes = run->values_bytes, most = run->reserved.lane_bytes;
    for (size_t i = 0; i < run->job.output_count; i++)
        bytes += run->outputs[i].is_borrowed ? 0 : run->outputs[i].value.bytes;
    run->reserved.results_bytes = bytes < most ? bytes : most;
}

/* Returns as encode_to_path. */
static int encode_output(struct job_run *run, size_t index, struct worker_tools *tools)
{
    struct job_run_output *output = &run->outputs[index];
    if (output->error.status != STATUS_OK)
        return 0;
    take_values(run, output);
    if (output->error.status != STATUS_OK || !output->format)
        return 0;
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    bool is_as_stored = run->job.outputs[index].encoder.recompress;
    output->width = is_as_stored ? run->info.width : variant->width;
    output->height = is_as_stored ? run->info.height : variant->height;
    if (run->job.outputs[index].place.path)
        return encode_to_path(run, index, tools);
    if (admission_lends_output(run, index))
        lend_output(run, index, tools);
    else
        encode_to_memory(run, index, tools);
    return 0;
}

/* After the outputs, if some could not be written. If the disk works, the job itself has
 * failed. */
void encoding_judge_disk(struct job_run *run, bool is_full, struct worker_tools *tools)
{
    worker_close_later(tools, -1); /* the disk may lack just this room */
    run->lacks_room = disk_try(&run->pipeline->disk, is_full, tools->sink, &run->disk_error) ==
                      DISK_LACKS_ROOM;
}

void encoding_leave(struct job_run *run)
{
    job_input_release(run);
}

enum stage_result encoding_run(struct job_run *run, struct worker_tools *tools)
{
    bool suspects_disk = false, is_full = false;
    job_input_close(run); /* no device can decline it any more */
    for (size_t i = 0; i < run->job.output_count && job_run_is_open(run); i++) {
        int reason = encode_output(run, i, tools);
        suspects_disk |= reason != 0;
        is_full |= disk_is_full(reason);
    }
    if (suspects_disk)
        encoding_judge_disk(run, is_full, tools);
    measure_results(run);
    job_outputs_judge(run);
    return RESULT_NEXT;
}
