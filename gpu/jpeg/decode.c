/* decode.c - writes the descriptors from which the decoder's kernels decode a batch of JPEG
 * files. */
#include "gpu/jpeg/decode.h"

#include <assert.h>
#include <string.h>

#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/decode_impl.h"

/* The Huffman tables of a file are compared with this many sets of tables that the batch has
 * already, because files of one origin often have the same tables. */
#define SETS_COMPARED 8
/* Shorter files have no LONGEST subsequences, nor have files with segments that are shorter on
 * average: they would waste memory, as the last subsequence of a segment has records for all pieces
 * of a whole one. */
#define LONGEST_FILE_BYTES    (32u << 10)
#define LONGEST_SEGMENT_BYTES 1024
#define DATA_ALIGN 16
/* Memory after the data, because the decoder loads words beyond its end. */
#define WORDS_MARGIN_BYTES 64

static const uint8_t natural_of_zigzag[64] = JPEG_NATURAL_OF_ZIGZAG;

/* How data is divided into subsequences, and a batch into spans. A decoder that starts at a guessed
 * position finds the right symbols after some words, but only by chance the right block of the MCU.
 * With several blocks of Y per MCU, whose Huffman tables differ from those of Cb and Cr, that takes
 * some 60 words. Until it has found it, it decodes one subsequence after the other in vain, and
 * each of them is decoded again: fewer and longer ones cost less. Small files need more of them to
 * occupy the device. In files with one block of Y per MCU, more and shorter ones are faster.
 *
 * X(name, words of a subsequence, bits of the number of its pieces, threads per span, halo), from
 * the shortest on. The last two are of batches whose longest subsequences these are. A block of
 * threads has at most 64 KiB of shared memory at compute capability 7.5. */
#define SHAPES(X)                                                                                  \
    X(SHORT, 17, 3, 256, 16)                                                                       \
    X(LONG, 34, 4, 192, 16)                                                                        \
    X(LONGEST, 68, 5, 128, 6)

struct shape {
    uint32_t words, pieces_at, threads, halo;
};

#define SHAPE(name, words, pieces_at, threads, halo) {words, pieces_at, threads, halo},
static const struct shape shapes[] = {SHAPES(SHAPE)};
#define NAME(name, words, pieces_at, threads, halo) name,
enum shape_name { SHAPES(NAME) };
#define CHECK(name, words, pieces_at, threads, halo)                                               \
    static_assert(words * 32 == DECODE_PIECE_BITS << pieces_at, "whole pieces");                   \
    static_assert(threads - halo >= DECODE_SPAN_SUBS_MIN, "the memory for spans");                 \
    static_assert(DECODE_SPAN_BYTES(threads, words) <= DECODE_SPAN_BYTES_MAX, "shared memory");    \
    static_assert(words * 32 / 2 < DECODE_SUB_BLOCKS_MAX, "a block has at least two bits");
SHAPES(CHECK)

static_assert(JPEG_DECODE_FILE_BYTES_MAX < UINT32_MAX / 15, "bit positions must fit into 32 bits");

static uint32_t divide_up(uint64_t a, uint32_t b) { return (uint32_t)((a + b - 1) / b); }

/* ---- which files the device decodes ---- */

/* Whether libjpeg accepts the table (jpeg_make_d_derived_tbl): all codes fit into their lengths, no
 * code is all ones, and DC symbols are at most 15. */
static bool is_table(const struct jpeg_huffman *table, bool dc)
{
    uint32_t code = 0, count = 0;
    for (int bits = 1; bits <= 16; bits++, code <<= 1) {
        code += table->counts[bits - 1];
        count += table->counts[bits - 1];
        if (table->counts[bits - 1] > 0 && code >= 1u << bits)
            return false;
    }
    for (uint32_t i = 0; dc && i < count && i < sizeof table->symbols; i++)
        if (table->symbols[i] > 15)
            return false;
    return count <= sizeof table->symbols;
}

