/*
 * test_jpeg_decode.c - the decoder of sequential JPEG files on a device, against libjpeg-turbo.
 *
 * Runs on the host's implementation of the kernels' subset of CUDA C, and on a device.
 */
#include "tests/cuda/jpeg_decode_rig.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/test.h"

#define BATCH_MAX 96

/* Only the real runtime's header defines it. */
#ifdef CUDART_VERSION
#define ON_DEVICE true
#else
#define ON_DEVICE false
#endif

static cudaStream_t stream;

static int begin(void **state)
{
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
        return 0;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return 0;
}

static void need_device(void)
{
    if (!stream) {
        print_message("no CUDA device\n");
        skip();
    }
}

/* ---- batches ---- */

static struct {
    struct rig_image images[BATCH_MAX];
    struct rig_file files[BATCH_MAX];
    size_t count;
    size_t done, declined; /* of the test so far */
    struct image_part needed; /* of the images that are added; width 0: all */
} batch;

enum expectation { EXACT, EXACT_OR_DECLINED };

static void run_batch(enum expectation expected)
{
    struct rig_batch run;
    if (batch.count == 0)
        return;
    rig_begin(&run, batch.images, batch.count, stream);
    rig_launch(&run, stream);
    bool intact = rig_fetch(&run, stream);
    for (size_t i = 0; i < batch.count; i++) {
        const struct rig_image *image = &batch.images[i];
        long warnings = 0;
        size_t wrong =
            image->verdict == JPEG_DECODE_DONE ? rig_differences(&run, image, &warnings) : 0;
        batch.done += image->verdict == JPEG_DECODE_DONE;
        batch.declined += image->verdict != JPEG_DECODE_DONE;
        if (wrong > 0 || warnings != 0 || (image->verdict && expected == EXACT))
            fail_msg("%u x %u, %d components, %d x %d, as %d, %u/8: verdict %u, %zu bytes differ, "
                     "%ld warnings",
                     image->frame.width, image->frame.height, image->frame.component_count,
                     image->frame.components[0].h, image->frame.components[0].v, (int)image->as,
                     image->eighths, image->verdict, wrong, warnings);
    }
    assert_true(intact);
    rig_end(&run);
    for (size_t i = 0; i < batch.count; i++)
        free(batch.files[i].bytes);
    batch.count = 0;
}

/* Damage can make the sides of a header huge, or the file progressive. */
#define PIXELS_MAX (1u << 24)

/* Takes over the file. Returns false if it is not one for the device. */
static bool add_file(struct rig_file file, enum decode_as as, uint32_t eighths,
                     enum expectation expected)
{
    struct rig_image *image = &batch.images[batch.count];
    memset(image, 0, sizeof *image);
    if (!rig_frame(file.bytes, file.length, &image->frame) || image->frame.progressive ||
        (uint64_t)image->frame.width * image->frame.height > PIXELS_MAX ||
        jpeg_decode_work_bytes(&image->frame, file.length, as, eighths) == 0) {
        free(file.bytes);
        return false;
    }
    image->bytes = file.bytes;
    image->length = file.length;
    image->as = as;
    image->eighths = eighths;
    image->needed = batch.needed;
    batch.files[batch.count++] = file;
    if (batch.count == BATCH_MAX)
        run_batch(expected);
    return true;
}

static const int samplings[][3] = {{1, 1, 1}, {3, 1, 1}, {3, 2, 1}, {3, 1, 2}, {3, 2, 2}};
#define SAMPLINGS (sizeof samplings / sizeof *samplings)

static struct rig_encoding encoding_of(uint32_t width, uint32_t height, size_t sampling,
                                       int quality, int pattern)
{
    struct rig_encoding as = {.width = width, .height = height,
                              .channels = (uint32_t)samplings[sampling][0],
                              .h = samplings[sampling][1], .v = samplings[sampling][2],
                              .quality = quality, .pattern = pattern,
                              .seed = width * 131 + height};
    return as;
}

static void add(const struct rig_encoding *encoding, enum decode_as as, uint32_t eighths)
{
    assert_true(add_file(rig_encode(encoding), as, eighths, EXACT));
}

