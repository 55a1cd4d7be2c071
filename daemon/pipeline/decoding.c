#include "daemon/pipeline/decoding.h"

#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/job_input.h"
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

enum stage_result decoding_run(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    job_run_bound_codec(run);
    if (!route_put_file(run, tools))
        return RESULT_NEXT;
    restore_large(run, tools);
    if (run->error.status != STATUS_OK)
        return RESULT_NEXT;
    plan_put_constants(&run->plan, run->reserved.memory.input);
    job_overlays_release(run);
    if (!route_put_headers(run, tools) || run->input.decoder == CODEC_ON_DEVICE)
        return RESULT_NEXT;
    struct image image = plan_input(&run->plan, run->reserved.memory.input);
    if (codec_decode(tools->codec, run->input.seen, run->input.seen_bytes, &run->info,
                     &run->decode, &run->bounds.codec, &image, &error) != STATUS_OK)
        job_run_take_codec_error(run, &error);
    return RESULT_NEXT;
}

void decoding_leave(struct job_run *run)
{
    admission_keep_encoder(run);
    dispatch_decoded(&run->pipeline->dispatch, &run->charge);
    if (run->input.decoder == CODEC_ON_HOST)
        job_input_release(run); /* a device may decline the file */
}
