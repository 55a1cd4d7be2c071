#include "codecs/jpeg/scans.h"

#include <string.h>

#include "codecs/codec_impl.h"

/* ISO/IEC 10918-1, tables B.1 and B.3. */
enum { MARKER_DHT = 0xC4, MARKER_RST0 = 0xD0, MARKER_RST7 = 0xD7, MARKER_EOI = 0xD9,
       MARKER_SOS = 0xDA, MARKER_DQT = 0xDB, MARKER_DRI = 0xDD, MARKER_APP0 = 0xE0,
       MARKER_APP15 = 0xEF, MARKER_COM = 0xFE };
enum { COMPONENTS_MAX = 4, COEFFICIENTS = 64 };

struct scan {
    int components[COMPONENTS_MAX]; /* indices */
    int count;
    int first, last;                /* coefficients */
    int high, low;                  /* bit positions, Ah and Al */
};

/* A component of the file's frame. */
struct component {
    int id;
    bool takes_ac; /* the decode reads its AC coefficients */
    bool wanted;   /* it becomes pixels */
};

struct walk {
    struct component components[COMPONENTS_MAX];
    int component_count;
    /* The lowest bit that is known of each coefficient; -1: nothing is. */
    int8_t known[COMPONENTS_MAX][COEFFICIENTS];
    struct jpeg_scans *scans;
    const uint8_t *span; /* where the span that is being gathered begins */
    uint32_t scans_left;
    uint64_t deadline_ns;
    const uint8_t *checked; /* up to where the file was read when the clock was looked at */
    bool dropping;       /* the scan at hand is left out */
    bool dropped;        /* any was */
};

static bool is_late(struct walk *walk, const uint8_t *at)
{
    if ((size_t)(at - walk->checked) < CODEC_BYTES_PER_CHECK)
        return false;
    walk->checked = at;
    return codec_late(walk->deadline_ns);
}

/* The first marker from `at` on that ends entropy-coded data, or NULL. */
static const uint8_t *find_marker(struct walk *walk, const uint8_t *at, const uint8_t *end)
{
    while (at < end && (at = memchr(at, 0xFF, (size_t)(end - at))) != NULL) {
        if (end - at < 2 || is_late(walk, at))
            return NULL;
        if (at[1] != 0x00 && at[1] != 0xFF && (at[1] < MARKER_RST0 || at[1] > MARKER_RST7))
            return at;
        at += at[1] == 0xFF ? 1 : 2; /* 0xFF may stand before a marker any number of times */
    }
    return NULL;
}

/* A scan's header behind its marker; false: it is none that could be. */
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

/* Enters what the scan tells; false: it does not continue what was told before. */
static bool learn(struct walk *walk, const struct scan *scan)
{
    for (int i = 0; i < scan->count; i++) {
        int8_t *known = walk->known[scan->components[i]];
        if (scan->first > 0 && known[0] < 0)
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
    if (end == walk->span)
        return true;
    if (scans->count == JPEG_SPANS_MAX)
        return false;
    scans->spans[scans->count++] = (struct jpeg_span){walk->span, (size_t)(end - walk->span)};
    return true;
}

/* From the marker at `at` on, bytes are kept or left out. */
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
        for (int k = 0; walk->components[i].wanted && k < COEFFICIENTS; k++)
            if (walk->known[i][k] != 0)
                return false;
    return true;
}

/* The length of the segment whose marker is at `at`; 0: it does not end, or is of no kind that
 * may stand between scans. */
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

/* From one marker to the next; NULL: this file is for libjpeg to judge. */
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

/* What the decode takes; false: the file is of another kind. */
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
