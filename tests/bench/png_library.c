#include "tests/bench/png_library.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <png.h>
#include <zlib.h>
#ifdef HAVE_SPNG
#include <spng.h>
#endif
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "codecs/codec.h"
#include "conf/format.h"
#include "tests/fixtures/png_rig.h"
#include "tests/fixtures/reference.h"

static struct bytes out; /* the output of all encoders */
static struct {
    struct codec_context *codec;
    uint8_t *pixels, *sink;
    z_stream deflater, inflater;
#ifdef HAVE_LIBDEFLATE
    struct libdeflate_compressor *compressors[13];
    struct libdeflate_decompressor *decompressor;
#endif
} library;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_png: %s failed\n", what);
    exit(1);
}

static void bytes_append(struct bytes *to, const void *bytes, size_t count)
{
    need(to->used + count <= to->capacity, "the size of an output");
    memcpy(to->at + to->used, bytes, count);
    to->used += count;
}

static void bytes_reserve(struct bytes *bytes, size_t capacity)
{
    *bytes = (struct bytes){.at = malloc(capacity), .capacity = capacity};
    need(bytes->at != NULL, "memory");
}

void library_open(void)
{
    size_t most = (size_t)PICTURE_WIDTH_MAX * PICTURE_HEIGHT_MAX * 4 + (1 << 20);
    library.codec = codec_context_create();
    library.sink = malloc(SINK_BYTES);
    library.pixels = malloc(most);
    bytes_reserve(&out, most);
    need(library.codec && library.sink && library.pixels &&
             inflateInit(&library.inflater) == Z_OK &&
             deflateInit2(&library.deflater, encoder_defaults.compression, Z_DEFLATED, 15, 8,
                          Z_RLE) == Z_OK, "memory");
#ifdef HAVE_LIBDEFLATE
    for (int level = 1; level <= 12; level++)
        library.compressors[level] = libdeflate_alloc_compressor(level);
    library.decompressor = libdeflate_alloc_decompressor();
#endif
}

static int level_of(const struct png_settings *settings)
{
    return settings->level < 0 ? encoder_defaults.compression : settings->level;
}

static size_t row_bytes(const struct picture *picture)
{
    return (size_t)picture->raster.width * picture->raster.channels;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    bytes_append(&out, sink->buffer, used);
    return STATUS_OK;
}

const struct bytes *encode_codec(const struct picture *picture,
                                 const struct png_settings *settings)
{
    struct encode_request request = {.format = format_by_name("png"),
                                     .encoder.compression = level_of(settings)};
    struct codec_sink sink = {.buffer = library.sink, .capacity = SINK_BYTES, .flush = keep};
    struct error error = {0};
    out.used = 0;
    need(codec_encode(library.codec, &picture->image, &request, &sink, &error) == STATUS_OK,
         "the codec");
    return &out;
}

const struct bytes *encode_plain(const struct picture *picture, const struct png_settings *settings)
{
    (void)settings;
    struct picture_file file = png_rig_write(&picture->image, &png_kernels_plain);
    out.used = 0;
    bytes_append(&out, file.bytes, file.length);
    picture_free(&file);
    return &out;
}

static void libpng_write(png_structp png, png_bytep bytes, size_t count)
{
    bytes_append(png_get_io_ptr(png), bytes, count);
}

static void libpng_flush(png_structp png)
{
}

const struct bytes *encode_libpng(const struct picture *picture,
                                  const struct png_settings *settings)
{
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGB_ALPHA};
    const struct image *image = &picture->image;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    out.used = 0;
    need(setjmp(png_jmpbuf(png)) == 0, "libpng");
    png_set_write_fn(png, &out, libpng_write, libpng_flush);
    png_set_compression_level(png, level_of(settings));
    if (settings->strategy >= 0)
        png_set_compression_strategy(png, settings->strategy);
    png_set_compression_buffer_size(png, 64 << 10);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, settings->filters);
    png_set_IHDR(png, info, image->width, image->height, 8, types[image->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->stride);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return &out;
}

