/*
 * Tests of png_stream.h: valid and damaged files give the same status, message and pixels as with
 * libpng alone.
 *
 * The test writes the files itself, with any filters, settings of zlib and sizes of IDAT chunks.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include <zlib.h>

#include "codecs/png/png_stream.h"
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/picture_impl.h"

/* ---- files ---- */

enum { MIXED = 5 }; /* filters: 0 to 4, or all in turn */
enum pixels { SCENE, NOISE, FLAT, PIXELS, TWO_VALUES = PIXELS };

struct shape {
    uint32_t width, height, channels;
    enum pixels pixels;
    unsigned filter;
    int level, strategy, window_bits; /* of zlib; window_bits 0: 15 */
    int memory;                       /* of zlib: 2 makes short blocks; 0: 8 */
    uInt block_bytes;                 /* a block per so many; 0: as zlib wants */
    size_t idat_bytes;                /* 0: one chunk */
    bool empty_chunks, texts;
};

static uint8_t *pixels_of(const struct shape *shape)
{
    size_t bytes = (size_t)shape->width * shape->height * shape->channels;
    uint8_t *pixels = picture_pixels(shape->width, shape->height, shape->channels, 5);
    uint32_t random = 7;
    for (size_t i = 0; shape->pixels != SCENE && i < bytes; i++)
        pixels[i] = shape->pixels == FLAT    ? 77
                    : shape->pixels == NOISE ? (uint8_t)(picture_random(&random) >> 9)
                                             : (uint8_t)(picture_random(&random) >> 9 & 1);
    return pixels;
}

static int predict(unsigned filter, int a, int b, int c)
{
    int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    int paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
    return filter == 1 ? a : filter == 2 ? b : filter == 3 ? (a + b) / 2 : filter == 4 ? paeth : 0;
}

static struct picture_file filtered_rows(const struct shape *shape)
{
    uint8_t *pixels = pixels_of(shape);
    size_t row_bytes = (size_t)shape->width * shape->channels, left = shape->channels;
    struct picture_file rows = {picture_allocate((row_bytes + 1) * shape->height), 0};
    for (uint32_t y = 0; y < shape->height; y++) {
        unsigned filter = shape->filter == MIXED ? y * 7 % 5 : shape->filter;
        const uint8_t *row = pixels + y * row_bytes, *above = row - row_bytes;
        rows.bytes[rows.length++] = (uint8_t)filter;
        for (size_t i = 0; i < row_bytes; i++)
            rows.bytes[rows.length++] =
                (uint8_t)(row[i] - predict(filter, i >= left ? row[i - left] : 0,
                                           y > 0 ? above[i] : 0,
                                           y > 0 && i >= left ? above[i - left] : 0));
    }
    free(pixels);
    return rows;
}

static struct picture_file deflated(const struct shape *shape)
{
    struct picture_file rows = filtered_rows(shape);
    z_stream z = {.next_in = rows.bytes, .avail_in = (uInt)rows.length};
    assert_int_equal(deflateInit2(&z, shape->level, Z_DEFLATED,
                                  shape->window_bits ? shape->window_bits : 15,
                                  shape->memory ? shape->memory : 8, shape->strategy),
                     Z_OK);
    size_t room = deflateBound(&z, (uLong)rows.length) + rows.length + 64;
    struct picture_file stream = {picture_allocate(room), 0};
    z.next_out = stream.bytes;
    z.avail_out = (uInt)room;
    for (size_t left = rows.length; shape->block_bytes > 0 && left > shape->block_bytes;
         left -= shape->block_bytes) {
        z.avail_in = shape->block_bytes;
        assert_int_equal(deflate(&z, Z_BLOCK), Z_OK);
    }
    z.avail_in = (uInt)(rows.bytes + rows.length - z.next_in);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    stream.length = z.total_out;
    deflateEnd(&z);
    picture_free(&rows);
    return stream;
}

/* Writes a chunk and returns its end. */
static uint8_t *put_chunk(uint8_t *to, const char *type, const uint8_t *data, size_t count)
{
    picture_put32(to, (uint32_t)count);
    memcpy(to + 4, type, 4);
    if (count > 0)
        memcpy(to + 8, data, count);
    picture_put32(to + 8 + count, (uint32_t)crc32(0, to + 4, (uInt)(4 + count)));
    return to + PNG_CHUNK_OVERHEAD + count;
}

