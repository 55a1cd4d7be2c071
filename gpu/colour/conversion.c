/* conversion.c - allocates and releases the tables of a profile. */
#include <stdlib.h>
#include <string.h>

#include "gpu/colour/build.h"

struct colour *colour_create(enum colour_kind kind, size_t tables_bytes)
{
    size_t head = (sizeof(struct colour) + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
    size_t bytes = (head + tables_bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
    struct colour *colour = aligned_alloc(BUFFER_ALIGN, bytes);
    if (!colour)
        return NULL;
    memset(colour, 0, bytes);
    atomic_init(&colour->owners, 1);
    colour->kind = kind;
    colour->tables_bytes = tables_bytes;
    colour->tables = tables_bytes > 0 ? (uint8_t *)colour + head : NULL;
    return colour;
}

void colour_release(struct colour *colour)
{
    if (colour && atomic_fetch_sub(&colour->owners, 1) == 1)
        free(colour);
}

size_t colour_bytes(const struct colour *colour)
{
    return sizeof(*colour) + BUFFER_ALIGN + colour->tables_bytes;
}
