/*
 * gray_table.h - equalize and otsu, which map gray through a table computed from its histogram.
 *
 * Each operation is a single pass: the device computes the table, without a round trip to the host.
 * For a colour image, the pass converts and counts each pixel, stores the gray in the output image,
 * and then replaces it there by its table entry.
 */
#pragma once

#include "gpu/ops/histogram.h"

/* The work space of the pass. */
struct gray_table {
    uint32_t counts[HISTOGRAM_BINS];
    uint8_t table[HISTOGRAM_BINS];
    uint32_t threshold; /* otsu only */
};

/* ---- equalize ----
 *
 * f is the smallest value that occurs; n(i) is the number of pixels with values f + 1 to i.
 * table[i] = rint((float)n(i) * scale), ties to even, at most 255. An image of one single value is
 * not changed. */

/* others: the number of pixels whose value is not f. */
PIXEL float equalize_scale(uint32_t others)
{
    return 255.0f / (float)(int32_t)others;
}

/* Adding and subtracting 1.5 * 2^23 rounds a float of this size to an integer, ties to even. */
PIXEL uint8_t equalize_entry(uint32_t sum, float scale)
{
    float value = (float)(int32_t)sum * scale;
    int rounded = (int)((value + 12582912.0f) - 12582912.0f);
    return (uint8_t)(rounded > 255 ? 255 : rounded);
}

/* ---- otsu ----
 *
 * N. Otsu, A Threshold Selection Method from Gray-Level Histograms, 1979: divides gray into two
 * classes with maximum variance between them. The order of steps is that of OpenCV's THRESH_OTSU,
 * and each step is an IEEE double operation, so that ties are resolved alike. */

/* FLT_EPSILON */
#define OTSU_EPSILON 1.1920928955078125e-7

/* Whether both classes have pixels, given the share of the lower one. */
PIXEL bool otsu_parted(double q1)
{
    double q2 = 1.0 - q1;
    double low = q1 < q2 ? q1 : q2, high = q1 < q2 ? q2 : q1;
    return !(low < OTSU_EPSILON || high > 1.0 - OTSU_EPSILON);
}

/* The variance between the classes. q1 is the share of the lower class and mu1 its mean; mu is the
 * mean of all pixels. */
PIXEL double otsu_sigma(double q1, double mu1, double mu)
{
    double q2 = 1.0 - q1, mu2 = (mu - q1 * mu1) / q2;
    return q1 * q2 * (mu1 - mu2) * (mu1 - mu2);
}