/* ---- tests ---- */

TEST(samples_of_all_sizes_equal_libjpegs)
{
    need_device();
    uint32_t step = test_quick() ? 21 : ON_DEVICE ? 1 : 9, i = 0;
    static const enum decode_as targets[] = {DECODE_LUMA, DECODE_COLOUR, DECODE_YCC};
    for (uint32_t width = 1; width <= 65; width += step)
        for (uint32_t height = 1; height <= 65; height += step)
            for (size_t sampling = 0; sampling < SAMPLINGS; sampling++, i++) {
                struct rig_encoding as = encoding_of(width, height, sampling,
                                                     10 + (int)(i * 7 % 90), (int)(i % 5));
                for (int target = 0; target < 3; target++)
                    add(&as, targets[target], 8);
            }
    run_batch(EXACT);
}

static size_t work_of(const struct jpeg_frame *frame, uint32_t eighths)
{
    return jpeg_decode_work_bytes(frame, 100000, DECODE_COLOUR, eighths);
}

TEST(unusual_files_need_no_work_memory)
{
    struct rig_encoding as = encoding_of(40, 30, 4, 80, 0);
    struct rig_file file = rig_encode(&as);
    struct jpeg_frame frame, other;
    assert_true(rig_frame(file.bytes, file.length, &frame));
    free(file.bytes);
    assert_true(work_of(&frame, 8) > 0 && work_of(&frame, 0) == work_of(&frame, 8));
    assert_int_equal(work_of(&frame, 3), 0);
    assert_int_equal(jpeg_decode_work_bytes(&frame, 1ull << 32, DECODE_LUMA, 8), 0);
    other = frame;
    other.scans[0].last = 62;
    assert_int_equal(work_of(&other, 8), 0);
    other = frame;
    other.scans[0].dc[2] = frame.scans[0].dc[0];
    assert_int_equal(work_of(&other, 8), 0);
    other = frame;
    other.components[1].h = 2;
    assert_int_equal(work_of(&other, 8), 0);
    other = frame;
    other.scans[0].component_count = 2;
    assert_int_equal(work_of(&other, 8), 0);
    other = frame;
    memset(other.huffman[0].counts, 255, sizeof other.huffman[0].counts);
    assert_int_equal(work_of(&other, 8), 0);
}

/* The last tile has one to three MCUs, which can start in the last piece of the data. The rig fills
 * the work memory of each batch with another byte: the pieces after the data have no records. */
TEST(short_last_tiles_equal_libjpegs)
{
    enum { tile_blocks = 256 };
    need_device();
    for (int fill = 0; fill < 3; fill++) {
        for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
            for (uint32_t more = 1; more <= 3; more++)
                for (int pattern = 0; pattern < 5; pattern++) {
                    uint32_t h = (uint32_t)samplings[sampling][1];
                    uint32_t v = (uint32_t)samplings[sampling][2];
                    uint32_t blocks = samplings[sampling][0] == 3 ? h * v + 2 : 1;
                    struct rig_encoding as =
                        encoding_of((tile_blocks / blocks + more) * 8 * h, 8 * v, sampling,
                                    20 + 15 * pattern, pattern);
                    add(&as, DECODE_COLOUR, 8);
                }
        run_batch(EXACT);
    }
}

TEST(samples_at_all_scales_equal_libjpegs)
{
    need_device();
    static const enum decode_as targets[] = {DECODE_LUMA, DECODE_COLOUR, DECODE_YCC};
    uint32_t step = test_quick() ? 31 : ON_DEVICE ? 3 : 13, i = 0;
    for (uint32_t eighths = 4; eighths > 0; eighths /= 2)
        for (uint32_t width = 1; width <= 65; width += step)
            for (uint32_t height = 1; height <= 65; height += step)
                for (size_t sampling = 0; sampling < SAMPLINGS; sampling++, i++) {
                    struct rig_encoding as = encoding_of(width, height, sampling,
                                                         20 + (int)(i * 7 % 80), (int)(i % 5));
                    add(&as, targets[i % 3], eighths);
                }
    run_batch(EXACT);
}

