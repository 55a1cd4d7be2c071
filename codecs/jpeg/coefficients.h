/*
 * coefficients.h - memory for the coefficients of a whole JPEG, in place of libjpeg's own.
 *
 * A progressive file's coefficients are held until its last scan: 6 bytes a pixel of 4:4:4. libjpeg
 * takes memory for them with each picture, and clears it all before the first scan. Here it is one
 * piece, of huge pages where the kernel has them, which is kept for the next picture; rows are
 * cleared when the first scan comes to them, which writes there anyway. Components whose AC
 * coefficients nothing reads have one row, which all of theirs share.
 */
#ifndef GPUIMGD_CODECS_JPEG_COEFFICIENTS_H
#define GPUIMGD_CODECS_JPEG_COEFFICIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

/* Of one decoder after the other. All zero: nothing. */
struct jpeg_coefficients {
    bool shares_rows[MAX_COMPONENTS]; /* to be set before jpeg_start_decompress */
    jvirt_barray_ptr arrays[MAX_COMPONENTS];
    int count;
    bool realized;
    void *memory;
    size_t bytes; /* of memory */
    void (*realize)(j_common_ptr common); /* libjpeg's own */
};

/* For a reader that was just created. Memory that cannot be had is JERR_OUT_OF_MEMORY, more than
 * max_memory_to_use JERR_NO_BACKING_STORE, as ever. */
void jpeg_coefficients_take_over(struct jpeg_coefficients *coefficients, j_decompress_ptr reader);
/* To be defined by whoever owns the readers: the struct of this one. */
struct jpeg_coefficients *jpeg_coefficients_of(j_common_ptr common);
/* After the reader was destroyed: keeps the memory where it is of so many bytes at most. */
void jpeg_coefficients_end(struct jpeg_coefficients *coefficients, size_t kept_bytes_max);
/* Frees it all. Idempotent. */
void jpeg_coefficients_free(struct jpeg_coefficients *coefficients);

#endif
