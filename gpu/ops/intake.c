/* intake.c - the CPU's loops. */
#include "gpu/ops/intake.h"

#include <string.h>

void intake_look_up(const uint8_t *from, uint8_t *to, size_t bytes, const uint8_t table[256])
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = table[from[i]];
}

void intake_row(const struct intake *intake, const uint8_t *from, uint8_t *to, uint32_t width,
                uint32_t channels)
{
    size_t bytes = (size_t)width * (intake->makes_gray ? 1 : channels);
    if (intake->makes_gray) {
        grayscale_row(from, to, width, channels, &intake->gray);
        from = to;
    }
    if (intake->looks_up)
        intake_look_up(from, to, bytes, intake->table);
    else if (from != to)
        memcpy(to, from, bytes);
}
