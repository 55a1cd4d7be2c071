/* header.c - makes the bytes that a JPEG has before its compressed data (header.h). */
#include "codecs/jpeg/header.h"

#include <assert.h>
#include <string.h>

#include "codecs/jpeg/zigzag.h"
#include "codecs/pixel.h"

/* Enough for a header without metadata, which libjpeg writes with 623 bytes for RGB, and for the
 * heads of the segments of EXIF (10 bytes) and XMP (33 bytes). */
#define HEADER_BYTES_MAX (640 + 10 + 33)
/* A profile is split into segments. Each has a marker of 2 bytes, and then at most 65535 bytes: a
 * length of 2 bytes, 14 bytes about the profile, and a part of the profile. */
#define ICC_PART_BYTES (65535 - 2 - 14)
#define ICC_HEAD_BYTES (2 + 2 + 14)

static const uint8_t natural_of_zigzag[64] = JPEG_NATURAL_OF_ZIGZAG;

/* ISO/IEC 10918-1, table B.1. */
enum { MARKER_SOF0 = 0xC0, MARKER_SOS = 0xDA, MARKER_DQT = 0xDB };

/* Offsets in an SOF0 segment, from its marker on. A length and the precision come before them. */
enum { FRAME_HEIGHT_AT = 5, FRAME_WIDTH_AT = 7 };

static size_t header_capacity(size_t metadata_bytes)
{
    size_t parts = (metadata_bytes + ICC_PART_BYTES - 1) / ICC_PART_BYTES;
    return HEADER_BYTES_MAX + metadata_bytes + parts * ICC_HEAD_BYTES;
}

size_t jpeg_prelude_bytes(size_t metadata_bytes)
{
    return sizeof(struct jpeg_prelude) + header_capacity(metadata_bytes);
}

/* Reads quantisation tables with 8-bit values: each has a byte with its number, then the values. */
static void read_tables(const uint8_t *at, const uint8_t *end, struct jpeg_prelude *prelude)
{
    for (; at < end; at += 1 + sizeof natural_of_zigzag) {
        size_t table = at[0] & 1;
        prelude->quant_at[table] = (uint32_t)(at + 1 - prelude->header);
        for (size_t i = 0; i < sizeof natural_of_zigzag; i++)
            prelude->quant[table][natural_of_zigzag[i]] = at[1 + i];
    }
}

static void write_16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

/* Finds the end of the header, writes the size and reads the quantisation tables. The segments need
 * no checks, because libjpeg has written them. */
static void finish(struct jpeg_prelude *prelude, uint32_t width, uint32_t height, size_t capacity)
{
    uint8_t *at = prelude->header + 2, marker;
    do {
        uint8_t *end = at + 2 + (at[2] << 8 | at[3]);
        marker = at[1];
        assert(at[0] == 0xFF && end <= prelude->header + capacity);
        if (marker == MARKER_DQT)
            read_tables(at + 4, end, prelude);
        if (marker == MARKER_SOF0) {
            write_16(at + FRAME_HEIGHT_AT, height);
            write_16(at + FRAME_WIDTH_AT, width);
        }
        at = end;
    } while (marker != MARKER_SOS);
    prelude->header_bytes = (uint32_t)(at - prelude->header);
}

enum status jpeg_prelude_make(struct codec_context *context, const struct encode_request *request,
                              uint32_t width, uint32_t height, uint32_t channels,
                              struct jpeg_prelude *to, struct error *error)
{
    size_t capacity = header_capacity(codec_metadata_bytes(request));
    assert(!request->encoder.progressive && !request->encoder.optimize);
    assert(channels == 1 || channels == 3);
    memset(to, 0, sizeof *to);
    enum status status =
        codec_encode_pixel(context, request, channels, to->header, capacity, error);
    if (status == STATUS_OK)
        finish(to, width, height, capacity);
    return status;
}
