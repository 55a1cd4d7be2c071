/*
 * reads.c - the first stage: inputs come from files or from Redis into the pool of input files.
 *
 * First come, first served: while a job waits for room, no younger one is read. Room that a worker
 * which hangs has is not waited for: a job that needs it steps aside until that worker comes back.
 */
#include <stdlib.h>

#include "daemon/pipeline/pipeline_impl.h"

/* ---- memory --------------------------------------------------------------------------------- */

void reads_end_key(struct job_run *run)
{
    if (run->input.key_counted && run->pipeline->queue)
        queue_read_release(run->pipeline->queue, run->input.bytes);
    run->input.key_counted = false;
}

bool job_run_lacks_room(const struct job_run *run)
{
    return !run->input.file.memory && run->error.status == STATUS_OK;
}

static void drop_loaded(struct job_run *run)
{
    free(run->input.loaded);
    run->input.loaded = NULL;
    reads_end_key(run);
}

void reads_release(struct job_run *run)
{
    if (run->input.file.memory) {
        pool_give(run->pipeline->file_pool, &run->input.file);
        run->pipeline->files_given++;
        run->pipeline->read_stalled = false;
    }
    drop_loaded(run);
}

/* ---- one read ------------------------------------------------------------------------------- */

static void on_key_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct job_run *run = context;
    struct pipeline *pipeline = run->pipeline;
    run->input.reading = NULL;
    if (error) {
        run->error = *error;
        stages_advance(run);
        return;
    }
    run->input.loaded = bytes;
    run->input.key_counted = true;
    run->input.bytes = length;
    reads_enter(run);
    pipeline_pump(pipeline);
}

static void start_read(struct job_run *run)
{
    if (!run->job.input.key || run->input.loaded) {
        run->input.files_given = run->pipeline->files_given;
        job_run_start_task(run);
        return;
    }
    run->input.reading = queue_read(run->pipeline->queue, run->job.input.key,
                                    run->bounds.input_bytes_max, on_key_read, run);
    if (run->input.reading)
        return;
    error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory to read the key \"%s\"",
              run->job.input.key);
    stages_move(run, STAGE_ACK);
}

void reads_enter(struct job_run *run)
{
    if (!run->pipeline->reads_wait) /* else reads_pump starts it */
        start_read(run);
}

/* ---- the line ------------------------------------------------------------------------------- */

void reads_refuse(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    /* If memory came back meanwhile, it tries again at once. */
    pipeline->read_stalled = run->input.files_given == pipeline->files_given;
    run->input.turn = TURN_REFUSED;
    pipeline->reads_wait = true;
    pipeline_pump(pipeline);
}

/* Whether a job that goes on has memory of the file pool, or is about to take some. */
static bool room_will_come(const struct pipeline *pipeline)
{
    if (!list_empty(&pipeline->stages[STAGE_DECODE]))
        return true;
    list_each (node, &pipeline->stages[STAGE_ADMIT])
        if (container_of(node, struct job_run, node)->input.turn != TURN_ASIDE)
            return true;
    list_each (node, &pipeline->stages[STAGE_READ])
        if (container_of(node, struct job_run, node)->owner == OWNER_WORKER)
            return true;
    return false;
}

/* The first read that waits needs more room than the workers that hang leave it. */
static void set_aside_first(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_READ]) {
        struct job_run *run = container_of(node, struct job_run, node);
        if (run->input.turn != TURN_REFUSED)
            continue;
        run->input.turn = TURN_ASIDE;
        drop_loaded(run); /* it is read again; others need its room among the reads */
        return;
    }
}

void reads_recall(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_READ]) {
        struct job_run *run = container_of(node, struct job_run, node);
        if (run->input.turn != TURN_ASIDE)
            continue;
        run->input.turn = TURN_REFUSED;
        pipeline->reads_wait = true;
    }
}

/* While one that was refused tries again, those after it wait, or small files would take all the
 * room that a large one waits for. */
void reads_pump(struct pipeline *pipeline)
{
    if (!pipeline->reads_wait || (pipeline->read_stalled && room_will_come(pipeline)))
        return;
    if (pipeline->read_stalled && !list_empty(&pipeline->zombies))
        set_aside_first(pipeline);
    pipeline->reads_wait = pipeline->read_stalled = false;
    list_each_safe (node, after, &pipeline->stages[STAGE_READ]) {
        struct job_run *run = container_of(node, struct job_run, node);
        enum turn turn = run->input.turn;
        if (turn == TURN_ASIDE)
            continue;
        if (run->owner == OWNER_LOOP && !run->input.reading)
            start_read(run);
        if (turn == TURN_REFUSED) {
            pipeline->reads_wait = true;
            return;
        }
    }
}
