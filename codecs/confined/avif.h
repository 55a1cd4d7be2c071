/*
 * avif.h - the tasks of gpuimgd-codec, on libavif 0.11 and later.
 *
 * They answer a call of codecs/process/protocol.h. The region is mapped at `region`; parts of the
 * call were checked by main.c, so all of them are inside it.
 */
#pragma once

#include <avif/avif.h>
#include <stdbool.h>

#include "codecs/process/protocol.h"

/* ---- messages.c. The process ends if the daemon is gone ---- */

void confined_receive(struct codec_call *call);
void confined_send(const struct codec_reply *reply);
/* Sends CODEC_NEEDS, CODEC_ROWS or CODEC_PART, and waits for CODEC_GO_ON. */
void confined_ask(const struct codec_reply *reply);
/* Sets the status and the message of a task that failed. */
void avif_fail(struct codec_reply *reply, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- the tasks ---- */

void avif_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply);
void avif_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply);
void avif_encode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply);

/* Rows that are converted at once: an even number that fits into the window, and if it is possible
 * into a usual L2 cache. */
static inline uint32_t avif_band_rows(uint32_t width, uint32_t channels)
{
    enum { cache = 1024 * 1024, rows_min = 32 };
    size_t row_bytes = (size_t)width * channels, rows = cache / row_bytes;
    size_t most = CODEC_WINDOW_BYTES / row_bytes;
    rows = rows < rows_min ? rows_min : rows;
    return (uint32_t)(rows < most ? rows : most) & ~1u;
}

/* Returns the number of frames for which an image was refused, since the last call; 0: none was. */
size_t avif_frames_refused(void);
