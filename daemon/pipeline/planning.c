/* planning.c - builds the decode request and the plan from the job and the input's header. */
#include <string.h>

#include "daemon/pipeline/pipeline_impl.h"

/* The requested format, or else the format of the path's suffix, or else the input's. NULL if the
 * output has only values, or an unknown format. */
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

/* Fills a target for each output without an error; returns their number. */
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

/* Chooses how the input is decoded, and returns the resulting source image. A scaled decode is used
 * only for a job without a list: an output's pixels must not depend on the job's other outputs. */
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

/* Heap of the plan and of its values, in bytes. */
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

/* Skips outputs that failed the first time. The memory of the plan must not differ from the memory
 * that was admitted. */
void job_run_restore_plan(struct job_run *run)
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
