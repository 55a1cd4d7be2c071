/*
 * otsu.h - Otsu's threshold: divides gray into two classes with maximum variance between them.
 *
 * Source: N. Otsu, A Threshold Selection Method from Gray-Level Histograms, 1979. The order of
 * steps is that of OpenCV's THRESH_OTSU, and each step is an IEEE double operation, so that ties
 * are resolved alike.
 */
#ifndef GPUIMGD_GPU_OPS_OTSU_H
#define GPUIMGD_GPU_OPS_OTSU_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/gray_table.h"
#include "gpu/ops/pixel.h"

/* FLT_EPSILON */
#define OTSU_EPSILON 1.1920928955078125e-7

/* Whether both classes have pixels, given the share of the lower one. */
PIXEL bool otsu_parted(double q1)
{
    double q2 = 1.0 - q1;
    double low = q1 < q2 ? q1 : q2, high = q1 < q2 ? q2 : q1;
    return !(low < OTSU_EPSILON || high > 1.0 - OTSU_EPSILON);
}

/* Moves value `i`, whose share of the pixels is p, to the lower class. q1 is the share of that
 * class and mu1 its mean. Returns false if a class is almost empty. otsu.cu takes the same
 * steps. */
PIXEL bool otsu_next(double *q1, double *mu1, int i, double p)
{
    *mu1 *= *q1;
    *q1 += p;
    if (!otsu_parted(*q1))
        return false;
    *mu1 = (*mu1 + (double)i * p) / *q1;
    return true;
}

/* The variance between the classes. mu is the mean of all pixels. */
PIXEL double otsu_sigma(double q1, double mu1, double mu)
{
    double q2 = 1.0 - q1, mu2 = (mu - q1 * mu1) / q2;
    return q1 * q2 * (mu1 - mu2) * (mu1 - mu2);
}

extern const struct pass_type pass_otsu;

#endif
