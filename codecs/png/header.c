#include "codecs/png/header.h"

#include <assert.h>
#include <string.h>

#include <zlib.h>

#include "codecs/codec_impl.h"
#include "codecs/pixel.h"

/* Enough for the signature, IHDR, pHYs, the heads of the chunks with metadata, and the zlib stream
 * of the profile, which deflate makes longer by less than 1/1000 and 64 bytes. */
#define HEADER_BYTES_MAX 512
#define METADATA_PART    1000

/* Offsets in the file: after the signature and the length of IHDR. */
enum { IHDR_AT = 12, WIDTH_AT = 16, HEIGHT_AT = 20, IHDR_BYTES = 4 + 13, CHUNK_BYTES = 12 };

static size_t header_capacity(size_t metadata_bytes)
{
    return HEADER_BYTES_MAX + metadata_bytes + metadata_bytes / METADATA_PART;
}

size_t png_prelude_bytes(size_t metadata_bytes)
{
    return sizeof(struct png_prelude) + header_capacity(metadata_bytes);
}

static void write_32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Finds the first IDAT chunk, and writes the size. The chunks need no checks, because libpng has
 * written them. */
static void finish(struct png_prelude *prelude, uint32_t width, uint32_t height, size_t capacity)
{
    uint8_t *header = prelude->header, *at = header + IHDR_AT - 4;
    write_32(header + WIDTH_AT, width);
    write_32(header + HEIGHT_AT, height);
    write_32(header + IHDR_AT + IHDR_BYTES, (uint32_t)crc32(0, header + IHDR_AT, IHDR_BYTES));
    while (memcmp(at + 4, "IDAT", 4) != 0) {
        at += CHUNK_BYTES + codec_u32(at);
        assert(at + CHUNK_BYTES <= header + capacity);
    }
    prelude->header_bytes = (uint32_t)(at - header);
}

enum status png_prelude_make(struct codec_context *context, const struct encode_request *request,
                             uint32_t width, uint32_t height, uint32_t channels,
                             struct png_prelude *to, struct error *error)
{
    size_t capacity = header_capacity(codec_metadata_bytes(request));
    memset(to, 0, sizeof *to);
    enum status status =
        codec_encode_pixel(context, request, channels, to->header, capacity, error);
    if (status == STATUS_OK)
        finish(to, width, height, capacity);
    return status;
}
