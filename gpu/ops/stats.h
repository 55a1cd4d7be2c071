/* stats.h - sum, minimum and maximum of each channel. */
#pragma once

#include "gpu/plan/pass.h"

/* The values of one channel in the work space. They start as zeros. */
struct stats_channel {
    uint64_t sum;
    uint32_t max;
    uint32_t room; /* 255 - min */
};
