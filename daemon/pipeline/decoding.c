#include "daemon/pipeline/decoding.h"

#include <string.h>

#include "codecs/borders.h"
#include "codecs/strip.h"
#include "conf/clock.h"
#include "daemon/device_codecs.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/state.h"

static bool put_header(struct job_run *run, struct worker_tools *tools, size_t index)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    const struct encode_request request = job_outputs_encode_request(run, index);
    uint8_t *prelude = run->reserved.memory.input + variant->encoder.header_at;
    return device_codecs[variant->encoder.codec].make_prelude(
               tools->codec, &request, variant->width, variant->height, variant->channels, prelude,
               &run->error) == STATUS_OK;
}

/* Whether the file is still the one for which the plan was made. A program may have written to it
 * since its head was read. frame: of the file as it is now. */
static bool is_planned(const struct job_run *run, const struct plan_file *file, const void *frame)
{
    return file->work_bytes != 0 && file->work_bytes == run->plan.source.file.work_bytes &&
           device_codecs[file->codec].is_of_image(frame, &run->info);
}

/* Copies the head of a member, if this worker has just read it. Returns its bytes, or 0. Other
 * files are read as a whole, large ones by several workers (split.h). */
static uint64_t take_head(const struct job_run *run, const struct worker_tools *tools,
                          uint8_t *input)
{
    if (tools->head_of != run || !run->input.is_lent)
        return 0;
    memcpy(input, tools->sink, run->input.seen_bytes);
    return run->input.seen_bytes;
}

/* If a device decodes: puts the file and its frame into the input buffer. false: run->error is set.
 */
static bool put_file(struct job_run *run, struct worker_tools *tools)
{
    uint8_t *input = run->reserved.memory.input, *frame = input + run->plan.frame_at;
    if (run->input.decoder == CODEC_ON_HOST)
        return true;
    /* The additional byte of files_read_input is before the end of the frame. */
    if (!run->input.is_open)
        memcpy(input, run->input.file.memory, run->input.bytes);
    else if (job_input_read(run, input, take_head(run, tools, input), run->pipeline->parts.workers,
                            &run->error) != STATUS_OK)
        return false;
    run->input.seen = input;
    run->input.seen_bytes = run->input.bytes;
    const struct plan_file file = route_read_frame(run, tools, frame);
    if (is_planned(run, &file, frame))
        return true;
    if (!run->input.is_open || clock_now_ns() >= run->bounds.codec.deadline_ns)
        error_set(&run->error, STATUS_DECODE_LIMIT, /* uncovered: net */
                  "the deadline for decoding passed in the header of the file");
    else
        error_set(&run->error, STATUS_INPUT_UNREADABLE,
                  "the header of the input \"%s\" changed while it was read", run->job.input.path);
    return false;
}

/* If a codec runs on a device: puts the headers of the outputs into the input buffer, and clears
 * the report. false: run->error is set. */
static bool put_headers(struct job_run *run, struct worker_tools *tools)
{
    if (!route_uses_device(run))
        return true;
    memset(run->reserved.memory.output + run->plan.report_at, 0, sizeof(struct plan_report));
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK &&
            run->outputs[i].encoder == CODEC_ON_DEVICE && !put_header(run, tools, i))
            return false;
    return true;
}

/* Restores what the read freed before admission. */
static void restore_large(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    if (codec_read_metadata(tools->codec, run->input.seen, run->input.seen_bytes,
                            &run->bounds.codec, &run->info, &error) != STATUS_OK)
        job_run_take_codec_error(run, &error);
    else if (run->plan_bytes > PLAN_KEPT_BYTES) /* it may need the profile */
        planning_restore(run);
}

/* Measures the borders of the decoded image. Then the job is planned again, for the part without
 * them: the size of the result, and so the memory, was not known before. */
static enum stage_result measure_borders(struct job_run *run, const struct image *image)
{
    int orientation = run->job.orient ? run->info.orientation : 1;
    struct error error = {0};
    if (!borders_find(image, &run->job.trim, orientation, run->bounds.codec.deadline_ns,
                      &run->trimmed)) {
        error_set(&error, STATUS_DECODE_LIMIT, "the deadline passed in the search for borders");
        job_run_take_codec_error(run, &error);
        return RESULT_NEXT;
    }
    run->measured_width = image->width;
    run->measured_height = image->height;
    release_plan(run);
    bool others_wait = admission_release(run);
    (void)others_wait;       /* the loop tries them after this job */
    job_run_stop_clock(run); /* it waits for its second read */
    return RESULT_AGAIN;
}

enum stage_result decoding_run(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    job_run_bound_codec(run);
    if (!put_file(run, tools))
        return RESULT_NEXT;
    restore_large(run, tools);
    if (run->error.status != STATUS_OK)
        return RESULT_NEXT;
    plan_put_constants(&run->plan, run->reserved.memory.input);
    job_overlays_release(run);
    bool needs_pixels = run->measures || job_outputs_need_pixels(run);
    if (!put_headers(run, tools) || run->input.decoder == CODEC_ON_DEVICE || !needs_pixels)
        return RESULT_NEXT;
    struct image image = plan_input(&run->plan, run->reserved.memory.input);
    if (strip_decode(tools->codec, run->input.seen, run->input.seen_bytes, &run->info, &run->decode,
                     &run->bounds.codec, &image, &error) != STATUS_OK)
        job_run_take_codec_error(run, &error);
    else if (run->measures)
        return measure_borders(run, &image);
    return RESULT_NEXT;
}

void decoding_leave(struct job_run *run)
{
    admission_keep_encoder(run);
    dispatch_decoded(&run->pipeline->dispatch, &run->charge);
    /* A device may decline the file or an output; after it was measured, it is decoded again. Then
     * members of archives and frames are only in this memory, and a key may have another value. */
    if (!route_uses_device(run) && !job_outputs_recompress(run) && !run->measures)
        job_input_release(run);
}
