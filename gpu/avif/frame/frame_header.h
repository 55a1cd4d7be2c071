/* frame_header.h - writes the headers of the OBUs (AV1 5.5, 5.9). */
#pragma once

#include "gpu/avif/frame/encoder.h"

/* More than the headers have. */
enum { AVIF_HEADER_BYTES_MAX = 64, AVIF_OBU_HEADER_BYTES_MAX = 1 + 5 };

/* Each function writes to `to` and returns the number of bytes. */

/* The whole OBU of the sequence header. */
size_t avif_put_sequence(const struct avif_frame *frame, uint8_t *to);
/* The payload of a frame OBU, up to the first tile. */
size_t avif_put_frame_header(const struct avif_frame *frame, uint8_t *to);
/* The header of a frame OBU with so many bytes of payload. */
size_t avif_put_frame_obu(size_t payload_bytes, uint8_t *to);
