#include "gpu/avif/entropy/palettes.h"

#include <stddef.h>

#include "gpu/avif/entropy/cdf_palettes.h"

/* The first entry of a context of struct avif_all_cdfs. */
#define CONTEXT(member) ((uint32_t)(offsetof(struct avif_all_cdfs, palettes.member) / 2))

enum { CACHE_MAX = 2 * PALETTE_COLOURS_MAX };

void avif_init_palette_cdfs(struct avif_palette_cdfs *cdfs)
{
    static const struct avif_cdf_run runs[] = {{2, 12}, {2, 2}, {7, 8}, {2, 5}, {3, 5}, {4, 5},
                                               {2, 5},  {3, 5}, {4, 5}, {5, 5}, {6, 5}, {7, 5},
                                               {8, 5},  {5, 5}, {6, 5}, {7, 5}, {8, 5}};
    (void)avif_init_cdf_runs((uint16_t *)cdfs, runs, sizeof runs / sizeof *runs, avif_cdf_palettes,
                             0, 1);
}

/* first: a CONTEXT whose indices are 0; index: of the contexts that follow it */
static void put(struct avif_tokeniser *to, uint32_t first, int index, int symbols, int symbol)
{
    uint32_t context = first + (uint32_t)(index * avif_cdf_entries(symbols));
    avif_put(to, avif_symbol_token(context, symbols, symbol));
}

static void put_bits(struct avif_tokeniser *to, int value, int bits)
{
    if (bits > 0)
        avif_put(to, avif_symbol_token((uint32_t)value, 0, bits));
}

/* ---- colours ---- */

/* Merges the colours of the palettes above and to the left, which may be NULL, without duplicates.
 * Returns their number. */
static int merge_cache(const struct avif_palette *above, const struct avif_palette *left,
                       uint8_t cache[CACHE_MAX])
{
    int count = 0, above_count = above ? above->count : 0, left_count = left ? left->count : 0;
    for (int a = 0, l = 0; a < above_count || l < left_count;) {
        bool from_left =
            a == above_count || (l < left_count && left->colours[0][l] < above->colours[0][a]);
        uint8_t colour = from_left ? left->colours[0][l++] : above->colours[0][a++];
        if (count == 0 || colour != cache[count - 1])
            cache[count++] = colour;
    }
    return count;
}

static int ceil_log2(int x)
{
    return x < 2 ? 0 : highest_bit((uint32_t)x - 1) + 1;
}

/* Codes ascending colours: the first one, then differences of at least `least`. */
static void put_ascending(struct avif_tokeniser *to, const uint8_t *colours, int count, int least)
{
    enum { fewest_bits = 5 };
    int most = 0;
    if (count == 0)
        return;
    put_bits(to, colours[0], 8);
    if (count == 1)
        return;
    for (int i = 1; i < count; i++)
        most = avif_max(most, colours[i] - colours[i - 1] - least);
    int bits = avif_max(fewest_bits, ceil_log2(most + 1));
    put_bits(to, bits - fewest_bits, 2);
    for (int i = 1; i < count; i++) {
        put_bits(to, colours[i] - colours[i - 1] - least, bits);
        bits = avif_min(bits, ceil_log2(256 - colours[i] - least));
    }
}

/* Codes which colours of the cache are used, and the others. least: difference of colours */
static void put_colours(struct avif_tokeniser *to, const struct avif_palette *palette,
                        const struct avif_palette *above, const struct avif_palette *left,
                        int least)
{
    uint8_t cache[CACHE_MAX], rest[PALETTE_COLOURS_MAX];
    int cached = merge_cache(above, left, cache), from = 0, rest_count = 0, used = 0;
    for (int i = 0; i < cached && used < palette->count; i++) {
        while (from < palette->count && palette->colours[0][from] < cache[i])
            rest[rest_count++] = palette->colours[0][from++];
        bool use = from < palette->count && palette->colours[0][from] == cache[i];
        put_bits(to, use, 1);
        from += use;
        used += use;
    }
    while (from < palette->count)
        rest[rest_count++] = palette->colours[0][from++];
    put_ascending(to, rest, rest_count, least);
}

