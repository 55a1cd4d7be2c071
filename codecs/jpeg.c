/*
 * jpeg.c - JPEG by libjpeg-turbo's libjpeg API.
 *
 * setjmp stands only in the three functions of the codec's row; what must survive a longjmp lives
 * in jpeg_state, never in a local. Bits are those of djpeg and cjpeg: slow-integer DCT, fancy
 * upsampling, 4:2:0.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* behind jpeglib.h, whose configuration decides on the numbers of its codes */

#include "codecs/codec_impl.h"
#include "codecs/exif.h"
#include "codecs/jpeg_coefficients.h"
#include "codecs/jpeg_scans.h"

#define MARKER_EXIF (JPEG_APP0 + 1)
#define MARKER_ICC  (JPEG_APP0 + 2)
/* Rows a call that libjpeg may give or take at once; it works in groups of at most 4. */
#define ROWS_PER_CALL 16
/* What libjpeg may allocate beyond codec_bytes before an array would go to a file, which would
 * be an error: room for rounding, since the estimate is above the need already. */
#define MEMORY_MARGIN (1 * MIB)

struct jpeg_state {
    jmp_buf jump;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr source;
    struct jpeg_destination_mgr destination;
    union {
        struct jpeg_decompress_struct reader;
        struct jpeg_compress_struct writer;
    };
    struct error *error;
    const struct codec_limits *limits; /* NULL while encoding */
    const struct encode_request *request;
    struct codec_sink *sink;
    struct jpeg_coefficients coefficients;
    struct jpeg_scans scans; /* what of the source is read; none: all */
    size_t next_span;
    uint64_t source_bytes;
    const uint8_t *rest; /* what the source has not been given yet */
    size_t rest_bytes;
    uint64_t kept_bytes;
    uint32_t warnings, segments, monitor_calls;
};

/* ---- errors ---- */

static _Noreturn void leave(struct jpeg_state *state)
{
    longjmp(state->jump, 1);
}

static enum status status_of(const struct jpeg_state *state, int code)
{
    if (code == JERR_OUT_OF_MEMORY)
        return STATUS_OUT_OF_MEMORY;
    if (state->limits == NULL)
        return STATUS_ENCODE_FAILED;
    switch (code) {
    case JERR_IMAGE_TOO_BIG:
        return STATUS_IMAGE_TOO_LARGE;
    case JERR_NO_BACKING_STORE: /* arrays larger than the header promised */
        return STATUS_DECODE_LIMIT;
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_COMPONENT_COUNT:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
        return STATUS_UNSUPPORTED_FORMAT;
    default:
        return STATUS_DECODE_FAILED;
    }
}

/* Where in the picture the decoder is, for messages. */
static void say_where(const struct jpeg_state *state, char *text, size_t size)
{
    const struct jpeg_decompress_struct *reader = &state->reader;
    if (reader->output_height == 0)
        snprintf(text, size, "in its header");
    else if (reader->output_scanline == 0 && reader->input_scan_number > 1)
        snprintf(text, size, "in scan %d", reader->input_scan_number);
    else
        snprintf(text, size, "after %u of %u rows", reader->output_scanline,
                 reader->output_height);
}

static _Noreturn void on_error(j_common_ptr common)
{
    struct jpeg_state *state = common->client_data;
    enum status status = status_of(state, common->err->msg_code);
    char text[JMSG_LENGTH_MAX], where[64];
    common->err->format_message(common, text);
    if (state->limits == NULL) {
        error_set(state->error, status, "the JPEG cannot be written: %s", text);
    } else {
        say_where(state, where, sizeof where);
        error_set(state->error, status, "the JPEG cannot be decoded, %s: %s", where, text);
    }
    leave(state);
}

/* Warnings that mean that pixels are lost. The others are about bytes that no pixel depends on:
 * extra bytes before a marker, unknown versions, a broken profile. */
static bool loses_pixels(int code)
{
    switch (code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
        return true;
    default:
        return false;
    }
}

