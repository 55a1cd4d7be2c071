/* avif.c - AVIF with libavif (confined.h). */
#ifdef GPUIMGD_AVIF

#include "codecs/confined/avif/avif.h"

static bool can(bool writes)
{
    return avifCodecName(AVIF_CODEC_CHOICE_AUTO,
                         writes ? AVIF_CODEC_FLAG_CAN_ENCODE : AVIF_CODEC_FLAG_CAN_DECODE) != NULL;
}

const struct confined_codec confined_avif = {.can = can,
                                             .probe = avif_probe,
                                             .decode = avif_decode,
                                             .frames = avif_frames,
                                             .encode = avif_encode};

#endif
