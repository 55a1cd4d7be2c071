#include "daemon/explain_memory.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/machine.h"
#include "daemon/pipeline/admission.h"
#include "daemon/sets/set_source.h"

void explain_memory_resolve(struct options *options)
{
    struct machine machine;
    machine_read(&machine);
    options_resolve(options, machine.memory_bytes, machine.cpus);
    if (options->workers == 0)
        options->workers = machine.cpus < WORKERS_CEILING ? machine.cpus : WORKERS_CEILING;
}

/* All of a job's buffers are one block of the pool. */
static void check_pinned(struct job_run *run, const struct options *options)
{
    const struct plan *plan = &run->plan;
    bool on_cores = strcmp(options->engine, "cpu") == 0;
    size_t bytes = buffer_align(plan->input_bytes) + buffer_align(plan->output_bytes) +
                   (on_cores ? plan->scratch_bytes : 0);
    if (bytes > options->pinned_bytes)
        error_set(&run->error, STATUS_OVER_BUDGET,
                  "the job needs %zu bytes of pinned memory; pinned_bytes allows %" PRIu64
                  " in all",
                  bytes, options->pinned_bytes);
}

void explain_memory_check(struct job_run *run, const struct options *options)
{
    uint32_t sharers = options_sets(options, false);
    run->is_frame = run->job.source == JOB_ANIMATION && codec_is_animation(&run->info);
    if (run->is_frame && !set_source_may_compose(&run->info, run->input.bytes, options->host_bytes,
                                                 sharers, &run->error))
        return;
    if (admission_check(run, admission_lane_bytes(options->host_bytes)))
        check_pinned(run, options);
}
