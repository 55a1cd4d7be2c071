/*
 * thread.c - a device's thread: starts batches of tasks on free slots, and ends them.
 *
 * Other threads push tasks to the list `submitted`. When a stream has run the batch of its slot, a
 * host callback pushes the slot to the list `ended`. Both wake the thread, which makes all CUDA
 * calls for tasks and calls their `done`.
 *
 * The hardware has 32 queues, which several streams share, and runs the entries of a queue in
 * order. An entry that waits for a kernel thus delays all streams of its queue. The kernels that
 * decode the scans of progressive JPEGs, or inflate a PNG, run for long, so the thread enqueues
 * nothing after them. When everything was enqueued at once, only 32 of 96 streams ran at the same
 * time.
 *
 * A device runs at most 128 kernels at once, so a kernel decodes the scans of several JPEGs. Each
 * file has a word in pinned memory, which the kernel sets when the file's scans have ended. The
 * thread polls these words, and moves the tasks to QUEUE_CODEC one by one. For a PNG, the thread
 * queries the stream, and then enqueues the rest of the batch there.
 */
#include "gpu/cuda/device.h"

#include <errno.h>

#include "conf/clock.h"
#include "gpu/cuda/try.h"

/* ---- waking the thread ---------------------------------------------------------------------- */

/* Call with the lock held, after the task has been pushed. A progressive JPEG does not wake a
 * patient thread, nor does a small task that cannot start a batch. */
static bool is_urgent(const struct cuda_device *device, const struct engine_task *task)
{
    if (task->queue == QUEUE_SCANS)
        return !device->patient;
    return !cuda_queue_is_small(task) || device->submitted.length >= device->wanted;
}

static void push_task(struct cuda_device *device, struct engine_task *task)
{
    pthread_mutex_lock(&device->lock);
    list_push(&device->submitted, &task->node);
    device->urgent |= is_urgent(device, task);
    if (device->urgent)
        pthread_cond_signal(&device->wake); /* cheap if the thread is awake */
    pthread_mutex_unlock(&device->lock);
}

void cuda_submit(struct engine *engine, struct engine_task *task)
{
    struct cuda_device *device = &cuda_engine(engine)->devices[task->memory->device];
    task->error.status = STATUS_OK;
    task->suspect = task->returned = false;
    task->h2d_ms = task->kernel_ms = task->d2h_ms = 0;
    task->decode_ms = task->encode_ms = 0;
    task->started_ns = task->decode_at_ns = task->kernel_at_ns = 0;
    task->encode_at_ns = task->d2h_at_ns = 0;
    cuda_queue_prepare(task);
    task->submitted_ns = clock_now_ns();
    push_task(device, task);
}

/* Runs on a driver thread, in which CUDA calls are not allowed. */
static void CUDART_CB stream_ended(void *argument)
{
    struct cuda_slot *slot = argument;
    struct cuda_device *device = slot->device;
    pthread_mutex_lock(&device->lock);
    list_push(&device->ended, &slot->ended_node);
    pthread_cond_signal(&device->wake);
    pthread_mutex_unlock(&device->lock);
}

/* What other threads and callbacks have reported: cuda_device.submitted, ended and left_service. */
struct events {
    struct list submitted, ended;
    bool left_service;
};

static uint64_t scans_interval_ns(const struct cuda_device *device)
{
    return cuda_scans_many(device) ? DEVICE_SCANS_MANY_NS : DEVICE_SCANS_NS;
}

/* Call with the lock held. Whether the thread must run now. */
static bool has_events(const struct cuda_device *device)
{
    return device->urgent || !list_empty(&device->ended) || device->left_service || device->closing;
}

/* Call with the lock held, before the thread waits. Both modes give the wait an end: batches run.
 * Tasks that were submitted in another mode do not wait. */
static void choose_mode(struct cuda_device *device)
{
    bool patient = device->held > 0 && cuda_scans_many(device);
    uint32_t wanted = cuda_queue_wanted(device);
    bool ends = (device->patient && !patient) || (device->wanted > 1 && wanted == 1);
    if (!list_empty(&device->submitted))
        device->urgent |= ends || (!patient && device->submitted.length >= wanted);
    device->patient = patient;
    device->wanted = wanted;
}

/* Takes the device's events, and waits for one if there is none. While the device has tasks, the
 * wait ends at the time for the next query of the streams. false: the thread must return. */
