/* jpeg_encode.c - encodes pixels as a JPEG with libjpeg. */
#include "codecs/jpeg/header.h"
#include "codecs/jpeg/jpeg_state.h"

#include <assert.h>
#include <string.h>

static void sink_start(j_compress_ptr writer)
{
    struct jpeg_state *state = writer->client_data;
    state->destination.next_output_byte = state->sink->buffer;
    state->destination.free_in_buffer = state->sink->capacity;
}

static void sink_flush(struct jpeg_state *state, size_t used)
{
    enum status status = state->sink->flush(state->sink, used, state->error);
    if (status != STATUS_OK)
        codec_fail(state, status, "the JPEG could not be written after %llu bytes",
                   (unsigned long long)state->sink->total);
    state->sink->total += used;
}

/* libjpeg calls this when the buffer is full. free_in_buffer has no meaning then. */
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
    const struct encoder_settings *settings = &state->request->encoder;
    jpeg_create_compress(writer);
    state->destination = (struct jpeg_destination_mgr){.init_destination = sink_start,
                                                       .empty_output_buffer = sink_empty,
                                                       .term_destination = sink_end};
    writer->dest = &state->destination;
    writer->progress = &state->progress;
    writer->image_width = src->width;
    writer->image_height = src->height;
    writer->input_components = (int)src->channels;
    writer->in_color_space = src->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(writer);
    writer->raw_data_in = src->channels == 1;
    writer->dct_method = JDCT_ISLOW;
    /* TRUE: at low qualities, quantisers are limited to 8 bits, as baseline decoders demand. */
    jpeg_set_quality(writer, settings->quality, TRUE);
    writer->restart_interval = state->request->restart_interval;
    if (settings->subsampling == SUBSAMPLING_GRAY)
        jpeg_set_colorspace(writer, JCS_GRAYSCALE);
    struct image_density density;
    if (codec_convert_density(&state->request->density,
                              state->request->density.unit == DENSITY_CM ? DENSITY_CM
                                                                         : DENSITY_INCH,
                              UINT16_MAX, &density)) {
        writer->density_unit = (UINT8)density.unit;
        writer->X_density = (UINT16)density.x;
        writer->Y_density = (UINT16)density.y;
    }
    if (writer->num_components == 3) {
        struct jpeg_sampling sampling = jpeg_sampling_of(settings->subsampling);
        writer->comp_info[0].h_samp_factor = sampling.h;
        writer->comp_info[0].v_samp_factor = sampling.v;
    }
    writer->optimize_coding = settings->optimize;
    if (settings->progressive)
        jpeg_simple_progression(writer);
}

/* Passes gray rows directly to the DCT (raw_data_in). Otherwise libjpeg would first copy each
 * pixel. Repeats the last pixel of a row and the last row to fill whole blocks, as libjpeg does. */
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
        JSAMPROW rows[JPEG_ROWS_PER_CALL];
        JDIMENSION left = writer->image_height - writer->next_scanline;
        JDIMENSION count = left < JPEG_ROWS_PER_CALL ? left : JPEG_ROWS_PER_CALL;
        for (JDIMENSION i = 0; i < count; i++)
            rows[i] = src->pixels + (writer->next_scanline + i) * src->stride;
        jpeg_write_scanlines(writer, rows, count);
    }
}

static void write_segment(struct jpeg_compress_struct *writer, const char *name, size_t name_bytes,
                          const uint8_t *bytes, size_t length)
{
    if (bytes == NULL)
        return;
    jpeg_write_m_header(writer, JPEG_MARKER_EXIF, (unsigned)(name_bytes + length));
    for (size_t i = 0; i < name_bytes; i++)
        jpeg_write_m_byte(writer, name[i]);
    for (size_t i = 0; i < length; i++)
        jpeg_write_m_byte(writer, bytes[i]);
}

/* EXIF is written first and the profile last, because readers of EXIF look only at the first
 * segments. */
static void write_metadata(struct jpeg_compress_struct *writer,
                           const struct encode_request *request)
{
    assert(request->exif_bytes <= EXIF_KEPT_BYTES_MAX && request->xmp_bytes <= XMP_BYTES_MAX);
    write_segment(writer, JPEG_EXIF_NAME, JPEG_EXIF_NAME_BYTES, request->exif,
                  request->exif_bytes);
    write_segment(writer, JPEG_XMP_NAME, JPEG_XMP_NAME_BYTES, request->xmp, request->xmp_bytes);
    if (request->icc != NULL && writer->num_components == 3)
        jpeg_write_icc_profile(writer, request->icc, (unsigned)request->icc_bytes);
}

enum status jpeg_encode(void *opaque, const struct image *src,
                        const struct encode_request *request, struct codec_sink *sink,
                        struct error *error)
{
    struct jpeg_state *state = opaque;
    memset(&state->writer, 0, sizeof state->writer);
    state->limits = NULL;
    state->request = request;
    state->sink = sink;
    jpeg_begin(state, (j_common_ptr)&state->writer, error);
    if (setjmp(state->jump) == 0) {
        open_writer(state, src);
        jpeg_start_compress(&state->writer, TRUE);
        write_metadata(&state->writer, request);
        if (state->writer.raw_data_in)
            write_gray_rows(&state->writer, src);
        else
            write_rows(&state->writer, src);
        jpeg_finish_compress(&state->writer);
    }
    jpeg_destroy_compress(&state->writer);
    return error->status;
}
