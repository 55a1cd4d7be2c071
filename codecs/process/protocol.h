/*
 * protocol.h - the messages between the daemon and gpuimgd-codec, the process that runs the
 * libraries of the formats with `.library` in conf/formats.def.
 *
 * The daemon starts one process per worker and gives it two descriptors: a socket for messages, and
 * a memfd for files and pixels: the region. Only the daemon changes the size of the region. In a
 * task, the daemon sends a call, and the process sends replies. After each reply it waits for a
 * call CODEC_GO_ON; the reply CODEC_DONE ends the task. Messages have a fixed size and no pointers.
 *
 * Pixels pass through a window at the start of the region, some rows at a time. So the window stays
 * in the CPU's cache, and the size of the region does not depend on the size of an image.
 *
 * The process reads hostile files, so the daemon checks every member of a reply before it uses it.
 */
#pragma once

#include <stdint.h>

#include "conf/format.h"
#include "conf/limits.h"
#include "conf/status.h"

/* Descriptors of the process. */
#define CODEC_SOCKET 3
#define CODEC_REGION 4

#define CODEC_VERSION_BYTES 32

/* Size of the window. It holds 8 rows of the widest image or more, or a part of an encoded file. */
#define CODEC_WINDOW_BYTES (2 * MIB)
_Static_assert(CODEC_WINDOW_BYTES >= 8 * 4 * SIDE_CEILING, "libavif converts some rows at once");

/* The bit of a format in a set. */
#define CODEC_BIT(format) (1u << (format))
_Static_assert(FORMAT_COUNT <= 32, "the formats must fit into the sets of struct codec_hello");

/* The second argument of a process that can draw texts: it reads fontconfig's configuration and
 * opens the fonts before it confines itself. In its calls, a text has this number as its format. */
#define CODEC_DRAWS_TEXT "text"
#define CODEC_TEXT       FORMAT_COUNT

/* The first message of the process, after it has confined itself. */
struct codec_hello {
    char version[CODEC_VERSION_BYTES]; /* GPUIMGD_VERSION; the daemon must have the same */
    uint32_t can_read, can_write; /* sets of CODEC_BIT(enum format_id): the formats for which the
                                     libraries have a decoder, and an encoder */
    uint64_t address_bytes;            /* address space in use; 0: must not be limited */
    uint64_t data_bytes;               /* of that, private memory that can be written */
};

enum codec_call_kind {
    CODEC_PROBE,  /* Read a header. The region begins with the file. Only its first `ready_bytes`
                     are there. The process writes the ICC profile, EXIF and XMP to
                     `results_at`. */
    CODEC_DECODE, /* The region has the window, then the file. */
    CODEC_FRAMES, /* Decode all frames of an animation, one after the other, as RGBA. The region has
                     the window, then the file. The daemon ends the task after the last row. */
    CODEC_ENCODE, /* The region has the window, then the ICC profile, EXIF and XMP. */
    CODEC_RECOMPRESS, /* The region has the window, then a JPEG or a JPEG XL made of one: offer the
                         other one as an encode does. */
    CODEC_GO_ON /* Continue: the daemon has written to the region what the last reply asked for,
                   or has read what it offered. */
};

/* Rows in the window follow each other without padding: width * channels bytes each. */
struct codec_call {
    uint32_t kind;
    uint32_t format;       /* enum format_id, or CODEC_TEXT */
    uint32_t page;         /* of a file with several images: the one to read, 0 the first */
    uint32_t metadata;     /* of a probe: METADATA_EXIF, METADATA_XMP */
    uint64_t region_bytes;
    uint64_t file_bytes;
    uint64_t ready_bytes;
    uint64_t results_at;   /* of a probe: place of the metadata */
    uint32_t width, height, channels;
    uint32_t orientation;  /* of an encode: 1 to 8, to be stored */
    int32_t quality, effort, lossless;
    uint32_t keeps_alpha; /* of an encode: as in struct encode_request */
    uint64_t icc_bytes, exif_bytes, xmp_bytes;
};

enum codec_reply_kind {
    CODEC_DONE,  /* The task has ended with `status`. A decode also offers its last rows. */
    CODEC_NEEDS, /* A probe needs `bytes` bytes of the file from `at` on. */
    CODEC_ROWS,  /* A decode offers the next `rows` rows, in the window from `at` on. An encode
                    needs the next `rows` rows at the start of the window. */
    CODEC_PART   /* An encode offers the next `bytes` bytes of the file, at the window's start. */
};

struct codec_reply {
    uint32_t kind;
    uint32_t status;
    uint32_t lacks_memory; /* the task failed because the process reached its limit */
    uint32_t keeps_memory; /* more than CODEC_HEAP_KEPT_BYTES, so it should be closed */
    /* Results of a probe: */
    uint32_t width, height, channels, orientation, is_gray;
    uint32_t may_have_alpha; /* some frame may have transparent pixels */
    uint32_t ends_early;     /* as in image_info */
    uint32_t is_cmyk; /* CMYK, which is decoded to RGB (3 channels) or as it is (4 channels) */
    uint32_t is_deep; /* more than 8 bits, which may be decoded to a deep image (codecs/image.h) */
    uint32_t frames;  /* frames of an animation, or pages; at least 1. If the call's page is
                         not one of them, the rest is ignored */
    uint32_t per_metre_x, per_metre_y; /* pixels per metre; 0: unknown, or in EXIF */
    uint64_t decode_bytes; /* memory that the process needs for the decode */
    uint64_t icc_bytes, exif_bytes, xmp_bytes;
    uint64_t iptc_bytes; /* Photoshop's resources with IPTC, after XMP */
    /* See enum codec_reply_kind: */
    uint64_t at, bytes;
    uint32_t rows;
    uint32_t delay_ms, plays;  /* of CODEC_FRAMES: how long the frame is shown, and how often the
                                  animation; 0: for ever */
    char text[ERROR_TEXT_MAX]; /* the error message if `status` is not STATUS_OK */
};
