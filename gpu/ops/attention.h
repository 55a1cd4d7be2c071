/*
 * attention.h - cuts out the part of an image with the most edges, for `resize` with `fit` cover.
 *
 * The part, called the window, is as wide or as high as the image, so that it can move only along
 * one axis. The energy of a line across this axis (a column or a row) is the sum of its pixels'
 * Sobel magnitudes. The window whose lines have the most energy is chosen. All sums are integers.
 * One pass finds the window and copies it. The plan knows only the window's size, because the
 * device computes where it starts.
 */
#pragma once

#include "gpu/ops/sobel.h"
#include "gpu/plan/chain.h"

struct attention {
    struct grayscale gray;
    bool down;                        /* the window moves down; otherwise across */
    bool zero;                        /* no padding: pass.h */
    uint32_t full_width, full_height; /* of the image before it was resized */
    uint32_t full_window;             /* length of the window in that image, along the axis */
};

/* The work space. sums[k]: the energy of line k. Later, the kernels replace it by the sum of the
 * lines 0 to k - 1; the last entry is the sum of all lines. */
struct attention_work {
    uint64_t start; /* the first line of the window */
    uint64_t sums[];
};

/* The energy of a pixel: the result of the operation sobel with its defaults. a, m, b, left, right:
 * as for sobel_gx. */
PIXEL uint32_t attention_energy(const uint8_t *a, const uint8_t *m, const uint8_t *b, size_t left,
                                size_t x, size_t right)
{
    int sum = sobel_sum(sobel_gx(a, m, b, left, right), sobel_gy(a, b, left, x, right)) >> 1;
    return (uint32_t)(sum > 255 ? 255 : sum);
}

/* A possible place of the window, and its energy. */
struct attention_place {
    uint64_t energy;
    uint32_t start;
};

/* Whether place a is better than place b: it has more energy, or as much and is nearer to the
 * middle, or as near and starts earlier. room: the largest start. No two places are equal, so the
 * result does not depend on the order of comparisons. */
PIXEL bool attention_better(const struct attention_place *a, const struct attention_place *b,
                            uint32_t room)
{
    int64_t a_off = 2 * (int64_t)a->start - room, b_off = 2 * (int64_t)b->start - room;
    a_off = a_off < 0 ? -a_off : a_off;
    b_off = b_off < 0 ? -b_off : b_off;
    if (a->energy != b->energy)
        return a->energy > b->energy;
    return a_off != b_off ? a_off < b_off : a->start < b->start;
}

/* Appends the pass, which cuts a window of width x height out of the current image. One of the two
 * is the width or the height of the image. */
void attention_add(struct chain *chain, uint32_t width, uint32_t height,
                   const struct attention *attention);
