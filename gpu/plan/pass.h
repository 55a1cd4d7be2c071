/*
 * pass.h - a pass: one kernel with its parameters and its geometry; private to gpu.
 *
 * A plan has one chain of passes per output. The first pass of a chain reads the decoded image.
 * Each pass reads one image and writes another, which does not overlap the first. Both are in the
 * plan's buffers. codecs/image.h has the rule for the padding of rows.
 *
 * The input of a pass may be a rectangle of a larger image, so that a crop costs nothing. The rows
 * of the rectangle are `stride` bytes apart, and start at addresses that are multiples of
 * STRIDE_ALIGN. The bytes after the end of a row belong to other pixels. Only the passes orient,
 * pad and rotate, and those of deep images, also accept rows at any address. They load aligned
 * units, which may begin before the row, but always contain a byte of it.
 *
 * A pass may return values. It writes them to its work space, which is then in the output buffer,
 * is downloaded with the results, and is converted to JSON at the end. A pass that only computes
 * values (`looks`) writes no image: the next pass reads the same input.
 *
 * Passes may form a branch (chain_leave), which ends with a pass that only computes values. For
 * example, phash shrinks a copy of the image and hashes it. The pass after the branch reads the
 * same image as the first pass of the branch. The final passes of branches may be stacked: their
 * small images have the same shape, and are stored one after the other for the whole plan. The last
 * stacked pass of the plan processes all of them in one launch. The others are deferred: they do
 * nothing.
 *
 * The last pass of a chain may make a tensor (gpu/ops/tensor.h). Its result has the shape of an
 * image, but other bytes: pass.tensor_bytes in C order, without padding.
 *
 * If the chains of several variants start with the same passes, only the first of these variants
 * runs them (share.c). The others have the same passes, with the same places, but skip them
 * (pass.same). So orientation, for example, is applied once per job.
 *
 * If several tasks share a stream, one kernel launch can run one pass of each task, if all these
 * passes have the same type (pass_cuda_many) and small images, or are of a type that can run
 * jointly. One launch can also run passes of several variants of a task, with images of any size:
 * the joint passes (plan_variant.joint), which follow the shared ones. So they read the same image
 * together. The CPU engine also runs them together, and a pass with the next pass of its chain
 * (pass.leads).
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "codecs/image.h"
#include "conf/clock.h"
#include "conf/status.h"
#include "gpu/plan/plan.h"

/* The largest parameters: a 15 x 15 matrix of 32-bit weights and a table of 256 bytes. */
#define PASS_PARAMS_BYTES_MAX 1184

struct CUstream_st;
struct pass;

/* Computes the pass on the CPU. work: pass->work_bytes of memory, aligned to BUFFER_ALIGN. A pass
 * that does more than read or write each pixel once must call pass_is_late from time to time, and
 * return if it is late. Otherwise a pass on a very large image could exceed a worker's time
 * limit. */
typedef void pass_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work);
/* The head of the definition of a pass_cpu function, whose parameters may be unused. */
#define PASS_LOOP(name)                                                                            \
    static void name(__attribute__((unused)) const struct pass *pass, const struct image *from,    \
                     __attribute__((unused)) const struct image *to,                               \
                     __attribute__((unused)) uint8_t *work)
/* Enqueues the kernel. Pixels and work are in device memory. Returns a cudaError_t. */
typedef int pass_cuda(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work, struct CUstream_st *stream);

/* A pass with the addresses of its images, for a pass_cuda_many function. */
struct pass_call {
    const struct pass *pass;
    struct image from, to;
    uint8_t *work;
};
/* As pass_cuda, for 1 to PASSES_SHARED_MAX passes of one type that are independent of each other,
 * in one launch. Their images may have different sizes, but have as many channels, and the first
 * shared_params bytes of their params are equal. If the function fails, it may have enqueued some
 * of the passes; the caller may enqueue all of them again. */
typedef int pass_cuda_many(const struct pass_call *calls, uint32_t count,
                           struct CUstream_st *stream);
/* Limited by the launch arguments, which contain the images and may have 4 KiB. */
#define PASSES_SHARED_MAX 32
/* A pass on an image with more pixels gets its own launch: it runs longer than a launch takes. This
 * does not apply to joint passes. */
#define PASS_SHARED_PIXELS (1u << 20)
/* The results of a launch for several tasks are at most this large, so that the next launch finds
 * them in the L2 cache of a large device. */
#define PASSES_SHARED_BYTES ((size_t)32 << 20)

