/* gray_table.c - the operations equalize and otsu, and their CPU loops: count the values of gray,
 * compute a table, look up each pixel. */
#include "gpu/ops/gray_table.h"

#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

/* Computes the table from the counts of `pixels` pixels. */
typedef void make_table(struct gray_table *work, uint32_t pixels);

static void run(const struct pass *pass, const struct image *from, const struct image *to,
                uint8_t *work, make_table *make)
{
    struct gray_table *table = (struct gray_table *)work;
    const struct image *gray = from->channels == 1 ? from : to;
    histogram_count(from, (const struct histogram *)pass->params, to, table->counts);
    make(table, from->width * from->height);
    for (uint32_t y = 0; y < to->height; y++)
        prologue_look_up(gray->pixels + y * gray->stride, to->pixels + y * to->stride, to->width,
                         table->table);
}

/* Appends the pass. A grayscale directly before it becomes a part of the pass. */
static void append(struct chain *chain, const struct pass_type *type, pass_values *values)
{
    struct histogram histogram = {.of_gray = true, .gray = grayscale_default(chain->background)};
    if (point_takes_gray(chain)) /* the last pass then writes one channel instead of three */
        point_add_gray(chain, &histogram.gray);
    const struct pass *gray = chain_last(chain, &pass_grayscale);
    if (gray) {
        memcpy(&histogram.gray, gray->params, sizeof(histogram.gray));
        chain_drop(chain);
    }
    struct pass_shape to = {chain->shape.width, chain->shape.height, 1};
    struct pass *pass = chain_add(chain, type, to, &histogram, sizeof(histogram));
    pass->work_bytes = sizeof(struct gray_table);
    pass->values = values;
}

/* ---- equalize ---- */

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

PASS_LOOP(equalize_cpu)
{
    run(pass, from, to, work, equalize_make);
}

pass_cuda equalize_cuda, otsu_cuda;

static enum status equalize_step(const void *params, struct chain *chain)
{
    static const struct pass_type type = {"equalize", equalize_cpu, PASS_CUDA(equalize_cuda)};
    (void)params;
    append(chain, &type, NULL);
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

/* ---- otsu ---- */

/* Computes exactly what otsu_kernel (gray_table.cu) does, in the same order. */
static void otsu_make(struct gray_table *work, uint32_t pixels)
{
    double scale = 1.0 / (double)pixels, q1 = 0, mu1 = 0, sigma_max = 0;
    uint64_t moment = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++)
        moment += (uint64_t)i * work->counts[i];
    double mu = (double)moment * scale;
    work->threshold = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++) {
        double share = (double)work->counts[i] * scale;
        mu1 *= q1;
        q1 += share;
        if (!otsu_parted(q1))
            continue;
        mu1 = (mu1 + (double)i * share) / q1;
        double sigma = otsu_sigma(q1, mu1, mu);
        if (sigma > sigma_max) {
            sigma_max = sigma;
            work->threshold = i;
        }
    }
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++)
        work->table[i] = i > work->threshold ? 255 : 0;
}

PASS_LOOP(otsu_cpu)
{
    run(pass, from, to, work, otsu_make);
}

static cJSON *otsu_values(const struct pass *pass, const uint8_t *work)
{
    (void)pass;
    return cJSON_CreateNumber(((const struct gray_table *)work)->threshold);
}

static enum status otsu_step(const void *params, struct chain *chain)
{
    static const struct pass_type type = {"otsu", otsu_cpu, PASS_CUDA(otsu_cuda)};
    (void)params;
    append(chain, &type, otsu_values);
    return STATUS_OK;
}

const struct op op_otsu = {
    .name = "otsu",
    .help = "Sets gray to 255 above Otsu's threshold, else to 0, and returns the threshold",
    .definition = "Converts to gray first. Equal to OpenCV's `THRESH_BINARY | THRESH_OTSU`.",
    .flags = OP_VALUES | OP_STARTS_GRAY | OP_BILEVEL,
    .step = otsu_step,
};
