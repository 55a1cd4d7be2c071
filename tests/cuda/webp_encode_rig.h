/*
 * webp_encode_rig.h - encodes batches of images with the WebP encoder of devices, and compares the
 * files with those of libwebp, byte by byte.
 *
 * The images of a batch, their files and their work memory lie in one block of device memory with
 * guard bytes between them. After a launch the block may differ only where the encoder may write.
 * With AddressSanitizer, kernels that run on the host may not read the guard bytes either.
 */
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <webp/encode.h>

#include "codecs/quality_search.h"
#include "gpu/webp/encode.h"
#include "tests/cuda/arena.h"
#include "tests/fixtures/drawing.h"
#include "tests/fixtures/picture.h"

#ifdef CUDART_VERSION
#define ON_DEVICE true
#else
#define ON_DEVICE false /* the stand-in's cuda_runtime.h */
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON   __asan_poison_memory_region
#define UNPOISON __asan_unpoison_memory_region
#else
#define POISON(at, bytes)   ((void)(at), (void)(bytes))
#define UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif

#define BATCH_MAX 512
/* add_case runs a batch with more pixels, except one large image. */
#define BATCH_PIXELS 24000000u

enum alpha { OPAQUE, ONE_PIXEL, TRANSPARENT };

enum expectation {
    EQUAL,
    EQUAL_IF_SHORT, /* a long file may be declined */
    DECLINED
};

struct webp_case {
    uint32_t width, height, channels;
    int quality;
    enum drawing_kind kind;
    const struct raster *photograph; /* optional: resized, instead of the drawing */
    uint32_t seed;
    enum alpha alpha;                  /* of 4 channels */
    size_t header_more, trailer_bytes; /* even numbers: metadata in the file */
    enum expectation expect;
    size_t capacity;    /* of the file; 0: the least */
    uint32_t bytes_max; /* 0, or the quality is searched, from `quality` downwards */

    /* Of the batch. */
    struct image image;            /* on the host */
    struct picture_file reference; /* length 0: libwebp refuses the image */
    int found;                     /* the quality of the reference */
    size_t header_at, header_bytes, pixels_at, work_at, work_bytes, file_at;
};

static struct {
    struct webp_case cases[BATCH_MAX];
    size_t count, description_at, description_bytes, headers_bytes;
    size_t lengths_at, qualities_at; /* a word per image */
    struct webp_encode_image images[BATCH_MAX];
    struct webp_encode_batch batch;
    bool searches; /* an image has bytes_max */
    struct arena arena;
    uint8_t *headers; /* pinned */
    cudaStream_t stream;
    atomic_size_t next;    /* case to prepare */
    uint32_t chunk_tokens; /* of the boolean coder, at least; 0: as many as the encoder chooses */

    size_t equal, declined, different;
    bool prints_differences;
    const char *folder;   /* optional: receives the last two files that differ */
    char difference[256]; /* about them */
} webp;

/* ---- references ---- */

static void set_alpha(struct webp_case *self)
{
    struct image *image = &self->image;
    uint32_t row = self->seed % image->height, column = self->seed / 3 % image->width;
    if (self->alpha == ONE_PIXEL)
        image->pixels[row * image->stride + column * 4 + 3] = 254;
    for (uint32_t y = 0; y < image->height && self->alpha == TRANSPARENT; y++)
        for (uint32_t x = 0; x < image->width; x++)
            image->pixels[y * image->stride + x * 4 + 3] = (uint8_t)(x + y);
}

/* libwebp has no function that imports gray pixels. */
static bool import_gray(WebPPicture *picture, const struct image *image)
{
    picture->use_argb = 1;
    if (!WebPPictureAlloc(picture))
        return false;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            picture->argb[(size_t)y * (size_t)picture->argb_stride + x] =
                0xFF000000u | image->pixels[y * image->stride + x] * 0x010101u;
    return true;
}

/* Returns the file of libwebp without metadata; length 0: libwebp refuses the image. */
static struct picture_file encode_with_libwebp(const struct image *image, int quality)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    int stride = (int)image->stride;
    WebPMemoryWriterInit(&writer);
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        abort();
    config.method = 2;
    config.quality = (float)quality;
    picture.width = (int)image->width;
    picture.height = (int)image->height;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    bool is_done = image->channels == 1   ? import_gray(&picture, image)
                   : image->channels == 3 ? WebPPictureImportRGB(&picture, image->pixels, stride)
                                          : WebPPictureImportRGBA(&picture, image->pixels, stride);
    is_done = is_done && WebPEncode(&config, &picture);
    WebPPictureFree(&picture);
    if (!is_done) {
        WebPMemoryWriterClear(&writer);
        return (struct picture_file){NULL, 0};
    }
    struct picture_file file = {malloc(writer.size), writer.size};
    memcpy(file.bytes, writer.mem, writer.size);
    WebPMemoryWriterClear(&writer);
    return file;
}