static void add_chunk(struct picture_file *file, const char *type, const uint8_t *data,
                      size_t count)
{
    uint8_t *chunk = picture_allocate(PNG_CHUNK_OVERHEAD + count);
    picture_append(file, chunk, (size_t)(put_chunk(chunk, type, data, count) - chunk));
    free(chunk);
}

/* Appends all IDAT chunks at once, because there may be ten thousands. */
static void add_stream(struct picture_file *file, const struct picture_file *stream,
                       const struct shape *shape)
{
    size_t piece = shape->idat_bytes ? shape->idat_bytes : stream->length;
    size_t chunks = 2 * (stream->length / piece + 1);
    uint8_t *all = picture_allocate(stream->length + chunks * PNG_CHUNK_OVERHEAD), *to = all;
    for (size_t at = 0; at < stream->length; at += piece) {
        size_t left = stream->length - at;
        if (shape->empty_chunks)
            to = put_chunk(to, "IDAT", NULL, 0);
        to = put_chunk(to, "IDAT", stream->bytes + at, left < piece ? left : piece);
    }
    picture_append(file, all, (size_t)(to - all));
    free(all);
}

static struct picture_file make_file(const struct shape *shape)
{
    static const uint8_t types[] = {0, 0, 0, 2, 6};
    uint8_t header[13] = {[8] = 8, [9] = types[shape->channels]};
    struct picture_file file = {NULL, 0}, stream = deflated(shape);
    picture_put32(header, shape->width);
    picture_put32(header + 4, shape->height);
    picture_append(&file, "\x89PNG\r\n\x1A\n", PNG_SIGNATURE_BYTES);
    add_chunk(&file, "IHDR", header, sizeof header);
    if (shape->texts)
        add_chunk(&file, "tEXt", (const uint8_t *)"Comment\0hello", 13);
    add_stream(&file, &stream, shape);
    if (shape->texts) {
        add_chunk(&file, "tIME", (const uint8_t *)"\7\xE8\1\1\1\1\1", 7);
        add_chunk(&file, "zzZz", (const uint8_t *)"anything", 8);
    }
    add_chunk(&file, "IEND", NULL, 0);
    picture_free(&stream);
    return file;
}

/* ---- both decoders ---- */

/* A decode into a block between guards. */
struct result {
    struct png_state state;
    struct error error;
    struct image image;
    uint8_t *block;
    size_t bytes;
};

static void decode_as(codec_decode_fn *decode, const struct picture_file *file, struct result *to)
{
    struct decode_request request = {0};
    struct image *image = &to->image;
    to->error = (struct error){0};
    *image = (struct image){NULL, rig.info.width, rig.info.height, rig.info.channels, 0};
    image->stride = image_stride(image->width, image->channels) + STRIDE_ALIGN;
    to->bytes = image->stride * image->height + 2 * rig_guard;
    to->block = picture_allocate(to->bytes);
    memset(to->block, rig_fill, to->bytes);
    image->pixels = to->block + rig_guard;
    enum status status = decode(&to->state, file->bytes, file->length, &rig.info, &request,
                                &rig.limits, image, &to->error);
    assert_int_equal(status, to->error.status);
}

/* With rows that are not written whole after an error. */
static void expect_guards(const struct result *result)
{
    size_t row = (size_t)result->image.width * result->image.channels;
    for (size_t i = 0; i < rig_guard; i++) {
        assert_int_equal(result->block[i], rig_fill);
        assert_int_equal(result->block[result->bytes - 1 - i], rig_fill);
    }
    for (uint32_t y = 0; y < result->image.height; y++)
        for (size_t i = row; i < result->image.stride; i++)
            assert_int_equal(result->image.pixels[y * result->image.stride + i], rig_fill);
}

/* Returns true if png_stream_read has decoded the file: then libpng has not read on after the head
 * of the first IDAT chunk. Files that fail in the probe are not compared: nothing has changed. */
