/*
 * crc.h - device functions that compute the CRC-32 of PNG's chunks by all threads of a block.
 *
 * A CRC is the remainder of a polynomial over GF(2), without the first and the last inversion. So
 * the CRC of a concatenation A B is that of A, times x to the power of B's bits, plus that of B.
 * Here each thread takes every CRC_THREADS-th word of a piece, and the block adds the threads'
 * remainders, each times its power.
 *
 * Polynomials have their highest power in bit 0, as in PNG and zlib.
 */
#pragma once

#include "gpu/simt/simt.h"

#define CRC_THREADS 256

#define CRC_POLYNOMIAL 0xEDB88320u
#define CRC_ONE        0x80000000u

/* Shared memory of a block. */
struct crc_tables {
    uint32_t steps[4][256]; /* a byte at each place of a word, times x^(32 * CRC_THREADS) */
    uint32_t sums[CRC_THREADS / WARP_LANES];
};

/* Returns a * b modulo the polynomial. */
DEVICE uint32_t crc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    NO_UNROLL
    for (int i = 0; i < 32; i++) {
        product ^= a & (0u - (b >> 31));
        a = (a >> 1) ^ (CRC_POLYNOMIAL & (0u - (a & 1)));
        b <<= 1;
    }
    return product;
}

/* Returns x^(8 * bytes) modulo the polynomial: what a remainder is multiplied with if so many bytes
 * follow. */
DEVICE uint32_t crc_power(uint32_t bytes)
{
    /* x^(8 * 2^i) */
    static const uint32_t powers[32] = {
        0x00800000, 0x00008000, 0xEDB88320, 0xB1E6B092, 0xA06A2517, 0xED627DAE, 0x88D14467,
        0xD7BBFE6A, 0xEC447F11, 0x8E7EA170, 0x6427800E, 0x4D47BAE0, 0x09FE548F, 0x83852D0F,
        0x30362F1A, 0x7B5A9CC3, 0x31FEC169, 0x9FEC022A, 0x6C8DEDC4, 0x15D6874D, 0x5FDE7A4E,
        0xBAD90E37, 0x2E4E5EEF, 0x4EABA214, 0xA8A472C0, 0x429A969E, 0x148D302A, 0xC40BA6D0,
        0xC4E22C3C, 0x40000000, 0x20000000, 0x08000000};
    uint32_t result = CRC_ONE;
    NO_UNROLL
    for (int i = 0; bytes > 0; i++, bytes >>= 1)
        if (bytes & 1)
            result = crc_multiply(powers[i], result);
    return result;
}

/* Fills the tables. The block has CRC_THREADS threads, and needs a barrier before it uses them. */
SIMT void crc_fill(struct crc_tables *tables)
{
    uint32_t step = crc_power(4 * CRC_THREADS);
    for (int i = thread_index(); i < 4 * 256; i += CRC_THREADS)
        tables->steps[i / 256][i % 256] =
            crc_multiply((uint32_t)(i % 256) << (8 * (i / 256)), step);
}

DEVICE uint32_t crc_step(const struct crc_tables *tables, uint32_t crc)
{
    return tables->steps[0][crc & 255] ^ tables->steps[1][crc >> 8 & 255] ^
           tables->steps[2][crc >> 16 & 255] ^ tables->steps[3][crc >> 24];
}

/* Loads 4 bytes at any address. Reads only the aligned words that have one of them. */
SIMT uint32_t crc_load(const uint8_t *at)
{
    uint32_t shift = (uint32_t)((uintptr_t)at & 3) * 8;
    const uint8_t *aligned = at - shift / 8;
    uint32_t low = load_word(aligned);
    return shift ? funnel_right(low, load_word(aligned + 4), shift) : low;
}

/* Returns, on thread 0, the remainder of bytes[from] to bytes[end - 1], where `from` is at least 4.
 * The bytes before `inverted` count as inverted. power: the thread's crc_power(4 * (CRC_THREADS -
 * thread)). All threads of the block call it together. */
SIMT uint32_t crc_of_piece(struct crc_tables *tables, const uint8_t *bytes, uint32_t from,
                           uint32_t end, uint32_t inverted, uint32_t power)
{
    int thread = thread_index(), lane = lane_index();
    uint32_t words = (end - from + 3) / 4, rounds = (words + CRC_THREADS - 1) / CRC_THREADS;
    /* The words end at `end`, so the first may begin before `from`: zeros at the start do not
     * change the remainder. */
    int32_t before = (int32_t)(rounds * CRC_THREADS - words) - thread;
    uint32_t first = end - 4 * words, crc = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        int32_t word = (int32_t)(round * CRC_THREADS) - before;
        uint32_t value = 0;
        if (word >= 0) {
            uint32_t at = first + 4 * (uint32_t)word;
            value = crc_load(bytes + at);
            if (at < inverted)
                value ^= inverted - at >= 4 ? ~0u : ~(~0u << 8 * (inverted - at));
            if (at < from)
                value &= ~0u << 8 * (from - at);
        }
        crc = crc_step(tables, crc) ^ value;
    }
    crc = crc_multiply(crc, power);
    UNROLL
    for (int by = WARP_LANES / 2; by > 0; by /= 2)
        crc ^= warp_read_xor(crc, by);
    block_barrier();
    if (lane == 0)
        tables->sums[thread / WARP_LANES] = crc;
    block_barrier();
    crc = 0;
    for (int i = 0; thread == 0 && i < CRC_THREADS / WARP_LANES; i++)
        crc ^= tables->sums[i];
    return crc;
}
