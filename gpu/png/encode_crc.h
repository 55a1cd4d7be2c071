/*
 * encode_crc.h - a block of threads computes the CRC-32 of the contents of an IDAT chunk, from
 * tables that the encoder's first kernel makes (crc.h has the arithmetic).
 */
#pragma once

#include <stdalign.h>

#include "gpu/png/crc.h"
#include "gpu/png/encode_impl.h"

/* The inverted CRC of the type IDAT, with which that of the contents begins. */
#define CRC_AFTER_TYPE 0xCA50F9E1u
#define UNIT_BYTES     16

/* A block of CRC_THREADS threads makes the powers. */
SIMT void make_powers(struct png_encode_powers *powers)
{
    uint32_t thread = (uint32_t)thread_index();
    uint32_t word = crc_power(4), row = crc_power(4 + UNIT_BYTES * (CRC_THREADS - 1));
    for (uint32_t i = thread; i < CRC_ADVANCE_WORDS; i += CRC_THREADS) {
        uint32_t byte = (i & 255) << i / 256 * 8;
        powers->word[i] = crc_multiply(byte, word);
        powers->row[i] = crc_multiply(byte, row);
    }
    powers->units[thread] = crc_power(UNIT_BYTES * (CRC_THREADS - 1 - thread));
}

/* Advances a CRC by a table of struct png_encode_powers. */
SIMT uint32_t crc_advance(uint32_t crc, const uint32_t *table)
{
    return table[crc & 255] ^ table[256 + (crc >> 8 & 255)] ^ table[512 + (crc >> 16 & 255)] ^
           table[768 + (crc >> 24)];
}

struct crc_shared {
    alignas(16) uint32_t word[CRC_ADVANCE_WORDS], row[CRC_ADVANCE_WORDS];
    uint32_t warps[CRC_THREADS / WARP_LANES];
};

/* The CRC of every CRC_THREADS-th unit, from that of the thread on, as if they were followed by
 * CRC_THREADS - 1 other units each, but for the last. */
SIMT uint32_t crc_of_units(const struct crc_shared *shared, const uint8_t *bytes, int units)
{
    uint32_t crc = 0;
    /* The last units are those of the last row. So units are missing in the first row. */
    int missing = (CRC_THREADS - units % CRC_THREADS) % CRC_THREADS;
    for (int i = thread_index() - missing; i < units; i += CRC_THREADS) {
        if (i < 0)
            continue;
        words4 unit = load_words4(bytes + (size_t)i * UNIT_BYTES);
        if (i == 0)
            unit.x ^= CRC_AFTER_TYPE;
        crc = crc_advance(crc ^ unit.x, shared->word);
        crc = crc_advance(crc ^ unit.y, shared->word);
        crc = crc_advance(crc ^ unit.z, shared->word);
        crc = crc_advance(crc ^ unit.w, i + CRC_THREADS < units ? shared->row : shared->word);
    }
    return crc;
}

/* Returns the CRC of the type IDAT and `count` bytes, to thread 0. bytes: aligned to 16. */
SIMT uint32_t crc_of_chunk(struct crc_shared *shared, const struct png_encode_powers *powers,
                           const uint8_t *bytes, int count)
{
    int thread = thread_index(), units = count / UNIT_BYTES;
    for (int i = thread; i < CRC_ADVANCE_WORDS / 4; i += CRC_THREADS) {
        ((words4 *)shared->word)[i] = load_words4(powers->word + 4 * i);
        ((words4 *)shared->row)[i] = load_words4(powers->row + 4 * i);
    }
    block_barrier();
    uint32_t crc = crc_of_units(shared, bytes, units);
    crc = crc_multiply(crc, load_word(&powers->units[thread]));
    UNROLL
    for (int by = WARP_LANES / 2; by > 0; by /= 2)
        crc ^= warp_read_xor(crc, by);
    if (lane_index() == 0)
        shared->warps[thread / WARP_LANES] = crc;
    block_barrier();
    if (thread > 0)
        return 0;
    for (int i = 1; i < CRC_THREADS / WARP_LANES; i++)
        crc ^= shared->warps[i];
    if (units == 0)
        crc = CRC_AFTER_TYPE;
    for (int i = units * UNIT_BYTES; i < count; i++)
        crc = crc >> 8 ^ shared->word[768 + ((crc ^ bytes[i]) & 255)];
    return ~crc;
}
