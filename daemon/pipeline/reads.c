#include "daemon/pipeline/reads.h"

#include "conf/clock.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

/* ---- budgets -------------------------------------------------------------------------------- */

/* Whether the input must be read from Redis or downloaded. */
static bool is_input_missing(const struct job_run *run)
{
    return job_place_is_in_memory(&run->job.input) && !run->input.loaded &&
           !run->input.file.memory && run->error.status == STATUS_OK;
}

/* Whether others wait until the job has read a key, or downloaded: it holds overlays, or its input,
 * or was refused, so that later jobs wait. */
static bool is_awaited(const struct job_run *run)
{
    return run->owner == OWNER_LOOP && run->input.reading &&
           (run->overlays.held > 0 || run->input.file.memory || run->wait.turn == TURN_REFUSED);
}

static bool is_downloading(const struct job_run *run)
{
    return run->job.input.url && run->input.step == READ_INPUT;
}

/* A job that waits for room keeps its loaded input, which counts towards the budget for keys or for
 * downloads. This could deadlock: a job for which it waits needs that budget. So waiting jobs drop
 * their inputs, and read them again later. */
static void free_budget_for(struct job_run *reader)
{
    each_run (run, &reader->pipeline->stages[STAGE_READ])
        if (run != reader && run->owner == OWNER_LOOP && run->input.loaded &&
            run->overlays.held == 0 && (run->job.input.url != NULL) == is_downloading(reader))
            job_input_drop_loaded(run);
}

void reads_free_budget(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_READ])
        if (is_awaited(run))
            free_budget_for(run);
}

bool reads_must_yield(const struct job_run *run)
{
    if (run->overlays.held > 0 || run->overlays.loaded || !is_input_missing(run))
        return false;
    each_run (reader, &run->pipeline->stages[STAGE_READ])
        if (is_awaited(reader) && (run->job.input.url != NULL) == is_downloading(reader))
            return true;
    return false;
}

/* ---- one read ------------------------------------------------------------------------------- */

static void on_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct job_run *run = context;
    struct pipeline *pipeline = run->pipeline;
    run->input.reading = NULL;
    if (run->input.step == READ_OVERLAY) {
        job_overlays_put_key(run, bytes, length, error);
    } else if (error) {
        run->error = *error;
    } else {
        run->input.loaded = bytes;
        run->input.key_counted = true;
        run->input.bytes = length;
    }
    pipeline_resume(run, RESULT_AGAIN);
    pipeline_wake(pipeline);
}

static void on_download_begun(void *context)
{
    struct job_run *run = context;
    run->timing.transfer_ns = clock_now_ns();
    job_run_start_clock(run);
}

static void on_downloaded(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct job_run *run = context;
    if (run->timing.transfer_ns > 0) {
        run->timing.download_ms += clock_ms(run->timing.transfer_ns, clock_now_ns());
        job_run_stop_clock(run);
    }
    on_read(context, bytes, length, error);
}

static void *start_download(struct job_run *run)
{
    struct transfer_request request = {
        .direction = TRANSFER_DOWNLOAD,
        .url = run->job.input.url,
        .bytes_max = run->bounds.input_bytes_max,
        .rank = run->worker_task.rank,
        .begun = on_download_begun,
        .done = on_downloaded,
        .context = run,
    };
    return fetcher_start(run->pipeline->parts.fetcher, &request);
}

void reads_leave(struct job_run *run)
{
    if (!run->input.reading)
        return;
    if (is_downloading(run))
        fetcher_cancel(run->pipeline->parts.fetcher, run->input.reading);
    else
        queue_read_cancel(run->queue, run->input.reading);
    run->input.reading = NULL;
}

static enum read_step next_step(struct job_run *run)
{
    if (job_is_set(&run->job)) /* its images have the overlays */
        return is_input_missing(run) ? READ_INPUT : READ_PLAN;
    bool measures = run->job.trim.wanted && run->trimmed.width == 0; /* it needs no overlays yet */
    if (!measures && (job_overlays_next_key(run) || run->overlays.loaded))
        return READ_OVERLAY;
    return is_input_missing(run) ? READ_INPUT : READ_PLAN;
}

enum stage_result reads_start(struct job_run *run)
{
    const struct job_place *place = &run->job.input;
    char url[JOB_URL_BYTES_MAX + 1];
    run->input.step = next_step(run);
    bool is_overlay = run->input.step == READ_OVERLAY;
    if (run->error.status != STATUS_OK)
        return RESULT_END;
    if (run->input.step == READ_PLAN || run->overlays.loaded) {
        run->wait.given = run->pipeline->files_given;
        return RESULT_RUN;
    }
    run->input.reading =
        is_downloading(run)
            ? start_download(run)
            : queue_read(run->queue, is_overlay ? run->overlays.key : place->key,
                         run->bounds.input_bytes_max, &run->worker_task.rank, on_read, run);
    if (run->input.reading) {
        if (is_awaited(run))
            free_budget_for(run);
        return RESULT_WAIT;
    }
    error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory to read \"%.200s\"",
              is_overlay ? run->overlays.key : job_place_name(place, url));
    return RESULT_END;
}