/* Segments of these kinds are kept from here on, or no longer. */
static void keep_segments(struct jpeg_state *state, bool keep)
{
    unsigned bytes_each = keep ? 0xFFFF : 0;
    jpeg_save_markers(&state->reader, MARKER_EXIF, bytes_each);
    jpeg_save_markers(&state->reader, MARKER_ICC, bytes_each);
}

static void count_segment(struct jpeg_state *state, int marker, int bytes)
{
    if (++state->segments > JPEG_SEGMENTS_MAX) {
        error_set(state->error, STATUS_DECODE_LIMIT,
                  "the JPEG has more than %d APPn and COM segments, the most that are allowed",
                  JPEG_SEGMENTS_MAX);
        leave(state);
    }
    if (marker != MARKER_EXIF && marker != MARKER_ICC)
        return;
    state->kept_bytes += (uint64_t)bytes;
    if (state->kept_bytes > JPEG_KEPT_BYTES_MAX)
        keep_segments(state, false);
}

static void on_message(j_common_ptr common, int level)
{
    struct jpeg_state *state = common->client_data;
    /* The only call that libjpeg makes for each APPn and COM segment while it reads a header, but
     * for those APP0 and APP14 that it looks into: it keeps none of them. */
    if (level >= 0 && state->limits != NULL && common->err->msg_code == JTRC_MISC_MARKER)
        count_segment(state, common->err->msg_parm.i[0], common->err->msg_parm.i[1]);
    if (level >= 0 || state->limits == NULL) /* traces; the encoder has no warnings */
        return;
    common->err->num_warnings++;
    if (loses_pixels(common->err->msg_code)) {
        if (!state->limits->lenient)
            on_error(common);
        return;
    }
    if (++state->warnings > state->limits->jpeg_warnings_max) {
        error_set(state->error, STATUS_DECODE_LIMIT,
                  "the JPEG gives more than %u warnings, the most that are allowed",
                  state->limits->jpeg_warnings_max);
        leave(state);
    }
}

static void on_output(j_common_ptr common)
{
    (void)common; /* a daemon's stderr is its log; libjpeg has nothing to say there */
}

static void stop_late_decode(struct jpeg_state *state)
{
    char where[64];
    if (!codec_late(state->limits->deadline_ns))
        return;
    say_where(state, where, sizeof where);
    error_set(state->error, STATUS_DECODE_LIMIT, "the time for decoding was over %s", where);
    leave(state);
}

static void stop_late_encode(struct jpeg_state *state)
{
    if (!codec_late(state->request->deadline_ns))
        return;
    error_set(state->error, STATUS_TIMEOUT, "the time for encoding was over after %u of %u rows",
              state->writer.next_scanline, state->writer.image_height);
    leave(state);
}

/* Called by libjpeg for every group of rows of every scan, also where one call of ours works
 * through a whole progressive file. */
static void on_progress(j_common_ptr common)
{
    struct jpeg_state *state = common->client_data;
    if (state->limits != NULL &&
        (uint32_t)state->reader.input_scan_number > state->limits->jpeg_scans_max) {
        error_set(state->error, STATUS_DECODE_LIMIT,
                  "the JPEG has more than %u scans, the most that are allowed",
                  state->limits->jpeg_scans_max);
        leave(state);
    }
    if (++state->monitor_calls % CODEC_ROWS_PER_CHECK != 0)
        return;
    if (state->limits != NULL)
        stop_late_decode(state);
    else
        stop_late_encode(state);
}

static void begin(struct jpeg_state *state, j_common_ptr common, struct error *error)
{
    state->error = error;
    state->warnings = 0;
    state->segments = 0;
    state->kept_bytes = 0;
    state->monitor_calls = 0;
    common->err = jpeg_std_error(&state->errors);
    state->errors.error_exit = on_error;
    state->errors.emit_message = on_message;
    state->errors.output_message = on_output;
    state->progress.progress_monitor = on_progress;
    common->client_data = state;
}

/* ---- the source: one block of memory, given in pieces ---- */

static void source_start(j_decompress_ptr reader)
{
    (void)reader;
}