/* Cb and Cr, the last two components, must have the same tables. */
static bool has_tables(const struct jpeg_frame *frame)
{
    const struct jpeg_scan *scan = &frame->scans[0];
    if (scan->component_count > 1 && (scan->dc[1] != scan->dc[2] || scan->ac[1] != scan->ac[2]))
        return false;
    for (int i = 0; i < scan->component_count && i < 2; i++)
        if (scan->dc[i] >= frame->huffman_count || scan->ac[i] >= frame->huffman_count ||
            !is_table(&frame->huffman[scan->dc[i]], true) ||
            !is_table(&frame->huffman[scan->ac[i]], false))
            return false;
    return true;
}

static bool has_sampling(const struct jpeg_frame *frame)
{
    const struct jpeg_component *c = frame->components;
    if (frame->component_count == 1)
        return true;
    return c[0].h >= 1 && c[0].h <= 2 && c[0].v >= 1 && c[0].v <= 2 && c[1].h == 1 &&
           c[1].v == 1 && c[2].h == 1 && c[2].v == 1;
}

static bool takes_sequential(const struct jpeg_frame *frame, size_t file_bytes)
{
    const struct jpeg_scan *scan = &frame->scans[0];
    /* With other values libjpeg warns (JWRN_NOT_SEQUENTIAL), and decodes the file all the same. */
    bool is_whole = scan->first == 0 && scan->last == 63 && scan->high == 0 && scan->low == 0;
    return frame->scan_count == 1 && scan->component_count == frame->component_count && is_whole &&
           has_tables(frame) && file_bytes <= JPEG_DECODE_FILE_BYTES_MAX && scan->at < file_bytes;
}

static bool takes(const struct jpeg_frame *frame, size_t file_bytes, uint32_t eighths)
{
    return (frame->component_count == 1 || frame->component_count == 3) && has_sampling(frame) &&
           frame->width > 0 && frame->height > 0 && frame->width <= SIDE_CEILING &&
           frame->height <= SIDE_CEILING &&
           (eighths == 0 || eighths == 8 || eighths == 4 || eighths == 2 || eighths == 1) &&
           (frame->progressive || takes_sequential(frame, file_bytes));
}

/* ---- geometry ---- */

/* The side of the blocks of samples of Cb and Cr, chosen as in libjpeg's jdmaster.c: at a reduced
 * scale, Cb and Cr get a larger inverse DCT than Y if that makes upsampling unnecessary. */
static uint32_t chroma_side(const struct jpeg_component *luma, uint32_t eighths)
{
    uint32_t side = eighths;
    while (side < 8 && luma->h * eighths % (side * 2) == 0 && luma->v * eighths % (side * 2) == 0)
        side *= 2;
    return side;
}

static void set_geometry(struct decode_descriptor *to, const struct jpeg_frame *frame,
                         enum decode_as as, uint32_t eighths)
{
    const struct jpeg_component *luma = &frame->components[0];
    bool gray = frame->component_count == 1;
    uint32_t interval = frame->progressive ? 0 : frame->scans[0].restart_interval;
    to->h = gray ? 1 : luma->h;
    to->v = gray ? 1 : luma->v;
    to->luma = (uint8_t)(to->h * to->v);
    to->blocks = (uint8_t)(to->luma + (gray ? 0 : 2));
    to->components = gray || as == DECODE_LUMA ? 1 : 3;
    to->rgb = as != DECODE_YCC;
    to->side[0] = (uint8_t)eighths;
    to->side[1] = to->side[2] = (uint8_t)(gray ? 0 : chroma_side(luma, eighths));
    to->width_mcus = divide_up(frame->width, 8u * to->h);
    to->mcus = to->width_mcus * divide_up(frame->height, 8u * to->v);
    to->tile_mcus = DECODE_TILE_BLOCKS / (to->components == 3 ? to->blocks : to->luma);
    to->segment_mcus = interval > 0 && interval < to->mcus ? interval : to->mcus;
    to->segments = divide_up(to->mcus, to->segment_mcus);
    to->image.width = image_scaled(frame->width, eighths);
    to->image.height = image_scaled(frame->height, eighths);
    to->fused = to->components == 3 && to->luma == 1 && eighths == 8 && !frame->progressive;
}