static bool take_events(struct cuda_device *device, struct events *events)
{
    uint64_t until_ns = device->decoding > 0 ? device->scans_polled_ns + scans_interval_ns(device)
                                             : clock_now_ns() + DEVICE_POLL_NS;
    struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};
    int waited = 0;
    list_init(&events->submitted);
    list_init(&events->ended);
    pthread_mutex_lock(&device->lock);
    choose_mode(device);
    while (!has_events(device) && waited != ETIMEDOUT)
        waited = device->held > 0 ? pthread_cond_timedwait(&device->wake, &device->lock, &until)
                                  : pthread_cond_wait(&device->wake, &device->lock);
    list_take(&events->submitted, &device->submitted);
    list_take(&events->ended, &device->ended);
    events->left_service = device->left_service;
    device->left_service = device->urgent = false;
    bool goes_on = !device->closing;
    pthread_mutex_unlock(&device->lock);
    return goes_on;
}

/* ---- starting ------------------------------------------------------------------------------- */

static void slot_move(struct cuda_slot *slot, enum cuda_slot_state to)
{
    slot->device->decoding += (to == SLOT_LONG) - (slot->state == SLOT_LONG);
    slot->state = to;
}

/* Enqueues the part of the batch after its long parts, and the callback. If a call returns a
 * sticky error, or the callback cannot be added, the device fails and the slot stays busy,
 * because the stream may already run a part of the batch. */
static void slot_finish(struct cuda_slot *slot)
{
    slot_move(slot, SLOT_BUSY);
    cudaError_t result = cuda_batch_continue(slot);
    if (result != cudaSuccess) {
        cuda_device_fail(slot->device, "starting a job", result);
        return;
    }
    result = CUDA_TRY(cudaLaunchHostFunc(slot->stream, stream_ended, slot));
    if (result != cudaSuccess)
        cuda_device_fail(slot->device, "adding a callback to a stream", result);
}

static void note_deadline(struct cuda_slot *slot)
{
    slot->deadline_ns = 0;
    list_each (node, &slot->tasks) {
        uint64_t deadline_ns = cuda_task(node)->deadline_ns;
        if (deadline_ns && (!slot->deadline_ns || deadline_ns < slot->deadline_ns))
            slot->deadline_ns = deadline_ns;
    }
}

/* A progressive file keeps the slot that has decoded its scans. */
static void note_slot(struct cuda_slot *slot)
{
    list_each(node, &slot->tasks)
    {
        struct engine_task *task = cuda_task(node);
        task->slot = (uint32_t)(slot - slot->device->slots);
        if (slot->queue != QUEUE_CODEC || !cuda_is_progressive(task))
            task->decode_slot = task->slot;
    }
}

static void slot_start(struct cuda_slot *slot)
{
    struct cuda_device *device = slot->device;
    bool is_long = slot->queue == QUEUE_SCANS || slot->queue == QUEUE_PNG;
    slot->base = -1;
    slot_move(slot, is_long ? SLOT_LONG : SLOT_BUSY);
    slot->started_ns = clock_now_ns();
    device->scanning += slot->queue == QUEUE_SCANS ? slot->tasks.length : 0;
    note_deadline(slot);
    note_slot(slot);
    cudaError_t result = cuda_batch_begin(slot);
    if (result != cudaSuccess)
        cuda_device_fail(device, "starting a job", result);
    else if (slot->state != SLOT_LONG)
        slot_finish(slot);
}

static bool has_ended(const struct cuda_slot *slot)
{
    return cuda_query(slot->stream) == cudaSuccess;
}

/* Continues a PNG whose long part may have ended. */
static void continue_png(struct cuda_slot *slot)
{
    if (!has_ended(slot))
        return;
    if (slot->codec.long_parts == 0) {
        slot_finish(slot);
        return;
    }
    cudaError_t result = cuda_batch_long(slot);
    if (result != cudaSuccess)
        cuda_device_fail(slot->device, "decoding a file", result);
}

/* Takes the tasks whose scans have ended from the slot. Tasks that were never launched end with the
 * stream. */
static void continue_scans(struct cuda_slot *slot, uint64_t now_ns, bool may_query)
{
    struct cuda_device *device = slot->device;
    struct engine_task *task;
    size_t before = slot->tasks.length;
    while ((task = cuda_codec_take_ended(slot))) {
        cuda_batch_take_scans(slot, task, now_ns);
        list_remove(&slot->tasks, &task->node);
        cuda_queue_after_scans(device, task, now_ns);
    }
    if (slot->codec.images_left == 0 && !list_empty(&slot->tasks) && may_query && has_ended(slot))
        for (struct list_node *node; (node = list_pop(&slot->tasks));)
            cuda_queue_after_scans(device, cuda_task(node), now_ns);
    if (slot->tasks.length != before)
        note_deadline(slot);
    if (!list_empty(&slot->tasks))
        return;
    cuda_batch_end_scans(slot, now_ns);
    cuda_clock_stop(device, slot);
    slot_move(slot, SLOT_FREE);
}