/* ---- indices ---- */

/* Codes the indices of the samples inside the frame, diagonal after diagonal. */
static void put_map(struct avif_tokeniser *to, int which, const struct avif_palette *palette,
                    const uint8_t *map, int side, int width, int height)
{
    int count = palette->count, bits = highest_bit((uint32_t)count), few = (2 << bits) - count;
    uint32_t first = count <= 4 ? CONTEXT(few[which][count - 2]) : CONTEXT(many[which][count - 5]);
    if (map[0] < few)
        put_bits(to, map[0], bits);
    else
        put_bits(to, map[0] + few, bits + 1);
    for (int i = 1; i < width + height - 1; i++)
        for (int x = avif_min(i, width - 1); x >= avif_max(0, i - height + 1); x--) {
            int rank, context = avif_palette_context(map, side, x, i - x, &rank);
            put(to, first, context, count, rank);
        }
}

/* ---- blocks ---- */

void avif_tokenise_palettes(struct avif_tokeniser *to, struct avif_palette_neighbours *neighbours,
                            int x, int y)
{
    const struct avif_encoder *encoder = to->encoder;
    const struct avif_block *block = avif_block_at(encoder, x, y);
    const struct avif_palette_block *palettes = encoder->palettes;
    const struct avif_palette *luma = &palettes->of[PALETTE_LUMA];
    const struct avif_palette *chroma = &palettes->of[PALETTE_CHROMA];
    struct avif_palette(*above)[PALETTES] = &neighbours->above[(x - to->tile.left) >> 3];
    struct avif_palette(*left)[PALETTES] = &neighbours->left[(y & 63) >> 3];
    bool cached = (y & 63) > 0; /* colours of the row of superblocks above are not */
    int size = block->size - 3, cells = 1 << size;
    int width = avif_min(1 << block->size, 8 * encoder->frame.cells_x - x);
    int height = avif_min(1 << block->size, 8 * encoder->frame.cells_y - y);
    if (block->mode == DC_PRED) {
        int context = (above[0][PALETTE_LUMA].count > 0) + (left[0][PALETTE_LUMA].count > 0);
        put(to, CONTEXT(has_luma), 3 * size + context, 2, luma->count > 0);
        if (luma->count > 0) {
            put(to, CONTEXT(size[PALETTE_LUMA]), size, 7, luma->count - 2);
            put_colours(to, luma, cached ? &above[0][PALETTE_LUMA] : NULL, &left[0][PALETTE_LUMA],
                        1);
        }
    }
    if (encoder->frame.planes > 1 && block->uv_mode == DC_PRED) {
        put(to, CONTEXT(has_chroma), luma->count > 0, 2, chroma->count > 0);
        if (chroma->count > 0) {
            put(to, CONTEXT(size[PALETTE_CHROMA]), size, 7, chroma->count - 2);
            put_colours(to, chroma, cached ? &above[0][PALETTE_CHROMA] : NULL,
                        &left[0][PALETTE_CHROMA], 0);
            put_bits(to, 0, 1); /* no differences of V */
            for (int i = 0; i < chroma->count; i++)
                put_bits(to, chroma->colours[1][i], 8);
        }
    }
    if (luma->count > 0)
        put_map(to, PALETTE_LUMA, luma, palettes->maps[PALETTE_LUMA], 1 << block->size, width,
                height);
    if (chroma->count > 0)
        put_map(to, PALETTE_CHROMA, chroma, palettes->maps[PALETTE_CHROMA], 1 << (block->size - 1),
                width / 2, height / 2);
    for (int i = 0; i < cells; i++) {
        memcpy(above[i], palettes->of, sizeof palettes->of);
        memcpy(left[i], palettes->of, sizeof palettes->of);
    }
}
