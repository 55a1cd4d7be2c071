#include "tests/bench/jpeg_flow.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codecs/jpeg/header.h"
#include "codecs/quality_search.h"
#include "gpu/jpeg/encode.h"
#include "gpu/ops/sobel.h"
#include "gpu/plan/pass.h"
#include "tests/bench/jpeg_image.h"

pass_cuda_many sobel_cuda;

/* Offsets are in the flow's device memory, unless they are said to be in its pinned memory. */
struct flow_image {
    const struct photo *photo;
    struct image decoded, edges, last; /* device; last: the image to encode */
    size_t file_at;                    /* in both */
    size_t decoded_at, edges_at, scans_at, decode_at, encode_at;
    size_t result_at, prelude_at;      /* in pinned memory, but a file that stays: device */
    size_t capacity;
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
};

struct description {
    size_t at, bytes; /* in both memories */
};

struct flow {
    struct jpeg_work work;
    struct flow_image *images;
    size_t count, distinct; /* distinct: photographs */
    int device_index;
    cudaStream_t stream;
    uint8_t *device, *pinned;
    size_t device_bytes, pinned_bytes, files_bytes;
    size_t lengths_at, verdicts_at, found_at; /* in pinned memory */
    size_t scan_verdicts_at;
    struct description scans, decode, encode;
    struct jpeg_progressive_batch scan_batch;
    struct jpeg_decode_batch decode_batch;
    struct jpeg_encode_batch encode_batch;
    bool progressive;
};

static size_t take(size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += buffer_align(bytes);
    return at;
}

/* ---- layout ---- */

static void lay_out_image(struct flow *flow, struct flow_image *image)
{
    const struct jpeg_work *work = &flow->work;
    const struct photo *photo = image->photo;
    struct image size = photo_image(photo, work);
    image->decoded = image->edges = size;
    image->decoded_at = take(&flow->device_bytes, size.stride * size.height);
    image->decode_at = take(&flow->device_bytes, decode_work_bytes(photo, work));
    if (flow->progressive)
        image->scans_at = take(&flow->device_bytes, scans_work_bytes(photo, work));
    if (work->steps & STEP_SOBEL)
        image->edges_at = take(&flow->device_bytes, size.stride * size.height);
    if (!(work->steps & STEP_ENCODE))
        return;
    uint32_t factor = size.channels == 1 ? 1 : 2;
    image->capacity = photo->result_bytes + photo->result_bytes / 4;
    image->encode_at = take(&flow->device_bytes,
                            jpeg_encode_work_bytes(size.width, size.height, size.channels, factor,
                                                   factor, image->capacity));
    image->result_at =
        take(work->stay ? &flow->device_bytes : &flow->pinned_bytes, image->capacity);
    image->prelude_at = take(&flow->pinned_bytes, jpeg_prelude_bytes(0));
}

/* The files come first, at the same offsets in both memories. */
static void lay_out(struct flow *flow)
{
    for (size_t i = 0; i < flow->count; i++)
        flow->images[i].file_at = take(&flow->files_bytes, flow->images[i].photo->length);
    flow->device_bytes = flow->pinned_bytes = flow->files_bytes;
    for (size_t i = 0; i < flow->count; i++)
        lay_out_image(flow, &flow->images[i]);
    flow->lengths_at = take(&flow->pinned_bytes, flow->count * sizeof(uint32_t));
    flow->verdicts_at = take(&flow->pinned_bytes, flow->count * sizeof(uint32_t));
    flow->found_at = take(&flow->pinned_bytes, 2 * flow->count * sizeof(uint32_t));
    flow->scan_verdicts_at = take(&flow->device_bytes, flow->count * sizeof(uint32_t));
}

/* ---- descriptions ---- */

static size_t describe_scans(struct flow *flow, void *to, size_t bytes)
{
    struct jpeg_progressive_image *list = calloc(flow->count, sizeof *list);
    for (size_t i = 0; i < flow->count; i++) {
        struct flow_image *image = &flow->images[i];
        list[i] = scans_of(image->photo, &flow->work, flow->device + image->file_at,
                           flow->device + image->scans_at,
                           (uint32_t *)(flow->device + flow->scan_verdicts_at) + i, image->planes);
    }
    size_t needed = jpeg_progressive_describe(list, (uint32_t)flow->count, to, bytes,
                                              &flow->scan_batch);
    free(list);
    return needed;
}

