/*
 * progressive.c - decides which progressive JPEGs the device decodes, and writes the descriptors
 * from which the kernels decode a batch of them.
 */
#include "gpu/jpeg/progressive.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/progressive_impl.h"

enum { ALIGNMENT = 256, LOW_MAX = 13, DC_SYMBOL_MAX = 15 };
/* Positions of bits in a scan are 32-bit numbers. */
#define SCAN_BYTES_MAX (1u << 28)
/* Indices of coefficients are 32-bit numbers. */
#define BLOCKS_MAX (1u << 25)

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* ---- geometry ---- */

/* The size of an image. */
struct geometry {
    uint32_t across[JPEG_COMPONENTS_MAX], down[JPEG_COMPONENTS_MAX]; /* of a component, in blocks */
    uint32_t mcus_across, mcus_down; /* of a scan with several components */
};

static uint32_t blocks_of(const struct geometry *geometry, uint32_t component)
{
    return geometry->across[component] * geometry->down[component];
}

static bool takes_sampling(const struct jpeg_frame *frame)
{
    const struct jpeg_component *luma = &frame->components[0];
    if (frame->component_count == 1)
        return luma->h >= 1 && luma->h <= 4 && luma->v >= 1 && luma->v <= 4;
    bool full = luma->h >= 1 && luma->h <= 2 && luma->v >= 1 && luma->v <= 2;
    for (int i = 1; full && i < frame->component_count; i++)
        full = frame->components[i].h == 1 && frame->components[i].v == 1;
    return full && frame->component_count == JPEG_COMPONENTS_MAX;
}

/* Computes the sizes as in initial_setup and per_scan_setup of libjpeg's jdinput.c. false: the
 * device does not decode images of this size or sampling. */
static bool measure(const struct jpeg_frame *frame, struct geometry *geometry)
{
    const uint32_t side_max = 65535;
    if (!takes_sampling(frame) || frame->width == 0 || frame->width > side_max ||
        frame->height == 0 || frame->height > side_max)
        return false;
    uint32_t h_max = frame->components[0].h, v_max = frame->components[0].v;
    geometry->mcus_across = divide_up(frame->width, 8 * h_max);
    geometry->mcus_down = divide_up(frame->height, 8 * v_max);
    for (int i = 0; i < frame->component_count; i++) {
        geometry->across[i] = divide_up(frame->width * frame->components[i].h, 8 * h_max);
        geometry->down[i] = divide_up(frame->height * frame->components[i].v, 8 * v_max);
    }
    return (uint64_t)geometry->across[0] * geometry->down[0] <= BLOCKS_MAX;
}

/* ---- the scan script ---- */

static enum progressive_kind kind_of(const struct jpeg_scan *scan)
{
    if (scan->first == 0)
        return scan->high ? DC_REFINE : DC_FIRST;
    return scan->high ? AC_REFINE : AC_FIRST;
}

/* Whether libjpeg-turbo accepts the table: jpeg_make_d_derived_tbl of jdhuff.c. */
static bool table_is_valid(const struct jpeg_huffman *table, bool dc)
{
    uint32_t code = 0, symbols = 0;
    for (int length = 1; length <= 16; length++) {
        code += table->counts[length - 1];
        symbols += table->counts[length - 1];
        if (code >= 1u << length)
            return false;
        code <<= 1;
    }
    if (symbols > 256)
        return false;
    for (uint32_t i = 0; dc && i < symbols; i++)
        if (table->symbols[i] > DC_SYMBOL_MAX)
            return false;
    return true;
}

static bool takes_tables(const struct jpeg_frame *frame, const struct jpeg_scan *scan)
{
    if (kind_of(scan) == DC_REFINE)
        return true;
    bool dc = scan->first == 0;
    for (int i = 0; i < scan->component_count; i++) {
        uint32_t table = dc ? scan->dc[i] : scan->ac[i];
        if (table >= frame->huffman_count || table >= JPEG_FRAME_HUFFMAN_MAX ||
            !table_is_valid(&frame->huffman[table], dc))
            return false;
    }
    return true;
}

