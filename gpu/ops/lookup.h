/*
 * lookup.h - a table that a pass on neighbourhoods looks its pixels up in as it takes them in.
 *
 * So what acts on each channel alone and stands right before such a pass is no pass of its own
 * (point_lift_table). Only pixels of the source are looked up: the zeros that stand for pixels
 * outside stay zeros, and alpha, which such a pass copies from its source, stays what it is.
 */
#ifndef GPUIMGD_GPU_OPS_LOOKUP_H
#define GPUIMGD_GPU_OPS_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lookup {
    bool used; /* else the pixels are taken as they are */
    uint8_t table[256];
};

/* On the CPU: bytes of any channels. May work in place. */
void lookup_bytes(const uint8_t *from, uint8_t *to, size_t bytes, const uint8_t table[256]);

#ifdef __cplusplus
}
#endif
#endif
