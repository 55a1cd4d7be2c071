/*
 * reads.c - the first stage: inputs come from files or from Redis into the pool of input files.
 *
 * First come, first served: while a job waits for room, no younger one is read. Room that a worker
 * which hangs has is not waited for: a job that needs it steps aside until that worker comes back.
 */
#include <stdlib.h>

#include "daemon/pipeline/pipeline_impl.h"

/* ---- memory --------------------------------------------------------------------------------- */

void reads_end_key(struct work *work)
{
    if (work->key_read && work->pipeline->queue)
        queue_read_release(work->pipeline->queue, work->file_bytes);
    work->key_read = false;
}

static void drop_loaded(struct work *work)
{
    free(work->loaded);
    work->loaded = NULL;
    reads_end_key(work);
}

void reads_release(struct work *work)
{
    if (work->file.memory) {
        pool_give(work->pipeline->file_pool, &work->file);
        work->pipeline->files_given++;
        work->pipeline->read_stalled = false;
    }
    drop_loaded(work);
}

/* ---- one read ------------------------------------------------------------------------------- */

static void on_key_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct work *work = context;
    struct pipeline *pipeline = work->pipeline;
    work->reading = NULL;
    if (error) {
        work->error = *error;
        pipeline_advance(work);
        return;
    }
    work->loaded = bytes;
    work->key_read = true;
    work->file_bytes = length;
    reads_enter(work);
    pipeline_pump(pipeline);
}

static void start_read(struct work *work)
{
    if (!work->job.input.key || work->loaded) {
        work->files_given = work->pipeline->files_given;
        work_start_errand(work);
        return;
    }
    work->reading = queue_read(work->pipeline->queue, work->job.input.key, work->input_bytes_max,
                               on_key_read, work);
    if (work->reading)
        return;
    error_set(&work->error, STATUS_OUT_OF_MEMORY, "no memory to read the key \"%s\"",
              work->job.input.key);
    pipeline_move(work, STAGE_ACK);
}

void reads_enter(struct work *work)
{
    if (!work->pipeline->reads_wait) /* else reads_pump starts it */
        start_read(work);
}

/* ---- the line ------------------------------------------------------------------------------- */

void reads_refuse(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    /* If memory came back meanwhile, it tries again at once. */
    pipeline->read_stalled = work->files_given == pipeline->files_given;
    work->refused = pipeline->reads_wait = true;
    pipeline_pump(pipeline);
}

/* Whether a job that goes on has memory of the file pool, or is about to take some. */
static bool room_will_come(const struct pipeline *pipeline)
{
    if (!list_empty(&pipeline->stages[STAGE_DECODE]))
        return true;
    list_each (node, &pipeline->stages[STAGE_ADMIT])
        if (!container_of(node, struct work, node)->aside)
            return true;
    list_each (node, &pipeline->stages[STAGE_READ])
        if (container_of(node, struct work, node)->out)
            return true;
    return false;
}

/* The first read that waits needs more room than the workers that hang leave it. */
static void set_aside_first(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_READ]) {
        struct work *work = container_of(node, struct work, node);
        if (!work->refused || work->aside)
            continue;
        work->aside = true;
        drop_loaded(work); /* it is read again; others need its room among the reads */
        return;
    }
}

void reads_recall(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_READ]) {
        struct work *work = container_of(node, struct work, node);
        pipeline->reads_wait |= work->aside;
        work->aside = false;
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
        struct work *work = container_of(node, struct work, node);
        bool refused = work->refused;
        if (work->aside)
            continue;
        if (!work->out && !work->reading)
            start_read(work);
        if (refused) {
            pipeline->reads_wait = true;
            return;
        }
    }
}