/* Runs passes of one or several chains on the CPU. A pass that `leads` is followed by the next pass
 * of its chain; otherwise the passes do not depend on each other. The image between two passes need
 * not be written. */
typedef void pass_cpu_joint(const struct pass_call *calls, uint32_t count);

/* Converts the values in the work space, in host memory, to JSON. NULL: out of memory. */
typedef cJSON *pass_values(const struct pass *pass, const uint8_t *work);
/* Writes the tables of a pass, which depend only on its params, to zeroed memory. */
typedef void pass_fill(const struct pass *pass, uint8_t *constants);

/* The code of a pass. */
struct pass_type {
    const char *name;
    pass_cpu *cpu;
    /* One of these two is set; none if gpuimgd is built without CUDA. */
    pass_cuda *cuda;
    pass_cuda_many *cuda_many;
    size_t shared_params; /* for cuda_many, in bytes: see there */
    pass_cpu_joint *cpu_joint; /* NULL: cannot be a joint pass: see above. Not NULL: has cuda_many,
                                  too. */
};

/* The last members of a pass_type's initializer. */
#ifdef GPUIMGD_CUDA
#define PASS_CUDA(function)                    function, NULL, 0, NULL
#define PASS_CUDA_MANY(function, bytes)        NULL, function, bytes, NULL
#define PASS_JOINT(cpu_joint, function, bytes) NULL, function, bytes, cpu_joint
#else
#define PASS_CUDA(function)                    NULL, NULL, 0, NULL
#define PASS_CUDA_MANY(function, bytes)        NULL, NULL, bytes, NULL
#define PASS_JOINT(cpu_joint, function, bytes) NULL, NULL, bytes, cpu_joint
#endif

struct pass_shape {
    uint32_t width, height, channels;
};

static inline size_t pass_shape_bytes(struct pass_shape shape)
{
    return image_bytes(shape.width, shape.height, shape.channels);
}

/* The shape of the decoded image: smaller than the image in the file if it was decoded at M/8. */
static inline struct pass_shape plan_source_shape(const struct plan_source *source)
{
    return (struct pass_shape){image_scaled(source->width, source->eighths),
                               image_scaled(source->height, source->eighths), source->channels};
}

enum pass_buffer { PASS_INPUT, PASS_OUTPUT, PASS_SCRATCH };

struct pass_place {
    enum pass_buffer buffer;
    size_t offset; /* in bytes, a multiple of BUFFER_ALIGN */
};

/* The size of the stored image that contains the input of a pass, and the position of the input in
 * it. */
struct pass_window {
    uint32_t width, height, x, y;
};

struct pass {
    const struct pass_type *type;
    struct pass_shape from, to; /* of the input and of the result */
    size_t tensor_bytes; /* the result is a tensor of this size, without stride; 0: an image */
    size_t to_bytes; /* of memory for the result, unless it is an output: at least the image's */
    struct pass_window window;
    struct image_part reads; /* the part of the input that influences the result */
    struct pass_place from_place, to_place, work_place;
    unsigned slot; /* for layout.c: the part of the scratch buffer that has the result */
    uint8_t result_of; /* the number, from 1, of the variant whose result this pass writes; 0: none.
                          The result of a shared pass can be that of several variants; this is the
                          first of them. */
    size_t work_bytes;
    pass_values *values; /* NULL: no values */
    bool looks;          /* writes no image, only its work space; `to` equals `from` */
    bool leads;          /* type->cpu_joint runs it together with the next pass */
    bool aside;          /* belongs to a branch */
    bool stacked;        /* a final pass of a branch whose image is in the stack: see above */
    bool deferred;       /* does nothing: the plan's last stacked pass writes this pass's values to
                            work_place */
    const struct pass *same; /* of an earlier variant: it computes the same, so this pass does
                                nothing, and has the same places; NULL: none */
    bool shared;             /* is pass.same of other passes */
    bool kept;               /* other variants read the result: it is in memory of its own */
    bool alone;              /* never shared: `params` refer to memory of the variant */
    size_t constants_at, constants_bytes; /* offset from plan->constants_at */
    pass_fill *fill;          /* writes the constants; NULL: none */
    const uint8_t *constants; /* address for the running engine; set by pass_bind */
    uint64_t deadline_ns;     /* CLOCK_MONOTONIC, 0: none; set by the CPU engine */
    alignas(8) unsigned char params[PASS_PARAMS_BYTES_MAX]; /* The type's own struct. Passes are the
                                   same if these bytes are, so all must be set: it has no padding,
                                   and what is not used is 0. */
};

