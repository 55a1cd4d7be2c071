#include "tests/bench/jpeg_queue.h"

#include <assert.h>
#include <cuda_runtime.h>
#include <string.h>

#include "gpu/cuda/try.h"
#include "tests/bench/jpeg_image.h"

#define BATCH_MAX 64

/* A lane passes through its states in this order, again and again. */
enum lane_state {
    LANE_IDLE,
    LANE_SCANS, /* the scans are on the stream */
    LANE_WAITS, /* for memory for the last step */
    LANE_LAST,  /* the last step is on the stream */
    LANE_STATES
};

struct item {
    const struct photo *photo;
    const uint8_t *file, *pinned_file;
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
    struct image image;
    size_t work_bytes[2], image_bytes; /* of the scans and of the last step; of the image */
};

struct memory {
    uint8_t *start; /* device; NULL: none */
    size_t bytes;
};

/* A stream and the photographs that it decodes. */
struct lane {
    enum lane_state state;
    cudaStream_t stream;
    struct item items[BATCH_MAX];
    struct memory scans, last;
    uint32_t *scan_verdicts; /* device */
    uint32_t *verdicts;      /* pinned */
    uint8_t *description;    /* pinned, for one step after the other */
    bool compares;           /* the results with libjpeg's */
};

enum phase { WARM_UP, TIMED, DRAIN };

struct queue {
    const struct photos *photos;
    struct jpeg_work work;
    struct queue_load load;
    struct item *items;   /* of each photograph */
    struct lane *lanes;
    size_t counts[LANE_STATES];
    cudaMemPool_t pool;
    uint8_t *files, *compared; /* pinned: all files; an image of the largest size */
    size_t room;          /* of a description */
    size_t bytes;         /* of device memory in use */
    enum phase phase;
    size_t pass;          /* images: every photograph and every lane at least once */
    size_t started, ended; /* images */
    size_t warm;          /* images that ended in the warm-up */
    double began_s, changed_s, seconds, host_s, in_flight_s, megapixels;
    struct queue_figures figures;
};

/* ---- state ---- */

static void count_in_flight(struct queue *queue)
{
    double now_s = bench_seconds();
    size_t lanes = (size_t)queue->load.streams - queue->counts[LANE_IDLE];
    queue->in_flight_s += (double)(lanes * (size_t)queue->load.batch) * (now_s - queue->changed_s);
    queue->changed_s = now_s;
}

static void move(struct queue *queue, struct lane *lane, enum lane_state to)
{
    assert(to == (lane->state + 1) % LANE_STATES);
    count_in_flight(queue);
    queue->counts[lane->state]--;
    queue->counts[to]++;
    lane->state = to;
}

static void end_warm_up(struct queue *queue)
{
    queue->phase = TIMED;
    queue->warm = queue->ended;
    queue->host_s = queue->in_flight_s = queue->megapixels = 0;
    queue->began_s = queue->changed_s = bench_seconds();
}

static void end_timed(struct queue *queue)
{
    struct queue_figures *figures = &queue->figures;
    count_in_flight(queue);
    double took_s = queue->changed_s - queue->began_s;
    queue->phase = DRAIN;
    double images = (double)(queue->ended - queue->warm);
    figures->gigapixels_per_s = queue->megapixels * 1e-3 / took_s;
    figures->images_per_s = images / took_s;
    figures->images_in_flight = queue->in_flight_s / took_s;
    figures->host_us = queue->host_s * 1e6 / images;
}

/* Half of the warm-up compares results, which holds up the thread. */
static void end_phase_if_due(struct queue *queue)
{
    if (queue->phase == WARM_UP && queue->ended >= 2 * queue->pass)
        end_warm_up(queue);
    else if (queue->phase == TIMED && queue->ended >= queue->warm + queue->pass &&
             bench_seconds() - queue->began_s >= queue->seconds)
        end_timed(queue);
}

/* ---- memory ---- */

static bool has_room(const struct queue *queue, size_t bytes)
{
    return bytes <= queue->load.budget - queue->bytes;
}

static void allocate(struct queue *queue, struct lane *lane, struct memory *memory)
{
    CHECK(cudaMallocFromPoolAsync((void **)&memory->start, memory->bytes, queue->pool,
                                  lane->stream));
    queue->bytes += memory->bytes;
    if (queue->bytes > queue->figures.bytes_max)
        queue->figures.bytes_max = queue->bytes;
}

static void give_back(struct queue *queue, struct lane *lane, struct memory *memory)
{
    CHECK(cudaFreeAsync(memory->start, lane->stream));
    queue->bytes -= memory->bytes;
    memory->start = NULL;
}

static uint8_t *take(uint8_t **at, size_t bytes)
{
    uint8_t *start = *at;
    *at += buffer_align(bytes);
    return start;
}

