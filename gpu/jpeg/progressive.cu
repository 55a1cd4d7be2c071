/*
 * progressive.cu - the kernels before and after the decoding of progressive scans, and the launches
 * of all four kernels:
 *
 *     clear_images     sets coefficients, masks and progress to 0
 *     extract_scans    copies each scan out of the file, without stuffed bytes and restart markers
 *     decode_scans     decodes the scans (progressive_scans.cu); takes nearly all of the time
 *     complete_blocks  adds the correction bits of refinement scans to the coefficients
 */
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/progressive_impl.h"
#include "gpu/simt/simt.h"

/* ---- clearing ---- */

#define CLEAR_THREADS 256
#define CLEAR_BLOCKS_MAX 64 /* blocks of threads per image */
/* Bytes per block of threads; in large images, CLEAR_BLOCKS_MAX blocks share all bytes. */
#define CLEAR_BLOCK_BYTES (1 << 16)

KERNEL(clear_images, CLEAR_THREADS, 4, struct progressive_args)
{
    const struct progressive_image *image = args.images + block_row();
    words4 zero;
    memset(&zero, 0, sizeof zero);
    uint64_t count = image->cleared_bytes / sizeof(words4);
    words4 *to = (words4 *)image->cleared;
    uint64_t first = (uint64_t)block_index() * CLEAR_THREADS + (uint64_t)thread_index();
    for (uint64_t i = first; i < count; i += args.clear_blocks * CLEAR_THREADS)
        to[i] = zero;
    if (first == 0 && block_row() == 0)
        args.header->ticket = 0;
}

/* ---- extracting ---- */

#define EXTRACT_THREADS 256
#define THREAD_BYTES 16

/* The 16 bytes of a scan that a thread extracts. */
struct piece {
    uint8_t bytes[THREAD_BYTES + 2]; /* with the bytes before and after; 0 outside of the scan */
    uint32_t kept, markers;          /* masks, bit i for byte i: data; second bytes of markers */
    bool wrong;                      /* there is something that libjpeg-turbo would warn about */
};

/* Loads the 16 bytes at `at`, a multiple of 16. The scan extends from `begin` to `end`. */
SIMT void load_piece(const uint8_t *at, const uint8_t *begin, const uint8_t *end,
                     struct piece *piece)
{
    uint32_t words[THREAD_BYTES / 4] = {0, 0, 0, 0};
    if (at < end) {
        words4 loaded = load_words4(at);
        words[0] = loaded.x;
        words[1] = loaded.y;
        words[2] = loaded.z;
        words[3] = loaded.w;
    }
    UNROLL
    for (int i = 0; i < THREAD_BYTES; i++)
        piece->bytes[i + 1] =
            at + i >= begin && at + i < end ? (uint8_t)(words[i / 4] >> 8 * (i % 4)) : 0;
    piece->bytes[0] = at > begin && at - 1 < end ? at[-1] : 0;
    piece->bytes[THREAD_BYTES + 1] = at + THREAD_BYTES < end ? at[THREAD_BYTES] : 0;
}

/* Classifies the bytes. 0xFF is data if 0x00 follows, which is dropped. Both bytes of a restart
 * marker are dropped. Anything else after 0xFF is wrong here; libjpeg-turbo also accepts fill
 * bytes, but they are rare, and the host can decode the file. */
SIMT void classify_piece(const uint8_t *at, const uint8_t *begin, const uint8_t *end,
                         struct piece *piece)
{
    piece->kept = piece->markers = 0;
    piece->wrong = false;
    UNROLL
    for (int i = 0; i < THREAD_BYTES; i++) {
        uint32_t before = piece->bytes[i], byte = piece->bytes[i + 1], after = piece->bytes[i + 2];
        if (at + i < begin || at + i >= end)
            continue;
        bool last = at + i + 1 == end;
        if (byte == 0xFF) {
            bool restart = (after & 0xF8) == 0xD0;
            piece->wrong |= last || (after != 0 && !restart);
            if (after == 0)
                piece->kept |= 1u << i;
        } else if (before != 0xFF) {
            piece->kept |= 1u << i;
        } else if (byte != 0) {
            piece->markers |= 1u << i;
        }
    }
}

