/* otsu.c - the otsu operation, and its threshold on the CPU. */
#include "gpu/ops/otsu.h"

#include <string.h>

#include "gpu/plan/op.h"

static void otsu_make(struct gray_table *work, uint32_t pixels)
{
    double scale = 1.0 / (double)pixels, q1 = 0, mu1 = 0, sigma_max = 0;
    uint64_t moment = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++)
        moment += (uint64_t)i * work->counts[i];
    double mu = (double)moment * scale;
    work->threshold = 0;
    for (int i = 0; i < HISTOGRAM_BINS; i++) {
        if (!otsu_next(&q1, &mu1, i, (double)work->counts[i] * scale))
            continue;
        double sigma = otsu_sigma(q1, mu1, mu);
        if (sigma > sigma_max) {
            sigma_max = sigma;
            work->threshold = (uint32_t)i;
        }
    }
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++)
        work->table[i] = i > work->threshold ? 255 : 0;
}

static void otsu_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                     uint8_t *work)
{
    gray_table_run(pass, from, to, work, otsu_make);
}

pass_cuda otsu_cuda;

const struct pass_type pass_otsu = {"otsu", otsu_cpu, PASS_CUDA(otsu_cuda)};

/* ---- the operation ---- */

static cJSON *otsu_values(const struct pass *pass, const uint8_t *work)
{
    (void)pass;
    return cJSON_CreateNumber(((const struct gray_table *)work)->threshold);
}

static enum status otsu_step(const void *params, struct chain *chain)
{
    (void)params;
    gray_table_step(chain, &pass_otsu, otsu_values);
    return STATUS_OK;
}

const struct op op_otsu = {
    .name = "otsu",
    .help = "Sets gray to 255 above Otsu's threshold, else to 0, and returns the threshold",
    .definition = "Converts to gray first. Equal to OpenCV's `THRESH_BINARY | THRESH_OTSU`.",
    .flags = OP_VALUES | OP_STARTS_GRAY,
    .step = otsu_step,
};
