/*
 * file.h - writes a file: the chunks of the host around the VP8 chunk, whose partitions are
 * gathered from the codes of the chunks of tokens (bool_coder.h).
 *
 * The file may be in the host's memory, so it is written in whole units of 16 bytes.
 */
#pragma once

#include "gpu/webp/bool_coder.h"

#define UNIT_BYTES 16
/* "VP8 " and the size of the chunk, and the header of the frame. */
#define CHUNK_HEAD_BYTES 8
#define FRAME_HEAD_BYTES 10
#define VP8_HEAD_BYTES   (CHUNK_HEAD_BYTES + FRAME_HEAD_BYTES)
/* The size of the first partition has 19 bits. */
#define MODES_BYTES_MAX ((1u << 19) - 1)
#define RIFF_SIZE_AT    4

/* Where the parts of a file begin. */
struct file_layout {
    uint32_t vp8, modes, coefficients, padding, trailer, end;
};

SIMT struct file_layout file_layout_of(const struct webp_encode_descriptor *image)
{
    struct file_layout layout;
    layout.vp8 = image->header_bytes;
    layout.modes = layout.vp8 + VP8_HEAD_BYTES;
    layout.coefficients = layout.modes + image->modes.byte_count;
    layout.padding = layout.coefficients + image->coefficients.byte_count;
    layout.trailer = layout.padding + (layout.padding - layout.vp8) % 2;
    layout.end = layout.trailer + image->trailer_bytes;
    return layout;
}

/* Whether the file can be written. */
SIMT bool file_fits(const struct webp_encode_descriptor *image)
{
    uint64_t around = (uint64_t)image->header_bytes + image->trailer_bytes + VP8_HEAD_BYTES + 1;
    return image->modes.byte_count <= MODES_BYTES_MAX &&
           image->coefficients.bit_count < INT32_MAX &&
           around + image->modes.byte_count + image->coefficients.byte_count <=
               (uint64_t)image->capacity + 1 &&
           file_layout_of(image).end <= image->capacity;
}

/* Byte `index` of the VP8 chunk's head. */
SIMT uint8_t vp8_head_byte(const struct webp_encode_descriptor *image,
                           const struct file_layout *layout, uint32_t index)
{
    uint32_t bytes = layout->trailer - layout->vp8 - CHUNK_HEAD_BYTES;
    uint32_t frame = 1u << 4 | image->modes.byte_count << 5; /* a shown key frame */
    uint32_t start_code = 0x2A019D, type = 0x20385056;
    if (index < 4)
        return (uint8_t)(type >> 8 * index);
    if (index < CHUNK_HEAD_BYTES)
        return (uint8_t)(bytes >> 8 * (index - 4));
    index -= CHUNK_HEAD_BYTES;
    if (index < 3)
        return (uint8_t)(frame >> 8 * index);
    if (index < 6)
        return (uint8_t)(start_code >> 8 * (index - 3));
    return (uint8_t)((image->width | image->height << 16) >> 8 * (index - 6));
}

/* ---- partitions ---- */

/* Returns the chunk that has a bit of the partition: the last one that begins at or before it. Its
 * code begins 8 bits before that, except in the first chunk. */