/* Fetches the next photographs of the queue. Sets the sizes of both memories. */
static void fetch(struct queue *queue, struct lane *lane)
{
    lane->scans.bytes = queue->room + buffer_align(BATCH_MAX * sizeof(uint32_t));
    lane->last.bytes = queue->room;
    for (int i = 0; i < queue->load.batch; i++) {
        struct item *item = &lane->items[i];
        *item = queue->items[(queue->started + (size_t)i) % queue->photos->count];
        lane->scans.bytes += buffer_align(item->photo->length) + buffer_align(item->work_bytes[0]);
        lane->last.bytes += buffer_align(item->image_bytes) + buffer_align(item->work_bytes[1]);
    }
    if (lane->scans.bytes + lane->last.bytes > queue->load.budget) {
        fprintf(stderr, "%d photographs take %zu bytes; the budget is %zu\n", queue->load.batch,
                lane->scans.bytes + lane->last.bytes, queue->load.budget);
        exit(1);
    }
}

/* ---- steps ---- */

static void upload(struct lane *lane, uint8_t *to, const uint8_t *from, size_t bytes)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, lane->stream));
}

static void launch_scans(struct queue *queue, struct lane *lane)
{
    struct jpeg_progressive_image list[BATCH_MAX];
    struct jpeg_progressive_batch batch;
    size_t count = (size_t)queue->load.batch;
    allocate(queue, lane, &lane->scans);
    uint8_t *at = lane->scans.start, *descriptions = take(&at, queue->room);
    lane->scan_verdicts = (uint32_t *)(void *)take(&at, BATCH_MAX * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++) {
        struct item *item = &lane->items[i];
        uint8_t *file = take(&at, item->photo->length);
        upload(lane, file, item->pinned_file, item->photo->length);
        item->file = file;
        list[i] = scans_of(item->photo, &queue->work, file, take(&at, item->work_bytes[0]),
                           lane->scan_verdicts + i, item->planes);
    }
    size_t bytes = jpeg_progressive_describe(list, (uint32_t)count, lane->description, queue->room,
                                             &batch);
    description_check(bytes, count);
    upload(lane, descriptions, lane->description, bytes);
    CHECK(jpeg_progressive_decode(&batch, descriptions, lane->stream));
}

static void launch_last(struct queue *queue, struct lane *lane)
{
    struct jpeg_decode_image list[BATCH_MAX];
    struct jpeg_decode_batch batch;
    size_t count = (size_t)queue->load.batch;
    allocate(queue, lane, &lane->last);
    uint8_t *at = lane->last.start, *descriptions = take(&at, queue->room);
    for (size_t i = 0; i < count; i++) {
        struct item *item = &lane->items[i];
        item->image.pixels = take(&at, item->image_bytes);
        lane->verdicts[i] = UINT32_MAX; /* no verdict */
        list[i] = decode_of(item->photo, &queue->work, item->file, &item->image,
                            take(&at, item->work_bytes[1]), lane->verdicts + i);
        list[i].coefficients = item->planes;
        list[i].coefficients_verdict = lane->scan_verdicts + i;
    }
    size_t bytes = jpeg_decode_describe(list, count, lane->description, queue->room, &batch);
    description_check(bytes, count);
    upload(lane, descriptions, lane->description, bytes);
    CHECK(jpeg_decode_launch(&batch, descriptions, lane->stream));
}

static bool is_equal(struct queue *queue, struct lane *lane, const struct item *item)
{
    CHECK(cudaMemcpyAsync(queue->compared, item->image.pixels, item->image_bytes,
                          cudaMemcpyDeviceToHost, lane->stream));
    CHECK(cudaStreamSynchronize(lane->stream));
    return photo_equals(item->photo, &item->image, queue->compared);
}

static void finish(struct queue *queue, struct lane *lane)
{
    struct queue_figures *figures = &queue->figures;
    for (int i = 0; i < queue->load.batch; i++) {
        const struct item *item = &lane->items[i];
        bool compares = lane->compares || queue->phase == DRAIN;
        figures->wrong += lane->verdicts[i] != JPEG_DECODE_DONE ||
                          (compares && !is_equal(queue, lane, item));
        figures->compared += compares;
        queue->ended++;
        queue->megapixels += 1e-6 * item->photo->width * item->photo->height;
    }
    give_back(queue, lane, &lane->last);
    give_back(queue, lane, &lane->scans);
}

/* Takes the next step of the lane if its stream and the budget allow it.
 *
 * A lane starts only if there is room for both of its steps, and if no lane waits for memory. The
 * memory of scans therefore does not grow while lanes wait, and the lane that started last, at
 * least, finds room for its last step: the lanes cannot wait for each other forever. */
