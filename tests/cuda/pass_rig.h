/*
 * pass_rig.h - runs single passes on the CPU engine and as kernels, in guarded memory.
 *
 * Every buffer of a pass and the padding of every row stand between bytes of a pattern, also in
 * larger images than the pass needs: rows are further apart than image_stride. All memory that the
 * pass must not write has to be unchanged after it, and both engines must give the same pixels and
 * values. A caller that runs the same passes with two patterns finds results that depend on
 * padding, on pixels outside of a rectangle, or on memory that nothing has written. With
 * AddressSanitizer, kernels on the host may not even read the pattern.
 */
#pragma once

#include <cuda_runtime.h>

#include "gpu/plan/pass.h"
#include "tests/fixtures/raster.h"

struct rig_pass {
    const struct pass *pass;
    struct raster
        in; /* the stored image, of which the pass reads its window; owned by the caller */
    struct raster out; /* set by pass_rig_run unless the pass only looks; a tensor is one row of
                          bytes; owned by the caller */
    char *values;      /* as JSON; NULL: the pass has none. Owned by the caller */
    const char *what;  /* for messages */
};

/* Passes for the number of bytes that pass_rig_run placed and compared. */
struct rig_totals {
    size_t passes, launches;
    uint64_t bytes;
};

/* Returns false, and prints the reason, if there are no kernels or no device. */
bool pass_rig_open(void);
void pass_rig_close(void);

/* Runs the passes, of one type and alike if there are several, in one launch of kernels. Fails the
 * test if memory outside of the results was written, or if the engines differ. `pattern` chooses
 * the pattern. */
void pass_rig_run(struct rig_pass *passes, size_t count, uint32_t pattern);

extern struct rig_totals pass_rig_totals;
