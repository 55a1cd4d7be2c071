/*
 * test_jpeg_encode.c - the JPEG encoder of devices compared with libjpeg, byte by byte.
 *
 * The images of a batch, their files and their work memory lie in one block of device memory with
 * guard bytes between them. After a launch the block may differ only where the encoder may write.
 * On the stand-in the kernels run on the host, and a part of the cases is enough.
 */
#include <cuda_runtime.h>
#include <stdio.h>

#include <jpeglib.h>

#include "codecs/jpeg/header.h"
#include "gpu/jpeg/encode_block.h"
#include "tests/cuda/arena.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"

/* Only the real runtime's header defines it. */
#ifdef CUDART_VERSION
#define ON_DEVICE true
#else
#define ON_DEVICE false
#endif

#define BATCH_MAX 512

enum pattern {
    NOISE, BITS, GRADIENT, PIXEL_CHECKS, BLACK, WHITE, BLOCK_CHECKS, SOFT, EDGES, SCENE, PATTERNS
};

struct spec {
    uint32_t width, height, channels, h, v;
    int quality;
    enum pattern pattern;
    size_t icc_bytes;
    long missing; /* bytes that the capacity lacks; negative: bytes that it has in excess */
    bool tiny;    /* a capacity of 16 bytes instead */
};

struct file {
    unsigned char *bytes;
    unsigned long length;
};

static struct codec_context *context;
static cudaStream_t stream;
static bool no_device, quick, full; /* full: all cases, on a device */

/* ---- the reference ---- */

static struct file reference(const struct spec *spec, const struct image *image,
                             const struct picture_file *icc)
{
    struct jpeg_compress_struct writer;
    struct jpeg_error_mgr errors;
    struct file file = {NULL, 0};
    writer.err = jpeg_std_error(&errors);
    jpeg_create_compress(&writer);
    jpeg_mem_dest(&writer, &file.bytes, &file.length);
    writer.image_width = image->width;
    writer.image_height = image->height;
    writer.input_components = (int)image->channels;
    writer.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&writer);
    jpeg_set_quality(&writer, spec->quality, TRUE);
    writer.dct_method = JDCT_ISLOW;
    writer.comp_info[0].h_samp_factor = (int)spec->h;
    writer.comp_info[0].v_samp_factor = (int)spec->v;
    jpeg_start_compress(&writer, TRUE);
    if (spec->icc_bytes > 0)
        jpeg_write_icc_profile(&writer, icc->bytes, (unsigned)icc->length);
    while (writer.next_scanline < image->height) {
        JSAMPROW row = image->pixels + writer.next_scanline * image->stride;
        jpeg_write_scanlines(&writer, &row, 1);
    }
    jpeg_finish_compress(&writer);
    jpeg_destroy_compress(&writer);
    return file;
}

/* ---- pixels ---- */

static uint8_t sample(enum pattern pattern, uint32_t x, uint32_t y, uint32_t c, uint32_t *random)
{
    switch (pattern) {
    case NOISE:
        return (uint8_t)picture_random(random);
    case BITS:
        return picture_random(random) & 64 ? 255 : 0;
    case GRADIENT:
        return (uint8_t)(x * 3 + y * 5 + c * 40);
    case PIXEL_CHECKS:
        return (x ^ y) & 1 ? 255 : 0;
    case BLACK:
        return 0;
    case WHITE:
        return 255;
    case BLOCK_CHECKS:
        return ((x >> 3) + (y >> 3)) & 1 ? 255 : 0;
    case SOFT:
        return (uint8_t)(100 + 50 * c + picture_random(random) % 5);
    default: /* EDGES: mostly black, with noisy lines */
        return (x * 7 + y * 3) % 41 < 3 ? (uint8_t)picture_random(random) : 0;
    }
}

/* free(image.pixels). The bytes after each row are noise, which must not change the file. */
static struct image make_image(const struct spec *spec)
{
    uint32_t random = spec->width * 65537 + spec->height * 257 + (uint32_t)spec->quality + 1;
    size_t row = (size_t)spec->width * spec->channels;
    struct image image = {NULL, spec->width, spec->height, spec->channels,
                          image_stride(spec->width, spec->channels) + random % 3 * STRIDE_ALIGN};
    image.pixels = malloc(image.stride * image.height);
    for (size_t i = 0; i < image.stride * image.height; i++)
        image.pixels[i] = i % image.stride < row ? 0 : (uint8_t)picture_random(&random);
    if (spec->pattern == SCENE) {
        picture_fill(image.pixels, image.stride, image.width, image.height, image.channels, random);
        return image;
    }
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t i = 0; i < row; i++)
            image.pixels[y * image.stride + i] =
                sample(spec->pattern, (uint32_t)i / image.channels, y,
                       (uint32_t)i % image.channels, &random);
    return image;
}

