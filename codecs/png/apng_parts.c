#include "codecs/png/apng_parts.h"

#include <stdarg.h>

#include "codecs/png/png_kernels.h"
#include "codecs/png/png_state.h"

/* The data of fcTL, and the sequence number at the beginning of fdAT. */
enum { CONTROL_BYTES = 26, NUMBER_BYTES = 4 };

/* Length and type of a chunk. */
#define CHUNK_HEAD 8

struct chunk {
    const char *type; /* in the file, not terminated */
    const uint8_t *data;
    size_t bytes;
};

/* The frame is the one after those that were found. */
static bool refuse(const struct apng_reader *reader, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(const struct apng_reader *reader, struct error *error, const char *format, ...)
{
    char what[160];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return error_fail(error, STATUS_DECODE_FAILED,
                      "frame %u of the PNG is missing or damaged: %s; lenient takes the %s",
                      reader->frames, what,
                      reader->frames > 0 ? "frames before it" : "default image");
}

void apng_open(struct apng_reader *reader, const uint8_t *bytes, size_t length,
               const struct codec_limits *limits, const struct image_info *info)
{
    *reader = (struct apng_reader){.bytes = bytes,
                                   .length = length,
                                   .width = info->width,
                                   .height = info->height,
                                   .lenient = limits->lenient,
                                   .deadline_ns = limits->deadline_ns,
                                   .at = PNG_SIGNATURE_BYTES};
}

/* ---- chunks ---- */

static bool is_type(const struct chunk *chunk, const char *type)
{
    return memcmp(chunk->type, type, 4) == 0;
}

/* Whether the next chunk has this type, even if the file ends in it. */
static bool is_next(const struct apng_reader *reader, const char *type)
{
    return reader->length - reader->at >= CHUNK_HEAD &&
           memcmp(reader->bytes + reader->at + 4, type, 4) == 0;
}

/* Whether the deadline has passed. It is checked once per piece of the file. */
static bool is_late(struct apng_reader *reader)
{
    size_t piece = reader->at / CODEC_BYTES_PER_CHECK;
    bool is_new = piece != reader->piece;
    reader->piece = piece;
    return is_new && codec_late(reader->deadline_ns);
}

/* Reads the next chunk and checks its CRC. */
static bool read_chunk(struct apng_reader *reader, struct chunk *chunk, struct error *error)
{
    enum { ancillary = 0x20 };
    size_t left = reader->length - reader->at;
    const uint8_t *at = reader->bytes + reader->at;
    if (is_late(reader))
        return error_fail(error, STATUS_DECODE_LIMIT,
                          "the deadline for decoding passed in frame %u of the PNG",
                          reader->frames);
    if (left < PNG_CHUNK_OVERHEAD || codec_u32(at) > left - PNG_CHUNK_OVERHEAD)
        return refuse(reader, error, "the file ends (at byte %zu)", reader->length);
    *chunk = (struct chunk){(const char *)at + 4, at + CHUNK_HEAD, codec_u32(at)};
    uint32_t crc = png_kernels_fastest()->crc(0, at + 4, 4 + chunk->bytes);
    bool may_skip = reader->lenient && (chunk->type[0] & ancillary) != 0 &&
                    !is_type(chunk, "fcTL") && !is_type(chunk, "fdAT");
    if (crc != codec_u32(chunk->data + chunk->bytes) && !may_skip)
        return refuse(reader, error, "the CRC of a chunk %.4s is wrong (at byte %zu)", chunk->type,
                      reader->at);
    reader->at += PNG_CHUNK_OVERHEAD + chunk->bytes;
    return true;
}

/* Reads the sequence number, with which fcTL and fdAT begin. */
static bool read_number(struct apng_reader *reader, const struct chunk *chunk, struct error *error)
{
    if (is_type(chunk, "fcTL") && chunk->bytes != CONTROL_BYTES)
        return refuse(reader, error, "a chunk fcTL has %zu bytes; it must have %d", chunk->bytes,
                      CONTROL_BYTES);
    if (chunk->bytes < NUMBER_BYTES)
        return refuse(reader, error, "a chunk %.4s has %zu bytes; it must have at least %d",
                      chunk->type, chunk->bytes, NUMBER_BYTES);
    uint32_t number = codec_u32(chunk->data);
    if (number != reader->sequence)
        return refuse(reader, error, "a chunk %.4s has the sequence number %u; it must be %u",
                      chunk->type, number, reader->sequence);
    reader->sequence++;
    return true;
}

/* ---- frames ---- */

/* A delay is a fraction of a second. The denominator 0 means 100. */
static uint32_t delay_ms(uint32_t numerator, uint32_t denominator)
{
    denominator = denominator == 0 ? 100 : denominator;
    return (numerator * 1000 + denominator / 2) / denominator;
}

static bool check_control(const struct apng_reader *reader, const struct apng_frame *frame,
                          const uint8_t *data, struct error *error)
{
    uint32_t width = reader->width, height = reader->height;
    if (frame->width == 0 || frame->width > width || frame->x > width - frame->width ||
        frame->height == 0 || frame->height > height || frame->y > height - frame->height)
        return refuse(reader, error, "%u x %u pixels at %u, %u are not on its canvas of %u x %u",
                      frame->width, frame->height, frame->x, frame->y, width, height);
    if (!reader->has_pixels && (frame->width != width || frame->height != height))
        return refuse(reader, error,
                      "it is also the default image, but has %u x %u pixels, not "
                      "%u x %u",
                      frame->width, frame->height, width, height);
    if (data[24] >= APNG_DISPOSALS || data[25] > 1)
        return refuse(reader, error,
                      "dispose_op is %u and blend_op is %u; they must be at most 2 "
                      "and 1",
                      data[24], data[25]);
    return true;
}

static bool read_control(struct apng_reader *reader, const struct chunk *chunk,
                         struct apng_frame *frame, struct error *error)
{
    const uint8_t *data = chunk->data;
    if (!read_number(reader, chunk, error))
        return false;
    *frame = (struct apng_frame){.x = codec_u32(data + 12),
                                 .y = codec_u32(data + 16),
                                 .width = codec_u32(data + 4),
                                 .height = codec_u32(data + 8),
                                 .delay_ms = delay_ms((uint32_t)data[20] << 8 | data[21],
                                                      (uint32_t)data[22] << 8 | data[23]),
                                 .disposal = (enum apng_disposal)data[24],
                                 .blends = data[25] != 0,
                                 .data_type = reader->has_pixels ? "fdAT" : "IDAT"};
    return check_control(reader, frame, data, error);
}

/* Goes to the chunk after the fcTL of the next frame, or stays at IEND. */
static bool find_control(struct apng_reader *reader, struct apng_frame *frame, struct error *error)
{
    struct chunk chunk;
    for (;;) {
        size_t at = reader->at;
        if (!read_chunk(reader, &chunk, error))
            return false;
        if (is_type(&chunk, "fcTL"))
            return read_control(reader, &chunk, frame, error);
        if (is_type(&chunk, "fdAT"))
            return refuse(reader, error, "a chunk fdAT has no fcTL before it");
        if (is_type(&chunk, "IEND")) {
            reader->at = at;
            return false;
        }
        reader->has_pixels |= is_type(&chunk, "IDAT");
    }
}

/* Reads the chunks up to the next fcTL, to IEND or to damage, which is reported with the next
 * frame.
 */
static bool find_data(struct apng_reader *reader, struct apng_frame *frame, struct error *error)
{
    struct chunk chunk;
    bool is_interrupted = false; /* the data, by another chunk */
    while (!is_next(reader, "fcTL") && !is_next(reader, "IEND")) {
        bool has_data = frame->data_end > 0,
             in_data = is_next(reader, "IDAT") || is_next(reader, "fdAT");
        size_t at = reader->at;
        if (!read_chunk(reader, &chunk, error)) {
            if (!has_data || in_data || error->status != STATUS_DECODE_FAILED)
                return false;
            error_clear(error);
            return true;
        }
        reader->has_pixels |= is_type(&chunk, "IDAT");
        is_interrupted |= has_data && !in_data;
        if (!in_data)
            continue;
        if (is_interrupted && is_type(&chunk, "IDAT"))
            return refuse(reader, error, "an IDAT follows another chunk than the IDAT before it");
        if (!is_type(&chunk, frame->data_type))
            return refuse(reader, error, "a chunk %.4s follows its fcTL; it must be %s", chunk.type,
                          frame->data_type);
        if (is_type(&chunk, "fdAT") && !read_number(reader, &chunk, error))
            return false;
        frame->data_at = has_data ? frame->data_at : at;
        frame->data_end = reader->at;
    }
    return frame->data_end > 0 || refuse(reader, error, "no data follows its fcTL");
}

bool apng_find_frame(struct apng_reader *reader, struct apng_frame *frame, struct error *error)
{
    if (!find_control(reader, frame, error) || !find_data(reader, frame, error))
        return false;
    reader->frames++;
    return true;
}

size_t apng_frame_bytes(const struct apng_frame *frame)
{
    return APNG_HEAD_BYTES + (frame->data_end - frame->data_at) + PNG_CHUNK_OVERHEAD;
}

/* ---- all frames ---- */

/* Whether the canvas is opaque while a frame is shown. *before: before it, then before the next. */
static bool is_opaque(const struct apng_frame *frame, const struct image_info *info, bool *before)
{
    bool fills = frame->width == info->width && frame->height == info->height;
    bool shown = info->channels < 4 && (*before || fills);
    if (frame->disposal != APNG_RESTORE)
        *before = shown && frame->disposal == APNG_KEEP;
    return shown;
}

/* Finds as many frames as acTL announces, and the end after them. */
static void find_all(struct apng_reader *reader, struct image_info *info, struct error *error)
{
    struct apng_frame frame;
    bool before = false;
    size_t most = 0;
    while (apng_find_frame(reader, &frame, error)) {
        if (reader->frames > info->frames) {
            reader->frames--;
            refuse(reader, error, "num_frames of acTL is only %u", info->frames);
            break;
        }
        size_t bytes = apng_frame_bytes(&frame);
        most = bytes > most ? bytes : most;
        info->may_have_alpha |= !is_opaque(&frame, info, &before);
        info->frames_apart |= reader->frames == 1 && frame.data_type[0] == 'f';
    }
    info->codec_bytes += most;
    if (error->status == STATUS_OK && reader->frames < info->frames)
        refuse(reader, error, "num_frames of acTL is %u", info->frames);
}

enum status apng_measure(const uint8_t *bytes, size_t length, const struct codec_limits *limits,
                         struct image_info *info, struct error *error)
{
    struct apng_reader reader;
    struct error found = {0};
    apng_open(&reader, bytes, length, limits, info);
    find_all(&reader, info, &found);
    info->ends_early = found.status == STATUS_DECODE_FAILED;
    if (found.status != STATUS_OK && !(info->ends_early && limits->lenient))
        return error_set(error, found.status, "%s", found.text);
    info->frames = reader.frames > 0 ? reader.frames : 1;
    return STATUS_OK;
}