static void put_metadata(struct webp_case *self)
{
    struct picture_file *file = &self->reference;
    size_t more = self->header_more + self->trailer_bytes;
    uint32_t random = self->seed * 2 + 1;
    if (file->length == 0 || more == 0)
        return;
    file->bytes = realloc(file->bytes, file->length + more);
    uint8_t *chunk = file->bytes + WEBP_RIFF_BYTES;
    memmove(chunk + self->header_more, chunk, file->length - WEBP_RIFF_BYTES);
    for (size_t i = 0; i < self->header_more; i++)
        chunk[i] = (uint8_t)picture_random(&random);
    file->length += more;
    for (size_t i = 1; i <= self->trailer_bytes; i++)
        file->bytes[file->length - i] = (uint8_t)picture_random(&random);
    uint32_t riff_bytes = (uint32_t)file->length - 8;
    for (int i = 0; i < 4; i++)
        file->bytes[4 + i] = (uint8_t)(riff_bytes >> 8 * i);
}

/* Encodes the image with a quality. */
static void make_reference(struct webp_case *self, int quality)
{
    picture_free(&self->reference);
    self->reference = encode_with_libwebp(&self->image, quality);
    self->found = quality;
    put_metadata(self);
}

/* As the host searches the quality for bytes_max. */
static void search_reference(struct webp_case *self)
{
    struct quality_search search = {.bytes_max = self->bytes_max};
    for (int quality = self->quality; quality > 0; quality = quality_search_next(&search)) {
        make_reference(self, quality);
        quality_search_add(&search, quality, self->reference.length);
    }
    make_reference(self, search.fits.quality > 0 ? search.fits.quality : search.above.quality);
}

static void *make_references(void *unused)
{
    (void)unused;
    for (size_t i; (i = atomic_fetch_add(&webp.next, 1)) < webp.count;) {
        struct webp_case *self = &webp.cases[i];
        self->image = self->photograph ? drawing_resize(self->photograph, self->width, self->height,
                                                        self->channels, self->seed)
                                       : drawing_make(self->kind, self->width, self->height,
                                                      self->channels, self->seed);
        if (self->channels == 4)
            set_alpha(self);
        make_reference(self, self->quality);
        if (self->bytes_max > 0 && self->reference.length > 0)
            search_reference(self);
    }
    return NULL;
}

/* On all cores. */
static void make_all_references(void)
{
    enum { threads_max = 64 };
    pthread_t threads[threads_max];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = cores < 1 ? 1 : cores < threads_max ? (size_t)cores : threads_max;
    count = count < webp.count ? count : webp.count;
    atomic_store(&webp.next, 0);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, make_references, NULL) != 0)
            abort();
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- memory ---- */

/* Takes the case's parts of the device memory. */
static void take_memory(struct webp_case *self)
{
    struct arena *arena = &webp.arena;
    webp.searches |= self->bytes_max > 0;
    self->header_bytes = WEBP_RIFF_BYTES + self->header_more;
    self->header_at = webp.headers_bytes;
    webp.headers_bytes += buffer_align(self->header_bytes + self->trailer_bytes);
    if (self->capacity == 0)
        self->capacity = webp_encode_capacity(self->width, self->height, self->quality,
                                              self->header_bytes, self->trailer_bytes);
    self->work_bytes = webp_encode_work_bytes(self->width, self->height, self->quality);
    self->pixels_at = arena_take(arena, self->image.stride * self->image.height);
    self->work_at = arena_take(arena, self->work_bytes);
    self->file_at = arena_take(arena, self->capacity);
}

/* Writes the header without the size of the file, and the trailer. */
static void fill_header(const struct webp_case *self)
{
    uint8_t *header = webp.headers + self->header_at;
    const struct picture_file *file = &self->reference;
    memset(header, 'h', self->header_bytes + self->trailer_bytes);
    if (file->length > 0) {
        memcpy(header, file->bytes, self->header_bytes);
        memcpy(header + self->header_bytes, file->bytes + file->length - self->trailer_bytes,
               self->trailer_bytes);
    }
    memcpy(header, "RIFF\0\0\0\0WEBP", WEBP_RIFF_BYTES);
}

