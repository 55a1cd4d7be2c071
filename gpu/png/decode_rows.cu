/*
 * decode_rows.cu - checks the Adler-32 of the filtered rows, undoes their filters, and writes the
 * verdict: the last stage of the PNG decoder (decode_impl.h).
 *
 * A pixel may depend on its left neighbour and on the pixels above both. A warp decodes a band of
 * 32 rows, one per lane, in groups of 4 pixels. Each lane starts one group later than the lane of
 * the row above, so it finds what it needs. The warps of a block decode consecutive bands. Each
 * warp starts BAND_TICKS later than the warp of the band above.
 */
#include "gpu/png/decode_impl.h"
#include "gpu/simt/simt.h"

#define ADLER_THREADS  256
#define ADLER_BASE     65521u
#define GROUP_PIXELS   4
#define ROWS_WARPS_MAX 8
/* Groups of its first row that a warp decodes between two barriers of the block. */
#define TICK_GROUPS 8
/* A band starts this many ticks later than the band above. Its first row needs the groups of the
 * last row of that band, and that row starts 31 groups later than the band. */
#define BAND_TICKS ((WARP_LANES - 1 + TICK_GROUPS) / TICK_GROUPS + 1)
#define FILTERS    5

/* ---- Adler-32 ---- */

/* Adds up PNG_ADLER_BYTES bytes at a time. Of the two sums, the second counts each byte as often as
 * bytes are left from it on. */
KERNEL(add_bytes, ADLER_THREADS, 4, struct png_args)
{
    enum { unit = 16 };
    const struct png_descriptor *image = &args.images[block_row()];
    uint32_t bytes = image->stream_bytes;
    uint32_t first = (uint32_t)block_index() * PNG_ADLER_BYTES;
    if (image->run->verdict != PNG_DECODE_DONE || first >= bytes)
        return;
    uint32_t sum = 0, weighted = 0;
    for (; first < bytes; first += args.adler_step) {
        uint32_t end = bytes - first < PNG_ADLER_BYTES ? bytes : first + PNG_ADLER_BYTES;
        for (uint32_t at = first + unit * (uint32_t)thread_index(); at < end;
             at += unit * ADLER_THREADS) {
            words4 four = load_words4(image->stream + at);
            const uint32_t words[4] = {four.x, four.y, four.z, four.w};
            uint32_t of_unit = 0, within = 0;
            UNROLL
            for (uint32_t i = 0; i < unit; i++) {
                uint32_t byte = at + i < end ? words[i / 4] >> i % 4 * 8 & 255 : 0;
                of_unit += byte;
                within += byte * (unit - i);
            }
            /* A byte counts bytes - at - i times, here unit - i times plus the rest. */
            uint32_t rest = (bytes - at) % ADLER_BASE + ADLER_BASE - unit;
            sum += of_unit;
            weighted =
                (weighted + within + of_unit * (rest % ADLER_BASE) % ADLER_BASE) % ADLER_BASE;
        }
    }
    sum %= ADLER_BASE;
    UNROLL
    for (int by = WARP_LANES / 2; by > 0; by /= 2) {
        sum += warp_read_xor(sum, by);
        weighted += warp_read_xor(weighted, by);
    }
    if (lane_index() == 0) {
        atomic_add(&image->run->sums[0], sum % ADLER_BASE);
        atomic_add(&image->run->sums[1], weighted % ADLER_BASE);
    }
}

/* ---- filters ---- */

DEVICE int absolute(int x)
{
    return x < 0 ? -x : x;
}

DEVICE uint32_t paeth(int left, int above, int corner)
{
    int from_left = above - corner, from_above = left - corner;
    int to_left = absolute(from_left), to_above = absolute(from_above);
    int to_corner = absolute(from_left + from_above);
    return (uint32_t)(to_left <= to_above && to_left <= to_corner ? left
                      : to_above <= to_corner                     ? above
                                                                  : corner);
}

DEVICE uint32_t predict(uint32_t filter, uint32_t left, uint32_t above, uint32_t corner)
{
    enum { none, sub, up, average };
    uint32_t nearest = paeth((int)left, (int)above, (int)corner);
    return filter == none      ? 0
           : filter == sub     ? left
           : filter == up      ? above
           : filter == average ? (left + above) / 2
                               : nearest;
}

