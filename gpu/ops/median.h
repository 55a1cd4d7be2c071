/*
 * median.h - the median of 9 and of 25 values by sorting networks, without branches.
 *
 * A file that includes this header must first define MEDIAN (the type of a value: a byte, or two
 * bytes in a register), median_min and median_max for this type, and MEDIAN_INLINE (the storage
 * class of the functions).
 *
 * First, each column of the neighbourhood is sorted; neighbouring pixels share this work. Then, for
 * each rank, the values of this rank in all columns are sorted. In an n x n neighbourhood, the
 * value with rank r in its column, and rank c among the columns' values of rank r, now has at least
 * (r + 1)(c + 1) - 1 other values at or below it, and (n - r)(n - c) - 1 at or above it. Only
 * values that can still be the median are compared further. A comparison orders two values; if only
 * one of them is used, the compiler removes the other half.
 */
#pragma once

#include "gpu/ops/prologue.h"

struct median {
    int size; /* 3 or 5 */
    struct prologue prologue;
};

MEDIAN_INLINE void median_order(MEDIAN *a, MEDIAN *b)
{
    MEDIAN low = median_min(*a, *b);
    *b = median_max(*a, *b);
    *a = low;
}

MEDIAN_INLINE void median_sort3(MEDIAN *a, MEDIAN *b, MEDIAN *c)
{
    median_order(a, b);
    median_order(b, c);
    median_order(a, b);
}

MEDIAN_INLINE void median_sort5(MEDIAN *a, MEDIAN *b, MEDIAN *c, MEDIAN *d, MEDIAN *e)
{
    median_order(a, b);
    median_order(d, e);
    median_order(c, e);
    median_order(c, d);
    median_order(b, e);
    median_order(a, d);
    median_order(a, c);
    median_order(b, d);
    median_order(b, c);
}

MEDIAN_INLINE MEDIAN median_of3(MEDIAN a, MEDIAN b, MEDIAN c)
{
    return median_max(median_min(a, b), median_min(median_max(a, b), c));
}

/* The median of three sorted columns: a0 to a2 are their minima, b0 to b2 their middle values, c0
 * to c2 their maxima. */
MEDIAN_INLINE MEDIAN median_of9(MEDIAN a0, MEDIAN a1, MEDIAN a2, MEDIAN b0, MEDIAN b1, MEDIAN b2,
                                MEDIAN c0, MEDIAN c1, MEDIAN c2)
{
    return median_of3(median_max(median_max(a0, a1), a2), median_of3(b0, b1, b2),
                      median_min(median_min(c0, c1), c2));
}

/* The median_ends functions move the minimum of 4 to 7 values to the first place, and the maximum
 * to the last. */
MEDIAN_INLINE void median_ends4(MEDIAN *a, MEDIAN *b, MEDIAN *c, MEDIAN *d)
{
    median_order(a, b);
    median_order(c, d);
    median_order(a, c);
    median_order(b, d);
}

MEDIAN_INLINE void median_ends5(MEDIAN *a, MEDIAN *b, MEDIAN *c, MEDIAN *d, MEDIAN *e)
{
    median_ends4(a, b, d, e);
    median_order(a, c);
    median_order(c, e);
}

MEDIAN_INLINE void median_ends6(MEDIAN *a, MEDIAN *b, MEDIAN *c, MEDIAN *d, MEDIAN *e, MEDIAN *f)
{
    median_order(c, d);
    median_ends4(a, b, e, f);
    median_order(a, c);
    median_order(d, f);
}

MEDIAN_INLINE void median_ends7(MEDIAN *a, MEDIAN *b, MEDIAN *c, MEDIAN *d, MEDIAN *e, MEDIAN *f,
                                MEDIAN *g)
{
    median_ends6(a, b, c, e, f, g);
    median_order(a, d);
    median_order(d, g);
}

/* The median of 13 values. The minimum of any 8 of them has 7 values at or above it, so it cannot
 * be the median; nor can the maximum. These two are dropped. The remaining 6 and one more value are
 * 7 of the remaining 11 values, whose minimum and maximum are dropped for the same reason, and so
 * on. */
MEDIAN_INLINE MEDIAN median_of13(MEDIAN *v)
{
    median_order(&v[3], &v[4]);
    median_ends6(&v[0], &v[1], &v[2], &v[5], &v[6], &v[7]);
    median_order(&v[0], &v[3]);
    median_order(&v[4], &v[7]);
    median_ends7(&v[8], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6]);
    median_ends6(&v[9], &v[1], &v[2], &v[3], &v[4], &v[5]);
    median_ends5(&v[10], &v[1], &v[2], &v[3], &v[4]);
    median_ends4(&v[11], &v[1], &v[2], &v[3]);
    return median_of3(v[12], v[1], v[2]);
}

/* The median of five sorted columns: v[r][c] has rank r in column c. Overwrites v. */
MEDIAN_INLINE MEDIAN median_of25(MEDIAN v[5][5])
{
    for (int r = 0; r < 5; r++)
        median_sort5(&v[r][0], &v[r][1], &v[r][2], &v[r][3], &v[r][4]);
    MEDIAN middle[13] = {v[0][3], v[0][4], v[1][2], v[1][3], v[1][4], v[2][1], v[2][2],
                         v[2][3], v[3][0], v[3][1], v[3][2], v[4][0], v[4][1]};
    return median_of13(middle);
}