static bool takes_components(const struct jpeg_frame *frame, const struct jpeg_scan *scan)
{
    if (scan->component_count < 1 || scan->component_count > frame->component_count)
        return false;
    for (int i = 0; i < scan->component_count; i++)
        if (scan->components[i] >= frame->component_count ||
            (i > 0 && scan->components[i] <= scan->components[i - 1]))
            return false;
    return true;
}

/* Whether a scan is valid without regard to the other scans: start_pass_phuff_decoder of
 * jdphuff.c. */
static bool takes_scan(const struct jpeg_frame *frame, const struct jpeg_scan *scan,
                       uint32_t file_bytes)
{
    bool band = scan->first == 0 ? scan->last == 0
                                 : scan->component_count == 1 && scan->first <= scan->last &&
                                       scan->last < JPEG_BLOCK;
    bool bits = scan->low <= LOW_MAX && (scan->high == 0 || scan->high == scan->low + 1);
    return band && bits && takes_components(frame, scan) && takes_tables(frame, scan) &&
           scan->bytes > 0 && scan->bytes < SCAN_BYTES_MAX && scan->at <= file_bytes &&
           scan->bytes <= file_bytes - scan->at;
}

/* The bits of each coefficient that the scans up to some scan contain. */
struct progress {
    int8_t low[JPEG_COMPONENTS_MAX][JPEG_BLOCK]; /* the lowest bit; -1: no bit yet */
};

/* Adds a scan to *progress. false: the scan repeats bits, or is not a refinement of the next
 * bit. */
static bool advance(struct progress *progress, const struct jpeg_scan *scan)
{
    for (int i = 0; i < scan->component_count; i++) {
        int8_t *low = progress->low[scan->components[i]];
        if (scan->first > 0 && low[0] < 0)
            return false;
        for (int k = scan->first; k <= scan->last; k++) {
            if (scan->high == 0 ? low[k] >= 0 : low[k] != scan->high)
                return false;
            low[k] = (int8_t)scan->low;
        }
    }
    return true;
}

/* Whether the scans contain all bits of all coefficients, in a valid order. If bits are missing,
 * libjpeg-turbo smooths blocks, which the device cannot do. */
static bool takes_script(const struct jpeg_frame *frame, uint32_t file_bytes)
{
    struct progress progress;
    memset(progress.low, -1, sizeof progress.low);
    if (!frame->progressive || frame->scan_count == 0 || frame->scan_count > JPEG_FRAME_SCANS_MAX)
        return false;
    for (uint32_t i = 0; i < frame->scan_count; i++)
        if (!takes_scan(frame, &frame->scans[i], file_bytes) ||
            !advance(&progress, &frame->scans[i]))
            return false;
    for (int i = 0; i < frame->component_count; i++)
        for (int k = 0; k < JPEG_BLOCK; k++)
            if (progress.low[i][k] != 0)
                return false;
    return true;
}

/* Number of components whose AC scans are decoded, from the first on. If only Y is needed, the AC
 * scans of Cb and Cr are skipped, as on the host (codecs/jpeg/scans.c). */
static uint32_t decoded_components(const struct jpeg_frame *frame, bool luma_only)
{
    return luma_only ? 1 : frame->component_count;
}

static bool is_decoded(const struct jpeg_scan *scan, uint32_t components)
{
    return scan->first == 0 || scan->components[0] < components;
}

/* ---- work memory ---- */

/* The work memory of a scan. These are addresses; or offsets, if the layout starts at 0. */
struct scan_memory {
    uint64_t words, segments, corrections;
    uint32_t word_count, segment_count, interval, mcus, mcus_across;
};

/* The work memory of an image: likewise. */
struct layout {
    uint64_t values[JPEG_COMPONENTS_MAX], masks[JPEG_COMPONENTS_MAX];
    uint64_t progress, cleared_end, end;
    struct scan_memory scans[JPEG_FRAME_SCANS_MAX];
};

