/* trim.h - which borders of an input a job removes (its key `trim`), and what is left of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TRIM_THRESHOLD_DEFAULT 10

struct trim_rule {
    bool wanted;
    bool has_color;    /* otherwise the colour is that of the first pixel */
    uint8_t threshold; /* colours that differ by at most this are the same */
    uint8_t color[3];  /* RGB */
};

/* The rectangle of the input that is left. */
struct trim_part {
    uint32_t x, y, width, height;
};
