/*
 * test_jpeg_quality.c - the search of devices for a JPEG of a given similarity, compared with that
 * of the host: the quality, the similarity and the file.
 *
 * Memory is guarded as in test_jpeg_encode.c.
 */
#include <cuda_runtime.h>
#include <stdio.h>

#include "codecs/jpeg/header.h"
#include "codecs/ssim_quality.h"
#include "gpu/jpeg/encode.h"
#include "gpu/jpeg/quant.h"
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

#define BATCH_MAX   512
#define FILE_BYTES  (1 << 22)
#define FILE_BUFFER 4096

enum pattern { SCENE, NOISE, FLAT, CHECKS, SOFT, PATTERNS, WILD };

struct spec {
    uint32_t width, height, channels;
    enum subsampling subsampling;
    int ssim; /* 0: no search, with the quality `most` */
    int least, most;
    enum pattern pattern;
    bool tiny;     /* the file does not fit */
    bool declined; /* the device does not finish the search */
};

struct wanted {
    struct image image; /* on the host */
    struct ssim_trial found;
    uint8_t *file;
    size_t bytes;
    struct jpeg_prelude *prelude;
    size_t capacity, pixels_at, work_at, work_bytes, file_at, header_at;
};

/* What the kernels report of an image. */
struct report {
    uint32_t file_bytes, quality, ssim;
};

static struct codec_context *context;
static cudaStream_t stream;
static bool no_device, quick, full; /* full: all cases, on a device */

static struct spec list[BATCH_MAX];
static size_t listed;

static struct {
    struct wanted wanted[BATCH_MAX];
    struct jpeg_encode_image images[BATCH_MAX];
    struct arena arena;
    size_t reports_at, description_at, description_bytes;
    struct jpeg_encode_batch batch;
} run;

/* ---- the host ---- */

/* With the quality 1, this block decodes to a sample of 718, before it is limited. */
static const uint8_t wild[8][8] = {
    {68, 250, 212, 17, 107, 255, 0, 118}, {63, 0, 33, 0, 130, 71, 0, 0},
    {197, 132, 83, 41, 0, 140, 255, 54},  {175, 129, 255, 58, 109, 159, 0, 126},
    {255, 255, 201, 0, 255, 0, 231, 181}, {255, 255, 255, 255, 30, 23, 96, 88},
    {189, 27, 0, 0, 186, 254, 148, 113},  {150, 0, 252, 0, 114, 255, 193, 4}};

static uint8_t sample(enum pattern pattern, uint32_t x, uint32_t y, uint32_t c, uint32_t *random)
{
    switch (pattern) {
    case NOISE:
        return (uint8_t)picture_random(random);
    case CHECKS:
        return (x ^ y) & 1 ? 255 : 0;
    case SOFT:
        return (uint8_t)(100 + 50 * c + x / 3 + picture_random(random) % 9);
    case WILD:
        return wild[y % 8][x % 8];
    default: /* FLAT */
        return (uint8_t)(90 + 40 * c);
    }
}

/* free(image.pixels). The bytes after each row are noise. */
static struct image make_image(const struct spec *spec)
{
    uint32_t random = spec->width * 65537 + spec->height * 257 + (uint32_t)spec->ssim + 1;
    size_t row = (size_t)spec->width * spec->channels;
    struct image image = {NULL, spec->width, spec->height, spec->channels,
                          image_stride(spec->width, spec->channels) + random % 3 * STRIDE_ALIGN};
    image.pixels = malloc(image.stride * image.height);
    for (size_t i = 0; i < image.stride * image.height; i++)
        image.pixels[i] = (uint8_t)picture_random(&random);
    if (spec->pattern == SCENE)
        picture_fill(image.pixels, image.stride, image.width, image.height, image.channels, random);
    for (uint32_t y = 0; y < image.height && spec->pattern != SCENE; y++)
        for (size_t i = 0; i < row; i++)
            image.pixels[y * image.stride + i] = sample(spec->pattern, (uint32_t)i / image.channels,
                                                        y, (uint32_t)i % image.channels, &random);
    return image;
}

static struct encode_request request_of(const struct spec *spec)
{
    struct encode_request request = {.format = &formats[FORMAT_jpeg], .encoder = encoder_defaults};
    request.encoder.quality = spec->most;
    request.encoder.quality_min = spec->least;
    request.encoder.ssim = spec->ssim;
    request.encoder.subsampling = (int)spec->subsampling;
    return request;
}

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)sink, (void)used;
    return error_set(error, STATUS_INTERNAL, "the file is longer than %d bytes", FILE_BYTES);
}