static size_t describe_decode(struct flow *flow, void *to, size_t bytes)
{
    struct jpeg_decode_image *list = calloc(flow->count, sizeof *list);
    for (size_t i = 0; i < flow->count; i++) {
        struct flow_image *image = &flow->images[i];
        image->decoded.pixels = flow->device + image->decoded_at;
        list[i] = decode_of(image->photo, &flow->work, flow->device + image->file_at,
                            &image->decoded, flow->device + image->decode_at,
                            (uint32_t *)(flow->pinned + flow->verdicts_at) + i);
        if (flow->progressive) {
            list[i].coefficients = image->planes;
            list[i].coefficients_verdict =
                (uint32_t *)(flow->device + flow->scan_verdicts_at) + i;
        }
    }
    size_t needed = jpeg_decode_describe(list, flow->count, to, bytes, &flow->decode_batch);
    free(list);
    return needed;
}

static size_t describe_encode(struct flow *flow, void *to, size_t bytes)
{
    struct jpeg_encode_image *list = calloc(flow->count, sizeof *list);
    for (size_t i = 0; i < flow->count; i++) {
        struct flow_image *image = &flow->images[i];
        struct jpeg_prelude *prelude = (struct jpeg_prelude *)(flow->pinned + image->prelude_at);
        uint8_t factor = image->decoded.channels == 1 ? 1 : 2;
        uint32_t *found = (uint32_t *)(flow->pinned + flow->found_at) + 2 * i;
        image->edges.pixels = flow->device + image->edges_at;
        image->last = flow->work.steps & STEP_SOBEL ? image->edges : image->decoded;
        list[i] = (struct jpeg_encode_image){
            .source = image->last,
            .h = factor,
            .v = factor,
            .quant = prelude->quant[0],
            .header = prelude->header,
            .header_bytes = prelude->header_bytes,
            .work = flow->device + image->encode_at,
            .file = (flow->work.stay ? flow->device : flow->pinned) + image->result_at,
            .capacity = image->capacity,
            .file_bytes = (uint32_t *)(flow->pinned + flow->lengths_at) + i,
            .ssim = flow->work.ssim,
            .quality_min = QUALITY_LOWEST,
            .quality_max = QUALITY_HIGHEST,
            .header_quants = {prelude->header + prelude->quant_at[0],
                              prelude->header + prelude->quant_at[1]},
            .found_quality = found,
            .found_ssim = found + 1};
    }
    size_t needed = jpeg_encode_describe(list, (uint32_t)flow->count, to, bytes,
                                         &flow->encode_batch);
    free(list);
    return needed;
}

static void make_preludes(struct flow *flow)
{
    struct encode_request request = {.format = &formats[FORMAT_jpeg], .encoder = encoder_defaults};
    struct codec_context *context = codec_context_create();
    struct error error = {0};
    request.encoder.quality = JPEG_QUALITY;
    for (size_t i = 0; i < flow->count; i++) {
        const struct image *image = &flow->images[i].decoded;
        CHECK(jpeg_prelude_make(
            context, &request, image->width, image->height, image->channels,
            (struct jpeg_prelude *)(flow->pinned + flow->images[i].prelude_at), &error));
    }
    codec_context_destroy(context);
}

/* The scans come first, because they also find the planes. */
static void describe(struct flow *flow)
{
    if (flow->progressive)
        flow->scans.bytes = describe_scans(flow, flow->pinned + flow->scans.at, flow->scans.bytes);
    flow->decode.bytes = describe_decode(flow, flow->pinned + flow->decode.at, flow->decode.bytes);
    if (flow->work.steps & STEP_ENCODE)
        flow->encode.bytes =
            describe_encode(flow, flow->pinned + flow->encode.at, flow->encode.bytes);
    description_check(flow->scans.bytes, flow->count);
    description_check(flow->decode.bytes, flow->count);
    description_check(flow->encode.bytes, flow->count);
}

static void take_descriptions(struct flow *flow)
{
    size_t bytes = description_room(flow->count);
    struct description *list[] = {&flow->scans, &flow->decode, &flow->encode};
    for (int i = 0; i < 3; i++) {
        list[i]->at = take(&flow->files_bytes, bytes);
        list[i]->bytes = bytes;
    }
}

