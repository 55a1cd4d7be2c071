/*
 * jpeg_progressive - times the device decoder of progressive JPEGs and checks its results.
 *
 *     jpeg_progressive [--batches 20,80] [--streams 8x16] [--components 1,3] [--repeats N] FILE...
 *
 * --batches: that many images in one launch, alone on the device, with the files in device memory;
 * the median of the repeats. --streams SxB: S streams. Each stream uploads B files and decodes
 * them, again and again, so that S * B images are in flight. The files of a batch are alike.
 * 1 component: to samples of Y; 3: coefficients of all components, and samples of Y.
 */
#include <getopt.h>
#include <time.h>

#include "tests/cuda/jpeg_progressive_rig.h"

#define FILES_MAX 256
#define STREAMS_MAX 128

struct photo {
    uint8_t *bytes;
    size_t length;
    struct rig_reference reference;
    int16_t *expected[JPEG_COMPONENTS_MAX]; /* in the device's layout */
    double megapixels;
};

static struct photo photos[FILES_MAX];
static uint32_t photo_count;
static struct codec_context *context;

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool read_photo(const char *name, struct photo *photo)
{
    FILE *file = fopen(name, "rb");
    if (!file)
        return false;
    fseek(file, 0, SEEK_END);
    photo->length = (size_t)ftell(file);
    rewind(file);
    void *memory = NULL;
    rig_check(cudaHostAlloc(&memory, rig_round(photo->length), cudaHostAllocPortable), "pinned");
    photo->bytes = memory;
    bool whole = fread(photo->bytes, 1, photo->length, file) == photo->length;
    fclose(file);
    return whole && rig_read_reference(photo->bytes, photo->length, true, &photo->reference);
}

static void arrange(struct photo *photo)
{
    photo->megapixels = 1e-6 * photo->reference.width * photo->reference.height;
    for (int c = 0; c < JPEG_COMPONENTS_MAX && photo->reference.values[c]; c++) {
        uint32_t blocks = photo->reference.across[c] * photo->reference.down[c];
        photo->expected[c] = calloc(jpeg_plane_values(blocks), sizeof(int16_t));
        for (uint32_t block = 0; block < blocks; block++)
            for (uint32_t k = 0; k < 64; k++)
                photo->expected[c][jpeg_coefficient(block, k)] =
                    photo->reference.values[c][(size_t)block * 64 + k];
    }
}

/* ---- batches ---- */

struct item {
    struct photo *photo;
    struct jpeg_frame *frame;
    uint8_t *file, *work, *samples;
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
    uint32_t plane_count;
};

struct load {
    struct item *items;
    uint32_t count;
    bool luma_only;
    struct jpeg_progressive_image *images;
    struct jpeg_luma *luma;
    struct jpeg_progressive_batch batch;
    uint8_t *host, *memory;   /* descriptors and luma; on the device: those first */
    size_t host_bytes, device_bytes, luma_at, verdicts_at;
    double megapixels;
    double started_s; /* when it was last launched */
    cudaStream_t stream;
};

static size_t lay_out_load(struct load *load, uint8_t *base)
{
    size_t at = load->host_bytes;
    load->verdicts_at = at;
    at += rig_round(load->count * 4);
    for (uint32_t i = 0; i < load->count; i++) {
        struct item *item = &load->items[i];
        item->file = base + at;
        at += rig_round(item->photo->length);
        item->work = base + at;
        at += rig_round(jpeg_progressive_work_bytes(item->frame, (uint32_t)item->photo->length,
                                                    load->luma_only));
        item->samples = base + at;
        at += rig_round((size_t)item->photo->reference.across[0] *
                        item->photo->reference.down[0] * 64);
        load->images[i] = (struct jpeg_progressive_image){
            item->frame, item->file, (uint32_t)item->photo->length, load->luma_only, item->work,
            (uint32_t *)(void *)(base + load->verdicts_at) + i};
    }
    return at;
}