static enum status accept(struct codec_sink *sink, size_t used, struct error *error)
{
    return used < sink->capacity ? STATUS_OK : keep(sink, used, error);
}

static void make_wanted(const struct spec *spec, struct wanted *wanted)
{
    struct encode_request request = request_of(spec);
    struct error error = {0};
    uint8_t buffer[FILE_BUFFER];
    *wanted = (struct wanted){.image = make_image(spec), .file = malloc(FILE_BYTES)};
    wanted->prelude = malloc(jpeg_prelude_bytes(0));
    assert_int_equal(jpeg_prelude_make(context, &request, spec->width, spec->height, spec->channels,
                                       wanted->prelude, &error),
                     STATUS_OK);
    if (spec->ssim > 0) {
        assert_int_equal(codec_find_ssim(context, &wanted->image, &request, buffer, sizeof buffer,
                                         &wanted->found, &error),
                         STATUS_OK);
        request.encoder.quality = wanted->found.quality;
    }
    struct codec_sink sink = {.buffer = wanted->file, .capacity = FILE_BYTES, .flush = accept};
    assert_int_equal(codec_encode(context, &wanted->image, &request, &sink, &error), STATUS_OK);
    wanted->bytes = sink.total;
}

/* ---- batches ---- */

static uint32_t sampling_of(const struct spec *spec, bool down)
{
    struct jpeg_sampling sampling = jpeg_sampling_of(spec->subsampling);
    return spec->channels == 1 ? 1 : down ? sampling.v : sampling.h;
}

static void place(const struct spec *spec, struct wanted *wanted)
{
    struct arena *arena = &run.arena;
    wanted->capacity = spec->tiny ? 16 : wanted->bytes + 100;
    wanted->work_bytes =
        jpeg_encode_work_bytes(spec->width, spec->height, spec->channels, sampling_of(spec, false),
                               sampling_of(spec, true), wanted->capacity);
    wanted->pixels_at = arena_take(arena, wanted->image.stride * wanted->image.height);
    wanted->work_at = arena_take(arena, wanted->work_bytes);
    wanted->file_at = arena_take(arena, wanted->capacity);
    wanted->header_at = arena_take(arena, wanted->prelude->header_bytes);
}

static void fill_image(size_t i)
{
    const struct spec *spec = &list[i];
    const struct wanted *wanted = &run.wanted[i];
    uint8_t *device = run.arena.device;
    struct report *report = (struct report *)(device + run.reports_at) + i;
    struct jpeg_encode_image *image = &run.images[i];
    *image = (struct jpeg_encode_image){.source = wanted->image,
                                        .h = (uint8_t)sampling_of(spec, false),
                                        .v = (uint8_t)sampling_of(spec, true),
                                        .quant = wanted->prelude->quant[0],
                                        .header = device + wanted->header_at,
                                        .header_bytes = wanted->prelude->header_bytes,
                                        .work = device + wanted->work_at,
                                        .file = device + wanted->file_at,
                                        .capacity = wanted->capacity,
                                        .file_bytes = &report->file_bytes,
                                        .ssim = spec->ssim,
                                        .quality_min = spec->least,
                                        .quality_max = spec->most,
                                        .found_quality = &report->quality,
                                        .found_ssim = &report->ssim};
    for (size_t k = 0; k < 2; k++)
        image->header_quants[k] = device + wanted->header_at + wanted->prelude->quant_at[k];
    image->source.pixels = device + wanted->pixels_at;
    if (!run.arena.before)
        return;
    memcpy(run.arena.before + wanted->pixels_at, wanted->image.pixels,
           wanted->image.stride * wanted->image.height);
    memcpy(run.arena.before + wanted->header_at, wanted->prelude->header,
           wanted->prelude->header_bytes);
}

