#include "daemon/pipeline/job_outputs.h"

#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_run.h"
#include "gpu/plan/op_list.h"

/* ---- errors --------------------------------------------------------------------------------- */

void job_outputs_fail_if_all_failed(struct job_run *run)
{
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK)
            return;
    if (run->error.status == STATUS_OK)
        run->error = run->outputs[0].error;
}

/* The job gets its first retryable output error, or else its first output error. An output with a
 * retryable error therefore gets its retry, even if another output's error is final. */
void job_outputs_judge(struct job_run *run)
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

/* Whether the output needs no more work: it has failed, its file was renamed into place, or it
 * consists of values that are computed. An output to a key is never complete: Redis stores it
 * together with the result. But those of an image of a set are stored before. */
static bool is_complete(const struct job_run_output *output)
{
    if (output->error.status != STATUS_OK)
        return output->error.status != STATUS_CANCELLED;
    return output->format ? output->placed : output->values != NULL;
}

void job_outputs_end_cancelled(struct job_run *run)
{
    bool whole = run->stage >= STAGE_ENCODE;
    for (size_t i = 0; i < run->job.output_count; i++)
        whole = whole && is_complete(&run->outputs[i]);
    if (run->error.status == STATUS_OK ? whole : !status_retryable(run->error.status))
        return;
    run->error = (struct error){0};
    error_set(&run->error, STATUS_CANCELLED, "the job was cancelled in stage %s",
              stage_name(run->stage));
}

/* ---- recompression -------------------------------------------------------------------------- */

static bool has_output(const struct job_run *run, int recompress)
{
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK &&
            run->job.outputs[i].encoder.recompress == recompress)
            return true;
    return false;
}

bool job_outputs_recompress(const struct job_run *run)
{
    return has_output(run, 1);
}

bool job_outputs_need_pixels(const struct job_run *run)
{
    return has_output(run, 0);
}

/* ---- formats -------------------------------------------------------------------------------- */

const struct format *job_outputs_next_format(const struct job_output *output,
                                             const struct format *after, uint32_t width,
                                             uint32_t height, uint32_t channels)
{
    const struct format *format = after ? after + 1 : formats;
    for (; format < formats + FORMAT_COUNT; format++) {
        bool is_listed = output->formats >> (format - formats) & 1;
        bool fits =
            format->side_max == 0 || (width <= format->side_max && height <= format->side_max);
        if (is_listed && fits && (channels != 4 || format->alpha) && !codec_refusal(format, true) &&
            !codec_refusal(format, false))
            return format;
    }
    return NULL;
}

struct encoder_settings job_outputs_settings(const struct job_output *output,
                                             const struct format *format)
{
    struct encoder_settings settings = output->encoder;
    for (unsigned i = 0; i < PARAMETER_COUNT; i++)
        if (!(output->given & 1u << i))
            *encoder_setting(&settings, i) = format_default(format, i);
    return settings;
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* The input's density, if the output has the input's size in pixels, or by request. */
static struct image_density choose_density(const struct job_run *run, size_t index)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    const struct image_info *info = &run->info;
    struct image_density density = info->density;
    bool is_turned = run->job.orient && info->orientation >= 5;
    uint32_t width = is_turned ? info->height : info->width;
    uint32_t height = is_turned ? info->width : info->height;
    bool is_same = variant->width == width && variant->height == height;
    if (is_turned) {
        density.x = info->density.y;
        density.y = info->density.x;
    }
    if (output->metadata & METADATA_DENSITY || (is_same && run->job.outputs[index].metadata != 0))
        return density;
    return (struct image_density){.unit = DENSITY_NONE};
}

/* The whole EXIF or XMP, or its notice. */
static void choose_metadata(const struct job_run *run, unsigned metadata,
                            struct encode_request *request)
{
    const struct image_info *info = &run->info;
    if (metadata & METADATA_ICC) {
        request->icc = info->icc;
        request->icc_bytes = info->icc_bytes;
    }
    bool notice = metadata & METADATA_COPYRIGHT;
    bool exif = metadata & METADATA_EXIF && info->exif, xmp = metadata & METADATA_XMP && info->xmp;
    request->exif = exif ? info->exif : notice ? info->notice_exif : NULL;
    request->exif_bytes = exif ? info->exif_bytes : notice ? info->notice_exif_bytes : 0;
    request->xmp = xmp ? info->xmp : notice ? info->notice_xmp : NULL;
    request->xmp_bytes = xmp ? info->xmp_bytes : notice ? info->notice_xmp_bytes : 0;
}

struct encode_request job_outputs_encode_request(struct job_run *run, size_t index)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    const struct metadata_fit fit = {.upright = run->job.orient,
                                     .orientation = run->info.orientation,
                                     .in_srgb = output->in_srgb, .width = variant->width,
                                     .height = variant->height};
    bool is_frame = run->job.outputs[index].pack == JOB_MOVIE && run->is_image &&
                    run->set->source.animation.frames > 1;
    bool keeps_orientation = !run->job.orient && output->metadata & METADATA_EXIF;
    struct encode_request request = {
        .format = output->format,
        .encoder = run->job.outputs[index].encoder,
        .keeps_alpha = is_frame,
        .bilevel = op_list_is_bilevel(output->ops),
        .density = choose_density(run, index),
        .orientation = keeps_orientation ? run->info.orientation : 1,
        .deadline_ns = run->timing.deadline_ns,
        .caller = run->bounds.codec.caller,
    };
    image_info_fit_metadata(&run->info, &fit);
    choose_metadata(run, output->metadata, &request);
    return request;
}
