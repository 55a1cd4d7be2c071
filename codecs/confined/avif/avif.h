/* avif.h - the parts of the AVIF codec in gpuimgd-codec: libavif 0.11 and later (confined.h). */
#pragma once

#include <avif/avif.h>

#include "codecs/confined/confined.h"

confined_task_fn avif_probe, avif_decode, avif_frames, avif_encode;

/* How often the sequence of a call is shown; 0: for ever. */
uint32_t avif_plays(const struct codec_call *call, const uint8_t *region);

/* Returns 0 if avif_frames.c has refused no image since the last call, else the number of frames
 * that the refused image has. */
size_t avif_take_refused_frames(void);
