/* options.h - what a caller chooses about an image (gpu/avif/encode.h). */
#pragma once

#include <stdbool.h>

#define AVIF_EFFORT_MAX     2
#define AVIF_EFFORT_DEFAULT 1

struct avif_encode_options {
    int quality;     /* 1 to 99. About the PSNR of libaom through libavif at the same quality */
    int effort;      /* 0 to AVIF_EFFORT_MAX: smaller files for more time (frame.c) */
    bool unfiltered; /* no filters after the reconstruction: only tests use it */
};
