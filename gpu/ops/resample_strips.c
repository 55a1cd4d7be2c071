#include "gpu/ops/resample_strips.h"

#include <string.h>

#include "gpu/ops/resample_kernels.h"

static_assert(STRIP_ROWS == PASS_ROWS_PER_LOOK, "a strip between two looks at the clock");

/* A larger ring would not stay in the L2 cache. */
#define RING_BYTES_MAX (1 * MIB)
/* Results that share strips. More of them take turns. */
#define CHAINS_MAX 16

/* A result. */
struct chain_strips {
    const struct resample_kernels *kernels;
    const struct pass_call *x, *y; /* y NULL: only the rows are resized */
    const struct resample *across, *down;
    struct strip_band x_band, y_band;
    struct strip_ring ring; /* of the results along the rows */
    uint32_t top, end;      /* the rows of the source that are needed */
    uint32_t done;          /* rows of the result of y */
};

enum resample_level resample_level_max = RESAMPLE_VNNI;

/* With AVX2, plain C enlarges faster. */
static const struct resample_kernels *best_kernels(const struct pass_call *calls, uint32_t count)
{
    const struct resample_kernels *kernels = NULL;
    if (resample_level_max >= RESAMPLE_VNNI)
        kernels = resample_kernels_vnni();
    if (kernels != NULL || resample_level_max < RESAMPLE_AVX2)
        return kernels;
    for (uint32_t i = 0; i < count; i++)
        if (((const struct resample *)calls[i].pass->params)->scale < 1)
            return NULL;
    return resample_kernels_avx2();
}

/* ---- work space ---- */

static uint32_t padded(uint32_t outputs)
{
    return (outputs + STRIP_PIXELS - 1) / STRIP_PIXELS * STRIP_PIXELS;
}

static size_t columns_bytes(uint32_t width, uint32_t channels)
{
    size_t groups = ((size_t)width + STRIP_GROUP - 1) / STRIP_GROUP;
    return buffer_align(groups * channels * STRIP_VECTOR);
}

/* An odd number of vectors, so that successive quads do not share the sets of a cache. */
static size_t quad_bytes(uint32_t width, uint32_t channels)
{
    size_t bytes = (size_t)padded(width) * channels * STRIP_GROUP;
    return ((bytes + STRIP_VECTOR - 1) / STRIP_VECTOR | 1) * STRIP_VECTOR;
}

/* The most groups of a window of `reach` pixels. */
static uint32_t groups_max(uint32_t reach)
{
    return (reach + 2 * (STRIP_GROUP - 1)) / STRIP_GROUP;
}

static size_t band_bytes(uint32_t outputs, uint32_t groups)
{
    size_t window = (size_t)groups * STRIP_GROUP;
    return buffer_align(padded(outputs) * (sizeof(int32_t) + STRIP_WEIGHT_BYTES_MAX * window));
}

uint32_t resample_strips_ring(uint32_t reach, uint32_t width, uint32_t channels)
{
    /* A row of the result waits for the last quad of its window, up to the end of a strip. */
    uint32_t quads = groups_max(reach) - 1 + STRIP_QUADS;
    quads = (quads + STRIP_QUADS - 1) / STRIP_QUADS * STRIP_QUADS;
    return quads * quad_bytes(width, channels) > RING_BYTES_MAX ? 0 : quads;
}

static uint32_t ring_count(const struct resample *x)
{
    return x->ring ? x->ring : STRIP_QUADS;
}

size_t resample_strips_x_bytes(const struct resample *x, struct pass_shape from, uint32_t outputs)
{
    return columns_bytes(from.width, from.channels) +
           buffer_align(ring_count(x) * quad_bytes(outputs, from.channels)) +
           band_bytes(outputs, groups_max(x->reach));
}

size_t resample_strips_y_bytes(uint32_t reach, uint32_t outputs)
{
    return band_bytes(outputs, groups_max(reach));
}

/* ---- weights ---- */

