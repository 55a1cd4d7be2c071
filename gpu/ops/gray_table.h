/*
 * gray_table.h - operations that count gray, make a table of 256 bytes out of the counts, and put
 * every pixel through it: otsu and equalize.
 *
 * One pass, no way back to the host in between. Of a colour image the gray is made while it is
 * counted, kept where the result will be, and replaced there.
 */
#ifndef GPUIMGD_GPU_OPS_GRAY_TABLE_H
#define GPUIMGD_GPU_OPS_GRAY_TABLE_H

#include <stdint.h>

#include "gpu/ops/histogram.h"
#include "gpu/plan/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The work space of such a pass. */
struct gray_table {
    uint32_t counts[HISTOGRAM_BINS];
    uint8_t table[HISTOGRAM_BINS];
    uint32_t threshold; /* of otsu */
};

/* Makes the table out of the counts of so many pixels. */
typedef void gray_table_make(struct gray_table *work, uint32_t pixels);
/* The same on the device; enqueues and returns a cudaError_t. */
typedef int gray_table_make_cuda(struct gray_table *work, uint32_t pixels,
                                 struct CUstream_st *stream);

void gray_table_run(const struct pass *pass, const struct image *from, const struct image *to,
                    uint8_t *work, gray_table_make *make);
int gray_table_run_cuda(const struct pass *pass, const struct image *from, const struct image *to,
                        uint8_t *work, gray_table_make_cuda *make, struct CUstream_st *stream);

/* Appends such a pass; a grayscale right before it becomes part of it. */
void gray_table_step(struct chain *chain, const struct pass_type *type, pass_values *values);

#ifdef __cplusplus
}
#endif
#endif