TEST(coefficients_of_another_decoder_give_the_same_samples)
{
    need_device();
    static const uint32_t sizes[][2] = {{1, 1}, {9, 30}, {33, 17}, {150, 90}};
    for (size_t size = 0; size < 4; size++)
        for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
            for (uint32_t eighths = 8; eighths > 0; eighths /= 2) {
                struct rig_encoding as =
                    encoding_of(sizes[size][0], sizes[size][1], sampling, 60, (int)sampling);
                add(&as, eighths == 2 ? DECODE_LUMA : DECODE_COLOUR, eighths);
                if (batch.count > 0)
                    batch.images[batch.count - 1].by_coefficients = true;
                add(&as, eighths == 4 ? DECODE_YCC : DECODE_COLOUR, eighths);
            }
    run_batch(EXACT);
}

TEST(segments_between_restart_markers_are_independent)
{
    need_device();
    static const uint32_t intervals[] = {1, 2, 7, 40, 1000};
    static const uint32_t sizes[][2] = {{16, 16}, {77, 50}, {200, 131}};
    for (size_t size = 0; size < (test_quick() ? 2 : 3); size++)
        for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
            for (size_t i = 0; i < 7; i++) {
                struct rig_encoding as = encoding_of(sizes[size][0], sizes[size][1], sampling,
                                                     85, (int)(i % 4));
                as.restart_interval = i < 5 ? intervals[i] : 0;
                as.restart_rows = i < 5 ? 0 : (uint32_t)i - 4;
                add(&as, i % 2 ? DECODE_COLOUR : DECODE_LUMA, i == 3 ? 4 : 8);
            }
    run_batch(EXACT);
}

/* ---- parts ---- */

/* Parts of an image: its corners, its centre, a row, a column, and random ones. */
static struct image_part part_of(uint32_t width, uint32_t height, uint32_t number, uint32_t *random)
{
    uint32_t w = width / 3 + 1, h = height / 3 + 1;
    const struct image_part parts[] = {
        {0, 0, 1, 1},
        {width - 1, 0, 1, 1},
        {0, height - 1, 1, 1},
        {width - 1, height - 1, 1, 1},
        {0, 0, w, h},
        {width - w, height - h, w, h},
        {width / 3, height / 3, w, h},
        {0, height / 2, width, 1},
        {width / 2, 0, 1, height},
        {0, 0, width, height},
    };
    if (number < COUNT_OF(parts))
        return parts[number];
    struct image_part part = {rig_random(random) % width, rig_random(random) % height, 0, 0};
    part.width = 1 + rig_random(random) % (width - part.x);
    part.height = 1 + rig_random(random) % (height - part.y);
    return part;
}

/* Adds a file for each of several parts. i: chooses how it is decoded. */
static void add_parts(const struct rig_encoding *as, uint32_t i, bool by_coefficients)
{
    static const enum decode_as targets[] = {DECODE_COLOUR, DECODE_COLOUR, DECODE_YCC, DECODE_LUMA};
    uint32_t random = i + 1, count = test_quick() ? 12 : 24;
    for (uint32_t number = 0; number < count; number++) {
        uint32_t turn = i + number, eighths = turn % 5 == 4 ? 1u << turn % 3 : 8;
        batch.needed = part_of(image_scaled(as->width, eighths), image_scaled(as->height, eighths),
                               number, &random);
        add(as, targets[turn % COUNT_OF(targets)], eighths);
        if (batch.count > 0)
            batch.images[batch.count - 1].by_coefficients = by_coefficients;
    }
    batch.needed = (struct image_part){0};
}