static bool expect_as_libpng(const struct picture_file *file)
{
    static struct result own, plain;
    rig.error = (struct error){0};
    enum status status =
        codec_probe(rig.context, file->bytes, file->length, &rig.limits, &rig.info, &rig.error);
    if (status != STATUS_OK) {
        image_info_clear(&rig.info);
        return false;
    }
    decode_as(png_decode, file, &own);
    decode_as(png_decode_by_libpng, file, &plain);
    assert_int_equal(own.error.status, plain.error.status);
    assert_string_equal(own.error.text, plain.error.text);
    expect_guards(&own);
    if (own.error.status == STATUS_OK)
        assert_memory_equal(own.block, plain.block, own.bytes);
    bool by_stream = own.state.at < plain.state.at;
    assert_true(!by_stream || own.error.status == STATUS_OK);
    free(own.block);
    free(plain.block);
    image_info_clear(&rig.info);
    return by_stream;
}

static void expect_fast(const struct shape *shape)
{
    struct picture_file file = make_file(shape);
    if (!expect_as_libpng(&file))
        fail_msg("libpng decoded %u x %u pixels of %u channels, filter %u, level %d, chunks of %zu",
                 shape->width, shape->height, shape->channels, shape->filter, shape->level,
                 shape->idat_bytes);
    picture_free(&file);
}

static const uint32_t channel_counts[] = {1, 3, 4};

/* ---- valid files ---- */

TEST(test_sizes)
{
    static const uint32_t sides[][2] = {{1, 1},  {1, 300}, {300, 1},   {2, 3},     {5, 4},
                                        {7, 9},  {8, 8},   {10, 5},    {11, 7},    {31, 6},
                                        {32, 6}, {33, 6},  {16384, 3}, {3, 16384}, {341, 100}};
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (size_t c = 0; c < COUNT_OF(channel_counts); c++)
            for (unsigned filter = 0; filter <= MIXED; filter++)
                expect_fast(&(struct shape){sides[i][0], sides[i][1], channel_counts[c], SCENE,
                                            filter, .level = 1, .idat_bytes = 8192});
}

TEST(test_settings)
{
    static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE,
                                     Z_FIXED};
    for (int level = 0; level <= 9; level++)
        for (size_t s = 0; s < COUNT_OF(strategies); s++)
            for (int pixels = 0; pixels < PIXELS; pixels++)
                expect_fast(&(struct shape){97, 61, channel_counts[(s + (size_t)level) % 3],
                                            (enum pixels)pixels, MIXED, .level = level,
                                            .strategy = strategies[s]});
}

TEST(test_chunks)
{
    static const size_t idat_bytes[] = {0, 1, 2, 3, 5, 100, 8192};
    for (size_t i = 0; i < COUNT_OF(idat_bytes); i++)
        for (int variant = 0; variant < 4; variant++)
            expect_fast(&(struct shape){120, 70, 3, SCENE, MIXED, .level = 6,
                                        .idat_bytes = idat_bytes[i], .texts = variant % 2 != 0,
                                        .empty_chunks = variant / 2 != 0});
}

/* Larger than the window, the input and the output that is unfiltered at a time. */
TEST(test_large_images)
{
    for (size_t c = 0; c < COUNT_OF(channel_counts); c++)
        for (int pixels = 0; pixels < PIXELS; pixels++)
            expect_fast(&(struct shape){701, 402, channel_counts[c], (enum pixels)pixels, MIXED,
                                        .level = 1, .idat_bytes = 8192});
    /* Blocks end where the window, the input and the rows do. */
    for (uint32_t i = 0; i < 24; i++)
        expect_fast(&(struct shape){701, 380 + i, channel_counts[i % 3], (enum pixels)(i % 2),
                                    MIXED, .level = 1, .memory = 2, .idat_bytes = 8192});
    rig.limits.side_max = SIDE_CEILING;
    expect_fast(&(struct shape){SIDE_CEILING, 9, 4, SCENE, MIXED, .level = 1});
}

/* The tables of very many small blocks take longer than zlib needs for all, so zlib reads them. */
TEST(test_tiny_blocks)
{
    struct shape shape = {
        4000, 100, 1, TWO_VALUES, 0, .level = 1, .strategy = Z_HUFFMAN_ONLY, .block_bytes = 64};
    struct picture_file file = make_file(&shape);
    assert_false(expect_as_libpng(&file));
    picture_free(&file);
    shape.block_bytes = 512;
    expect_fast(&shape);
}

