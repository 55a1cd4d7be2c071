/*
 * tensor.cu - the pass of tensor.h on the device.
 *
 * A thread writes 16 bytes of the tensor, which has no rows to align, so all stores of a warp are
 * adjacent. It reads single values of the image, which may start at any byte, through the cache,
 * and so the tables of at most 4 KiB.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/tensor.h"

#define THREADS 256

struct tensor_args {
    const uint8_t *from, *table;
    uint8_t *to;
    size_t from_stride, count; /* count: of numbers */
    uint32_t width, height, pixels;
    int from_channels, channels;
};

/* The place of a number of the tensor in the image. */
struct tensor_place {
    uint32_t x, y;
    int c;
};

template <bool PLANAR> SIMT tensor_place tensor_find(const tensor_args &a, size_t at)
{
    tensor_place place = {0, 0, 0};
    if (PLANAR) {
        for (; at >= a.pixels; at -= a.pixels)
            place.c++;
    } else {
        size_t pixel = at / (unsigned)a.channels;
        place.c = (int)(at - pixel * (unsigned)a.channels);
        at = pixel;
    }
    place.y = (uint32_t)at / a.width;
    place.x = (uint32_t)at - place.y * a.width;
    return place;
}

template <bool PLANAR> SIMT void tensor_next(const tensor_args &a, tensor_place *place)
{
    if (!PLANAR && ++place->c < a.channels)
        return;
    if (!PLANAR)
        place->c = 0;
    if (++place->x < a.width)
        return;
    place->x = 0;
    if (++place->y < a.height || !PLANAR)
        return;
    place->y = 0;
    place->c++;
}

/* A number as it is stored. Bytes are the values themselves. */
template <typename Number>
SIMT Number tensor_number(const tensor_args &a, const tensor_place &place)
{
    const uint8_t *row = a.from + place.y * a.from_stride;
    size_t column = (size_t)place.x * (unsigned)a.from_channels;
    uint8_t value = __ldg(row + column + tensor_source(place.c, a.from_channels));
    if constexpr (sizeof(Number) == 1)
        return value;
    else
        return __ldg(reinterpret_cast<const Number *>(a.table) + place.c * TENSOR_VALUES + value);
}

template <typename Number, bool PLANAR, int N>
static __global__ void __launch_bounds__(THREADS)
    tensor_kernel(const __grid_constant__ several<tensor_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const tensor_args &a = several_own(all);
    constexpr int numbers = 16 / sizeof(Number), in_word = 4 / sizeof(Number);
    size_t first = ((size_t)blockIdx.x * THREADS + threadIdx.x) * numbers;
    if (first >= a.count)
        return;
    tensor_place place = tensor_find<PLANAR>(a, first);
    Number *to = reinterpret_cast<Number *>(a.to) + first;
    if (a.count - first < numbers) {
        for (size_t i = 0; i < a.count - first; i++) {
            to[i] = tensor_number<Number>(a, place);
            tensor_next<PLANAR>(a, &place);
        }
        return;
    }
    uint32_t words[4] = {0, 0, 0, 0};
    unrolled_for (int i = 0; i < numbers; i++) {
        words[i / in_word] |= (uint32_t)tensor_number<Number>(a, place)
                              << (i % in_word * 8 * (int)sizeof(Number));
        tensor_next<PLANAR>(a, &place);
    }
    piece_at(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

static dim3 tensor_describe(const struct pass_call &call, tensor_args *a)
{
    const struct tensor *own = reinterpret_cast<const struct tensor *>(call.pass->params);
    a->from = call.from.pixels;
    a->from_stride = call.from.stride;
    a->table = call.pass->constants;
    a->to = call.to.pixels;
    a->width = call.from.width;
    a->height = call.from.height;
    a->pixels = a->width * a->height; /* at most PIXELS_CEILING */
    a->from_channels = (int)call.from.channels;
    a->channels = (int)call.to.channels;
    a->count = (size_t)a->pixels * call.to.channels;
    size_t pieces = (a->count * tensor_number_bytes(own->type) + 15) / 16;
    return dim3((unsigned)((pieces + THREADS - 1) / THREADS), 1);
}

template <typename Number, bool PLANAR>
static cudaError_t tensor_launch(const struct pass_call *calls, uint32_t count, cudaStream_t stream)
{
    return launch_several<tensor_args>(
        calls, count, tensor_describe, [&](const auto &all, dim3 grid) {
            constexpr int several_images = sizeof(all.of) / sizeof(all.of[0]);
            return launch_kernel(tensor_kernel<Number, PLANAR, several_images>, grid, THREADS, 0,
                                 stream, all);
        });
}

template <typename Number>
static cudaError_t tensor_launch(const struct pass_call *calls, uint32_t count, bool planar,
                                 cudaStream_t stream)
{
    return planar ? tensor_launch<Number, true>(calls, count, stream)
                  : tensor_launch<Number, false>(calls, count, stream);
}

PASS_LAUNCHER_MANY(tensor_cuda)
{
    const struct tensor *own = reinterpret_cast<const struct tensor *>(calls->pass->params);
    bool planar = own->layout == TENSOR_CHW;
    return own->type == TENSOR_U8    ? tensor_launch<uint8_t>(calls, count, planar, stream)
           : own->type == TENSOR_F16 ? tensor_launch<uint16_t>(calls, count, planar, stream)
                                     : tensor_launch<uint32_t>(calls, count, planar, stream);
}