/* Rows of the larger sizes have more MCUs than a tile of some sampling, or fewer. */
TEST(parts_equal_libjpegs)
{
    need_device();
    static const uint32_t sizes[][2] = {{1, 1},    {3, 200},  {33, 47},
                                        {131, 90}, {500, 94}, {760, 41}};
    uint32_t i = 0;
    for (size_t size = 0; size < COUNT_OF(sizes); size++)
        for (size_t sampling = 0; sampling < SAMPLINGS; sampling++, i++) {
            struct rig_encoding as = encoding_of(sizes[size][0], sizes[size][1], sampling,
                                                 60 + 5 * (int)(i % 8), (int)(i % 4));
            as.restart_interval = i % 3 == 2 ? 1 + i : 0;
            add_parts(&as, i, false);
            as.restart_interval = 0;
            if (size == 3)
                add_parts(&as, i, true);
        }
    run_batch(EXACT);
}

/* Whether all bytes of pixels that are 32 columns or rows away from the needed part are still the
 * pattern of the rig. */
static bool is_untouched(const struct rig_batch *run, const struct rig_image *image)
{
    enum { far = 32 };
    const struct image *to = &image->image;
    const struct image_part *part = &image->needed;
    bool untouched = true;
    for (uint32_t y = 0; y < to->height; y++)
        for (uint32_t x = 0; x < to->width; x++)
            if (x + far < part->x || y + far < part->y || x > part->x + part->width + far ||
                y > part->y + part->height + far)
                for (uint32_t c = 0; c < to->channels; c++)
                    untouched &=
                        run->host_pixels[image->image_at + y * to->stride + x * to->channels + c] ==
                        RIG_PATTERN;
    return untouched;
}

TEST(pixels_far_from_the_part_are_not_written)
{
    need_device();
    struct rig_batch run;
    for (size_t i = 0; i < 2 * SAMPLINGS; i++) {
        struct rig_encoding as = encoding_of(300, 200, i % SAMPLINGS, 80, 1);
        batch.needed = (struct image_part){130, 90, 40, 30};
        add(&as, i < SAMPLINGS ? DECODE_LUMA : DECODE_COLOUR, 8);
    }
    batch.needed = (struct image_part){0};
    rig_begin(&run, batch.images, batch.count, stream);
    rig_launch(&run, stream);
    assert_true(rig_fetch(&run, stream));
    for (size_t i = 0; i < batch.count; i++)
        assert_true(is_untouched(&run, &batch.images[i]));
    rig_end(&run);
    run_batch(EXACT);
}

/* Coefficients of low qualities may be out of range. */
TEST(all_qualities_and_tables_are_exact_or_declined)
{
    need_device();
    batch.done = batch.declined = 0;
    for (int quality = 1; quality <= 100; quality += test_quick() ? 33 : 1) {
        struct rig_encoding as = encoding_of(90, 61, (size_t)quality % SAMPLINGS, quality,
                                             quality % 5);
        as.optimised = quality % 2;
        as.wide_quant = quality % 10 == 3;
        assert_true(add_file(rig_encode(&as), DECODE_COLOUR, 8, EXACT_OR_DECLINED));
    }
    run_batch(EXACT_OR_DECLINED);
    print_message("%zu decoded, %zu declined\n", batch.done, batch.declined);
    assert_true(batch.done > 10 * batch.declined);
}

TEST(extreme_huffman_tables_are_exact)
{
    need_device();
    for (int kind = 1; kind <= RIG_TABLES; kind++)
        for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
            for (int pattern = 0; pattern < 4; pattern++) {
                struct rig_encoding as = encoding_of(64, 75, sampling, 90, pattern);
                as.tables = kind;
                as.restart_rows = (uint32_t)pattern % 2;
                add(&as, DECODE_COLOUR, 8);
            }
    run_batch(EXACT);
}

TEST(images_of_many_spans_are_exact)
{
    need_device();
    for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
        for (int pattern = 0; pattern < (test_quick() ? 1 : 4); pattern++) {
            struct rig_encoding as = encoding_of(700, 500, sampling, 92, pattern);
            as.restart_rows = sampling == 4 && pattern == 1 ? 3 : 0;
            add(&as, pattern % 2 ? DECODE_LUMA : DECODE_COLOUR, 8);
            as.restart_interval = pattern < 2 ? 31 + 17 * (uint32_t)sampling : 0;
            as.restart_rows = 0;
            if (as.restart_interval > 0)
                add(&as, DECODE_COLOUR, 8);
        }
    run_batch(EXACT);
}

