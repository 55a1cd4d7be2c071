/*
 * pass.h - one kernel with its parameters and geometry; private to gpu.
 *
 * A chain of passes leads from the decoded image to one result. Each reads one image and writes
 * another that does not overlap it, in the buffers that the plan has laid out. A pass may write
 * the padding between the end of a row and the stride, and never reads meaning into it.
 *
 * A pass may also give values. Its work space then lies in the output buffer, comes back with the
 * pictures, and is turned into JSON at the end. One that only looks at its image writes none: the
 * next pass reads what it has read.
 */
#ifndef GPUIMGD_GPU_PASS_H
#define GPUIMGD_GPU_PASS_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "codecs/image.h"
#include "conf/status.h"
#include "gpu/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest parameters are a 15 x 15 matrix of floats. */
#define PASS_PARAMS_BYTES_MAX 1024

struct CUstream_st;
struct pass;

/* work: pass->work_bytes of memory that nobody else uses, BUFFER_ALIGNed. */
typedef void pass_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work);
/* Pixels and work are in device memory. Returns a cudaError_t. */
typedef int pass_cuda(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work, struct CUstream_st *stream);

/* What the pass left in its work space, copied back to host memory; NULL when memory is short. */
typedef cJSON *pass_values(const struct pass *pass, const uint8_t *work);

struct pass_type {
    const char *name;
    pass_cpu *cpu;
    pass_cuda *cuda; /* NULL in a build without CUDA */
};

#ifdef GPUIMGD_CUDA
#define PASS_CUDA(function) function
#else
#define PASS_CUDA(function) NULL
#endif

struct pass_shape {
    uint32_t width, height, channels;
};

enum pass_buffer { PASS_INPUT, PASS_OUTPUT, PASS_SCRATCH };

struct pass_place {
    enum pass_buffer buffer;
    size_t offset; /* bytes, BUFFER_ALIGNed */
};

struct pass {
    const struct pass_type *type;
    struct pass_shape from, to;
    struct pass_place from_place, to_place, work_place;
    size_t work_bytes;
    pass_values *values; /* NULL: it gives none */
    bool looks;          /* `to` is `from`, and it writes nothing but its work space */
    alignas(8) unsigned char params[PASS_PARAMS_BYTES_MAX]; /* the type's own struct */
};

/* Where the three buffers of a plan are, in the memory that the engine computes in. */
struct pass_buffers {
    uint8_t *input, *output, *scratch;
};

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

/* ---- chains: what operations build ---- */

/* A chain under construction. */
struct chain {
    struct pass *passes;
    uint32_t count, capacity;
    struct pass_shape shape;         /* of what the last pass gives */
    const uint8_t *background;       /* under alpha, RGB */
};

/* The last pass if it is of this type, so that a neighbour can take its work over; else NULL. */
struct pass *chain_last(const struct chain *chain, const struct pass_type *type);
/* Takes the last pass off; the chain's shape is again what that pass read. */
void chain_drop(struct chain *chain);
/* Appends a pass that turns the chain's shape into `to`, with a copy of params. work_bytes may
 * be set in the returned pass. */
struct pass *chain_add(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                       const void *params, size_t params_bytes);
/* Appends a pass that only looks, for values in work_bytes. */
struct pass *chain_look(struct chain *chain, const struct pass_type *type, const void *params,
                        size_t params_bytes, size_t work_bytes, pass_values *values);

#ifdef __cplusplus
}
#endif
#endif
