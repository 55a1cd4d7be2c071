/* stats.h - the work space of the operation stats: sum, minimum and maximum of each channel. */
#pragma once

#include "gpu/plan/pass.h"

/* The values of one channel. They are 0 before the first pixel, which is why there is no `min`. */
struct stats_channel {
    uint64_t sum;
    uint32_t max;
    uint32_t room; /* 255 - min */
};
