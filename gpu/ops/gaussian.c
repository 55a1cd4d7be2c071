/* gaussian.c - the operations gaussian and unsharp, their weights and their CPU loops. */
#include "gpu/ops/gaussian.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/window.h"
#include "gpu/plan/op.h"

/* The sums down the columns come first. They fit in 16 bits: the largest is 255 * 256. */
VECTOR_CLONES
static void down_start(const uint8_t *restrict middle, uint16_t *restrict sums, size_t bytes,
                       uint16_t weight)
{
    for (size_t x = 0; x < bytes; x++)
        sums[x] = (uint16_t)(middle[x] * weight);
}

VECTOR_CLONES
static void down_pair(const uint8_t *above, const uint8_t *below, uint16_t *restrict sums,
                      size_t bytes, uint16_t weight)
{
    for (size_t x = 0; x < bytes; x++)
        sums[x] = (uint16_t)(sums[x] + (uint16_t)((uint16_t)(above[x] + below[x]) * weight));
}

/* Bytes of a row that are summed together: their sums fit in the L1 cache. */
#define CHUNK 1024

VECTOR_CLONES
static void across_pair(const uint16_t *left, const uint16_t *right, uint32_t *restrict sums,
                        size_t count, uint32_t weight)
{
    for (size_t x = 0; x < count; x++)
        sums[x] += (uint32_t)(left[x] + right[x]) * weight;
}

VECTOR_CLONES
static void across_start(const uint16_t *restrict middle, uint32_t *restrict sums, size_t count,
                         uint32_t weight)
{
    for (size_t x = 0; x < count; x++)
        sums[x] = middle[x] * weight + 32768u;
}

VECTOR_CLONES
static void across_end(const uint32_t *restrict sums, uint8_t *restrict to, size_t count)
{
    for (size_t x = 0; x < count; x++)
        to[x] = (uint8_t)(sums[x] >> 16);
}

VECTOR_CLONES
static void sharpen_row(const uint8_t *restrict from, uint8_t *restrict to, size_t count,
                        int amount256)
{
    for (size_t x = 0; x < count; x++)
        to[x] = (uint8_t)unsharp_byte(from[x], to[x], amount256);
}

static size_t rows_bytes(const struct gaussian *gaussian, uint32_t width, uint32_t channels)
{
    bool in_place = prologue_is_empty(&gaussian->prologue);
    return in_place ? 0 : window_bytes(width, channels, 0, gaussian->radius);
}

static void sum_down(const struct gaussian *gaussian, struct window *rows, int y, uint16_t *sums,
                     size_t bytes)
{
    down_start(window_row(rows, y, 0), sums, bytes, gaussian->weights[gaussian->radius]);
    for (int j = 1; j <= gaussian->radius; j++)
        down_pair(window_row(rows, y, -j), window_row(rows, y, j), sums, bytes,
                  gaussian->weights[gaussian->radius - j]);
}

static void mirror_ends(uint16_t *sums, int width, int channels, int radius)
{
    for (int x = 1; x <= radius; x++) {
        int left = border_inside(-x, width, BORDER_REFLECT101);
        int right = border_inside(width - 1 + x, width, BORDER_REFLECT101);
        for (int c = 0; c < channels; c++) {
            sums[-x * channels + c] = sums[left * channels + c];
            sums[(width - 1 + x) * channels + c] = sums[right * channels + c];
        }
    }
}

static void sum_across(const struct gaussian *gaussian, const uint16_t *sums, uint8_t *to,
                       size_t bytes, size_t channels)
{
    uint32_t chunk[CHUNK];
    for (size_t x = 0; x < bytes; x += CHUNK) {
        size_t count = bytes - x < CHUNK ? bytes - x : CHUNK;
        across_start(sums + x, chunk, count, gaussian->weights[gaussian->radius]);
        for (int i = 1; i <= gaussian->radius; i++)
            across_pair(sums + x - (size_t)i * channels, sums + x + (size_t)i * channels, chunk,
                        count, gaussian->weights[gaussian->radius - i]);
        across_end(chunk, to + x, count);
    }
}

PASS_LOOP(gaussian_cpu)
{
    const struct gaussian *gaussian = (const struct gaussian *)pass->params;
    size_t bytes = (size_t)to->width * to->channels;
    uint8_t *margin = work + rows_bytes(gaussian, to->width, to->channels);
    uint16_t *sums = (uint16_t *)(void *)margin + (size_t)gaussian->radius * to->channels;
    struct window rows;
    window_open(&rows, from, &gaussian->prologue, BORDER_REFLECT101, 0, gaussian->radius, work);
    for (uint32_t y = 0; y < from->height && !pass_is_late_at(pass, y); y++) {
        uint8_t *row = to->pixels + y * to->stride;
        sum_down(gaussian, &rows, (int)y, sums, bytes);
        mirror_ends(sums, (int)to->width, (int)to->channels, gaussian->radius);
        sum_across(gaussian, sums, row, bytes, to->channels);
        if (gaussian->sharpen)
            sharpen_row(window_row(&rows, (int)y, 0), row, bytes, gaussian->amount256);
        if (to->channels == 4)
            window_keep_alpha(from->pixels + y * from->stride, row, from->width);
    }
}

pass_cuda_many gaussian_cuda;
#define ON_CUDA PASS_CUDA_MANY(gaussian_cuda, sizeof(struct gaussian))

static const struct pass_type types[2][2][2] = {
    PROLOGUE_FORMS("gaussian", gaussian_cpu, ON_CUDA),
    PROLOGUE_FORMS("unsharp", gaussian_cpu, ON_CUDA)};

