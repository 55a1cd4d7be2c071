/*
 * protocol.h - the messages between the daemon and gpuimgd-codec, the process that runs libavif.
 *
 * The daemon starts one process per worker and gives it two descriptors: a socket for messages, and
 * a memfd, the region, for files and pixels. Only the daemon changes the size of the region. A task
 * is one call and its replies; CODEC_DONE ends the task, and the other replies wait for a
 * CODEC_GO_ON. Messages have a fixed size and no pointers.
 *
 * Pixels pass through a window at the start of the region, some rows at a time. So it stays in the
 * cache, and the memory of the region does not depend on the size of an image.
 *
 * The process reads hostile files, so the daemon checks every member of a reply before it uses it.
 */
#pragma once

#include <stdint.h>

#include "conf/limits.h"
#include "conf/status.h"

/* Descriptors of the process. */
#define CODEC_SOCKET 3
#define CODEC_REGION 4

#define CODEC_VERSION_BYTES 32

/* Bytes of the window: rows of an image, at least 8 of them, or a part of an encoded file. */
#define CODEC_WINDOW_BYTES (2 * MIB)
_Static_assert(CODEC_WINDOW_BYTES >= 8 * 4 * SIDE_CEILING, "libavif converts some rows at once");

/* The first message of the process, after it has confined itself. */
struct codec_hello {
    char version[CODEC_VERSION_BYTES]; /* GPUIMGD_VERSION; the daemon must have the same */
    uint32_t reads, writes;            /* whether libavif has a decoder, and an encoder */
    uint64_t address_bytes;            /* address space in use; 0: a sanitizer needs more than any
                                          limit */
};

enum codec_call_kind {
    CODEC_PROBE,  /* region: a file of which the first `ready_bytes` are there, then the place for
                     the profile, EXIF and XMP */
    CODEC_DECODE, /* region: the window, then the file */
    CODEC_ENCODE, /* region: the window, then the profile, EXIF and XMP */
    CODEC_GO_ON   /* what the reply asked for is in the region; what it brought was read */
};

/* Rows are packed: width * channels bytes. */
struct codec_call {
    uint32_t kind;
    uint32_t metadata;     /* of a probe: METADATA_EXIF, METADATA_XMP */
    uint64_t region_bytes;
    uint64_t file_bytes;
    uint64_t ready_bytes;
    uint64_t results_at;   /* of a probe: place of the metadata */
    uint32_t width, height, channels;
    uint32_t orientation;  /* of an encode: 1 to 8, to be stored */
    int32_t quality, effort;
    uint64_t icc_bytes, exif_bytes, xmp_bytes;
};

enum codec_reply_kind {
    CODEC_DONE,  /* the task has ended with `status`; of a decode: and brings its last rows */
    CODEC_NEEDS, /* a probe needs `bytes` bytes of the file from `at` on */
    CODEC_ROWS,  /* of a decode: the next `rows` rows are in the window from `at` on; of an encode:
                    it needs the next `rows` rows at the start of the window */
    CODEC_PART   /* the next `bytes` bytes of an encoded file are at the start of the window */
};

struct codec_reply {
    uint32_t kind;
    uint32_t status;
    uint32_t lacks_memory; /* the task failed because the process reached its limit */
    uint32_t width, height, channels, orientation, is_gray; /* this and the next: of a probe */
    uint64_t decode_bytes;                                  /* memory of the process for a decode */
    uint64_t icc_bytes, exif_bytes, xmp_bytes;
    uint64_t at, bytes;
    uint32_t rows;
    char text[ERROR_TEXT_MAX];
};