/* ---- preludes ---- */

/* Sets the sampling factors of Y in the frame header: jpeg_prelude_make writes 4:2:0. */
static void set_sampling(struct jpeg_prelude *prelude, uint32_t h, uint32_t v)
{
    uint8_t *at = prelude->header + 2;
    while (at[1] != 0xC0)
        at += 2 + (at[2] << 8 | at[3]);
    at[11] = (uint8_t)(h << 4 | v);
}

static void make_prelude(const struct spec *spec, const struct picture_file *icc,
                         struct jpeg_prelude *prelude)
{
    struct encode_request request = {.format = &formats[FORMAT_jpeg],
                                     .encoder = encoder_defaults,
                                     .icc = spec->icc_bytes ? icc->bytes : NULL,
                                     .icc_bytes = spec->icc_bytes};
    size_t bytes = jpeg_prelude_bytes(spec->icc_bytes);
    struct error error = {0};
    request.encoder.quality = spec->quality;
    assert_int_equal(jpeg_prelude_make(context, &request, spec->width, spec->height,
                                       spec->channels, prelude, &error), STATUS_OK);
    assert_true(sizeof *prelude + prelude->header_bytes <= bytes);
    set_sampling(prelude, spec->h, spec->v);
}

/* ---- batches ---- */

struct encoded {
    struct image image; /* on the host */
    struct file reference;
    struct picture_file icc;
    struct jpeg_prelude *prelude;
    size_t capacity, pixels_at, work_at, file_at, work_bytes;
};

static struct {
    const struct spec *specs;
    size_t count, description_at, description_bytes, lengths_at;
    struct encoded encoded[BATCH_MAX];
    struct jpeg_encode_image images[BATCH_MAX];
    struct arena arena;
    uint8_t *preludes; /* pinned */
    struct jpeg_encode_batch batch;
} run;

/* Makes the image and takes its parts of the device memory. */
static void prepare(const struct spec *spec, struct encoded *encoded, size_t *preludes_used)
{
    struct arena *arena = &run.arena;
    memset(encoded, 0, sizeof *encoded);
    encoded->image = make_image(spec);
    if (spec->icc_bytes > 0)
        encoded->icc = picture_icc(spec->icc_bytes, "RGB ");
    encoded->reference = reference(spec, &encoded->image, &encoded->icc);
    encoded->prelude = (struct jpeg_prelude *)(run.preludes + *preludes_used);
    *preludes_used += buffer_align(jpeg_prelude_bytes(spec->icc_bytes));
    make_prelude(spec, &encoded->icc, encoded->prelude);
    encoded->capacity = spec->tiny ? 16 : (size_t)((long)encoded->reference.length - spec->missing);
    encoded->work_bytes = jpeg_encode_work_bytes(spec->width, spec->height, spec->channels, spec->h,
                                                 spec->v, encoded->capacity);
    encoded->pixels_at = arena_take(arena, encoded->image.stride * encoded->image.height);
    encoded->work_at = arena_take(arena, encoded->work_bytes);
    encoded->file_at = arena_take(arena, encoded->capacity);
    assert_true(encoded->reference.length <=
                jpeg_encode_capacity_max(spec->width, spec->height, spec->channels, spec->h,
                                         spec->v, encoded->prelude->header_bytes));
}

/* The addresses are those in the block of device memory if that is allocated. */
static void fill_image(size_t i)
{
    const struct spec *spec = &run.specs[i];
    const struct encoded *encoded = &run.encoded[i];
    uint8_t *device = run.arena.device;
    run.images[i] = (struct jpeg_encode_image){
        .source = encoded->image, .h = (uint8_t)spec->h, .v = (uint8_t)spec->v,
        .quant = encoded->prelude->quant[0], .header = encoded->prelude->header,
        .header_bytes = encoded->prelude->header_bytes, .work = device + encoded->work_at,
        .file = device + encoded->file_at, .capacity = encoded->capacity,
        .file_bytes = (uint32_t *)(device + run.lengths_at) + i};
    run.images[i].source.pixels = device + encoded->pixels_at;
    if (run.arena.before)
        memcpy(run.arena.before + encoded->pixels_at, encoded->image.pixels,
               encoded->image.stride * encoded->image.height);
}