static void expect_result(size_t i)
{
    const struct spec *spec = &list[i];
    struct wanted *wanted = &run.wanted[i];
    const struct report *report = (const struct report *)(run.arena.after + run.reports_at) + i;
    char what[160];
    snprintf(what, sizeof what, "%u x %u x %u, subsampling %d, pattern %d, ssim %d of %d to %d",
             spec->width, spec->height, spec->channels, (int)spec->subsampling, (int)spec->pattern,
             spec->ssim, spec->least, spec->most);
    bool written = !spec->tiny && !spec->declined;
    if (spec->ssim > 0 && !spec->declined &&
        (report->quality != (uint32_t)wanted->found.quality ||
         report->ssim != (uint32_t)wanted->found.ssim))
        fail_msg("%s: quality %u with %u instead of %d with %d", what, report->quality,
                 report->ssim, wanted->found.quality, wanted->found.ssim);
    if (report->file_bytes != (written ? wanted->bytes : 0))
        fail_msg("%s: %u bytes instead of %zu", what, report->file_bytes, wanted->bytes);
    if (memcmp(run.arena.after + wanted->file_at, wanted->file, report->file_bytes) != 0)
        fail_msg("%s: the file differs", what);
    arena_allow(&run.arena, wanted->file_at, report->file_bytes);
    arena_allow(&run.arena, wanted->work_at, wanted->work_bytes);
    for (size_t k = 0; k < (spec->channels > 1 ? 2 : 1) && spec->ssim > 0; k++)
        arena_allow(&run.arena, wanted->header_at + wanted->prelude->quant_at[k], 64);
}

static void describe(void)
{
    for (size_t i = 0; i < listed; i++)
        fill_image(i);
    run.description_bytes = jpeg_encode_describe(run.images, (uint32_t)listed, NULL, 0, &run.batch);
    assert_true(run.description_bytes < SIZE_MAX);
    run.description_at = arena_take(&run.arena, run.description_bytes);
    arena_open(&run.arena);
    for (size_t i = 0; i < listed; i++)
        fill_image(i);
    assert_int_equal(jpeg_encode_describe(run.images, (uint32_t)listed,
                                          run.arena.before + run.description_at,
                                          run.description_bytes, &run.batch),
                     run.description_bytes);
}

/* Encodes the listed images in one batch, `launches` times, and compares the results. */
static void encode(int launches)
{
    run.arena = (struct arena){.bytes = ARENA_GUARD};
    for (size_t i = 0; i < listed; i++) {
        make_wanted(&list[i], &run.wanted[i]);
        place(&list[i], &run.wanted[i]);
    }
    run.reports_at = arena_take(&run.arena, listed * sizeof(struct report));
    describe();
    arena_upload(&run.arena, stream);
    for (int i = 0; i < launches; i++)
        check((cudaError_t)jpeg_encode_launch(&run.batch, run.arena.device + run.description_at,
                                              stream));
    arena_download(&run.arena, stream);
    for (size_t i = 0; i < listed; i++)
        expect_result(i);
    arena_allow(&run.arena, run.description_at, run.description_bytes);
    arena_allow(&run.arena, run.reports_at, listed * sizeof(struct report));
    arena_check_rest(&run.arena);
    for (size_t i = 0; i < listed; i++) {
        free(run.wanted[i].image.pixels);
        free(run.wanted[i].file);
        free(run.wanted[i].prelude);
    }
    arena_close(&run.arena);
    listed = 0;
}

