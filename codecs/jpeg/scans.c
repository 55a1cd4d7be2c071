/*
 * scans.c - finds the scans of a progressive JPEG that do not affect the decoded pixels.
 *
 * A decode to Y alone does not use the AC coefficients of Cb and Cr. A component that is decoded at
 * 1/8 does not use its own AC coefficients. libjpeg does not receive scans that have only unused
 * coefficients: their Huffman codes are the most expensive part of decoding a progressive file.
 * Pixels are the same. Damage within skipped scans is not found.
 */
#include "codecs/jpeg/state.h"

#include <string.h>

struct component {
    bool takes_ac; /* the decode uses its AC coefficients */
    bool wanted;   /* the decode uses it */
};

struct walk {
    j_decompress_ptr reader;
    struct component components[MAX_COMPS_IN_SCAN];
    int component_count;
    struct jpeg_known known;
    struct jpeg_scans *scans;
    const uint8_t *span; /* start of the current span */
    uint32_t scans_left;
    struct jpeg_markers markers;
    bool dropping;       /* the current scan is skipped */
    bool dropped;        /* any scan was skipped */
};

void jpeg_known_clear(struct jpeg_known *known)
{
    memset(known->low, -1, sizeof known->low);
}

bool jpeg_known_learn(struct jpeg_known *known, const struct jpeg_scan_header *scan)
{
    for (int i = 0; i < scan->count; i++) {
        int8_t *low = known->low[scan->components[i]];
        if (scan->first > 0 && low[0] < 0)
            return false;
        for (int k = scan->first; k <= scan->last; k++) {
            bool begins = low[k] < 0 && scan->high == 0;
            bool refines = low[k] == scan->high && scan->high > 0 && scan->low == scan->high - 1;
            if (!begins && !refines)
                return false;
            low[k] = (int8_t)scan->low;
        }
    }
    return true;
}

bool jpeg_known_is_complete(const struct jpeg_known *known, int component)
{
    for (int k = 0; k < DCTSIZE2; k++)
        if (known->low[component][k] != 0)
            return false;
    return true;
}

static bool add_span(struct walk *walk, const uint8_t *end)
{
    struct jpeg_scans *scans = walk->scans;
    if (end == walk->span)
        return true;
    if (scans->count == JPEG_SPANS_MAX)
        return false;
    scans->spans[scans->count++] = (struct jpeg_span){walk->span, (size_t)(end - walk->span)};
    return true;
}

/* Keeps or skips the bytes from the marker at `at`. Returns false if there are too many spans. */
static bool turn(struct walk *walk, const uint8_t *at, bool dropping)
{
    if (dropping && !walk->dropping && !add_span(walk, at))
        return false;
    if (!dropping && walk->dropping)
        walk->span = at;
    walk->dropping = dropping;
    walk->dropped |= dropping;
    return true;
}

static bool is_complete(const struct walk *walk)
{
    for (int i = 0; i < walk->component_count; i++)
        if (walk->components[i].wanted && !jpeg_known_is_complete(&walk->known, i))
            return false;
    return true;
}

/* Handles one marker and returns the next; NULL if libjpeg must decode the whole file. */
static const uint8_t *step(struct walk *walk, const uint8_t *at, const uint8_t *end)
{
    size_t length = jpeg_segment_length(at, end);
    const uint8_t *next = at + 2 + length;
    struct jpeg_scan_header scan;
    if (length == 0)
        return NULL;
    if (at[1] != JPEG_MARKER_SOS) {
        bool follows = next + 2 <= end && next[0] == 0xFF;
        return turn(walk, at, false) && follows ? jpeg_find_marker(&walk->markers, next, end)
                                                : NULL;
    }
    if (walk->scans_left-- == 0 ||
        !jpeg_read_scan_header(walk->reader, at + 2, length, &scan) ||
        !jpeg_known_learn(&walk->known, &scan))
        return NULL;
    bool drop = scan.first > 0 && !walk->components[scan.components[0]].takes_ac;
    return turn(walk, at, drop) ? jpeg_find_marker(&walk->markers, next, end) : NULL;
}

/* Sets the components of the decode. Returns false if no scan of such a file can be skipped. */
static bool open_walk(struct walk *walk, j_decompress_ptr reader)
{
    bool luma = reader->out_color_space == JCS_GRAYSCALE;
    walk->component_count = reader->num_components;
    jpeg_known_clear(&walk->known);
    if (!reader->progressive_mode || reader->num_components > MAX_COMPS_IN_SCAN ||
        reader->Ss != 0 || reader->Se != 0 || reader->Ah != 0)
        return false;
    jpeg_calc_output_dimensions(reader); /* sets DCT_scaled_size */
    for (int i = 0; i < reader->num_components; i++) {
        const jpeg_component_info *from = &reader->comp_info[i];
        bool wanted = i == 0 || !luma;
        walk->components[i] = (struct component){wanted && from->DCT_scaled_size > 1, wanted};
    }
    for (int i = 0; i < reader->comps_in_scan; i++)
        walk->known.low[reader->cur_comp_info[i]->component_index][0] = (int8_t)reader->Al;
    return true;
}

bool jpeg_scans_choose(j_decompress_ptr reader, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct jpeg_scans *scans)
{
    const uint8_t *end = bytes + length, *at = NULL;
    struct walk walk = {.reader = reader, .scans = scans, .span = bytes,
                        .markers = {bytes, limits->deadline_ns},
                        .scans_left = limits->jpeg_scans_max - 1};
    scans->count = 0;
    if (limits->jpeg_scans_max > 0 && open_walk(&walk, reader))
        at = jpeg_find_marker(&walk.markers, bytes, end);
    while (at != NULL && at[1] != JPEG_EOI)
        at = step(&walk, at, end);
    if (at != NULL && turn(&walk, at, false) && add_span(&walk, end) && walk.dropped &&
        is_complete(&walk))
        return true;
    scans->count = 0;
    return false;
}
