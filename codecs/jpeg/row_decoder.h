/*
 * row_decoder.h - decodes the coefficients of a progressive JPEG, one row of MCUs at a time.
 *
 * libjpeg decodes scan after scan into the coefficients of the whole image. A row decoder has a
 * reader at a position in every scan. It decodes the same row of all scans, one scan after the
 * other, when libjpeg asks for the row to compute its samples. So the coefficients of only one row
 * are in memory, in the processor's cache. A mask of the nonzero coefficients of each block takes
 * the place of the tests of all coefficients in refinement scans.
 *
 * libjpeg gets the coefficients through the functions of its memory manager. It reads the header,
 * and then a file that ends before the data of its first scan.
 *
 * The coefficients are those that libjpeg decodes, or the decoder fails: the caller then decodes
 * the file with libjpeg alone, which decides what a damaged or unusual file is worth.
 */
#pragma once

#include "codecs/jpeg/jpeg_state.h"

/* Prepares the decoding of the rows and takes over the reader's memory manager. Call after
 * jpeg_read_header, with all output parameters of the reader set, and before
 * jpeg_start_decompress, which must find the end of the file. `bytes` are those of the file. On
 * failure, calls codec_fail: now, or while libjpeg decompresses. The reader is then useless. */
void jpeg_row_decoder_take_over(struct jpeg_state *state, const uint8_t *bytes, size_t length);
