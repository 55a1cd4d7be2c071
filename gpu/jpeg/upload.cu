/*
 * upload.cu - the kernel of upload.h, which copies pieces of host memory to the device.
 *
 * Each row of the grid copies a piece. A read over the bus takes more than a microsecond, so each
 * thread has several reads in flight: 64 blocks of threads keep 1 MiB in flight, which is more than
 * the bus needs to reach its full rate.
 */
#include "gpu/jpeg/upload.h"

#include <assert.h>

#include "gpu/simt/simt.h"

#define THREADS 256
#define READS 4 /* per thread */
#define BLOCK_WORDS (THREADS * READS)

struct upload_args {
    struct upload_piece pieces[UPLOAD_PIECES_MAX];
};
static_assert(sizeof(struct upload_args) <= 4096, "launch arguments are limited");

KERNEL(copy_pieces, THREADS, 4, struct upload_args)
{
    const uint8_t *from = args.pieces[block_row()].from;
    words4 *to = (words4 *)args.pieces[block_row()].to;
    uint32_t count = (args.pieces[block_row()].bytes + UPLOAD_ALIGN - 1) / UPLOAD_ALIGN;
    uint32_t first = (uint32_t)block_index() * BLOCK_WORDS + (uint32_t)thread_index();
    words4 held[READS];
    UNROLL
    for (int i = 0; i < READS; i++)
        if (first + i * THREADS < count)
            held[i] = load_host4(from + (size_t)(first + i * THREADS) * UPLOAD_ALIGN);
    UNROLL
    for (int i = 0; i < READS; i++)
        if (first + i * THREADS < count)
            to[first + i * THREADS] = held[i];
}

int upload_launch(const struct upload_piece *pieces, uint32_t count, struct CUstream_st *stream)
{
    struct upload_args args;
    uint32_t most = 1;
    assert(count > 0 && count <= UPLOAD_PIECES_MAX);
    memset(&args, 0, sizeof args);
    for (uint32_t i = 0; i < count; i++) {
        assert(pieces[i].bytes <= UPLOAD_PIECE_BYTES_MAX);
        assert((uintptr_t)pieces[i].from % UPLOAD_ALIGN == 0);
        assert((uintptr_t)pieces[i].to % UPLOAD_ALIGN == 0);
        args.pieces[i] = pieces[i];
        most = pieces[i].bytes > most ? pieces[i].bytes : most;
    }
    enum { block_bytes = BLOCK_WORDS * UPLOAD_ALIGN };
    return (int)LAUNCH(copy_pieces, THREADS, dim3((most + block_bytes - 1) / block_bytes, count), 0,
                       stream, args);
}
