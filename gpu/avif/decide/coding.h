/* coding.h - what luma (blocks.c) and chroma (chroma.c) of stage B share: the block that is coded.
 */
#pragma once

#include "gpu/avif/kernels/kernels.h"

/* A block that is coded. */
struct avif_coding {
    struct avif_encoder *encoder;
    const struct avif_bounds *tile;
    int x, y, size;           /* in luma samples */
    struct avif_block *block; /* the decisions */
    bool any;                 /* a transform has levels */
};

/* A prediction and its coefficients. */
struct avif_trial {
    uint8_t prediction[64 * 64] __attribute__((aligned(AVIF_KERNEL_ALIGN)));
    struct avif_coefficients coefficients;
};

/* Gathers the edges of a transform from the reconstruction. x, y, size: in samples of the plane */
void avif_gather_coding(const struct avif_coding *coding, int plane, int x, int y, int size,
                        struct avif_edges *edges);
/* Whether a neighbour of the block has a smooth mode in luma or chroma. */
bool avif_smooth_neighbour(const struct avif_coding *coding, bool chroma);
/* Transforms the difference between the source and a prediction. */
void avif_transform_at(const struct avif_coding *coding, int plane, int x, int y, int size,
                       int type, const uint8_t *prediction, struct avif_coefficients *to);
/* Reconstructs a transform from a trial, and stores its levels at `levels`. Returns their end. */
int avif_code_transform(struct avif_coding *coding, int plane, int x, int y, int size, int type,
                        const struct avif_trial *trial, int16_t *levels);

/* ---- chroma.c ---- */

/* Decides on the chroma mode of the block, and reconstructs both planes. */
void avif_code_chroma(struct avif_coding *coding);
