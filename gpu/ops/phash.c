/* phash.c - the operation phash, and its DCT on the CPU. */
#include "gpu/ops/phash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/resample.h"
#include "gpu/plan/op.h"

/* 2^18 cos(pi j / 64), rounded: a quarter turn. Other angles are mirrored from these values, so
 * that weights whose sum is 0 in theory also cancel here. */
static const int32_t quarter[PHASH_SIDE + 1] = {
    262144, 261828, 260882, 259307, 257107, 254288, 250856, 246820, 242189, 236975, 231190,
    224848, 217965, 210556, 202640, 194236, 185364, 176045, 166302, 156159, 145639, 134769,
    123574, 112081, 100318, 88314, 76096, 63696, 51142, 38465, 25695, 12863, 0,
};

/* The weight of frequency k at pixel n. */
static int32_t weight_of(int k, int n)
{
    int angle = k * (2 * n + 1) % (4 * PHASH_SIDE); /* in 1/128 of a turn */
    if (angle > 2 * PHASH_SIDE)
        angle = 4 * PHASH_SIDE - angle;
    return angle > PHASH_SIDE ? -quarter[2 * PHASH_SIDE - angle] : quarter[angle];
}

static void weights_fill(const struct pass *pass, uint8_t *constants)
{
    struct phash_weights *weights = (struct phash_weights *)constants;
    (void)pass;
    for (int k = 0; k < PHASH_KEPT; k++)
        for (int n = 0; n < PHASH_SIDE; n++)
            weights->at[k][n] = weight_of(k, n);
}

/* Transforms the columns: W X. */
static void first_product(const struct phash_weights *weights, const uint8_t *rows, size_t stride,
                          int32_t sums[PHASH_KEPT][PHASH_SIDE])
{
    memset(sums, 0, sizeof(sums[0]) * PHASH_KEPT);
    for (size_t y = 0; y < PHASH_SIDE; y++)
        for (size_t k = 0; k < PHASH_KEPT; k++)
            for (size_t x = 0; x < PHASH_SIDE; x++)
                sums[k][x] += weights->at[k][y] * rows[y * stride + x];
}

/* Transforms the rows: the first product times W^T. */
static void second_product(const struct phash_weights *weights,
                           int32_t sums[PHASH_KEPT][PHASH_SIDE], int64_t values[PHASH_VALUES])
{
    for (size_t k = 0; k < PHASH_KEPT; k++) {
        for (size_t j = 0; j < PHASH_KEPT; j++) {
            int64_t sum = 0;
            for (size_t x = 0; x < PHASH_SIDE; x++)
                sum += (int64_t)sums[k][x] * weights->at[j][x];
            values[k * PHASH_KEPT + j] = sum;
        }
    }
}

/* The hash: a bit per value, which is 1 if the value is above the median. */
static uint64_t above_median(const int64_t values[PHASH_VALUES])
{
    int64_t middles = 0; /* the sum of the two middle values: twice the median, without rounding */
    uint64_t hash = 0;
    for (int i = 0; i < PHASH_VALUES; i++) {
        int rank = 0;
        for (int j = 0; j < PHASH_VALUES; j++)
            rank += phash_before(values[j], j, values[i], i);
        if (rank == PHASH_MIDDLE || rank == PHASH_MIDDLE + 1)
            middles += values[i];
    }
    for (int i = 0; i < PHASH_VALUES; i++)
        hash = hash << 1 | (2 * values[i] > middles);
    return hash;
}

PASS_LOOP(phash_cpu)
{
    const struct phash_weights *weights = (const struct phash_weights *)pass->constants;
    uint64_t *hashes = (uint64_t *)work;
    for (size_t i = 0; i < from->height / PHASH_SIDE; i++) {
        int32_t sums[PHASH_KEPT][PHASH_SIDE];
        int64_t values[PHASH_VALUES];
        first_product(weights, from->pixels + i * PHASH_SIDE * from->stride, from->stride, sums);
        second_product(weights, sums, values);
        hashes[i] = above_median(values);
    }
}

pass_cuda_many phash_cuda;

/* Reads stacked images (pass.h) of 32 x 32, and writes a uint64_t for each. The most significant
 * bit is for the first value. */
static const struct pass_type pass_phash = {"phash", phash_cpu, PASS_CUDA_MANY(phash_cuda, 0)};

static cJSON *phash_values(const struct pass *pass, const uint8_t *work)
{
    char text[17];
    uint64_t hash;
    (void)pass;
    memcpy(&hash, work, sizeof(hash));
    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    return cJSON_CreateString(text);
}

static enum status phash_step(const void *params, struct chain *chain)
{
    struct grayscale gray = grayscale_default(chain->background);
    (void)params;
    chain_leave(chain);
    point_add_gray(chain, &gray);
    enum status status = resize_exact(chain, PHASH_SIDE, PHASH_SIDE);
    if (status)
        return status;
    if (chain->count == chain->first)
        step_copy(chain); /* an image of this size already must still be copied to the stack */
    struct pass *pass = chain_look_stacked(chain, &pass_phash, sizeof(uint64_t), phash_values);
    return chain_constants(chain, pass, sizeof(struct phash_weights), weights_fill);
}

/* Without OP_STARTS_GRAY, because gray must be computed from the colours, as imagehash does, not
 * taken from a JPEG's Y channel. */
const struct op op_phash = {
    .name = "phash",
    .help = "Returns a perceptual hash of 16 hexadecimal digits, as Python's imagehash.phash",
    .definition = "Computes gray with the default weights from the colours, never from a JPEG's Y "
                  "channel alone, unless `grayscale` comes before. RGBA is flattened, while "
                  "Pillow drops alpha. Resizes the gray to 32 x 32 as `lanczos3` does, and "
                  "computes a DCT-II. Each of its lowest 8 x 8 values gives a bit, which is 1 if "
                  "the value is above their median. All arithmetic is in integers: a value equal "
                  "to the median gives 0, while rounding decides in imagehash's doubles. The "
                  "image is not changed.",
    .flags = OP_VALUES,
    .step = phash_step,
};
