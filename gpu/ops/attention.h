/*
 * attention.h - the part of an image with the most edges, for `resize` with `fit` cover.
 *
 * One side of the window is that of the image, so the window moves along one axis only. The energy
 * of a line across this axis is the sum of its pixels' Sobel magnitudes. The window with the most
 * energy wins. All sums are integers. The pass finds the window and copies it; where it starts is
 * computed on the device, so the plan knows only its size.
 */
#pragma once

#include "gpu/ops/sobel.h"
#include "gpu/plan/chain.h"

struct attention {
    struct grayscale gray;
    bool down; /* the window moves down, not across */
    uint32_t full_width, full_height; /* of the image before it was resized */
    uint32_t full_window;             /* length of the window in that image, along its axis */
};

/* The work space. sums[k]: energy of line k. The kernels replace it by the sum of lines 0 to k - 1,
 * with one more entry for all lines. */
struct attention_work {
    uint64_t start; /* the first line of the window */
    uint64_t sums[];
};

/* As op_sobel with its defaults. a, m and b are the gray of three rows. */
PIXEL uint32_t attention_energy(const uint8_t *a, const uint8_t *m, const uint8_t *b, size_t left,
                                size_t x, size_t right)
{
    int sum = sobel_sum(sobel_gx(a, m, b, left, right), sobel_gy(a, b, left, x, right)) >> 1;
    return (uint32_t)(sum > 255 ? 255 : sum);
}

/* A place of the window. */
struct attention_place {
    uint64_t energy;
    uint32_t start;
};

/* Whether a is better than b: more energy, then nearer to the middle, then the lower start. `room`:
 * the largest start. The order is total. */
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

/* Cuts the window of width x height out of the chain's image. One of them is that of the image. */
void attention_add(struct chain *chain, uint32_t width, uint32_t height,
                   const struct attention *attention);
