/* jxl.c - JPEG XL with libjxl (confined.h). */
#ifdef GPUIMGD_JXL

#include "codecs/confined/jxl/jxl.h"

static bool can(bool writes)
{
    (void)writes;
    return true;
}

extern const struct confined_codec confined_jxl;
const struct confined_codec confined_jxl = {.can = can,
                                            .probe = jxl_probe,
                                            .decode = jxl_decode,
                                            .frames = jxl_frames,
                                            .encode = jxl_encode,
                                            .recompress = jxl_recompress};

#endif