/* A stream may declare a window that is smaller than its matches are long, which zlib refuses, so
 * zlib reads it, unless no match can be longer. */
TEST(test_small_windows)
{
    struct shape shape = {40, 40, 1, SCENE, MIXED, .level = 9, .window_bits = 11};
    expect_fast(&shape); /* 1,640 bytes */
    shape.width = 60;
    struct picture_file file = make_file(&shape);
    assert_false(expect_as_libpng(&file));
    picture_free(&file);
}

/* Kinds that libpng decodes alone. */
TEST(test_other_kinds)
{
    static const struct picture_png kinds[] = {
        {.width = 9, .height = 7, .colour_type = 2, .interlaced = true},
        {.width = 9, .height = 7, .colour_type = 2, .transparent = true},
        {.width = 9, .height = 7, .colour_type = 0, .transparent = true},
        {.width = 9, .height = 7, .colour_type = 0, .bit_depth = 4},
        {.width = 9, .height = 7, .colour_type = 2, .bit_depth = 16},
        {.width = 9, .height = 7, .colour_type = 3},
        {.width = 9, .height = 7, .colour_type = 4},
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct picture_file file = picture_png(&kinds[i]);
        assert_false(expect_as_libpng(&file));
        picture_free(&file);
    }
}

/* ---- damaged files ---- */

/* The offset of the first chunk of a type, or of a random chunk. */
static size_t find_chunk(const struct picture_file *file, const char *type, uint32_t *random)
{
    size_t at = PNG_SIGNATURE_BYTES, chosen = at;
    for (uint32_t n = 1; at + PNG_CHUNK_OVERHEAD <= file->length; n++) {
        if (type && memcmp(file->bytes + at + 4, type, 4) == 0)
            return at;
        if (!type && picture_random(random) % n == 0)
            chosen = at;
        at += PNG_CHUNK_OVERHEAD + picture_get32(file->bytes + at);
    }
    return chosen;
}

static void remove_bytes(struct picture_file *file, size_t at, size_t count)
{
    memmove(file->bytes + at, file->bytes + at + count, file->length - at - count);
    file->length -= count;
}

/* A chunk goes, comes twice, or gets another type. */
static void damage_chunk(struct picture_file *file, unsigned how, uint32_t *random)
{
    static const char types[][5] = {"IDAT", "tRNS", "PLTE", "IEND", "IHDR", "zzzz", "ZZZZ", "a1cd"};
    size_t at = find_chunk(file, NULL, random);
    size_t count = PNG_CHUNK_OVERHEAD + picture_get32(file->bytes + at);
    if (how % 3 == 0) {
        remove_bytes(file, at, count);
    } else if (how % 3 == 1) {
        uint8_t *copy = picture_allocate(count);
        memcpy(copy, file->bytes + at, count);
        picture_insert(file, find_chunk(file, NULL, random), copy, count);
        free(copy);
    } else {
        memcpy(file->bytes + at + 4, types[picture_random(random) % COUNT_OF(types)], 4);
        picture_png_fix_crcs(file);
    }
}

/* Bytes after the stream, in its chunk or in a new one; or the stream's last bytes are missing. */
static void damage_end(struct picture_file *file, unsigned how, uint32_t *random)
{
    static const uint8_t surplus[] = {1, 2, 3, 4, 5, 6, 7, 8};
    size_t at = PNG_SIGNATURE_BYTES, last = 0, count = 1 + picture_random(random) % 8;
    for (; memcmp(file->bytes + at + 4, "IEND", 4) != 0;
         at += PNG_CHUNK_OVERHEAD + picture_get32(file->bytes + at))
        if (memcmp(file->bytes + at + 4, "IDAT", 4) == 0)
            last = at;
    uint32_t length = picture_get32(file->bytes + last);
    size_t end = last + 8 + length;
    if (how % 4 == 0) {
        picture_insert(file, end, surplus, count);
        picture_put32(file->bytes + last, length + (uint32_t)count);
    } else if (how % 4 == 1) {
        picture_png_insert(file, "IEND", "IDAT", surplus, count);
    } else if (how % 4 == 2 && count <= length) {
        remove_bytes(file, end - count, count);
        picture_put32(file->bytes + last, length - (uint32_t)count);
    } else {
        file->bytes[end - 1 - count % 4] ^= (uint8_t)count; /* the checksum, or before it */
    }
    picture_png_fix_crcs(file);
}

