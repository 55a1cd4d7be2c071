/*
 * Tests of gpu/jpeg/upload.h: every piece arrives, and the bytes after each piece do not change.
 * Also runs on a device.
 */
#include <cuda_runtime.h>

#include "gpu/jpeg/upload.h"
#include "tests/fixtures/test.h"

#define GUARD 64
#define ROOM (UPLOAD_PIECE_BYTES_MAX + GUARD) /* per piece */
#define PIECES 24

static cudaStream_t stream;
static uint8_t *host, *device, *back; /* PIECES times ROOM bytes each; host and back are pinned */

static int open_memory(void **state)
{
    size_t bytes = PIECES * ROOM;
    int count = 0;
    (void)state;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return 0;
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                   cudaHostAlloc((void **)&host, bytes, cudaHostAllocPortable) == cudaSuccess &&
                   cudaHostAlloc((void **)&back, bytes, cudaHostAllocPortable) == cudaSuccess &&
                   cudaMalloc((void **)&device, bytes) == cudaSuccess
               ? 0
               : -1;
}

static int close_memory(void **state)
{
    (void)state;
    if (!stream)
        return 0;
    (void)cudaFreeHost(host);
    (void)cudaFreeHost(back);
    (void)cudaFree(device);
    (void)cudaStreamDestroy(stream);
    return 0;
}

static void need_device(void)
{
    if (!stream) {
        print_message("no CUDA device\n");
        skip();
    }
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

static void copy(void *to, const void *from, enum cudaMemcpyKind kind)
{
    assert_int_equal(cudaMemcpyAsync(to, from, PIECES * ROOM, kind, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
}

/* A piece fills at most the last 16 bytes that it begins. */
static void check_piece(size_t at, size_t bytes)
{
    size_t end = (bytes + UPLOAD_ALIGN - 1) / UPLOAD_ALIGN * UPLOAD_ALIGN;
    for (size_t i = 0; i < ROOM; i++)
        if (i < bytes ? back[at + i] != pattern(at + i) : i >= end && back[at + i] != 0xA5)
            fail_msg("byte %zu of a piece of %zu bytes is %u", i, bytes, back[at + i]);
}

TEST(test_pieces_of_all_sizes)
{
    static const uint32_t sizes[] = {1, 15, 16, 17, 4095, 4096, 4097, 16383, 16384, 16385, 40000,
                                     UPLOAD_PIECE_BYTES_MAX};
    struct upload_piece pieces[PIECES];
    need_device();
    memset(back, 0xA5, PIECES * ROOM);
    copy(device, back, cudaMemcpyHostToDevice);
    for (size_t i = 0; i < PIECES * ROOM; i++)
        host[i] = pattern(i);
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct upload_piece){host + i * ROOM, device + i * ROOM,
                                          sizes[i * 5 % COUNT_OF(sizes)]};
    assert_int_equal(upload_launch(pieces, PIECES, stream), cudaSuccess);
    copy(back, device, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < PIECES; i++)
        check_piece(i * ROOM, pieces[i].bytes);
}

TEST(test_one_piece)
{
    need_device();
    struct upload_piece piece = {host, device, 100};
    memset(back, 0xA5, PIECES * ROOM);
    copy(device, back, cudaMemcpyHostToDevice);
    for (size_t i = 0; i < ROOM; i++)
        host[i] = pattern(i);
    assert_int_equal(upload_launch(&piece, 1, stream), cudaSuccess);
    copy(back, device, cudaMemcpyDeviceToHost);
    check_piece(0, 100);
    for (size_t i = ROOM; i < PIECES * ROOM; i++)
        assert_int_equal(back[i], 0xA5);
}

TEST_MAIN(.setup = open_memory, .teardown = close_memory)
