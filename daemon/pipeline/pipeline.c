#include "daemon/pipeline/pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/overlays/overlays.h"
#include "daemon/pipeline/ack.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/deadline.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/give_back.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/lease_events.h"
#include "daemon/pipeline/line.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/spine.h"
#include "daemon/pipeline/state.h"
#include "gpu/colour/conversion.h"

/* The pool of input files grows by this: less than POOL_SEGMENT_BYTES, because most files are
 * smaller than images, and the first segment is cleared at the start. */
#define FILES_SEGMENT_BYTES (16 * MIB)
/* Interval of the deadline checks while jobs are in flight. */
#define TICK_MS 100
/* Length of a call to Redis under load: see INFLIGHT_AHEAD_MAX. */
#define INFLIGHT_AHEAD_MS 10
/* While devices run this many jobs, about one more is read, written or acknowledged. */
#define INFLIGHT_DEVICE_PART 4
/* One such part of the memory for input files may keep overlays that no job uses. They give it back
 * when a file or another overlay needs it. */
#define OVERLAYS_IDLE_PART 4

#define QUEUE_BYTES (2 * KIB) /* of the queue: a lease and a read */
static_assert(sizeof(struct job_run) + PLAN_KEPT_BYTES + METADATA_KEPT_BYTES + QUEUE_BYTES <=
                  HEAP_SLOT_BYTES,
              "a waiting job must fit into HEAP_SLOT_BYTES");
static_assert(sizeof(struct job_run) + (JOB_OUTPUTS_MAX + 1) * (2 * ERROR_TEXT_MAX + 256) <=
                  HEAP_SLOT_BYTES,
              "a job whose result waits, with an error for each output, must fit, too");

/* The number of jobs that the workers finish in INFLIGHT_AHEAD_MS. */
static size_t short_ahead(const struct pipeline *pipeline)
{
    double at_most = INFLIGHT_AHEAD_MAX;
    double all_ms = (double)pipeline->parts.options->workers * INFLIGHT_AHEAD_MS;
    if (pipeline->job_ms < 0 || all_ms < pipeline->job_ms)
        return 0;
    return (size_t)(all_ms < at_most * pipeline->job_ms ? all_ms / pipeline->job_ms : at_most);
}

/* Slots beyond `inflight`. While devices run many jobs, more are read and written, or wait for the
 * acknowledgement of their end. */
static size_t places_ahead(struct pipeline *pipeline)
{
    size_t on_devices = dispatch_ahead(&pipeline->dispatch, clock_now_ns());
    size_t ahead = short_ahead(pipeline) + on_devices + on_devices / INFLIGHT_DEVICE_PART;
    return ahead < pipeline->parts.ahead_max ? ahead : pipeline->parts.ahead_max;
}

/* Images of jobs with many that have begun. */
static uint32_t images_in_flight(const struct pipeline *pipeline)
{
    return (uint32_t)(pipeline->image_slots - pipeline->free_images.length);
}

static void offer_places(struct pipeline *pipeline)
{
    if (!pipeline->group)
        return;
    bool open = !pipeline->paused && !pipeline->failed && !pipeline->disk.failed;
    uint32_t parked = group_waiting_ends(pipeline->group), spare = pipeline->spare;
    size_t kept = pipeline->parts.ahead_max - places_ahead(pipeline) +
                  (parked < spare ? spare - parked : 0);
    /* Even if each job has a text of the maximum size, all texts fit into JOB_TEXTS_BYTES. */
    size_t texts = pipeline->text_bytes < JOB_TEXTS_BYTES
                       ? (JOB_TEXTS_BYTES - pipeline->text_bytes) / JOB_TEXT_BYTES_MAX : 0;
    size_t all = pipeline->free.length, free = all > kept ? all - kept : 0;
    size_t slots = !open ? 0 : all < texts ? all : texts;
    if (pipeline->sets.length > pipeline->sets_active) /* other daemons may have turns for them */
        slots = slots < pipeline->sets_max ? slots : pipeline->sets_max;
    /* A job may keep its input open while it waits: an archive from Redis is in a file. */
    size_t jobs = pipeline_inflight(pipeline) - images_in_flight(pipeline);
    size_t most = pipeline->inputs_open_max, files = most > jobs ? most - jobs : 0;
    slots = slots < files ? slots : files;
    size_t places = free < slots ? free : slots;
    pipeline->has_places = places > 0 || !open;
    group_set_places(pipeline->group, (uint32_t)places, (uint32_t)(slots - places), open);
}