/* false: the file, or what is read of it, is at its end. */
static bool give_piece(struct jpeg_state *state)
{
    if (state->rest_bytes == 0 && state->next_span < state->scans.count) {
        const struct jpeg_span *span = &state->scans.spans[state->next_span++];
        state->rest = span->bytes;
        state->rest_bytes = span->length;
    }
    size_t count =
        state->rest_bytes < CODEC_BYTES_PER_CHECK ? state->rest_bytes : CODEC_BYTES_PER_CHECK;
    state->source.next_input_byte = state->rest;
    state->source.bytes_in_buffer = count;
    state->rest += count;
    state->rest_bytes -= count;
    return count > 0;
}

/* The next piece; behind the last one, more bytes are wanted than the file has. */
static boolean source_fill(j_decompress_ptr reader)
{
    static const JOCTET end[] = {0xFF, JPEG_EOI};
    struct jpeg_state *state = reader->client_data;
    if (give_piece(state)) {
        stop_late_decode(state);
        return TRUE;
    }
    if (!state->limits->lenient) {
        char where[64];
        say_where(state, where, sizeof where);
        error_set(state->error, STATUS_DECODE_FAILED, "the JPEG's data ends %s (at byte %llu)",
                  where, (unsigned long long)state->source_bytes);
        leave(state);
    }
    WARNMS(reader, JWRN_JPEG_EOF);
    state->source.next_input_byte = end;
    state->source.bytes_in_buffer = sizeof end;
    return TRUE;
}

static void source_skip(j_decompress_ptr reader, long count)
{
    const struct jpeg_state *state = reader->client_data;
    struct jpeg_source_mgr *source = reader->src;
    if (count <= 0)
        return;
    while ((size_t)count > source->bytes_in_buffer) {
        bool beyond = state->rest_bytes == 0 && state->next_span == state->scans.count;
        count -= (long)source->bytes_in_buffer;
        source_fill(reader);
        if (beyond) /* what it has given now is an end marker, to be read */
            return;
    }
    source->next_input_byte += count;
    source->bytes_in_buffer -= (size_t)count;
}

static void source_end(j_decompress_ptr reader)
{
    (void)reader;
}

/* Only after setjmp(state->jump). */
static void open_reader(struct jpeg_state *state, const uint8_t *bytes, size_t length)
{
    jpeg_create_decompress(&state->reader);
    state->source = (struct jpeg_source_mgr){
        .init_source = source_start,
        .fill_input_buffer = source_fill,
        .skip_input_data = source_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = source_end,
    };
    state->source_bytes = length;
    state->scans.count = state->next_span = 0;
    state->rest = bytes;
    state->rest_bytes = length;
    give_piece(state);
    state->reader.src = &state->source;
    state->reader.progress = &state->progress;
}

/* ---- probe ---- */

/* Memory of the decoder, from above: two groups of rows of each component with its neighbours,
 * the full-width rows that upsampling makes, CMYK rows, and all coefficients (16 bits each)
 * where the file has several scans. */
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
        bytes += width * 4 * ROWS_PER_CALL;
    return (size_t)bytes;
}

static enum status read_colour(const struct jpeg_decompress_struct *reader,
                               struct image_info *info, struct error *error)
{
    if (reader->data_precision != 8)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "the JPEG has %d bits a sample; only 8 are supported",
                         reader->data_precision);
    switch (reader->jpeg_color_space) {
    case JCS_GRAYSCALE:
        info->channels = 1;
        return STATUS_OK;
    case JCS_YCbCr:
        info->ycc = true;
        info->channels = 3;
        return STATUS_OK;
    case JCS_RGB:
    case JCS_CMYK:
    case JCS_YCCK:
        info->channels = 3;
        return STATUS_OK;
    default:
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "the JPEG has %d components of an unknown colour space; gray, YCbCr, RGB, "
                         "CMYK and YCCK are supported",
                         reader->num_components);
    }
}

static int read_orientation(const struct jpeg_decompress_struct *reader)
{
    for (jpeg_saved_marker_ptr marker = reader->marker_list; marker != NULL; marker = marker->next)
        if (marker->marker == MARKER_EXIF && marker->data_length >= 6 &&
            memcmp(marker->data, "Exif\0\0", 6) == 0)
            return exif_orientation(marker->data, marker->data_length);
    return 1;
}