SIMT uint32_t chunk_at(const struct webp_partition *partition, uint32_t bit)
{
    uint32_t low = 0, high = partition->chunk_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (partition->chunks[middle].at + 8 <= bit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns 32 bits of the partition, from number `bit` on. *chunk: the chunk of the first of them or
 * an earlier one; receives the chunk of the last. */
SIMT uint32_t partition_bits(const struct webp_partition *partition, uint32_t *chunk, uint32_t bit)
{
    uint32_t count = partition->chunk_count, bits = 0, done = 0;
    for (uint32_t i = *chunk; i < count && done < 32; i++) {
        const struct webp_chunk *of = partition->chunks + i;
        uint32_t at = bit + done - of->at, end = of->bits + 8; /* in the chunk's code */
        if (at >= end)
            continue;
        const uint32_t *words = code_of(partition, i) + at / 32;
        uint32_t own = funnel_left(words[1], words[0], at % 32);
        uint32_t here = end - at < 32 - done ? end - at : 32 - done;
        own &= ~0u << (32 - here);
        bits |= own >> done;
        done += here;
        *chunk = i;
    }
    return bits;
}

/* Byte `index` of a partition. libwebp aligns the last byte to its low bit. */
SIMT uint8_t partition_byte(const struct webp_partition *partition, uint32_t index)
{
    uint32_t chunk = chunk_at(partition, index * 8);
    uint32_t byte = partition_bits(partition, &chunk, index * 8) >> 24;
    if (index + 1 == partition->byte_count)
        byte >>= 8 - (partition->bit_count - index * 8);
    return (uint8_t)byte;
}

/* ---- units ---- */

/* A thread's place in the file. */
struct file_cursor {
    const struct webp_encode_descriptor *image;
    struct file_layout layout;
    uint32_t modes_chunk, chunk; /* of the partitions: where the last word began */
};

/* Byte `at` of the file. */
SIMT uint32_t file_byte(const struct file_cursor *cursor, uint32_t at)
{
    const struct webp_encode_descriptor *image = cursor->image;
    const struct file_layout *layout = &cursor->layout;
    if (at >= RIFF_SIZE_AT && at < RIFF_SIZE_AT + 4)
        return (layout->end - CHUNK_HEAD_BYTES) >> 8 * (at - RIFF_SIZE_AT) & 255;
    if (at < layout->vp8)
        return image->header[at];
    if (at < layout->modes)
        return vp8_head_byte(image, layout, at - layout->vp8);
    if (at < layout->coefficients)
        return partition_byte(&image->modes, at - layout->modes);
    if (at < layout->padding)
        return partition_byte(&image->coefficients, at - layout->coefficients);
    if (at < layout->trailer)
        return 0;
    return at < layout->end ? image->header[layout->vp8 + (at - layout->trailer)] : 0;
}

/* Whether the 4 bytes at `at` are from `first` to `end`. */
DEVICE bool is_within(uint32_t at, uint32_t first, uint32_t end)
{
    return at >= first && at + 4 <= end;
}

/* Loads 4 bytes of the header and the trailer, at any offset. */
SIMT uint32_t load_header(const uint8_t *header, uint32_t at)
{
    const uint8_t *word = header + at / 4 * 4;
    uint32_t low = load_word(word), high = at % 4 > 0 ? load_word(word + 4) : 0;
    return funnel_right(low, high, at % 4 * 8);
}

/* The 4 bytes at `at`, a multiple of 4, in the order of the file. */
SIMT uint32_t file_word(struct file_cursor *cursor, uint32_t at)
{
    const struct webp_encode_descriptor *image = cursor->image;
    const struct file_layout *layout = &cursor->layout;
    if (is_within(at, layout->coefficients, layout->padding - 1))
        return swap_bytes(
            partition_bits(&image->coefficients, &cursor->chunk, (at - layout->coefficients) * 8));
    if (is_within(at, layout->modes, layout->coefficients - 1))
        return swap_bytes(
            partition_bits(&image->modes, &cursor->modes_chunk, (at - layout->modes) * 8));
    if (is_within(at, RIFF_SIZE_AT + 4, layout->vp8) || at == 0)
        return load_header(image->header, at);
    if (is_within(at, layout->trailer, layout->end))
        return load_header(image->header, layout->vp8 + (at - layout->trailer));
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; i++)
        word |= file_byte(cursor, at + i) << 8 * i;
    return word;
}

/* The chunk of the first of a unit's bits that are in the partition. */
SIMT uint32_t chunk_of_unit(const struct webp_partition *partition, uint32_t at, uint32_t start)
{
    if (at + UNIT_BYTES <= start || at >= start + partition->byte_count)
        return 0;
    return chunk_at(partition, at > start ? (at - start) * 8 : 0);
}

/* Writes the 16 bytes at `at`, or those before the end of the file. */
SIMT void write_unit(const struct webp_encode_descriptor *image, const struct file_layout *layout,
                     uint32_t at)
{
    struct file_cursor cursor = {image, *layout, 0, 0};
    cursor.modes_chunk = chunk_of_unit(&image->modes, at, layout->modes);
    cursor.chunk = chunk_of_unit(&image->coefficients, at, layout->coefficients);
    if (at + UNIT_BYTES > layout->end) {
        for (uint32_t i = at; i < layout->end; i++)
            image->file[i] = (uint8_t)file_byte(&cursor, i);
        return;
    }
    words4 unit;
    unit.x = file_word(&cursor, at);
    unit.y = file_word(&cursor, at + 4);
    unit.z = file_word(&cursor, at + 8);
    unit.w = file_word(&cursor, at + 12);
    *(words4 *)(image->file + at) = unit;
}
