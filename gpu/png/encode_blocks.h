/*
 * encode_blocks.h - a warp finds the tiles that share a deflate block, adds up their counts, and
 * tells them where they are in the block.
 */
#pragma once

#include "gpu/png/encode_code.h"
#include "gpu/png/encode_tokens.h"

/* Whether the block of a tile is certainly not that of the tile before it. */
SIMT bool begins_surely(const struct png_encode_descriptor *image, uint32_t tile)
{
    return tile % PNG_GROUP_TILES == 0 ||
           image->tiles[tile - 1].tokens + image->tiles[tile].tokens > PNG_JOINED_TOKENS_MAX;
}

/* Whether a block begins with the tile. *end: the tile after the block */
SIMT bool is_head(const struct png_encode_descriptor *image, uint32_t tile, uint32_t *end)
{
    uint32_t head = tile, held = 0;
    while (!begins_surely(image, head))
        head--;
    for (uint32_t i = head; i < image->tile_count; i++) {
        uint32_t tokens = image->tiles[i].tokens;
        if (i % PNG_GROUP_TILES == 0 || held + tokens > PNG_JOINED_TOKENS_MAX) {
            *end = i;
            if (i > tile)
                return head == tile;
            head = i;
            held = 0;
        }
        held += tokens;
    }
    *end = image->tile_count;
    return head == tile;
}

/* Sets counts[] of a block: of symbol 32 * i + lane. */
SIMT void add_counts(const struct png_encode_descriptor *image, uint32_t head, uint32_t end,
                     uint32_t counts[LANE_SYMBOLS])
{
    UNROLL
    for (int i = 0; i < LANE_SYMBOLS; i++)
        counts[i] = i * WARP_LANES + lane_index() == PNG_END_OF_BLOCK;
    for (uint32_t tile = head; tile < end; tile++) {
        const uint32_t *from = image->counts[tile].of + lane_index();
        UNROLL
        for (int i = 0; i < LANE_SYMBOLS; i++)
            counts[i] += load_word(from + i * WARP_LANES);
    }
}

/* Tells the tiles of a block where they are in it. */
SIMT void place_in_block(const struct code_shared *shared, const struct png_code *code,
                         const struct png_encode_descriptor *image, uint32_t head, uint32_t end)
{
    uint32_t bits = code->header_bits, bytes = 0, distance_bits = code->distance_bits;
    for (uint32_t tile = head; tile < end; tile++) {
        struct png_encode_tile *to = image->tiles + tile;
        const uint32_t *counts = image->counts[tile].of;
        uint32_t own = 0;
        int count;
        for (int i = lane_index(); end - head > 1 && i < PNG_SYMBOLS; i += WARP_LANES) {
            uint32_t length = shared->lengths[i];
            if (i > PNG_END_OF_BLOCK)
                length += png_length_bits((uint32_t)i - 257) + distance_bits;
            own += counts[i] * length;
        }
        if (lane_index() == 0) {
            to->head = head;
            to->bits_before = tile > head ? bits : 0;
            to->bytes_before = bytes;
        }
        (void)tile_end(image, tile, &count);
        bits += warp_sum(own);
        bytes += (uint32_t)count;
    }
    if (lane_index() == 0) {
        image->tiles[head].block_bits = code->bits;
        image->tiles[head].block_bytes = bytes;
    }
}
