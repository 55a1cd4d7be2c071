#include "codecs/png/adler.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define MODULUS 65521
#define SIMD    __attribute__((target("ssse3"))) static

/* Bytes between two divisions: fewer than zlib's 5552, with which sums of 32 bits do not overflow.
 */
enum { block_bytes = 32, run_bytes = 173 * block_bytes };

SIMD uint32_t sum_of(__m128i four)
{
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(2, 3, 0, 1)));
    return (uint32_t)_mm_cvtsi128_si32(four);
}

/* Adds whole blocks, at most run_bytes. The second sum counts a byte once for each byte from it on:
 * 32 to 1 times within its block, and all earlier bytes 32 times per block. */
SIMD void add_blocks(uint32_t *a, uint32_t *b, const uint8_t *bytes, size_t count)
{
    const __m128i zero = _mm_setzero_si128(), ones = _mm_set1_epi16(1);
    const __m128i high =
                      _mm_setr_epi8(32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17),
                  low = _mm_setr_epi8(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    __m128i first = zero, second = zero, earlier = zero;
    for (size_t i = 0; i < count; i += block_bytes) {
        __m128i x = _mm_loadu_si128((const __m128i *)(bytes + i)),
                y = _mm_loadu_si128((const __m128i *)(bytes + i + 16));
        earlier = _mm_add_epi32(earlier, first);
        first = _mm_add_epi32(first, _mm_add_epi32(_mm_sad_epu8(x, zero), _mm_sad_epu8(y, zero)));
        second = _mm_add_epi32(second, _mm_madd_epi16(_mm_maddubs_epi16(x, high), ones));
        second = _mm_add_epi32(second, _mm_madd_epi16(_mm_maddubs_epi16(y, low), ones));
    }
    *b = (uint32_t)((*b + (uint64_t)*a * count + (uint64_t)block_bytes * sum_of(earlier) +
                     sum_of(second)) %
                    MODULUS);
    *a = (*a + sum_of(first)) % MODULUS;
}

static uint32_t add_all_blocks(uint32_t checksum, const uint8_t *bytes, size_t count)
{
    uint32_t a = checksum & 0xFFFF, b = checksum >> 16;
    for (size_t run; count > 0; bytes += run, count -= run) {
        run = count < run_bytes ? count : run_bytes;
        add_blocks(&a, &b, bytes, run);
    }
    return b << 16 | a;
}
#endif

uint32_t adler_add(uint32_t checksum, const uint8_t *bytes, size_t count)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("ssse3")) {
        size_t blocks = count / block_bytes * block_bytes;
        checksum = add_all_blocks(checksum, bytes, blocks);
        bytes += blocks;
        count -= blocks;
    }
#endif
    return (uint32_t)adler32(checksum, bytes, (uInt)count);
}
