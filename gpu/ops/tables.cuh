/*
 * tables.cuh - lookup tables of 256 bytes, one after the other, in shared memory.
 *
 * The tables are launch arguments, which belong to one launch alone and are in constant memory.
 * Constant memory serves one address of a warp at a time. A table in shared memory fills two rows
 * of the 32 banks.
 */
#ifndef GPUIMGD_GPU_OPS_TABLES_CUH
#define GPUIMGD_GPU_OPS_TABLES_CUH

#include <string.h>

#include "gpu/ops/prologue.h"

/* Argument and shared memory of a kernel with an optional table. */
#define TABLE_BYTES(looks_up) ((looks_up) ? 256 : 16)

template <bool TABLE> struct table_argument {
    uint4 pieces[TABLE_BYTES(TABLE) / 16];
};

template <bool TABLE>
static inline table_argument<TABLE> table_argument_of(const struct prologue *prologue)
{
    table_argument<TABLE> argument;
    memcpy(argument.pieces, prologue->table, sizeof(argument.pieces));
    return argument;
}

/* Copies the first COUNT tables to shared memory. Each warp reads its own pieces, one address at a
 * time, so that the cache misses of all warps overlap. */
template <int COUNT, int WARPS, int PIECES>
SIMT void tables_copy(uint8_t *shared, const uint4 (&pieces)[PIECES], int warp, int lane)
{
    constexpr int count = 16 * COUNT, share = (count + WARPS - 1) / WARPS;
#pragma unroll
    for (int k = 0; k < share; k++) {
        int i = warp * share + k;
        if (count % WARPS != 0 && i >= count)
            break;
        uint4 piece = pieces[i];
        if (lane == k)
            reinterpret_cast<uint4 *>(shared)[i] = piece;
    }
}

SIMT uint32_t word_of(uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3)
{
    return __byte_perm(__byte_perm(b0, b1, 0x0040), __byte_perm(b2, b3, 0x0040), 0x5410);
}

/* Looks up four bytes, or the three colours of an RGBA pixel. */
template <bool ALPHA> SIMT uint32_t look_up(uint32_t word, const uint8_t *table)
{
    uint32_t b0 = table[word & 255u], b1 = table[word >> 8 & 255u];
    uint32_t b2 = table[word >> 16 & 255u], b3 = word >> 24;
    return word_of(b0, b1, b2, ALPHA ? b3 : table[b3]);
}

template <bool ALPHA> SIMT uint4 look_up_four(const uint4 &four, const uint8_t *table)
{
    return make_uint4(look_up<ALPHA>(four.x, table), look_up<ALPHA>(four.y, table),
                      look_up<ALPHA>(four.z, table), look_up<ALPHA>(four.w, table));
}

#endif
