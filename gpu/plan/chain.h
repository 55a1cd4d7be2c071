/*
 * chain.h - a list of passes under construction, to which each operation appends its own.
 *
 * A chain knows the shape of its current image: the result of its last pass, which the next
 * operation will read. To fuse with its predecessor, an operation inspects the last pass, removes
 * it, and appends one that does both.
 */
#pragma once

#include "gpu/plan/pass.h"

/* One dimension of an image that was decoded at M/8 of its size. */
struct chain_side {
    uint32_t full;    /* Length in the file. 0: decoded in full, or resized since. */
    uint32_t eighths; /* M */
    double margin;    /* Pixels that precede the image. A decoder pads the last pixel; after
                         mirroring, the padding comes first. */
};

struct chain {
    struct plan *plan; /* counts the constants */
    const struct plan_limits *limits;
    struct error *error;
    const struct op_item *item;      /* the operation whose step runs, for op_refuse */
    struct chain_side across, down;  /* of `shape` */
    struct pass *passes;
    uint32_t count, capacity;
    struct pass_shape shape;         /* of the current image: the window's rectangle */
    struct pass_window window;       /* position in the result of the last pass (or in the
                                        source) */
    bool ycc;                        /* the current image is Y, Cb and Cr, not yet gray or RGB */
    bool cmyk;                       /* it is C, M, Y and K, not yet RGB */
    bool in_srgb;                    /* converted from the source's profile */
    struct colour **colour;          /* the variant's, for the tables of that conversion */
    const uint8_t *background;       /* RGB, for flattening alpha */
    const struct plan_overlays *overlays; /* NULL: none */
    uint32_t first;                  /* passes before this index may not be fused any more */
    bool aside;                      /* on a branch: between chain_leave and its end */
    struct pass_shape left_shape;    /* the current image before the branch, restored after it */
    struct pass_window left_window;
};

/* Returns the last pass, with which the caller may fuse, if it is of this type and its whole result
 * is the current image. Otherwise NULL. */
struct pass *chain_last(const struct chain *chain, const struct pass_type *type);
/* Removes the last pass. Its input becomes the current image again. */
void chain_drop(struct chain *chain);
/* Appends a pass that turns the current image into shape `to`, with a copy of params. The caller
 * may set work_bytes in the returned pass. If the window is not aligned, a copy is appended before
 * the pass. */
struct pass *chain_add(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                       const void *params, size_t params_bytes);
/* As chain_add, for a pass that can read unaligned windows. */
struct pass *chain_append(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                          const void *params, size_t params_bytes);
/* Whether the current image is only a part of the last pass's result (or of the source). */
bool chain_is_cropped(const struct chain *chain);
/* Reserves `bytes` of tables, which the pass reads at pass->constants. `fill` writes them later,
 * into the input buffer. over_budget if the plan has more than PLAN_CONSTANTS_BYTES_MAX. */
enum status chain_constants(struct chain *chain, struct pass *pass, size_t bytes,
                            pass_fill *fill) MUST_CHECK;
/* As chain_constants, for pixels of an overlay, which have a limit of their own:
 * PLAN_OVERLAYS_BYTES_MAX. */
enum status chain_overlay(struct chain *chain, struct pass *pass, size_t bytes,
                          pass_fill *fill) MUST_CHECK;
/* Finds the overlay that the current operation names. width: to which it is resized; 0: not. */
enum status chain_find_overlay(const struct chain *chain, const struct op_place *place,
                               uint32_t width, struct plan_overlay *overlay) MUST_CHECK;
/* image_too_large if a result of this size is not allowed. */
enum status chain_check_size(const struct chain *chain, uint64_t width, uint64_t height) MUST_CHECK;
/* Appends a pass that reads the current image and only computes values, in work_bytes. */
struct pass *chain_look(struct chain *chain, const struct pass_type *type, const void *params,
                        size_t params_bytes, size_t work_bytes, pass_values *values);
/* Starts a branch: later passes read the current image, which is restored at the branch's end. */
void chain_leave(struct chain *chain);
/* Ends the branch with a pass that computes values. The branch may have no other passes. */
struct pass *chain_look_aside(struct chain *chain, const struct pass_type *type, size_t work_bytes,
                              pass_values *values);
/* Ends the branch with a pass that computes values, in work_bytes per image. The branch must have
 * another pass before it. All such passes of a plan have the same type and shape, whose bytes are a
 * multiple of BUFFER_ALIGN. */
struct pass *chain_look_stacked(struct chain *chain, const struct pass_type *type,
                                size_t work_bytes, pass_values *values);

/* ---- the steps that a plan adds by itself; implemented in gpu/ops, next to their kernels ---- */

/* Appends a pass for the EXIF orientation, or fuses it with an orient pass before it. Appends
 * nothing for 1 and for undefined values. */
void step_orient(struct chain *chain, int orientation);
/* Appends a copy of the chain's window, which makes it a whole image. */
void step_copy(struct chain *chain);
/* Flattens RGBA over the background, to RGB. */
void step_flatten(struct chain *chain);
/* Makes gray as the operation grayscale with its default weights. Appends nothing to gray. */
void step_gray(struct chain *chain);
/* Converts Y, Cb and Cr to RGB or to Y. */
void step_rgb(struct chain *chain);
void step_luma(struct chain *chain);
/* Converts CMYK to RGB without a profile. */
void step_product(struct chain *chain);
