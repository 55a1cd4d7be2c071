/* codecs.c - the libraries in this build of gpuimgd-codec (confined.h). */
#include "codecs/confined/confined.h"

#ifdef GPUIMGD_JXL
extern const struct confined_codec confined_jxl;
#endif
#ifdef GPUIMGD_TEXT
extern const struct confined_codec confined_text;
#endif

const struct confined_codec *const confined_codecs[FORMAT_COUNT + 1] = {
#ifdef GPUIMGD_AVIF
    [FORMAT_avif] = &confined_avif,
#endif
#ifdef GPUIMGD_JXL
    [FORMAT_jxl] = &confined_jxl,
#endif
#ifdef GPUIMGD_HEIF
    [FORMAT_heic] = &confined_heic,
#endif
#ifdef GPUIMGD_GIF
    [FORMAT_gif] = &confined_gif,
#endif
#ifdef GPUIMGD_TIFF
    [FORMAT_tiff] = &confined_tiff,
#endif
    [FORMAT_bmp] = &confined_bmp,
#ifdef GPUIMGD_TEXT
    [CODEC_TEXT] = &confined_text,
#endif
};
