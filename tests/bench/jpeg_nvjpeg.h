/*
 * jpeg_nvjpeg.h - nvJPEG on the same photographs, if the CUDA toolkit has it.
 */
#pragma once

#include "tests/bench/jpeg_photos.h"

/* Whether the bench was built with nvJPEG. */
bool nvjpeg_is_there(void);

/* Gigapixels per second, 0: nvJPEG is not there or refuses. The photographs are in pageable memory,
 * as nvJPEG copies them itself. */

/* Decodes to interleaved RGB. hardware: by the JPEG engines, one batch after another; otherwise by
 * CUDA, from `threads` threads, one image at a time each. */
double nvjpeg_decode(const struct photos *photos, bool hardware, int batch, int threads);

/* Encodes images in device memory from `threads` threads, to files in host memory: the photographs'
 * Y as gray, or their RGB with 4:2:0. */
double nvjpeg_encode(const struct photos *photos, bool gray, int threads);
