/*
 * upload.h - copies pieces of pinned host memory to a device with one launch.
 *
 * A call of cudaMemcpyAsync costs the host 2 to 3 us, as long as the bus takes for 100 KiB. The
 * kernel reads the host's memory over the bus instead.
 */
#pragma once

#include <stdint.h>

#include "conf/limits.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* The pieces are launch arguments, which may have 4 KiB. */
#define UPLOAD_PIECES_MAX 160
/* Larger pieces are for a copy engine: it reads faster, and needs no multiprocessors. */
#define UPLOAD_PIECE_BYTES_MAX (64 * KIB)
#define UPLOAD_ALIGN 16

struct upload_piece {
    const uint8_t *from; /* pinned memory; multiple of UPLOAD_ALIGN, also the next member */
    uint8_t *to;         /* device memory */
    uint32_t bytes;      /* Both sides must extend to the next multiple of UPLOAD_ALIGN. */
};

/* Enqueues the copies of 1 to UPLOAD_PIECES_MAX pieces of at most UPLOAD_PIECE_BYTES_MAX bytes.
 * Copies the list. Returns a cudaError_t. */
int upload_launch(const struct upload_piece *pieces, uint32_t count,
                  struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