/* More blocks end in a subsequence than in any other file: the codes of a difference of 0 and of
 * the end of a block have one bit each. */
TEST(blocks_of_two_bits_are_exact)
{
    need_device();
    struct rig_encoding as = encoding_of(3600, 2400, 4, 75, 5);
    as.optimised = true;
    struct rig_file file = rig_encode(&as);
    assert_true(file.length > 32 << 10 && file.length < 3600 * 2400 / 256 * 6 * 2 / 8 + 2000);
    add_file(file, DECODE_LUMA, 1, EXACT);
    run_batch(EXACT);
}

/* ---- damage ---- */

static struct rig_file copy_of(const struct rig_file *file)
{
    struct rig_file copy = {malloc(file->length + 16), file->length};
    memcpy(copy.bytes, file->bytes, file->length);
    return copy;
}

/* One change from data_at on: a bit, a byte, a cut, or inserted bytes. */
static struct rig_file damage(const struct rig_file *file, size_t data_at, uint32_t *random)
{
    struct rig_file copy = copy_of(file);
    size_t range = file->length - data_at, at = data_at + rig_random(random) % range;
    uint32_t code = rig_random(random) % 11;
    switch (rig_random(random) % 6) {
    case 0:
        copy.bytes[at] ^= (unsigned char)(1u << rig_random(random) % 8);
        break;
    case 1:
        copy.bytes[at] = (unsigned char)rig_random(random);
        break;
    case 2:
        copy.length = at;
        break;
    case 3: /* a marker, or a stuffed byte */
        memmove(copy.bytes + at + 2, copy.bytes + at, file->length - at);
        copy.bytes[at] = 0xFF;
        copy.bytes[at + 1] = (unsigned char)(code < 8 ? 0xD0 + code : code == 8   ? 0xD9
                                                                      : code == 9 ? 0
                                                                                  : 0xFF);
        copy.length += 2;
        break;
    case 4: /* a byte less */
        memmove(copy.bytes + at, copy.bytes + at + 1, file->length - at - 1);
        copy.length--;
        break;
    default: /* bytes before EOI */
        memmove(copy.bytes + copy.length - 2 + code % 4, copy.bytes + copy.length - 2, 2);
        memset(copy.bytes + copy.length - 2, (int)rig_random(random) & 0x7F, code % 4);
        copy.length += code % 4;
        break;
    }
    return copy;
}

TEST(damaged_files_are_declined_or_decode_without_warnings)
{
    need_device();
    uint32_t random = 4711;
    int count = test_quick() ? 60 : ON_DEVICE ? 20000 : 700;
    batch.done = batch.declined = 0;
    for (int i = 0; i < count; i++) {
        struct rig_encoding as = encoding_of(16 + (uint32_t)i % 61, 16 + (uint32_t)i % 37,
                                             (size_t)i % SAMPLINGS, 40 + i % 60, i % 4);
        as.restart_interval = i % 3 ? 0 : 1 + (uint32_t)i % 9;
        struct rig_file file = rig_encode(&as);
        struct jpeg_frame frame;
        assert_true(rig_frame(file.bytes, file.length, &frame));
        struct rig_file damaged = damage(&file, i % 4 ? frame.scans[0].at : 2, &random);
        uint32_t eighths = i % 7 ? 8 : 2, part = (uint32_t)i / 8 % 16;
        if (i % 8 == 5 || i % 8 == 6)
            batch.needed = part_of(image_scaled(as.width, eighths),
                                   image_scaled(as.height, eighths), part, &random);
        add_file(damaged, i % 2 ? DECODE_LUMA : DECODE_COLOUR, eighths, EXACT_OR_DECLINED);
        batch.needed = (struct image_part){0};
        free(file.bytes);
    }
    run_batch(EXACT_OR_DECLINED);
    print_message("%zu decoded, %zu declined\n", batch.done, batch.declined);
    assert_true(batch.declined > 0 && batch.done > 0);
}

