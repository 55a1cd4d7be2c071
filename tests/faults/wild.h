/* wild.h - a CUDA kernel that writes to an illegal address, for a fault of the first device. */
#ifndef GPUIMGD_TESTS_FAULTS_WILD_H
#define GPUIMGD_TESTS_FAULTS_WILD_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches the kernel without waiting; the device reports the fault later. false: not launched. */
bool wild_start(void);

#ifdef __cplusplus
}
#endif
#endif
