/* frame.c - reads the header of a PNG for decoders on GPUs. */
#include "codecs/png/frame.h"

#include "codecs/png/png_state.h"

#define CHUNK_HEAD 8 /* length and type */
#define IHDR_BYTES 13
/* Offsets of the members of IHDR, and of the next chunk. */
#define WIDTH_AT   (PNG_SIGNATURE_BYTES + CHUNK_HEAD)
#define HEIGHT_AT  (WIDTH_AT + 4)
#define DEPTH_AT   (WIDTH_AT + 8)
#define AFTER_IHDR (PNG_SIGNATURE_BYTES + PNG_CHUNK_OVERHEAD + IHDR_BYTES)

static bool has_type(const uint8_t *chunk, const char *type)
{
    return memcmp(chunk + 4, type, 4) == 0;
}

static bool has_crc(const uint8_t *chunk, size_t count)
{
    return crc32(0, chunk + 4, (uInt)(4 + count)) == codec_u32(chunk + CHUNK_HEAD + count);
}

static bool is_letter(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* Whether libpng skips such a chunk. Not so a transparent colour, nor a third letter in lower case,
 * which libpng refuses from version 1.6.47 on. */
static bool is_ancillary(const uint8_t *chunk)
{
    for (int i = 4; i < CHUNK_HEAD; i++)
        if (!is_letter(chunk[i]))
            return false;
    return (chunk[4] & 0x20) != 0 && (chunk[6] & 0x20) == 0 && !has_type(chunk, "tRNS");
}

/* Reads IHDR, which must be the first chunk. */
static bool read_header(const uint8_t *bytes, size_t length, struct png_frame *frame)
{
    static const uint8_t channels[] = {1, 0, 3, 0, 0, 0, 4};
    const uint8_t *chunk = bytes + PNG_SIGNATURE_BYTES, *depth = bytes + DEPTH_AT;
    if (length < AFTER_IHDR || png_sig_cmp(bytes, 0, PNG_SIGNATURE_BYTES) != 0 ||
        codec_u32(chunk) != IHDR_BYTES || !has_type(chunk, "IHDR") || !has_crc(chunk, IHDR_BYTES))
        return false;
    /* Depth, colour type, methods of compression, filters and interlace. */
    if (depth[0] != 8 || depth[1] >= sizeof channels || depth[2] != 0 || depth[3] != 0 ||
        depth[4] != PNG_INTERLACE_NONE)
        return false;
    frame->width = codec_u32(bytes + WIDTH_AT);
    frame->height = codec_u32(bytes + HEIGHT_AT);
    frame->channels = channels[depth[1]];
    return frame->channels > 0 && frame->width > 0 && frame->width <= SIDE_CEILING &&
           frame->height > 0 && frame->height <= SIDE_CEILING;
}

bool png_read_frame(const uint8_t *bytes, size_t length, struct png_frame *frame)
{
    if (!read_header(bytes, length, frame))
        return false;
    for (size_t at = AFTER_IHDR; length - at >= CHUNK_HEAD;) {
        const uint8_t *chunk = bytes + at;
        size_t count = codec_u32(chunk), left = length - at;
        frame->idat_at = (uint32_t)at;
        if (has_type(chunk, "IDAT"))
            return at <= UINT32_MAX;
        if (left < PNG_CHUNK_OVERHEAD || count > left - PNG_CHUNK_OVERHEAD ||
            count > PNG_CHUNK_BYTES_MAX || !is_ancillary(chunk) || !has_crc(chunk, count))
            return false;
        at += PNG_CHUNK_OVERHEAD + count;
    }
    return false;
}