/* Continues the batches whose long part has ended. Errors are ignored here: poll_device finds
 * them. */
static void continue_after_long(struct cuda_device *device, uint64_t now_ns)
{
    bool may_query = now_ns - device->long_polled_ns >= DEVICE_LONG_NS;
    device->scans_due = now_ns - device->scans_polled_ns >= scans_interval_ns(device);
    if (device->decoding == 0 || !device->scans_due)
        return;
    device->scans_polled_ns = now_ns;
    if (may_query)
        device->long_polled_ns = now_ns;
    device->scanning = 0;
    for (uint32_t s = device->base.slot_count; s < cuda_slot_count(device); s++) {
        struct cuda_slot *slot = &device->slots[s];
        if (slot->state != SLOT_LONG || cuda_device_state(device) == DEVICE_FAILED)
            continue;
        if (slot->queue == QUEUE_SCANS) {
            continue_scans(slot, now_ns, may_query);
            device->scanning += slot->tasks.length;
        } else if (may_query) {
            continue_png(slot);
        }
    }
}

static void start_waiting(struct cuda_device *device, uint64_t now_ns)
{
    struct cuda_slot *slot;
    while (cuda_device_state(device) != DEVICE_FAILED &&
           (slot = cuda_queue_fill_slot(device, now_ns)))
        if (!list_empty(&slot->tasks))
            slot_start(slot);
}

/* ---- ending --------------------------------------------------------------------------------- */

static void prefetch(const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CUDA_PREFETCH_BYTES)
        __builtin_prefetch((const char *)from + at, 1);
}

/* What the functions below and `done` use of the tasks: other threads and later batches have
 * displaced it from the caches. The text of the error is most of a task, and left out. */
static void prefetch_tasks(const struct list *tasks)
{
    list_each (node, tasks) {
        const struct engine_task *task = cuda_task(node);
        const char *from = (const char *)task - ENGINE_BESIDE_BYTES;
        prefetch(from, (size_t)((const char *)&task->error.text - from));
        prefetch(&task->suspect, sizeof *task - offsetof(struct engine_task, suspect));
    }
}

static void slot_end(struct cuda_slot *slot, uint64_t now_ns)
{
    struct cuda_device *device = slot->device;
    if (cuda_device_state(device) == DEVICE_FAILED)
        return; /* cuda_queue_fail ends the tasks, and the slot stays busy */
    cudaError_t result = cuda_query(slot->stream);
    if (result != cudaSuccess && result != cudaErrorNotReady) {
        cuda_device_fail(device, "at the end of a job", result);
        return;
    }
    prefetch_tasks(&slot->tasks);
    cuda_batch_take_times(slot);
    cuda_clock_stop(device, slot);
    slot_move(slot, SLOT_FREE);
    struct list_node *node;
    while ((node = list_pop(&slot->tasks))) {
        struct engine_task *task = cuda_task(node);
        if (cuda_task_is_late(task, now_ns))
            error_set(&task->error, STATUS_TIMEOUT, "the deadline passed while the job was on %s",
                      device->base.name);
        list_push(&device->finished, node);
    }
}

static void call_done(struct cuda_device *device)
{
    struct list_node *node;
    while ((node = list_pop(&device->finished))) {
        struct engine_task *task = cuda_task(node);
        device->held--;
        struct list_node *next = list_first(&device->finished);
        task->more = next && cuda_task(next)->done == task->done;
        task->done(task);
    }
}

/* ---- polling -------------------------------------------------------------------------------- */

/* Whether the slot hangs. The batch counts as one task with the earliest deadline of its tasks,
 * because a batch takes no longer than one large task. */
static bool is_overdue(const struct cuda_slot *slot, uint64_t now_ns)
{
    const struct cuda_device *device = slot->device;
    uint64_t grace_ns = device->engine->hang_grace_ns;
    return slot->deadline_ns && now_ns > slot->deadline_ns + grace_ns &&
           now_ns > slot->started_ns + grace_ns && now_ns > device->awake_ns + grace_ns;
}