static void describe(struct load *load)
{
    jpeg_progressive_describe(load->images, load->count, load->host, load->luma_at, &load->batch);
    for (uint32_t i = 0; i < load->count; i++) {
        struct item *item = &load->items[i];
        struct jpeg_luma *luma = &load->luma[i];
        item->plane_count = jpeg_progressive_planes(item->frame, load->luma_only, item->work,
                                                    item->planes);
        luma->plane = item->planes[0];
        memcpy(luma->quant, item->frame->components[0].quant, sizeof luma->quant);
        luma->samples = item->samples;
        luma->pitch = (size_t)luma->plane.across * 8;
        luma->verdict = (uint32_t *)(void *)(load->memory + load->verdicts_at) + i;
    }
    memcpy(load->host + load->luma_at, load->luma, load->count * sizeof *load->luma);
}

/* alike: all images are the same one; otherwise the photos in turn, from `first` on. */
static void open_load(struct load *load, uint32_t count, uint32_t first, bool alike,
                      bool luma_only, struct jpeg_frame *frames)
{
    memset(load, 0, sizeof *load);
    load->count = count;
    load->luma_only = luma_only;
    load->items = calloc(count, sizeof *load->items);
    load->images = calloc(count, sizeof *load->images);
    load->luma = calloc(count, sizeof *load->luma);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (first + (alike ? 0 : i)) % photo_count;
        load->items[i].photo = &photos[index];
        load->items[i].frame = &frames[index];
        load->megapixels += load->items[i].photo->megapixels;
    }
    lay_out_load(load, NULL);
    load->luma_at = jpeg_progressive_describe(load->images, count, NULL, 0, &load->batch);
    load->host_bytes = rig_round(load->luma_at + count * sizeof *load->luma);
    load->device_bytes = lay_out_load(load, NULL);
}

/* memory: device_bytes bytes on the device. */
static void place_load(struct load *load, uint8_t *memory, cudaStream_t stream)
{
    void *host = NULL;
    load->memory = memory;
    load->stream = stream;
    lay_out_load(load, load->memory);
    rig_check(cudaHostAlloc(&host, load->host_bytes, cudaHostAllocPortable), "pinned");
    load->host = host;
    describe(load);
}

static cudaStream_t open_stream(void)
{
    cudaStream_t stream;
    rig_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
}

static void close_load(struct load *load)
{
    rig_check(cudaFreeHost(load->host), "cudaFreeHost");
    free(load->items);
    free(load->images);
    free(load->luma);
}

static void upload(struct load *load)
{
    for (uint32_t i = 0; i < load->count; i++)
        rig_check(cudaMemcpyAsync(load->items[i].file, load->items[i].photo->bytes,
                                  load->items[i].photo->length, cudaMemcpyHostToDevice,
                                  load->stream), "upload");
    rig_check(cudaMemcpyAsync(load->memory, load->host, load->host_bytes, cudaMemcpyHostToDevice,
                              load->stream), "upload");
}

static void launch(struct load *load)
{
    rig_check(jpeg_progressive_decode(&load->batch, load->memory, load->stream), "decode");
    rig_check(jpeg_store_luma((const struct jpeg_luma *)(void *)(load->memory + load->luma_at),
                              load->count, load->batch.groups_max, load->stream), "luma");
}

