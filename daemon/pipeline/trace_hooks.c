#include "daemon/pipeline/trace_hooks.h"

#include "conf/clock.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

/* Shorter waits are not recorded: they are hand-overs between threads. */
#define WAIT_NS 100000

/* STAGE_GPU: on the CPU engine only. */
static const enum trace_what whats[STAGE_COUNT] = {
    [STAGE_READ] = TRACE_READ, [STAGE_DECODE] = TRACE_DECODE,
    [STAGE_GPU] = TRACE_KERNEL, [STAGE_ENCODE] = TRACE_ENCODE,
};

static void sample(const struct job_run *run, struct trace_sample *sample, uint64_t at_ns)
{
    *sample = (struct trace_sample){
        .at_ns = at_ns,
        .pinned_bytes = engine_pinned_usage(run->pipeline->parts.engine).used,
        .inflight = atomic_load(&run->pipeline->inflight),
    };
}

static bool is_traced(const struct job_run *run)
{
    return run->pipeline->parts.trace != NULL;
}

void trace_hooks_begin(struct job_run *run)
{
    if (!is_traced(run))
        return;
    run->trace.number = run->number;
    run->trace.shard = run->shard;
    run->trace.shards = run->shards;
    run->trace.attempt = run->attempt;
    run->trace.begin_ns = run->timing.fetched_ns;
}

/* End of the last recorded slice. */
static uint64_t said_ns(const struct trace_job *job)
{
    return job->count > 0 ? job->slices[job->count - 1].end_ns : job->begin_ns;
}

static void waited(struct job_run *run, uint64_t until_ns)
{
    uint64_t from_ns = said_ns(&run->trace);
    if (until_ns > from_ns + WAIT_NS)
        trace_job_add(&run->trace, TRACE_WAIT, TRACE_OF_JOB, from_ns, until_ns);
}

void trace_hooks_admit(struct job_run *run, uint64_t begin_ns, uint64_t admitted_ns)
{
    if (!is_traced(run))
        return;
    waited(run, begin_ns);
    trace_job_add(&run->trace, TRACE_ADMIT, TRACE_OF_JOB, begin_ns, admitted_ns);
    sample(run, &run->trace.samples[0], admitted_ns);
}

/* On the worker. For the CPU engine, uses the same times as the result's ms.kernel. */
void trace_hooks_run(struct job_run *run, uint32_t worker, uint64_t begin_ns, uint64_t end_ns)
{
    enum stage stage = atomic_load(&run->at);
    if (!is_traced(run) || stage == STAGE_SET)
        return; /* images of a set have slices of their own */
    if (stage == STAGE_GPU) {
        begin_ns = run->engine_task.started_ns;
        end_ns = begin_ns + (uint64_t)(run->engine_task.kernel_ms * NS_PER_MS + 0.5);
    }
    waited(run, begin_ns);
    trace_job_add(&run->trace, whats[stage], TRACE_ON_WORKER(worker), begin_ns, end_ns);
}

/* Jobs of a batch share the stream's time, so that their slices do not overlap. A task that did not
 * finish has no times (started_ns 0) and is not recorded. */
void trace_hooks_task(struct job_run *run)
{
    const struct engine_task *task = &run->engine_task;
    if (!is_traced(run))
        return;
    const struct {
        enum trace_what what;
        uint64_t at_ns;
        double ms;
    } parts[] = {
        {TRACE_H2D, task->started_ns, task->h2d_ms},
        {TRACE_DEVICE_DECODE, task->decode_at_ns, task->decode_ms},
        {TRACE_KERNEL, task->kernel_at_ns, task->kernel_ms - task->decode_ms - task->encode_ms},
        {TRACE_DEVICE_ENCODE, task->encode_at_ns, task->encode_ms},
        {TRACE_D2H, task->d2h_at_ns, task->d2h_ms},
    };
    uint32_t device = run->reserved.device;
    if (task->started_ns == 0) /* uncovered: gpu */
        return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool codec = parts[i].what == TRACE_DEVICE_DECODE || parts[i].what == TRACE_DEVICE_ENCODE;
        if (codec && parts[i].ms == 0)
            continue;
        uint64_t end_ns = parts[i].at_ns + (uint64_t)(parts[i].ms * NS_PER_MS + 0.5);
        waited(run, parts[i].at_ns); /* for copies and kernels of other jobs of the batch */
        bool begins = parts[i].what == TRACE_H2D || parts[i].what == TRACE_DEVICE_DECODE;
        uint32_t slot = begins ? task->decode_slot : task->slot;
        trace_job_add(&run->trace, parts[i].what, TRACE_ON_STREAM(device, slot), parts[i].at_ns,
                      end_ns);
    }
}

static const char *end_of(const struct job_run *run)
{
    if (run->outcome == OUTCOME_RETURNED) /* uncovered: refusal */
        return "given back";
    if (run->error.status != STATUS_OK)
        return status_name(run->error.status);
    return run->outcome == OUTCOME_LOST ? "lost" : "done";
}

/* A zombie's record ends when its worker or the engine has returned the job. */
void trace_hooks_end(struct job_run *run)
{
    struct trace_job *job = &run->trace;
    if (!is_traced(run))
        return;
    job->end_ns = clock_now_ns();
    if (run->stage == STAGE_ACK || run->has_joined)
        trace_job_add(job, TRACE_ACK, TRACE_OF_JOB, said_ns(job), job->end_ns);
    job->width = run->info.width;
    job->height = run->info.height;
    job->end = end_of(run);
    trace_context_read(&job->context, run->job.traceparent);
    sample(run, &job->samples[1], job->end_ns);
    job->samples[1].inflight--; /* this job is still counted */
    trace_put(run->pipeline->parts.trace, job);
}