/* Whether the slot's callback has run since take_events, so that the slot is on the list
 * `ended`. */
static bool has_reported(const struct cuda_slot *slot)
{
    pthread_mutex_lock(&slot->device->lock);
    bool reported = slot->ended_node.next != NULL;
    pthread_mutex_unlock(&slot->device->lock);
    return reported;
}

/* Detects failed and hung devices. Polling is needed because CUDA runs no callbacks after an error
 * that ends the context. */
static void poll_slot(struct cuda_slot *slot, uint64_t now_ns)
{
    struct cuda_device *device = slot->device;
    cudaError_t result = cuda_query(slot->stream);
    if (result != cudaSuccess && result != cudaErrorNotReady)
        cuda_device_fail(device, "while jobs were on it", result);
    else if (result == cudaSuccess && slot->state == SLOT_LONG && !cuda_codec_all_ended(slot))
        cuda_device_fail(device, "a stream has ended, but did not report the ends of its jobs",
                         cudaSuccess);
    else if (!is_overdue(slot, now_ns) || has_reported(slot))
        return;
    else if (result == cudaSuccess && slot->state == SLOT_LONG)
        return; /* the long part has ended: continue_after_long finds it */
    else if (result == cudaErrorNotReady)
        cuda_device_fail(device, "a job hangs: its deadline is long past", cudaSuccess);
    else
        cuda_device_fail(device, "a stream has ended its job, but its callback did not run",
                         cudaSuccess);
}

static void poll_device(struct cuda_device *device, uint64_t now_ns)
{
    if (now_ns - device->polled_ns < DEVICE_POLL_NS)
        return;
    device->polled_ns = now_ns;
    cuda_queue_expire(device, now_ns);
    for (uint32_t s = 0; s < cuda_slot_count(device); s++)
        if (!list_empty(&device->slots[s].tasks) && cuda_device_state(device) != DEVICE_FAILED)
            poll_slot(&device->slots[s], now_ns);
}

/* Notes the time if the process was suspended since the thread last ran. */
static void note_suspension(struct cuda_device *device, uint64_t now_ns)
{
    if (device->held > 0 && now_ns > device->looked_ns + DEVICE_SUSPENDED_NS)
        device->awake_ns = now_ns;
    device->looked_ns = now_ns;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void accept_tasks(struct cuda_device *device, struct list *submitted)
{
    struct list_node *node;
    list_each (each, submitted)
        cuda_codec_prefetch_plan(cuda_task(each));
    list_each (each, submitted)
        if (!cuda_task(each)->plan->idle)
            cuda_codec_prefetch_frame(cuda_task(each));
    while ((node = list_pop(submitted)))
        cuda_queue_accept(device, cuda_task(node));
}

static void *thread_main(void *argument)
{
    struct cuda_device *device = argument;
    struct events events;
    struct list_node *node;
    while (take_events(device, &events)) {
        uint64_t now_ns = clock_now_ns();
        note_suspension(device, now_ns);
        if (events.left_service)
            cuda_queue_fail(device);
        accept_tasks(device, &events.submitted);
        while ((node = list_pop(&events.ended)))
            slot_end(container_of(node, struct cuda_slot, ended_node), now_ns);
        call_done(device); /* other threads have work while this one starts batches */
        continue_after_long(device, now_ns);
        start_waiting(device, now_ns);
        poll_device(device, now_ns);
        call_done(device); /* of tasks that have failed, or were too late, since then */
    }
    return NULL;
}

bool cuda_thread_start(struct cuda_device *device)
{
    device->has_thread = pthread_create(&device->thread, NULL, thread_main, device) == 0;
    if (device->has_thread)
        pthread_setname_np(device->thread, "device"); /* for top and ps */
    return device->has_thread;
}

uint64_t cuda_thread_cpu_ns(const struct cuda_device *device)
{
    clockid_t clock;
    struct timespec used = {0};
    if (!device->has_thread || pthread_getcpuclockid(device->thread, &clock) != 0 ||
        clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

bool cuda_thread_stop(struct cuda_device *device, uint64_t until_ns)
{
    uint64_t now_ns = clock_now_ns();
    struct timespec until;
    if (!device->has_thread)
        return true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(until_ns > now_ns ? (until_ns - now_ns) / NS_PER_S + 1 : 0);
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_signal(&device->wake);
    pthread_mutex_unlock(&device->lock);
    device->has_thread = pthread_timedjoin_np(device->thread, NULL, &until) != 0;
    return !device->has_thread;
}
