#include "daemon/pipeline/lease_events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/spine.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"
#include "gpu/plan/op_list.h"
#include "queue/job/result.h"

/* A job may wait in one daemon for job_timeout_s before it goes back to the queue. By the loop's
 * time, jobs that were fetched together go back together, and so keep their order. */
static void bound_wait(struct job_run *run)
{
    const struct pipeline *pipeline = run->pipeline;
    run->timing.waits_until_ns = clock_after_s(uv_now(pipeline->tick.loop) * 1000000,
                                               pipeline->parts.options->job_timeout_s);
}

static struct job_run *take_run(struct pipeline *pipeline, struct lease *lease)
{
    struct list_node *node = list_first(&pipeline->free);
    if (!node) /* uncovered: memory */
        return NULL;
    struct job_run *run = container_of(node, struct job_run, node);
    job_run_reset(run, pipeline);
    run->lease = lease;
    run->queue = lease->queue;
    run->number = lease->number;
    run->shard = lease->shard;
    run->shards = lease->shards;
    run->fetch = lease->fetch;
    run->attempt = lease->attempt;
    run->alone = lease->alone;
    lease->job = run;
    pipeline->parts.totals->attempts++;
    run->worker_task.run = spine_run;
    run->worker_task.done = spine_done;
    run->worker_task.rank = ranks_next(&pipeline->ranks, lease->priority);
    run->timing.fetched_ns = clock_now_ns();
    run->timing.deadline_ns = CLOCK_STANDS;
    bound_wait(run);
    run->timing.queue_ms = -1;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        run->timing.ms[stage] = -1;
    run->bounds.same_root = pipeline->parts.files->same_root;
    run->bounds.prefixes = fetcher_prefixes(pipeline->parts.fetcher);
    job_run_take_bounds(run, pipeline->parts.options);
    run->bounds.ns = queue_namespace(lease->queue);
    trace_hooks_begin(run);
    return run;
}

/* false: no memory. Such a job is not answered: its id and reply_to may be unknown. */
static bool parse(struct job_run *run, const struct lease *lease)
{
    const struct options *options = run->pipeline->parts.options;
    struct job_rules rules = {run->bounds.ns, options->job_timeout_s};
    if (!lease->raw) {
        if (lease->raw_bytes > JOB_BYTES_MAX)
            error_set(&run->error, STATUS_BAD_JSON, "the job has %zu bytes; at most %llu are "
                      "allowed", lease->raw_bytes, JOB_BYTES_MAX);
        else
            error_set(&run->error, STATUS_BAD_JSON, "the job has %zu bytes, but Redis breaks the "
                      "connection when it sends them; at most %zu were asked for; raise its "
                      "client-output-buffer-limit, or the limit of a proxy",
                      lease->raw_bytes, lease->raw_bytes_max);
        return true;
    }
    enum status status = job_parse(&run->job, lease->raw, lease->raw_bytes, &rules, &run->error);
    memset(run->outputs, 0, run->job.output_count * sizeof *run->outputs);
    if (status != STATUS_OK)
        return status != STATUS_OUT_OF_MEMORY;
    run->timing.left_ns = (uint64_t)(run->job.timeout_s * NS_PER_S);
    if (run->job.pushed > 0) {
        double waited = clock_unix_s() - run->job.pushed;
        run->timing.queue_ms = waited > 0 ? waited * 1e3 : 0;
    }
    planning_check(run);
    return true;
}

/* Until the job ends. */
static void count_text(struct job_run *run, size_t bytes)
{
    run->text_bytes += bytes;
    run->pipeline->text_bytes += bytes;
}

/* Frees what a job does not need while it waits. Keeps only the beginning of its text: logs quote
 * it if the input is unknown. false: no memory. */
static bool shrink(struct job_run *run, struct lease *lease)
{
    if (!lease->raw)
        return true;
    bool stored = job_drop_tree(&run->job);
    for (size_t i = 0; i < run->job.output_count; i++)
        count_text(run, op_list_bytes(run->outputs[i].ops));
    count_text(run, run->job.bytes + lease->raw_bytes);
    lease->head_bytes = lease->raw_bytes < JOB_EXCERPT_BYTES_MAX ? lease->raw_bytes
                                                                  : JOB_EXCERPT_BYTES_MAX;
    char *head = realloc(lease->raw, lease->head_bytes + 1);
    lease->head = head ? head : lease->raw;
    lease->raw = NULL;
    return stored;
}

