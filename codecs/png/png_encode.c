/* png_encode.c - writes PNGs: headers with libpng, pixels with libpng or the own encoder. */
#include <endian.h>

#include "codecs/png/header.h"
#include "codecs/png/png_samples.h"
#include "codecs/png/png_state.h"
#include "codecs/png/png_writer.h"

/* Size of the IDAT chunks that are written. Their headers and the calls of deflate then cost
 * nothing that can be measured. */
#define IDAT_BYTES (64 * KIB)
/* Levels 1 to this one are the own encoder's (png_tiles.h), which searches only for runs of one
 * byte: filtered photographs and edges have almost no other repetitions. It takes a sixth of zlib's
 * time (`make bench-png`). */
#define OWN_LEVEL_MAX 3
/* At level 9, zlib may need 2.5 s per MiB. So the deadline is checked after each row of this size
 * or more, and else after CODEC_ROWS_PER_CHECK rows. */
#define WIDE_ROW_BYTES (4 * KIB)

static void sink_flush(struct png_state *state)
{
    enum status status = state->sink->flush(state->sink, state->used, state->error);
    if (status != STATUS_OK)
        codec_fail(state, status, "the PNG could not be written after %llu bytes",
                   (unsigned long long)state->sink->total);
    state->sink->total += state->used;
    state->used = 0;
}

static void sink_put(void *context, const uint8_t *bytes, size_t count)
{
    struct png_state *state = context;
    while (count > 0) {
        size_t part = state->sink->capacity - state->used;
        if (part > count)
            part = count;
        memcpy(state->sink->buffer + state->used, bytes, part);
        state->used += part;
        bytes += part;
        count -= part;
        if (state->used == state->sink->capacity)
            sink_flush(state);
    }
}

static void sink_write(png_structp png, png_bytep bytes, size_t count)
{
    sink_put(png_get_io_ptr(png), bytes, count);
}

static void sink_no_flush(png_structp png) /* uncovered: promise */
{
    (void)png; /* sink_put flushes full buffers, and write_rows the last one */
}

static bool is_own_level(const struct encoder_settings *settings)
{
    return settings->compression >= 1 && settings->compression <= OWN_LEVEL_MAX;
}

bool png_is_for_devices(const struct encoder_settings *settings)
{
    return is_own_level(settings) && settings->colors == 0 && settings->depth < 16;
}

/* Whether libpng would accept the profile; if not, the output gets none. libpng 1.6.47 and later
 * refuse to write an image with a bad profile; earlier versions leave the profile out. */
static bool can_write_profile(const uint8_t *icc, size_t bytes)
{
    enum { version_at = 8 };
    return codec_icc_is_rgb(icc, bytes) && (icc[version_at] < 4 || bytes % 4 == 0);
}

/* ---- the image header ---- */

/* Chooses a palette or fewer bits, if the request asks for it. */
static void open_samples(struct png_state *state, const struct image *src,
                         const struct encode_request *request)
{
    uint32_t colours = request->bilevel ? 0 : (uint32_t)request->encoder.colors;
    if (!request->bilevel && colours == 0)
        return;
    state->samples = png_samples_create(src->width, src->height, colours);
    if (state->samples == NULL)
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for the palette of a PNG");
    if (!png_samples_find(state->samples, src, request->deadline_ns))
        codec_fail(state, STATUS_TIMEOUT,
                   "the deadline for encoding passed before the palette was found");
}

/* Whether rows are filtered for zlib. Differences of indices mean nothing, and those of bytes with
 * several pixels little. Filters would hide the repetitions. */
static bool suits_filters(const struct png_state *state)
{
    return state->samples == NULL || (state->samples->is_gray && state->samples->depth == 8);
}

/* Whether the own encoder writes the rows. Indices of a palette need zlib's search for repetitions.
 * With 1 bit per pixel, after otsu, files of the own encoder are a sixth smaller than those of zlib
 * at level 3, and take a fifth of the time (means of photographs and drawings). */
