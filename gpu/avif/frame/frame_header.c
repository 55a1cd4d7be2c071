#include "gpu/avif/frame/frame_header.h"

#include <string.h>

enum { OBU_SEQUENCE_HEADER = 1, OBU_FRAME = 6, TILE_SIZE_BYTES = 4 };

/* Writes bits from the highest on. */
struct bit_writer {
    uint8_t *bytes;
    size_t bits;
};

static void put(struct bit_writer *to, uint32_t value, int bits)
{
    while (bits-- > 0) {
        uint8_t *byte = &to->bytes[to->bits / 8];
        *byte = (uint8_t)((to->bits % 8 ? *byte : 0) | (value >> bits & 1) << (7 - to->bits % 8));
        to->bits++;
    }
}

static void align(struct bit_writer *to)
{
    put(to, 0, (int)(-to->bits % 8));
}

static size_t put_obu_header(int type, size_t bytes, uint8_t *to)
{
    size_t at = 0;
    to[at++] = (uint8_t)(type << 3 | 2); /* has a size */
    do {
        to[at++] = (uint8_t)((bytes & 127) | (bytes > 127 ? 128 : 0));
        bytes >>= 7;
    } while (bytes > 0);
    return at;
}

/* BT.709 primaries, the transfer function of sRGB, BT.601 matrix, full range. */
static void put_colours(const struct avif_frame *frame, struct bit_writer *to)
{
    bool gray = frame->planes == 1;
    put(to, 0, 1); /* 8 bits */
    put(to, gray, 1);
    put(to, 1, 1); /* the colours are described */
    put(to, 1, 8);
    put(to, 13, 8);
    put(to, 6, 8);
    put(to, 1, 1);
    if (!gray) {
        put(to, 0, 2); /* position of chroma samples: unknown */
        put(to, 0, 1); /* both chroma planes share a quantiser */
    }
}

size_t avif_put_sequence(const struct avif_frame *frame, uint8_t *to)
{
    uint8_t payload[AVIF_HEADER_BYTES_MAX];
    struct bit_writer bits = {payload, 0};
    put(&bits, 0, 3); /* profile */
    put(&bits, 1, 1); /* still picture */
    put(&bits, 1, 1); /* reduced header */
    put(&bits, (uint32_t)avif_level(frame), 5);
    put(&bits, 15, 4);
    put(&bits, 15, 4);
    put(&bits, frame->width - 1, 16);
    put(&bits, frame->height - 1, 16);
    put(&bits, 0, 1); /* superblocks of 64 */
    put(&bits, 0, 1); /* filter intra */
    put(&bits, 1, 1); /* intra edge filter */
    put(&bits, 0, 1); /* superres */
    put(&bits, 1, 1); /* CDEF */
    put(&bits, 0, 1); /* loop restoration */
    put_colours(frame, &bits);
    put(&bits, 0, 1); /* film grain */
    put(&bits, 1, 1); /* trailing one bit */
    align(&bits);
    size_t at = put_obu_header(OBU_SEQUENCE_HEADER, bits.bits / 8, to);
    memcpy(to + at, payload, bits.bits / 8);
    return at + bits.bits / 8;
}

/* log2 - least ones, and a zero unless it is the most. */
static void put_log2(struct bit_writer *to, int least, int most, int log2)
{
    for (int i = least; i < most && i <= log2; i++)
        put(to, i < log2, 1);
}

static void put_tiles(const struct avif_tiles *tiles, struct bit_writer *to)
{
    put(to, 1, 1); /* uniform spacing */
    put_log2(to, tiles->columns_log2_min, tiles->columns_log2_max, tiles->columns_log2);
    put_log2(to, tiles->rows_log2_min, tiles->rows_log2_max, tiles->rows_log2);
    if (tiles->columns_log2 + tiles->rows_log2 > 0) {
        put(to, 0, tiles->columns_log2 + tiles->rows_log2); /* context_update_tile_id */
        put(to, TILE_SIZE_BYTES - 1, 2);
    }
}

static void put_quantiser(const struct avif_frame *frame, struct bit_writer *to)
{
    put(to, (uint32_t)frame->quantiser.index, 8);
    put(to, 0, frame->planes == 1 ? 1 : 3); /* no deltas of DC, nor of chroma */
    put(to, 0, 1);                          /* no matrices */
    put(to, 0, 2);                          /* no segments, no delta_q */
}

static void put_filters(const struct avif_frame *frame, struct bit_writer *to)
{
    const struct avif_filters *filters = &frame->filters;
    uint32_t level = (uint32_t)filters->deblocking;
    put(to, level, 6);
    put(to, level, 6);
    if (frame->planes > 1 && level > 0) {
        put(to, level, 6);
        put(to, level, 6);
    }
    put(to, 0, 3); /* sharpness */
    put(to, 0, 1); /* no deltas by mode */
    put(to, (uint32_t)filters->cdef_damping - 3, 2);
    put(to, 0, 2); /* one strength */
    for (int i = 0; i < (frame->planes > 1 ? 2 : 1); i++) {
        put(to, (uint32_t)filters->cdef_primary, 4);
        put(to, (uint32_t)filters->cdef_secondary, 2);
    }
}

size_t avif_put_frame_header(const struct avif_frame *frame, uint8_t *to)
{
    struct bit_writer bits = {to, 0};
    put(&bits, 0, 1); /* CDFs adapt */
    put(&bits, frame->palettes, 1); /* screen content tools */
    if (frame->palettes)
        put(&bits, 1, 1); /* integer motion vectors, as in all still pictures */
    put(&bits, 0, 1); /* rendered at its size */
    if (frame->palettes)
        put(&bits, 0, 1); /* no intra block copy */
    put_tiles(&frame->tiles, &bits);
    put_quantiser(frame, &bits);
    put_filters(frame, &bits);
    put(&bits, frame->tools.split_transforms, 1); /* TX_MODE_SELECT or TX_MODE_LARGEST */
    put(&bits, 0, 1);                             /* all transform types */
    align(&bits);
    if (frame->tiles.columns * frame->tiles.rows > 1) {
        put(&bits, 0, 1); /* the tile group has all tiles */
        align(&bits);
    }
    return bits.bits / 8;
}

size_t avif_put_frame_obu(size_t payload_bytes, uint8_t *to)
{
    return put_obu_header(OBU_FRAME, payload_bytes, to);
}
