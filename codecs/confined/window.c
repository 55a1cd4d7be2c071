/* window.c - offers the pixels of a decode to the daemon (confined.h). */
#include <string.h>

#include "codecs/confined/confined.h"

uint32_t confined_band_rows(uint32_t width, uint32_t channels)
{
    enum { cache = 1024 * 1024, rows_min = 32 };
    size_t row_bytes = (size_t)width * channels, rows = cache / row_bytes;
    size_t most = CODEC_WINDOW_BYTES / row_bytes;
    rows = rows < rows_min ? rows_min : rows;
    return (uint32_t)(rows < most ? rows : most) & ~1u;
}

void confined_offer(struct codec_reply *reply, uint32_t rows, uint64_t at, bool is_last)
{
    if (!is_last)
        confined_ask(&(struct codec_reply){.kind = CODEC_ROWS, .rows = rows, .at = at});
    reply->rows = rows;
    reply->at = at;
}

void confined_offer_image(const struct codec_call *call, const uint8_t *pixels, size_t stride,
                          uint8_t *window, struct codec_reply *reply)
{
    size_t row_bytes = (size_t)call->width * call->channels;
    uint32_t most = confined_band_rows(call->width, call->channels);
    for (uint32_t row = 0, rows; row < call->height; row += rows) {
        rows = call->height - row < most ? call->height - row : most;
        for (uint32_t y = 0; y < rows; y++)
            memcpy(window + y * row_bytes, pixels + (row + y) * stride, row_bytes);
        confined_offer(reply, rows, 0, row + rows == call->height);
    }
}

void confined_offer_frame(const struct codec_call *call, const struct codec_reply *frame,
                          const uint8_t *pixels, uint8_t *window)
{
    enum { channels = 4 };
    size_t row_bytes = (size_t)call->width * channels;
    uint32_t most = confined_band_rows(call->width, channels);
    for (uint32_t row = 0, rows; row < call->height; row += rows) {
        rows = call->height - row < most ? call->height - row : most;
        memcpy(window, pixels + row * row_bytes, rows * row_bytes);
        confined_ask(&(struct codec_reply){
            .kind = CODEC_ROWS, .rows = rows, .delay_ms = frame->delay_ms, .plays = frame->plays});
    }
}