/* Sets the sizes of the planes, and how Cb and Cr are upsampled (as in jdsample.c). Returns the
 * bytes of work memory for the planes: 0 if the image itself is written without them. */
static size_t set_planes(struct decode_descriptor *to, const struct jpeg_frame *frame)
{
    size_t bytes = 0;
    for (int i = 0; i < to->components; i++) {
        struct decode_plane *plane = &to->planes[i];
        uint32_t h = i == 0 ? to->h : 1, v = i == 0 ? to->v : 1, side = to->side[i];
        plane->width = divide_up((uint64_t)frame->width * h * side, 8u * to->h);
        plane->height = divide_up((uint64_t)frame->height * v * side, 8u * to->v);
        plane->store_width = to->components == 1 ? plane->width : to->width_mcus * h * side;
        plane->store_height =
            to->components == 1 ? plane->height : to->mcus / to->width_mcus * v * side;
        plane->pitch = (uint32_t)image_stride(plane->store_width, 1);
        bytes += buffer_align((size_t)plane->pitch * plane->store_height);
    }
    if (to->components == 1 || to->fused)
        return 0;
    bool scaled = to->side[1] != to->side[0];
    to->up_h = to->h == 2 && !scaled;
    to->up_v = to->v == 2 && !scaled;
    bool fancy = to->side[0] > 1 && (!to->up_h || to->planes[1].width > 2);
    to->upsampling = !to->up_h && !to->up_v ? UPSAMPLE_NONE
                     : fancy                ? UPSAMPLE_FANCY
                                            : UPSAMPLE_REPEAT;
    to->run_rows = fancy && to->up_h && to->up_v ? 2 : 1;
    return bytes;
}

/* Sets which runs of pixels and which MCUs are needed for a part of the image, and the bands. Its
 * pixels also depend on the samples of Cb and Cr of the pixels next to it. */
static void set_needed(struct decode_descriptor *to, struct image_part part)
{
    uint32_t mcu_width = to->h * to->side[0], mcu_height = to->v * to->side[0];
    if (part.width == 0)
        part = (struct image_part){0, 0, to->image.width, to->image.height};
    uint32_t right = part.x + part.width, bottom = part.y + part.height;
    assert(right <= to->image.width && bottom <= to->image.height && part.height > 0);
    if (to->run_rows > 0) {
        to->run_x = part.x / DECODE_COLOUR_PIXELS * DECODE_COLOUR_PIXELS;
        to->run_y = part.y / to->run_rows * to->run_rows;
        to->runs_across = divide_up(right - to->run_x, DECODE_COLOUR_PIXELS);
        to->end_y = bottom;
        uint64_t rows = divide_up(bottom - to->run_y, to->run_rows);
        to->bands = divide_up(rows * to->runs_across, DECODE_COLOUR_THREADS);
    }
    right += right < to->image.width;
    bottom += bottom < to->image.height;
    struct image_part *mcus = &to->needed_mcus;
    mcus->x = (part.x - (part.x > 0)) / mcu_width;
    mcus->y = (part.y - (part.y > 0)) / mcu_height;
    mcus->width = divide_up(right, mcu_width) - mcus->x;
    mcus->height = divide_up(bottom, mcu_height) - mcus->y;
    to->end_mcu = (mcus->y + mcus->height - 1) * to->width_mcus + mcus->x + mcus->width;
    /* A tile has eight warps. If fewer than an eighth of its blocks are left out, all have one. */
    to->gathers = (uint64_t)mcus->width * mcus->height * 8 <= (uint64_t)to->end_mcu * 7;
}

/* ---- work memory ---- */

/* Returns the next `bytes` of the work memory; NULL if work is NULL, to compute only *used. */
static void *take(uint8_t *work, size_t *used, size_t bytes)
{
    void *at = work ? work + *used : NULL;
    *used += buffer_align(bytes);
    return at;
}

