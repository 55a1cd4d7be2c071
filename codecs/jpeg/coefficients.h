/*
 * coefficients.h - manages the memory of a progressive JPEG's coefficients, instead of libjpeg.
 *
 * A progressive file needs all its coefficients until its last scan: 6 bytes per pixel at 4:4:4.
 * libjpeg allocates them for each image and clears them before the first scan. Here they are one
 * block, with huge pages if the kernel has them, which is kept for the next image. A row is cleared
 * when the first scan reaches it and writes it anyway. A component whose AC coefficients are never
 * read has a single row in memory, which all its rows share.
 */
#ifndef GPUIMGD_CODECS_JPEG_COEFFICIENTS_H
#define GPUIMGD_CODECS_JPEG_COEFFICIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

/* Used by one decoder at a time. Valid when all zero. */
struct jpeg_coefficients {
    bool shares_rows[MAX_COMPONENTS]; /* set before jpeg_start_decompress */
    jvirt_barray_ptr arrays[MAX_COMPONENTS];
    int count;
    bool realized;
    void *memory;
    size_t bytes; /* of memory */
    void (*realize)(j_common_ptr common); /* libjpeg's original function */
};

/* Replaces the memory functions of a new reader. As in libjpeg, a failed allocation raises
 * JERR_OUT_OF_MEMORY, and more than max_memory_to_use raises JERR_NO_BACKING_STORE. */
void jpeg_coefficients_take_over(struct jpeg_coefficients *coefficients, j_decompress_ptr reader);
/* Returns the struct of a reader. The owner of the readers defines this function. */
struct jpeg_coefficients *jpeg_coefficients_of(j_common_ptr common);
/* Call after the reader was destroyed. Frees the memory if it exceeds kept_bytes_max. */
void jpeg_coefficients_end(struct jpeg_coefficients *coefficients, size_t kept_bytes_max);
/* Frees all memory. Idempotent. */
void jpeg_coefficients_free(struct jpeg_coefficients *coefficients);

#endif
