#include "daemon/pipeline/job_run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "daemon/device_codecs.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/state.h"

/* ---- the state ------------------------------------------------------------------------------ */

bool job_run_may_move(enum stage stage, enum owner owner, enum stage to_stage, enum owner to_owner)
{
    static const unsigned to_stages[STAGE_COUNT][OWNER_COUNT][OWNER_COUNT] = {
#define MOVE(stage, owner, to_owner, stages)                                                       \
    [STAGE_##stage][OWNER_##owner][OWNER_##to_owner] = stages,
        JOB_RUN_MOVES(MOVE)
#undef MOVE
    };
    return to_stages[stage][owner][to_owner] >> to_stage & 1;
}

bool job_run_may_decide(enum outcome from, enum outcome to)
{
    static const unsigned outcomes[OUTCOME_COUNT] = {
#define DECISION(outcome, outcomes) [OUTCOME_##outcome] = outcomes,
        JOB_RUN_DECISIONS(DECISION)
#undef DECISION
    };
    return outcomes[from] >> to & 1;
}

static struct list *list_of(struct job_run *run, enum stage stage, enum owner owner)
{
    struct pipeline *pipeline = run->pipeline;
    if (owner == OWNER_NONE)
        return run->is_image ? &pipeline->free_images : &pipeline->free;
    return owner == OWNER_ZOMBIE ? &pipeline->zombies : &pipeline->stages[stage];
}

/* Only the loop writes it, so this needs no locked instruction, which would wait for all writes
 * before it. Nor does the store of `at` below: the lock of the workers orders it. */
static void count_inflight(struct pipeline *pipeline, int more)
{
    uint32_t now = atomic_load_explicit(&pipeline->inflight, memory_order_relaxed);
    atomic_store_explicit(&pipeline->inflight, now + (uint32_t)more, memory_order_release);
}

void job_run_move(struct job_run *run, enum stage stage, enum owner owner)
{
    assert(job_run_may_move(run->stage, run->owner, stage, owner));
    struct list *from = list_of(run, run->stage, run->owner);
    struct list *to = list_of(run, stage, owner);
    if (from != to) {
        list_remove(from, &run->node);
        rank_push(to, &run->node, JOB_RUN_RANK);
        count_inflight(run->pipeline, (run->owner == OWNER_NONE) - (owner == OWNER_NONE));
    }
    if (run->stage != stage)
        atomic_store_explicit(&run->at, stage, memory_order_release);
    run->stage = stage;
    run->owner = owner;
}

void job_run_decide(struct job_run *run, enum outcome outcome)
{
    assert(job_run_may_decide(run->outcome, outcome));
    atomic_store(&run->outcome, outcome);
}

bool job_run_is_open(const struct job_run *run)
{
    return atomic_load(&run->outcome) == OUTCOME_OPEN;
}

static_assert(offsetof(struct job_run, engine_task) -
                      offsetof(struct job_run, reserved.memory) <= ENGINE_BESIDE_BYTES,
              "the members that on_computed uses are beside the task");

void job_run_reset(struct job_run *run, struct pipeline *pipeline)
{
    assert(run->owner == OWNER_NONE);
    struct list_node node = run->node;
    memset(run, 0, offsetof(struct job_run, engine_task));
    run->node = node;
    run->pipeline = pipeline;
    error_clear(&run->error);
    error_clear(&run->disk_error);
    run->plan.variant_count = 0;
    run->engine_task.plan = NULL;
    memset(&run->trace, 0, offsetof(struct trace_job, slices));
}

static bool is_gone(const struct codec_caller *caller)
{
    return !job_run_is_open(container_of(caller, struct job_run, bounds.caller));
}

static enum dispatch_rule rule_of(const char *option)
{
    return strcmp(option, "cuda") == 0 ? DISPATCH_TO_DEVICE : DISPATCH_AUTO;
}

void job_run_take_bounds(struct job_run *run, const struct options *options)
{
    run->bounds.codec = (struct codec_limits){
        .pixels_max = options->pixels_max,
        .side_max = (uint32_t)options->side_max,
        .jpeg_scans_max = (uint32_t)options->jpeg_scans_max,
        .jpeg_warnings_max = JPEG_WARNINGS_MAX,
        .lenient = options->lenient,
        .caller = &run->bounds.caller,
    };
    run->bounds.caller.is_gone = is_gone;
    run->bounds.plan = (struct plan_limits){options->pixels_max, (uint32_t)options->side_max};
    run->bounds.input_bytes_max = options->input_bytes_max;
    for (enum device_codec codec = DEVICE_CODEC_NONE + 1; codec < DEVICE_CODECS; codec++)
        run->bounds.codecs[codec] = rule_of(device_codec_option(options, codec));
    run->bounds.decode_timeout_s = options->decode_timeout_s;
    run->bounds.sync = options->sync_outputs;
    run->bounds.ns = options->namespace;
}

/* ---- the clock ------------------------------------------------------------------------------ */

void job_run_start_clock(struct job_run *run)
{
    if (atomic_load(&run->timing.deadline_ns) == CLOCK_STANDS)
        atomic_store(&run->timing.deadline_ns, clock_now_ns() + run->timing.left_ns);
}

void job_run_stop_clock(struct job_run *run)
{
    uint64_t now_ns = clock_now_ns(), deadline_ns = atomic_load(&run->timing.deadline_ns);
    if (deadline_ns == CLOCK_STANDS)
        return;
    run->timing.left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    atomic_store(&run->timing.deadline_ns, CLOCK_STANDS);
}

void job_run_add_time(struct job_run *run, enum stage stage, double ms)
{
    double *sum = &run->timing.ms[stage];
    *sum = (*sum > 0 ? *sum : 0) + ms;
}

void job_run_set_late(const struct job_run *run, struct error *error)
{
    error_set(error, STATUS_TIMEOUT, "the job exceeded its timeout_s of %g s in stage %s",
              run->job.timeout_s, stage_name(atomic_load(&run->at)));
}

void job_run_bound_codec(struct job_run *run)
{
    uint64_t own_ns = clock_after_s(clock_now_ns(), run->bounds.decode_timeout_s);
    uint64_t job_ns = run->timing.deadline_ns;
    run->bounds.codec.deadline_ns = own_ns < job_ns ? own_ns : job_ns;
}

void job_run_take_codec_error(struct job_run *run, const struct error *error)
{
    if (error->status == STATUS_DECODE_LIMIT && clock_now_ns() >= run->timing.deadline_ns)
        error_set(&run->error, STATUS_TIMEOUT, "the job exceeded its timeout_s of %g s: %s",
                  run->job.timeout_s, error->text);
    else
        run->error = *error;
}

/* ---- questions ------------------------------------------------------------------------------ */

bool job_run_is_on_device(const struct job_run *run)
{
    return atomic_load(&run->at) == STAGE_GPU &&
           !engine_is_synchronous(run->pipeline->parts.engine);
}

bool job_run_lacks_disk(const struct job_run *run)
{
    bool has_file = false;
    if (run->is_image && !run->set->model.is_early) /* no files, and a worker may prepare it now */
        return false;
    for (size_t i = 0; i < run->job.output_count; i++)
        has_file |= run->job.outputs[i].place.path != NULL;
    return has_file && run->pipeline->disk.failed;
}

const char *job_run_label(const struct job_run *run, char label[LABEL_BYTES])
{
    size_t bytes = 0;
    const char *text = run->lease ? lease_text(run->lease, &bytes) : NULL;
    const struct job_name name = {run->number, run->shard, run->shards};
    return label_job(label, name, &run->job, text, bytes);
}