/* A row that a lane decodes. */
struct row {
    const uint8_t *from;  /* the filtered bytes: aligned to 4, and `shift` bits before them */
    const uint8_t *above; /* only of a band's first row: the row above, NULL if there is none */
    uint8_t *to;
    uint32_t shift, filter;
    uint32_t words;        /* of the row; 0: the image has no such row */
    uint32_t left, corner; /* the last pixel of the group before, and the one above it */
    uint32_t own[4];       /* the last group */
};

SIMT void open_row(const struct png_descriptor *image, uint32_t y, struct row *row)
{
    memset(row, 0, sizeof *row);
    row->from = image->stream;
    if (y >= image->image.height)
        return;
    const uint8_t *from = image->stream + (size_t)y * (image->row_bytes + 1);
    row->filter = *from++;
    row->shift = (uint32_t)((uintptr_t)from & 3) * 8;
    row->from = from - row->shift / 8;
    row->to = image->image.pixels + (size_t)y * image->image.stride;
    if (lane_index() == 0 && y > 0)
        row->above = row->to - image->image.stride;
    row->words = (image->row_bytes + 3) / 4;
}

/* Decodes a group of a lane's row. All lanes of the warp call it together; group: out of the row
 * for lanes that have nothing to do. channels: a constant, so that loops are unrolled. */
SIMT void decode_group(struct row *row, int32_t group, int channels)
{
    bool works = group >= 0 && (uint32_t)(group * channels) < row->words;
    const uint32_t *from = (const uint32_t *)row->from + group * channels;
    uint32_t up[4], filtered[4];
    UNROLL
    for (int i = 0; i < channels; i++) {
        up[i] = warp_read_up(row->own[i], 1);
        if (lane_index() == 0)
            up[i] = works && row->above != NULL && (uint32_t)(group * channels + i) < row->words
                        ? ((const uint32_t *)row->above)[group * channels + i]
                        : 0;
        filtered[i] = works ? funnel_right(from[i], row->shift ? from[i + 1] : 0, row->shift) : 0;
    }
    if (!works)
        return;
    UNROLL
    for (int i = 0; i < channels; i++)
        row->own[i] = 0;
    UNROLL
    for (int i = 0; i < GROUP_PIXELS * channels; i++) {
        int before = i - channels, channel = 8 * (i % channels);
        uint32_t left =
            before < 0 ? row->left >> channel : row->own[before / 4] >> 8 * (before % 4);
        uint32_t corner = before < 0 ? row->corner >> channel : up[before / 4] >> 8 * (before % 4);
        uint32_t above = up[i / 4] >> 8 * (i % 4), byte = filtered[i / 4] >> 8 * (i % 4);
        byte += predict(row->filter, left & 255, above & 255, corner & 255);
        row->own[i / 4] |= (byte & 255) << 8 * (i % 4);
    }
    int last = channels == 1 ? 24 : channels == 3 ? 8 : 0;
    row->left = row->own[channels - 1] >> last;
    row->corner = up[channels - 1] >> last;
    UNROLL
    for (int i = 0; i < channels; i++)
        if ((uint32_t)(group * channels + i) < row->words)
            ((uint32_t *)row->to)[group * channels + i] = row->own[i];
}