static void notify_if_idle(struct pipeline *pipeline)
{
    assert(pipeline_inflight(pipeline) > 0 || dispatch_is_idle(&pipeline->dispatch));
    if (!pipeline->drained || pipeline_unfinished(pipeline) > 0)
        return;
    void (*drained)(void *) = pipeline->drained;
    pipeline->drained = NULL;
    drained(pipeline->drained_context);
}

/* Starts all jobs that can start now. */
static void pump(struct pipeline *pipeline)
{
    bool disk_changed = pipeline->disk.changed;
    pipeline->wakes = pipeline->disk.changed = false;
    if (disk_changed && pipeline->disk.failed)
        give_back_files(pipeline);
    line_pump(pipeline);
    set_stage_pump(pipeline);
    if (pipeline_inflight(pipeline) == 0)
        pipeline->job_ms = -1; /* the next jobs may be others */
    offer_places(pipeline);
    notify_if_idle(pipeline);
    if (disk_changed)
        pipeline->parts.disk_changed(pipeline->parts.context);
}

/* After the events of this turn of the loop, before it waits for further ones. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct pipeline *pipeline = prepare->data;
    while (pipeline->wakes)
        pump(pipeline);
}

static void on_batch(void *context)
{
    pipeline_wake(context);
}

struct queue_events pipeline_events(struct pipeline *pipeline)
{
    return (struct queue_events){
        .context = pipeline, .leased = lease_events_leased, .lost = lease_events_lost,
        .settled = ack_settled, .start_decided = lease_events_start_decided,
        .batch_ended = on_batch};
}

void pipeline_attach(struct pipeline *pipeline, struct group *group)
{
    pipeline->group = group;
    offer_places(pipeline);
}

void pipeline_pause(struct pipeline *pipeline, bool paused)
{
    pipeline->paused = paused;
    offer_places(pipeline);
}

/* all: jobs and images. */
static const char *write_jobs(uint32_t all, uint32_t images, char text[PIPELINE_JOBS_BYTES])
{
    if (images > 0)
        snprintf(text, PIPELINE_JOBS_BYTES, "%u jobs with %u images", all - images, images);
    else
        snprintf(text, PIPELINE_JOBS_BYTES, "%u jobs", all);
    return text;
}

static uint32_t images_unfinished(const struct pipeline *pipeline)
{
    uint32_t count = 0;
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        each_run (run, &pipeline->stages[stage])
            count += run->is_image;
    return count;
}

void pipeline_give_back(struct pipeline *pipeline)
{
    char text[PIPELINE_JOBS_BYTES];
    uint32_t unfinished = pipeline_unfinished(pipeline);
    if (unfinished > 0)
        log_warning("giving back %s that did not end within drain_timeout_s",
                    write_jobs(unfinished, images_unfinished(pipeline), text));
    give_back_all(pipeline);
    pipeline_wake(pipeline);
}

void pipeline_fail(struct pipeline *pipeline)
{
    if (atomic_exchange(&pipeline->failed, true)) /* uncovered: moment */
        return;
    give_back_waiting(pipeline);
    pipeline_wake(pipeline);
}

void pipeline_suspect_disk(struct pipeline *pipeline)
{
    disk_suspect(&pipeline->disk);
}

bool pipeline_healthy(const struct pipeline *pipeline)
{
    return deadline_healthy(pipeline);
}

