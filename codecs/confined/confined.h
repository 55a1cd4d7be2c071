/*
 * confined.h - what the libraries in the process gpuimgd-codec share.
 *
 * codec_main.c receives a call of the daemon (codecs/process/protocol.h), maps the shared memory of
 * the daemon at `region`, and calls a function of the format's struct confined_codec, which fills
 * in the reply that ends the task. The daemon has made sure that all offsets and lengths of a call
 * are inside the region. Functions that wait for the daemon exit if it has closed the socket.
 *
 * A new format is a file in this folder that defines confined_NAME, and a line in codecs.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codecs/process/protocol.h"
#include "conf/format.h"

typedef void confined_task_fn(const struct codec_call *call, uint8_t *region,
                              struct codec_reply *reply);

/* The library of a format. */
struct confined_codec {
    void (*begin)(void);      /* called once, before the process is confined; NULL: not needed */
    bool (*can)(bool writes); /* whether the library can read, or write, the format */
    /* Reads a header (file and results: struct codec_call), decodes pixels, encodes an image.
     * encode is NULL if the format is only read, frames if it has no animations that are composed
     * (CODEC_FRAMES), and recompress but for JPEG XL. */
    confined_task_fn *probe, *decode, *frames, *encode, *recompress;
};

#define FORMAT(name, ...) extern const struct confined_codec confined_##name;
#include "conf/formats.def"

/* The libraries by format; NULL: not in this build, or the format needs none. The last one, of
 * CODEC_TEXT, draws texts; `begin` is only called if the daemon wants that. */
extern const struct confined_codec *const confined_codecs[FORMAT_COUNT + 1];

/* ---- messages.c ---- */

void confined_receive(struct codec_call *call);
void confined_send(const struct codec_reply *reply);
/* Sends CODEC_NEEDS, CODEC_ROWS or CODEC_PART, and waits for CODEC_GO_ON. */
void confined_ask(const struct codec_reply *reply);
/* Sets the status and the message of a task that failed. */
void confined_fail(struct codec_reply *reply, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- source.c: the file of a call ---- */

/* A file in the region. During a probe, the region has only the first bytes of the file. The daemon
 * copies other parts when they are read. */
struct confined_source {
    const uint8_t *bytes;
    uint64_t size;     /* of the file */
    uint64_t ready;    /* bytes from the start that are in the region */
    uint64_t left;     /* bytes that may be read, each time that they are */
    uint64_t from, to; /* the part that the daemon has copied last */
    uint64_t ahead;    /* bytes that may still be copied without being read */
    bool is_over;      /* a read was refused, because `left` was too small */
};

/* The file of a probe or a decode. read_max: the first value of `left`. */
struct confined_source confined_open(const struct codec_call *call, const uint8_t *region,
                                     uint64_t read_max);
/* Reads up to *bytes bytes at an offset, and sets *bytes to their number, which is smaller at the
 * end of the file. They are valid until the end of the task. NULL: the file ends before the offset,
 * or is_over. */
const uint8_t *confined_read(struct confined_source *source, uint64_t at, size_t *bytes);

/* ---- results.c: the metadata that a probe found ---- */

struct confined_results {
    uint8_t *to;
    size_t left;
};

struct confined_results confined_results_of(const struct codec_call *call, uint8_t *region);
/* Copies metadata to the region and sets *to_bytes to its length. Call it in the order ICC profile,
 * EXIF, XMP. false: it is larger than what is left for all, and is left out. */
bool confined_give(struct confined_results *results, const void *bytes, size_t count,
                   uint64_t *to_bytes);

/* ---- window.c: pixels ---- */

/* The rows of a band, which is converted at once: an even number that fits into the window. The
 * band also fits into a usual L2 cache, unless it would then have less than 32 rows. */
uint32_t confined_band_rows(uint32_t width, uint32_t channels);
/* Offers rows to the daemon that are in the window, from its offset `at` on. The last rows of a
 * decode are announced in *reply, which ends the task. */
void confined_offer(struct codec_reply *reply, uint32_t rows, uint64_t at, bool is_last);
/* Offers a frame of an animation, as RGBA. frame: how long it is shown, and how often the
 * animation. */
void confined_offer_frame(const struct codec_call *call, const struct codec_reply *frame,
                          const uint8_t *pixels, uint8_t *window);
/* Offers a decoded image of the sides and channels that the call names, by copying it to the
 * window, some rows at a time. */
void confined_offer_image(const struct codec_call *call, const uint8_t *pixels, size_t stride,
                          uint8_t *window, struct codec_reply *reply);