/* The addresses are those in the block of device memory if that is allocated. */
static void fill_image(size_t i)
{
    const struct webp_case *self = &webp.cases[i];
    uint8_t *device = webp.arena.device;
    webp.images[i] = (struct webp_encode_image){
        .source = self->image,
        .quality = self->quality,
        .bytes_max = self->bytes_max,
        .found_quality = (uint32_t *)(device + webp.qualities_at) + i,
        .header = webp.headers + self->header_at,
        .header_bytes = self->header_bytes,
        .trailer_bytes = self->trailer_bytes,
        .work = device + self->work_at,
        .file = device + self->file_at,
        .capacity = self->capacity,
        .file_bytes = (uint32_t *)(device + webp.lengths_at) + i,
    };
    webp.images[i].source.pixels = device + self->pixels_at;
    fill_header(self);
    if (webp.arena.before)
        memcpy(webp.arena.before + self->pixels_at, self->image.pixels,
               self->image.stride * self->image.height);
}

/* Lets kernels on the host access only what belongs to the images. */
static void guard_memory(void)
{
    uint8_t *device = webp.arena.device;
    if (ON_DEVICE)
        return;
    check(cudaStreamSynchronize(webp.stream));
    POISON(device, webp.arena.bytes);
    for (size_t i = 0; i < webp.count; i++) {
        const struct webp_case *self = &webp.cases[i];
        for (uint32_t y = 0; y < self->height; y++)
            UNPOISON(device + self->pixels_at + y * self->image.stride,
                     image_stride(self->width, self->channels));
        UNPOISON(device + self->work_at, self->work_bytes);
        UNPOISON(device + self->file_at, self->capacity);
    }
    UNPOISON(device + webp.description_at, webp.description_bytes);
    UNPOISON(device + webp.lengths_at, webp.count * sizeof(uint32_t));
    UNPOISON(device + webp.qualities_at, webp.count * sizeof(uint32_t));
}

static void open_batch(void)
{
    webp.headers_bytes = 0;
    webp.searches = false;
    webp.arena = (struct arena){.bytes = ARENA_GUARD};
    for (size_t i = 0; i < webp.count; i++)
        take_memory(&webp.cases[i]);
    check(cudaHostAlloc((void **)&webp.headers, webp.headers_bytes, cudaHostAllocPortable));
    webp.lengths_at = arena_take(&webp.arena, webp.count * sizeof(uint32_t));
    webp.qualities_at = arena_take(&webp.arena, webp.count * sizeof(uint32_t));
    for (size_t i = 0; i < webp.count; i++)
        fill_image(i);
    webp.description_bytes =
        webp_encode_describe(webp.images, (uint32_t)webp.count, NULL, 0, &webp.batch);
    assert_true(webp.description_bytes < SIZE_MAX);
    webp.description_at = arena_take(&webp.arena, webp.description_bytes);
    arena_open(&webp.arena);
    for (size_t i = 0; i < webp.count; i++) {
        fill_image(i);
        /* No file may depend on it. */
        memset(webp.arena.before + webp.cases[i].work_at, (int)(i * 0x95 + webp.equal),
               webp.cases[i].work_bytes);
    }
    assert_int_equal(webp_encode_describe(webp.images, (uint32_t)webp.count,
                                          webp.arena.before + webp.description_at,
                                          webp.description_bytes, &webp.batch),
                     webp.description_bytes);
    if (webp.batch.chunk_tokens < webp.chunk_tokens)
        webp.batch.chunk_tokens = webp.chunk_tokens;
    arena_upload(&webp.arena, webp.stream);
    guard_memory();
}

static void close_batch(void)
{
    for (size_t i = 0; i < webp.count; i++) {
        free(webp.cases[i].image.pixels);
        picture_free(&webp.cases[i].reference);
    }
    check(cudaFreeHost(webp.headers));
    arena_close(&webp.arena);
    webp.count = 0;
}

/* ---- results ---- */

/* Whether the image may have more tokens than the work memory holds, or a longer file than the
 * capacity. Never with a few macroblocks. Patterns that repeat have many tokens for their bits.
 * Noise of black and white has 13 to 16 tokens per pixel, and 9 bits, at a quality of 96. */
static bool may_be_too_long(const struct webp_case *self)
{
    enum { sure_blocks = 16 };
    size_t blocks = (self->width + 15ul) / 16 * ((self->height + 15ul) / 16);
    bool repeats =
        !self->photograph && (self->kind == DRAWING_LINES || self->kind == DRAWING_RINGS ||
                              self->kind == DRAWING_CHECKS || self->kind == DRAWING_MIXED);
    int quality = self->quality;
    size_t sure_bits = quality <= 75   ? 2
                       : quality <= 85 ? 4
                       : quality <= 95 ? 5
                                       : 8; /* per pixel */
    return blocks > sure_blocks &&
           self->reference.length * 8 > blocks * 256 * sure_bits / (repeats ? 2 : 1);
}

