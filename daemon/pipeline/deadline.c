/*
 * deadline.c - jobs that end otherwise than they should: too late, or because the daemon ends; and
 * whether any job moves at all.
 */
#include <inttypes.h>

#include <inttypes.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/pipeline_impl.h"

/* A tick that comes so much too late means that the process itself stood still. */
#define SLEPT_S 1

/* ---- too late ------------------------------------------------------------------------------- */

static void set_late(const struct work *work, struct error *error)
{
    error_set(error, STATUS_TIMEOUT, "the job did not end within its %g s; it was in stage %s",
              work->job.timeout_s, stage_name(atomic_load(&work->at)));
}

void work_set_late(struct work *work)
{
    set_late(work, &work->error);
}

static bool is_on_engine(const struct work *work)
{
    const struct engine *engine = work->pipeline->parts.engine;
    return work->stage == STAGE_GPU && !engine_is_synchronous(engine);
}

bool work_withdraw(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    if (work->reading) {
        queue_read_cancel(pipeline->queue, work->reading);
        work->reading = NULL;
        return true;
    }
    if (!work->out)
        return true;
    if (is_on_engine(work) || !workers_withdraw(pipeline->parts.workers, &work->errand))
        return false;
    work->out = false;
    return true;
}

static bool is_under_way(const struct work *work)
{
    return atomic_load(&work->deadline_ns) != CLOCK_STANDS;
}

bool work_overdue(const struct work *work, uint64_t now_ns, double grace_s)
{
    uint64_t from_ns = atomic_load(&work->deadline_ns);
    if (from_ns == CLOCK_STANDS)
        return false;
    if (from_ns < work->pipeline->awake_ns)
        from_ns = work->pipeline->awake_ns;
    return now_ns > clock_after_s(from_ns, grace_s);
}

/* false: too many hang. A zombie keeps its place as well as its worker. */
static bool replace_worker(struct work *work, const struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    struct workers *workers = pipeline->parts.workers;
    char label[LABEL_BYTES];
    log_error("job %s: a worker hangs in stage %s and is replaced", work_label(work, label),
              stage_name(atomic_load(&work->at)));
    bool replaced = workers_give_up(workers, &work->errand);
    work_abandon(work, error);
    return replaced && workers_given_up(workers) < pipeline->parts.options->workers &&
           pipeline->zombies.length < pipeline->parts.options->inflight;
}

/* A work past its deadline ends at once where it waits; after a grace where a worker has it (which
 * looks at the deadline itself); never here where the engine has it (which ends it). false: as
 * replace_worker. */
static bool check_deadline(struct work *work, uint64_t now)
{
    struct pipeline *pipeline = work->pipeline;
    if (now < atomic_load(&work->deadline_ns))
        return true;
    struct error error = {0};
    set_late(work, &error);
    if (work_withdraw(work)) {
        work->error = error;
        pipeline_move(work, STAGE_ACK);
        return true;
    }
    if (is_on_engine(work) || !work_overdue(work, now, pipeline->parts.options->hang_grace_s))
        return true;
    return replace_worker(work, &error);
}

/* Who has waited for so long without being under way goes back with its attempt, for a daemon that
 * has time or room. The youngest goes first: what goes back last is fetched first, so that the
 * order stays. */
static void send_back_waiting(struct pipeline *pipeline, uint64_t now)
{
    char label[LABEL_BYTES];
    for (enum stage stage = STAGE_READ; stage <= STAGE_DECODE; stage++) {
        list_each_back_safe (node, before, &pipeline->stages[stage]) {
            struct work *work = container_of(node, struct work, node);
            if (is_under_way(work) || now < work->waits_until_ns || !work_withdraw(work))
                continue;
            log_info("job %s goes back after it waited %.1f s in stage %s",
                     work_label(work, label), clock_ms(work->fetched_ns, now) / 1e3,
                     stage_name(stage));
            work->give_back = true;
            pipeline_move(work, STAGE_ACK);
        }
    }
}

void pipeline_on_tick(uv_timer_t *timer)
{
    struct pipeline *pipeline = timer->data;
    uint64_t now = clock_now_ns();
    bool usable = true;
    /* After a stop of the whole process (SIGSTOP, a suspended host) the workers have not hung:
     * from then on they have the grace that is theirs after a deadline. */
    if (now > clock_after_s(pipeline->ticked_ns, SLEPT_S))
        pipeline->awake_ns = now;
    pipeline->ticked_ns = now;
    workers_collect(pipeline->parts.workers);
    for (enum stage stage = STAGE_READ; stage < STAGE_ACK; stage++)
        list_each_safe (node, after, &pipeline->stages[stage])
            usable = check_deadline(container_of(node, struct work, node), now) && usable;
    send_back_waiting(pipeline, now);
    if (!usable)
        pipeline->parts.failed(pipeline->parts.context, "too many workers hang");
    engine_reap(pipeline->parts.engine);
    pipeline_pump(pipeline);
    if (pipeline_inflight(pipeline) == 0)
        uv_timer_stop(&pipeline->tick);
}

/* ---- health --------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_late(const struct pipeline *pipeline, uint64_t now_ns, double grace_s)
{
    for (enum stage stage = STAGE_READ; stage < STAGE_ACK; stage++)
        list_each (node, &pipeline->stages[stage])
            if (work_overdue(container_of(node, struct work, node), now_ns, grace_s))
                return true;
    return false;
}

/* Whether jobs wait before their decode although none is under way, and none has come that far for
 * the grace. A job that waits for Redis is not meant. */
static bool stands_still(const struct pipeline *pipeline, uint64_t now_ns, double grace_s)
{
    uint64_t moved_ns = later(pipeline->moved_ns, pipeline->awake_ns);
    bool waited = false;
    for (enum stage stage = STAGE_READ; stage < STAGE_ACK; stage++) {
        list_each (node, &pipeline->stages[stage]) {
            const struct work *work = container_of(node, struct work, node);
            if (is_under_way(work))
                return false;
            waited |= !work->reading &&
                      now_ns > clock_after_s(later(work->entered_ns, moved_ns), grace_s);
        }
    }
    return waited;
}

bool pipeline_healthy(const struct pipeline *pipeline)
{
    /* Twice the grace: a worker that hangs is replaced after once. */
    double grace_s = 2 * pipeline->parts.options->hang_grace_s + 1;
    uint64_t now_ns = clock_now_ns();
    return !is_late(pipeline, now_ns, grace_s) && !stands_still(pipeline, now_ns, grace_s);
}

/* ---- ending early --------------------------------------------------------------------------- */

void pipeline_give_back_files(struct pipeline *pipeline)
{
    for (enum stage stage = STAGE_ASK; stage <= STAGE_DECODE; stage++) {
        list_each_back_safe (node, before, &pipeline->stages[stage]) {
            struct work *work = container_of(node, struct work, node);
            if (!work_lacks_disk(work) || !work_withdraw(work))
                continue;
            work->give_back = true;
            pipeline_move(work, STAGE_ACK);
        }
    }
}

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

void pipeline_fail(struct pipeline *pipeline)
{
    if (atomic_exchange(&pipeline->failed, true))
        return;
    give_back_stage(pipeline, STAGE_ASK, false);
    give_back_stage(pipeline, STAGE_READ, false);
    give_back_stage(pipeline, STAGE_ADMIT, false);
    give_back_stage(pipeline, STAGE_DECODE, false);
    pipeline_pump(pipeline);
}
