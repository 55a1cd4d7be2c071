/* wild.h - a kernel that writes where there is no memory: a fault of the first device. */
#ifndef GPUIMGD_TESTS_FAULTS_WILD_H
#define GPUIMGD_TESTS_FAULTS_WILD_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts it and goes on; the device tells later. false: it could not be started. */
bool wild_start(void);

#ifdef __cplusplus
}
#endif
#endif