/* Flips bits, also in the file's filters: those rows are stored. */
static void flip(struct picture_file *file, unsigned how, uint32_t *random)
{
    size_t from = how % 2 == 0 ? PNG_SIGNATURE_BYTES : find_chunk(file, "IDAT", random) + 8;
    size_t end = how % 6 == 5 && from + 40 < file->length ? from + 40 : file->length;
    struct picture_file bad = picture_damage(file, from, end, random);
    picture_free(file);
    *file = bad;
    if (how % 4 != 0)
        picture_png_fix_crcs(file);
}

TEST(test_damage)
{
    enum { rounds = 4500 };
    uint32_t random = 20261126;
    unsigned fast = 0;
    rig.limits.side_max = 600;
    for (unsigned i = 0; i < rounds; i++) {
        struct shape shape = {1 + picture_random(&random) % 60,
                              1 + picture_random(&random) % 40,
                              channel_counts[i % 3],
                              (enum pixels)(i / 3 % PIXELS),
                              MIXED,
                              .level = (int)(i / 9 % 10),
                              .idat_bytes = i % 4 == 0 ? 0 : 20 + i % 300,
                              .texts = i % 5 < 2};
        struct picture_file file = make_file(&shape);
        rig.limits.lenient = i % 2 != 0;
        switch (i / 2 % 5) {
        case 0:
            damage_chunk(&file, picture_random(&random), &random);
            break;
        case 1:
            damage_end(&file, picture_random(&random), &random);
            break;
        case 2:
            file.bytes[find_chunk(&file, NULL, &random) + 4 + picture_random(&random) % 8] ^= 1;
            break;
        case 3:
            file.length -= picture_random(&random) % (i % 3 == 0 ? file.length : 40);
            break;
        default:
            flip(&file, picture_random(&random), &random);
        }
        fast += expect_as_libpng(&file);
        picture_free(&file);
    }
    assert_in_range(fast, 10, rounds / 4);
}

/* Each chunk after the pixels has a wrong CRC. */
TEST(test_wrong_crcs)
{
    static const char *const types[] = {"IDAT", "tIME", "zzZz", "IEND"};
    for (int lenient = 0; lenient < 2; lenient++)
        for (size_t i = 0; i < COUNT_OF(types); i++) {
            struct picture_file file = make_file(&(struct shape){
                60, 40, 3, SCENE, MIXED, .level = 6, .idat_bytes = 1000, .texts = true});
            rig.limits.lenient = lenient != 0;
            picture_png_break_crc(&file, types[i]);
            assert_false(expect_as_libpng(&file));
            picture_free(&file);
        }
}

/* All bytes that are no filter, in stored rows. */
TEST(test_unknown_filters)
{
    struct shape shape = {20, 12, 3, SCENE, MIXED, .level = 0};
    for (unsigned filter = 0; filter < 256; filter++)
        for (uint32_t y = 0; y < shape.height; y += 11) {
            struct picture_file file = {NULL, 0}, good = make_file(&shape);
            struct picture_file rows = filtered_rows(&shape);
            size_t at = find_chunk(&good, "IDAT", NULL),
                   end = at + 8 + picture_get32(good.bytes + at);
            rows.bytes[(60 + 1) * y] = (uint8_t)filter;
            good.bytes[at + 8 + 2 + 5 + (60 + 1) * y] = (uint8_t)filter;
            picture_put32(good.bytes + end - 4,
                          (uint32_t)adler32(1, rows.bytes, (uInt)rows.length));
            picture_append(&file, good.bytes, good.length);
            picture_png_fix_crcs(&file);
            assert_int_equal(expect_as_libpng(&file), filter <= 4);
            picture_free(&file);
            picture_free(&good);
            picture_free(&rows);
        }
}