static void expect_file(size_t i)
{
    const struct spec *spec = &run.specs[i];
    const struct encoded *encoded = &run.encoded[i];
    const struct file *want = &encoded->reference;
    const uint8_t *file = run.arena.after + encoded->file_at;
    uint32_t length = ((const uint32_t *)(run.arena.after + run.lengths_at))[i];
    size_t same = 0;
    bool fits = want->length <= encoded->capacity;
    if (length != (fits ? want->length : 0))
        fail_msg("%u x %u x %u, %u:%u, quality %d, pattern %d: %u bytes instead of %lu, capacity "
                 "%zu", spec->width, spec->height, spec->channels, spec->h, spec->v, spec->quality,
                 (int)spec->pattern, length, want->length, encoded->capacity);
    while (same < length && file[same] == want->bytes[same])
        same++;
    if (same < length)
        fail_msg("%u x %u x %u, %u:%u, quality %d, pattern %d: byte %zu of %u (header %u) is %u "
                 "instead of %u", spec->width, spec->height, spec->channels, spec->h, spec->v,
                 spec->quality, (int)spec->pattern, same, length, encoded->prelude->header_bytes,
                 file[same], want->bytes[same]);
    arena_allow(&run.arena, encoded->file_at, length);
    arena_allow(&run.arena, encoded->work_at, encoded->work_bytes);
}

static void expect_rest_untouched(void)
{
    arena_allow(&run.arena, run.description_at, run.description_bytes);
    arena_allow(&run.arena, run.lengths_at, run.count * sizeof(uint32_t));
    arena_check_rest(&run.arena);
}

/* Encodes the images in one launch, `launches` times, and compares the files. */
static void encode(const struct spec *specs, size_t count, int launches)
{
    size_t preludes_bytes = 0, preludes_used = 0;
    assert_true(count <= BATCH_MAX);
    run.specs = specs;
    run.count = count;
    run.arena = (struct arena){.bytes = ARENA_GUARD};
    for (size_t i = 0; i < count; i++)
        preludes_bytes += buffer_align(jpeg_prelude_bytes(specs[i].icc_bytes));
    check(cudaHostAlloc((void **)&run.preludes, preludes_bytes, cudaHostAllocPortable));
    for (size_t i = 0; i < count; i++)
        prepare(&specs[i], &run.encoded[i], &preludes_used);
    run.lengths_at = arena_take(&run.arena, count * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++)
        fill_image(i);
    run.description_bytes =
        jpeg_encode_describe(run.images, (uint32_t)count, NULL, 0, &run.batch);
    run.description_at = arena_take(&run.arena, run.description_bytes);
    arena_open(&run.arena);
    for (size_t i = 0; i < count; i++)
        fill_image(i);
    assert_int_equal(jpeg_encode_describe(run.images, (uint32_t)count,
                                          run.arena.before + run.description_at,
                                          run.description_bytes, &run.batch),
                     run.description_bytes);
    arena_upload(&run.arena, stream);
    for (int i = 0; i < launches; i++)
        check((cudaError_t)jpeg_encode_launch(&run.batch, run.arena.device + run.description_at,
                                              stream));
    arena_download(&run.arena, stream);
    for (size_t i = 0; i < count; i++)
        expect_file(i);
    expect_rest_untouched();
    for (size_t i = 0; i < count; i++) {
        free(run.encoded[i].image.pixels);
        free(run.encoded[i].reference.bytes);
        if (specs[i].icc_bytes > 0)
            picture_free(&run.encoded[i].icc);
    }
    check(cudaFreeHost(run.preludes));
    arena_close(&run.arena);
}

/* ---- lists of images ---- */

static struct spec list[BATCH_MAX];
static size_t listed;

static void flush(void)
{
    if (listed > 0)
        encode(list, listed, 1);
    listed = 0;
}

static const struct { uint32_t channels, h, v; } kinds[] = {
    {1, 1, 1}, {3, 1, 1}, {3, 2, 1}, {3, 2, 2}};
#define KINDS (sizeof kinds / sizeof *kinds)

static struct spec *add(size_t kind, uint32_t width, uint32_t height, int quality,
                        enum pattern pattern)
{
    if (listed == BATCH_MAX)
        flush();
    list[listed] = (struct spec){
        .width = width, .height = height, .channels = kinds[kind].channels, .h = kinds[kind].h,
        .v = kinds[kind].v, .quality = quality, .pattern = pattern, .missing = -100};
    return &list[listed++];
}

static void need_device(void)
{
    if (no_device) {
        print_message("no CUDA device\n");
        skip();
    }
    listed = 0;
}