static uint64_t take(uint64_t *at, uint64_t bytes)
{
    uint64_t start = *at;
    *at += round_up(bytes, ALIGNMENT);
    return start;
}

static void lay_out_scan(const struct jpeg_scan *scan, const struct geometry *geometry,
                         uint64_t *at, struct scan_memory *memory)
{
    uint32_t component = scan->components[0];
    bool single = scan->component_count == 1;
    uint32_t data_words = divide_up(scan->bytes, sizeof(uint32_t));
    memory->mcus_across = single ? geometry->across[component] : geometry->mcus_across;
    memory->mcus = memory->mcus_across *
                   (single ? geometry->down[component] : geometry->mcus_down);
    memory->interval = scan->restart_interval ? scan->restart_interval : memory->mcus;
    memory->segment_count = (memory->mcus - 1) / memory->interval + 1;
    memory->word_count = data_words + SCAN_PADDING;
    memory->words = take(at, (uint64_t)memory->word_count * sizeof(uint32_t));
    memory->segments = take(at, ((uint64_t)memory->segment_count + 1) * sizeof(uint32_t));
    memory->corrections = 0;
    if (kind_of(scan) == AC_REFINE)
        memory->corrections = take(at, (uint64_t)blocks_of(geometry, component) * sizeof(uint64_t));
}

static void lay_out(const struct jpeg_frame *frame, const struct geometry *geometry,
                    uint32_t components, uint64_t start, struct layout *layout)
{
    uint64_t at = start;
    memset(layout, 0, sizeof *layout);
    for (uint32_t i = 0; i < components; i++)
        layout->values[i] =
            take(&at, jpeg_plane_values(blocks_of(geometry, i)) * sizeof(int16_t));
    for (uint32_t i = 0; i < components; i++)
        layout->masks[i] = take(&at, (uint64_t)blocks_of(geometry, i) * 2 * sizeof(uint32_t));
    layout->progress = take(&at, (JPEG_FRAME_SCANS_MAX + 2) * sizeof(uint32_t));
    layout->cleared_end = at;
    for (uint32_t i = 0; i < frame->scan_count; i++)
        if (is_decoded(&frame->scans[i], components))
            lay_out_scan(&frame->scans[i], geometry, &at, &layout->scans[i]);
    (void)take(&at, SCAN_OVERRUN);
    layout->end = at;
}

size_t jpeg_progressive_work_bytes(const struct jpeg_frame *frame, uint32_t file_bytes,
                                   bool luma_only)
{
    struct geometry geometry;
    struct layout layout;
    if (!measure(frame, &geometry) || !takes_script(frame, file_bytes))
        return 0;
    lay_out(frame, &geometry, decoded_components(frame, luma_only), 0, &layout);
    return (size_t)layout.end;
}

uint32_t jpeg_progressive_planes(const struct jpeg_frame *frame, bool luma_only, uint8_t *work,
                                 struct jpeg_plane *planes)
{
    struct geometry geometry;
    struct layout layout;
    uint32_t components = decoded_components(frame, luma_only);
    if (!measure(frame, &geometry))
        return 0;
    lay_out(frame, &geometry, components, (uintptr_t)work, &layout);
    for (uint32_t i = 0; i < components; i++) {
        planes[i].values = (const int16_t *)(uintptr_t)layout.values[i];
        planes[i].across = geometry.across[i];
        planes[i].down = geometry.down[i];
    }
    return components;
}

/* ---- descriptors ---- */

/* Writes the descriptors of a batch; for count_image, the addresses are NULL. */
struct writer {
    struct progressive_image *images;
    struct progressive_scan *scans;
    struct jpeg_huffman *tables;
    uint32_t scan_count, table_count, groups_max;
};

/* For each Huffman table of an image: whether the batch has it already, and its index there. */
struct table_map {
    uint32_t index[JPEG_FRAME_HUFFMAN_MAX];
    bool known[JPEG_FRAME_HUFFMAN_MAX];
};

