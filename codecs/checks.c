/* checks.c - the checks of sizes, deadlines and memory that all codecs make. */
#include <stdlib.h>

#include "codecs/codec_impl.h"
#include "conf/clock.h"

bool codec_has_memory(size_t bytes)
{
    void *volatile memory = malloc(bytes); /* volatile: compilers remove unused allocations */
    bool has = memory != NULL;
    free(memory);
    return has;
}

bool codec_late(uint64_t deadline_ns)
{
    return deadline_ns != 0 && clock_now_ns() >= deadline_ns;
}

enum status codec_check_size(const char *what, uint32_t width, uint32_t height,
                             const struct codec_limits *limits, struct error *error)
{
    uint64_t pixels = (uint64_t)width * height;
    if (width <= limits->side_max && height <= limits->side_max && pixels <= limits->pixels_max)
        return STATUS_OK;
    return error_set(error, STATUS_IMAGE_TOO_LARGE,
                     "the %s is %u x %u pixels; at most %llu pixels and %u per side are allowed",
                     what, width, height, (unsigned long long)limits->pixels_max, limits->side_max);
}
