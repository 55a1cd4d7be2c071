/* thumbhash.c - the operation thumbhash: computes the hash of a small image on the host. */
#include "gpu/ops/thumbhash.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/resample.h"
#include "gpu/plan/op.h"

PASS_LOOP(thumbhash_cpu)
{
    size_t row_bytes = (size_t)from->width * from->channels;
    for (size_t y = 0; y < from->height; y++)
        memcpy(work + y * row_bytes, from->pixels + y * from->stride, row_bytes);
}

pass_cuda_many thumbhash_cuda;

static const struct pass_type pass_thumbhash = {"thumbhash", thumbhash_cpu,
                                                PASS_CUDA_MANY(thumbhash_cuda, 0)};

/* ---- the hash ----
 *
 * All steps, and their order, are those of rgbaToThumbHash in evanw/thumbhash. */

/* Coefficients below this count as 0. In an image of one colour they are 0 in theory, but about
 * 1e-16 because of rounding. The published code divides even such coefficients by the largest of
 * them, so that its hash depends on the host's cos(). */
#define MEAN_ZERO 1e-12

enum plane { LUMINANCE, YELLOW_BLUE, RED_GREEN, ALPHA, PLANES };

/* Number of components across and down, at most: of the luminance without and with alpha, and of
 * the two colour planes. */
#define SIDE_OPAQUE 7
#define SIDE_ALPHA 5
#define SIDE_COLOUR 3
#define COSINES_MAX (SIDE_OPAQUE * (SIDE_OPAQUE + 1) / 2 - 1)
/* With alpha, the hash has 6 bytes, and then half a byte for each of 14 + 5 + 5 + 14 coefficients.
 * Without alpha it is not longer. */
#define HASH_BYTES_MAX 25

struct picture {
    const uint8_t *pixels; /* without padding */
    uint32_t width, height, channels;
    double mean[3]; /* of the colours, weighted by alpha */
    bool has_alpha;
};

/* The DCT of a plane. */
struct wave {
    double constant, scale;      /* the mean of the plane; the largest other coefficient */
    double cosines[COSINES_MAX]; /* the other coefficients, scaled to 0..1 */
    uint32_t count;              /* of `cosines` */
};

struct hash {
    uint8_t bytes[HASH_BYTES_MAX];
    size_t start, halves; /* the first byte with coefficients; number of coefficients */
};

static double colour_at(const struct picture *picture, size_t i, int c)
{
    return picture->pixels[i * picture->channels + (picture->channels == 1 ? 0 : (size_t)c)];
}

static double alpha_at(const struct picture *picture, size_t i)
{
    return picture->channels == 4 ? picture->pixels[i * 4 + 3] / 255.0 : 1.0;
}

static void measure(struct picture *picture)
{
    size_t count = (size_t)picture->width * picture->height;
    double alphas = 0;
    for (size_t i = 0; i < count; i++) {
        double alpha = alpha_at(picture, i);
        for (int c = 0; c < 3; c++)
            picture->mean[c] += alpha / 255 * colour_at(picture, i, c);
        alphas += alpha;
    }
    for (int c = 0; c < 3 && alphas > 0; c++)
        picture->mean[c] /= alphas;
    picture->has_alpha = alphas < (double)count;
}

/* A pixel's value in a plane. Transparent pixels count as the mean colour. */
static double plane_at(const struct picture *picture, enum plane plane, size_t i)
{
    double alpha = alpha_at(picture, i), rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = picture->mean[c] * (1 - alpha) + alpha / 255 * colour_at(picture, i, c);
    return plane == LUMINANCE     ? (rgb[0] + rgb[1] + rgb[2]) / 3
           : plane == YELLOW_BLUE ? (rgb[0] + rgb[1]) / 2 - rgb[2]
           : plane == RED_GREEN   ? rgb[0] - rgb[1]
                                  : alpha;
}

/* A coefficient of the DCT: the mean of the values times the cosines of the component (across,
 * down). */
static double cosine_mean(const double *values, uint32_t width, uint32_t height, uint32_t across,
                          uint32_t down)
{
    double columns[THUMBHASH_SIDE], sum = 0;
    for (uint32_t x = 0; x < width; x++)
        columns[x] = cos(M_PI / width * across * (x + 0.5));
    for (uint32_t y = 0; y < height; y++) {
        double row = cos(M_PI / height * down * (y + 0.5));
        for (uint32_t x = 0; x < width; x++)
            sum += values[x + (size_t)y * width] * columns[x] * row;
    }
    return sum / (width * height);
}

/* Computes the DCT of a plane. across, down: numbers of components, of which only those above the
 * antidiagonal are computed. values: memory for the plane. */
static void wave_of(struct wave *wave, const struct picture *picture, enum plane plane,
                    uint32_t across, uint32_t down, double *values)
{
    size_t pixels = (size_t)picture->width * picture->height;
    *wave = (struct wave){.count = 0};
    for (size_t i = 0; i < pixels; i++)
        values[i] = plane_at(picture, plane, i);
    for (uint32_t j = 0; j < down; j++) {
        for (uint32_t i = 0; i * down < across * (down - j); i++) {
            double mean = cosine_mean(values, picture->width, picture->height, i, j);
            if (i == 0 && j == 0) {
                wave->constant = mean;
                continue;
            }
            assert(wave->count < COSINES_MAX);
            wave->cosines[wave->count] = fabs(mean) < MEAN_ZERO ? 0 : mean;
            wave->scale = fmax(wave->scale, fabs(wave->cosines[wave->count++]));
        }
    }
    for (uint32_t i = 0; i < wave->count && wave->scale > 0; i++)
        wave->cosines[i] = 0.5 + 0.5 / wave->scale * wave->cosines[i];
}