/* Whether an engine runs the pass. */
static inline bool pass_runs(const struct pass *pass)
{
    return !pass->deferred && !pass->same;
}

/* An engine runs the passes of a plan in three phases. PHASE_EARLY has shared passes, whose results
 * the joint passes read. In each phase, variants and their passes run in order; joint passes of
 * several variants may run together. */
enum plan_phase { PHASE_EARLY, PHASE_JOINT, PHASE_REST, PHASES };

/* The index of the variant's first pass in the phase, and the index after the last one. */
static inline uint32_t phase_begin(const struct plan_variant *variant, enum plan_phase phase)
{
    return phase == PHASE_EARLY   ? 0
           : phase == PHASE_JOINT ? variant->early
                                  : variant->early + variant->joint;
}

static inline uint32_t phase_end(const struct plan_variant *variant, enum plan_phase phase)
{
    return phase == PHASE_REST ? variant->pass_count
                               : phase_begin(variant, (enum plan_phase)(phase + 1));
}

/* Enqueues one pass. Returns a cudaError_t. */
static inline int pass_launch(const struct pass_call *call, struct CUstream_st *stream)
{
    const struct pass_type *type = call->pass->type;
    return type->cuda_many ? type->cuda_many(call, 1, stream)
                           : type->cuda(call->pass, &call->from, &call->to, call->work, stream);
}

/* Whether the deadline of the pass's task has passed. */
static inline bool pass_is_late(const struct pass *pass)
{
    return pass->deadline_ns && clock_now_ns() > pass->deadline_ns;
}

/* Number of rows between two reads of the clock. */
#define PASS_ROWS_PER_LOOK 16

/* As pass_is_late, for a pass that calls it before each row y. */
static inline bool pass_is_late_at(const struct pass *pass, uint32_t y)
{
    return y % PASS_ROWS_PER_LOOK == 0 && pass_is_late(pass);
}

/* Number of passes that write images, without those of branches. */
static inline uint32_t pass_writers(const struct pass *passes, uint32_t count)
{
    uint32_t writers = 0;
    for (uint32_t p = 0; p < count; p++)
        writers += !passes[p].looks && !passes[p].aside;
    return writers;
}

/* The last pass that writes an image of the chain itself, not of a branch; NULL: none. */
static inline struct pass *pass_last_writer(struct pass *passes, uint32_t count)
{
    while (count > 0 && (passes[count - 1].looks || passes[count - 1].aside))
        count--;
    return count > 0 ? &passes[count - 1] : NULL;
}

/* share.c: finds the passes that variants share, and the joint ones. */
void plan_share(struct plan *plan);
/* layout.c: gives all images and values of the plan their places in the buffers, and sets the sizes
 * of the buffers. */
void plan_lay_out(struct plan *plan);

/* The three buffers of a plan, in the memory of the engine that runs it. */
struct pass_buffers {
    uint8_t *input, *output, *scratch;
};

/* Returns the pass for an engine to run: the pass itself, or if it has constants *bound, a copy
 * with their address. */
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
    struct image view = {pixels, shape.width, shape.height, shape.channels,
                         image_stride(shape.width, shape.channels)};
    return view;
}

/* The bytes that the pass writes to its result. */
static inline size_t pass_written_bytes(const struct pass *pass)
{
    return pass->tensor_bytes ? pass->tensor_bytes : pass_shape_bytes(pass->to);
}

static inline struct pass_window pass_window_whole(struct pass_shape shape)
{
    struct pass_window window = {shape.width, shape.height, 0, 0};
    return window;
}

/* A rectangle of this shape in the image that is stored at `pixels`. */
static inline struct image pass_view_window(uint8_t *pixels, struct pass_shape shape,
                                            struct pass_window window)
{
    struct image view = pass_view(pixels, shape);
    view.stride = image_stride(window.width, shape.channels);
    view.pixels += window.y * view.stride + (size_t)window.x * shape.channels;
    return view;
}

/* The input and the output of a pass. */
static inline struct image pass_from(const struct pass *pass, const struct pass_buffers *buffers)
{
    return pass_view_window(pass_address(buffers, pass->from_place), pass->from, pass->window);
}

static inline struct image pass_to(const struct pass *pass, const struct pass_buffers *buffers)
{
    return pass_view(pass_address(buffers, pass->to_place), pass->to);
}
