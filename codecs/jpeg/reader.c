/* reader.c - passes the bytes of a file to libjpeg. The file is one block of memory. It is passed
 * in pieces, so that the deadline can be checked before each piece. */
#include "codecs/jpeg/jpeg_state.h"

#include <jerror.h> /* must follow jpeglib.h, whose configuration sets the error numbers */

static void source_ignore(j_decompress_ptr reader)
{
    (void)reader;
}

bool jpeg_give_piece(struct jpeg_state *state)
{
    size_t count =
        state->rest_bytes < CODEC_BYTES_PER_CHECK ? state->rest_bytes : CODEC_BYTES_PER_CHECK;
    state->source.next_input_byte = state->rest;
    state->source.bytes_in_buffer = count;
    state->rest += count;
    state->rest_bytes -= count;
    return count > 0;
}

static boolean source_fill(j_decompress_ptr reader)
{
    static const JOCTET end[] = {0xFF, JPEG_EOI};
    struct jpeg_state *state = reader->client_data;
    if (jpeg_give_piece(state)) {
        jpeg_stop_late_decode(state);
        return TRUE;
    }
    /* The file has ended, but libjpeg asks for more bytes, perhaps more than it needs. It gets an
     * end marker: then it warns if rows are missing, and else succeeds. */
    state->ends_early = true;
    if (state->limits->lenient)
        WARNMS(reader, JWRN_JPEG_EOF);
    else if (reader->output_height == 0)
        jpeg_fail_at_end(state, "");
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
        bool beyond = state->rest_bytes == 0;
        count -= (long)source->bytes_in_buffer;
        source_fill(reader);
        if (beyond) /* source_fill has given libjpeg an end marker, which it must read */
            return;
    }
    source->next_input_byte += count;
    source->bytes_in_buffer -= (size_t)count;
}

void jpeg_open_reader(struct jpeg_state *state, const uint8_t *bytes, size_t length)
{
    jpeg_create_decompress(&state->reader);
    state->source = (struct jpeg_source_mgr){
        .init_source = source_ignore, .fill_input_buffer = source_fill,
        .skip_input_data = source_skip, .resync_to_restart = jpeg_resync_to_restart,
        .term_source = source_ignore};
    state->source_bytes = length;
    state->ends_early = false;
    state->rest = bytes;
    state->rest_bytes = length;
    jpeg_give_piece(state);
    state->reader.src = &state->source;
    state->reader.progress = &state->progress;
}
