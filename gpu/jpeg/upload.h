/*
 * upload.h - copies many small pieces of pinned host memory to a device with one kernel launch.
 *
 * A call of cudaMemcpyAsync costs the host 2 to 3 us, as long as the bus takes for 100 KiB. The
 * kernel reads all pieces from the host's memory over the bus.
 */
#pragma once

#include <stdint.h>

#include "conf/limits.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Pieces per launch, at most: the list is passed as a launch argument, which may have 4 KiB. */
#define UPLOAD_PIECES_MAX 160
/* The largest piece. The caller copies larger ones with cudaMemcpyAsync. */
#define UPLOAD_PIECE_BYTES_MAX (256 * KIB)
#define UPLOAD_ALIGN 16

struct upload_piece {
    const uint8_t *from; /* pinned memory, aligned to UPLOAD_ALIGN */
    uint8_t *to;         /* device memory, aligned to UPLOAD_ALIGN */
    uint32_t bytes;      /* The kernel rounds it up to a multiple of UPLOAD_ALIGN, so `from` must be
                            readable, and `to` writable, up to there. */
};

/* Enqueues the copies of 1 to UPLOAD_PIECES_MAX pieces of at most UPLOAD_PIECE_BYTES_MAX bytes
 * each. The array may be freed after the call. Returns a cudaError_t. */
int upload_launch(const struct upload_piece *pieces, uint32_t count,
                  struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