/* Compares every `step`-th image. Returns the number of wrong or declined images. */
static uint32_t count_wrong(struct load *load, uint32_t step)
{
    uint32_t wrong = 0, *verdicts = calloc(load->count, 4);
    rig_copy(verdicts, load->memory + load->verdicts_at, load->count * 4, cudaMemcpyDeviceToHost);
    for (uint32_t i = 0; i < load->count; i++) {
        struct item *item = &load->items[i];
        bool right = verdicts[i] == 0;
        for (uint32_t c = 0; right && i % step == 0 && c < item->plane_count; c++) {
            size_t bytes = jpeg_plane_values((uint64_t)item->planes[c].across *
                                             item->planes[c].down) * 2;
            uint8_t *values = malloc(bytes);
            rig_copy(values, item->planes[c].values, bytes, cudaMemcpyDeviceToHost);
            right = memcmp(values, item->photo->expected[c], bytes) == 0;
            free(values);
        }
        const struct rig_reference *reference = &item->photo->reference;
        size_t pitch = (size_t)reference->across[0] * 8, bytes = pitch * reference->down[0] * 8;
        uint8_t *samples = malloc(bytes);
        if (right && i % step == 0)
            rig_copy(samples, item->samples, bytes, cudaMemcpyDeviceToHost);
        for (uint32_t y = 0; right && i % step == 0 && y < reference->height; y++)
            right = memcmp(samples + y * pitch, reference->luma + y * pitch,
                           reference->width) == 0;
        free(samples);
        wrong += !right;
    }
    free(verdicts);
    return wrong;
}

/* ---- measurements ---- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure_batch(uint32_t count, bool luma_only, uint32_t repeats,
                          struct jpeg_frame *frames)
{
    struct load load;
    double times[64];
    open_load(&load, count, 0, false, luma_only, frames);
    place_load(&load, rig_malloc(load.device_bytes), open_stream());
    upload(&load);
    for (uint32_t i = 0; i <= repeats; i++) {
        rig_check(cudaStreamSynchronize(load.stream), "stream");
        double start = now_s();
        launch(&load);
        rig_check(cudaStreamSynchronize(load.stream), "stream");
        times[i ? i - 1 : 0] = now_s() - start;
    }
    qsort(times, repeats, sizeof *times, compare_times);
    double median = times[repeats / 2];
    printf("batch %4u %-3s %8.2f ms %7.3f GP/s %5.1f MB per image, wrong %u\n", count,
           luma_only ? "Y" : "all", median * 1e3, load.megapixels / median * 1e-3,
           1e-6 * (double)load.device_bytes / count, count_wrong(&load, count > 40 ? 7 : 1));
    fflush(stdout);
    rig_check(cudaFree(load.memory), "cudaFree");
    rig_check(cudaStreamDestroy(load.stream), "stream");
    close_load(&load);
}

/* A stream with a load for each photo. One load is in flight. */
struct lane {
    struct load *loads;
    struct load *now; /* NULL: none */
    uint8_t *memory;
    cudaStream_t stream;
};

static void open_lane(struct lane *lane, uint32_t count, bool luma_only, struct jpeg_frame *frames)
{
    size_t bytes = 0;
    lane->now = NULL;
    lane->stream = open_stream();
    lane->loads = calloc(photo_count, sizeof *lane->loads);
    for (uint32_t i = 0; i < photo_count; i++) {
        open_load(&lane->loads[i], count, i, true, luma_only, frames);
        if (lane->loads[i].device_bytes > bytes)
            bytes = lane->loads[i].device_bytes;
    }
    lane->memory = rig_malloc(bytes);
    for (uint32_t i = 0; i < photo_count; i++)
        place_load(&lane->loads[i], lane->memory, lane->stream);
}

static void close_lane(struct lane *lane)
{
    for (uint32_t i = 0; i < photo_count; i++)
        close_load(&lane->loads[i]);
    free(lane->loads);
    rig_check(cudaFree(lane->memory), "cudaFree");
    rig_check(cudaStreamDestroy(lane->stream), "stream");
}

static void start_load(struct lane *lane, uint32_t photo)
{
    lane->now = &lane->loads[photo];
    lane->now->started_s = now_s();
    describe(lane->now);
    upload(lane->now);
    launch(lane->now);
}