static struct spec *add(uint32_t width, uint32_t height, unsigned kind, int ssim,
                        enum pattern pattern)
{
    static const enum subsampling kinds[] = {SUBSAMPLING_420, SUBSAMPLING_444, SUBSAMPLING_422};
    if (listed == BATCH_MAX)
        encode(1);
    list[listed] = (struct spec){.width = width,
                                 .height = height,
                                 .channels = kind % 4 == 3 ? 1 : 3,
                                 .subsampling = kinds[kind % 4 % 3],
                                 .ssim = ssim,
                                 .least = 1,
                                 .most = 100,
                                 .pattern = pattern};
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

/* ---- tests ---- */

/* Sizes around the borders of blocks, of the windows and of tiles. */
TEST(images_of_many_sizes)
{
    need_device();
    static const uint32_t sides[] = {1, 3, 4, 5, 8, 9, 12, 13, 17, 31, 121, 125, 129, 248, 249};
    enum { count = sizeof sides / sizeof *sides };
    unsigned number = 0;
    for (size_t x = 0; x < count; x++)
        for (size_t y = 0; y < count; y++, number++)
            if (full || (number * 7 + 3) % (quick ? 41 : 3) == 0)
                add(sides[x], sides[y], number, 900000 + (int)(number * 7919 % 95000),
                    (enum pattern)(number % PATTERNS));
    encode(1);
}

TEST(every_pattern_and_similarity)
{
    need_device();
    static const int similarities[] = {1, 500000, 900000, 950000, 980000, 995000, 999999};
    for (unsigned i = 0; i < sizeof similarities / sizeof *similarities; i++)
        for (unsigned pattern = 0; pattern < PATTERNS; pattern++)
            if (!quick || (i + pattern) % 4 == 0)
                add(67, 45, i + pattern, similarities[i], (enum pattern)pattern);
    encode(1);
}

/* No quality reaches the similarity, each one does, and there is only one. */
TEST(bounds_of_the_quality)
{
    need_device();
    static const int bounds[][2] = {{1, 1}, {100, 100}, {50, 50}, {1, 3}, {99, 100}, {30, 95}};
    for (unsigned i = 0; i < sizeof bounds / sizeof *bounds; i++)
        for (int ssim = 700000; ssim < SSIM_ONE; ssim += 280000) {
            struct spec *spec = add(50, 39, i, ssim, i % 2 ? NOISE : SCENE);
            spec->least = bounds[i][0];
            spec->most = bounds[i][1];
        }
    encode(1);
}

/* Images of several tiles and chunks, with others that have no search, and a file that is longer
 * than its room. */
TEST(a_mixed_batch)
{
    need_device();
    add(252, 250, 0, 980000, SCENE);
    add(130, 70, 3, 0, SCENE)->most = 77;
    add(130, 70, 0, 990000, SCENE)->tiny = true;
    add(130, 70, 1, 950000, SOFT);
    if (full) {
        add(2049, 1365, 0, 980000, SCENE);
        add(65500, 9, 3, 970000, SCENE);
        add(9, 8000, 2, 970000, SOFT);
    }
    encode(1);
}

/* Versions of libjpeg decode the file of a trial differently, in a tile of several. The other
 * images of the batch are not affected. The description can be launched again. */
TEST(an_extreme_image_is_declined)
{
    need_device();
    for (unsigned kind = 2; kind < 4; kind++)
        for (uint32_t side = 8; side <= 136; side += 128) {
            struct spec *spec = add(side, 8, kind, 500000, WILD);
            spec->most = 1;
            spec->declined = true;
        }
    add(50, 39, 3, 980000, SCENE);
    encode(2);
}

static bool is_refused(const struct jpeg_encode_image *image)
{
    struct jpeg_encode_batch batch;
    return jpeg_encode_describe(image, 1, NULL, 0, &batch) == SIZE_MAX;
}

TEST(other_searches_are_refused)
{
    uint16_t quant[128];
    uint8_t *aligned = (uint8_t *)4096;
    for (size_t i = 0; i < 128; i++)
        quant[i] = 1;
    static const int bad[][3] = {
        {-1, 1, 100}, {SSIM_ONE, 1, 100}, {980000, 0, 100}, {980000, 1, 101}, {980000, 51, 50}};
    struct jpeg_encode_image image = {.source = {aligned, 10, 10, 3, 32},
                                      .h = 2,
                                      .v = 2,
                                      .quant = quant,
                                      .header = aligned,
                                      .header_bytes = 4,
                                      .work = aligned,
                                      .file = aligned,
                                      .capacity = 100,
                                      .ssim = 980000,
                                      .quality_min = 1,
                                      .quality_max = 100};
    assert_false(is_refused(&image));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        image.ssim = bad[i][0];
        image.quality_min = bad[i][1];
        image.quality_max = bad[i][2];
        assert_true(is_refused(&image));
    }
}

/* The tables of every quality equal those of the linked libjpeg. */
TEST(tables_equal_those_of_libjpeg)
{
    struct jpeg_prelude *prelude = malloc(jpeg_prelude_bytes(0));
    for (int quality = 1; quality <= 100; quality++) {
        const struct spec spec = {.most = quality, .subsampling = SUBSAMPLING_420};
        struct encode_request request = request_of(&spec);
        struct error error = {0};
        assert_int_equal(jpeg_prelude_make(context, &request, 9, 9, 3, prelude, &error), STATUS_OK);
        for (int i = 0; i < 128; i++)
            assert_int_equal(quant_of(i / 64, i % 64, quality), prelude->quant[i / 64][i % 64]);
    }
    free(prelude);
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

TEST_MAIN(.name = "jpeg_quality", .setup = setup, .teardown = teardown)