/* The groups of the longest window. `first` pixels of the source precede those of the table. */
static uint32_t count_groups(const struct resample *resample, const int32_t *table,
                             uint32_t outputs, uint32_t first)
{
    uint32_t groups = 1;
    for (uint32_t i = 0; i < outputs; i++) {
        uint32_t start = first + (uint32_t)table[i], end = start + resample->reach;
        uint32_t count = (end + STRIP_GROUP - 1) / STRIP_GROUP - start / STRIP_GROUP;
        groups = count > groups ? count : groups;
    }
    return groups;
}

/* Splits weights into their digits. The digits of a weight are `window` digits apart. */
static void split_to_bytes(const int32_t *weights, size_t count, size_t window, uint8_t *digits)
{
    for (size_t t = 0; t < count; t++) {
        /* A digit plus 128 is a byte of the weight plus 128 in each byte. */
        uint32_t bytes = ((uint32_t)weights[t] + 0x808080u) ^ 0x808080u;
        digits[t] = (uint8_t)bytes;
        digits[window + t] = (uint8_t)(bytes >> 8);
        digits[2 * window + t] = (uint8_t)(bytes >> 16);
    }
}

static void split_to_words(const int32_t *weights, size_t count, size_t window, int16_t *digits)
{
    for (size_t t = 0; t < count; t++) {
        digits[t] = (int16_t)weights[t];
        digits[window + t] = (int16_t)((weights[t] - digits[t]) >> 16);
    }
}

/* Makes the band of a table (resample.h) whose pixel 0 is the pixel `first` of the source. The
 * windows are within the pixels `first` to `end` - 1. */
static void make_band(struct strip_band *band, const struct resample_kernels *kernels,
                      const struct pass *pass, uint32_t outputs, uint32_t first, uint32_t end,
                      uint8_t *memory)
{
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *table = (const int32_t *)pass->constants, *weights = table + outputs;
    uint32_t groups = count_groups(resample, table, outputs, first);
    uint32_t end_group = (end + STRIP_GROUP - 1) / STRIP_GROUP;
    if (groups > end_group - first / STRIP_GROUP)
        groups = end_group - first / STRIP_GROUP;
    size_t window = (size_t)groups * STRIP_GROUP;
    size_t output_bytes = window * kernels->digits * kernels->digit_bytes;
    *band = (struct strip_band){outputs, groups, (int32_t *)memory,
                                memory + padded(outputs) * sizeof(int32_t)};
    memset(memory, 0, band_bytes(outputs, groups));
    for (uint32_t i = 0; i < outputs; i++, weights += resample->taps) {
        uint32_t start = (first + (uint32_t)table[i]) / STRIP_GROUP;
        start = start < end_group - groups ? start : end_group - groups;
        size_t skipped = first + (uint32_t)table[i] - start * STRIP_GROUP;
        /* Weights after the window are 0: its pixels would be after the last one. */
        size_t count = window - skipped < resample->reach ? window - skipped : resample->reach;
        band->starts[i] = (int32_t)start;
        uint8_t *digits = band->digits + i * output_bytes + skipped * kernels->digit_bytes;
        if (kernels->digit_bytes == 1)
            split_to_bytes(weights, count, window, digits);
        else
            split_to_words(weights, count, window, (int16_t *)(void *)digits);
    }
}

/* ---- rows ---- */

static void open_chain(struct chain_strips *chain, const struct resample_kernels *kernels,
                       const struct pass_call *x, const struct pass_call *y)
{
    const struct resample *across = (const struct resample *)x->pass->params;
    const struct image *to = &x->to;
    size_t ring_bytes = quad_bytes(to->width, to->channels);
    uint8_t *ring = x->work + columns_bytes(x->from.width, to->channels);
    uint8_t *bands = ring + buffer_align(ring_count(across) * ring_bytes);
    *chain = (struct chain_strips){.kernels = kernels,
                                   .x = x,
                                   .y = y,
                                   .across = across,
                                   .ring = {ring, ring_count(across), ring_bytes},
                                   .top = across->skip,
                                   .end = across->skip + to->height};
    make_band(&chain->x_band, kernels, x->pass, to->width, 0, x->from.width, bands);
    if (y == NULL)
        return;
    chain->down = (const struct resample *)y->pass->params;
    make_band(&chain->y_band, kernels, y->pass, y->to.height, chain->top, chain->end,
              bands + band_bytes(to->width, groups_max(across->reach)));
}