static uint32_t add_table(struct writer *writer, const struct jpeg_frame *frame, uint32_t table,
                          struct table_map *map)
{
    if (!map->known[table]) {
        map->known[table] = true;
        map->index[table] = writer->table_count++;
        if (writer->tables)
            writer->tables[map->index[table]] = frame->huffman[table];
    }
    return map->index[table];
}

/* Returns a mask of the scans that an AC scan refines. In a valid script, one scan has made each of
 * its coefficients known up to the bit before. */
static uint32_t predecessors_of(const struct jpeg_frame *frame, uint32_t index)
{
    const struct jpeg_scan *scan = &frame->scans[index];
    uint32_t predecessors = 0;
    for (uint32_t i = 0; i < index && kind_of(scan) == AC_REFINE; i++) {
        const struct jpeg_scan *other = &frame->scans[i];
        if (other->first > 0 && other->components[0] == scan->components[0] &&
            other->low == scan->high && other->first <= scan->last && scan->first <= other->last)
            predecessors |= 1u << i;
    }
    return predecessors;
}

static void add_scan(struct writer *writer, const struct jpeg_progressive_image *image,
                     uint32_t image_index, uint32_t index, const struct scan_memory *memory,
                     struct table_map *map)
{
    const struct jpeg_scan *from = &image->frame->scans[index];
    struct progressive_scan scan;
    memset(&scan, 0, sizeof scan);
    scan.bytes = image->file + from->at;
    scan.words = (uint32_t *)(uintptr_t)memory->words;
    scan.segments = (uint32_t *)(uintptr_t)memory->segments;
    scan.corrections = (uint64_t *)(uintptr_t)memory->corrections;
    scan.byte_count = from->bytes;
    scan.word_count = memory->word_count;
    scan.segment_count = memory->segment_count;
    scan.interval = memory->interval;
    scan.mcus = memory->mcus;
    scan.mcus_across = memory->mcus_across;
    scan.predecessors = predecessors_of(image->frame, index);
    scan.image = image_index;
    scan.kind = (uint8_t)kind_of(from);
    scan.index = (uint8_t)index;
    scan.first = from->first;
    scan.last = from->last;
    scan.low = from->low;
    scan.component_count = from->component_count;
    for (int i = 0; i < from->component_count; i++) {
        scan.components[i] = from->components[i];
        if (scan.kind != DC_REFINE)
            scan.tables[i] = add_table(writer, image->frame,
                                       from->first == 0 ? from->dc[i] : from->ac[i], map);
    }
    writer->scans[writer->scan_count++] = scan;
}

/* Adds the numbers of descriptors of an image. */
static void count_image(struct writer *writer, const struct jpeg_progressive_image *image)
{
    const struct jpeg_frame *frame = image->frame;
    struct geometry geometry;
    struct table_map map = {0};
    uint32_t components = decoded_components(frame, image->luma_only);
    if (!measure(frame, &geometry))
        return;
    for (uint32_t i = 0; i < frame->scan_count; i++) {
        const struct jpeg_scan *scan = &frame->scans[i];
        if (!is_decoded(scan, components))
            continue;
        writer->scan_count++;
        for (int c = 0; c < scan->component_count && kind_of(scan) != DC_REFINE; c++)
            (void)add_table(writer, frame, scan->first == 0 ? scan->dc[c] : scan->ac[c], &map);
    }
    uint32_t groups = divide_up(blocks_of(&geometry, 0), JPEG_GROUP_BLOCKS);
    if (groups > writer->groups_max)
        writer->groups_max = groups;
}

static void describe_components(const struct jpeg_frame *frame, const struct geometry *geometry,
                                const struct layout *layout, uint32_t decoded,
                                struct progressive_image *to)
{
    for (uint32_t i = 0; i < frame->component_count; i++) {
        struct progressive_component *component = &to->components[i];
        component->values = (int16_t *)(uintptr_t)layout->values[i];
        component->masks = (uint32_t *)(uintptr_t)layout->masks[i];
        component->across = geometry->across[i];
        component->down = geometry->down[i];
        component->blocks = blocks_of(geometry, i);
        component->h = frame->components[i].h;
        component->v = frame->components[i].v;
        component->stored = i < decoded;
    }
}