static void read_icc(struct jpeg_decompress_struct *reader, struct image_info *info)
{
    unsigned bytes = 0;
    if (info->channels < 3 || !jpeg_read_icc_profile(reader, &info->icc, &bytes))
        return;
    info->icc_bytes = bytes;
    if (!codec_icc_is_rgb(info->icc, info->icc_bytes))
        image_info_clear(info);
}

static enum status read_info(struct jpeg_state *state, struct image_info *info)
{
    struct jpeg_decompress_struct *reader = &state->reader;
    keep_segments(state, true);
    jpeg_read_header(reader, TRUE);
    info->width = reader->image_width;
    info->height = reader->image_height;
    info->scales = true;
    info->progressive = reader->progressive_mode;
    enum status status =
        codec_check_size("JPEG", info->width, info->height, state->limits, state->error);
    if (status == STATUS_OK)
        status = read_colour(reader, info, state->error);
    if (status != STATUS_OK)
        return status;
    info->orientation = read_orientation(reader);
    info->codec_bytes = decoder_bytes(reader);
    read_icc(reader, info);
    return STATUS_OK;
}

static enum status jpeg_probe(void *opaque, const uint8_t *bytes, size_t length,
                              const struct codec_limits *limits, struct image_info *info,
                              struct error *error)
{
    struct jpeg_state *state = opaque;
    memset(&state->reader, 0, sizeof state->reader);
    state->limits = limits;
    begin(state, (j_common_ptr)&state->reader, error);
    if (setjmp(state->jump) != 0) {
        jpeg_destroy_decompress(&state->reader);
        return error->status;
    }
    open_reader(state, bytes, length);
    enum status status = read_info(state, info);
    jpeg_destroy_decompress(&state->reader);
    return status;
}

/* ---- decode ---- */

static void read_rows(struct jpeg_decompress_struct *reader, const struct decode_request *request,
                      const struct image *dst)
{
    while (reader->output_scanline < reader->output_height) {
        JSAMPROW rows[ROWS_PER_CALL];
        JDIMENSION left = reader->output_height - reader->output_scanline;
        JDIMENSION count = left < ROWS_PER_CALL ? left : ROWS_PER_CALL;
        for (JDIMENSION i = 0; i < count; i++)
            rows[i] = dst->pixels + (reader->output_scanline + i) * dst->stride;
        jpeg_read_scanlines(reader, rows, count);
        codec_tell_rows(request, reader->output_scanline);
    }
}

/* C*K/255 to the nearest (255 is odd, so there are no ties). */
static uint8_t cmyk_product(uint8_t ink, uint8_t black)
{
    return (uint8_t)((ink * black + 127) / 255);
}

/* Files with four components store inks inverted (255 = none), as Adobe's do; those few that do
 * not cannot be told apart by their markers, and other readers take them as inverted, too. */