/* The rows of a result that are made between two looks at the deadline: one strip of a source of
 * few rows may give thousands. */
#define ROWS_PER_LOOK 64

/* Computes the rows of the result whose windows end before the quad `end`. */
static void sum_ready_rows(struct chain_strips *chain, uint32_t end)
{
    const struct strip_band *band = &chain->y_band;
    const struct image *to = &chain->y->to;
    uint32_t ready = chain->done;
    while (ready < band->outputs && (uint32_t)band->starts[ready] + band->groups <= end)
        ready++;
    while (chain->done < ready && !pass_is_late(chain->x->pass)) {
        uint32_t next = ready - chain->done < ROWS_PER_LOOK ? ready : chain->done + ROWS_PER_LOOK;
        chain->kernels->sum_quads(band, chain->done, next, &chain->ring, to);
        for (uint32_t y = chain->done; y < next && chain->down->divide; y++)
            chain->kernels->divide_row(to->pixels + y * to->stride, to->width);
        chain->done = next;
    }
}

/* Writes the rows of a quad of the source that are needed. */
static void write_rows(const struct chain_strips *chain, uint32_t quad)
{
    const struct image *to = &chain->x->to;
    uint8_t *rows[STRIP_GROUP];
    for (uint32_t i = 0; i < STRIP_GROUP; i++) {
        uint32_t y = quad * STRIP_GROUP + i;
        bool needed = y >= chain->top && y < chain->end;
        rows[i] = needed ? to->pixels + (y - chain->top) * to->stride : NULL;
    }
    chain->kernels->split_quad(strip_quad(&chain->ring, quad), (size_t)to->width * to->channels,
                               rows);
    for (uint32_t i = 0; i < STRIP_GROUP && chain->across->divide; i++)
        if (rows[i] != NULL)
            chain->kernels->divide_row(rows[i], to->width);
}

/* top: the first row of the strip in the source. */
static void add_strip(struct chain_strips *chain, uint32_t top, const uint8_t *columns)
{
    uint32_t first = top / STRIP_GROUP;
    uint8_t *quads[STRIP_QUADS];
    if (top + STRIP_ROWS <= chain->top || top >= chain->end)
        return;
    for (uint32_t q = 0; q < STRIP_QUADS; q++)
        quads[q] = strip_quad(&chain->ring, first + q);
    chain->kernels->sum_x(&chain->x_band, columns, chain->x->from.channels, quads);
    if (chain->y != NULL)
        sum_ready_rows(chain, first + STRIP_QUADS);
    for (uint32_t q = 0; q < STRIP_QUADS && chain->y == NULL; q++)
        write_rows(chain, first + q);
}

/* Makes the columns of the rows from `top` on. Rows after the last one repeat it. */
static void turn_strip(const struct resample_kernels *kernels, const struct image *from,
                       uint32_t top, bool premultiply, uint8_t *columns)
{
    const uint8_t *rows[STRIP_ROWS], *end_rows[STRIP_ROWS];
    uint8_t ends[STRIP_ROWS][STRIP_LOAD], last[STRIP_GROUP * STRIP_VECTOR];
    for (uint32_t i = 0; i < STRIP_ROWS; i++) {
        uint32_t y = top + i < from->height ? top + i : from->height - 1;
        rows[i] = from->pixels + y * from->stride;
    }
    size_t channels = from->channels, bytes = from->width * channels;
    size_t step_pixels = strip_step_pixels(from->channels), step = step_pixels * channels;
    size_t steps = bytes < STRIP_LOAD ? 0 : (bytes - STRIP_LOAD) / step + 1;
    /* The next strip is loaded while this one is resized. */
    size_t ahead = top + 2 * STRIP_ROWS <= from->height ? STRIP_ROWS * from->stride : 0;
    kernels->turn(rows, steps, from->channels, ahead, premultiply, columns);
    /* No load reaches beyond the end of a row. */
    for (size_t at = steps * step; at < bytes; at += step) {
        size_t left = bytes - at < STRIP_LOAD ? bytes - at : STRIP_LOAD;
        size_t pixels = bytes - at < step ? (bytes - at) / channels : step_pixels;
        memset(ends, 0, sizeof ends);
        for (uint32_t i = 0; i < STRIP_ROWS; i++)
            end_rows[i] = memcpy(ends[i], rows[i] + at, left);
        kernels->turn(end_rows, 1, from->channels, 0, premultiply, last);
        memcpy(columns + at / STRIP_GROUP * STRIP_VECTOR, last,
               (pixels + STRIP_GROUP - 1) / STRIP_GROUP * channels * STRIP_VECTOR);
    }
}

