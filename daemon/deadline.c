/* deadline.c - jobs that end otherwise than they should: too late, or because the daemon ends. */
#include <inttypes.h>

#include "conf/log.h"
#include "daemon/clock.h"
#include "daemon/pipeline_impl.h"

/* ---- too late ------------------------------------------------------------------------------- */

bool work_withdraw(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    if (work->reading) {
        queue_read_cancel(pipeline->queue, work->reading);
        work->reading = NULL;
        pipeline->key_reads--;
        return true;
    }
    if (!work->out)
        return true;
    bool on_engine = work->stage == STAGE_GPU && !engine_is_synchronous(pipeline->parts.engine);
    if (on_engine || !workers_withdraw(pipeline->parts.workers, &work->errand))
        return false;
    work->out = false;
    return true;
}

static void replace_worker(struct work *work, const struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    struct workers *workers = pipeline->parts.workers;
    log_error("job %" PRIu64 ": a worker hangs in stage %s and is replaced", work->lease->number,
              stage_table[work->stage].name);
    bool replaced = workers_give_up(workers, &work->errand);
    work_abandon(work, error);
    if (!replaced || workers_given_up(workers) >= pipeline->parts.options->workers)
        pipeline->parts.failed(pipeline->parts.context, "too many workers hang");
}

/* A work past its deadline: at once where it waits, after a grace where a worker has it (which
 * looks at the deadline itself), never here where the engine has it (which ends it). */
static void check_deadline(struct work *work, uint64_t now)
{
    struct pipeline *pipeline = work->pipeline;
    if (now < work->deadline_ns)
        return;
    struct error error = {0};
    error_set(&error, STATUS_TIMEOUT, "the job did not end within its %g s; it was in stage %s",
              work->job.timeout_s, stage_table[work->stage].name);
    if (work_withdraw(work)) {
        work->error = error;
        pipeline_move(work, STAGE_ACK);
        return;
    }
    bool on_worker = work->stage != STAGE_GPU || engine_is_synchronous(pipeline->parts.engine);
    if (on_worker && now > clock_after_s(work->deadline_ns, pipeline->parts.options->hang_grace_s))
        replace_worker(work, &error);
}

void pipeline_on_tick(uv_timer_t *timer)
{
    struct pipeline *pipeline = timer->data;
    uint64_t now = clock_now_ns();
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        list_each_safe (node, after, &pipeline->stages[stage])
            check_deadline(container_of(node, struct work, node), now);
    engine_reap(pipeline->parts.engine);
    pipeline_pump(pipeline);
    if (pipeline_inflight(pipeline) == 0)
        uv_timer_stop(&pipeline->tick);
}

/* ---- ending early --------------------------------------------------------------------------- */

static void give_back_stage(struct pipeline *pipeline, enum stage stage, bool by_force)
{
    list_each_safe (node, after, &pipeline->stages[stage]) {
        struct work *work = container_of(node, struct work, node);
        if (work_withdraw(work)) {
            work->give_back = true;
            pipeline_move(work, STAGE_ACK);
        } else if (by_force) {
            work_abandon(work, NULL);
        }
    }
}

void pipeline_give_back(struct pipeline *pipeline)
{
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        give_back_stage(pipeline, stage, true);
    pipeline_pump(pipeline);
}

void pipeline_engine_failed(struct pipeline *pipeline)
{
    if (pipeline->failed)
        return;
    pipeline->failed = true;
    give_back_stage(pipeline, STAGE_READ, false);
    give_back_stage(pipeline, STAGE_ADMIT, false);
    give_back_stage(pipeline, STAGE_DECODE, false);
    pipeline_pump(pipeline);
}
