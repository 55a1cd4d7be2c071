/*
 * predict.h - the prediction modes (AV1 7.11.2), sample by sample.
 *
 * avif_prepare_rays turns the edges of a block into those of a direction; then each sample of the
 * block is a function of its position, in any order.
 */
#pragma once

#include "gpu/avif/predict/edges.h"

/* Weights of SMOOTH by size, which begins at 1 << size. */
CONSTANT uint8_t avif_smooth_weights[128] = {
    0,   0,   0,   0,   255, 149, 85,  64,  255, 197, 146, 105, 73,  50,  37,  32,  255, 225, 196,
    170, 145, 123, 102, 84,  68,  54,  43,  33,  26,  20,  17,  16,  255, 240, 225, 210, 196, 182,
    169, 157, 145, 133, 122, 111, 101, 92,  83,  74,  66,  59,  52,  45,  39,  34,  29,  25,  21,
    17,  14,  12,  10,  9,   8,   8,   255, 248, 240, 233, 225, 218, 210, 203, 196, 189, 182, 176,
    169, 163, 156, 150, 144, 138, 133, 127, 121, 116, 111, 106, 101, 96,  91,  86,  82,  77,  73,
    69,  65,  61,  57,  54,  50,  47,  44,  41,  38,  35,  32,  29,  27,  25,  22,  20,  18,  16,
    15,  13,  12,  10,  9,   8,   7,   6,   6,   5,   5,   4,   4,   4};

/* 64 times the tangent of 3, 6, .. degrees, about (Dr_Intra_Derivative). Only the angles of modes
 * are set. */
CONSTANT uint16_t avif_slopes[30] = {0,   1023, 547, 372, 273, 215, 178, 151, 132, 116,
                                     102, 0,    90,  80,  71,  64,  57,  51,  45,  40,
                                     35,  31,   27,  23,  19,  15,  0,   11,  7,   3};

DEVICE bool avif_is_directional(int mode)
{
    return mode >= V_PRED && mode <= D67_PRED;
}

DEVICE bool avif_is_smooth(int mode)
{
    return mode >= SMOOTH_PRED && mode <= SMOOTH_H_PRED;
}

/* Degrees from the direction to the right. */
DEVICE int avif_angle(int mode, int delta)
{
    int base = mode == V_PRED      ? 90
               : mode == H_PRED    ? 180
               : mode == D45_PRED  ? 45
               : mode == D135_PRED ? 135
               : mode == D113_PRED ? 113
               : mode == D157_PRED ? 157
               : mode == D203_PRED ? 203
                                   : 67;
    return base + 3 * delta;
}