const struct bytes *encode_zlib(const struct picture *picture,
                                const struct png_settings *settings)
{
    z_stream *stream = &library.deflater;
    deflateReset(stream);
    deflateParams(stream, level_of(settings), Z_RLE);
    stream->next_in = picture->filtered.at;
    stream->avail_in = (uInt)picture->filtered.used;
    stream->next_out = out.at;
    stream->avail_out = (uInt)out.capacity;
    need(deflate(stream, Z_FINISH) == Z_STREAM_END, "deflate");
    out.used = stream->total_out;
    return &out;
}

#ifdef HAVE_LIBDEFLATE
const struct bytes *encode_libdeflate(const struct picture *picture,
                                      const struct png_settings *settings)
{
    out.used = libdeflate_zlib_compress(library.compressors[settings->level], picture->filtered.at,
                                        picture->filtered.used, out.at, out.capacity);
    need(out.used > 0, "libdeflate_zlib_compress");
    return &out;
}
#endif

#ifdef HAVE_SPNG
static int spng_keep(spng_ctx *context, void *user, void *from, size_t count)
{
    bytes_append(user, from, count);
    return 0;
}

/* The rows of the raster have no padding, as libspng requires. */
const struct bytes *encode_spng(const struct picture *picture,
                                const struct png_settings *settings)
{
    static const uint8_t types[] = {0, SPNG_COLOR_TYPE_GRAYSCALE, 0, SPNG_COLOR_TYPE_TRUECOLOR,
                                    SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
    const struct raster *raster = &picture->raster;
    struct spng_ihdr header = {.width = raster->width, .height = raster->height, .bit_depth = 8,
                               .color_type = types[raster->channels]};
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    out.used = 0;
    spng_set_png_stream(context, spng_keep, &out);
    spng_set_ihdr(context, &header);
    spng_set_option(context, SPNG_IMG_COMPRESSION_LEVEL, level_of(settings));
    spng_set_option(context, SPNG_IMG_COMPRESSION_STRATEGY, settings->strategy);
    spng_set_option(context, SPNG_FILTER_CHOICE, settings->filters);
    need(spng_encode_image(context, raster->pixels, row_bytes(picture) * raster->height,
                           SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) == 0, "libspng");
    spng_ctx_free(context);
    return &out;
}
#endif

/* ---- decoding ------------------------------------------------------------------------------- */

void decode_codec(const struct picture *picture)
{
    struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};
    struct decode_request request = {.as = DECODE_COLOUR};
    struct image_info info = {0};
    struct error error = {0};
    struct image image = picture->image;
    image.pixels = library.pixels;
    need(codec_probe(library.codec, picture->png.at, picture->png.used, &limits, &info, &error) ==
                 STATUS_OK &&
             codec_decode(library.codec, picture->png.at, picture->png.used, &info, &request,
                          &limits, &image, &error) == STATUS_OK, "the codec");
    image_info_clear(&info);
}

struct reader {
    const struct bytes *from;
    size_t at;
};

static void libpng_read(png_structp png, png_bytep to, size_t count)
{
    struct reader *reader = png_get_io_ptr(png);
    memcpy(to, reader->from->at + reader->at, count);
    reader->at += count;
}