static enum outcome outcome_of_fetch(struct job_run *run, struct lease *lease)
{
    const char *lacking = parse(run, lease) ? NULL : "parse";
    if (!shrink(run, lease) && !lacking) /* uncovered: moment */
        lacking = "store";
    if (lacking) {
        char label[LABEL_BYTES];
        log_error("job %s: no memory to %s it; it returns to the queue", job_run_label(run, label),
                  lacking);
        return OUTCOME_RETURNED;
    }
    if (run->error.status != STATUS_OK)
        return OUTCOME_REFUSED;
    return run->pipeline->failed ? OUTCOME_RETURNED : OUTCOME_OPEN;
}

void lease_events_leased(void *context, struct lease *lease)
{
    struct pipeline *pipeline = context;
    struct job_run *run = take_run(pipeline, lease);
    if (!run) { /* uncovered: moment */
        assert(!"the queue fetched more than it was offered");
        queue_give_back(lease->queue, lease);
        return;
    }
    if (!uv_is_active((uv_handle_t *)&pipeline->tick)) {
        pipeline->ticked_ns = clock_now_ns();
        uv_timer_again(&pipeline->tick);
    }
    enum outcome outcome = outcome_of_fetch(run, lease);
    lease->id = run->job.id;
    spine_begin(run, outcome);
}

/* ---- decisions about the start -------------------------------------------------------------- */

/* A job that does not wait ends after the stage that is running, or is in ACK already. */
static void cancel(struct job_run *run)
{
    if (job_run_is_open(run))
        job_run_decide(run, OUTCOME_CANCELLED);
    if (run->stage == STAGE_SET)
        set_stage_stop(run);
    if (stage_withdraw(run))
        pipeline_resume(run, RESULT_END);
}

static void repeat(struct job_run *run, const char *kept)
{
    run->repeat = result_repeat(kept, &run->job, run->number);
    count_text(run, run->repeat ? strlen(run->repeat) : 0);
    if (!run->repeat) /* uncovered: refusal */
        error_set(&run->error, STATUS_INTERNAL,
                  "the stored result of the first job with this id cannot be read");
}

/* laters: how often the disk had no room for an output, or "". */
static void expire(struct job_run *run, const char *laters)
{
    const struct job_time *expires = &run->job.expires;
    char times[96] = "";
    if (*laters)
        snprintf(times, sizeof times, "; before, the disk had no room for an output %.16s time%s",
                 laters, strcmp(laters, "1") == 0 ? "" : "s");
    if (expires->relative)
        error_set(&run->error, STATUS_EXPIRED,
                  "the job expired %.3f s after a daemon first took "
                  "it; it is not started after that time%s",
                  expires->seconds, times);
    else
        error_set(&run->error, STATUS_EXPIRED,
                  "the job expired at %.3f; it is not started after "
                  "that time%s",
                  expires->seconds, times);
}

static enum stage_result obey(struct job_run *run, enum start_decision decision, const char *kept)
{
    if (decision == START_GO)
        return RESULT_NEXT;
    if (decision == START_WAITS)
        return RESULT_RETURN;
    if (decision == START_EXPIRED)
        expire(run, kept);
    else
        repeat(run, kept);
    return RESULT_END;
}

void lease_events_start_decided(void *context, struct lease *lease, enum start_decision decision,
                                const char *kept)
{
    struct pipeline *pipeline = context;
    struct job_run *run = lease->job;
    if (!run) /* uncovered: moment */
        return;
    if (decision == START_CANCELLED) {
        cancel(run);
    } else if (run->stage == STAGE_ASK) {
        bound_wait(run);
        pipeline_resume(run, obey(run, decision, kept));
    }
    pipeline_wake(pipeline);
}

/* ---- leases that are lost ------------------------------------------------------------------- */

void lease_events_lost(void *context, struct lease *lease)
{
    struct pipeline *pipeline = context;
    struct job_run *run = lease->job;
    if (!run) /* uncovered: moment */
        return;
    char label[LABEL_BYTES];
    log_warning("job %s: the lease expired, another daemon may run the job",
                job_run_label(run, label));
    if (run->outcome != OUTCOME_LOST && run->outcome != OUTCOME_RETURNED)
        job_run_decide(run, OUTCOME_LOST);
    if (run->stage == STAGE_SET)
        set_stage_stop(run);
    if (stage_withdraw(run)) { /* uncovered: moment */
        pipeline_resume(run, RESULT_END);
        pipeline_wake(pipeline);
    }
}
