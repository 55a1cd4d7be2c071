/*
 * png_library.h - a picture to PNG and back by the codec of codecs/, by libpng and by libspng, and
 * what is in any PNG, the deflate of filtered rows, by zlib and libdeflate.
 *
 * All work on memory, with buffers that are reused, on one thread. What fails ends the program.
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

/* Ends the program, naming what failed, unless it is good. */
void need(bool good, const char *what);
void bytes_reserve(struct bytes *bytes, size_t capacity);
void bytes_append(struct bytes *to, const void *bytes, size_t count);
/* CPU time of this thread so far, in seconds. */
double thread_cpu_s(void);

/* Before all that follows. */
void library_open(void);

/* What they return is overwritten by the next call. level, filters and strategy: as zlib and libpng
 * number them; strategy -1 is libpng's own choice. */
const struct bytes *encode_codec(const struct picture *picture, int level);
const struct bytes *encode_libpng(const struct picture *picture, int level, int filters,
                                  int strategy);
void decode_codec(const struct picture *picture);
void decode_libpng(const struct picture *picture);
#ifdef HAVE_SPNG
/* filters: as libspng numbers them. */
const struct bytes *encode_spng(const struct picture *picture, int level, int filters);
void decode_spng(const struct picture *picture);
#endif

/* Only the deflate of the picture's filtered rows, and the inflate of its IDATs. */
const struct bytes *encode_zlib(const struct picture *picture, int level);
void decode_zlib(const struct picture *picture);
#ifdef HAVE_LIBDEFLATE
const struct bytes *encode_libdeflate(const struct picture *picture, int level);
void decode_libdeflate(const struct picture *picture);
#endif

#endif
