/* equalize.c - the equalize operation, and the CPU code that makes its table. */
#include "gpu/ops/equalize.h"

#include <string.h>

#include "gpu/plan/op.h"

/* equalize.h has the formula. `first` is the smallest value that occurs. */
static void equalize_make(struct gray_table *work, uint32_t pixels)
{
    uint32_t first = 0, sum = 0;
    while (work->counts[first] == 0)
        first++;
    memset(work->table, 0, sizeof(work->table));
    if (work->counts[first] == pixels) {
        work->table[first] = (uint8_t)first;
        return;
    }
    float scale = equalize_scale(pixels - work->counts[first]);
    for (uint32_t i = first + 1; i < HISTOGRAM_BINS; i++) {
        sum += work->counts[i];
        work->table[i] = equalize_entry(sum, scale);
    }
}

static void equalize_cpu(const struct pass *pass, const struct image *from,
                         const struct image *to, uint8_t *work)
{
    gray_table_run(pass, from, to, work, equalize_make);
}

pass_cuda equalize_cuda;

const struct pass_type pass_equalize = {"equalize", equalize_cpu, PASS_CUDA(equalize_cuda)};

/* ---- the operation ---- */

static enum status equalize_step(const void *params, struct chain *chain)
{
    (void)params;
    gray_table_step(chain, &pass_equalize, NULL);
    return STATUS_OK;
}

const struct op op_equalize = {
    .name = "equalize",
    .help = "Equalizes the histogram of gray, as OpenCV's equalizeHist",
    .definition = "Converts to gray first. The result equals the result of OpenCV's "
                  "`equalizeHist`, which computes its table in float32.",
    .flags = OP_STARTS_GRAY,
    .step = equalize_step,
};
