/*
 * gray_table.h - the passes of equalize and otsu, which map gray through a table that they compute
 * from its histogram.
 *
 * Each operation is a single pass, because the device computes the table itself. For a colour
 * image, the pass converts each pixel to gray, counts it and stores it in the output image. Then it
 * replaces each pixel there by its entry in the table.
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
 * Let f be the smallest value that occurs, and n(i) the number of pixels with values f + 1 to i.
 * Then table[i] = rint((float)n(i) * scale), ties to even, at most 255. An image whose pixels all
 * have the same value is not changed. */

/* others: the number of pixels whose value is not f. */
PIXEL float equalize_scale(uint32_t others)
{
    return 255.0f / (float)(int32_t)others;
}

/* sum: n(i). Adding and subtracting 1.5 * 2^23 rounds a float below 2^22 to an integer, ties to
 * even. */
PIXEL uint8_t equalize_entry(uint32_t sum, float scale)
{
    float value = (float)(int32_t)sum * scale;
    int rounded = (int)((value + 12582912.0f) - 12582912.0f);
    return (uint8_t)(rounded > 255 ? 255 : rounded);
}

/* ---- otsu ----
 *
 * Otsu's method divides gray into two classes so that the variance between them is largest (N.
 * Otsu, A Threshold Selection Method from Gray-Level Histograms, 1979). The steps, their order and
 * their precision (IEEE double) are those of OpenCV's THRESH_OTSU, so that ties are resolved in the
 * same way. */

/* FLT_EPSILON */
#define OTSU_EPSILON 1.1920928955078125e-7

/* Whether both classes have pixels. q1: the share of pixels in the lower class. */
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