static void read_cmyk_rows(struct jpeg_decompress_struct *reader,
                           const struct decode_request *request, const struct image *dst)
{
    JSAMPARRAY rows = reader->mem->alloc_sarray((j_common_ptr)reader, JPOOL_IMAGE,
                                                reader->output_width * 4, ROWS_PER_CALL);
    while (reader->output_scanline < reader->output_height) {
        JDIMENSION first = reader->output_scanline;
        JDIMENSION count = jpeg_read_scanlines(reader, rows, ROWS_PER_CALL);
        for (JDIMENSION i = 0; i < count; i++) {
            const uint8_t *from = rows[i];
            uint8_t *to = dst->pixels + (first + i) * dst->stride;
            for (uint32_t x = 0; x < dst->width; x++, from += 4, to += 3) {
                to[0] = cmyk_product(from[0], from[3]);
                to[1] = cmyk_product(from[1], from[3]);
                to[2] = cmyk_product(from[2], from[3]);
            }
        }
        codec_tell_rows(request, reader->output_scanline);
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

struct jpeg_coefficients *jpeg_coefficients_of(j_common_ptr common)
{
    struct jpeg_state *state = common->client_data;
    return &state->coefficients;
}

/* Passes over scans of which no pixel will be made. */
static void leave_out_scans(struct jpeg_state *state)
{
    struct jpeg_decompress_struct *reader = &state->reader;
    const uint8_t *next = state->source.next_input_byte;
    size_t length = state->source.bytes_in_buffer + state->rest_bytes;
    if (!jpeg_scans_choose(reader, next, length, state->limits, &state->scans))
        return;
    state->rest_bytes = 0;
    give_piece(state);
    /* It would guess what the scans that are left out say. */
    reader->do_block_smoothing = FALSE;
    for (int i = 1; i < reader->num_components; i++)
        state->coefficients.shares_rows[i] = reader->out_color_space == JCS_GRAYSCALE;
}

static enum status decode_rows(struct jpeg_state *state, const struct image_info *info,
                               const struct decode_request *request, const struct image *dst)
{
    struct jpeg_decompress_struct *reader = &state->reader;
    jpeg_read_header(reader, TRUE);
    if (reader->image_width != info->width || reader->image_height != info->height)
        return error_set(state->error, STATUS_INTERNAL,
                         "the JPEG is %u x %u pixels, but was %u x %u when it was probed",
                         reader->image_width, reader->image_height, info->width, info->height);
    bool cmyk = reader->num_components == 4;
    reader->out_color_space = output_space(reader, request, dst);
    reader->dct_method = JDCT_ISLOW;
    reader->scale_num = request->eighths ? request->eighths : DECODE_EIGHTHS;
    reader->scale_denom = DECODE_EIGHTHS;
    reader->mem->max_memory_to_use = (long)(info->codec_bytes + MEMORY_MARGIN);
    leave_out_scans(state);
    jpeg_start_decompress(reader);
    assert(reader->output_width == dst->width && reader->output_height == dst->height);
    if (cmyk && dst->channels == 3)
        read_cmyk_rows(reader, request, dst);
    else
        read_rows(reader, request, dst);
    jpeg_finish_decompress(reader); /* reads on to the end marker */
    return STATUS_OK;
}

static enum status jpeg_decode(void *opaque, const uint8_t *bytes, size_t length,
                               const struct image_info *info, const struct decode_request *request,
                               const struct codec_limits *limits, const struct image *dst,
                               struct error *error)
{
    struct jpeg_state *state = opaque;
    memset(&state->reader, 0, sizeof state->reader);
    state->limits = limits;
    begin(state, (j_common_ptr)&state->reader, error);
    if (setjmp(state->jump) != 0) {
        jpeg_destroy_decompress(&state->reader);
        jpeg_coefficients_free(&state->coefficients);
        return error->status;
    }
    open_reader(state, bytes, length);
    jpeg_coefficients_take_over(&state->coefficients, &state->reader);
    enum status status = decode_rows(state, info, request, dst);
    jpeg_destroy_decompress(&state->reader);
    jpeg_coefficients_free(&state->coefficients);
    return status;
}

/* ---- encode ---- */

static void sink_start(j_compress_ptr writer)
{
    struct jpeg_state *state = writer->client_data;
    state->destination.next_output_byte = state->sink->buffer;
    state->destination.free_in_buffer = state->sink->capacity;
}

static void sink_flush(struct jpeg_state *state, size_t used)
{
    enum status status = state->sink->flush(state->sink, used, state->error);
    if (status != STATUS_OK) {
        error_set(state->error, status, "the JPEG could not be written after %llu bytes",
                  (unsigned long long)state->sink->total);
        leave(state);
    }
    state->sink->total += used;
}

/* libjpeg calls this when the buffer is full, whatever free_in_buffer says. */
static boolean sink_empty(j_compress_ptr writer)
{
    struct jpeg_state *state = writer->client_data;
    sink_flush(state, state->sink->capacity);
    sink_start(writer);
    return TRUE;
}

static void sink_end(j_compress_ptr writer)
{
    struct jpeg_state *state = writer->client_data;
    size_t used = state->sink->capacity - state->destination.free_in_buffer;
    if (used > 0)
        sink_flush(state, used);
}

static void open_writer(struct jpeg_state *state, const struct image *src)
{
    struct jpeg_compress_struct *writer = &state->writer;
    jpeg_create_compress(writer);
    state->destination = (struct jpeg_destination_mgr){
        .init_destination = sink_start,
        .empty_output_buffer = sink_empty,
        .term_destination = sink_end,
    };
    writer->dest = &state->destination;
    writer->progress = &state->progress;
    writer->image_width = src->width;
    writer->image_height = src->height;
    writer->input_components = (int)src->channels;
    writer->in_color_space = src->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(writer);
    writer->raw_data_in = src->channels == 1;
    writer->dct_method = JDCT_ISLOW;
    /* TRUE keeps quantisers within 8 bits at low qualities, which baseline decoders need. */
    jpeg_set_quality(writer, state->request->quality, TRUE);
    if (state->request->progressive)
        jpeg_simple_progression(writer);
}

/* Gray goes into the DCT from where it lies; what libjpeg does before that for every caller would
 * copy it pixel by pixel. Past the right and the bottom edge the last pixel and the last row are
 * repeated up to a whole block, as libjpeg does. */
static void write_gray_rows(struct jpeg_compress_struct *writer, const struct image *src)
{
    JDIMENSION width = writer->image_width;
    JDIMENSION padded = (width + DCTSIZE - 1) / DCTSIZE * DCTSIZE;
    JSAMPROW rows[DCTSIZE];
    JSAMPARRAY components[] = {rows}, lines = NULL;
    if (padded != width)
        lines = writer->mem->alloc_sarray((j_common_ptr)writer, JPOOL_IMAGE, padded, DCTSIZE);
    while (writer->next_scanline < writer->image_height) {
        for (JDIMENSION i = 0; i < DCTSIZE; i++) {
            JDIMENSION y = writer->next_scanline + i, last = writer->image_height - 1;
            rows[i] = src->pixels + (y < last ? y : last) * src->stride;
            if (padded == width)
                continue;
            memcpy(lines[i], rows[i], width);
            memset(lines[i] + width, rows[i][width - 1], padded - width);
            rows[i] = lines[i];
        }
        jpeg_write_raw_data(writer, components, DCTSIZE);
    }
}

static void write_rows(struct jpeg_compress_struct *writer, const struct image *src)
{
    while (writer->next_scanline < writer->image_height) {
        JSAMPROW rows[ROWS_PER_CALL];
        JDIMENSION count = writer->image_height - writer->next_scanline;
        if (count > ROWS_PER_CALL)
            count = ROWS_PER_CALL;
        for (JDIMENSION i = 0; i < count; i++)
            rows[i] = src->pixels + (writer->next_scanline + i) * src->stride;
        jpeg_write_scanlines(writer, rows, count);
    }
}

static enum status jpeg_encode(void *opaque, const struct image *src,
                               const struct encode_request *request, struct codec_sink *sink,
                               struct error *error)
{
    struct jpeg_state *state = opaque;
    memset(&state->writer, 0, sizeof state->writer);
    state->limits = NULL;
    state->request = request;
    state->sink = sink;
    begin(state, (j_common_ptr)&state->writer, error);
    if (setjmp(state->jump) != 0) {
        jpeg_destroy_compress(&state->writer);
        return error->status;
    }
    open_writer(state, src);
    jpeg_start_compress(&state->writer, TRUE);
    if (request->icc != NULL && src->channels == 3)
        jpeg_write_icc_profile(&state->writer, request->icc, (unsigned)request->icc_bytes);
    if (state->writer.raw_data_in)
        write_gray_rows(&state->writer, src);
    else
        write_rows(&state->writer, src);
    jpeg_finish_compress(&state->writer);
    jpeg_destroy_compress(&state->writer);
    return STATUS_OK;
}

static const char *const suffixes[] = {".jpg", ".jpeg", NULL};

const struct codec codec_jpeg = {
    .name = "jpeg",
    .suffixes = suffixes,
    .magic = "\xFF\xD8\xFF",
    .magic_bytes = 3,
    .has_alpha = false,
    .state_bytes = sizeof(struct jpeg_state),
    .probe = jpeg_probe,
    .decode = jpeg_decode,
    .encode = jpeg_encode,
};
