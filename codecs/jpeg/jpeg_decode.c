/* jpeg_decode.c - reads the header of a JPEG and decodes its pixels. */
#include "codecs/jpeg/row_decoder.h"

#include <assert.h>
#include <string.h>

/* libjpeg may allocate info->codec_bytes and this margin, which allows for rounding. If a file
 * needed more, libjpeg would want a temporary file, which is an error here. */
#define MEMORY_MARGIN (1 * MIB)

/* ---- probe ---- */

/* Returns an upper bound on the memory of libjpeg: for each component two rows of blocks and the
 * rows of upsampling, then rows of CMYK, and all coefficients if the file has several scans. */
static size_t decoder_bytes(struct jpeg_decompress_struct *reader)
{
    enum { fixed_bytes = 256 * 1024, coefficient_bytes = 2, row_groups = 2 };
    uint64_t bytes = fixed_bytes;
    bool whole = jpeg_has_multiple_scans(reader);
    uint64_t width = (uint64_t)reader->image_width + (uint64_t)reader->max_h_samp_factor * DCTSIZE;
    for (int i = 0; i < reader->num_components; i++) {
        const jpeg_component_info *component = &reader->comp_info[i];
        uint64_t h = (uint64_t)component->h_samp_factor, v = (uint64_t)component->v_samp_factor;
        uint64_t across = component->width_in_blocks + h, down = component->height_in_blocks + v;
        bytes += across * DCTSIZE * v * DCTSIZE * row_groups;
        bytes += width * (uint64_t)reader->max_v_samp_factor * row_groups;
        bytes += across * v * (DCTSIZE2 * coefficient_bytes + sizeof(JBLOCKROW));
        if (whole)
            bytes += across * down * DCTSIZE2 * coefficient_bytes + down * sizeof(JBLOCKROW);
    }
    if (reader->num_components == 4)
        bytes += width * 4 * JPEG_ROWS_PER_CALL;
    return (size_t)bytes;
}

static enum status read_colour(const struct jpeg_decompress_struct *reader,
                               struct image_info *info, struct error *error)
{
    if (reader->data_precision != 8) /* uncovered: net (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "the JPEG has %d bits per sample; only 8 are supported",
                         reader->data_precision);
    switch (reader->jpeg_color_space) {
    case JCS_GRAYSCALE:
        info->channels = 1;
        return STATUS_OK;
    case JCS_YCbCr:
        info->ycc = true;
        info->channels = 3;
        return STATUS_OK;
    case JCS_CMYK:
    case JCS_YCCK:
        info->cmyk = true;
        info->channels = 3;
        return STATUS_OK;
    case JCS_RGB:
        info->channels = 3;
        return STATUS_OK;
    default:
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "the JPEG has %d components of an unknown colour space; gray, YCbCr, RGB, "
                         "CMYK and YCCK are supported",
                         reader->num_components);
    }
}

static void read_info(struct jpeg_state *state, struct image_info *info)
{
    struct jpeg_decompress_struct *reader = &state->reader;
    jpeg_note_segments(state);
    jpeg_read_header(reader, TRUE);
    info->width = reader->image_width;
    info->height = reader->image_height;
    info->scales = true;
    info->progressive = reader->progressive_mode;
    if (codec_check_size("JPEG", info->width, info->height, state->limits, state->error) !=
            STATUS_OK ||
        read_colour(reader, info, state->error) != STATUS_OK)
        return;
    info->codec_bytes = decoder_bytes(reader);
    jpeg_read_metadata(state, info);
}

enum status jpeg_probe(void *opaque, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct image_info *info,
                       struct error *error)
{
    struct jpeg_state *state = opaque;
    const struct jpeg_known_header *known = jpeg_find_known(state, bytes, length);
    if (known) {
        info->width = known->info.width; /* the sides of an image that is too large are reported */
        info->height = known->info.height;
        if (codec_check_size("JPEG", info->width, info->height, limits, error) != STATUS_OK)
            return error->status;
        if (jpeg_copy_info(known, info))
            return STATUS_OK;
    }
    memset(&state->reader, 0, sizeof state->reader);
    state->limits = limits;
    jpeg_begin(state, (j_common_ptr)&state->reader, error);
    if (setjmp(state->jump) == 0) {
        jpeg_open_reader(state, bytes, length);
        read_info(state, info);
    }
    jpeg_destroy_decompress(&state->reader);
    if (error->status == STATUS_OK)
        jpeg_keep_header(state, bytes, length, info);
    return error->status;
}

/* ---- decode ---- */

static void read_rows(struct jpeg_decompress_struct *reader, const struct image *dst)
{
    while (reader->output_scanline < reader->output_height) {
        JSAMPROW rows[JPEG_ROWS_PER_CALL];
        JDIMENSION left = reader->output_height - reader->output_scanline;
        JDIMENSION count = left < JPEG_ROWS_PER_CALL ? left : JPEG_ROWS_PER_CALL;
        for (JDIMENSION i = 0; i < count; i++)
            rows[i] = dst->pixels + (reader->output_scanline + i) * dst->stride;
        jpeg_read_scanlines(reader, rows, count);
    }
}

