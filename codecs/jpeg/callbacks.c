/* callbacks.c - functions that libjpeg calls: for errors and messages, and while it works. */
#include "codecs/jpeg/jpeg_state.h"

#include <jerror.h> /* must follow jpeglib.h, whose configuration sets the error numbers */

static enum status status_of(const struct jpeg_state *state, int code)
{
    if (code == JERR_OUT_OF_MEMORY)
        return STATUS_OUT_OF_MEMORY;
    if (state->limits == NULL)
        return STATUS_ENCODE_FAILED;
    switch (code) { /* uncovered: net (tests/coverage/reasons.txt) */
    case JERR_IMAGE_TOO_BIG:
        return STATUS_IMAGE_TOO_LARGE;
    case JERR_NO_BACKING_STORE: /* the file needs more memory than its header has announced */
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

/* The rows that were decoded. The caller has got fewer, because they are upsampled later. */
static uint32_t decoded_rows(const struct jpeg_decompress_struct *reader)
{
    uint64_t rows = (uint64_t)reader->input_iMCU_row * (unsigned)reader->max_v_samp_factor *
                    (unsigned)reader->min_DCT_scaled_size;
    return rows < reader->output_height ? (uint32_t)rows : reader->output_height;
}

const char *jpeg_position(const struct jpeg_state *state, char text[JPEG_POSITION_BYTES])
{
    const struct jpeg_decompress_struct *reader = &state->reader;
    if (reader->output_height == 0)
        return "in its header";
    if (reader->output_scanline == 0 && reader->input_scan_number > 1)
        snprintf(text, JPEG_POSITION_BYTES, "in scan %d", reader->input_scan_number);
    else
        snprintf(text, JPEG_POSITION_BYTES, "after %u of %u rows", decoded_rows(reader),
                 reader->output_height);
    return text;
}

_Noreturn void jpeg_fail_at_end(struct jpeg_state *state, const char *what)
{
    char text[JPEG_POSITION_BYTES];
    codec_fail(state, STATUS_DECODE_FAILED, "the JPEG's data ends %s (at byte %llu)%s",
               jpeg_position(state, text), (unsigned long long)state->source_bytes, what);
}

static _Noreturn void on_error(j_common_ptr common)
{
    struct jpeg_state *state = common->client_data;
    enum status status = status_of(state, common->err->msg_code);
    char text[JMSG_LENGTH_MAX], where[JPEG_POSITION_BYTES];
    common->err->format_message(common, text);
    if (state->limits == NULL)
        codec_fail(state, status, "the JPEG cannot be written: %s", text);
    codec_fail(state, status, "the JPEG cannot be decoded, %s: %s", jpeg_position(state, where),
               text);
}

/* Whether a warning means that pixels are lost. The other warnings are about bytes that do not
 * affect pixels: extra bytes before a marker, unknown versions, a broken profile. */
static bool loses_pixels(int code)
{
    return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
           code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION;
}

static void on_message(j_common_ptr common, int level)
{
    struct jpeg_state *state = common->client_data;
    /* With this message, libjpeg reports each APPn and COM segment that it skips. It does not
     * report an APP0 or APP14 that it parses. */
    if (level >= 0 && state->limits != NULL && common->err->msg_code == JTRC_MISC_MARKER)
        jpeg_count_segment(state);
    /* Encoders do not warn. A row decoder (row_decoder.h) reads all scans itself and gives
     * libjpeg only an end marker. libjpeg always warns about that. */
    if (level >= 0 || state->limits == NULL || state->row_decoder != NULL)
        return;
    common->err->num_warnings++;
    if (loses_pixels(common->err->msg_code)) {
        if (!state->limits->lenient && state->ends_early)
            jpeg_fail_at_end(state, "");
        if (!state->limits->lenient)
            on_error(common);
        return;
    }
    if (++state->warnings > state->limits->jpeg_warnings_max)
        codec_fail(state, STATUS_DECODE_LIMIT,
                   "the JPEG causes more than %u warnings, which is the limit",
                   state->limits->jpeg_warnings_max);
}

static void on_output(j_common_ptr common) /* uncovered: promise */
{
    (void)common; /* without this function, libjpeg would write to stderr, the daemon's log */
}

void jpeg_stop_late_decode(struct jpeg_state *state)
{
    char text[JPEG_POSITION_BYTES];
    if (codec_late(state->limits->deadline_ns))
        codec_fail(state, STATUS_DECODE_LIMIT, "the deadline for decoding passed %s",
                   jpeg_position(state, text));
}

static void stop_late_encode(struct jpeg_state *state)
{
    if (codec_late(state->request->deadline_ns))
        codec_fail(state, STATUS_TIMEOUT, "the deadline for encoding passed after %u of %u rows",
                   state->writer.next_scanline, state->writer.image_height);
}

/* libjpeg calls this for each row of MCUs of each scan, also during a call that decodes all scans
 * of a progressive file. */
static void on_progress(j_common_ptr common)
{
    struct jpeg_state *state = common->client_data;
    if (state->limits != NULL &&
        (uint32_t)state->reader.input_scan_number > state->limits->jpeg_scans_max)
        codec_fail(state, STATUS_DECODE_LIMIT,
                   "the JPEG has more than %u scans, the limit of jpeg_scans_max",
                   state->limits->jpeg_scans_max);
    if (++state->monitor_calls % CODEC_ROWS_PER_CHECK != 0)
        return;
    if (state->limits != NULL)
        jpeg_stop_late_decode(state);
    else
        stop_late_encode(state);
}

void jpeg_begin(struct jpeg_state *state, j_common_ptr common, struct error *error)
{
    state->error = error;
    state->warnings = state->segments_seen = state->monitor_calls = 0;
    state->row_decoder = NULL;
    common->err = jpeg_std_error(&state->errors);
    state->errors.error_exit = on_error;
    state->errors.emit_message = on_message;
    state->errors.output_message = on_output;
    state->progress.progress_monitor = on_progress;
    common->client_data = state;
}
