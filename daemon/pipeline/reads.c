#include "daemon/pipeline/reads.h"

#include "conf/clock.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

/* ---- one read ------------------------------------------------------------------------------- */

static void on_loaded(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct job_run *run = context;
    struct pipeline *pipeline = run->pipeline;
    run->input.reading = NULL;
    if (error) {
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
    on_loaded(context, bytes, length, error);
}

static void *start_download(struct job_run *run)
{
    struct transfer_request request = {
        .direction = METRICS_DOWNLOAD,
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
    bool is_overlay = run->overlays.key != NULL;
    if (!run->input.reading)
        return;
    if (run->job.input.url && !is_overlay)
        fetcher_cancel(run->pipeline->parts.fetcher, run->input.reading);
    else
        queue_read_cancel(run->queue, run->input.reading);
    run->input.reading = NULL;
}

static void on_overlay_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct job_run *run = context;
    struct pipeline *pipeline = run->pipeline;
    run->input.reading = NULL;
    if (error) {
        job_overlays_fail_key(run, error);
    } else {
        run->overlays.loaded = bytes;
        run->overlays.loaded_bytes = length;
        run->overlays.counted = true;
    }
    pipeline_resume(run, RESULT_AGAIN);
    pipeline_wake(pipeline);
}

static void *request_key(struct job_run *run, const char *key, queue_read_cb callback)
{
    return queue_read(run->queue, key, run->bounds.input_bytes_max, &run->worker_task.rank,
                      callback, run);
}

/* Whether the input must be read from Redis or downloaded. */
static bool is_input_missing(const struct job_run *run)
{
    return job_place_is_in_memory(&run->job.input) && !run->overlays.loaded &&
           !run->input.loaded && !run->input.file.memory;
}

/* Whether the job reads a key, or downloads, while it holds overlays. */
static bool reads_beside_overlays(const struct job_run *run)
{
    return run->owner == OWNER_LOOP && run->input.reading && run->overlays.held > 0;
}

static bool is_downloading(const struct job_run *run)
{
    return run->job.input.url && !run->overlays.key;
}

/* A job that waits for room keeps its loaded input, which counts towards the budget for keys or for
 * downloads. This could deadlock: a job with overlays needs that budget, and the waiting job needs
 * the room of these overlays. So waiting jobs drop their inputs, and read them again later. */
static void free_budget_for(struct job_run *reader)
{
    each_run (run, &reader->pipeline->stages[STAGE_READ])
        if (run != reader && run->owner == OWNER_LOOP && run->input.loaded &&
            run->overlays.held == 0 && (run->job.input.url != NULL) == is_downloading(reader))
            job_input_drop_loaded(run);
}

static void free_budget(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_READ])
        if (reads_beside_overlays(run))
            free_budget_for(run);
}

/* Whether free_budget would drop this job's input right after the read. Then the read waits until
 * the job with overlays has read its own input. */
static bool must_yield(const struct job_run *run)
{
    if (run->overlays.held > 0 || !is_input_missing(run))
        return false;
    each_run (reader, &run->pipeline->stages[STAGE_READ])
        if (reads_beside_overlays(reader) &&
            (run->job.input.url != NULL) == is_downloading(reader))
            return true;
    return false;
}

static enum stage_result start_read(struct job_run *run)
{
    const struct job_place *place = &run->job.input;
    bool lays = job_overlays_next_key(run), loads = lays || is_input_missing(run);
    char url[JOB_URL_BYTES_MAX + 1];
    if (run->error.status != STATUS_OK)
        return RESULT_END;
    if (!loads) {
        run->input.files_given = run->pipeline->files_given;
        return RESULT_RUN;
    }
    run->input.reading = lays ? request_key(run, run->overlays.key, on_overlay_read)
                         : place->url ? start_download(run)
                                      : request_key(run, place->key, on_loaded);
    if (run->input.reading) {
        if (reads_beside_overlays(run))
            free_budget_for(run);
        return RESULT_WAIT;
    }
    error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory to read \"%.200s\"",
              lays ? run->overlays.key : job_place_name(place, url));
    return RESULT_END;
}