/* Rounds half up. */
static uint32_t rounded(double value)
{
    return (uint32_t)floor(value + 0.5);
}

/* The number of components along a side of this length. */
static uint32_t side_of(const struct picture *picture, uint32_t length)
{
    uint32_t longest = picture->width > picture->height ? picture->width : picture->height;
    uint32_t most = picture->has_alpha ? SIDE_ALPHA : SIDE_OPAQUE;
    uint32_t side = rounded((double)(most * length) / longest);
    return side > 1 ? side : 1;
}

static void put_header(struct hash *hash, const struct picture *picture,
                       const struct wave waves[PLANES])
{
    bool landscape = picture->width > picture->height;
    uint32_t side = side_of(picture, landscape ? picture->height : picture->width);
    uint32_t first = rounded(63 * waves[LUMINANCE].constant) |
                     rounded(31.5 + 31.5 * waves[YELLOW_BLUE].constant) << 6 |
                     rounded(31.5 + 31.5 * waves[RED_GREEN].constant) << 12 |
                     rounded(31 * waves[LUMINANCE].scale) << 18 |
                     (uint32_t)picture->has_alpha << 23;
    uint32_t second = side | rounded(63 * waves[YELLOW_BLUE].scale) << 3 |
                      rounded(63 * waves[RED_GREEN].scale) << 9 | (uint32_t)landscape << 15;
    for (int i = 0; i < 5; i++)
        hash->bytes[i] = (uint8_t)(i < 3 ? first >> 8 * i : second >> 8 * (i - 3));
    hash->start = 5;
    if (picture->has_alpha)
        hash->bytes[hash->start++] = (uint8_t)(rounded(15 * waves[ALPHA].constant) |
                                               rounded(15 * waves[ALPHA].scale) << 4);
}

static void put_cosines(struct hash *hash, const struct wave *wave)
{
    for (uint32_t i = 0; i < wave->count; i++, hash->halves++) {
        size_t at = hash->start + hash->halves / 2;
        assert(at < sizeof(hash->bytes));
        hash->bytes[at] |= (uint8_t)(rounded(15 * wave->cosines[i]) << 4 * (hash->halves % 2));
    }
}

static void hash_make(struct hash *hash, struct picture *picture, double *values)
{
    struct wave waves[PLANES];
    measure(picture);
    int planes = picture->has_alpha ? PLANES : ALPHA;
    for (int plane = 0; plane < planes; plane++) {
        uint32_t side = plane == ALPHA ? SIDE_ALPHA : SIDE_COLOUR;
        uint32_t across = side, down = side;
        if (plane == LUMINANCE) {
            across = side_of(picture, picture->width);
            down = side_of(picture, picture->height);
        }
        wave_of(&waves[plane], picture, (enum plane)plane, across < side ? side : across,
                down < side ? side : down, values);
    }
    *hash = (struct hash){.start = 0};
    put_header(hash, picture, waves);
    for (int plane = 0; plane < planes; plane++)
        put_cosines(hash, &waves[plane]);
}

/* Writes base64 (RFC 4648) with padding. */
static void base64(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < count ? bytes[i + 2] : 0;
        *text++ = digits[three >> 18];
        *text++ = digits[three >> 12 & 63];
        *text++ = i + 1 < count ? digits[three >> 6 & 63] : '=';
        *text++ = i + 2 < count ? digits[three & 63] : '=';
    }
    *text = '\0';
}

static cJSON *thumbhash_values(const struct pass *pass, const uint8_t *work)
{
    struct picture picture = {.pixels = work, .width = pass->from.width,
                              .height = pass->from.height, .channels = pass->from.channels};
    double values[THUMBHASH_SIDE * THUMBHASH_SIDE];
    struct hash hash;
    char text[(HASH_BYTES_MAX + 2) / 3 * 4 + 1];
    assert(picture.width <= THUMBHASH_SIDE && picture.height <= THUMBHASH_SIDE);
    hash_make(&hash, &picture, values);
    base64(hash.bytes, hash.start + (hash.halves + 1) / 2, text);
    return cJSON_CreateString(text);
}

static enum status thumbhash_step(const void *params, struct chain *chain)
{
    (void)params;
    chain_leave(chain);
    enum status status = resize_within(chain, THUMBHASH_SIDE);
    if (status)
        return status;
    size_t bytes = (size_t)chain->shape.width * chain->shape.height * chain->shape.channels;
    chain_look_aside(chain, &pass_thumbhash, bytes, thumbhash_values);
    return STATUS_OK;
}

const struct op op_thumbhash = {
    .name = "thumbhash",
    .help = "Returns the ThumbHash of the image in base64: a preview of about 25 bytes",
    .definition = "An image that is larger than 100 x 100 is resized as `resize` does with `fit` "
                  "inside and lanczos3. The hash of its pixels is that of rgbaToThumbHash in "
                  "evanw/thumbhash, step by step in double, except that a cosine's mean below "
                  "1e-12 counts as 0: there, rounding errors decide on bits of the published "
                  "hash, most often in an image of one colour. Gray counts as R = G = B; alpha "
                  "is kept in the hash. The image is not changed.",
    .flags = OP_VALUES,
    .step = thumbhash_step,
};
