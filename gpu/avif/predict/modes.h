/* modes.h - what prediction modes cost, about. */
#pragma once

#include "gpu/avif/predict/predict.h"

/* 1/16 bits of the luma mode and its angle. */
DEVICE int avif_mode_bits(int mode, int delta)
{
    int angle = !avif_is_directional(mode) ? 0 : delta != 0 ? 46 : 28;
    if (mode == DC_PRED)
        return 26;
    if (mode <= H_PRED)
        return 48 + angle;
    return (mode == SMOOTH_PRED ? 44 : 80) + angle;
}

enum {
    BITS_PARTITION = 16,      /* of a block that is split or not */
    BITS_PARTITION_8 = 8,     /* of a block of 8 x 8 that is not split */
    BITS_PARTITION_16 = 24,   /* of a block of 16 x 16 that is split */
    BITS_TRANSFORM_TYPE = 24, /* other than the default of the mode */
    BITS_TRANSFORM_SPLIT = 16,
    BITS_CHROMA_MODE = 24,
    BITS_CHROMA_ANGLE = 28,
    BITS_CFL = 48,
    BITS_CFL_ALPHA = 40
};
