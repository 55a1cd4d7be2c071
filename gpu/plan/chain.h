/*
 * chain.h - a list of passes under construction: what the steps of operations append to.
 *
 * It knows the shape of what its last pass gives, which the next operation will find. Neighbours
 * may take over each other's work by looking at the last pass and taking it off.
 */
#ifndef GPUIMGD_GPU_PLAN_CHAIN_H
#define GPUIMGD_GPU_PLAN_CHAIN_H

#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One side of a picture that was decoded at M/8 of its size. */
struct chain_side {
    uint32_t full;    /* its length in the file; 0: it was decoded in full, or resized since */
    uint32_t eighths; /* M */
    double margin;    /* pixels before the picture begins: what a decoder adds to fill its last
                         pixel comes first where the side was mirrored */
};

struct chain {
    struct plan *plan; /* counts the constants */
    const struct plan_limits *limits;
    struct chain_side across, down;  /* of shape */
    struct pass *passes;
    uint32_t count, capacity;
    struct pass_shape shape;         /* of what the chain gives: the window's rectangle */
    struct pass_window window;       /* in what the last pass (or the source) gives */
    bool ycc;                        /* what it gives is Y, Cb and Cr, not yet gray or RGB */
    const uint8_t *background;       /* under alpha, RGB */
    uint32_t first;                  /* passes before this one are no neighbours any more */
    bool aside;                      /* between chain_leave and chain_look_stacked: */
    struct pass_shape left_shape;    /* what the chain gave before, and gives again then */
    struct pass_window left_window;
};

/* The last pass if it is of this type and its whole result is what the chain gives, so that a
 * neighbour can take its work over; else NULL. */
struct pass *chain_last(const struct chain *chain, const struct pass_type *type);
/* Takes the last pass off; the chain's shape and window are again what that pass read. */
void chain_drop(struct chain *chain);
/* Appends a pass that turns the chain's shape into `to`, with a copy of params. work_bytes may
 * be set in the returned pass. A window that begins at any byte is copied first. */
struct pass *chain_add(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                       const void *params, size_t params_bytes);
/* The same for a pass that reads windows wherever they begin. */
struct pass *chain_append(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                          const void *params, size_t params_bytes);
/* Whether the chain gives less than its last pass (or the source): a window of it. */
bool chain_is_cropped(const struct chain *chain);
/* Counts `bytes` of tables that the pass reads at pass->constants; `fill` writes them when there is
 * memory for them. over_budget beyond PLAN_CONSTANTS_BYTES_MAX. */
enum status chain_constants(struct chain *chain, struct pass *pass, size_t bytes, pass_fill *fill,
                            struct error *error) MUST_CHECK;
/* image_too_large where an image of this size may not be a result. */
enum status chain_check_size(const struct chain *chain, uint64_t width, uint64_t height,
                             struct error *error) MUST_CHECK;
/* Appends a pass that only looks, for values in work_bytes. */
struct pass *chain_look(struct chain *chain, const struct pass_type *type, const void *params,
                        size_t params_bytes, size_t work_bytes, pass_values *values);
/* What is appended from here on leads aside, until chain_look_stacked. */
void chain_leave(struct chain *chain);
/* Appends the last pass aside, after at least one other there, with work_bytes for the values of
 * each image of the stack, and goes back to the chain. All such passes of a plan have one type and
 * one shape, whose bytes are a multiple of BUFFER_ALIGN. */
struct pass *chain_look_stacked(struct chain *chain, const struct pass_type *type,
                                size_t work_bytes, pass_values *values);

#ifdef __cplusplus
}
#endif
#endif