static const struct shape *choose_shape(const struct decode_descriptor *image)
{
    if (image->luma == 1 || image->blocks == image->luma)
        return &shapes[SHORT];
    bool is_small =
        image->bytes < LONGEST_FILE_BYTES || image->bytes / image->segments < LONGEST_SEGMENT_BYTES;
    return &shapes[is_small ? LONG : LONGEST];
}

/* Lays out the work memory that only sequential files need. */
static void lay_out_data(struct decode_descriptor *to, uint8_t *work, size_t *used)
{
    size_t word = sizeof(uint32_t);
    to->chunks = divide_up(to->bytes, DECODE_CHUNK_BYTES);
    to->tiles = divide_up(to->mcus, to->tile_mcus);
    const struct shape *shape = choose_shape(to);
    to->sub_words = shape->words;
    to->pieces_at = shape->pieces_at;
    /* The last subsequence of each segment may be shorter than the others. */
    to->subs_max = divide_up((uint64_t)to->bytes * 8, to->sub_words * 32) + to->segments;
    size_t spans = to->subs_max / DECODE_SPAN_SUBS_MIN + 1;
    bool segments = to->segments > 1;
    to->tables = take(work, used, DECODE_SET_WORDS * word);
    to->chunk_counts = take(work, used, 2 * word * to->chunks);
    to->words = take(work, used, (size_t)to->bytes + WORDS_MARGIN_BYTES);
    to->segment_at = take(work, used, word * (to->segments + 1));
    to->segment_subs = take(work, used, segments ? word * (to->segments + 1) : 0);
    to->sub_places = take(work, used, segments ? 2 * word * to->subs_max : 0);
    to->sub_states = take(work, used, word * to->subs_max);
    to->sub_blocks = take(work, used, word * to->subs_max);
    to->records = take(work, used, (word << to->pieces_at) * to->subs_max);
    to->span_entries = take(work, used, word * spans);
    to->span_counts = take(work, used, 2 * word * spans);
    to->span_blocks = take(work, used, word * spans);
    to->tile_pieces = take(work, used, word * (to->tiles + 1));
    to->tile_sums = take(work, used, sizeof(uint64_t) * to->tiles);
}

/* Lays out the work memory of an image, and sets the members that depend only on the frame. Returns
 * the size of the work memory. work: NULL to compute only the size. */
static size_t lay_out(struct decode_descriptor *to, const struct jpeg_frame *frame,
                      size_t file_bytes, enum decode_as as, uint32_t eighths, uint8_t *work)
{
    size_t used = 0;
    memset(to, 0, sizeof *to);
    set_geometry(to, frame, as, eighths ? eighths : DECODE_EIGHTHS);
    to->run = take(work, &used, sizeof *to->run);
    if (!frame->progressive) {
        to->skip = frame->scans[0].at % DATA_ALIGN;
        to->bytes = (uint32_t)file_bytes - (frame->scans[0].at - to->skip);
        lay_out_data(to, work, &used);
    }
    uint8_t *samples = take(work, &used, set_planes(to, frame));
    for (int i = 0; i < to->components && work; i++) {
        to->planes[i].samples = samples;
        samples += buffer_align((size_t)to->planes[i].pitch * to->planes[i].store_height);
    }
    for (int i = 0; i < to->components && work; i++)
        for (int k = 0; k < 64; k++)
            to->quant[i][k] = frame->components[i].quant[natural_of_zigzag[k]];
    return used;
}

size_t jpeg_decode_work_bytes(const struct jpeg_frame *frame, size_t file_bytes, enum decode_as as,
                              uint32_t eighths)
{
    struct decode_descriptor unused;
    if (!takes(frame, file_bytes, eighths))
        return 0;
    return lay_out(&unused, frame, file_bytes, as, eighths, NULL);
}

/* ---- descriptors ---- */

/* The arrays in the descriptors of a batch. */
struct parts {
    struct decode_descriptor *images;
    struct decode_table_set *sets;
    uint32_t *starts[DECODE_KINDS]; /* decode_args.starts */
};

