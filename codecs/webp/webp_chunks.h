/* webp_chunks.h - the RIFF container of a WebP (RFC 9649, section 2). */
#pragma once

#define RIFF_BYTES  12 /* "RIFF", the bytes that follow the next field, "WEBP" */
#define CHUNK_BYTES 8  /* header of a chunk: its type and size */
#define VP8X_BYTES  (CHUNK_BYTES + 10)
#define ANIM_BYTES  6  /* data of an ANIM chunk: background colour, and how often it is shown */
#define ANMF_BYTES  16 /* header of a frame: in the data of an ANMF chunk, before the image */

/* The flags of a VP8X chunk. */
enum {
    FLAG_ANIMATION = 0x02,
    FLAG_XMP = 0x04,
    FLAG_EXIF = 0x08,
    FLAG_ALPHA = 0x10,
    FLAG_ICC = 0x20
};
