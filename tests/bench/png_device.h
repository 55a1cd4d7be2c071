/*
 * png_device.h - the table of `bench_png device`: GP/s of the PNG codec of the first CUDA device,
 * from device memory to device memory, by the number of images in a launch.
 *
 * The files are those of png_reading.h. All decoded pixels, and all files of the codec, must be the
 * same as on the CPU; otherwise the program ends.
 */
#pragma once

#include "tests/bench/png_library.h"

void device_compare(const struct set *photographs, const struct set *edges, unsigned rounds);
