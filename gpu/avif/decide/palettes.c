#include "gpu/avif/decide/palettes.h"

#include <string.h>

/* Different colours of a block that are merged into a palette at most, and slots to find them. */
enum { DISTINCT_MAX = 64, SLOTS = 256 };

/* Samples of one colour, or of colours that are merged. In luma, the second sample is 0. */
struct cluster {
    int count, sums[2];
};

/* The colours of a block. */
struct colours {
    int distinct, clusters;
    uint8_t samples[DISTINCT_MAX][2]; /* of the distinct ones */
    uint8_t cluster_of[DISTINCT_MAX]; /* of the distinct ones */
    int counts[DISTINCT_MAX];
    struct cluster of[DISTINCT_MAX];
    uint8_t slots[SLOTS]; /* a hash table of the distinct ones, plus 1 */
};

/* ---- the colours of a block ---- */

/* Returns the index of a colour, or -1 if there are too many. */
static int find_colour(struct colours *colours, int a, int b)
{
    unsigned slot = (unsigned)(a + 37 * b) % SLOTS;
    for (; colours->slots[slot] > 0; slot = (slot + 1) % SLOTS) {
        int index = colours->slots[slot] - 1;
        if (colours->samples[index][0] == a && colours->samples[index][1] == b)
            return index;
    }
    if (colours->distinct == DISTINCT_MAX)
        return -1;
    int index = colours->distinct++;
    colours->samples[index][0] = (uint8_t)a;
    colours->samples[index][1] = (uint8_t)b;
    colours->counts[index] = 0;
    colours->slots[slot] = (uint8_t)(index + 1);
    return index;
}

/* Sets a map of distinct colours. Returns false if there are too many. */
static bool count_colours(struct colours *colours, const struct avif_plane planes[2], int x, int y,
                          int side, uint8_t *map)
{
    colours->distinct = 0;
    memset(colours->slots, 0, sizeof colours->slots);
    for (int row = 0; row < side; row++) {
        const uint8_t *a = avif_sample_at(&planes[0], x, y + row);
        const uint8_t *b = planes[1].samples ? avif_sample_at(&planes[1], x, y + row) : NULL;
        for (int column = 0; column < side; column++) {
            int index = find_colour(colours, a[column], b ? b[column] : 0);
            if (index < 0 || index >= side * side / 2)
                return false;
            colours->counts[index]++;
            map[row * side + column] = (uint8_t)index;
        }
    }
    return true;
}

