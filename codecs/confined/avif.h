/*
 * avif.h - decodes and encodes AVIF with libavif, in the process gpuimgd-codec.
 *
 * codec_main.c receives a call of the daemon (codecs/process/protocol.h), maps the shared memory of
 * the daemon at `region`, and calls one of the functions avif_*. Each fills in the reply that ends
 * the task. The daemon has made sure that all offsets and lengths of a call are inside the region.
 * Works with libavif 0.11 and later.
 */
#pragma once

#include <avif/avif.h>
#include <stdbool.h>

#include "codecs/process/protocol.h"

/* ---- messages.c: these functions exit if the daemon has closed the socket ---- */

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

/* The rows of a band, which is converted at once: an even number that fits into the window. The
 * band also fits into a usual L2 cache, unless it would then have less than 32 rows. */
static inline uint32_t avif_band_rows(uint32_t width, uint32_t channels)
{
    enum { cache = 1024 * 1024, rows_min = 32 };
    size_t row_bytes = (size_t)width * channels, rows = cache / row_bytes;
    size_t most = CODEC_WINDOW_BYTES / row_bytes;
    rows = rows < rows_min ? rows_min : rows;
    return (uint32_t)(rows < most ? rows : most) & ~1u;
}

/* Returns 0 if frames.c has refused no image since the last call, else the number of frames that
 * the refused image has. */
size_t avif_take_refused_frames(void);