/* OpenCV's fixed weights for small kernels without a sigma, in 1/256. */
static const uint8_t small[4][9] = {{64, 128, 64},
                                    {16, 64, 96, 64, 16},
                                    {8, 28, 56, 72, 56, 28, 8},
                                    {4, 13, 30, 51, 60, 51, 30, 13, 4}};

/* Computes the weights in units of 1/256. From the ends to the middle, each is rounded, and its
 * rounding error is added to the next. The middle weight is the rest of 256. The computation is
 * OpenCV's, step by step (getGaussianKernelBitExact). */
static void make_weights(int *weights, int ksize, double sigma)
{
    double values[GAUSSIAN_RADIUS_MAX], sum = 0, error = 0;
    int half = ksize / 2, total = 0;
    double own = sigma > 0 ? sigma : fma(ksize, 0.15, 0.35);
    double scale = -0.125 / (own * own);
    for (int i = 0; i < half; i++) {
        int x = 1 - ksize + 2 * i;
        values[i] = exp((double)(x * x) * scale);
        sum += values[i];
    }
    sum = sum * 2 + 1;
    double part = 1 / sum;
    for (int i = 0; i < half; i++) {
        double exact = values[i] * part * 256 + error;
        double whole = rint(exact);
        error = exact - whole;
        weights[i] = weights[ksize - 1 - i] = (int)whole;
        total += (int)whole;
    }
    weights[half] = 256 - 2 * total;
}

/* Sets radius and weights. false: the weights leave the image unchanged, so that no pass is
 * needed. */
static bool make_gaussian(struct gaussian *gaussian, int ksize, double sigma)
{
    int weights[2 * GAUSSIAN_RADIUS_MAX + 1];
    assert(ksize >= 3 && ksize <= 2 * GAUSSIAN_RADIUS_MAX + 1 && ksize % 2 == 1);
    memset(gaussian, 0, sizeof(*gaussian));
    gaussian->radius = ksize / 2;
    if (sigma <= 0 && ksize <= 9) {
        memcpy(gaussian->weights, small[ksize / 2 - 1], (size_t)ksize);
        return true;
    }
    make_weights(weights, ksize, sigma);
    for (int i = 0; i < ksize; i++) {
        assert(weights[i] >= 0 && weights[i] <= 256);
        gaussian->weights[i] = (uint8_t)weights[i];
    }
    return weights[ksize / 2] < 256;
}

struct params {
    int ksize;
    double sigma, amount;
};

/* Appends the pass of gaussian or unsharp. */
static enum status append(const struct params *own, bool sharpen, struct chain *chain)
{
    struct gaussian gaussian;
    if (!make_gaussian(&gaussian, own->ksize, own->sigma))
        return STATUS_OK;
    gaussian.sharpen = sharpen;
    gaussian.amount256 = (int)floor(own->amount * 256 + 0.5);
    struct prologue *prologue = &gaussian.prologue;
    const struct pass_shape to = point_lift(chain, prologue);
    const struct pass_type *type = &types[sharpen][prologue->makes_gray][prologue->looks_up];
    struct pass *pass = chain_add(chain, type, to, &gaussian, sizeof(gaussian));
    pass->work_bytes = rows_bytes(&gaussian, to.width, to.channels) +
                       ((size_t)to.width + 2 * (size_t)gaussian.radius) * to.channels *
                           sizeof(uint16_t);
    return STATUS_OK;
}

#define KSIZE                                                                                      \
    {OP_ODD(struct params, ksize), .min = 3, .max = 2 * GAUSSIAN_RADIUS_MAX + 1, .standard = 5}
#define SIGMA                                                                                      \
    {OP_NUMBER(struct params, sigma), .max = 1000,                                                 \
     .help = "0 means 0.3 ((ksize - 1) / 2 - 1) + 0.8"}

static const struct op_param gaussian_params[] = {KSIZE, SIGMA};

static enum status gaussian_step(const void *params, struct chain *chain)
{
    return append(params, false, chain);
}

const struct op op_gaussian = {
    .name = "gaussian",
    .help = "Blurs, as OpenCV's 8-bit GaussianBlur",
    .definition = "Equal to OpenCV's 8-bit `GaussianBlur` (4.6, `BORDER_REFLECT_101`) for every "
                  "ksize and sigma: (sum_j w_j sum_i w_i v + 32768) >> 16. The weights w, in "
                  "1/256, are the normalised double kernel, rounded from the ends to the middle "
                  "with the error carried on. The middle weight is the rest of 256. Without a "
                  "sigma, kernels up to 9 have OpenCV's fixed weights: 64,128 / 16,64,96 / "
                  "8,28,56,72 / 4,13,30,51,60. Colours are processed independently; alpha is "
                  "kept, while OpenCV would filter it.",
    OP_PARAMS(struct params, gaussian_params),
    .step = gaussian_step,
};

static const struct op_param unsharp_params[] = {
    {OP_NUMBER(struct params, amount), .max = 16, .standard = 1}, KSIZE, SIGMA};

static enum status unsharp_step(const void *params, struct chain *chain)
{
    return append(params, true, chain);
}

const struct op op_unsharp = {
    .name = "unsharp",
    .help = "Sharpens with an unsharp mask: v + amount (v - gaussian)",
    .definition = "v + ((A (v - g) + 128) >> 8), clamped to 0..255, with g the result of "
                  "`gaussian` and A = floor(256 amount + 1/2). Colours are processed "
                  "independently; alpha is kept.",
    OP_PARAMS(struct params, unsharp_params),
    .step = unsharp_step,
};