/* Writes the bytes that are kept to the scan's words, from byte `to` on, and the starts of
 * segments. markers: number of restart markers before the piece. false: a marker has a wrong
 * number. */
SIMT bool store_piece(const struct progressive_scan *scan, const struct piece *piece, uint32_t to,
                      uint32_t markers)
{
    uint8_t *bytes = (uint8_t *)scan->words;
    bool right = true;
    UNROLL
    for (int i = 0; i < THREAD_BYTES; i++) {
        if (piece->kept >> i & 1) {
            bytes[to ^ 3] = piece->bytes[i + 1]; /* the first byte is the most significant */
            to++;
        } else if (piece->markers >> i & 1) {
            right &= (piece->bytes[i + 1] & 7u) == (markers & 7);
            markers++;
            if (markers < scan->segment_count)
                scan->segments[markers] = to;
        }
    }
    return right;
}

/* One block of threads per scan. */
KERNEL(extract_scans, EXTRACT_THREADS, 2, struct progressive_args)
{
    SHARED uint32_t sums[WARP_LANES];
    const struct progressive_scan *scan = args.scans + block_index();
    const uint8_t *begin = scan->bytes, *end = begin + scan->byte_count;
    const uint8_t *from = begin - (uintptr_t)begin % THREAD_BYTES;
    uint32_t kept = 0, markers = 0, total;
    bool wrong = false;
    for (; from < end; from += EXTRACT_THREADS * THREAD_BYTES) {
        struct piece piece;
        const uint8_t *at = from + thread_index() * THREAD_BYTES;
        load_piece(at, begin, end, &piece);
        classify_piece(at, begin, end, &piece);
        uint32_t counts = (uint32_t)count_bits(piece.markers) << 16 |
                          (uint32_t)count_bits(piece.kept);
        uint32_t before = block_scan(counts, &total, sums);
        wrong |= piece.wrong;
        wrong |= !store_piece(scan, &piece, kept + (before & 0xFFFF), markers + (before >> 16));
        kept += total & 0xFFFF;
        markers += total >> 16;
    }
    /* Zeros to the end of the last word, and in the padding after it. */
    uint8_t *bytes = (uint8_t *)scan->words;
    for (uint32_t i = kept + (uint32_t)thread_index(); i < scan->word_count * 4;
         i += EXTRACT_THREADS)
        bytes[i ^ 3] = 0;
    wrong = block_any(wrong || markers + 1 != scan->segment_count);
    if (thread_index() == 0) {
        scan->segments[0] = 0;
        scan->segments[scan->segment_count] = kept;
        if (wrong)
            atomic_max(args.images[scan->image].verdict, JPEG_SCANS_MARKER);
    }
}

/* ---- completing ---- */

#define COMPLETE_THREADS 128

/* Adds the correction bits of a refinement scan to a block. A coefficient has a correction bit if
 * it was nonzero before the scan. These coefficients are known by their magnitude: at least 2^(low
 * + 1), whereas the scan itself makes coefficients of 2^low. */
SIMT void correct_block(const struct progressive_scan *scan, int16_t *values, uint32_t block)
{
    uint64_t corrections = scan->corrections[block];
    int bit = 1 << scan->low;
    for (uint32_t k = scan->last; k >= scan->first; k--) {
        int16_t *at = values + jpeg_coefficient(block, k);
        int value = *at;
        if (value < 2 * bit && value > -2 * bit)
            continue;
        if (corrections & 1)
            *at = (int16_t)(value > 0 ? value + bit : value - bit);
        corrections >>= 1;
    }
}