TEST(test_deadline)
{
    struct picture_file file =
        make_file(&(struct shape){4000, 1500, 3, NOISE, MIXED, .level = 0, .idat_bytes = 8192});
    static struct result result;
    assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
    rig.limits.deadline_ns = clock_now_ns() + 2000000;
    decode_as(png_decode, &file, &result);
    assert_int_equal(result.error.status, STATUS_DECODE_LIMIT);
    assert_non_null(strstr(result.error.text, "the deadline for decoding passed after "));
    assert_non_null(strstr(result.error.text, " of 1500 rows"));
    free(result.block);
    picture_free(&file);
}

static uint64_t calls; /* of the clock since the last decode began; 0: the real clock */

/* Replaces the C library's function: a clock of which each call takes a second. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_MONOTONIC || calls == 0)
        return (int)syscall(SYS_clock_gettime, clock, time);
    *time = (struct timespec){.tv_sec = (time_t)calls++};
    return 0;
}

/* Inserts a chunk without data again and again. */
static void insert_chunks(struct picture_file *file, size_t at, const char *type, size_t bytes)
{
    uint8_t *all = picture_allocate(bytes), *to = all;
    while (to + PNG_CHUNK_OVERHEAD <= all + bytes)
        to = put_chunk(to, type, NULL, 0);
    picture_insert(file, at, all, (size_t)(to - all));
    free(all);
}

/* The deadline passes in chunks without data, before, in and after the stream. */
TEST(test_deadline_between_chunks)
{
    enum { megabytes = 6, deadline_s = 12 };
    static const struct {
        const char *type;
        unsigned after; /* IDAT chunks */
    } places[] = {{"IDAT", 0}, {"IDAT", 1}, {"IDAT", 2}, {"tEXt", 2}};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        static struct result result;
        struct picture_file file =
            make_file(&(struct shape){60, 40, 3, NOISE, MIXED, .level = 0, .idat_bytes = 4000});
        size_t at = find_chunk(&file, "IDAT", NULL);
        for (unsigned n = 0; n < places[i].after; n++)
            at += PNG_CHUNK_OVERHEAD + picture_get32(file.bytes + at);
        insert_chunks(&file, at, places[i].type, megabytes * MIB);
        assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
        for (int by_libpng = 0; by_libpng < 2; by_libpng++) {
            calls = 1;
            rig.limits.deadline_ns = deadline_s * NS_PER_S;
            decode_as(by_libpng ? png_decode_by_libpng : png_decode, &file, &result);
            assert_in_range(calls, deadline_s, deadline_s + 3);
            calls = 0;
            rig.limits.deadline_ns = 0;
            assert_int_equal(result.error.status, STATUS_DECODE_LIMIT);
            assert_non_null(strstr(result.error.text, "the deadline for decoding passed after "));
            free(result.block);
        }
        picture_free(&file);
    }
}

/* Profiles that take long to inflate, which libpng refuses one by one. */
TEST(test_deadline_between_profiles)
{
    enum { profiles = 60, profile_bytes = 4 * MIB - 4, deadline_s = 12 };
    struct picture_file file = make_png(.width = 8, .height = 8, .colour_type = 2);
    struct picture_file icc = picture_icc(profile_bytes, "RGB "), chunk = {NULL, 0};
    memset(icc.bytes + 128, 0xFF, 4); /* more tags than there is room for */
    memset(icc.bytes + 132, 0, icc.length - 132);
    uLongf length = compressBound(profile_bytes);
    uint8_t *deflated_icc = picture_allocate(length);
    assert_int_equal(compress2(deflated_icc, &length, icc.bytes, icc.length, 9), Z_OK);
    picture_append(&chunk, "icc\0", 5);
    picture_append(&chunk, deflated_icc, length);
    for (int i = 0; i < profiles; i++)
        picture_png_insert(&file, "IDAT", "iCCP", chunk.bytes, chunk.length);
    assert_in_range(file.length, 100 * KIB, 256 * KIB - 1);
    calls = 1;
    rig.limits.deadline_ns = deadline_s * NS_PER_S;
    enum status status = rig_probe(&rig, &file);
    assert_in_range(calls, deadline_s, deadline_s + 3);
    calls = 0;
    assert_int_equal(status, STATUS_DECODE_LIMIT);
    free(deflated_icc);
    picture_free(&chunk);
    picture_free(&icc);
    picture_free(&file);
}

TEST_MAIN(.name = "png stream", .each_setup = rig_setup, .each_teardown = rig_teardown)
