/*
 * memory_peak.h - how much memory a call had at most, where a sanitizer's allocator can tell; 0
 * elsewhere. One thread.
 */
#ifndef GPUIMGD_TESTS_FUZZ_MEMORY_PEAK_H
#define GPUIMGD_TESTS_FUZZ_MEMORY_PEAK_H

#include <stddef.h>

void memory_peak_start(void);
/* Bytes above what was allocated at the start; ends the measurement. */
size_t memory_peak_end(void);

#endif
