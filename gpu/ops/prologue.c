/* prologue.c - applies a prologue on the CPU. */
#include "gpu/ops/prologue.h"

#include <string.h>

void prologue_look_up(const uint8_t *from, uint8_t *to, size_t bytes, const uint8_t table[256])
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = table[from[i]];
}

void prologue_row(const struct prologue *prologue, const uint8_t *from, uint8_t *to, uint32_t width,
                  uint32_t channels)
{
    size_t bytes = (size_t)width * (prologue->makes_gray ? 1 : channels);
    if (prologue->makes_gray) {
        grayscale_row(from, to, width, channels, &prologue->gray);
        from = to;
    }
    if (prologue->looks_up)
        prologue_look_up(from, to, bytes, prologue->table);
    else if (from != to)
        memcpy(to, from, bytes);
}
