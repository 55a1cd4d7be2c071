/* window.c - a ring buffer of rows, with the pixels outside of the image: see window.h. */
#include "gpu/ops/window.h"

#include <string.h>

size_t window_pitch(uint32_t width, uint32_t channels, int across)
{
    return image_stride(width + 2 * (uint32_t)across, channels);
}

size_t window_bytes(uint32_t width, uint32_t channels, int across, int down)
{
    return window_pitch(width, channels, across) * (2 * (size_t)down + 2);
}

void window_open(struct window *window, const struct image *from, const struct prologue *prologue,
                 enum border border, int across, int down, uint8_t *ring)
{
    uint32_t channels = prologue->makes_gray ? 1 : from->channels;
    *window = (struct window){.from = from, .prologue = prologue, .channels = channels,
                              .border = border, .across = across, .down = down, .ring = ring,
                              .in_place = across == 0 && prologue_is_empty(prologue),
                              .made = -1, .pitch = window_pitch(from->width, channels, across)};
    if (border == BORDER_ZERO)
        memset(ring + window->pitch * (2 * (size_t)down + 1), 0, window->pitch);
}

static uint8_t *ring_row(const struct window *window, int row)
{
    size_t start = (size_t)window->across * window->channels;
    return window->ring + (size_t)row * window->pitch + start;
}

/* Copies a row and applies the prologue. The rows must not overlap. */
static void prologue_row(const struct prologue *prologue, const uint8_t *from, uint8_t *to,
                         uint32_t width, uint32_t channels)
{
    size_t bytes = (size_t)width * (prologue->makes_gray ? 1 : channels);
    if (prologue->makes_gray) {
        grayscale_row(from, to, width, channels, &prologue->gray);
        from = to;
    }
    if (prologue->looks_up)
        prologue_look_up(from, to, bytes, prologue->table);
    else if (from != to)
        memcpy(to, from, bytes);
}

static void make_row(struct window *window, int y)
{
    const struct image *from = window->from;
    const uint8_t *source = from->pixels + (size_t)y * from->stride;
    uint8_t *row = ring_row(window, y % (2 * window->down + 1));
    int width = (int)from->width, channels = (int)window->channels;
    prologue_row(window->prologue, source, row, from->width, from->channels);
    for (int x = 1; x <= window->across; x++) {
        int left = border_inside(-x, width, window->border);
        int right = border_inside(width - 1 + x, width, window->border);
        for (int c = 0; c < channels; c++) {
            row[-x * channels + c] = left < 0 ? 0 : row[left * channels + c];
            row[(width - 1 + x) * channels + c] = right < 0 ? 0 : row[right * channels + c];
        }
    }
}

const uint8_t *window_row(struct window *window, int y, int step)
{
    assert(step >= -window->down && step <= window->down);
    int row = border_inside(y + step, (int)window->from->height, window->border);
    if (row < 0)
        return ring_row(window, 2 * window->down + 1);
    if (window->in_place)
        return window->from->pixels + (size_t)row * window->from->stride;
    while (window->made < row)
        make_row(window, ++window->made);
    return ring_row(window, row % (2 * window->down + 1));
}

void window_keep_alpha(const uint8_t *from, uint8_t *to, uint32_t width)
{
    for (size_t x = 0; x < width; x++)
        to[4 * x + 3] = from[4 * x + 3];
}