/* Returns ink * black / 255, rounded to nearest. 255 is odd, so no value is halfway. */
static uint8_t cmyk_product(uint8_t ink, uint8_t black)
{
    return (uint8_t)((ink * black + 127) / 255);
}

/* Converts CMYK to RGB, row by row. The inks are taken as inverted (255 = no ink), as Adobe's
 * programs store them. In a few files they are not, but nothing in such a file says so, and other
 * readers also treat them as inverted. */
static void read_cmyk_rows(struct jpeg_decompress_struct *reader, const struct image *dst)
{
    JSAMPARRAY rows = reader->mem->alloc_sarray((j_common_ptr)reader, JPOOL_IMAGE,
                                                reader->output_width * 4, JPEG_ROWS_PER_CALL);
    while (reader->output_scanline < reader->output_height) {
        JDIMENSION first = reader->output_scanline;
        JDIMENSION count = jpeg_read_scanlines(reader, rows, JPEG_ROWS_PER_CALL);
        for (JDIMENSION i = 0; i < count; i++) {
            const uint8_t *from = rows[i];
            uint8_t *to = dst->pixels + (first + i) * dst->stride;
            for (uint32_t x = 0; x < dst->width; x++, from += 4, to += 3) {
                to[0] = cmyk_product(from[0], from[3]);
                to[1] = cmyk_product(from[1], from[3]);
                to[2] = cmyk_product(from[2], from[3]);
            }
        }
    }
}

static J_COLOR_SPACE output_space(const struct jpeg_decompress_struct *reader,
                                  const struct decode_request *request, const struct image *dst)
{
    if (dst->channels == 1)
        return JCS_GRAYSCALE;
    if (reader->num_components == 4)
        return JCS_CMYK;
    return request->as == DECODE_YCC ? JCS_YCbCr : JCS_RGB;
}

/* Takes the coefficients from a row decoder. The rest of the file is no concern of libjpeg's. */
static void decode_scans_by_row(struct jpeg_state *state, const uint8_t *bytes, size_t length)
{
    static const uint8_t end[] = {0xFF, JPEG_EOI};
    jpeg_row_decoder_take_over(state, bytes, length);
    state->rest = end;
    state->rest_bytes = sizeof end;
    jpeg_give_piece(state);
}

static void decode_rows(struct jpeg_state *state, const uint8_t *bytes, size_t length,
                        const struct image_info *info, const struct decode_request *request,
                        const struct image *dst)
{
    struct jpeg_decompress_struct *reader = &state->reader;
    jpeg_read_header(reader, TRUE);
    if (reader->image_width != info->width || reader->image_height != info->height)
        codec_fail(state, STATUS_INTERNAL, /* uncovered: net */
                   "the JPEG is %u x %u pixels, but was %u x %u when it was probed",
                   reader->image_width, reader->image_height, info->width, info->height);
    bool cmyk = reader->num_components == 4;
    reader->out_color_space = output_space(reader, request, dst);
    reader->dct_method = JDCT_ISLOW;
    reader->scale_num = request->eighths ? request->eighths : DECODE_EIGHTHS;
    reader->scale_denom = DECODE_EIGHTHS;
    reader->mem->max_memory_to_use = (long)(info->codec_bytes + MEMORY_MARGIN);
    if (state->by_rows)
        decode_scans_by_row(state, bytes, length);
    jpeg_start_decompress(reader);
    assert(reader->output_width == dst->width && reader->output_height == dst->height);
    if (cmyk && request->as != DECODE_CMYK)
        read_cmyk_rows(reader, dst);
    else
        read_rows(reader, dst);
    jpeg_finish_decompress(reader); /* reads the file up to its end marker */
    if (state->ends_early && !state->limits->lenient)
        jpeg_fail_at_end(state, ": it has no end marker");
}

static enum status decode_once(struct jpeg_state *state, const uint8_t *bytes, size_t length,
                               const struct image_info *info, const struct decode_request *request,
                               const struct image *dst, struct error *error)
{
    memset(&state->reader, 0, sizeof state->reader);
    jpeg_begin(state, (j_common_ptr)&state->reader, error);
    if (setjmp(state->jump) == 0) {
        jpeg_open_reader(state, bytes, length);
        decode_rows(state, bytes, length, info, request, dst);
    }
    jpeg_destroy_decompress(&state->reader);
    return error->status;
}

enum status jpeg_decode(void *opaque, const uint8_t *bytes, size_t length,
                        const struct image_info *info, const struct decode_request *request,
                        const struct codec_limits *limits, const struct image *dst,
                        struct error *error)
{
    struct jpeg_state *state = opaque;
    state->limits = limits;
    state->by_rows = info->progressive && !state->by_libjpeg;
    enum status status = decode_once(state, bytes, length, info, request, dst, error);
    if (status == STATUS_DECODE_FAILED && state->by_rows) {
        /* The row decoder fails for unusual and damaged files. libjpeg may decode them. */
        *error = (struct error){0};
        state->by_rows = false;
        status = decode_once(state, bytes, length, info, request, dst, error);
    }
    return status;
}