/* Undoes the filters of all rows. Returns, for the thread, whether they were known. */
SIMT bool decode_rows(const struct png_descriptor *image, int channels)
{
    int32_t lane = lane_index(), warp = thread_index() / WARP_LANES;
    int32_t warps = block_threads() / WARP_LANES;
    int32_t bands = (int32_t)((image->image.height + WARP_LANES - 1) / WARP_LANES);
    int32_t groups = (int32_t)((image->image.width + GROUP_PIXELS - 1) / GROUP_PIXELS);
    int32_t band_ticks = (groups + WARP_LANES - 1 + TICK_GROUPS - 1) / TICK_GROUPS;
    /* Ticks from a band of a warp to its next one. */
    int32_t turn = band_ticks > warps * BAND_TICKS ? band_ticks : warps * BAND_TICKS;
    int32_t last_turn = (bands - 1) / warps;
    int32_t ticks = last_turn * turn + (bands - 1) % warps * BAND_TICKS + band_ticks;
    /* The last tick of another warp may be later, if the last turn has few bands. */
    if (last_turn > 0 && (last_turn - 1) * turn + (warps - 1) * BAND_TICKS + band_ticks > ticks)
        ticks = (last_turn - 1) * turn + (warps - 1) * BAND_TICKS + band_ticks;
    bool is_good = true;
    struct row row;
    memset(&row, 0, sizeof row);
    for (int32_t tick = 0; tick < ticks; tick++) {
        int32_t since = tick - warp * BAND_TICKS, band = since / turn * warps + warp;
        int32_t within = since % turn;
        if (since >= 0 && band < bands && within < band_ticks) {
            if (within == 0) {
                open_row(image, (uint32_t)(band * WARP_LANES + lane), &row);
                is_good &= row.filter < FILTERS;
            }
            NO_UNROLL
            for (int32_t i = 0; i < TICK_GROUPS; i++)
                decode_group(&row, within * TICK_GROUPS + i - lane, channels);
        }
        block_barrier();
    }
    return is_good;
}

/* ---- the verdict ---- */

/* Whether the thread's share of the chunks has the right CRCs. */
SIMT bool check_chunks(const struct png_descriptor *image, uint32_t count)
{
    bool is_good = true;
    for (uint32_t i = (uint32_t)thread_index(); i < count; i += (uint32_t)block_threads()) {
        struct png_chunk chunk = image->chunks[i];
        const uint8_t *stored = image->file + chunk.at + 8 + chunk.bytes;
        is_good &= ~chunk.crc == ((uint32_t)stored[0] << 24 | (uint32_t)stored[1] << 16 |
                                  (uint32_t)stored[2] << 8 | stored[3]);
    }
    return is_good;
}

SIMT bool check_adler(const struct png_descriptor *image, const struct png_run *run)
{
    uint32_t a = (run->sums[0] + 1) % ADLER_BASE;
    uint32_t b = (run->sums[1] % ADLER_BASE + image->stream_bytes % ADLER_BASE) % ADLER_BASE;
    return run->adler == (b << 16 | a);
}

SIMT enum png_decode_verdict finish(const struct png_descriptor *image, const struct png_run *run)
{
    bool is_good = check_chunks(image, run->chunk_count) && check_adler(image, run);
    if (block_any(!is_good))
        return PNG_DECODE_CHECKSUM;
    uint32_t channels = image->image.channels;
    bool is_known = channels == 1   ? decode_rows(image, 1)
                    : channels == 3 ? decode_rows(image, 3)
                                    : decode_rows(image, 4);
    return block_any(!is_known) ? PNG_DECODE_FILTER : PNG_DECODE_DONE;
}

/* A block per image. */
LONG_KERNEL(unfilter, WARP_LANES *ROWS_WARPS_MAX, 2, struct png_args)
{
    const struct png_descriptor *image = &args.images[block_index()];
    const struct png_run run = *image->run;
    enum png_decode_verdict verdict = (enum png_decode_verdict)run.verdict;
    if (verdict == PNG_DECODE_DONE)
        verdict = finish(image, &run);
    block_barrier();
    if (thread_index() == 0)
        publish_word(image->verdict, (uint32_t)verdict);
}

int png_decode_rows(const struct png_decode_batch *batch, const void *descriptors,
                    struct CUstream_st *stream)
{
    struct png_args args = png_args_of(batch, descriptors);
    uint32_t warps = (batch->rows_max + WARP_LANES - 1) / WARP_LANES;
    warps = warps < ROWS_WARPS_MAX ? warps : ROWS_WARPS_MAX;
    int status = (int)LAUNCH(add_bytes, ADLER_THREADS,
                             dim3(batch->adler_blocks, batch->image_count), 0, stream, args);
    if (status == 0)
        status = (int)LAUNCH(unfilter, WARP_LANES * warps, batch->image_count, 0, stream, args);
    return status;
}
