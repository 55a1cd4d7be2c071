/* lookup.c - the CPU's loop. */
#include "gpu/ops/lookup.h"

void lookup_bytes(const uint8_t *from, uint8_t *to, size_t bytes, const uint8_t table[256])
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = table[from[i]];
}