/* Returns the bit of a block in a DC refinement scan. component: its index in the scan. */
SIMT uint32_t dc_bit(const struct progressive_scan *scan, const struct progressive_image *image,
                     int component, uint32_t block)
{
    const struct progressive_component *of = &image->components[scan->components[component]];
    uint32_t mcu = block, within = 0, blocks = 1;
    if (scan->component_count > 1) {
        uint32_t x = block % of->across, y = block / of->across;
        mcu = y / of->v * scan->mcus_across + x / of->h;
        within = y % of->v * of->h + x % of->h;
        blocks = 0;
        for (int i = 0; i < scan->component_count; i++) {
            const struct progressive_component *other = &image->components[scan->components[i]];
            within += i < component ? (uint32_t)other->h * other->v : 0;
            blocks += (uint32_t)other->h * other->v;
        }
    }
    uint32_t segment = mcu / scan->interval;
    uint32_t bit = scan->segments[segment] * 8 + mcu % scan->interval * blocks + within;
    return scan->words[bit / 32] >> (31 - bit % 32) & 1;
}

/* Grid: across, the blocks of the largest component; down, the images. One thread per block. */
KERNEL(complete_blocks, COMPLETE_THREADS, 4, struct progressive_args)
{
    const struct progressive_image *image = args.images + block_row();
    uint32_t block = (uint32_t)(block_index() * COMPLETE_THREADS + thread_index());
    uint32_t verdict = *image->verdict;
    if (block == 0)
        *image->result = verdict;
    if (verdict != JPEG_SCANS_COMPLETE)
        return;
    for (uint32_t i = 0; i < image->scan_count; i++) {
        const struct progressive_scan *scan = args.scans + image->first_scan + i;
        for (int j = 0; j < scan->component_count; j++) {
            const struct progressive_component *component =
                &image->components[scan->components[j]];
            if (!component->stored || block >= component->blocks)
                continue;
            if (scan->kind == AC_REFINE)
                correct_block(scan, component->values, block);
            if (scan->kind == DC_REFINE && dc_bit(scan, image, j, block))
                component->values[jpeg_coefficient(block, 0)] |= (int16_t)(1 << scan->low);
        }
    }
}

/* ---- launches ---- */

static struct progressive_args args_of(const struct jpeg_progressive_batch *batch,
                                       void *descriptors)
{
    uint8_t *base = (uint8_t *)descriptors;
    struct progressive_args args;
    args.header = (struct progressive_header *)base;
    args.images = (const struct progressive_image *)(base + sizeof(struct progressive_header));
    args.scans = (const struct progressive_scan *)(base + batch->scans_at);
    args.tables = (const struct jpeg_huffman *)(base + batch->tables_at);
    args.image_count = batch->image_count;
    args.scan_count = batch->scan_count;
    uint64_t cleared = (uint64_t)batch->groups_max * JPEG_GROUP * sizeof(int16_t);
    uint64_t clear_blocks = cleared / CLEAR_BLOCK_BYTES + 1;
    args.clear_blocks =
        (uint32_t)(clear_blocks < CLEAR_BLOCKS_MAX ? clear_blocks : CLEAR_BLOCKS_MAX);
    return args;
}

int jpeg_progressive_decode(const struct jpeg_progressive_batch *batch, void *descriptors,
                            struct CUstream_st *stream)
{
    struct progressive_args args = args_of(batch, descriptors);
    int status = LAUNCH(clear_images, CLEAR_THREADS, dim3(args.clear_blocks, batch->image_count),
                        0, stream, args);
    if (status == 0)
        status = LAUNCH(extract_scans, EXTRACT_THREADS, batch->scan_count, 0, stream, args);
    return status ? status : progressive_decode_scans(&args, stream);
}

int jpeg_progressive_complete(const struct jpeg_progressive_batch *batch, void *descriptors,
                              struct CUstream_st *stream)
{
    struct progressive_args args = args_of(batch, descriptors);
    uint32_t per_block = COMPLETE_THREADS / JPEG_GROUP_BLOCKS;
    uint32_t blocks = (batch->groups_max + per_block - 1) / per_block;
    return LAUNCH(complete_blocks, COMPLETE_THREADS, dim3(blocks, batch->image_count), 0, stream,
                  args);
}
