/*
 * decode_chunks.cu - lists the chunks of PNG files, joins the data of the IDAT chunks, and computes
 * the CRCs: the first stage of the PNG decoder (decode_impl.h).
 *
 * A thread per image follows the lengths of the chunks. Then many blocks of threads per image copy
 * slices of the file, whichever chunks these belong to.
 */
#include "gpu/png/crc.h"
#include "gpu/png/decode_impl.h"

#define CHUNK_OVERHEAD 12 /* length, type and CRC */
#define TYPE_IDAT      0x49444154u
#define TYPE_IEND      0x49454E44u
#define TYPE_tRNS      0x74524E53u

/* ---- the list of chunks ---- */

/* Whether libpng skips such a chunk, as png_stream.c decides it. */
DEVICE bool is_ancillary(uint32_t type)
{
    UNROLL
    for (int i = 0; i < 32; i += 8) {
        uint32_t letter = (type >> i | 0x20) & 255;
        if (letter < 'a' || letter > 'z')
            return false;
    }
    return (type & 0x20000000) != 0 && (type & 0x2000) == 0 && type != TYPE_tRNS;
}

/* Whether a chunk may follow. has_data: data of IDAT chunks may still follow. */
DEVICE bool is_usual(const struct png_descriptor *image, uint32_t type, uint32_t bytes,
                     bool has_data)
{
    if (type == TYPE_IDAT)
        return has_data && bytes <= image->idat_bytes_max;
    if (type == TYPE_IEND)
        return bytes == 0;
    return is_ancillary(type) && bytes <= PNG_CHUNK_BYTES_MAX;
}

/* Lists the chunks from the first IDAT to IEND. */
SIMT enum png_decode_verdict list_chunks(const struct png_descriptor *image, struct png_run *run)
{
    uint32_t at = image->idat_at, count = 0, zlib_bytes = 0, type = TYPE_IDAT;
    while (type != TYPE_IEND) {
        uint32_t left = image->file_bytes - at;
        if (left < CHUNK_OVERHEAD || count == image->chunks_max)
            return PNG_DECODE_CHUNKS;
        bool has_data = type == TYPE_IDAT;
        uint32_t bytes = swap_bytes(crc_load(image->file + at));
        type = swap_bytes(crc_load(image->file + at + 4));
        if (bytes > left - CHUNK_OVERHEAD || !is_usual(image, type, bytes, has_data) ||
            (count == 0 && type != TYPE_IDAT))
            return PNG_DECODE_CHUNKS;
        struct png_chunk chunk = {at, bytes, type == TYPE_IDAT ? zlib_bytes : PNG_NOT_IDAT, 0};
        image->chunks[count++] = chunk;
        zlib_bytes += type == TYPE_IDAT ? bytes : 0;
        at += CHUNK_OVERHEAD + bytes;
    }
    run->chunk_count = count;
    run->end = at;
    run->zlib_bytes = zlib_bytes;
    return PNG_DECODE_DONE;
}

KERNEL(find_chunks, WARP_LANES, 1, struct png_args)
{
    const struct png_descriptor *image = &args.images[block_index()];
    if (thread_index() > 0)
        return;
    struct png_run run = {0, 0, 0, 0, 0, {0, 0}, 0};
    run.verdict = (uint32_t)list_chunks(image, &run);
    *image->run = run;
}

/* ---- slices of the file ---- */

/* Returns the first chunk that ends after `at`. */
SIMT uint32_t chunk_at(const struct png_descriptor *image, uint32_t count, uint32_t at)
{
    uint32_t first = 0;
    while (count > 1) { /* the last chunk that starts at `at` or before */
        uint32_t half = count / 2;
        if (image->chunks[first + half].at <= at) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    return first;
}

/* Copies bytes by all threads of the block. Whole words of the destination, where possible. */
SIMT void copy_bytes(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    uint32_t thread = (uint32_t)thread_index();
    uint32_t head = (0u - (uint32_t)(uintptr_t)to) & 3;
    head = head < bytes ? head : bytes;
    uint32_t words = (bytes - head) / 4, tail = head + 4 * words;
    if (thread < head)
        to[thread] = from[thread];
    if (thread < bytes - tail)
        to[tail + thread] = from[tail + thread];
    uint32_t *words_to = (uint32_t *)(to + head);
    for (uint32_t i = thread; i < words; i += CRC_THREADS)
        words_to[i] = crc_load(from + head + 4 * (size_t)i);
}

/* Copies the data of a chunk between two offsets of the file, and adds its remainder. */
SIMT void take_chunk(const struct png_descriptor *image, struct png_chunk *chunk, uint32_t from,
                     uint32_t end, struct crc_tables *tables, uint32_t power)
{
    uint32_t type_at = chunk->at + 4, data_at = chunk->at + 8, data_end = data_at + chunk->bytes;
    uint32_t start = from > type_at ? from : type_at;
    end = end < data_end ? end : data_end;
    if (start >= end)
        return;
    /* The first inversion of a CRC is that of the first four bytes. */
    uint32_t crc = crc_of_piece(tables, image->file, start, end, data_at, power);
    if (thread_index() == 0)
        atomic_xor(&chunk->crc, crc_multiply(crc, crc_power(data_end - end)));
    start = start > data_at ? start : data_at;
    if (chunk->zlib_at != PNG_NOT_IDAT && start < end)
        copy_bytes(image->zlib + chunk->zlib_at + (start - data_at), image->file + start,
                   end - start);
}

/* A row of blocks per image; each block takes slices in turn. */
KERNEL(join_chunks, CRC_THREADS, 4, struct png_args)
{
    SHARED struct crc_tables tables;
    const struct png_descriptor *image = &args.images[block_row()];
    uint32_t count = image->run->chunk_count, all_end = image->run->end;
    uint32_t first = image->idat_at + (uint32_t)block_index() * PNG_SLICE_BYTES;
    if (image->run->verdict != PNG_DECODE_DONE || first >= all_end)
        return;
    crc_fill(&tables);
    uint32_t power = crc_power(4 * (uint32_t)(CRC_THREADS - thread_index()));
    block_barrier();
    for (uint32_t from = first; from < all_end; from += args.slice_step) {
        uint32_t end = all_end - from < PNG_SLICE_BYTES ? all_end : from + PNG_SLICE_BYTES;
        for (uint32_t i = chunk_at(image, count, from); i < count && image->chunks[i].at < end; i++)
            take_chunk(image, &image->chunks[i], from, end, &tables, power);
    }
}

int png_launch_chunks(const struct png_decode_batch *batch, const struct png_args *args,
                      struct CUstream_st *stream)
{
    int status = (int)LAUNCH(find_chunks, WARP_LANES, batch->image_count, 0, stream, *args);
    if (status == 0)
        status = (int)LAUNCH(join_chunks, CRC_THREADS,
                             dim3(batch->slice_blocks, batch->image_count), 0, stream, *args);
    return status;
}