/* Runs chains with the same source. */
static void run_chains(struct chain_strips *chains, uint32_t count)
{
    if (count == 0)
        return;
    const struct pass_call *x = chains[0].x;
    uint32_t top = chains[0].top, end = chains[0].end;
    for (uint32_t i = 1; i < count; i++) {
        top = chains[i].top < top ? chains[i].top : top;
        end = chains[i].end > end ? chains[i].end : end;
    }
    for (top -= top % STRIP_ROWS; top < end && !pass_is_late(x->pass); top += STRIP_ROWS) {
        turn_strip(chains[0].kernels, &x->from, top, chains[0].across->premultiply, x->work);
        for (uint32_t i = 0; i < count; i++)
            add_strip(&chains[i], top, x->work);
    }
}

/* ---- columns alone ---- */

static void run_columns(const struct resample_kernels *kernels, const struct pass_call *call)
{
    const struct resample *down = (const struct resample *)call->pass->params;
    const struct image *to = &call->to;
    struct strip_band band;
    make_band(&band, kernels, call->pass, to->height, 0, call->from.height, call->work);
    /* pass_is_late is called for every row, because a row may need nearly the whole source. */
    for (uint32_t y = 0; y < to->height && !pass_is_late(call->pass); y++) {
        uint8_t *row = to->pixels + y * to->stride;
        kernels->sum_rows(&band, y, &call->from, down->premultiply, row);
        if (down->divide)
            kernels->divide_row(row, to->width);
    }
}

/* ---- all passes ---- */

static bool same_source(const struct pass_call *a, const struct pass_call *b)
{
    const struct resample *one = (const struct resample *)a->pass->params;
    const struct resample *other = (const struct resample *)b->pass->params;
    return a->from.pixels == b->from.pixels && a->from.width == b->from.width &&
           a->from.height == b->from.height && a->from.stride == b->from.stride &&
           a->from.channels == b->from.channels && one->premultiply == other->premultiply;
}

/* Whether the result of y would overwrite the source of x: the images of a chain share memory. */
static bool overlap(const struct image *x, const struct image *y)
{
    return x->pixels < y->pixels + y->height * y->stride &&
           y->pixels < x->pixels + x->height * x->stride;
}

bool resample_strips(const struct pass_call *calls, uint32_t count)
{
    const struct resample_kernels *kernels = best_kernels(calls, count);
    struct chain_strips chains[CHAINS_MAX];
    uint32_t open = 0;
    if (kernels == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct pass_call *x = &calls[i], *y = NULL;
        bool along = !((const struct resample *)x->pass->params)->down;
        if (open > 0 && (!along || open == CHAINS_MAX || !same_source(x, chains[0].x))) {
            run_chains(chains, open);
            open = 0;
        }
        if (!along) {
            run_columns(kernels, x);
            continue;
        }
        if (i + 1 < count && x->pass->leads && !overlap(&x->from, &calls[i + 1].to))
            y = &calls[++i];
        open_chain(&chains[open++], kernels, x, y);
    }
    run_chains(chains, open);
    return true;
}
