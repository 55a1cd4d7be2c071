/*
 * strips.c - the rows of a large picture go to a CUDA device while the others are decoded.
 *
 * The worker that decodes says how far it has come, and no more; the loop, to which the device
 * belongs as ever, is woken every STRIP_BYTES and has the engine copy them. Nobody waits for
 * anything, and the work goes through its stages as without this. But once the engine was given
 * rows it may have to do with the work's memory, whatever becomes of the work: where it would end
 * behind the decode, it goes to stage gpu, withdrawn, and ends when the device is done with it.
 */
#include "daemon/pipeline/pipeline_impl.h"

/* Only one that has the daemon to itself: of several, others use the device in that time. The plan
 * has what the picture needs of the device reserved in either case. */
static bool is_wanted(const struct work *work)
{
    const struct pipeline *pipeline = work->pipeline;
    return !engine_is_synchronous(pipeline->parts.engine) && !work->plan.idle &&
           work->plan.input_bytes >= STRIPS_BYTES_MIN && pipeline_unfinished(pipeline) == 1;
}

void strips_begin(struct work *work)
{
    work->in_strips = is_wanted(work);
    if (!work->in_strips)
        return;
    work_start_clock(work); /* the task has the deadline, and a worker begins at once */
    work_set_task(work);
}

static void on_rows(void *context, uint32_t rows)
{
    struct work *work = context;
    size_t bytes = plan_input(&work->plan, work->memory.input).stride * rows;
    if (bytes < atomic_load(&work->rows_bytes) + STRIP_BYTES)
        return;
    atomic_store(&work->rows_bytes, bytes);
    uv_async_send(&work->pipeline->strips);
}

void strips_watch(struct work *work, struct decode_request *request)
{
    if (!work->in_strips)
        return;
    request->rows_done = on_rows;
    request->rows_context = work;
}

void strips_on_rows(uv_async_t *async)
{
    struct pipeline *pipeline = async->data;
    list_each (node, &pipeline->stages[STAGE_DECODE]) {
        struct work *work = container_of(node, struct work, node);
        if (work->in_strips)
            engine_feed(pipeline->parts.engine, &work->task, atomic_load(&work->rows_bytes));
    }
}

bool strips_hold(const struct work *work)
{
    return work->task.fed && atomic_load(&work->at) == STAGE_DECODE;
}

void strips_withdraw(struct work *work)
{
    work->task.withdrawn = true;
    work->out = true;
    engine_submit(work->pipeline->parts.engine, &work->task);
}