void decode_libpng(const struct picture *picture)
{
    struct reader reader = {.from = &picture->png};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    need(setjmp(png_jmpbuf(png)) == 0, "libpng");
    png_set_read_fn(png, &reader, libpng_read);
    png_read_info(png, info);
    for (uint32_t y = 0; y < picture->image.height; y++)
        png_read_row(png, library.pixels + y * picture->image.stride, NULL);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

void decode_zlib(const struct picture *picture)
{
    z_stream *stream = &library.inflater;
    inflateReset(stream);
    stream->next_in = picture->compressed.at;
    stream->avail_in = (uInt)picture->compressed.used;
    stream->next_out = out.at;
    stream->avail_out = (uInt)out.capacity;
    need(inflate(stream, Z_FINISH) == Z_STREAM_END, "inflate");
}

#ifdef HAVE_LIBDEFLATE
void decode_libdeflate(const struct picture *picture)
{
    size_t got;
    need(libdeflate_zlib_decompress(library.decompressor, picture->compressed.at,
                                    picture->compressed.used, out.at, out.capacity,
                                    &got) == LIBDEFLATE_SUCCESS, "libdeflate_zlib_decompress");
}
#endif

#ifdef HAVE_SPNG
void decode_spng(const struct picture *picture)
{
    spng_ctx *context = spng_ctx_new(0);
    size_t size = row_bytes(picture) * picture->raster.height;
    spng_set_png_buffer(context, picture->png.at, picture->png.used);
    need(spng_decode_image(context, library.pixels, size, SPNG_FMT_PNG, 0) == 0, "libspng");
    spng_ctx_free(context);
}
#endif

/* ---- images --------------------------------------------------------------------------------- */

/* The arguments of nftw's callback. */
static struct {
    struct set *sets;
    size_t count;
    uint32_t part;
} load;

static struct raster middle_of(const struct raster *from)
{
    uint32_t width = PICTURE_WIDTH_MAX / load.part, height = PICTURE_HEIGHT_MAX / load.part;
    if (width > from->width)
        width = from->width;
    if (height > from->height)
        height = from->height;
    struct raster to = raster_make(width, height, from->channels);
    for (uint32_t y = 0; y < height; y++)
        memcpy(raster_at(&to, 0, y),
               raster_at(from, (from->width - width) / 2, (from->height - height) / 2 + y),
               (size_t)width * from->channels);
    return to;
}

void picture_take_apart(struct picture *picture)
{
    const uint8_t *bytes = picture->png.at;
    bytes_reserve(&picture->compressed, picture->png.used);
    bytes_reserve(&picture->filtered, (row_bytes(picture) + 1) * picture->raster.height);
    for (size_t at = 8; at + 12 <= picture->png.used;) {
        size_t count = (size_t)bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
                       bytes[at + 3];
        if (memcmp(bytes + at + 4, "IDAT", 4) == 0)
            bytes_append(&picture->compressed, bytes + at + 8, count);
        at += 12 + count;
    }
    uLongf length = picture->filtered.capacity;
    need(uncompress(picture->filtered.at, &length, picture->compressed.at,
                    picture->compressed.used) == Z_OK && length == picture->filtered.capacity,
         "splitting a PNG");
    picture->filtered.used = length;
}

static void add_picture(struct set *set, struct raster raster)
{
    struct picture *picture = &set->pictures[set->count++];
    size_t stride = image_stride(raster.width, raster.channels);
    *picture = (struct picture){.raster = raster,
                                .image = {.width = raster.width, .height = raster.height,
                                          .channels = raster.channels, .stride = stride}};
    picture->image.pixels = malloc(stride * raster.height);
    need(picture->image.pixels != NULL, "memory");
    for (uint32_t y = 0; y < raster.height; y++)
        memcpy(picture->image.pixels + y * stride, raster_at(&raster, 0, y),
               row_bytes(picture));
    const struct bytes *png = encode_codec(picture, &(struct png_settings){.level = -1});
    bytes_reserve(&picture->png, png->used);
    bytes_append(&picture->png, png->at, png->used);
    picture_take_apart(picture);
    set->raw_bytes += (double)row_bytes(picture) * raster.height;
    set->pixels += (double)raster.width * raster.height;
}

static int add_file(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const char *suffix = strrchr(path, '.');
    (void)st, (void)ftw;
    if (kind != FTW_F || !suffix || load.sets[SET_PHOTOGRAPHS].count == load.count ||
        (strcasecmp(suffix, ".jpg") && strcasecmp(suffix, ".jpeg")))
        return 0;
    struct raster colour = raster_load(path, RASTER_COLOUR), luma = raster_load(path, RASTER_LUMA);
    if (colour.pixels && colour.channels == 3 && luma.channels == 1 && colour.width >= 640) {
        struct raster small = middle_of(&luma);
        add_picture(&load.sets[SET_PHOTOGRAPHS], middle_of(&colour));
        add_picture(&load.sets[SET_EDGES],
                    reference_sobel(&small, REFERENCE_HALF, REFERENCE_REFLECT101));
        raster_clear(&small);
    }
    raster_clear(&colour);
    raster_clear(&luma);
    return 0;
}

void sets_load(struct set sets[SETS], const char *folder, size_t count, uint32_t part)
{
    sets[SET_PHOTOGRAPHS] = (struct set){.name = "photographs"};
    sets[SET_EDGES] = (struct set){.name = "edges"};
    load.sets = sets;
    load.count = count;
    load.part = part;
    nftw(folder, add_file, 16, FTW_PHYS);
    need(sets[SET_PHOTOGRAPHS].count > 0, "finding a photograph 640 pixels wide or more");
}