static bool suits_own(const struct png_state *state, const struct encoder_settings *settings)
{
    return is_own_level(settings) && (suits_filters(state) || state->samples->depth == 1);
}

static void set_palette(struct png_state *state)
{
    const struct png_palette_entries *entries = state->samples->entries;
    png_color colours[PNG_COLOURS_MAX];
    png_byte alphas[PNG_COLOURS_MAX];
    for (uint32_t i = 0; i < entries->count; i++) {
        const uint8_t *rgba = entries->rgba[i];
        colours[i] = (png_color){rgba[0], rgba[1], rgba[2]};
        alphas[i] = rgba[3];
    }
    png_set_PLTE(state->png, state->info, colours, (int)entries->count);
    if (entries->with_alpha > 0)
        png_set_tRNS(state->png, state->info, alphas, (int)entries->with_alpha, NULL);
    png_set_check_for_invalid_index(state->png, 0); /* they are valid */
}

static void set_header(struct png_state *state, const struct image *src)
{
    static const int types[] = {[1] = PNG_COLOR_TYPE_GRAY, [3] = PNG_COLOR_TYPE_RGB,
                                [4] = PNG_COLOR_TYPE_RGB_ALPHA};
    const struct png_samples *samples = state->samples;
    int depth = image_is_deep(src->channels) ? 16 : samples == NULL ? 8 : (int)samples->depth;
    int type = samples == NULL    ? types[image_samples(src->channels)]
               : samples->is_gray ? PNG_COLOR_TYPE_GRAY
                                  : PNG_COLOR_TYPE_PALETTE;
    png_set_IHDR(state->png, state->info, src->width, src->height, depth, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (type == PNG_COLOR_TYPE_PALETTE)
        set_palette(state);
}

static void open_writer(struct png_state *state, const struct image *src,
                        const struct encode_request *request)
{
    state->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, state, png_on_error,
                                           png_on_warning, state, png_allocate, NULL);
    state->info = state->png != NULL ? png_create_info_struct(state->png) : NULL;
    if (state->info == NULL)
        png_refuse_library(state);
    png_structp png = state->png;
    png_set_user_limits(png, SIDE_CEILING, SIDE_CEILING);
    png_set_write_fn(png, state, sink_write, sink_no_flush);
    png_set_compression_level(png, request->encoder.compression);
    png_set_filter(png, PNG_FILTER_TYPE_BASE,
                   request->encoder.compression == 0 || !suits_filters(state) ? PNG_FILTER_NONE
                                                                              : PNG_ALL_FILTERS);
    png_set_compression_buffer_size(png, IDAT_BYTES);
    set_header(state, src);
    png_set_benign_errors(png, 1);
    struct image_density density;
    if (codec_convert_density(&request->density, DENSITY_METRE, PNG_UINT_31_MAX, &density))
        png_set_pHYs(png, state->info, density.x, density.y, PNG_RESOLUTION_METER);
    if (request->icc != NULL && image_samples(src->channels) >= 3 &&
        can_write_profile(request->icc, request->icc_bytes))
        png_set_iCCP(png, state->info, "icc", PNG_COMPRESSION_TYPE_BASE, request->icc,
                     (png_uint_32)request->icc_bytes);
}

/* ---- metadata ---- */

/* Writes EXIF and XMP. Call it before the pixels are written: EXIF must precede them. */
static void write_metadata(struct png_state *state, const struct encode_request *request)
{
    static const png_byte exif[] = "eXIf", text[] = "iTXt";
    /* The name, then zero bytes: no compression, no language, no translated name. */
    static const png_byte head[sizeof PNG_XMP_NAME + 4] = PNG_XMP_NAME;
    if (request->exif != NULL)
        png_write_chunk(state->png, exif, request->exif, request->exif_bytes);
    if (request->xmp == NULL)
        return;
    png_write_chunk_start(state->png, text, (png_uint_32)(sizeof head + request->xmp_bytes));
    png_write_chunk_data(state->png, head, sizeof head);
    png_write_chunk_data(state->png, request->xmp, request->xmp_bytes);
    png_write_chunk_end(state->png);
}