int flow_devices(void)
{
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    return count;
}

static void select_device(const struct flow *flow)
{
    CHECK(cudaSetDevice(flow->device_index));
}

struct flow *flow_open(const struct photos *photos, size_t first, size_t count,
                       const struct jpeg_work *work, int device)
{
    struct flow *flow = calloc(1, sizeof *flow);
    flow->device_index = device;
    select_device(flow);
    flow->work = *work;
    flow->count = count;
    flow->distinct = photos->count;
    flow->images = calloc(count, sizeof *flow->images);
    flow->progressive = photos->list[0].frame->progressive;
    for (size_t i = 0; i < count; i++)
        flow->images[i].photo = &photos->list[(first + i) % photos->count];
    take_descriptions(flow);
    lay_out(flow);
    CHECK(cudaStreamCreateWithFlags(&flow->stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&flow->device, flow->device_bytes));
    CHECK(cudaHostAlloc((void **)&flow->pinned, flow->pinned_bytes, cudaHostAllocPortable));
    for (size_t i = 0; i < count; i++)
        memcpy(flow->pinned + flow->images[i].file_at, flow->images[i].photo->bytes,
               flow->images[i].photo->length);
    if (work->steps & STEP_ENCODE)
        make_preludes(flow);
    describe(flow);
    flow_launch(flow, STEP_UPLOAD);
    flow_wait(flow);
    return flow;
}

void flow_close(struct flow *flow)
{
    select_device(flow);
    CHECK(cudaStreamDestroy(flow->stream));
    CHECK(cudaFree(flow->device));
    CHECK(cudaFreeHost(flow->pinned));
    free(flow->images);
    free(flow);
}

/* ---- launches ---- */

static void upload(struct flow *flow, size_t at, size_t bytes)
{
    CHECK(cudaMemcpyAsync(flow->device + at, flow->pinned + at, bytes, cudaMemcpyHostToDevice,
                          flow->stream));
}

static bool is_small(const struct image *image)
{
    return (uint64_t)image->width * image->height <= PASS_SHARED_PIXELS;
}

/* Small images share launches, as in the engine. */
static void launch_sobel(struct flow *flow)
{
    struct pass pass = {0};
    struct pass_call calls[PASSES_SHARED_MAX];
    uint32_t count = 0;
    struct sobel *sobel = (struct sobel *)pass.params;
    sobel->magnitude = SOBEL_HALF;
    sobel->border = BORDER_REFLECT101;
    for (size_t i = 0; i < flow->count; i++) {
        const struct image *from = &flow->images[i].decoded, *to = &flow->images[i].edges;
        calls[count++] = (struct pass_call){.pass = &pass, .from = *from, .to = *to};
        if (count < PASSES_SHARED_MAX && i + 1 < flow->count && is_small(from) &&
            is_small(&flow->images[i + 1].decoded))
            continue;
        CHECK(sobel_cuda(calls, count, flow->stream));
        count = 0;
    }
}

void flow_launch(struct flow *flow, unsigned steps)
{
    size_t files_at = flow->images[0].file_at;
    select_device(flow);
    if (steps & STEP_UPLOAD) {
        upload(flow, files_at, flow->files_bytes - files_at);
        upload(flow, flow->decode.at, flow->decode.bytes);
        if (flow->work.steps & STEP_ENCODE)
            upload(flow, flow->encode.at, flow->encode.bytes);
    }
    if (steps & STEP_DECODE && flow->progressive) {
        upload(flow, flow->scans.at, flow->scans.bytes);
        CHECK(jpeg_progressive_decode(&flow->scan_batch, flow->device + flow->scans.at,
                                      flow->stream));
        CHECK(jpeg_progressive_complete(&flow->scan_batch, flow->device + flow->scans.at,
                                        flow->stream));
    }
    if (steps & STEP_DECODE)
        CHECK(jpeg_decode_launch(&flow->decode_batch, flow->device + flow->decode.at,
                                 flow->stream));
    if (steps & STEP_SOBEL)
        launch_sobel(flow);
    if (steps & STEP_ENCODE)
        CHECK(jpeg_encode_launch(&flow->encode_batch, flow->device + flow->encode.at,
                                 flow->stream));
}

