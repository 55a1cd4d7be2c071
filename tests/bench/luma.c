#include "tests/bench/luma.h"

#include <math.h>
#include <stdlib.h>

static double luma_at(const struct image *image, uint32_t x, uint32_t y)
{
    const uint8_t *pixel = image->pixels + y * image->stride + (size_t)x * image->channels;
    return image->channels == 1 ? pixel[0] : 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
}

double luma_psnr(const struct image *a, const struct image *b)
{
    double squares = 0;
    for (uint32_t y = 0; y < a->height; y++)
        for (uint32_t x = 0; x < a->width; x++) {
            double error = luma_at(a, x, y) - luma_at(b, x, y);
            squares += error * error;
        }
    double mean = squares / ((double)a->width * a->height);
    return mean > 0 ? fmin(99, 10 * log10(255 * 255 / mean)) : 99;
}

/* The similarity of two squares whose upper left corner is at x, y. */
static double similarity(const struct image *a, const struct image *b, uint32_t x, uint32_t y)
{
    enum { side = 8, count = side * side };
    const double c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255;
    double sum_a = 0, sum_b = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0;
    for (uint32_t i = 0; i < count; i++) {
        double p = luma_at(a, x + i % side, y + i / side);
        double q = luma_at(b, x + i % side, y + i / side);
        sum_a += p;
        sum_b += q;
        sum_aa += p * p;
        sum_bb += q * q;
        sum_ab += p * q;
    }
    double mean_a = sum_a / count, mean_b = sum_b / count;
    double var_a = sum_aa / count - mean_a * mean_a, var_b = sum_bb / count - mean_b * mean_b;
    double both = sum_ab / count - mean_a * mean_b;
    return (2 * mean_a * mean_b + c1) * (2 * both + c2) /
           ((mean_a * mean_a + mean_b * mean_b + c1) * (var_a + var_b + c2));
}

double luma_ssim(const struct image *a, const struct image *b)
{
    enum { side = 8, step = 4 };
    double sum = 0, squares = 0;
    for (uint32_t y = 0; y + side <= a->height; y += step)
        for (uint32_t x = 0; x + side <= a->width; x += step, squares++)
            sum += similarity(a, b, x, y);
    return squares > 0 ? sum / squares : 1;
}