/* Sorts the colours by their first samples, then by the second ones. */
static void sort_colours(struct colours *colours)
{
    int order[DISTINCT_MAX];
    for (int i = 0; i < colours->distinct; i++) {
        int key = colours->samples[i][0] << 8 | colours->samples[i][1], at = i;
        for (; at > 0; at--) {
            const uint8_t *before = colours->samples[order[at - 1]];
            if ((before[0] << 8 | before[1]) < key)
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (int i = 0; i < colours->distinct; i++) {
        const uint8_t *samples = colours->samples[order[i]];
        int count = colours->counts[order[i]];
        colours->of[i] = (struct cluster){count, {count * samples[0], count * samples[1]}};
        colours->cluster_of[order[i]] = (uint8_t)i;
    }
    colours->clusters = colours->distinct;
}

/* The squared error that is added if two clusters become one. */
static int64_t cost_of_merge(const struct cluster *a, const struct cluster *b)
{
    int64_t both = (int64_t)a->count * b->count, apart[2];
    for (int i = 0; i < 2; i++)
        apart[i] = (int64_t)a->sums[i] * b->count - (int64_t)b->sums[i] * a->count;
    return (apart[0] * apart[0] + apart[1] * apart[1]) / (both * (a->count + b->count));
}

/* Merges neighbours in the order of the colours until a palette has room for them, and then those
 * that add less to the error than their bits cost. */
static void merge(struct colours *colours, const struct avif_quantiser *quantiser)
{
    /* Bits / 16 that a colour costs, and those of the indices that it adds. */
    enum { colour_bits = 320 };
    int64_t costs[DISTINCT_MAX], most = avif_cost_of(quantiser, colour_bits) / 64;
    struct cluster *of = colours->of;
    uint8_t merged[DISTINCT_MAX]; /* by cluster before: the one that it is in */
    for (int i = 0; i < colours->clusters; i++) {
        merged[i] = (uint8_t)i;
        costs[i] = i > 0 ? cost_of_merge(&of[i - 1], &of[i]) : INT64_MAX;
    }
    while (colours->clusters > 2) {
        int count = colours->clusters, at = 1;
        for (int i = 2; i < count; i++)
            at = costs[i] < costs[at] ? i : at;
        if (count <= PALETTE_COLOURS_MAX && costs[at] > most)
            break;
        of[at - 1].count += of[at].count;
        of[at - 1].sums[0] += of[at].sums[0];
        of[at - 1].sums[1] += of[at].sums[1];
        colours->clusters = --count;
        memmove(&of[at], &of[at + 1], (size_t)(count - at) * sizeof *of);
        memmove(&costs[at], &costs[at + 1], (size_t)(count - at) * sizeof *costs);
        for (int i = avif_max(at - 1, 1); i <= avif_min(at, count - 1); i++)
            costs[i] = cost_of_merge(&of[i - 1], &of[i]);
        for (int i = 0; i < colours->distinct; i++)
            merged[i] = (uint8_t)(merged[i] - (merged[i] >= at));
    }
    for (int i = 0; i < colours->distinct; i++)
        colours->cluster_of[i] = merged[colours->cluster_of[i]];
}

/* ---- the palette ---- */

/* The colours are those of the clusters, whose first samples ascend. */
static void set_palette(const struct colours *colours, struct avif_palette *palette)
{
    palette->count = (uint8_t)colours->clusters;
    for (int i = 0; i < colours->clusters; i++) {
        const struct cluster *cluster = &colours->of[i];
        for (int k = 0; k < 2; k++)
            palette->colours[k][i] =
                (uint8_t)((cluster->sums[k] + cluster->count / 2) / cluster->count);
    }
}

static int64_t error_of(const struct colours *colours, const struct avif_palette *palette)
{
    int64_t error = 0;
    for (int i = 0; i < colours->distinct; i++) {
        int index = colours->cluster_of[i];
        int a = colours->samples[i][0] - palette->colours[0][index];
        int b = colours->samples[i][1] - palette->colours[1][index];
        error += (int64_t)colours->counts[i] * (a * a + b * b);
    }
    return error;
}

/* About what the indices cost, in bits / 16. */
static int64_t map_bits(const uint8_t *map, int side, int count)
{
    /* Of an index of rank 0, 1, and others, by context: as the first CDFs say. */
    static const uint8_t two[PALETTE_CONTEXTS][2] = {{3, 48}, {16, 16}, {26, 9}, {4, 40}, {1, 77}};
    static const uint8_t more[PALETTE_CONTEXTS][3] = {
        {8, 61, 67}, {33, 27, 50}, {38, 12, 65}, {12, 49, 57}, {1, 109, 108}};
    int64_t bits = 0;
    for (int i = 1; i < side * side; i++) {
        int rank, context = avif_palette_context(map, side, i % side, i / side, &rank);
        bits += count == 2 ? two[context][rank] : more[context][avif_min(rank, 2)];
    }
    return bits;
}

int64_t avif_find_palette(const struct avif_encoder *encoder, int which, int x, int y, int size,
                          struct avif_palette *palette, uint8_t *map, int64_t *bits)
{
    /* Of a block's palette, and of each colour. */
    enum { palette_bits = 64, luma_bits = 48, chroma_bits = 140 };
    const struct avif_quantiser *quantiser = &encoder->frame.quantiser;
    struct avif_plane planes[2] = {encoder->source[which == PALETTE_LUMA ? 0 : 1], {NULL, 0}};
    struct colours colours;
    int side = 1 << size;
    if (which == PALETTE_CHROMA) {
        planes[1] = encoder->source[2];
        side /= 2;
        x /= 2;
        y /= 2;
    }
    palette->count = 0;
    if (!count_colours(&colours, planes, x, y, side, map) || colours.distinct < 2)
        return INT64_MAX;
    sort_colours(&colours);
    merge(&colours, quantiser);
    set_palette(&colours, palette);
    for (int i = 0; i < side * side; i++)
        map[i] = colours.cluster_of[map[i]];
    *bits = palette_bits + map_bits(map, side, palette->count) +
            palette->count * (which == PALETTE_LUMA ? luma_bits : chroma_bits);
    return 64 * error_of(&colours, palette) + avif_cost_of(quantiser, *bits);
}

void avif_predict_palette(const uint8_t *colours, const uint8_t *map, int size, uint8_t *to)
{
    for (int i = 0; i < 1 << 2 * size; i++)
        to[i] = colours[map[i]];
}

/* ---- the frame ---- */

/* Whether a block of 16 x 16 has 2 to 4 values that are not all alike. */
static bool has_few_values(const struct avif_plane *plane, int x, int y)
{
    enum { few = 4, apart = 16 };
    uint8_t values[few];
    int count = 0, least = 255, most = 0;
    for (int row = 0; row < 16; row++) {
        const uint8_t *at = avif_sample_at(plane, x, y + row);
        for (int column = 0; column < 16; column++) {
            int i = 0;
            while (i < count && values[i] != at[column])
                i++;
            if (i < count)
                continue;
            if (count == few)
                return false;
            values[count++] = at[column];
            least = avif_min(least, at[column]);
            most = avif_max(most, at[column]);
        }
    }
    return most - least >= apart;
}

bool avif_has_palettes(const struct avif_encoder *encoder)
{
    enum { step = 32, part = 32 };
    const struct avif_frame *frame = &encoder->frame;
    int found = 0, all = 0;
    for (int y = 0; y < 8 * frame->cells_y; y += step)
        for (int x = y / step % 2 * 16; x < 8 * frame->cells_x; x += step) {
            found += has_few_values(&encoder->source[0], x, y);
            all++;
        }
    return found * part > all;
}