void pipeline_when_idle(struct pipeline *pipeline, void (*drained)(void *context), void *context)
{
    pipeline->drained = drained;
    pipeline->drained_context = context;
    notify_if_idle(pipeline);
}

uint32_t pipeline_unfinished(const struct pipeline *pipeline)
{
    size_t total = 0;
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        total += pipeline->stages[stage].length;
    return (uint32_t)total;
}

uint32_t pipeline_inflight(const struct pipeline *pipeline)
{
    return atomic_load(&pipeline->inflight);
}

const char *pipeline_jobs(const struct pipeline *pipeline, char text[PIPELINE_JOBS_BYTES])
{
    uint32_t images = images_in_flight(pipeline);
    return write_jobs(pipeline_inflight(pipeline), images, text);
}

bool pipeline_is_used(const struct pipeline *pipeline)
{
    return !list_empty(&pipeline->zombies) || pipeline->disk.trying;
}

void pipeline_look(struct pipeline *pipeline, struct snapshot *snapshot)
{
    uint64_t now = clock_now_ns(), oldest = now;
    memset(snapshot->in_stage, 0, sizeof snapshot->in_stage);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
        each_run (run, &pipeline->stages[stage]) {
            snapshot->in_stage[atomic_load(&run->at)]++;
            oldest = run->timing.fetched_ns < oldest ? run->timing.fetched_ns : oldest;
        }
    }
    snapshot->in_flight = pipeline_inflight(pipeline) - images_in_flight(pipeline);
    set_stage_look(pipeline, snapshot);
    snapshot->waiting = line_length(pipeline);
    line_look(pipeline, &snapshot->lack);
    snapshot->abandoned = (uint32_t)pipeline->zombies.length;
    snapshot->oldest_s = clock_ms(oldest, now) / 1e3;
    snapshot->moving = pipeline_healthy(pipeline);
    snapshot->disk_works = !pipeline->disk.failed;
    text_copy(snapshot->disk_reason, sizeof snapshot->disk_reason,
              pipeline->disk.failed ? pipeline->disk.error.text : "");
    text_copy(snapshot->keys_reason, sizeof snapshot->keys_reason,
              fetcher_lacks_keys(pipeline->parts.fetcher));
    snapshot->pools[SNAPSHOT_FILES] = pool_usage(pipeline->file_pool);
    snapshot->pools[SNAPSHOT_CODECS] = admission_usage(&pipeline->admission);
}

/* One admitted job per worker and engine slot, and half as many more that are ready to follow. More
 * would only hold memory, whose pages the loop would have to take from the kernel. */
static void open_admission(struct pipeline *pipeline)
{
    const struct pipeline_parts *parts = &pipeline->parts;
    size_t now = parts->options->workers + engine_slots(parts->engine), most = now + (now + 1) / 2;
    size_t host = parts->options->host_bytes;
    admission_open(&pipeline->admission, parts->engine, admission_lane_bytes(host), now, most);
    colour_cache_limit(host / HOST_COLOUR_PART);
}

/* The part of admission's lane that decoders on cores leave to plans and results, which jobs on
 * devices need, too. */
#define HEAP_OTHERS_PART 4

/* Half of the descriptors that the process may open. */
static uint32_t inputs_open_max(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < INT32_MAX
               ? (uint32_t)(limit.rlim_cur / 2)
               : INT32_MAX;
}

static void open_dispatch(struct pipeline *pipeline)
{
    const struct pipeline_parts *parts = &pipeline->parts;
    size_t rooms[DEVICES_MAX];
    uint32_t count = engine_devices(parts->engine);
    for (uint32_t d = 0; d < count; d++)
        rooms[d] = engine_device_usage(parts->engine, d).budget;
    size_t heap = admission_usage(&pipeline->admission).budget;
    dispatch_open(&pipeline->dispatch, (uint32_t)parts->options->workers,
                  heap - heap / HEAP_OTHERS_PART, count, rooms);
}

