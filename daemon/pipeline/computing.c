#include "daemon/pipeline/computing.h"

#include "conf/clock.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"

/* The most jobs per call of dispatch_return. */
#define RETURNED_MAX 64

/* The device has returned these jobs. */
static void end_charges(struct pipeline *pipeline, const struct list *computed)
{
    struct dispatch_charge *charges[RETURNED_MAX];
    size_t count = 0;
    list_each (node, computed) {
        charges[count++] = &container_of(node, struct job_run, worker_task.node)->charge;
        if (count == RETURNED_MAX || node == computed->head.prev) {
            dispatch_return(&pipeline->dispatch, charges, count);
            count = 0;
        }
    }
}

/* On the thread of the device. Jobs that it returns together go to the workers together. */
static void on_computed(struct engine_task *task)
{
    struct job_run *run = container_of(task, struct job_run, engine_task);
    struct pipeline *pipeline = run->pipeline;
    struct list *computed = &pipeline->computed[task->memory->device];
    list_push(computed, &run->worker_task.node);
    if (task->more)
        return;
    end_charges(pipeline, computed);
    workers_submit_all(pipeline->parts.workers, computed);
}

enum stage_result computing_enter(struct job_run *run)
{
    run->engine_task = (struct engine_task){
        .plan = &run->plan,
        .memory = &run->reserved.memory,
        .deadline_ns = run->timing.deadline_ns,
        .alone = run->alone,
        .rank = run->worker_task.rank,
        .done = on_computed,
    };
    return run->plan.idle ? RESULT_NEXT : RESULT_RUN;
}

enum stage_result computing_run(struct job_run *run, struct worker_tools *tools)
{
    (void)tools;
    engine_run(run->pipeline->parts.engine, &run->engine_task);
    if (run->engine_task.error.status != STATUS_OK)
        run->error = run->engine_task.error;
    return RESULT_NEXT;
}

void computing_send(struct job_run *run)
{
    dispatch_start(&run->pipeline->dispatch, &run->charge, clock_now_ns());
    engine_submit(run->pipeline->parts.engine, &run->engine_task);
}

enum stage_result computing_take_back(struct job_run *run)
{
    trace_hooks_task(run);
    run->error = run->engine_task.error;
    if (run->engine_task.returned)
        return RESULT_RETURN;
    if (run->error.status != STATUS_OK || !route_was_declined(run))
        return RESULT_NEXT;
    run->input.declined = true;
    run->engine_task.plan = NULL;
    release_plan(run);
    bool others_wait = admission_release(run);
    (void)others_wait;       /* the loop tries them after this job */
    job_run_stop_clock(run); /* it waits for its second read */
    return RESULT_AGAIN;
}
