#include "daemon/pipeline/route.h"

#include "conf/clock.h"
#include "daemon/device_codecs.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

static uint32_t out_of_service(const struct engine *engine)
{
    uint32_t out = 0;
    for (uint32_t d = 0; d < engine_devices(engine); d++)
        out |= (uint32_t)(engine_device_state(engine, d) != DEVICE_IN_SERVICE) << d;
    return out;
}

/* Whether a device encodes an output as AVIF. */
static bool makes_avif(const struct job_run *run)
{
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK &&
            run->outputs[i].encoder == CODEC_ON_DEVICE &&
            device_codec_of(run->outputs[i].format) == DEVICE_CODEC_AVIF)
            return true;
    return false;
}

static enum dispatch_kind kind_of(const struct job_run *run)
{
    switch (device_codec_of(run->info.format)) {
    case DEVICE_CODEC_JPEG:
        return run->info.progressive ? DISPATCH_PROGRESSIVE
               : makes_avif(run)     ? DISPATCH_AVIF
                                     : DISPATCH_SEQUENTIAL;
    case DEVICE_CODEC_PNG:
        return DISPATCH_PNG;
    default:
        return DISPATCH_OTHER;
    }
}

/* Returns whether a device decodes the file. device_bytes 0: devices cannot. */
static bool charge(struct job_run *run, enum dispatch_rule rule, size_t device_bytes)
{
    if (engine_devices(run->pipeline->parts.engine) == 0)
        return false;
    const struct dispatch_request request = {
        .kind = kind_of(run),
        .rule = device_bytes > 0 ? rule : DISPATCH_TO_CORES,
        .pixels = (uint64_t)run->info.width * run->info.height,
        .file_bytes = run->input.bytes,
        .device_bytes = device_bytes,
        .heap_bytes = run->info.codec_bytes,
        .out_of_service = out_of_service(run->pipeline->parts.engine),
    };
    dispatch_choose(&run->pipeline->dispatch, &request, clock_now_ns(), &run->charge);
    return run->charge.on_device;
}

static void choose_host(struct job_run *run)
{
    run->input.decoder = CODEC_ON_HOST;
    for (size_t i = 0; i < run->job.output_count; i++)
        run->outputs[i].encoder = CODEC_ON_HOST;
}

struct plan_file route_to_host(struct job_run *run)
{
    choose_host(run);
    charge(run, DISPATCH_TO_CORES, 0);
    return (struct plan_file){0};
}

struct plan_file route_read_frame(struct job_run *run, struct worker_tools *tools, void *frame)
{
    enum device_codec codec = device_codec_of(run->info.format);
    const struct device_codec_row *row = &device_codecs[codec];
    const struct device_input input = {.bytes = run->input.seen,
                                       .length = run->input.seen_bytes,
                                       .file_bytes = run->input.bytes,
                                       .info = &run->info,
                                       .limits = &run->bounds.codec,
                                       .decode = &run->decode};
    return (struct plan_file){.codec = codec,
                              .bytes = run->input.bytes,
                              .work_bytes = row->read_frame(tools->codec, &input, frame),
                              .frame_bytes = row->frame_bytes,
                              .prepared_bytes = row->prepared_bytes};
}

static struct plan_file choose_decoder(struct job_run *run, struct worker_tools *tools)
{
    struct plan_file file = route_read_frame(run, tools, tools->frame);
    size_t channels = run->decode.as == DECODE_LUMA ? 1 : run->info.channels;
    size_t image_bytes = (size_t)run->info.width * run->info.height * channels;
    size_t device_bytes = file.work_bytes > 0 ? file.work_bytes + file.bytes + image_bytes : 0;
    if (!charge(run, run->bounds.codecs[file.codec], device_bytes))
        return (struct plan_file){0};
    run->input.decoder = CODEC_ON_DEVICE;
    return file;
}

/* The files of a list of formats are compared on the host. */
static bool is_for_device(const struct job_run *run, size_t index,
                          const struct engine_codecs *codecs)
{
    enum device_codec codec = device_codec_of(run->outputs[index].format);
    return codecs->encodes[codec] && run->job.outputs[index].formats == 0 &&
           device_codecs[codec].writes(&run->job.outputs[index].encoder, run->outputs[index].ops);
}

struct plan_file route_choose(struct job_run *run, struct worker_tools *tools)
{
    choose_host(run);
    if (!tools) /* --explain: there is no pipeline */
        return (struct plan_file){0};
    if (run->input.declined || job_outputs_recompress(run))
        return route_to_host(run);
    struct engine_codecs codecs = engine_codecs(run->pipeline->parts.engine);
    for (size_t i = 0; i < run->job.output_count; i++)
        if (is_for_device(run, i, &codecs))
            run->outputs[i].encoder = CODEC_ON_DEVICE;
    if (codecs.decodes[device_codec_of(run->info.format)])
        return choose_decoder(run, tools);
    charge(run, DISPATCH_TO_CORES, 0);
    return (struct plan_file){0};
}

void route_plan(struct job_run *run)
{
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK &&
            !plan_is_encoded(&run->plan.variants[run->outputs[i].variant]))
            run->outputs[i].encoder = CODEC_ON_HOST;
    if (run->charge.on_device && !makes_avif(run))
        dispatch_forget_avif(&run->pipeline->dispatch, &run->charge);
}

void route_end(struct job_run *run)
{
    dispatch_end(&run->pipeline->dispatch, &run->charge);
}

bool route_uses_device(const struct job_run *run)
{
    bool used = run->input.decoder == CODEC_ON_DEVICE;
    for (size_t i = 0; i < run->job.output_count; i++)
        used |= run->outputs[i].error.status == STATUS_OK &&
                run->outputs[i].encoder == CODEC_ON_DEVICE;
    return used;
}

bool route_fits(const struct job_run *run)
{
    return !route_uses_device(run) || engine_fits(run->pipeline->parts.engine, &run->plan);
}

/* If no quality makes a file of at most bytes_max, the host says so. */
static bool is_written(const struct job_run *run, const struct plan_report *report, size_t variant)
{
    uint32_t bytes = report->file_bytes[variant];
    uint32_t most = run->plan.variants[variant].encoder.bytes_max;
    return bytes > 0 && (most == 0 || bytes <= most);
}

bool route_was_declined(const struct job_run *run)
{
    const struct plan_report *report = plan_report(&run->plan, run->reserved.memory.output);
    bool declined = route_uses_device(run) && report->declined != 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        declined |= run->outputs[i].error.status == STATUS_OK &&
                    run->outputs[i].encoder == CODEC_ON_DEVICE &&
                    !is_written(run, report, run->outputs[i].variant);
    return declined;
}
