/*
 * exif.h - reads the orientation from EXIF data.
 *
 * Any thread; no state.
 */
#ifndef GPUIMGD_CODECS_EXIF_H
#define GPUIMGD_CODECS_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Returns the orientation 1..8 (EXIF 2.32, tag 0x0112 of IFD 0). The blob is the payload of a
 * JPEG's APP1, which begins with "Exif\0\0", or a PNG's eXIf chunk, which begins with the TIFF
 * header. Returns 1 if the blob is invalid, longer than EXIF_BYTES_MAX or out of range: orientation
 * is a hint, and an image is not refused because of it. */
int exif_orientation(const uint8_t *blob, size_t bytes);

#endif
