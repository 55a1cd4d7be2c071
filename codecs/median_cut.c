#include "codecs/median_cut.h"

#include <assert.h>
#include <stdbool.h>

#include "codecs/codec_impl.h"

static uint64_t spread_on(const struct median_cut_box *box, const struct median_cut_cell *cells,
                          enum median_cut_axis axis)
{
    uint64_t pixels = 0, sum = 0, squares = 0;
    for (uint32_t i = box->first; i < box->first + box->count; i++) {
        uint64_t at = cells[i].at[axis], weighted = at * cells[i].pixels;
        pixels += cells[i].pixels;
        sum += weighted;
        squares += at * weighted;
    }
    uint64_t mean = sum / pixels;
    return squares - 2 * mean * sum + mean * mean * pixels;
}

/* Sets where the box will be cut. */
static void measure(struct median_cut_box *box, const struct median_cut_cell *cells)
{
    bool has[3] = {false};
    for (uint32_t i = box->first; i < box->first + box->count; i++) {
        uint32_t alpha = cells[i].at[CUT_ALPHA];
        has[alpha == 0 ? 0 : alpha < MEDIAN_CUT_UNITS ? 1 : 2] = true;
    }
    if (has[0] + has[1] + has[2] > 1) {
        box->axis = CUT_ALPHA;
        box->cut = has[0] ? 0 : MEDIAN_CUT_UNITS - 1;
        box->spread = UINT64_MAX;
        return;
    }
    box->cut = -1;
    box->spread = 0;
    for (int axis = CUT_RED; axis < CUT_AXES; axis++) {
        uint64_t spread = spread_on(box, cells, axis);
        if (spread > box->spread) {
            box->spread = spread;
            box->axis = axis;
        }
    }
}

/* The last position that stays in the box, so that both parts have pixels. */
static int find_cut(const struct median_cut_box *box, const struct median_cut_cell *cells)
{
    uint64_t pixels[MEDIAN_CUT_UNITS + 1] = {0}, all = 0, below = 0;
    for (uint32_t i = box->first; i < box->first + box->count; i++) {
        pixels[cells[i].at[box->axis]] += cells[i].pixels;
        all += cells[i].pixels;
    }
    int cut = 0;
    while ((below += pixels[cut]) * 2 < all)
        cut++;
    return below < all ? cut : cut - 1;
}

/* Cuts a box. Returns the rest, a new box. */
static struct median_cut_box cut(struct median_cut_box *box, struct median_cut_cell *cells)
{
    int last = box->cut >= 0 ? box->cut : find_cut(box, cells);
    uint32_t stay = box->first, end = box->first + box->count;
    for (uint32_t i = stay; i < end; i++)
        if (cells[i].at[box->axis] <= last) {
            struct median_cut_cell moved = cells[i];
            cells[i] = cells[stay];
            cells[stay++] = moved;
        }
    struct median_cut_box rest = {.first = stay, .count = end - stay};
    box->count = stay - box->first;
    measure(box, cells);
    measure(&rest, cells);
    return rest;
}

uint32_t median_cut(struct median_cut_cell *cells, uint32_t count, struct median_cut_box *boxes,
                    uint32_t colours, uint64_t deadline_ns)
{
    uint32_t used = 1;
    assert(count > 0 && colours > 0);
    boxes[0] = (struct median_cut_box){.count = count};
    measure(boxes, cells);
    while (used < colours && !codec_late(deadline_ns)) {
        struct median_cut_box *widest = boxes;
        for (struct median_cut_box *box = boxes; box < boxes + used; box++)
            if (box->spread > widest->spread)
                widest = box;
        if (widest->spread == 0)
            return used;
        boxes[used] = cut(widest, cells);
        used++;
    }
    return codec_late(deadline_ns) ? 0 : used;
}
