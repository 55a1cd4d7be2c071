/*
 * chain.h - builds the list of passes (pass.h) of one output: each operation appends its own.
 *
 * A chain knows the shape of its current image: the result of its last pass, which the next
 * operation will read. If one pass can compute two operations, the second operation inspects the
 * last pass, removes it, and appends a pass that computes both: the passes are fused.
 */
#pragma once

#include "gpu/plan/pass.h"

/* The width or the height of an image that was decoded at M/8 of its size. */
struct chain_side {
    uint32_t full;    /* its length in the file; 0: it was decoded in full, or resized since */
    uint32_t eighths; /* M */
    double margin;    /* The last decoded pixel may lie partly outside of the image. In a mirrored
                         image it comes first: this part of it then precedes the image. */
};

/* The passes of one output while they are built. */
struct chain {
    struct plan *plan; /* its constants_bytes and overlays_bytes are increased */
    const struct plan_limits *limits;
    struct error *error;
    const struct op_item *item;      /* the operation that appends passes now, for op_refuse */
    struct chain_side across, down;  /* of `shape` */
    struct pass *passes;
    uint32_t count, capacity;
    struct pass_shape shape;         /* of the current image */
    struct pass_window window;       /* where the current image is in the stored one: the result of
                                        the last pass, or the source */
    bool ycc;                        /* the current image is Y, Cb and Cr, not yet gray or RGB */
    bool cmyk;                       /* the current image is C, M, Y and K, not yet RGB */
    bool in_srgb;                    /* an operation has converted it from the source's profile */
    const uint8_t *background;       /* RGB: what transparent pixels show in the output */
    const struct plan_overlays *overlays; /* NULL: overlays cannot be read */
    uint32_t first;                       /* passes before this index must not be fused any more */
    bool aside;                           /* passes are appended to a branch: see chain_leave */
    struct pass_shape left_shape;    /* the current image before the branch, restored after it */
    struct pass_window left_window;
};

/* Returns the last pass, if it is of this type and its whole result is the current image: the
 * caller may fuse with it. Otherwise NULL. */
struct pass *chain_last(const struct chain *chain, const struct pass_type *type);
/* Removes the last pass. Its input becomes the current image again. */
void chain_drop(struct chain *chain);
/* Appends a pass whose result has the shape `to` and becomes the current image. `params` is copied.
 * The caller may set work_bytes in the returned pass. If the rows of the current image are not
 * aligned, a pass that copies it is appended first. */
struct pass *chain_add(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                       const void *params, size_t params_bytes);
/* As chain_add, for a pass that can read rows at any address. */
struct pass *chain_append(struct chain *chain, const struct pass_type *type, struct pass_shape to,
                          const void *params, size_t params_bytes);
/* Whether the current image is only a part of the last pass's result (or of the source). */
bool chain_is_cropped(const struct chain *chain);
/* Reserves `bytes` in the input buffer for tables, which the pass reads at pass->constants. `fill`
 * will write them. over_budget: the plan's tables exceed PLAN_CONSTANTS_BYTES_MAX. */
enum status chain_constants(struct chain *chain, struct pass *pass, size_t bytes,
                            pass_fill *fill) MUST_CHECK;
/* As chain_constants, for the pixels of an overlay: their limit is PLAN_OVERLAYS_BYTES_MAX. */
enum status chain_overlay(struct chain *chain, struct pass *pass, size_t bytes,
                          pass_fill *fill) MUST_CHECK;
/* Finds the overlay that the current operation names. Sets number and position of the request.
 * bad_op if chain->overlays is NULL. */
enum status chain_find_overlay(const struct chain *chain, struct plan_overlay_request request,
                               struct plan_overlay *overlay) MUST_CHECK;
/* Returns image_too_large if chain->limits forbid a result of this size. */
enum status chain_check_size(const struct chain *chain, uint64_t width, uint64_t height) MUST_CHECK;
/* Appends a pass that only computes values, in work_bytes of memory. The current image stays. */
struct pass *chain_look(struct chain *chain, const struct pass_type *type, const void *params,
                        size_t params_bytes, size_t work_bytes, pass_values *values);
/* Starts a branch: passes that compute values from their own copy of the current image. After the
 * branch, the chain continues with the current image. */
void chain_leave(struct chain *chain);
/* Ends the branch with a pass that computes values. The branch may consist of this pass alone. */
struct pass *chain_look_aside(struct chain *chain, const struct pass_type *type, size_t work_bytes,
                              pass_values *values);
/* As chain_look_aside, for a stacked pass (pass.h), with work_bytes per image. The branch must have
 * another pass before it. All stacked passes of a plan have the same type and read images of the
 * same shape, whose size in bytes is a multiple of BUFFER_ALIGN. */
struct pass *chain_look_stacked(struct chain *chain, const struct pass_type *type,
                                size_t work_bytes, pass_values *values);

/* ---- passes that a plan appends by itself; implemented in gpu/ops, next to their kernels ---- */

/* Appends a pass for the EXIF orientation, or fuses it with an orient pass before it. Appends
 * nothing for 1 and for undefined values. */
void step_orient(struct chain *chain, int orientation);
/* Appends a pass that copies the current image, so that it is no longer a part of a larger one. */
void step_copy(struct chain *chain);
/* Flattens RGBA over the background, to RGB. */
void step_flatten(struct chain *chain);
/* Converts to gray like the operation grayscale with its default weights. Appends nothing if the
 * image is gray. */
void step_gray(struct chain *chain);
/* Converts Y, Cb and Cr to RGB or to Y. */
void step_rgb(struct chain *chain);
void step_luma(struct chain *chain);
/* Makes an image of 8 bits deep (codecs/image.h), its samples times 257; or scales a deep one to 8
 * bits. */
void step_widen(struct chain *chain);
void step_narrow(struct chain *chain);
/* Converts CMYK to RGB without a profile. */
void step_product(struct chain *chain);
/* Appends the pass that makes a tensor of the current image. Nothing may follow it. bad_job: the
 * normalization is for another number of channels. */
enum status step_tensor(struct chain *chain, const struct plan_tensor *tensor) MUST_CHECK;