static const int qualities[] = {1, 5, 50, 75, 85, 95, 100};
#define QUALITIES (sizeof qualities / sizeof *qualities)

/* ---- tests ---- */

/* On the host, every third of all sizes, with all residues of both sides modulo 16. */
TEST(small_images_of_every_size)
{
    need_device();
    uint32_t number = 0;
    for (uint32_t width = 1; width <= 65; width++)
        for (uint32_t height = 1; height <= 65; height++)
            for (size_t kind = 0; kind < KINDS; kind++) {
                number++;
                if (full || number % (quick ? 97 : 3) == 0)
                    add(kind, width, height, qualities[number % QUALITIES],
                        (enum pattern)(number / KINDS % PATTERNS));
            }
    flush();
}

TEST(every_quality_and_pattern)
{
    need_device();
    static const uint32_t sizes[][2] = {{33, 31}, {16, 48}, {129, 97}, {1, 300}, {300, 1}};
    size_t number = 0;
    for (size_t size = 0; size < (full ? 5 : 1); size++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (size_t quality = 0; quality < QUALITIES; quality++)
                for (int pattern = 0; pattern < PATTERNS; pattern++)
                    if (number++ % (quick ? 7 : 1) == 0)
                        add(kind, sizes[size][0], sizes[size][1], qualities[quality],
                            (enum pattern)pattern);
    flush();
}

TEST(all_qualities)
{
    need_device();
    for (int quality = 1; quality <= 100; quality += quick ? 9 : 1)
        for (size_t kind = 0; kind < KINDS; kind += full ? 1 : 3)
            add(kind, 40, 24, quality, quality % 2 ? NOISE : SCENE);
    flush();
}

/* Tiles that are joined in several windows, tiles of one row and of many, chunks of tiles. */
TEST(large_images)
{
    need_device();
    static const uint32_t sizes[][2] = {{200, 130},  {1032, 16}, {17, 1100}, {641, 479},
                                        {2049, 65},  {1024, 8},  {8, 1024},  {1001, 997},
                                        {65500, 9},  {9, 65500}, {1920, 1080}};
    size_t count = full ? 11 : quick ? 1 : 5;
    for (size_t size = 0; size < count; size++)
        for (size_t kind = 0; kind < KINDS; kind++) {
            add(kind, sizes[size][0], sizes[size][1], 100, NOISE);
            if (full || size == 0)
                add(kind, sizes[size][0], sizes[size][1], 100, BITS);
            add(kind, sizes[size][0], sizes[size][1], 85, EDGES);
            add(kind, sizes[size][0], sizes[size][1], 95, SCENE);
        }
    flush();
}

TEST(a_file_that_does_not_fit_is_not_written)
{
    need_device();
    static const long missing[] = {0, 1, 2, 15, 16, 100, -1, -100000};
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
            add(kind, 77, 55, 90, NOISE)->missing = missing[i];
        add(kind, 77, 55, 90, NOISE)->missing = 3000;
        add(kind, 300, 70, 90, NOISE)->missing = 7000;
        add(kind, 77, 55, 90, NOISE)->tiny = true;
        add(kind, 1, 1, 90, NOISE)->missing = 1;
        add(kind, 77, 55, 90, SCENE);
    }
    flush();
}

TEST(a_profile_may_take_several_segments)
{
    need_device();
    add(3, 50, 40, 85, SCENE)->icc_bytes = 132;
    add(1, 50, 40, 85, SCENE)->icc_bytes = 4096;
    add(2, 50, 40, 85, SCENE)->icc_bytes = 200000;
    add(3, 8, 8, 85, SCENE)->icc_bytes = 65520;
    add(0, 50, 40, 85, SCENE);
    flush();
}

TEST(a_description_can_be_launched_again)
{
    need_device();
    for (size_t kind = 0; kind < KINDS; kind++)
        add(kind, 123, 45, 85, SCENE)->missing = kind % 2 ? 0 : 1;
    encode(list, listed, 3);
}

static bool is_refused(const struct jpeg_encode_image *image)
{
    struct jpeg_encode_batch batch;
    return jpeg_encode_describe(image, 1, NULL, 0, &batch) == SIZE_MAX;
}

