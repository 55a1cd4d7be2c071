/*
 * decode_stream.cu - removes stuffed bytes and restart markers from a file's Huffman-coded data:
 * the first stage of the JPEG decoder (decode_impl.h).
 *
 * Four kernels: begin_batch counts in each chunk the bytes of data and the restart markers, up to
 * the first other marker, which is the end of the data. It also builds the lookup tables of the
 * Huffman codes. scan_chunks adds up these counts over the chunks of an image, and checks the end
 * and the number of restart markers. copy_bytes classifies the bytes again, and writes the data as
 * words. place_segments divides the segments into subsequences.
 *
 * Time is bound by instructions, about 3 per byte of the file; a photograph has 0.2 bytes per
 * pixel.
 */
#include "gpu/jpeg/decode_tables.h"

#define THREADS (DECODE_CHUNK_BYTES / DECODE_THREAD_BYTES)
#define SCAN_THREADS 256
#define THREAD_WORDS (DECODE_THREAD_BYTES / 4)
#define MARKER_EOI 0xD9
#define MARKER_RST0 0xD0

/* The two words of a chunk in chunk_counts. begin_batch writes to the first the number of data
 * bytes (16 bits), the number of restart markers (15), and whether the end marker is in the chunk
 * (bit 31), and to the second the position of the end marker. scan_chunks replaces them by the
 * number of data bytes, and of restart markers, in all chunks before. The first is AFTER_THE_END in
 * chunks after the end marker. */
#define COUNT_MARKERS_AT 16
#define COUNT_END 0x80000000u
#define AFTER_THE_END 0xFFFFFFFFu