struct pipeline *pipeline_create(const struct pipeline_parts *parts)
{
    const struct options *options = parts->options;
    uint64_t spare = options->shards > 1 ? options->inflight : 0;
    uint64_t slots = options->inflight + parts->ahead_max + spare;
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    uint64_t image_slots = IMAGES_PER_JOB * slots;
    struct job_run *runs = calloc(slots, sizeof *runs);
    struct job_run *images = calloc(image_slots, sizeof *images);
    struct pool *file_pool =
        pool_create("files", options->host_bytes / HOST_FILES_PART + HOST_FILES_SPARE,
                    FILES_SEGMENT_BYTES, &pool_backend_pages);
    struct overlays *overlays =
        file_pool ? overlays_create(file_pool, pool_usage(file_pool).budget / OVERLAYS_IDLE_PART)
                  : NULL;
    if (!pipeline || !runs || !images || !overlays) { /* uncovered: memory */
        overlays_destroy(overlays);
        pool_destroy(file_pool);
        free(runs);
        free(images);
        free(pipeline);
        return NULL;
    }
    pipeline->parts = *parts;
    pipeline->resume = spine_resume;
    pipeline->begin = spine_begin;
    pipeline->runs = runs;
    pipeline->images = images;
    pipeline->image_slots = image_slots;
    pipeline->sets_max = options_sets(options, engine_devices(parts->engine) > 0);
    pipeline->animations_max = options_sets(options, false);
    pipeline->spare = (uint32_t)spare;
    pipeline->file_pool = file_pool;
    pipeline->overlays = overlays;
    pipeline->job_ms = -1;
    pipeline->inputs_open_max = inputs_open_max();
    for (uint32_t device = 0; device < DEVICES_MAX; device++)
        list_init(&pipeline->computed[device]);
    list_init(&pipeline->free);
    list_init(&pipeline->free_images);
    list_init(&pipeline->sets);
    list_init(&pipeline->gathered);
    list_init(&pipeline->zombies);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        list_init(&pipeline->stages[stage]);
    for (uint64_t i = 0; i < slots; i++)
        list_push(&pipeline->free, &runs[i].node);
    for (uint64_t i = 0; i < image_slots; i++)
        list_push(&pipeline->free_images, &images[i].node);
    uv_timer_init(parts->loop, &pipeline->tick);
    pipeline->tick.data = pipeline;
    uv_timer_start(&pipeline->tick, deadline_on_tick, TICK_MS, TICK_MS);
    uv_prepare_init(parts->loop, &pipeline->prepare);
    pipeline->prepare.data = pipeline;
    uv_prepare_start(&pipeline->prepare, on_prepare);
    workers_on_collected(parts->workers, on_batch, pipeline);
    open_admission(pipeline);
    open_dispatch(pipeline);
    disk_open(pipeline);
    /* Allocates the pool's first pages now, so that the first job is not slower. */
    struct pool_block first;
    if (pool_take(file_pool, 1, &first, NULL))
        pool_give(file_pool, &first);
    return pipeline;
}

void pipeline_stop(struct pipeline *pipeline)
{
    uv_close((uv_handle_t *)&pipeline->tick, NULL);
    uv_close((uv_handle_t *)&pipeline->prepare, NULL);
    uv_close((uv_handle_t *)&pipeline->disk.timer, NULL);
}

void pipeline_destroy(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        each_run (run, &pipeline->stages[stage])
            release_job(run); /* Redis never acknowledged its result */
    list_each_safe (node, after, &pipeline->sets) /* uncovered: moment */
        image_set_unref(container_of(node, struct image_set, node));
    overlays_destroy(pipeline->overlays);
    pool_destroy(pipeline->file_pool);
    admission_close(&pipeline->admission);
    dispatch_close(&pipeline->dispatch);
    colour_cache_limit(0);
    free(pipeline->runs);
    free(pipeline->images);
    free(pipeline);
}