TEST(other_images_are_refused)
{
    static uint8_t description[64 * 1024];
    uint16_t quant[128];
    uint8_t *header = (uint8_t *)4096, *aligned = header;
    uint32_t *length = (uint32_t *)4096;
    for (size_t i = 0; i < 128; i++)
        quant[i] = 1;
    const struct jpeg_encode_image good = {.source = {aligned, 10, 10, 3, 32},
                                           .h = 2,
                                           .v = 2,
                                           .quant = quant,
                                           .header = header,
                                           .header_bytes = 4,
                                           .work = aligned,
                                           .file = aligned,
                                           .capacity = 100,
                                           .file_bytes = length};
    struct jpeg_encode_batch batch;
    assert_true(jpeg_encode_describe(&good, 1, description, sizeof description, &batch) <
                sizeof description);
    assert_true(jpeg_encode_describe(&good, 1, NULL, 100, &batch) > 100);
    static const struct { uint32_t width, height, channels, h, v; } bad[] = {
        {10, 10, 4, 2, 2}, {10, 10, 3, 1, 2}, {10, 10, 3, 4, 1}, {10, 10, 1, 2, 2},
        {10, 10, 3, 0, 0}, {0, 10, 3, 2, 2},  {10, 65501, 3, 2, 2}, {11, 10, 3, 2, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct jpeg_encode_image image = good;
        image.source.width = bad[i].width;
        image.source.height = bad[i].height;
        image.source.channels = bad[i].channels;
        image.h = (uint8_t)bad[i].h;
        image.v = (uint8_t)bad[i].v;
        assert_true(is_refused(&image));
    }
    struct jpeg_encode_image image = good;
    image.source.pixels++;
    assert_true(is_refused(&image));
    image = good;
    quant[127] = 256;
    assert_true(is_refused(&image));
    quant[127] = 0;
    assert_true(is_refused(&image));
    quant[127] = 1;
    image.file++;
    assert_true(is_refused(&image));
}

/* libjpeg's division by the reciprocals of jcdctmgr.c, compute_reciprocal. */
static int divide_as_libjpeg(int value, unsigned divisor)
{
    int top = 31 - __builtin_clz(divisor), shift = 16 + top;
    uint32_t reciprocal = (1u << shift) / divisor, rest = (1u << shift) % divisor;
    uint32_t correction = divisor / 2;
    if (rest == 0) {
        reciprocal >>= 1;
        shift--;
    } else if (rest <= divisor / 2) {
        correction++;
    } else {
        reciprocal++;
    }
    uint32_t magnitude = (uint32_t)abs(value);
    int quotient = (int)((magnitude + correction) * (uint64_t)reciprocal >> shift);
    return value < 0 ? -quotient : quotient;
}

TEST(quotients_equal_those_of_libjpeg)
{
    static uint8_t description[64 * 1024] __attribute__((aligned(16)));
    uint16_t quant[64];
    uint8_t *header = (uint8_t *)4096, *aligned = header;
    struct jpeg_encode_image image = {.source = {aligned, 10, 10, 1, 32},
                                      .h = 1,
                                      .v = 1,
                                      .quant = quant,
                                      .header = header,
                                      .header_bytes = 4,
                                      .work = aligned,
                                      .file = aligned,
                                      .capacity = 100,
                                      .file_bytes = (uint32_t *)4096};
    struct jpeg_encode_batch batch;
    for (unsigned divisor = 1; divisor <= 255; divisor++) {
        for (int i = 0; i < 64; i++)
            quant[i] = (uint16_t)divisor;
        assert_true(jpeg_encode_describe(&image, 1, description, sizeof description, &batch) <
                    sizeof description);
        const struct encode_descriptor *descriptor =
            (const struct encode_descriptor *)(description + CODES_BYTES);
        float reciprocal = descriptor->reciprocals[0][63];
        for (int value = -16384; value <= 16384; value++) {
            int want = (abs(value) + (int)divisor * 4) / ((int)divisor * 8);
            want = value < 0 ? -want : want;
            if (quantised(quantise(value, reciprocal)) != want ||
                divide_as_libjpeg(value, divisor * 8) != want)
                fail_msg("%d / %u is %d, and libjpeg's is %d", value, divisor * 8,
                         quantised(quantise(value, reciprocal)),
                         divide_as_libjpeg(value, divisor * 8));
        }
    }
}

static int setup(void **state)
{
    int devices = 0;
    quick = test_quick();
    full = ON_DEVICE && !quick;
    context = codec_context_create();
    no_device = cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0;
    if (!no_device)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return 0;
}

static int teardown(void **state)
{
    if (!no_device)
        check(cudaStreamDestroy(stream));
    codec_context_destroy(context);
    return 0;
}

TEST_MAIN(.name = "jpeg_encode", .setup = setup, .teardown = teardown)
