#include "daemon/pipeline/decoding.h"

#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/state.h"

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

void decoding_run(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    job_run_bound_codec(run);
    if (!route_put_file(run, tools))
        return;
    restore_large(run, tools);
    if (run->error.status != STATUS_OK)
        return;
    plan_put_constants(&run->plan, run->reserved.memory.input);
    job_overlays_release(run);
    if (!route_put_headers(run, tools) || run->input.decoder == CODEC_ON_DEVICE)
        return;
    struct image image = plan_input(&run->plan, run->reserved.memory.input);
    if (codec_decode(tools->codec, run->input.seen, run->input.seen_bytes, &run->info,
                     &run->decode, &run->bounds.codec, &image, &error) != STATUS_OK)
        job_run_take_codec_error(run, &error);
}

void decoding_compute(struct job_run *run, struct worker_tools *tools)
{
    (void)tools;
    engine_run(run->pipeline->parts.engine, &run->engine_task);
    if (run->engine_task.error.status != STATUS_OK)
        run->error = run->engine_task.error;
}