/* Sets the addresses of the arrays in `descriptors`. Returns the size of the descriptors. */
static size_t parts_of(void *descriptors, size_t count, struct parts *parts)
{
    uint8_t *base = descriptors;
    size_t used = buffer_align(sizeof *parts->images * count);
    parts->images = descriptors;
    parts->sets = (struct decode_table_set *)(base + used);
    used += buffer_align(sizeof *parts->sets * count);
    for (int kind = 0; kind < DECODE_KINDS; kind++) {
        parts->starts[kind] = (uint32_t *)(base + used);
        used += buffer_align(sizeof(uint32_t) * (count + 1));
    }
    return used;
}

/* The Huffman table of the frame that is table `index` of a set. */
static const struct jpeg_huffman *table_of(const struct jpeg_frame *frame, uint32_t index)
{
    const struct jpeg_scan *scan = &frame->scans[0];
    return &frame->huffman[index % 2 == 0 ? scan->dc[index / 2] : scan->ac[index / 2]];
}

static bool has_set(const struct jpeg_frame *frame, uint32_t count,
                    const struct decode_table_set *set)
{
    bool same = set->count >= count;
    for (uint32_t i = 0; i < count && same; i++)
        same = memcmp(&set->huffman[i], table_of(frame, i), sizeof set->huffman[i]) == 0;
    return same;
}

/* The distinct sets of tables of a batch. */
struct table_sets {
    struct decode_table_set *sets;
    uint32_t count;
    const struct decode_table_set *standard; /* the one of jpeg_standard_tables; or NULL */
};

/* NULL: the batch has no set with the image's tables. Standard tables are not read, because they
 * come from the memory of another thread: that takes longer than all else here. */
static const struct decode_table_set *find_set(const struct table_sets *known,
                                               const struct jpeg_frame *frame, uint32_t count)
{
    uint32_t compared = known->count < SETS_COMPARED ? known->count : SETS_COMPARED;
    if (frame->has_standard_tables)
        return known->standard && known->standard->count >= count ? known->standard : NULL;
    for (uint32_t i = 1; i <= compared; i++)
        if (has_set(frame, count, &known->sets[known->count - i]))
            return &known->sets[known->count - i];
    return NULL;
}

/* Makes the image use a set of tables that the batch has already, or adds its own set, which is
 * built in the image's work memory. */
static void choose_tables(struct decode_descriptor *to, const struct jpeg_frame *frame,
                          struct table_sets *known)
{
    uint32_t count = frame->component_count == 1 ? 2 : DECODE_TABLES;
    const struct decode_table_set *found = find_set(known, frame, count);
    if (found) {
        to->tables = found->to;
        return;
    }
    struct decode_table_set *set = &known->sets[known->count++];
    memset(set, 0, sizeof *set);
    set->count = count;
    for (uint32_t i = 0; i < count; i++)
        set->huffman[i] =
            frame->has_standard_tables ? jpeg_standard_tables[i] : *table_of(frame, i);
    set->to = (uint32_t *)to->tables;
    if (frame->has_standard_tables)
        known->standard = set;
}

static void set_coefficients(struct decode_descriptor *to, const struct jpeg_decode_image *image)
{
    uint32_t groups = 0;
    to->input_verdict = image->coefficients_verdict;
    for (int i = 0; i < to->components; i++) {
        const struct jpeg_plane *from = &image->coefficients[i];
        struct decode_plane *plane = &to->planes[i];
        to->coefficients[i] = from->values;
        to->across[i] = from->across;
        to->component_blocks[i] = from->across * from->down;
        groups += divide_up(to->component_blocks[i], JPEG_GROUP_BLOCKS);
        if (plane->store_width > from->across * to->side[i])
            plane->store_width = from->across * to->side[i];
        if (plane->store_height > from->down * to->side[i])
            plane->store_height = from->down * to->side[i];
    }
    to->group_sets = divide_up(groups, DECODE_TILE_BLOCKS / JPEG_GROUP_BLOCKS);
}

