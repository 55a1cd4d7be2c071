/*
 * gray_table.h - operations that map gray through a table computed from its histogram: otsu,
 * equalize.
 *
 * They are a single pass: the device computes the table, without a round trip to the host. For a
 * colour image, the gray is computed while it is counted, stored in the output image, and replaced
 * there.
 */
#ifndef GPUIMGD_GPU_OPS_GRAY_TABLE_H
#define GPUIMGD_GPU_OPS_GRAY_TABLE_H

#include <stdint.h>

#include "gpu/ops/histogram.h"
#include "gpu/plan/chain.h"

/* The work space of the pass. */
struct gray_table {
    uint32_t counts[HISTOGRAM_BINS];
    uint8_t table[HISTOGRAM_BINS];
    uint32_t threshold; /* otsu only */
};

/* Computes the table from the counts of `pixels` pixels. */
typedef void gray_table_make(struct gray_table *work, uint32_t pixels);
/* As gray_table_make, on the device. Enqueues and returns a cudaError_t. */
typedef int gray_table_make_cuda(struct gray_table *work, uint32_t pixels,
                                 struct CUstream_st *stream);

void gray_table_run(const struct pass *pass, const struct image *from, const struct image *to,
                    uint8_t *work, gray_table_make *make);
int gray_table_run_cuda(const struct pass *pass, const struct image *from, const struct image *to,
                        uint8_t *work, gray_table_make_cuda *make, struct CUstream_st *stream);

/* Appends the pass. A grayscale right before it becomes a part of it. */
void gray_table_step(struct chain *chain, const struct pass_type *type, pass_values *values);

#endif
