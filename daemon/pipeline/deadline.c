#include "daemon/pipeline/deadline.h"

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/ack.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"

/* A tick this much later than the one before it means that the whole process was stopped. */
#define SLEPT_S 1
/* The process ends if hanging workers have occupied all threads or slots for so many times the
 * grace, 60 s by default: by then a slow file server or disk has answered. */
#define HUNG_GRACES 12

static bool is_under_way(const struct job_run *run)
{
    return atomic_load(&run->timing.deadline_ns) != CLOCK_STANDS;
}

/* Whether the job is grace_s past its deadline, not counting time before awake_ns, and the time
 * that a codec may need before it looks at the deadline. */
static bool is_overdue(const struct job_run *run, uint64_t now_ns, double grace_s)
{
    uint64_t from_ns = atomic_load(&run->timing.deadline_ns);
    if (from_ns == CLOCK_STANDS)
        return false;
    if (from_ns < run->pipeline->awake_ns)
        from_ns = run->pipeline->awake_ns;
    return now_ns > clock_after_s(from_ns + atomic_load(&run->timing.blind_ns), grace_s);
}

static void replace_worker(struct job_run *run, const struct error *error)
{
    char label[LABEL_BYTES];
    log_error("job %s: a worker hangs in stage %s and is replaced", job_run_label(run, label),
              stage_name(atomic_load(&run->at)));
    workers_give_up(run->pipeline->parts.workers, &run->worker_task);
    ack_abandon(run, error);
}

/* Slow workers return, but those that wait for a file server may never do so. Therefore the process
 * ends only if as many threads as there are workers, or as many slots as `inflight`, have been
 * occupied for a long time. A zombie occupies its slot as long as its worker hangs. */
static bool is_usable(struct pipeline *pipeline, uint64_t now_ns)
{
    const struct options *options = pipeline->parts.options;
    bool full = workers_away(pipeline->parts.workers) >= options->workers ||
                pipeline->zombies.length >= options->inflight;
    if (!full)
        pipeline->hung_ns = 0;
    else if (pipeline->hung_ns < pipeline->awake_ns || pipeline->hung_ns == 0)
        pipeline->hung_ns = now_ns;
    return !full || now_ns < clock_after_s(pipeline->hung_ns, HUNG_GRACES * options->hang_grace_s);
}

/* Ends a job that was withdrawn. If its device failed, the job keeps that error, which is retried.
 */
static void end_late(struct job_run *run, const struct error *late)
{
    const struct engine_task *task = &run->engine_task;
    bool failed = job_run_is_on_device(run) && task->error.status == STATUS_GPU_FAILED;
    run->error = failed ? task->error : *late;
    pipeline_resume(run, failed && task->returned ? RESULT_RETURN : RESULT_END);
}

/* A waiting job ends at its deadline. A worker checks the deadline itself, so a job that it owns
 * ends here only after the grace. The engine ends its jobs itself. */
static void check_deadline(struct job_run *run, uint64_t now)
{
    struct pipeline *pipeline = run->pipeline;
    if (now < atomic_load(&run->timing.deadline_ns))
        return;
    struct error error = {0};
    job_run_set_late(run, &error);
    if (stage_withdraw(run)) { /* uncovered: moment */
        end_late(run, &error);
        return;
    }
    if (!job_run_is_on_device(run) && is_overdue(run, now, pipeline->parts.options->hang_grace_s))
        replace_worker(run, &error);
}

/* Returns jobs that waited too long to the queue, for a daemon that has free workers or memory. The
 * youngest goes first: the queue fetches the last one first, so the order is kept. */
static void send_back_waiting(struct pipeline *pipeline, uint64_t now)
{
    char label[LABEL_BYTES];
    for (enum stage stage = STAGE_READ; stage <= STAGE_DECODE; stage++) {
        each_run_back (run, &pipeline->stages[stage]) {
            if (is_under_way(run) || now < run->timing.waits_until_ns || !stage_withdraw(run))
                continue;
            log_info("job %s goes back after it waited %.1f s in stage %s",
                     job_run_label(run, label), clock_ms(run->timing.fetched_ns, now) / 1e3,
                     stage_name(stage));
            pipeline_resume(run, RESULT_RETURN);
        }
    }
}

void deadline_on_tick(uv_timer_t *timer)
{
    struct pipeline *pipeline = timer->data;
    uint64_t now = clock_now_ns();
    /* After a stop of the whole process (SIGSTOP, a suspended host) the workers do not hang: their
     * grace starts now. */
    if (now > clock_after_s(pipeline->ticked_ns, SLEPT_S))
        pipeline->awake_ns = now;
    pipeline->ticked_ns = now;
    workers_collect(pipeline->parts.workers);
    for (enum stage stage = STAGE_READ; stage < STAGE_ACK; stage++)
        each_run(run, &pipeline->stages[stage]) check_deadline(run, now);
    send_back_waiting(pipeline, now);
    set_stage_send_back(pipeline, now);
    if (!is_usable(pipeline, now))
        pipeline->parts.failed(pipeline->parts.context, "too many workers hang");
    pipeline_wake(pipeline);
    if (atomic_load(&pipeline->inflight) == 0)
        uv_timer_stop(&pipeline->tick);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Jobs that wait for a reply of Redis, or for keys of a role, do not count. */
bool deadline_healthy(const struct pipeline *pipeline)
{
    /* Twice the grace, because a hung worker is replaced after one. */
    double grace_s = 2 * pipeline->parts.options->hang_grace_s + 1;
    uint64_t now_ns = clock_now_ns(), moved_ns = later(pipeline->moved_ns, pipeline->awake_ns);
    bool runs = false, waited = false;
    for (enum stage stage = STAGE_READ; stage < STAGE_ACK; stage++) {
        each_run (run, &pipeline->stages[stage]) {
            if (is_overdue(run, now_ns, grace_s))
                return false; /* uncovered: moment */
            runs |= is_under_way(run);
            waited |= !run->input.reading && stage < STAGE_UPLOAD &&
                      now_ns > clock_after_s(later(run->timing.entered_ns, moved_ns), grace_s);
        }
    }
    return runs || !waited;
}
