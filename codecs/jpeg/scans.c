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

/* ISO/IEC 10918-1, tables B.1 and B.3. */
enum { MARKER_DHT = 0xC4, MARKER_RST0 = 0xD0, MARKER_RST7 = 0xD7, MARKER_EOI = 0xD9,
       MARKER_SOS = 0xDA, MARKER_DQT = 0xDB, MARKER_DRI = 0xDD, MARKER_APP0 = 0xE0,
       MARKER_APP15 = 0xEF, MARKER_COM = 0xFE };
enum { COMPONENTS_MAX = 4, COEFFICIENTS = 64 };

struct scan {
    int components[COMPONENTS_MAX]; /* indices of components of the frame */
    int count;
    int first, last;                /* range of coefficients, Ss and Se */
    int high, low;                  /* bit positions, Ah and Al */
};

struct component {
    int id;
    bool takes_ac; /* the decode uses its AC coefficients */
    bool wanted;   /* the decode uses it */
};

struct walk {
    struct component components[COMPONENTS_MAX];
    int component_count;
    /* The lowest known bit of each coefficient; -1 if none is known. */
    int8_t known[COMPONENTS_MAX][COEFFICIENTS];
    struct jpeg_scans *scans;
    const uint8_t *span; /* start of the current span */
    uint32_t scans_left;
    uint64_t deadline_ns;
    const uint8_t *checked; /* position in the file at the last check of the deadline */
    bool dropping;       /* the current scan is skipped */
    bool dropped;        /* any scan was skipped */
};

static bool is_late(struct walk *walk, const uint8_t *at)
{
    if ((size_t)(at - walk->checked) < CODEC_BYTES_PER_CHECK)
        return false;
    walk->checked = at;
    return codec_late(walk->deadline_ns);
}

/* Returns the next marker that ends entropy-coded data, or NULL. */
static const uint8_t *find_marker(struct walk *walk, const uint8_t *at, const uint8_t *end)
{
    while (at < end && (at = memchr(at, 0xFF, (size_t)(end - at))) != NULL) {
        if (end - at < 2 || is_late(walk, at))
            return NULL;
        if (at[1] != 0x00 && at[1] != 0xFF && (at[1] < MARKER_RST0 || at[1] > MARKER_RST7))
            return at;
        at += at[1] == 0xFF ? 1 : 2; /* any number of 0xFF may precede a marker */
    }
    return NULL;
}

/* Reads the header of a scan after its marker. Returns false if it is invalid. */
static bool read_scan(const struct walk *walk, const uint8_t *header, size_t length,
                      struct scan *scan)
{
    scan->count = length >= 3 ? header[2] : 0;
    if (scan->count < 1 || scan->count > COMPONENTS_MAX ||
        length != 6 + 2 * (size_t)scan->count)
        return false;
    for (int i = 0; i < scan->count; i++) {
        int index = 0;
        while (index < walk->component_count &&
               walk->components[index].id != header[3 + 2 * i])
            index++;
        if (index == walk->component_count)
            return false;
        scan->components[i] = index;
    }
    const uint8_t *tail = header + 3 + 2 * scan->count;
    scan->first = tail[0];
    scan->last = tail[1];
    scan->high = tail[2] >> 4;
    scan->low = tail[2] & 15;
    if (scan->first == 0)
        return scan->last == 0;
    return scan->count == 1 && scan->first <= scan->last && scan->last < COEFFICIENTS;
}

/* Records the coefficient bits of the scan. Returns false if they do not continue known bits. */
static bool learn(struct walk *walk, const struct scan *scan)
{
    for (int i = 0; i < scan->count; i++) {
        int8_t *known = walk->known[scan->components[i]];
        if (scan->first > 0 && known[0] < 0) /* uncovered: scans */
            return false;
        for (int k = scan->first; k <= scan->last; k++) {
            bool begins = known[k] < 0 && scan->high == 0;
            bool refines = known[k] == scan->high && scan->high > 0 &&
                           scan->low == scan->high - 1;
            if (!begins && !refines)
                return false;
            known[k] = (int8_t)scan->low;
        }
    }
    return true;
}