static bool is_waiting(const struct job_run *run)
{
    return run->owner == OWNER_LOOP && !run->input.reading;
}

/* Whether the job has overtaken all reads that wait. */
static bool is_first(const struct job_run *run)
{
    each_run(other, &run->pipeline->stages[STAGE_READ])
    {
        if (other == run)
            return !must_yield(run);
        if (other->input.turn == TURN_REFUSED ||
            (is_waiting(other) && other->input.turn != TURN_ASIDE))
            return false;
    }
    return false;
}

/* A job that has read the key of an overlay does not wait in the line: the jobs before it may need
 * its memory, or its part of the queue's budget. */
enum stage_result reads_enter(struct job_run *run)
{
    bool holds = run->overlays.held > 0 || run->overlays.loaded;
    if (!run->pipeline->reads_wait || holds || is_first(run)) /* else reads_pump starts it */
        return start_read(run);
    free_budget(run->pipeline);
    return RESULT_WAIT;
}

/* ---- the line ------------------------------------------------------------------------------- */

void reads_refuse(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    /* If memory was released during the read, the job tries again at once. */
    pipeline->read_stalled = run->input.files_given == pipeline->files_given;
    run->input.turn = TURN_REFUSED;
    pipeline->reads_wait = true;
    /* Its overlays from keys may need its part of the queue's budget. */
    if (run->overlays.key_count > 0 && run->job.input.key)
        job_input_drop_loaded(run);
    free_budget(pipeline);
}

/* Whether the first refused read lacks room in the lane, which is in use. */
static bool lane_will_come(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_READ])
        if (run->input.turn == TURN_REFUSED)
            return run->overlays.lacks_lane && admission_usage(&pipeline->admission).used > 0;
    return false;
}

/* Whether a job other than a zombie holds memory of the file pool, or will take some soon. */
static bool room_will_come(struct pipeline *pipeline)
{
    if (!list_empty(&pipeline->stages[STAGE_DECODE]) || lane_will_come(pipeline))
        return true;
    each_run (run, &pipeline->stages[STAGE_ADMIT])
        if (run->input.turn != TURN_ASIDE)
            return true;
    each_run (run, &pipeline->stages[STAGE_READ])
        if (run->owner == OWNER_WORKER || run->overlays.held > 0)
            return true;
    each_run (run, &pipeline->stages[STAGE_GPU])
        if (run->input.file.memory)
            return true;
    return false;
}

/* The first waiting read needs memory that only zombies hold: it steps aside. */
static void set_aside_first(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_READ]) {
        if (run->input.turn != TURN_REFUSED)
            continue;
        run->input.turn = TURN_ASIDE;
        job_input_drop_loaded(run); /* frees the budget for others; the key or URL is read again */
        return;
    }
}

/* While a refused job tries again, later jobs wait. Otherwise small files would take all the room
 * that a large file waits for. */
void reads_pump(struct pipeline *pipeline)
{
    if (!pipeline->reads_wait || (pipeline->read_stalled && room_will_come(pipeline)))
        return;
    if (pipeline->read_stalled && !list_empty(&pipeline->zombies))
        set_aside_first(pipeline);
    pipeline->reads_wait = pipeline->read_stalled = false;
    each_run (run, &pipeline->stages[STAGE_READ]) {
        enum turn turn = run->input.turn;
        if (turn == TURN_ASIDE)
            continue;
        bool waits = is_waiting(run);
        if (waits && must_yield(run))
            pipeline->reads_wait = true;
        else if (waits)
            pipeline_resume(run, start_read(run));
        if (turn == TURN_REFUSED) {
            pipeline->reads_wait = true;
            return;
        }
    }
}
