/*
 * header.h - the tokens of the first partition: the header of the frame, and the modes of the
 * macroblocks (RFC 6386, sections 9 and 11).
 */
#pragma once

#include "gpu/webp/tables.h"
#include "gpu/webp/tokens.h"

#define EVEN 128 /* the probability of bits that no probability is known for */

/* Appends tokens. to NULL: only counts them. */
struct mode_writer {
    uint16_t *to;
    uint32_t count;
};

DEVICE void put_mode_bit(struct mode_writer *writer, bool bit, uint32_t probability)
{
    if (writer->to)
        writer->to[writer->count] = (uint16_t)(probability | (bit ? TOKEN_BIT : 0));
    writer->count++;
}

/* Puts the `bits` low bits of a value, the highest first. */
DEVICE void put_value(struct mode_writer *writer, uint32_t value, int bits)
{
    while (bits-- > 0)
        put_mode_bit(writer, value >> bits & 1, EVEN);
}

DEVICE void put_flag(struct mode_writer *writer, bool flag)
{
    put_value(writer, flag, 1);
}

/* Puts a flag whether the value is not 0; then the value and its sign. */
DEVICE void put_signed(struct mode_writer *writer, int value, int bits)
{
    put_flag(writer, value != 0);
    if (value != 0)
        put_value(writer, value < 0 ? (uint32_t)-value << 1 | 1 : (uint32_t)value << 1, bits + 1);
}

/* Puts a flag whether there is a value, and the value. */
DEVICE void put_optional(struct mode_writer *writer, bool present, uint32_t value)
{
    put_flag(writer, present);
    if (present)
        put_value(writer, value, 8);
}

DEVICE void put_segments(struct mode_writer *writer, const struct webp_frame *frame)
{
    put_flag(writer, frame->updates_map != 0);
    put_value(writer, 3, 2); /* values of segments follow, and they are absolute */
    for (int i = 0; i < WEBP_SEGMENTS; i++)
        put_signed(writer, frame->segments[i].quant, 7);
    for (int i = 0; i < WEBP_SEGMENTS; i++)
        put_signed(writer, frame->segments[i].filter, 6);
    for (int i = 0; frame->updates_map && i < WEBP_SEGMENTS - 1; i++)
        put_optional(writer, frame->segment_probabilities[i] != 255,
                     frame->segment_probabilities[i]);
}

/* Puts the header of the frame before the probabilities: a thread. Returns the number of tokens. */
DEVICE uint32_t put_frame_header(const struct webp_frame *frame, uint16_t *tokens)
{
    struct mode_writer writer = {tokens, 0};
    put_value(&writer, 0, 2); /* the color space, and that samples must be clamped */
    put_flag(&writer, frame->segment_count > 1);
    if (frame->segment_count > 1)
        put_segments(&writer, frame);
    put_flag(&writer, false); /* not the simple loop filter */
    put_value(&writer, (uint32_t)frame->filter_level, 6);
    put_value(&writer, 0, 3 + 1 + 2); /* sharpness; no deltas of the filter; one partition */
    put_value(&writer, (uint32_t)frame->base_quant, 7);
    for (int i = 0; i < 3; i++) /* of luma DC, and of the luma DC block */
        put_signed(&writer, 0, 4);
    put_signed(&writer, frame->uv_dc_delta, 4);
    put_signed(&writer, frame->uv_ac_delta, 4);
    put_flag(&writer, false); /* The probabilities are not kept for a next frame. */
    return writer.count;
}

/* Puts the probabilities: a block of threads. Returns the number of tokens. sums: of block_scan */
SIMT uint32_t put_probabilities(const struct webp_encode_descriptor *image, uint16_t *tokens,
                                uint32_t *sums)
{
    uint32_t count = 0, threads = (uint32_t)block_threads(), thread = (uint32_t)thread_index();
    for (uint32_t first = 0; first < WEBP_PROBABILITIES; first += threads) {
        uint32_t i = first + thread < WEBP_PROBABILITIES ? first + thread : 0, total;
        uint32_t probability = image->probabilities[i], own = 0;
        bool updates = probability != token_probabilities[i];
        if (first + thread < WEBP_PROBABILITIES)
            own = updates ? 9 : 1;
        struct mode_writer writer = {tokens + count + block_scan(own, &total, sums), 0};
        if (own > 0)
            put_mode_bit(&writer, updates, update_probabilities[i]);
        if (own > 1)
            put_value(&writer, probability, 8);
        count += total;
    }
    struct mode_writer writer = {thread == 0 ? tokens + count : NULL, 0};
    put_optional(&writer, image->uses_skip != 0, image->skip_probability);
    return count + writer.count;
}

/* ---- modes of macroblocks ---- */

/* Modes: see encode_impl.h. */
#define MODE_DC 0
#define MODE_TM 1
#define MODE_VE 2
#define MODE_HE 3
#define MODE_RD 4
#define MODE_LD 6
#define MODE_VL 7
#define MODE_HD 8