/* 0x80 in each byte of x that is zero. */
DEVICE uint32_t zero_bytes(uint32_t x)
{
    return ~(((x & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | x | 0x7F7F7F7Fu);
}

/* Collects the bits 7, 15, 23 and 31 to a number of 4 bits. */
DEVICE uint32_t gather_flags(uint32_t flags) { return (flags >> 7) * 0x01020408u >> 24 & 15; }

/* The 32 bytes of a thread. The bits of the masks stand for bytes, the lowest bit for the first. */
struct thread_bytes {
    uint32_t words[THREAD_WORDS]; /* the bytes, as in memory */
    uint32_t data;                /* mask of the bytes that belong to the data */
    uint32_t restarts;            /* mask of the first bytes of restart markers */
    uint32_t end;                 /* position of the end marker, or DECODE_THREAD_BYTES */
};

/* Loads and classifies the thread's bytes. All threads of the block call it. at: position of the
 * thread's first byte in image->data. */
SIMT void classify(const struct decode_descriptor *image, uint32_t at, struct thread_bytes *to)
{
    uint32_t full = 0, zero = 0, valid = ~0u;
    UNROLL
    for (int i = 0; i < THREAD_WORDS; i += 4) {
        words4 four = {0, 0, 0, 0};
        if (at + 4 * (uint32_t)i < image->bytes)
            four = load_words4(image->data + at + 4 * i);
        to->words[i] = four.x;
        to->words[i + 1] = four.y;
        to->words[i + 2] = four.z;
        to->words[i + 3] = four.w;
    }
    UNROLL
    for (int i = 0; i < THREAD_WORDS; i++) {
        full |= gather_flags(zero_bytes(~to->words[i])) << 4 * i;
        zero |= gather_flags(zero_bytes(to->words[i])) << 4 * i;
    }
    if (at + DECODE_THREAD_BYTES > image->bytes)
        valid = at < image->bytes ? (1u << (image->bytes - at)) - 1 : 0;
    if (at < image->skip)
        valid &= at + DECODE_THREAD_BYTES > image->skip ? ~0u << (image->skip - at) : 0;
    full &= valid;
    /* The neighbours of the first and the last byte. */
    uint32_t before = warp_read_up(full, 1) >> 31, zero_after = warp_read_down(zero, 1) & 1;
    uint32_t full_after = warp_read_down(full, 1) & 1;
    if (lane_index() == 0)
        before = at > image->skip && at <= image->bytes ? image->data[at - 1] == 0xFF : 0;
    if (lane_index() == WARP_LANES - 1) {
        uint32_t next = at + DECODE_THREAD_BYTES;
        uint32_t byte = next < image->bytes ? image->data[next] : 1;
        zero_after = byte == 0;
        full_after = byte == 0xFF;
    }
    /* Of several bytes 0xFF before a marker, only the last one counts; the others are fill bytes.
     * If 0xFF 0xFF 0x00 occurs, libjpeg's fast and slow loops read it differently, and its result
     * depends on which loop runs. Here it is a marker with the code 0, so the image is declined. */
    uint32_t fill = full & (full >> 1 | full_after << 31);
    uint32_t markers =
        full & ~fill & (~(zero >> 1 | zero_after << 31) | full << 1 | before);
    to->restarts = 0;
    to->end = DECODE_THREAD_BYTES;
    for (; markers != 0; markers &= markers - 1) {
        uint32_t i = (uint32_t)lowest_bit(markers);
        uint32_t code = at + i + 1 < image->bytes ? image->data[at + i + 1] : 0;
        if ((code & 0xF8) != MARKER_RST0) {
            to->end = i;
            valid &= (1u << i) - 1;
            break;
        }
        to->restarts |= 1u << i;
    }
    to->data = valid & ~(((full << 1 | before) & ~full) | fill | to->restarts);
}

/* ---- begin_batch ---- */

SIMT void count_bytes(const struct decode_args *args, uint32_t block)
{
    SHARED uint32_t sums[WARP_LANES], end;
    uint32_t index = find_image(args->starts[DECODE_CHUNKS], args->image_count, block);
    const struct decode_descriptor *image = &args->images[index];
    uint32_t chunk = block - args->starts[DECODE_CHUNKS][index];
    uint32_t at = chunk * DECODE_CHUNK_BYTES + (uint32_t)thread_index() * DECODE_THREAD_BYTES;
    uint32_t total;
    struct thread_bytes bytes;
    if (thread_index() == 0)
        end = AFTER_THE_END;
    block_barrier();
    classify(image, at, &bytes);
    if (bytes.end < DECODE_THREAD_BYTES)
        atomic_min(&end, at + bytes.end);
    block_barrier();
    uint32_t count = (uint32_t)count_bits(bytes.data) |
                     (uint32_t)count_bits(bytes.restarts) << COUNT_MARKERS_AT;
    (void)block_scan(at <= end ? count : 0, &total, sums);
    if (thread_index() != 0)
        return;
    image->chunk_counts[2 * chunk] = total | (end != AFTER_THE_END ? COUNT_END : 0);
    image->chunk_counts[2 * chunk + 1] = end;
}

/* The first blocks of threads build a Huffman table each. They come first because they take
 * longest; the other blocks do not wait for them. */
KERNEL(begin_batch, THREADS, 4, struct decode_args)
{
    uint32_t block = (uint32_t)block_index(), tables = args.set_count * DECODE_TABLES;
    if (block < tables)
        build_table(&args.sets[block / DECODE_TABLES], block % DECODE_TABLES);
    else
        count_bytes(&args, block - tables);
}

/* ---- scan_chunks ---- */

/* Number of subsequences of a segment. An empty segment has one, so that check_segment finds that
 * the segment is too short. */
DEVICE uint32_t subs_in(uint32_t bytes, uint32_t sub_words)
{
    uint32_t sub_bits = sub_words * 32, subs = (bytes * 8 + sub_bits - 1) / sub_bits;
    return subs > 0 ? subs : 1;
}

/* Checks the end of the data and the number of restart markers, and initialises the image's state.
 * end: position of the end marker. */
SIMT void begin_image(const struct decode_descriptor *image, uint32_t end, uint32_t data_bytes,
                      uint32_t restarts)
{
    struct decode_run *run = image->run;
    uint32_t verdict = JPEG_DECODE_DONE;
    if (end == AFTER_THE_END || end + 1 >= image->bytes)
        verdict = JPEG_DECODE_EARLY_END;
    else if (image->data[end + 1] != MARKER_EOI)
        verdict = JPEG_DECODE_MARKER;
    else if (restarts + 1 != image->segments)
        verdict = JPEG_DECODE_RESTART;
    run->verdict = verdict;
    run->data_bytes = data_bytes;
    run->subs = image->segments == 1 ? subs_in(data_bytes, image->sub_words) : 0;
    *image->verdict = verdict;
    image->segment_at[0] = 0;
    image->segment_at[image->segments] = data_bytes;
}

/* Initialises the state of a progressive image, whose input is coefficients. */
SIMT void take_coefficients(const struct decode_descriptor *image)
{
    image->run->verdict = *image->input_verdict ? JPEG_DECODE_NO_INPUT : JPEG_DECODE_DONE;
    *image->verdict = image->run->verdict;
    image->run->subs = 0;
}

/* One block of threads per image. */
KERNEL(scan_chunks, SCAN_THREADS, 1, struct decode_args)
{
    SHARED uint32_t sums[WARP_LANES], end_chunk;
    const struct decode_descriptor *image = &args.images[block_index()];
    uint32_t thread = (uint32_t)thread_index(), data = 0, restarts = 0;
    if (image->input_verdict) {
        if (thread == 0)
            take_coefficients(image);
        return;
    }
    uint32_t end = AFTER_THE_END;
    for (uint32_t i = thread; i < image->tiles; i += SCAN_THREADS)
        image->tile_sums[i] = 0;
    for (uint32_t first = 0; first < image->chunks; first += SCAN_THREADS) {
        uint32_t chunk = first + thread, of_data, of_restarts;
        uint32_t count = chunk < image->chunks ? image->chunk_counts[2 * chunk] : 0;
        if (thread == 0)
            end_chunk = AFTER_THE_END;
        block_barrier();
        if (count & COUNT_END)
            atomic_min(&end_chunk, chunk);
        block_barrier();
        uint32_t last = end_chunk;
        if (last != AFTER_THE_END)
            end = image->chunk_counts[2 * last + 1];
        uint32_t counted = chunk <= last ? count & ~COUNT_END : 0;
        uint32_t data_before =
            block_scan(counted & ((1u << COUNT_MARKERS_AT) - 1), &of_data, sums);
        uint32_t restarts_before = block_scan(counted >> COUNT_MARKERS_AT, &of_restarts, sums);
        block_barrier();
        if (chunk < image->chunks) {
            image->chunk_counts[2 * chunk] =
                chunk <= last ? data + data_before : AFTER_THE_END;
            image->chunk_counts[2 * chunk + 1] = restarts + restarts_before;
        }
        data += of_data;
        restarts += of_restarts;
        if (last != AFTER_THE_END) {
            for (chunk = first + SCAN_THREADS + thread; chunk < image->chunks;
                 chunk += SCAN_THREADS)
                image->chunk_counts[2 * chunk] = AFTER_THE_END;
            break;
        }
    }
    if (thread == 0)
        begin_image(image, end, data, restarts);
}

/* ---- copy_bytes ---- */

/* Writes the thread's data to the words in shared memory, from byte `to` on. The words are 0
 * before. The first and the last word need atomics, because neighbouring threads write their other
 * bytes. */
SIMT void append_bytes(const struct thread_bytes *bytes, uint32_t to, uint32_t *words)
{
    uint32_t held = 0, fill = to & 3, at = to >> 2;
    UNROLL
    for (int i = 0; i < THREAD_WORDS; i++) {
        uint32_t keep = bytes->data >> 4 * i & 15, word = swap_bytes(bytes->words[i]);
        if (keep == 15) {
            atomic_or(&words[at++], held | word >> 8 * fill);
            held = fill ? word << (32 - 8 * fill) : 0;
            continue;
        }
        for (; keep != 0; keep &= keep - 1) {
            uint32_t byte = word >> (24 - 8 * lowest_bit(keep)) & 255;
            held |= byte << (24 - 8 * fill);
            fill++;
            if (fill == 4) {
                atomic_or(&words[at++], held);
                held = fill = 0;
            }
        }
    }
    if (fill > 0)
        atomic_or(&words[at], held);
}

/* The address of byte `at` of the image's words: the most significant byte of a word is its
 * first. */
DEVICE uint8_t *data_byte(uint32_t *words, uint32_t at) { return (uint8_t *)words + (at ^ 3); }

/* Copies words from shared memory to the bytes `to` to `to` + count - 1 of the image's words. The
 * first and the last word are written by bytes, because the blocks of threads of the neighbouring
 * chunks write their other bytes. */
SIMT void store_words(uint32_t *words, uint32_t to, uint32_t count, const uint32_t *from)
{
    uint32_t first = to >> 2, end = to + count;
    for (uint32_t i = (uint32_t)thread_index(); first + i < (end + 3) >> 2; i += THREADS) {
        uint32_t at = 4 * (first + i), word = from[i];
        if (at >= to && at + 4 <= end) {
            words[first + i] = word;
            continue;
        }
        for (uint32_t j = at; j < at + 4; j++)
            if (j >= to && j < end)
                *data_byte(words, j) = (uint8_t)(word >> 8 * (3 - (j & 3)));
    }
}

/* Sets segment_at for each restart marker among the thread's bytes. data, restarts: the number of
 * data bytes and of restart markers before the thread's bytes. */
SIMT void start_segments(const struct decode_descriptor *image, const struct thread_bytes *bytes,
                         uint32_t at, uint32_t data, uint32_t restarts)
{
    for (uint32_t left = bytes->restarts; left != 0; left &= left - 1, restarts++) {
        uint32_t i = (uint32_t)lowest_bit(left);
        uint32_t code = image->data[at + i + 1];
        if (code != MARKER_RST0 + (restarts & 7) || restarts + 1 >= image->segments) {
            decline(image, JPEG_DECODE_RESTART);
            return;
        }
        image->segment_at[restarts + 1] =
            data + (uint32_t)count_bits(bytes->data & ((1u << i) - 1));
    }
}

/* One block of threads per chunk. */
KERNEL(copy_bytes, THREADS, 4, struct decode_args)
{
    enum { words_max = DECODE_CHUNK_BYTES / 4 + 1, zero_bytes_after = 16 };
    SHARED uint32_t words[words_max], sums[WARP_LANES], end;
    uint32_t index = find_image(args.starts[DECODE_CHUNKS], args.image_count,
                                (uint32_t)block_index());
    const struct decode_descriptor *image = &args.images[index];
    uint32_t chunk = (uint32_t)block_index() - args.starts[DECODE_CHUNKS][index];
    uint32_t thread = (uint32_t)thread_index();
    uint32_t at = chunk * DECODE_CHUNK_BYTES + thread * DECODE_THREAD_BYTES;
    uint32_t data = image->chunk_counts[2 * chunk], restarts = image->chunk_counts[2 * chunk + 1];
    uint32_t total;
    struct thread_bytes bytes;
    if (is_declined(image) || data == AFTER_THE_END)
        return;
    for (uint32_t i = thread; i < words_max; i += THREADS)
        words[i] = 0;
    if (thread == 0)
        end = AFTER_THE_END;
    block_barrier();
    classify(image, at, &bytes);
    if (bytes.end < DECODE_THREAD_BYTES)
        atomic_min(&end, at + bytes.end);
    block_barrier();
    if (at > end)
        bytes.data = bytes.restarts = 0;
    uint32_t count = (uint32_t)count_bits(bytes.data) |
                     (uint32_t)count_bits(bytes.restarts) << COUNT_MARKERS_AT;
    uint32_t before = block_scan(count, &total, sums);
    uint32_t data_before = before & ((1u << COUNT_MARKERS_AT) - 1);
    total &= (1u << COUNT_MARKERS_AT) - 1;
    append_bytes(&bytes, (data & 3) + data_before, words);
    start_segments(image, &bytes, at, data + data_before, restarts + (before >> COUNT_MARKERS_AT));
    block_barrier();
    store_words(image->words, data, total, words);
    /* Zeros after the end, because the decoder looks ahead. */
    if (end != AFTER_THE_END && thread < zero_bytes_after)
        *data_byte(image->words, data + total + thread) = 0;
}

/* ---- place_segments ---- */

/* One block of threads per image. The starts of its segments are ascending, because copy_bytes has
 * found all restart markers in order. */
KERNEL(place_segments, SCAN_THREADS, 1, struct decode_args)
{
    SHARED uint32_t sums[WARP_LANES];
    const struct decode_descriptor *image = &args.images[block_index()];
    uint32_t thread = (uint32_t)thread_index(), subs = 0;
    if (image->segments == 1 || image->run->verdict != JPEG_DECODE_DONE)
        return;
    for (uint32_t first = 0; first < image->segments; first += SCAN_THREADS) {
        uint32_t i = first + thread, total;
        uint32_t own =
            i < image->segments ? subs_in(image->segment_at[i + 1] - image->segment_at[i],
                                          image->sub_words) : 0;
        uint32_t before = block_scan(own, &total, sums);
        if (i < image->segments)
            image->segment_subs[i] = subs + before;
        subs += total;
        block_barrier();
    }
    if (thread == 0) {
        image->segment_subs[image->segments] = subs;
        image->run->subs = subs;
    }
}

int decode_launch_stream(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                         struct CUstream_st *stream)
{
    uint32_t table_blocks = DECODE_TABLES * batch->table_set_count;
    int status = 0;
    if (batch->chunks > 0)
        status = (int)LAUNCH(begin_batch, THREADS, table_blocks + batch->chunks, 0, stream, *args);
    if (status == 0)
        status = (int)LAUNCH(scan_chunks, SCAN_THREADS, batch->image_count, 0, stream, *args);
    if (status == 0 && batch->chunks > 0)
        status = (int)LAUNCH(copy_bytes, THREADS, batch->chunks, 0, stream, *args);
    if (status == 0 && batch->has_restarts)
        status = (int)LAUNCH(place_segments, SCAN_THREADS, batch->image_count, 0, stream, *args);
    return status;
}