/* found: the quality that the device has found. */
static bool is_expected(const struct webp_case *self, uint32_t length, uint32_t found)
{
    bool is_allowed = self->expect == DECLINED || self->reference.length == 0 ||
                      (self->expect == EQUAL_IF_SHORT && may_be_too_long(self));
    if (length == 0)
        return is_allowed;
    if (self->bytes_max > 0 && found != (uint32_t)self->found)
        return false;
    return self->expect != DECLINED && length == self->reference.length &&
           memcmp(webp.arena.after + self->file_at, self->reference.bytes, length) == 0;
}

static void save_files(const struct picture_file *got, const struct picture_file *want)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/device.webp", webp.folder);
    picture_save(got, path);
    snprintf(path, sizeof path, "%s/libwebp.webp", webp.folder);
    picture_save(want, path);
}

static void note_difference(const struct webp_case *self, uint32_t length)
{
    const struct picture_file *want = &self->reference;
    struct picture_file got = {webp.arena.after + self->file_at, length};
    size_t same = 0;
    while (same < length && same < want->length && got.bytes[same] == want->bytes[same])
        same++;
    if (webp.folder)
        save_files(&got, want);
    webp.different++;
    snprintf(webp.difference, sizeof webp.difference,
             "%s %u x %u x %u, quality %d, seed %u, at most %u bytes, in a batch of %zu: %u bytes, "
             "libwebp has %zu; the first %zu are the same",
             self->photograph ? "photo" : drawing_names[self->kind], self->width, self->height,
             self->channels, self->quality, self->seed, self->bytes_max, webp.count, length,
             want->length, same);
    if (webp.prints_differences)
        printf("different: %s\n", webp.difference);
}

static void compare_case(const struct webp_case *self, uint32_t length, uint32_t found)
{
    if (!is_expected(self, length, found))
        note_difference(self, length);
    else if (length == 0)
        webp.declined++;
    else
        webp.equal++;
    arena_allow(&webp.arena, self->file_at, self->capacity);
}

static void expect_rest_untouched(void)
{
    for (size_t i = 0; i < webp.count; i++)
        arena_allow(&webp.arena, webp.cases[i].work_at, webp.cases[i].work_bytes);
    arena_allow(&webp.arena, webp.description_at, webp.description_bytes);
    arena_allow(&webp.arena, webp.lengths_at, webp.count * sizeof(uint32_t));
    arena_allow(&webp.arena, webp.qualities_at, webp.count * sizeof(uint32_t));
    arena_check_rest(&webp.arena);
}

/* ---- batches ---- */

/* Encodes the cases in one launch, `launches` times, and compares the files. Adds to the counts in
 * `webp`. Fails the test if the encoder has written elsewhere. */
static void run_batch(int launches)
{
    if (webp.count == 0)
        return;
    make_all_references();
    open_batch();
    uint8_t *description = webp.arena.device + webp.description_at;
    for (int i = 0; i < launches; i++)
        check((cudaError_t)(webp.searches
                                ? webp_encode_search(&webp.batch, description, webp.stream)
                                : webp_encode_launch(&webp.batch, description, webp.stream)));
    check(cudaStreamSynchronize(webp.stream));
    UNPOISON(webp.arena.device, webp.arena.bytes);
    arena_download(&webp.arena, webp.stream);
    const uint32_t *lengths = (const uint32_t *)(webp.arena.after + webp.lengths_at);
    const uint32_t *qualities = (const uint32_t *)(webp.arena.after + webp.qualities_at);
    for (size_t i = 0; i < webp.count; i++)
        compare_case(&webp.cases[i], lengths[i], qualities[i]);
    expect_rest_untouched();
    close_batch();
}

static size_t batch_pixels(void)
{
    size_t pixels = 0;
    for (size_t i = 0; i < webp.count; i++)
        pixels += (size_t)webp.cases[i].width * webp.cases[i].height;
    return pixels;
}

/* Adds a case to the batch, whose other members the caller may set. If the batch is full, runs it
 * first. */
static struct webp_case *add_case(uint32_t width, uint32_t height, uint32_t channels, int quality,
                                  enum drawing_kind kind, uint32_t seed)
{
    if (webp.count == BATCH_MAX || batch_pixels() + (size_t)width * height > BATCH_PIXELS)
        run_batch(1);
    struct webp_case *self = &webp.cases[webp.count++];
    *self = (struct webp_case){.width = width,
                               .height = height,
                               .channels = channels,
                               .quality = quality,
                               .kind = kind,
                               .seed = seed,
                               .expect = EQUAL_IF_SHORT};
    return self;
}
