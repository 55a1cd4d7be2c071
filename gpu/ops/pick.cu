/* pick.cu - the pass of resample.h that picks the nearest pixel, on the device. A lane computes 4
 * bytes of a row. */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/resample.h"

#define WORDS 64
#define ROWS  4

struct pick_args : pass_images {
    const int32_t *columns, *rows; /* of the source, for each column and row of the result */
};

template <int C> static __global__ void __launch_bounds__(WORDS *ROWS) pick_kernel(pick_args a)
{
    await_kernel_before();
    int offset = (blockIdx.x * WORDS + threadIdx.x) * 4;
    int y = blockIdx.y * ROWS + threadIdx.y;
    if (!row_holds<uint32_t>(offset, a.width * C) || y >= a.height)
        return;
    const uint8_t *row = a.from + (size_t)__ldg(a.rows + y) * a.from_stride;
    uint32_t word = 0;
    if constexpr (C == 4) {
        word = __ldg(&word_at(row) + __ldg(a.columns + offset / 4));
    } else {
        unrolled_for (int k = 0; k < 4; k++) {
            int byte = min(offset + k, a.width * C - 1), x = byte / C;
            word |= (uint32_t)__ldg(row + (size_t)__ldg(a.columns + x) * C + (byte - x * C))
                    << (8 * k);
        }
    }
    word_at(a.to + (size_t)y * a.to_stride + offset) = word;
}

PASS_LAUNCHER(pick_cuda)
{
    pick_args args = pass_args<pick_args>(from, to);
    unsigned words = (to->width * to->channels + 3) / 4;
    dim3 blocks((words + WORDS - 1) / WORDS, (to->height + ROWS - 1) / ROWS);
    args.columns = reinterpret_cast<const int32_t *>(pass->constants);
    args.rows = args.columns + to->width;
    return by_channels(from->channels, [&](auto c) {
        return launch_kernel(pick_kernel<c>, blocks, dim3(WORDS, ROWS), 0, stream, args);
    });
}
