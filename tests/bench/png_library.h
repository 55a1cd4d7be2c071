/*
 * png_library.h - encodes and decodes PNG with the codec of codecs/, libpng and libspng, and
 * deflates filtered rows with zlib and libdeflate.
 *
 * Everything runs in memory, on one thread, with reused buffers. An error ends the program.
 */
#ifndef GPUIMGD_TESTS_BENCH_PNG_LIBRARY_H
#define GPUIMGD_TESTS_BENCH_PNG_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct picture;

struct bytes {
    uint8_t *at;
    size_t used, capacity;
};

/* If `good` is false, ends the program that `what` failed. */
void need(bool good, const char *what);
void bytes_reserve(struct bytes *bytes, size_t capacity);
void bytes_append(struct bytes *to, const void *bytes, size_t count);

/* Must be called before the functions below. */
void library_open(void);

/* The next call overwrites the returned bytes. level, filters and strategy have the values of zlib
 * and libpng; strategy -1 lets libpng choose. */
const struct bytes *encode_codec(const struct picture *picture, int level);
const struct bytes *encode_libpng(const struct picture *picture, int level, int filters,
                                  int strategy);
void decode_codec(const struct picture *picture);
void decode_libpng(const struct picture *picture);
#ifdef HAVE_SPNG
/* filters has the values of libspng. */
const struct bytes *encode_spng(const struct picture *picture, int level, int filters);
void decode_spng(const struct picture *picture);
#endif

/* Deflates the filtered rows of the image, and inflates its IDAT chunks. */
const struct bytes *encode_zlib(const struct picture *picture, int level);
void decode_zlib(const struct picture *picture);
#ifdef HAVE_LIBDEFLATE
const struct bytes *encode_libdeflate(const struct picture *picture, int level);
void decode_libdeflate(const struct picture *picture);
#endif

#endif
