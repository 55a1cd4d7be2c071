/*
 * row_decoder.h - decodes the coefficients of a progressive JPEG, one row of MCUs at a time.
 *
 * libjpeg decodes one scan after the other into the coefficients of the whole image. A row decoder
 * has a position in every scan. When libjpeg needs a row of MCUs (units with blocks of all
 * components), the row decoder decodes this row of all scans. So only the coefficients of one row
 * are in memory, and they fit the CPU's cache. For each block, a bit mask of its nonzero
 * coefficients saves testing all coefficients in the scans that refine them.
 *
 * libjpeg reads the header, and then gets an end marker instead of the data of the first scan. It
 * computes the pixels from the coefficients, which it gets through the functions of its memory
 * manager that the row decoder replaces.
 *
 * The coefficients are those that libjpeg itself would decode. For a damaged or unusual file the
 * row decoder fails; the caller then decodes the file with libjpeg alone, which may report an
 * error.
 */
#pragma once

#include "codecs/jpeg/jpeg_state.h"

/* Creates a row decoder for a file, and replaces functions of the memory manager of state->reader.
 * Call it after jpeg_read_header, with all output parameters of the reader set, and before
 * jpeg_start_decompress, which must get an end marker as the next bytes. On failure, codec_fail is
 * called: now, or while libjpeg decompresses. The reader must then be destroyed. */
void jpeg_row_decoder_take_over(struct jpeg_state *state, const uint8_t *bytes, size_t length);