/* Puts the mode of a 4 x 4 block. p: mode_probabilities by the modes above and to the left */
DEVICE void put_block_mode(struct mode_writer *writer, int mode, const uint8_t *p)
{
    put_mode_bit(writer, mode != MODE_DC, p[0]);
    if (mode == MODE_DC)
        return;
    put_mode_bit(writer, mode != MODE_TM, p[1]);
    if (mode == MODE_TM)
        return;
    put_mode_bit(writer, mode != MODE_VE, p[2]);
    if (mode == MODE_VE)
        return;
    put_mode_bit(writer, mode >= MODE_LD, p[3]);
    if (mode < MODE_LD) {
        put_mode_bit(writer, mode != MODE_HE, p[4]);
        if (mode != MODE_HE)
            put_mode_bit(writer, mode != MODE_RD, p[5]);
        return;
    }
    put_mode_bit(writer, mode != MODE_LD, p[6]);
    if (mode == MODE_LD)
        return;
    put_mode_bit(writer, mode != MODE_VL, p[7]);
    if (mode != MODE_VL)
        put_mode_bit(writer, mode != MODE_HD, p[8]);
}

DEVICE void put_16x16_mode(struct mode_writer *writer, int mode)
{
    bool is_later = mode == MODE_TM || mode == MODE_HE;
    put_mode_bit(writer, is_later, 156);
    if (is_later)
        put_mode_bit(writer, mode == MODE_TM, 128);
    else
        put_mode_bit(writer, mode == MODE_VE, 163);
}

DEVICE void put_chroma_mode(struct mode_writer *writer, int mode)
{
    put_mode_bit(writer, mode != MODE_DC, 142);
    if (mode == MODE_DC)
        return;
    put_mode_bit(writer, mode != MODE_VE, 114);
    if (mode != MODE_VE)
        put_mode_bit(writer, mode != MODE_HE, 183);
}

/* A quarter of the modes of a macroblock: a row of 4 luma blocks. The first also has what precedes
 * them, and the last one the mode of chroma. */
#define MODE_QUARTERS 4

DEVICE int mode_at(uint64_t modes, int block)
{
    return (int)(modes >> 4 * block) & 15;
}

SIMT void put_block_modes(struct mode_writer *writer, const struct webp_encode_descriptor *image,
                          uint32_t macroblock, int row)
{
    uint32_t columns = image->columns;
    const struct webp_luma *luma = image->luma + macroblock;
    uint64_t modes = luma->modes;
    int above_row = (row + MODE_QUARTERS - 1) % MODE_QUARTERS;
    uint64_t above = row > 0 ? modes : macroblock >= columns ? luma[-(int)columns].modes : 0;
    int left = macroblock % columns > 0 ? mode_at(luma[-1].modes, 4 * row + 3) : MODE_DC;
    for (int i = 0; i < 4; i++) {
        int mode = mode_at(modes, 4 * row + i), top = mode_at(above, 4 * above_row + i);
        put_block_mode(writer, mode,
                       mode_probabilities + (top * WEBP_MODES + left) * (WEBP_MODES - 1));
        left = mode;
    }
}

DEVICE void put_macroblock_head(struct mode_writer *writer,
                                const struct webp_encode_descriptor *image, uint32_t macroblock)
{
    const struct webp_frame *frame = image->frame;
    uint32_t segment = frame->segment_of[image->alphas[macroblock]];
    if (frame->updates_map) {
        put_mode_bit(writer, segment >= 2, frame->segment_probabilities[0]);
        put_mode_bit(writer, segment & 1, frame->segment_probabilities[segment >= 2 ? 2 : 1]);
    }
    if (image->uses_skip)
        put_mode_bit(writer, !has_levels(image, macroblock), image->skip_probability);
    bool is_16x16 = image->luma[macroblock].is_16x16 != 0;
    put_mode_bit(writer, is_16x16, 145);
    if (is_16x16)
        put_16x16_mode(writer, mode_at(image->luma[macroblock].modes, 0));
}

/* Puts a quarter of the modes of a macroblock. */
SIMT void put_modes(struct mode_writer *writer, const struct webp_encode_descriptor *image,
                    uint32_t macroblock, int quarter)
{
    if (quarter == 0)
        put_macroblock_head(writer, image, macroblock);
    if (!image->luma[macroblock].is_16x16)
        put_block_modes(writer, image, macroblock, quarter);
    if (quarter == MODE_QUARTERS - 1)
        put_chroma_mode(writer, image->chroma[macroblock] >> 8);
}

/* Number of tokens of the modes of a macroblock, without the one whether it has levels. */
DEVICE uint32_t mode_tokens(const struct webp_encode_descriptor *image, uint32_t macroblock)
{
    const uint32_t lengths = 0x77656653; /* of MODE_VE and later modes, 4 bits each */
    uint32_t count = image->frame->updates_map ? 3 : 1;
    uint64_t modes = image->luma[macroblock].modes;
    int chroma = image->chroma[macroblock] >> 8;
    count += chroma == MODE_DC ? 1 : chroma == MODE_VE ? 2 : 3;
    if (image->luma[macroblock].is_16x16)
        return count + 2;
    for (int i = 0; i < 16; i++) {
        int mode = mode_at(modes, i);
        count += mode < MODE_VE ? (uint32_t)mode + 1 : lengths >> 4 * (mode - MODE_VE) & 15;
    }
    return count;
}
