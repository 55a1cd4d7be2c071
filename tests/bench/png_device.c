#include "tests/bench/png_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/png_reading.h"

#ifdef GPUIMGD_CUDA

#include <cuda_runtime.h>

#include "codecs/png/frame.h"
#include "gpu/png/decode.h"
#include "gpu/png/encode.h"
#include "tests/fixtures/measure.h"

#define BATCH_MAX  512
#define ROUNDS_MAX 31

static const uint32_t batches[] = {1, 8, 64, 512};

static void check(int result)
{
    if (result == 0)
        return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString((cudaError_t)result));
    exit(1);
}

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Device memory for the images of a batch, taken from one block. */
struct arena {
    uint8_t *memory;
    size_t used;
};

static uint8_t *take(struct arena *arena, size_t bytes)
{
    uint8_t *at = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += buffer_align(bytes);
    return at;
}

static struct arena arena;
static cudaStream_t stream;
static uint32_t *verdicts, *lengths; /* of the images, on the device */

/* What one image needs in both directions. */
struct slot {
    const struct picture *picture;
    struct png_frame frame;
    size_t header_bytes;
    uint8_t *file, *pixels, *work, *header, *written, *encoder_work;
    size_t capacity;
};

static struct slot slots[BATCH_MAX];

/* Takes the memory of a slot. With arena.memory NULL it only counts. */
static void lay_out(struct slot *slot, const struct picture *picture)
{
    const struct image *image = &picture->image;
    const struct bytes *png = &picture->png;
    slot->picture = picture;
    if (!png_read_frame(png->at, png->used, &slot->frame))
        fail("devices do not decode the file", "bench_png device");
    slot->header_bytes = slot->frame.idat_at;
    slot->capacity =
        png_encode_capacity(image->width, image->height, image->channels, slot->header_bytes);
    slot->file = take(&arena, png->used + BUFFER_ALIGN);
    slot->pixels = take(&arena, image->stride * image->height);
    slot->work = take(&arena, png_decode_work_bytes(&slot->frame, png->used));
    slot->header = take(&arena, slot->header_bytes + BUFFER_ALIGN);
    slot->written = take(&arena, slot->capacity);
    slot->encoder_work =
        take(&arena, png_encode_work_bytes(image->width, image->height, image->channels));
}

static void open_slots(const struct picture *pictures, size_t kinds, uint32_t count)
{
    arena = (struct arena){NULL, 0};
    for (uint32_t i = 0; i < count; i++)
        lay_out(&slots[i], &pictures[i % kinds]);
    verdicts = (uint32_t *)take(&arena, sizeof(uint32_t) * 2 * BATCH_MAX);
    check(cudaMalloc((void **)&arena.memory, arena.used));
    arena.used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct bytes *png = &pictures[i % kinds].png;
        lay_out(&slots[i], &pictures[i % kinds]);
        check(cudaMemcpy(slots[i].file, png->at, png->used, cudaMemcpyHostToDevice));
        check(cudaMemcpy(slots[i].header, png->at, slots[i].header_bytes, cudaMemcpyHostToDevice));
    }
    verdicts = (uint32_t *)take(&arena, sizeof(uint32_t) * 2 * BATCH_MAX);
    lengths = verdicts + BATCH_MAX;
}

/* ---- launches ------------------------------------------------------------------------------- */

static struct png_decode_batch decode_batch;
static struct png_encode_batch encode_batch;
static uint8_t *decode_at, *encode_at; /* the descriptions on the device */

static struct image device_image(const struct slot *slot)
{
    struct image image = slot->picture->image;
    image.pixels = slot->pixels;
    return image;
}

static uint8_t *upload(const uint8_t *bytes, size_t count)
{
    uint8_t *to;
    check(cudaMalloc((void **)&to, count));
    check(cudaMemcpy(to, bytes, count, cudaMemcpyHostToDevice));
    return to;
}

static void describe(uint32_t count)
{
    static struct png_decode_image decoded[BATCH_MAX];
    static struct png_encode_image encoded[BATCH_MAX];
    for (uint32_t i = 0; i < count; i++) {
        const struct slot *slot = &slots[i];
        decoded[i] = (struct png_decode_image){.frame = &slot->frame,
                                               .file = slot->file,
                                               .file_bytes = (uint32_t)slot->picture->png.used,
                                               .image = device_image(slot),
                                               .verdict = &verdicts[i],
                                               .work = slot->work};
        encoded[i] = (struct png_encode_image){.source = device_image(slot),
                                               .header = slot->header,
                                               .header_bytes = slot->header_bytes,
                                               .work = slot->encoder_work,
                                               .file = slot->written,
                                               .capacity = slot->capacity,
                                               .file_bytes = &lengths[i]};
    }
    size_t decode_bytes = png_decode_describe(decoded, count, NULL, 0, &decode_batch);
    size_t encode_bytes = png_encode_describe(encoded, count, NULL, 0, &encode_batch);
    size_t most = decode_bytes > encode_bytes ? decode_bytes : encode_bytes;
    uint8_t *description = aligned_alloc(BUFFER_ALIGN, buffer_align(most));
    png_decode_describe(decoded, count, description, decode_bytes, &decode_batch);
    decode_at = upload(description, decode_bytes);
    png_encode_describe(encoded, count, description, encode_bytes, &encode_batch);
    encode_at = upload(description, encode_bytes);
    free(description);
}

