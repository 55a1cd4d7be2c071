/*
 * route.c - chooses which codecs of a job run on its device, and prepares their input.
 *
 * A device decodes JPEGs of the usual kinds and encodes sequential JPEGs, with the samples and the
 * bytes of libjpeg. All other codecs run on the host. If the device declines a file, which only
 * costs an upload, the job is planned again for the host.
 */
#include <string.h>

#include "codecs/jpeg/header.h"
#include "daemon/pipeline/pipeline_impl.h"
#include "gpu/jpeg/codec.h"

struct plan_file route_to_host(struct job_run *run)
{
    run->input.decoder = CODEC_ON_HOST;
    for (size_t i = 0; i < run->job.output_count; i++)
        run->outputs[i].encoder = CODEC_ON_HOST;
    return (struct plan_file){0};
}

static struct plan_file choose_decoder(struct job_run *run, struct worker_tools *tools)
{
    struct plan_file file = {.bytes = run->input.bytes, .frame_bytes = sizeof *tools->frame};
    struct jpeg_frame *frame = tools->frame;
    if ((run->info.progressive && !run->bounds.progressive_on_device) ||
        !codec_read_frame(tools->codec, run->input.file.memory, run->input.bytes, &run->info,
                          &run->bounds.codec, frame))
        return (struct plan_file){0};
    file.work_bytes = jpeg_decoder_bytes(frame, run->input.bytes, run->decode.as,
                                         run->decode.eighths);
    if (file.work_bytes == 0)
        return (struct plan_file){0};
    run->input.decoder = CODEC_ON_DEVICE;
    return file;
}

static bool is_sequential_jpeg(const struct job_run *run, size_t index)
{
    return run->outputs[index].format == &formats[FORMAT_jpeg] &&
           !run->job.outputs[index].encoder.progressive;
}

struct plan_file route_choose(struct job_run *run, struct worker_tools *tools)
{
    struct plan_file file = route_to_host(run);
    if (!tools || run->input.declined)
        return file;
    struct engine_codecs codecs = engine_codecs(run->pipeline->parts.engine);
    if (codecs.jpeg_decoder)
        file = choose_decoder(run, tools);
    for (size_t i = 0; i < run->job.output_count; i++)
        if (codecs.jpeg_encoder && is_sequential_jpeg(run, i))
            run->outputs[i].encoder = CODEC_ON_DEVICE;
    return file;
}

static bool is_used(const struct job_run *run)
{
    bool used = run->input.decoder == CODEC_ON_DEVICE;
    for (size_t i = 0; i < run->job.output_count; i++)
        used |= run->outputs[i].error.status == STATUS_OK &&
                run->outputs[i].encoder == CODEC_ON_DEVICE;
    return used;
}

bool route_fits(const struct job_run *run)
{
    return !is_used(run) || engine_fits(run->pipeline->parts.engine, &run->plan);
}

static bool put_header(struct job_run *run, struct worker_tools *tools, size_t index)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    const struct encode_request request = {.format = output->format,
                                           .encoder = run->job.outputs[index].encoder,
                                           .icc = run->info.icc,
                                           .icc_bytes = run->info.icc_bytes};
    struct jpeg_prelude *prelude =
        (struct jpeg_prelude *)(run->reserved.memory.input + variant->encoder.header_at);
    return jpeg_prelude_make(tools->codec, &request, variant->width, variant->height,
                             variant->channels, prelude, &run->error) == STATUS_OK;
}

bool route_put(struct job_run *run, struct worker_tools *tools)
{
    const struct plan *plan = &run->plan;
    uint8_t *input = run->reserved.memory.input;
    if (!is_used(run))
        return true;
    memset(run->reserved.memory.output + plan->report_at, 0, sizeof(struct plan_report));
    if (run->input.decoder == CODEC_ON_DEVICE) {
        memcpy(input, run->input.file.memory, run->input.bytes);
        if (!codec_read_frame(tools->codec, run->input.file.memory, run->input.bytes, &run->info,
                              &run->bounds.codec, (struct jpeg_frame *)(input + plan->frame_at))) {
            error_set(&run->error, STATUS_DECODE_LIMIT, /* uncovered: net */
                      "the deadline for decoding passed in the header of the JPEG");
            return false;
        }
    }
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK &&
            run->outputs[i].encoder == CODEC_ON_DEVICE && !put_header(run, tools, i))
            return false;
    return true;
}

bool route_was_declined(const struct job_run *run)
{
    const struct plan_report *report = plan_report(&run->plan, run->reserved.memory.output);
    bool declined = is_used(run) && report->declined != 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        declined |= run->outputs[i].error.status == STATUS_OK &&
                    run->outputs[i].encoder == CODEC_ON_DEVICE &&
                    report->file_bytes[run->outputs[i].variant] == 0;
    return declined;
}
