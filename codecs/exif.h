/*
 * exif.h - the one EXIF tag that matters for pixels: orientation.
 *
 * Stateless; any thread.
 */
#ifndef GPUIMGD_CODECS_EXIF_H
#define GPUIMGD_CODECS_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation 1..8 (EXIF 2.32, tag 0x0112 of IFD 0) of an EXIF blob: a JPEG's APP1 payload, which
 * begins with "Exif\0\0", or a PNG's eXIf chunk, which begins with the TIFF header. 1 for
 * anything that is broken, longer than EXIF_BYTES_MAX or out of range: orientation is a hint, and
 * no reason to refuse a picture. */
int exif_orientation(const uint8_t *blob, size_t bytes);

#endif