static void add_image(struct writer *writer, const struct jpeg_progressive_image *image,
                      uint32_t index)
{
    const struct jpeg_frame *frame = image->frame;
    struct geometry geometry;
    struct layout layout;
    struct table_map map = {0};
    uint32_t components = decoded_components(frame, image->luma_only);
    uint32_t first_scan = writer->scan_count;
    if (!measure(frame, &geometry))
        return;
    lay_out(frame, &geometry, components, (uintptr_t)image->work, &layout);
    for (uint32_t i = 0; i < frame->scan_count; i++)
        if (is_decoded(&frame->scans[i], components))
            add_scan(writer, image, index, i, &layout.scans[i], &map);
    struct progressive_image *to = &writer->images[index];
    memset(to, 0, sizeof *to);
    describe_components(frame, &geometry, &layout, components, to);
    to->progress = (uint32_t *)(uintptr_t)layout.progress;
    to->verdict = to->progress + JPEG_FRAME_SCANS_MAX;
    to->scans_ended = to->verdict + 1;
    to->result = image->verdict;
    to->ended = image->ended;
    to->cleared = image->work;
    to->cleared_bytes = layout.cleared_end - (uintptr_t)image->work;
    to->first_scan = first_scan;
    to->scan_count = writer->scan_count - first_scan;
    to->component_count = frame->component_count;
}

/* Orders the images of a batch by the length of their longest scan, the longest first: the longest
 * scan determines how long an image takes, so it must start early. Skipped scans do not count. */
struct order {
    uint32_t bytes, index;
};

static int compare_order(const void *a, const void *b)
{
    const struct order *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

static uint32_t longest_scan(const struct jpeg_progressive_image *image)
{
    uint32_t components = decoded_components(image->frame, image->luma_only), longest = 0;
    for (uint32_t i = 0; i < image->frame->scan_count; i++) {
        const struct jpeg_scan *scan = &image->frame->scans[i];
        if (is_decoded(scan, components) && scan->bytes > longest)
            longest = scan->bytes;
    }
    return longest;
}

size_t jpeg_progressive_describe(const struct jpeg_progressive_image *images, uint32_t count,
                                 void *descriptors, size_t bytes,
                                 struct jpeg_progressive_batch *batch)
{
    struct writer counts = {0};
    struct order order[JPEG_PROGRESSIVE_BATCH_MAX];
    assert(count > 0 && count <= JPEG_PROGRESSIVE_BATCH_MAX);
    for (uint32_t i = 0; i < count; i++)
        count_image(&counts, &images[i]);
    uint64_t end = sizeof(struct progressive_header);
    take(&end, count * sizeof(struct progressive_image));
    uint64_t scans_at = take(&end, counts.scan_count * sizeof(struct progressive_scan));
    uint64_t tables_at = take(&end, counts.table_count * sizeof(struct jpeg_huffman));
    *batch = (struct jpeg_progressive_batch){count, counts.scan_count, (uint32_t)scans_at,
                                             (uint32_t)tables_at, counts.groups_max};
    if (end > bytes)
        return (size_t)end;
    uint8_t *base = descriptors;
    struct writer writer = {
        .images = (struct progressive_image *)(void *)(base + sizeof(struct progressive_header)),
        .scans = (struct progressive_scan *)(void *)(base + scans_at),
        .tables = (struct jpeg_huffman *)(void *)(base + tables_at),
    };
    for (uint32_t i = 0; i < count; i++)
        order[i] = (struct order){longest_scan(&images[i]), i};
    qsort(order, count, sizeof *order, compare_order);
    memset(base, 0, sizeof(struct progressive_header));
    for (uint32_t i = 0; i < count; i++)
        add_image(&writer, &images[order[i].index], order[i].index);
    return (size_t)end;
}