/* ---- pixels ---- */

static bool is_late(const struct png_state *state, const struct image *src, uint64_t deadline_ns)
{
    bool checks = src->stride >= WIDE_ROW_BYTES || state->rows_done % CODEC_ROWS_PER_CHECK == 0;
    return checks && codec_late(deadline_ns);
}

/* Returns a row of a deep image with its samples in the order of bytes of a PNG. */
static const uint8_t *swap_row(struct png_state *state, const uint8_t *row, size_t samples)
{
    const uint16_t *from = (const uint16_t *)(const void *)row;
    uint16_t *to = (uint16_t *)(void *)state->swapped;
    for (size_t i = 0; i < samples; i++)
        to[i] = htobe16(from[i]);
    return state->swapped;
}

static void write_rows(struct png_state *state, const struct image *src,
                       const struct encode_request *request)
{
    static const png_byte end[] = "IEND";
    state->rows = src->height;
    for (; state->rows_done < src->height; state->rows_done++) {
        const uint8_t *row = src->pixels + state->rows_done * src->stride;
        if (state->samples != NULL)
            row = png_samples_row(state->samples, row);
        if (state->swapped != NULL)
            row = swap_row(state, row, (size_t)src->width * image_samples(src->channels));
        if (state->writer != NULL)
            png_writer_row(state->writer, row);
        else
            png_write_row(state->png, row);
        if (is_late(state, src, request->deadline_ns))
            codec_fail(state, STATUS_TIMEOUT,
                       "the deadline for encoding passed after %u of %u rows",
                       state->rows_done + 1, state->rows);
    }
    if (state->writer != NULL)
        png_write_chunk(state->png, end, NULL, 0);
    else
        png_write_end(state->png, state->info);
    if (state->used > 0)
        sink_flush(state);
    png_check_memory(state);
}

static void open_rows(struct png_state *state, const struct image *src,
                      const struct encode_request *request)
{
    const struct png_samples *samples = state->samples;
    if (image_is_deep(src->channels)) {
        state->swapped = malloc(src->stride);
        if (state->swapped == NULL)
            codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for a row of a PNG");
    }
    if (!suits_own(state, &request->encoder))
        return;
    /* The units of filters are bytes if samples have fewer bits. */
    state->writer =
        samples == NULL
            ? png_writer_open(src->width, src->height, src->channels, NULL, sink_put, state)
            : png_writer_open((uint32_t)samples->row_bytes, src->height, 1, NULL, sink_put, state);
    if (state->writer == NULL)
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory to write a PNG");
}

enum status png_encode(void *opaque, const struct image *src,
                       const struct encode_request *request, struct codec_sink *sink,
                       struct error *error)
{
    struct png_state *state = opaque;
    *state = (struct png_state){.error = error, .encoding = true, .sink = sink};
    if (setjmp(state->jump) == 0) {
        open_samples(state, src, request);
        open_writer(state, src, request);
        open_rows(state, src, request);
        png_write_info(state->png, state->info);
        write_metadata(state, request);
        write_rows(state, src, request);
    }
    png_writer_close(state->writer);
    png_samples_destroy(state->samples);
    free(state->swapped);
    png_destroy_write_struct(&state->png, &state->info);
    return error->status;
}

/* Returns an upper bound for pixels that cannot be compressed. deflate adds 5 bytes per 16 KiB, and
 * each IDAT chunk PNG_CHUNK_OVERHEAD: together less than 1/1024 of the data. The own encoder adds
 * less: png_writer_most. */
size_t png_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                         const struct encoder_settings *settings)
{
    size_t rows = ((size_t)width * (settings->colors > 0 ? 1 : channels) + 1) * height;
    return rows + rows / 1024;
}

size_t png_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                         const struct encoder_settings *settings)
{
    (void)channels;
    return settings->colors > 0 ? png_samples_bytes(width, height, (uint32_t)settings->colors) : 0;
}