static void decode(void)
{
    check(png_decode_inflate(&decode_batch, decode_at, stream));
    check(png_decode_rows(&decode_batch, decode_at, stream));
}

static void encode(void)
{
    check(png_encode_launch(&encode_batch, encode_at, stream));
}

/* The median time of a launch, in ms. */
static double time_ms(void (*launch)(void), unsigned rounds)
{
    double times[ROUNDS_MAX];
    cudaEvent_t from, to;
    check(cudaEventCreate(&from));
    check(cudaEventCreate(&to));
    for (unsigned r = 0; r <= rounds; r++) { /* the first one warms up */
        float ms;
        check(cudaEventRecord(from, stream));
        launch();
        check(cudaEventRecord(to, stream));
        check(cudaStreamSynchronize(stream));
        check(cudaEventElapsedTime(&ms, from, to));
        times[r > 0 ? r - 1 : 0] = ms;
    }
    check(cudaEventDestroy(from));
    check(cudaEventDestroy(to));
    return median(times, rounds);
}

/* ---- results -------------------------------------------------------------------------------- */

static void compare_pixels(const struct slot *slot, uint32_t verdict, const char *name)
{
    const struct image *image = &slot->picture->image;
    size_t bytes = image->stride * image->height, row = (size_t)image->width * image->channels;
    uint8_t *got = malloc(bytes);
    if (verdict != 0)
        fail("the device has declined a file", name);
    check(cudaMemcpy(got, slot->pixels, bytes, cudaMemcpyDeviceToHost));
    for (uint32_t y = 0; y < image->height; y++)
        if (memcmp(got + y * image->stride, image->pixels + y * image->stride, row) != 0)
            fail("pixels differ", name);
    free(got);
}

static void compare_file(const struct slot *slot, uint32_t length, const char *name)
{
    const struct bytes *png = &slot->picture->png;
    uint8_t *got = malloc(length);
    check(cudaMemcpy(got, slot->written, length, cudaMemcpyDeviceToHost));
    if (length != png->used || memcmp(got, png->at, length) != 0)
        fail("a file differs", name);
    free(got);
}

static void compare_results(uint32_t count, bool by_codec, const char *name)
{
    uint32_t got[2 * BATCH_MAX];
    check(cudaMemcpy(got, verdicts, sizeof got, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < count; i++) {
        compare_pixels(&slots[i], got[i], name);
        if (by_codec)
            compare_file(&slots[i], got[BATCH_MAX + i], name);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void measure(const char *name, struct picture *pictures, size_t kinds, uint32_t count,
                    unsigned rounds)
{
    bool by_codec = strstr(name, "by codec") != NULL;
    double gigapixels = 0, bytes = 0;
    open_slots(pictures, kinds, count);
    describe(count);
    for (uint32_t i = 0; i < count; i++) {
        gigapixels += (double)slots[i].picture->image.width * slots[i].picture->image.height * 1e-9;
        bytes += (double)slots[i].picture->png.used;
    }
    double decode_ms = time_ms(decode, rounds);
    double encode_ms = time_ms(encode, rounds);
    compare_results(count, by_codec, name);
    printf("%-28s %6u %6.2f %12.2f %9.2f %12.2f %9.2f\n", name, count, bytes / gigapixels * 1e-9,
           decode_ms, gigapixels / decode_ms * 1e3, encode_ms, gigapixels / encode_ms * 1e3);
    fflush(stdout);
    check(cudaFree(decode_at));
    check(cudaFree(encode_at));
    check(cudaFree(arena.memory));
}

static void device_row(const char *name, struct picture *pictures, size_t count, unsigned rounds)
{
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        measure(name, pictures, count, batches[b], rounds);
}

void device_compare(const struct set *photographs, const struct set *edges, unsigned rounds)
{
    struct cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    printf("%s\n%-28s %6s %6s %12s %9s %12s %9s\n", device.name, "files", "images", "B/px",
           "decode ms", "GP/s", "encode ms", "GP/s");
    reading_each(photographs, edges, rounds, device_row);
    check(cudaStreamDestroy(stream));
}

#else

void device_compare(const struct set *photographs, const struct set *edges, unsigned rounds)
{
    (void)photographs, (void)edges, (void)rounds;
    fprintf(stderr, "bench_png device: this build has no CUDA\n");
    exit(1);
}

#endif