static bool add_span(struct walk *walk, const uint8_t *end)
{
    struct jpeg_scans *scans = walk->scans;
    if (end == walk->span) /* uncovered: scans */
        return true;
    if (scans->count == JPEG_SPANS_MAX) /* uncovered: scans */
        return false;
    scans->spans[scans->count++] = (struct jpeg_span){walk->span, (size_t)(end - walk->span)};
    return true;
}

/* Keeps or skips the bytes from the marker at `at`. Returns false if there are too many spans. */
static bool turn(struct walk *walk, const uint8_t *at, bool dropping)
{
    if (dropping && !walk->dropping && !add_span(walk, at)) /* uncovered: scans */
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
        for (int k = 0; walk->components[i].wanted && k < COEFFICIENTS; k++)
            if (walk->known[i][k] != 0)
                return false;
    return true;
}

/* Returns the length of the segment with its marker at `at`; 0 if the segment is truncated or not
 * allowed between scans. */
static size_t segment_length(const uint8_t *at, const uint8_t *end)
{
    int marker = at[1];
    bool plain = marker == MARKER_SOS || marker == MARKER_DHT || marker == MARKER_DQT ||
                 marker == MARKER_DRI || marker == MARKER_COM ||
                 (marker >= MARKER_APP0 && marker <= MARKER_APP15);
    if (!plain || end - at < 4)
        return 0;
    size_t length = (size_t)at[2] << 8 | at[3];
    return length >= 2 && length <= (size_t)(end - at) - 2 ? length : 0;
}

/* Handles one marker and returns the next; NULL if libjpeg must decode the whole file. */
static const uint8_t *step(struct walk *walk, const uint8_t *at, const uint8_t *end)
{
    size_t length = segment_length(at, end);
    const uint8_t *next = at + 2 + length;
    struct scan scan;
    if (length == 0)
        return NULL;
    if (at[1] != MARKER_SOS) {
        bool follows = next + 2 <= end && next[0] == 0xFF;
        return turn(walk, at, false) && follows ? find_marker(walk, next, end) : NULL;
    }
    if (walk->scans_left-- == 0 || !read_scan(walk, at + 2, length, &scan) || !learn(walk, &scan))
        return NULL;
    bool drop = scan.first > 0 && !walk->components[scan.components[0]].takes_ac;
    return turn(walk, at, drop) ? find_marker(walk, next, end) : NULL;
}

/* Sets the components of the decode. Returns false if no scan of such a file can be skipped. */
static bool open_walk(struct walk *walk, j_decompress_ptr reader)
{
    bool luma = reader->out_color_space == JCS_GRAYSCALE;
    walk->component_count = reader->num_components;
    memset(walk->known, -1, sizeof walk->known);
    if (!reader->progressive_mode || reader->num_components > COMPONENTS_MAX ||
        reader->comps_in_scan != reader->num_components || reader->Ss != 0 || reader->Se != 0 ||
        reader->Ah != 0)
        return false;
    jpeg_calc_output_dimensions(reader); /* sets DCT_scaled_size */
    for (int i = 0; i < reader->num_components; i++) {
        const jpeg_component_info *from = &reader->comp_info[i];
        bool wanted = i == 0 || !luma;
        walk->components[i] = (struct component){from->component_id,
                                                 wanted && from->DCT_scaled_size > 1, wanted};
        walk->known[i][0] = (int8_t)reader->Al;
    }
    return true;
}

bool jpeg_scans_choose(j_decompress_ptr reader, const uint8_t *bytes, size_t length,
                       const struct codec_limits *limits, struct jpeg_scans *scans)
{
    const uint8_t *end = bytes + length, *at = NULL;
    struct walk walk = {.scans = scans, .span = bytes, .checked = bytes,
                        .scans_left = limits->jpeg_scans_max - 1,
                        .deadline_ns = limits->deadline_ns};
    scans->count = 0;
    if (limits->jpeg_scans_max > 0 && open_walk(&walk, reader))
        at = find_marker(&walk, bytes, end);
    while (at != NULL && at[1] != MARKER_EOI)
        at = step(&walk, at, end);
    if (at != NULL && turn(&walk, at, false) && add_span(&walk, end) && walk.dropped &&
        is_complete(&walk))
        return true;
    scans->count = 0;
    return false;
}
