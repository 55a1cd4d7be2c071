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

/* Sends CODEC_NEEDS or CODEC_PART, and waits for CODEC_GO_ON. Ends the process if the daemon is
 * gone. */
void confined_ask(const struct codec_reply *reply);

void avif_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply);
void avif_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply);
void avif_encode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply);

/* Rows that are converted at once: an even number that fits into the window, and if it is possible
 * into a usual L2 cache. */
uint32_t avif_band_rows(uint32_t width, uint32_t channels);

/* Returns the number of frames for which an image was refused, since the last call; 0: none was. */
size_t avif_frames_refused(void);

/* Sets the status and the message of a task that failed. */
void avif_fail(struct codec_reply *reply, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