DEVICE int avif_clip(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* ---- modes without an angle ---- */

DEVICE int avif_dc(const struct avif_edges *edges, int size)
{
    const uint8_t *above = edges->above_room + EDGE_BEFORE, *left = edges->left_room + EDGE_BEFORE;
    int side = 1 << size, sum = 0;
    if (!edges->has_above && !edges->has_left)
        return 128;
    for (int i = 0; i < side; i++)
        sum += (edges->has_above ? above[i] : 0) + (edges->has_left ? left[i] : 0);
    if (edges->has_above && edges->has_left)
        return (sum + side) >> (size + 1);
    return (sum + side / 2) >> size;
}

LOOKUP int avif_smooth(const uint8_t *above, const uint8_t *left, int size, int x, int y)
{
    const uint8_t *weights = avif_smooth_weights + (1 << size);
    int last = (1 << size) - 1;
    int sum = weights[y] * above[x] + (256 - weights[y]) * left[last] + weights[x] * left[y] +
              (256 - weights[x]) * above[last];
    return (sum + 256) >> 9;
}

/* ---- directional modes ---- */

/* The edges of a direction: filtered, or with samples in between ("upsampled"). */
struct avif_rays {
    uint8_t above_room[EDGE_ROOM], left_room[EDGE_ROOM];
    int angle, dx, dy;
    int upsampled_above, upsampled_left; /* 0 or 1 */
};

/* away: degrees between the direction and the normal of the edge. smooth: a neighbour is. */
DEVICE int avif_filter_strength(bool smooth, int size, int away)
{
    away = away < 0 ? -away : away;
    if (size >= 5)
        return 3;
    if (smooth) {
        if (size == 2)
            return away >= 64 ? 2 : away >= 40;
        if (size == 3)
            return away >= 48 ? 2 : away >= 20;
        return 3;
    }
    if (size == 2)
        return away >= 56;
    if (size == 3)
        return away >= 40;
    return away >= 32 ? 3 : away >= 4 ? 2 : 1;
}

/* Filters `count` samples from edge[-1] on, but not the first. */
DEVICE void avif_filter_edge(uint8_t *edge, int count, int strength)
{
    uint8_t from[2 * 64 + 8];
    if (strength == 0)
        return;
    int outer = strength == 3 ? 2 : 0, inner = strength == 2 ? 5 : 4;
    int centre = 16 - 2 * outer - 2 * inner;
    from[0] = from[1] = edge[-1];
    for (int i = 0; i < count; i++)
        from[i + 2] = edge[i - 1];
    from[count + 2] = from[count + 3] = edge[count - 2];
    for (int i = 1; i < count; i++)
        edge[i - 1] = (uint8_t)((outer * (from[i] + from[i + 4]) +
                                 inner * (from[i + 1] + from[i + 3]) + centre * from[i + 2] + 8) >>
                                4);
}

/* Doubles `count` samples: edge[2 i] becomes the sample i. */
DEVICE void avif_upsample_edge(uint8_t *edge, int count)
{
    uint8_t from[2 * 16 + 8];
    from[0] = edge[-1];
    for (int i = -1; i < count; i++)
        from[i + 2] = edge[i];
    from[count + 2] = edge[count - 1];
    edge[-2] = from[0];
    for (int i = 0; i < count; i++) {
        int sum = 9 * (from[i + 1] + from[i + 2]) - from[i] - from[i + 3];
        edge[2 * i - 1] = (uint8_t)avif_clip((sum + 8) >> 4);
        edge[2 * i] = from[i + 2];
    }
}

DEVICE bool avif_upsamples(bool smooth, int size, int away)
{
    away = away < 0 ? -away : away;
    return away > 0 && away < 40 && size <= (smooth ? 2 : 3);
}

/* What is done with an edge. count 0: the rays do not meet it. */
struct avif_edge_plan {
    int count;    /* samples besides the corner that the block may use */
    int filtered; /* so many samples are filtered, with the corner; 0: none */
    int strength;
    bool upsampled;
};

/* away: as above; used: of the samples of the edge, there: whether they are decoded, rest: to the
 * end of the frame */
DEVICE struct avif_edge_plan avif_plan_edge(int size, int away, bool smooth, int used, bool there,
                                            int rest)
{
    int side = 1 << size, inside = avif_min(side, rest);
    struct avif_edge_plan plan = {used, 0, 0, avif_upsamples(smooth, size, away)};
    if (there && used > 0) {
        plan.filtered = inside + used - side + 1;
        plan.strength = avif_filter_strength(smooth, size, away);
    }
    return plan;
}

/* Sets the angle of rays, and plans for both edges. */
LOOKUP void avif_plan_rays(const struct avif_edges *edges, int size, int angle, bool smooth,
                           struct avif_rays *rays, struct avif_edge_plan *above,
                           struct avif_edge_plan *left)
{
    int side = 1 << size;
    rays->angle = angle;
    rays->dx = angle < 90    ? avif_slopes[angle / 3]
               : angle < 180 ? avif_slopes[(180 - angle) / 3]
                             : 0;
    rays->dy = angle > 180  ? avif_slopes[(270 - angle) / 3]
               : angle > 90 ? avif_slopes[(angle - 90) / 3]
                            : 0;
    *above = avif_plan_edge(size, angle - 90, smooth,
                            angle < 90    ? 2 * side
                            : angle < 180 ? side
                                          : 0,
                            edges->has_above, edges->rest_x);
    *left = avif_plan_edge(size, angle - 180, smooth,
                           angle > 180  ? 2 * side
                           : angle > 90 ? side
                                        : 0,
                           edges->has_left, edges->rest_y);
    rays->upsampled_above = above->upsampled;
    rays->upsampled_left = left->upsampled;
}

/* The corner of blocks of 16 x 16 and more, for rays from both edges. */
DEVICE uint8_t avif_filter_corner(const uint8_t *above, const uint8_t *left)
{
    return (uint8_t)((left[0] * 5 + above[-1] * 6 + above[0] * 5 + 8) >> 4);
}

DEVICE void avif_prepare_edge(const struct avif_edge_plan *plan, uint8_t *edge)
{
    if (plan->filtered > 0)
        avif_filter_edge(edge, plan->filtered, plan->strength);
    if (plan->upsampled && plan->count > 0)
        avif_upsample_edge(edge, plan->count);
}

/* Sets the angle of rays whose edges are copies of those of the block, and prepares the edges. */
LOOKUP void avif_prepare_rays(const struct avif_edges *edges, int size, int angle, bool smooth,
                              struct avif_rays *rays)
{
    uint8_t *above = rays->above_room + EDGE_BEFORE, *left = rays->left_room + EDGE_BEFORE;
    struct avif_edge_plan plan_above, plan_left;
    avif_plan_rays(edges, size, angle, smooth, rays, &plan_above, &plan_left);
    if (angle > 90 && angle < 180 && size >= 4)
        left[-1] = above[-1] = avif_filter_corner(above, left);
    avif_prepare_edge(&plan_above, above);
    avif_prepare_edge(&plan_left, left);
}

/* Interpolates between edge[at / 64] and the next sample. */
DEVICE int avif_between(const uint8_t *edge, int base, int at, int upsampled)
{
    int part = (at * (1 << upsampled)) >> 1 & 31;
    return (edge[base] * (32 - part) + edge[base + 1] * part + 16) >> 5;
}

DEVICE int avif_ray_sample(const struct avif_rays *rays, int size, int x, int y)
{
    const uint8_t *above = rays->above_room + EDGE_BEFORE, *left = rays->left_room + EDGE_BEFORE;
    int up_above = rays->upsampled_above, up_left = rays->upsampled_left;
    if (rays->angle < 90) {
        int at = (y + 1) * rays->dx, last = ((2 << size) - 1) << up_above;
        int base = (at >> (6 - up_above)) + (x << up_above);
        return base < last ? avif_between(above, base, at, up_above) : above[last];
    }
    if (rays->angle < 180) {
        int at = (x << 6) - (y + 1) * rays->dx, base = at >> (6 - up_above);
        if (base >= -(1 << up_above))
            return avif_between(above, base, at, up_above);
        at = (y << 6) - (x + 1) * rays->dy;
        return avif_between(left, at >> (6 - up_left), at, up_left);
    }
    int at = (x + 1) * rays->dy;
    return avif_between(left, (at >> (6 - up_left)) + (y << up_left), at, up_left);
}
