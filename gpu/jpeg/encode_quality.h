/*
 * encode_quality.h - how the encoder finds the quality at which a file has a given similarity to
 * its image (codecs/ssim_search.h).
 *
 * Only the Y of a file is compared, so only its blocks of Y are coded in a trial: transformed,
 * quantised, and decoded as libjpeg does. A trial needs no memory but the description, because its
 * blocks are made from the pixels each time.
 *
 * A tile of a trial is QUALITY_SIDE x QUALITY_SIDE blocks of 8 x 8 samples, one per thread. It has
 * the windows of the similarity that begin in its blocks. Those that begin in the last column or
 * row of blocks may reach into the next tile; so tiles overlap by one block, and the next tile has
 * these windows instead.
 */
#pragma once

#include "codecs/ssim_search.h"
#include "gpu/jpeg/encode_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QUALITY_SIDE    16
#define QUALITY_THREADS (QUALITY_SIDE * QUALITY_SIDE)
/* A side of a tile in blocks of the similarity, and its windows, without those in the last block;
 * the last tile has these, too. */
#define QUALITY_CELLS   (QUALITY_SIDE * (DCT_SIDE / SSIM_BLOCK))
#define QUALITY_WINDOWS (QUALITY_CELLS - 2)
/* encode_descriptor.cells_used of an image that the device declines: more than any image has. */
#define CELLS_DECLINED 0x80000000u

/* The search of an image. */
struct encode_search {
    struct ssim_search start, now; /* before the first trial, and after the last one */
    int first_quality;             /* of the first trial */
    int quality;                   /* of the next trial; 0: the search has ended */
    uint32_t image;                /* the index of its descriptor */
    uint32_t tables;               /* of quantisers: 1 of gray, 2 of colour */
    uint32_t windows_across, windows_down;
    uint32_t tiles_across, tile_count;
    uint8_t *quants[2]; /* the values of the tables in the header */
    uint32_t *found_quality, *found_ssim;
    /* Of a trial, and zero between two trials: the tiles that have ended; the sum of the
     * similarities of their windows, in two words; and whether a sample is so far outside of its
     * range that versions of libjpeg decode it differently (idct.h). */
    uint32_t tiles_ended, sum_low, sum_high, is_unlike;
};

/* Fills the search and its chunks of tiles for an image with the descriptor of this index. Returns
 * the number of chunks; search NULL: only that. */
uint32_t encode_search_describe(const struct jpeg_encode_image *image, uint32_t descriptor,
                                uint32_t index, struct encode_search *search,
                                struct encode_chunk *chunks);
/* The most trials that the search of the image can take. */
uint32_t encode_search_trials(const struct jpeg_encode_image *image);
/* Enqueues the searches of a batch before its encoding. Returns a cudaError_t. */
int encode_search_launch(const struct jpeg_encode_batch *batch, uint8_t *description,
                         struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
