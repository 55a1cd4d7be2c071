/* steps.c - the stages READ, DECODE and GPU on a worker. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/pipeline/pipeline_impl.h"

/* ---- read ----------------------------------------------------------------------------------- */

/* Allocates the input from the file pool, plus one byte for files_read_input. false: the job waits
 * for room, or has failed. */
static bool take_room(struct job_run *run)
{
    struct pool *pool = run->pipeline->file_pool;
    uint64_t bytes = run->input.bytes + 1;
    bool exhausted = false;
    if (!pool_fits(pool, bytes)) { /* uncovered: net */
        error_set(&run->error, STATUS_OVER_BUDGET,
                  "the input needs %" PRIu64 " bytes; the limit is %zu bytes, half of host_bytes",
                  bytes, pool_usage(pool).budget);
        return false;
    }
    if (pool_take(pool, bytes, &run->input.file, &exhausted))
        return true;
    if (exhausted)
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for an input of %" PRIu64 " bytes",
                  run->input.bytes);
    return false;
}

static void read_path(struct job_run *run)
{
    const char *path = run->job.input.path;
    struct files_input input;
    if (files_open_input(run->pipeline->parts.files, path, run->bounds.input_bytes_max, &input,
                         &run->error) != STATUS_OK)
        return;
    run->input.bytes = input.size;
    run->input.identity = input.identity;
    if (take_room(run)) {
        enum status status =
            files_read_input(input.fd, path, run->input.file.memory, run->input.bytes, &run->error);
        (void)status; /* kept in run->error */
    }
    close(input.fd);
}

static void read_loaded(struct job_run *run)
{
    if (!take_room(run))
        return;
    memcpy(run->input.file.memory, run->input.loaded, run->input.bytes);
    free(run->input.loaded);
    run->input.loaded = NULL;
}

void job_run_start_clock(struct job_run *run)
{
    if (atomic_load(&run->timing.deadline_ns) == CLOCK_STANDS)
        atomic_store(&run->timing.deadline_ns, clock_now_ns() + run->timing.left_ns);
}

/* The clock stops between read and decode. A read that found no room costs the job no time. */
static void stop_clock(struct job_run *run)
{
    uint64_t now_ns = clock_now_ns(), deadline_ns = atomic_load(&run->timing.deadline_ns);
    bool began = !job_run_lacks_room(run);
    if (now_ns >= deadline_ns && began)
        job_run_set_late(run, &run->error);
    if (began)
        run->timing.left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    atomic_store(&run->timing.deadline_ns, CLOCK_STANDS);
}

/* Keeps only little memory on the heap until the job is admitted. */
static void drop_large(struct job_run *run)
{
    if (run->error.status != STATUS_OK) {
        job_run_drop_plan(run);
        return;
    }
    if (run->info.icc_bytes > ICC_KEPT_BYTES)
        image_info_drop_icc(&run->info);
    if (run->plan_bytes > PLAN_KEPT_BYTES)
        plan_drop_passes(&run->plan);
}

/* The job's deadline, or the given time from now if that is earlier. */
static uint64_t deadline_within(const struct job_run *run, double seconds)
{
    uint64_t own = clock_after_s(clock_now_ns(), seconds);
    return own < run->timing.deadline_ns ? own : run->timing.deadline_ns;
}

/* A decoder that reached the job's deadline before decode_timeout_s reports the job's timeout. */
static void take_codec_error(struct job_run *run, const struct error *error)
{
    if (error->status == STATUS_DECODE_LIMIT && clock_now_ns() >= run->timing.deadline_ns)
        error_set(&run->error, STATUS_TIMEOUT, "the job exceeded its timeout_s of %g s: %s",
                  run->job.timeout_s, error->text);
    else
        run->error = *error;
}

static void read_and_probe(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    if (run->input.loaded)
        read_loaded(run);
    else if (!run->input.file.memory) /* else a device has declined the file */
        read_path(run);
    if (!run->input.file.memory || run->error.status != STATUS_OK)
        return;
    run->bounds.codec.deadline_ns = deadline_within(run, run->bounds.decode_timeout_s);
    if (codec_probe(tools->codec, run->input.file.memory, run->input.bytes, &run->bounds.codec,
                    &run->info, &error) == STATUS_OK)
        job_run_build_plan(run, tools);
    else
        take_codec_error(run, &error);
    drop_large(run);
}

void job_run_read(struct job_run *run, struct worker_tools *tools)
{
    read_and_probe(run, tools);
    stop_clock(run);
}

/* ---- decode --------------------------------------------------------------------------------- */

/* Restores what drop_large freed before admission. */
static void restore_large(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    if (run->plan_bytes > PLAN_KEPT_BYTES)
        job_run_restore_plan(run);
    if (codec_read_icc(tools->codec, run->input.file.memory, run->input.bytes, &run->bounds.codec,
                       &run->info, &error) != STATUS_OK)
        take_codec_error(run, &error);
}

void job_run_decode(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    run->bounds.codec.deadline_ns = deadline_within(run, run->bounds.decode_timeout_s);
    restore_large(run, tools);
    if (run->error.status != STATUS_OK)
        return;
    plan_put_constants(&run->plan, run->reserved.memory.input);
    if (!route_put(run, tools) || run->input.decoder == CODEC_ON_DEVICE)
        return;
    struct image image = plan_input(&run->plan, run->reserved.memory.input);
    if (codec_decode(tools->codec, run->input.file.memory, run->input.bytes, &run->info,
                     &run->decode, &run->bounds.codec, &image, &error) != STATUS_OK)
        take_codec_error(run, &error);
}

/* ---- compute -------------------------------------------------------------------------------- */

void job_run_compute(struct job_run *run, struct worker_tools *tools)
{
    (void)tools;
    engine_run(run->pipeline->parts.engine, &run->engine_task);
    if (run->engine_task.error.status != STATUS_OK)
        run->error = run->engine_task.error;
}
