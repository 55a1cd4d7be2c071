#include "daemon/pipeline/release.h"

#include <stdlib.h>

#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"
#include "gpu/plan/op_list.h"

void release_plan(struct job_run *run)
{
    image_info_drop_metadata(&run->info);
    plan_drop_passes(&run->plan);
    job_overlays_release(run);
}

void release_memory(struct job_run *run)
{
    job_input_release(run);
    job_input_close(run);
    release_plan(run);
    if (run->reserved.state != RESERVATION_NONE) /* else spine_run has */
        admission_release(run);
    route_end(run);
}

void release_results(struct job_run *run)
{
    free(run->result);
    run->result = NULL;
    for (size_t i = 0; i < run->job.output_count; i++) {
        if (!run->outputs[i].is_borrowed)
            free(run->outputs[i].value.value);
        run->outputs[i].value = (struct queue_value){0};
        cJSON_Delete(run->outputs[i].values);
        run->outputs[i].values = NULL;
    }
}

void release_job(struct job_run *run)
{
    if (!run->has_joined || run->is_parked) {
        release_memory(run);
        image_info_clear(&run->info);
    }
    trace_hooks_end(run);
    release_results(run);
    admission_settle(run);
    free(run->repeat);
    run->repeat = NULL;
    if (run->set && !run->is_image)
        image_set_adopt(run->set, run);
    for (size_t i = 0; i < run->job.output_count && !run->is_image; i++)
        op_list_free(run->outputs[i].ops);
    job_clear(&run->job);
    free(run->image_name);
    run->image_name = NULL;
    if (run->set)
        image_set_unref(run->set);
    run->set = NULL;
    run->pipeline->text_bytes -= run->text_bytes;
}

void release_slot(struct job_run *run)
{
    release_job(run);
    job_run_move(run, STAGE_ASK, OWNER_NONE);
}
