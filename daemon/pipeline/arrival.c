/*
 * arrival.c - a large result is encoded while its last rows still come from a CUDA device.
 *
 * When the first rows are there the loop takes the work on to its encode, though its task is out
 * still. The worker asks before it reads rows, and waits for those that are not there; the last
 * ones are there with the task's done. It also waits for done before it comes back, whatever became
 * of the encoding: so the loop sees one end of both, no file is placed before the device has said
 * that all went well, and the work's memory is free when its worker has come back. The wait ends,
 * for the engine answers every task, those that hang included.
 */
#include "conf/clock.h"
#include "daemon/pipeline/pipeline_impl.h"

/* Only one that has the daemon to itself: of several, others use the workers in that time. */
static bool is_wanted(const struct work *work)
{
    const struct plan *plan = &work->plan;
    return work->job.output_count == 1 && work->outputs[0].codec && !plan_has_values(plan, 0) &&
           plan->output_bytes >= ARRIVAL_BYTES_MIN && pipeline_unfinished(work->pipeline) == 1;
}

/* On a thread of the engine's. */
static void on_arrived(struct engine_task *task, size_t bytes)
{
    struct work *work = container_of(task, struct work, task);
    struct pipeline *pipeline = work->pipeline;
    pthread_mutex_lock(&pipeline->arrival_lock);
    bool first = work->arrival.bytes == 0;
    work->arrival.bytes = bytes;
    pthread_cond_broadcast(&pipeline->arrival_news);
    pthread_mutex_unlock(&pipeline->arrival_lock);
    if (first)
        uv_async_send(&pipeline->arrivals);
}

void arrival_begin(struct work *work)
{
    if (is_wanted(work))
        work->task.arrived = on_arrived;
}

static bool has_begun(struct work *work)
{
    pthread_mutex_t *lock = &work->pipeline->arrival_lock;
    pthread_mutex_lock(lock);
    bool begun = work->arrival.bytes > 0;
    pthread_mutex_unlock(lock);
    return begun;
}

/* One that shall end stays with the engine. */
void arrival_on_bytes(uv_async_t *async)
{
    struct pipeline *pipeline = async->data;
    list_each_safe (node, after, &pipeline->stages[STAGE_GPU]) {
        struct work *work = container_of(node, struct work, node);
        if (!has_begun(work) || atomic_load(&work->cancelled) || atomic_load(&work->lost))
            continue;
        work->arrival.awaited = true;
        pipeline_move(work, STAGE_ENCODE);
    }
}

bool arrival_is_out(const struct work *work)
{
    return work->arrival.awaited && work->arrival.over_ns == 0;
}

void arrival_end(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    pthread_mutex_lock(&pipeline->arrival_lock);
    work->arrival.over_ns = clock_now_ns();
    pthread_cond_broadcast(&pipeline->arrival_news);
    pthread_mutex_unlock(&pipeline->arrival_lock);
}

/* On the worker: until so many bytes of the result are there, or the task has ended. Returns its
 * error; STATUS_OK: it has none so far. */
static enum status await(struct work *work, size_t bytes, struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    const struct arrival *arrival = &work->arrival;
    pthread_mutex_lock(&pipeline->arrival_lock);
    while (arrival->over_ns == 0 && arrival->bytes < bytes)
        pthread_cond_wait(&pipeline->arrival_news, &pipeline->arrival_lock);
    if (arrival->over_ns != 0)
        *error = work->task.error;
    pthread_mutex_unlock(&pipeline->arrival_lock);
    return error->status;
}

static enum status rows_needed(void *context, uint32_t rows, struct error *error)
{
    struct work *work = context;
    struct image image = plan_result(&work->plan, 0, work->memory.input, work->memory.output);
    size_t begin = (size_t)(image.pixels - work->memory.output);
    return await(work, rows < image.height ? begin + rows * image.stride : SIZE_MAX, error);
}

void arrival_watch(struct work *work, struct encode_request *request)
{
    if (!work->arrival.awaited)
        return;
    request->rows_needed = rows_needed;
    request->rows_context = work;
}

bool arrival_ends_well(struct work *work)
{
    struct error error = {0};
    return !work->arrival.awaited || await(work, SIZE_MAX, &error) == STATUS_OK;
}
