/*
 * gravity.h - the place of a rectangle within a larger one: its middle, a side or a corner.
 *
 * In the middle of a side, the inner rectangle starts at floor((outer - inner) / 2). If it is
 * longer than the outer side, as an overlay that is cut may be, the offset is negative, and also
 * rounded down.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum gravity {
    GRAVITY_CENTER,
    GRAVITY_NORTH,
    GRAVITY_NORTHEAST,
    GRAVITY_EAST,
    GRAVITY_SOUTHEAST,
    GRAVITY_SOUTH,
    GRAVITY_SOUTHWEST,
    GRAVITY_WEST,
    GRAVITY_NORTHWEST,
    GRAVITIES,
};
/* The values of the parameter `gravity` in jobs, in the order of the enum. */
#define GRAVITY_NAMES                                                                              \
    "center", "north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"
#define GRAVITY_WORDS ((const char *const[]){GRAVITY_NAMES, NULL})

/* Returns where a side of `inner` pixels starts in one of `outer` pixels, if 0, 1 or 2 halves of
 * the other pixels come before it. */
static inline int64_t gravity_start(int64_t outer, int64_t inner, int halves)
{
    int64_t doubled = (outer - inner) * halves;
    return (doubled - (doubled < 0 && doubled % 2 != 0)) / 2;
}

/* Sets the column and the row of the outer rectangle where the inner one starts. */
static inline void gravity_offset(enum gravity gravity, int64_t outer_width, int64_t outer_height,
                                  int64_t inner_width, int64_t inner_height, int64_t *x, int64_t *y)
{
    /* The argument `halves` across, and down, of each gravity. */
    static const uint8_t halves[GRAVITIES][2] = {{1, 1}, {1, 0}, {2, 0}, {2, 1}, {2, 2},
                                                 {1, 2}, {0, 2}, {0, 1}, {0, 0}};
    *x = gravity_start(outer_width, inner_width, halves[gravity][0]);
    *y = gravity_start(outer_height, inner_height, halves[gravity][1]);
}