void flow_wait(struct flow *flow)
{
    select_device(flow);
    CHECK(cudaStreamSynchronize(flow->stream));
}

/* ---- results ---- */

static bool is_wrong(struct flow *flow, size_t index, bool compares)
{
    const struct flow_image *image = &flow->images[index];
    const struct photo *photo = image->photo;
    bool file = flow->work.steps & STEP_ENCODE, wrong;
    const uint32_t *lengths = (const uint32_t *)(flow->pinned + flow->lengths_at);
    const uint32_t *verdicts = (const uint32_t *)(flow->pinned + flow->verdicts_at);
    const struct image *last = flow->work.steps & STEP_SOBEL ? &image->edges : &image->decoded;
    const uint8_t *at = file ? flow->device + image->result_at : last->pixels;
    if (verdicts[index] != 0 || (file && lengths[index] != photo->result_bytes))
        return true;
    if (!compares)
        return false;
    uint8_t *bytes = malloc(photo->result_bytes);
    if (file && !flow->work.stay)
        memcpy(bytes, flow->pinned + image->result_at, photo->result_bytes);
    else
        CHECK(cudaMemcpyAsync(bytes, at, photo->result_bytes, cudaMemcpyDeviceToHost,
                              flow->stream));
    flow_wait(flow);
    wrong = file ? memcmp(bytes, photo->result, photo->result_bytes) != 0
                 : !photo_equals(photo, last, bytes);
    free(bytes);
    return wrong;
}

size_t flow_wrong(struct flow *flow)
{
    size_t wrong = 0;
    select_device(flow);
    for (size_t i = 0; i < flow->count; i++)
        wrong += is_wrong(flow, i, i < flow->distinct);
    return wrong;
}

double flow_megapixels(const struct flow *flow)
{
    double sum = 0;
    for (size_t i = 0; i < flow->count; i++)
        sum += 1e-6 * flow->images[i].photo->width * flow->images[i].photo->height;
    return sum;
}

double flow_megabytes_in(const struct flow *flow)
{
    double sum = 0;
    for (size_t i = 0; i < flow->count; i++)
        sum += 1e-6 * (double)flow->images[i].photo->length;
    return sum;
}

double flow_megabytes_out(const struct flow *flow)
{
    double sum = 0;
    for (size_t i = 0; i < flow->count && flow->work.steps & STEP_ENCODE; i++)
        sum += 1e-6 * (double)flow->images[i].photo->result_bytes;
    return sum;
}

/* ---- times ---- */

double flow_gibibytes(const struct flow *flow)
{
    return (double)flow->device_bytes / (double)(1 << 30);
}

struct runner {
    struct flow *flow;
    unsigned steps;
    int rounds;
    bool sleeps;
    pthread_barrier_t *start;
};

static void run_once(const struct runner *runner)
{
    const struct timespec pause = {0, 200000};
    flow_launch(runner->flow, runner->steps);
    while (runner->sleeps && cudaStreamQuery(runner->flow->stream) == cudaErrorNotReady)
        nanosleep(&pause, NULL);
    flow_wait(runner->flow);
}

static void *run(void *argument)
{
    struct runner *runner = argument;
    run_once(runner);
    pthread_barrier_wait(runner->start);
    for (int i = 0; i < runner->rounds; i++)
        run_once(runner);
    return NULL;
}

double flow_run(struct flow **flows, int count, unsigned steps, int rounds)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    struct runner *runners = calloc((size_t)count, sizeof *runners);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        runners[i] = (struct runner){flows[i], steps, rounds, count > bench_cores(), &start};
        pthread_create(&threads[i], NULL, run, &runners[i]);
    }
    pthread_barrier_wait(&start);
    double began = bench_seconds();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    double took = bench_seconds() - began;
    pthread_barrier_destroy(&start);
    free(runners);
    free(threads);
    return took;
}

double flow_time(struct flow *flow, unsigned steps)
{
    double best = 1e9, start = bench_seconds();
    for (int repeats = 1; repeats <= 16 && bench_seconds() - start < 0.05; repeats *= 2) {
        double began = bench_seconds();
        for (int i = 0; i < repeats; i++)
            flow_launch(flow, steps);
        flow_wait(flow);
        double took = (bench_seconds() - began) / repeats;
        best = took < best ? took : best;
    }
    return best;
}