static void advance(struct queue *queue, struct lane *lane)
{
    double start_s = bench_seconds();
    switch (lane->state) {
    case LANE_IDLE:
        if (queue->phase == DRAIN || queue->counts[LANE_WAITS] > 0)
            return;
        fetch(queue, lane);
        if (!has_room(queue, lane->scans.bytes + lane->last.bytes))
            return;
        lane->compares = queue->started < queue->pass;
        queue->started += (size_t)queue->load.batch;
        launch_scans(queue, lane);
        break;
    case LANE_SCANS:
        if (cuda_query(lane->stream) == cudaErrorNotReady)
            return;
        break;
    case LANE_WAITS:
        if (!has_room(queue, lane->last.bytes))
            return;
        launch_last(queue, lane);
        break;
    default:
        if (cuda_query(lane->stream) == cudaErrorNotReady)
            return;
        finish(queue, lane);
    }
    queue->host_s += bench_seconds() - start_s;
    move(queue, lane, (enum lane_state)((lane->state + 1) % LANE_STATES));
}

/* ---- opening and closing ---- */

static uint8_t *pin(size_t bytes)
{
    void *memory = NULL;
    CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
    return memory;
}

/* Keeps freed memory. A stream takes memory that another one has freed only if the free has been
 * executed; otherwise it would wait for the other stream. */
static cudaMemPool_t open_pool(void)
{
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice}};
    uint64_t threshold = UINT64_MAX;
    int no = 0, yes = 1;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &yes));
    return pool;
}

static void open_items(struct queue *queue)
{
    const struct photos *photos = queue->photos;
    size_t files_bytes = 0, image_bytes = 0;
    queue->items = calloc(photos->count, sizeof *queue->items);
    for (size_t i = 0; i < photos->count; i++) {
        struct item *item = &queue->items[i];
        item->photo = &photos->list[i];
        item->image = photo_image(item->photo, &queue->work);
        item->image_bytes = item->image.stride * item->image.height;
        item->work_bytes[0] = scans_work_bytes(item->photo, &queue->work);
        item->work_bytes[1] = decode_work_bytes(item->photo, &queue->work);
        image_bytes = item->image_bytes > image_bytes ? item->image_bytes : image_bytes;
        files_bytes += buffer_align(item->photo->length);
    }
    queue->compared = pin(image_bytes);
    uint8_t *at = queue->files = pin(files_bytes);
    for (size_t i = 0; i < photos->count; i++) {
        struct item *item = &queue->items[i];
        item->pinned_file = take(&at, item->photo->length);
        memcpy((uint8_t *)item->pinned_file, item->photo->bytes, item->photo->length);
    }
}

static void open_lanes(struct queue *queue)
{
    queue->lanes = calloc((size_t)queue->load.streams, sizeof *queue->lanes);
    queue->counts[LANE_IDLE] = (size_t)queue->load.streams;
    for (int i = 0; i < queue->load.streams; i++) {
        struct lane *lane = &queue->lanes[i];
        CHECK(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
        lane->description = pin(queue->room);
        lane->verdicts = (uint32_t *)(void *)pin(BATCH_MAX * sizeof(uint32_t));
    }
}

static void close_all(struct queue *queue)
{
    uint64_t held = 0;
    for (int i = 0; i < queue->load.streams; i++) {
        struct lane *lane = &queue->lanes[i];
        CHECK(cudaStreamSynchronize(lane->stream)); /* the frees */
        CHECK(cudaStreamDestroy(lane->stream));
        CHECK(cudaFreeHost(lane->description));
        CHECK(cudaFreeHost(lane->verdicts));
    }
    CHECK(cudaMemPoolGetAttribute(queue->pool, cudaMemPoolAttrReservedMemHigh, &held));
    CHECK(cudaMemPoolDestroy(queue->pool));
    CHECK(cudaFreeHost(queue->files));
    CHECK(cudaFreeHost(queue->compared));
    free(queue->lanes);
    free(queue->items);
    queue->figures.pool_bytes = held;
}

struct queue_figures queue_run(const struct photos *photos, const struct jpeg_work *work,
                               const struct queue_load *load, double seconds)
{
    size_t in_flight = (size_t)load->streams * (size_t)load->batch;
    struct queue queue = {.photos = photos, .work = *work, .load = *load, .seconds = seconds,
                          .pass = in_flight > photos->count ? in_flight : photos->count,
                          .room = description_room((size_t)load->batch)};
    assert(load->batch > 0 && load->batch <= BATCH_MAX && work->steps & STEP_DECODE);
    queue.pool = open_pool();
    open_items(&queue);
    open_lanes(&queue);
    while (queue.phase != DRAIN || queue.counts[LANE_IDLE] < (size_t)load->streams) {
        for (int i = 0; i < load->streams; i++)
            advance(&queue, &queue.lanes[i]);
        end_phase_if_due(&queue);
    }
    assert(queue.bytes == 0);
    close_all(&queue);
    return queue.figures;
}
