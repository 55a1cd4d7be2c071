#include "codecs/confined/geometry.h"

#include <stdbool.h>

/* Divides signed numbers, which the box stores as unsigned. false: it is not a whole number. */
static bool whole(const uint32_t fraction[2], int64_t *value)
{
    int64_t divisor = (int32_t)fraction[1], dividend = (int32_t)fraction[0];
    if (divisor <= 0 || dividend % divisor != 0)
        return false;
    *value = dividend / divisor;
    return true;
}

struct confined_rect confined_crop(uint32_t width, uint32_t height,
                                   const struct confined_aperture *aperture)
{
    struct confined_rect all = {0, 0, width, height};
    int64_t crop_width, crop_height;
    if (!aperture || !whole(aperture->width, &crop_width) || !whole(aperture->height, &crop_height))
        return all;
    int64_t x_d = (int32_t)aperture->x[1], y_d = (int32_t)aperture->y[1];
    if (x_d <= 0 || y_d <= 0 || crop_width <= 0 || crop_width > width || crop_height <= 0 ||
        crop_height > height)
        return all;
    /* Twice the position of the left (upper) edge, times the divisor of the offset. */
    int64_t x2 = (width - crop_width) * x_d + 2 * (int64_t)(int32_t)aperture->x[0];
    int64_t y2 = (height - crop_height) * y_d + 2 * (int64_t)(int32_t)aperture->y[0];
    if (x2 < 0 || y2 < 0 || x2 % (2 * x_d) != 0 || y2 % (2 * y_d) != 0)
        return all;
    int64_t x = x2 / (2 * x_d), y = y2 / (2 * y_d);
    if (x + crop_width > width || y + crop_height > height)
        return all;
    return (struct confined_rect){(uint32_t)x, (uint32_t)y, (uint32_t)crop_width,
                                  (uint32_t)crop_height};
}

uint32_t confined_orientation(unsigned turns, enum confined_mirror mirror)
{
    static const uint32_t orientations[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    return orientations[turns % 4][mirror];
}