/* Files with subsequences of all sizes in one batch. */
TEST(damaged_large_files_are_declined_or_decode_without_warnings)
{
    need_device();
    uint32_t random = 1147, count = test_quick() ? 6 : ON_DEVICE ? 1000 : 30;
    batch.done = batch.declined = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct rig_encoding as = encoding_of(330, 240 + i % 9, i % SAMPLINGS, 93, 1 + (int)i % 3);
        as.restart_interval = i % 3 == 2 ? 40 + i : 0;
        struct rig_file file = rig_encode(&as);
        struct jpeg_frame frame;
        assert_true(rig_frame(file.bytes, file.length, &frame));
        add_file(damage(&file, frame.scans[0].at, &random), i % 2 ? DECODE_LUMA : DECODE_COLOUR, 8,
                 EXACT_OR_DECLINED);
        free(file.bytes);
    }
    run_batch(EXACT_OR_DECLINED);
    print_message("%zu decoded, %zu declined\n", batch.done, batch.declined);
}

/* Any number of bytes 0xFF may come before a marker. */
TEST(fill_bytes_before_markers_are_skipped)
{
    need_device();
    uint32_t random = 5;
    for (size_t i = 0; i < 4 * SAMPLINGS; i++) {
        struct rig_encoding as = encoding_of(100, 90, i % SAMPLINGS, 95, 1);
        as.restart_interval = i % 2 ? 3 : 0;
        struct rig_file file = rig_encode(&as), filled = {malloc(4 * file.length), 0};
        struct jpeg_frame frame;
        assert_true(rig_frame(file.bytes, file.length, &frame));
        for (size_t at = 0; at < file.length; at++) {
            bool fills = at >= frame.scans[0].at && file.bytes[at] == 0xFF && file.bytes[at + 1];
            for (uint32_t left = fills ? rig_random(&random) % 4 : 0; left > 0; left--)
                filled.bytes[filled.length++] = 0xFF;
            filled.bytes[filled.length++] = file.bytes[at];
        }
        free(file.bytes);
        assert_true(add_file(filled, i % 3 ? DECODE_COLOUR : DECODE_LUMA, 8, EXACT));
    }
    run_batch(EXACT);
}

/* Noise instead of data: codes that never fall into step, blocks without end, bad codes. */
TEST(hostile_data_is_declined)
{
    need_device();
    uint32_t random = 99;
    for (int i = 0; i < (test_quick() ? 10 : 40); i++) {
        struct rig_encoding as = encoding_of(300, 200, (size_t)i % SAMPLINGS, 75, 1);
        as.restart_interval = i % 4 == 3 ? 5 : 0;
        struct rig_file file = rig_encode(&as);
        struct jpeg_frame frame;
        assert_true(rig_frame(file.bytes, file.length, &frame));
        uint32_t kind = (uint32_t)i % 5, value = rig_random(&random);
        for (size_t at = frame.scans[0].at; at < file.length - 2; at++)
            file.bytes[at] = (unsigned char)(kind == 0   ? 0
                                             : kind == 1 ? 0xFE
                                             : kind == 2 ? value >> 8 * (at % 4) & 0xFE
                                             : kind == 3 ? rig_random(&random) & 0xFE
                                                         : rig_random(&random));
        add_file(file, DECODE_COLOUR, 8, EXACT_OR_DECLINED);
    }
    run_batch(EXACT_OR_DECLINED);
}

/* Data that repeats every few bits may never fall into step, but must not be wrong. */
TEST(flat_images_are_exact_or_declined)
{
    need_device();
    batch.done = batch.declined = 0;
    for (size_t sampling = 0; sampling < SAMPLINGS; sampling++)
        for (int optimised = 0; optimised < 2; optimised++) {
            struct rig_encoding as = encoding_of(test_quick() ? 300 : 2000, 1000, sampling, 75, 5);
            as.optimised = optimised;
            assert_true(add_file(rig_encode(&as), DECODE_LUMA, 8, EXACT_OR_DECLINED));
        }
    run_batch(EXACT_OR_DECLINED);
    print_message("%zu decoded, %zu declined\n", batch.done, batch.declined);
}

TEST_MAIN(.setup = begin)