static void describe_image(struct decode_descriptor *to, const struct jpeg_decode_image *image)
{
    const struct jpeg_frame *frame = image->frame;
    if (image->prepared) {
        memcpy(to, image->prepared, sizeof *to);
        return;
    }
    assert(frame->progressive == (image->coefficients != NULL));
    lay_out(to, frame, image->file_bytes, image->as, image->eighths, image->work);
    assert(image->image.width == to->image.width && image->image.height == to->image.height);
    assert(image->image.channels == to->components);
    set_needed(to, image->needed);
    to->verdict = image->verdict;
    to->image = image->image;
    if (to->components == 1) {
        to->planes[0].samples = image->image.pixels;
        to->planes[0].pitch = (uint32_t)image->image.stride;
    }
    if (image->coefficients) {
        set_coefficients(to, image);
        return;
    }
    to->data = image->file + frame->scans[0].at - to->skip;
}

static_assert(sizeof(struct decode_descriptor) <= JPEG_DECODE_PREPARED_BYTES, "the room for one");

void jpeg_decode_prepare(const struct jpeg_decode_image *image, void *prepared)
{
    struct jpeg_decode_image whole = *image;
    assert(!image->coefficients);
    whole.prepared = NULL;
    describe_image(prepared, &whole);
}

/* Divides the images among blocks of threads. */
static void count_blocks(const struct parts *parts, struct jpeg_decode_batch *batch)
{
    uint32_t totals[DECODE_KINDS] = {0};
    const struct shape *shape = shapes;
    while (shape->words < batch->sub_words)
        shape++;
    batch->span_threads = shape->threads;
    batch->halo = shape->halo;
    for (uint32_t i = 0; i < batch->image_count; i++) {
        struct decode_descriptor *image = &parts->images[i];
        image->spans = divide_up(image->subs_max, batch->span_threads - batch->halo);
        uint32_t tiles = image->tiles > 0 ? divide_up(image->end_mcu, image->tile_mcus) : 0;
        const uint32_t blocks[DECODE_KINDS] = {image->chunks, image->spans, tiles,
                                               image->group_sets, image->bands};
        for (int kind = 0; kind < DECODE_KINDS; kind++) {
            parts->starts[kind][i] = totals[kind];
            totals[kind] += blocks[kind];
            parts->starts[kind][i + 1] = totals[kind];
        }
    }
    batch->chunks = totals[DECODE_CHUNKS];
    batch->spans = totals[DECODE_SPANS];
    batch->tiles = totals[DECODE_TILES];
    batch->group_sets = totals[DECODE_GROUP_SETS];
    batch->bands = totals[DECODE_BANDS];
}

size_t jpeg_decode_describe(const struct jpeg_decode_image *images, size_t count, void *descriptors,
                            size_t bytes, struct jpeg_decode_batch *batch)
{
    static uint8_t nothing[1];
    struct parts parts;
    size_t needed = parts_of(descriptors ? descriptors : nothing, count, &parts);
    if (needed > bytes)
        return needed;
    memset(batch, 0, sizeof *batch);
    batch->image_count = (uint32_t)count;
    struct table_sets known = {parts.sets, 0, NULL};
    for (size_t i = 0; i < count; i++) {
        struct decode_descriptor *image = &parts.images[i];
        describe_image(image, &images[i]);
        if (!images[i].coefficients)
            choose_tables(image, images[i].frame, &known);
        batch->has_restarts |= image->segments > 1;
        if (image->sub_words > batch->sub_words)
            batch->sub_words = image->sub_words;
    }
    batch->table_set_count = known.count;
    count_blocks(&parts, batch);
    return needed;
}

struct decode_args decode_args_of(const struct jpeg_decode_batch *batch, const void *descriptors)
{
    struct parts parts;
    struct decode_args args;
    parts_of((void *)(uintptr_t)descriptors, batch->image_count, &parts);
    args.images = parts.images;
    args.sets = parts.sets;
    for (int kind = 0; kind < DECODE_KINDS; kind++)
        args.starts[kind] = parts.starts[kind];
    args.image_count = batch->image_count;
    args.set_count = batch->table_set_count;
    args.span_threads = batch->span_threads;
    args.halo = batch->halo;
    return args;
}
