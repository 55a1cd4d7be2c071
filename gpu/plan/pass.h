/*
 * pass.h - one kernel with its parameters and geometry; private to gpu.
 *
 * A chain of passes leads from the decoded image to one result. Each reads one image and writes
 * another that does not overlap it, in the buffers that the plan has laid out. A pass may write
 * the padding between the end of a row and the stride, and never reads meaning into it. What it
 * reads may be a rectangle of a larger image (a crop costs nothing): rows are `stride` apart and
 * begin STRIDE_ALIGNed, but behind a row's end lie other pixels. Only pass_orient also takes
 * rectangles that begin at any byte.
 *
 * A pass may also give values. Its work space then lies in the output buffer, comes back with the
 * pictures, and is turned into JSON at the end. One that only looks at its image writes none: the
 * next pass reads what it has read.
 *
 * Passes may lead aside, to an image that only a last one there looks at: the next pass then reads
 * what the first of them has read. Those last ones may have their images, all of the same small
 * shape, stacked one above the other, over all variants of the plan: then the last of them all
 * looks at the whole stack at once, and the others are deferred to it. And where several tasks
 * share a stream, a type may have a launcher for the passes of all of them.
 */
#ifndef GPUIMGD_GPU_PLAN_PASS_H
#define GPUIMGD_GPU_PLAN_PASS_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "codecs/image.h"
#include "conf/status.h"
#include "gpu/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest parameters are a 15 x 15 matrix of 32 bits a weight and a table of 256 bytes. */
#define PASS_PARAMS_BYTES_MAX 1184

struct CUstream_st;
struct pass;

/* work: pass->work_bytes of memory that nobody else uses, BUFFER_ALIGNed. One that does more than
 * read or write each pixel once asks now and then whether it is late, and returns where it is: the
 * largest images (and what lies between the two passes of a resize is larger still) take longer
 * than a worker may hang. */
typedef void pass_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work);
/* Pixels and work are in device memory. Returns a cudaError_t. */
typedef int pass_cuda(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work, struct CUstream_st *stream);

/* A pass and its addresses, as a launcher takes them. */
struct pass_call {
    const struct pass *pass;
    struct image from, to;
    uint8_t *work;
};
/* Passes of one type and of different tasks, 1 to BATCH_TASKS_MAX, in one launch. */
typedef int pass_cuda_many(const struct pass_call *calls, uint32_t count,
                           struct CUstream_st *stream);

/* What the pass left in its work space, copied back to host memory; NULL when memory is short. */
typedef cJSON *pass_values(const struct pass *pass, const uint8_t *work);
/* Writes the tables of a pass, which depend on its params alone, over zeros. */
typedef void pass_fill(const struct pass *pass, uint8_t *constants);

struct pass_type {
    const char *name;
    pass_cpu *cpu;
    pass_cuda *cuda;           /* NULL in a build without CUDA */
    pass_cuda_many *cuda_many; /* NULL: each has a launch of its own */
};

#ifdef GPUIMGD_CUDA
#define PASS_CUDA_MANY(function, many) function, many
#else
#define PASS_CUDA_MANY(function, many) NULL, NULL
#endif
#define PASS_CUDA(function) PASS_CUDA_MANY(function, NULL)

struct pass_shape {
    uint32_t width, height, channels;
};

static inline size_t pass_shape_bytes(struct pass_shape shape)
{
    return image_bytes(shape.width, shape.height, shape.channels);
}

enum pass_buffer { PASS_INPUT, PASS_OUTPUT, PASS_SCRATCH };

struct pass_place {
    enum pass_buffer buffer;
    size_t offset; /* bytes, BUFFER_ALIGNed */
};

/* The stored image whose rectangle a pass reads: its sides, and where the rectangle begins. */
struct pass_window {
    uint32_t width, height, x, y;
};

struct pass {
    const struct pass_type *type;
    struct pass_shape from, to; /* from: the rectangle */
    struct pass_window window;
    struct pass_place from_place, to_place, work_place;
    size_t work_bytes;
    pass_values *values; /* NULL: it gives none */
    bool looks;          /* `to` is `from`, and it writes nothing but its work space */
    bool aside;          /* what it reads or writes is not the chain's, but beside it */
    bool stacked;        /* it looks at an image of the stack; if not deferred, at all of it */
    bool deferred;       /* the last stacked pass does its work; its values are at work_place */
    size_t constants_at, constants_bytes; /* from plan->constants_at on */
    pass_fill *fill;          /* writes them; NULL: there are none */
    const uint8_t *constants; /* set by pass_bind: where they are for the engine at work */
    uint64_t deadline_ns;     /* set by the CPU engine; CLOCK_MONOTONIC, 0 = none */
    alignas(8) unsigned char params[PASS_PARAMS_BYTES_MAX]; /* the type's own struct */
};

/* Where the three buffers of a plan are, in the memory that the engine computes in. */
struct pass_buffers {
    uint8_t *input, *output, *scratch;
};

/* The pass as an engine runs it: itself, or, where it has constants, a copy that knows where they
 * lie in these buffers. */
static inline const struct pass *pass_bind(const struct pass *pass, const struct plan *plan,
                                           const struct pass_buffers *buffers, struct pass *bound)
{
    if (pass->constants_bytes == 0)
        return pass;
    *bound = *pass;
    bound->constants = buffers->input + plan->constants_at + pass->constants_at;
    return bound;
}

static inline uint8_t *pass_address(const struct pass_buffers *buffers, struct pass_place place)
{
    uint8_t *base = place.buffer == PASS_INPUT    ? buffers->input
                    : place.buffer == PASS_OUTPUT ? buffers->output
                                                  : buffers->scratch;
    return base + place.offset;
}

static inline struct image pass_view(uint8_t *pixels, struct pass_shape shape)
{
    struct image view;
    view.pixels = pixels;
    view.width = shape.width;
    view.height = shape.height;
    view.channels = shape.channels;
    view.stride = image_stride(shape.width, shape.channels);
    return view;
}

static inline struct pass_window pass_window_whole(struct pass_shape shape)
{
    struct pass_window window;
    window.width = shape.width;
    window.height = shape.height;
    window.x = window.y = 0;
    return window;
}

/* A rectangle of `shape` in the image that is stored at `pixels`. */
static inline struct image pass_view_window(uint8_t *pixels, struct pass_shape shape,
                                            struct pass_window window)
{
    struct image view = pass_view(pixels, shape);
    view.stride = image_stride(window.width, shape.channels);
    view.pixels += window.y * view.stride + (size_t)window.x * shape.channels;
    return view;
}

/* What a pass reads and writes. */
static inline struct image pass_from(const struct pass *pass, const struct pass_buffers *buffers)
{
    return pass_view_window(pass_address(buffers, pass->from_place), pass->from, pass->window);
}

static inline struct image pass_to(const struct pass *pass, const struct pass_buffers *buffers)
{
    return pass_view(pass_address(buffers, pass->to_place), pass->to);
}

#ifdef __cplusplus
}
#endif
#endif