/* The photos in turn, each as a batch of `count` equal images, on the first stream that is idle. */
static void measure_streams(uint32_t streams, uint32_t count, bool luma_only, uint32_t rounds,
                            struct jpeg_frame *frames)
{
    static struct lane lanes[STREAMS_MAX];
    uint32_t wrong = 0, started = 0, ended = 0, warm = streams, total = streams * (rounds + 1);
    double megapixels = 0, byte_s = 0, host_s = 0, start = 0, end = 0;
    for (uint32_t i = 0; i < streams; i++)
        open_lane(&lanes[i], count, luma_only, frames);
    while (ended < total) {
        for (uint32_t i = 0; i < streams && ended < total; i++) {
            struct load *load = lanes[i].now;
            if (load && cudaStreamQuery(lanes[i].stream) == cudaErrorNotReady)
                continue;
            if (load) {
                lanes[i].now = NULL;
                end = now_s();
                if (++ended == warm)
                    start = end;
                if (ended > warm) {
                    megapixels += load->megapixels;
                    byte_s += (double)load->device_bytes * (end - load->started_s);
                }
            }
            double before = now_s();
            start_load(&lanes[i], started++ % photo_count);
            host_s += now_s() - before;
        }
    }
    for (uint32_t i = 0; i < streams; i++) {
        rig_check(cudaStreamSynchronize(lanes[i].stream), "stream");
        wrong += count_wrong(lanes[i].now, 7);
        close_lane(&lanes[i]);
    }
    printf("streams %3u x %2u %-3s %7.3f GP/s, %4.2f GiB in use, host %.0f us per image, "
           "wrong %u\n", streams, count, luma_only ? "Y" : "all",
           megapixels / (end - start) * 1e-3, byte_s / (end - start) / (1 << 30),
           1e6 * host_s / (started * (double)count), wrong);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"batches", 1, NULL, 'b'}, {"streams", 1, NULL, 's'},
                                            {"components", 1, NULL, 'c'},
                                            {"repeats", 1, NULL, 'r'}, {0}};
    const char *batches = "", *streams = "", *components = "1,3";
    uint32_t repeats = 9;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'b')
            batches = optarg;
        else if (option == 's')
            streams = optarg;
        else if (option == 'c')
            components = optarg;
        else if (option == 'r')
            repeats = (uint32_t)atoi(optarg);
    }
    /* Streams that share a hardware queue wait for each other's kernels. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    context = codec_context_create();
    for (int i = optind; i < argc && photo_count < FILES_MAX; i++)
        if (read_photo(argv[i], &photos[photo_count]))
            arrange(&photos[photo_count++]);
    struct rig_file *files = calloc(FILES_MAX, sizeof *files);
    struct rig_batch batch = {.files = files, .count = photo_count};
    struct jpeg_frame *frames = calloc(FILES_MAX, sizeof *frames);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < photo_count; i++) {
        files[i].bytes = photos[i].bytes;
        files[i].length = photos[i].length;
    }
    rig_read_frames(context, &batch);
    double megapixels = 0, megabytes = 0;
    for (uint32_t i = 0; i < photo_count; i++)
        if (files[i].taken) {
            frames[taken] = files[i].frame;
            photos[taken++] = photos[i];
            megapixels += photos[i].megapixels;
            megabytes += 1e-6 * (double)photos[i].length;
        }
    printf("%u files, %u taken, %.1f MP, %.2f bits per pixel\n", photo_count, taken, megapixels,
           megabytes * 8 / megapixels);
    photo_count = taken;
    if (taken == 0)
        return 1;
    for (const char *c = components; *c; c += c[1] ? 2 : 1) {
        for (const char *at = batches; *at;) {
            char *end;
            measure_batch((uint32_t)strtoul(at, &end, 10), *c == '1', repeats, frames);
            at = *end ? end + 1 : end;
        }
        for (const char *at = streams; *at;) {
            char *end;
            uint32_t width = (uint32_t)strtoul(at, &end, 10);
            measure_streams(width, (uint32_t)strtoul(end + 1, &end, 10), *c == '1', repeats,
                            frames);
            at = *end ? end + 1 : end;
        }
    }
    return 0;
}
