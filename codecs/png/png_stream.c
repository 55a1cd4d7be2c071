#include "codecs/png/png_stream.h"

#include "codecs/png/inflate.h"
#include "codecs/png/png_kernels.h"
#include "codecs/png/unfilter.h"

/* Compressed bytes that are read at a time: IDAT chunks often have 8 KiB. */
#define INPUT_BYTES (32 * KIB)
/* Rows that are inflated at a time, then unfiltered while they are in the processor's cache. */
#define OUTPUT_BYTES (64 * KIB)
/* Length and type of a chunk. */
#define CHUNK_HEAD 8

/* Reads the data of consecutive IDAT chunks. */
struct source {
    const uint8_t *bytes;
    size_t length, at; /* of the file */
    size_t chunk_left; /* bytes of the chunk that have not been read */
    size_t chunk_max;  /* libpng refuses a longer one */
    png_sum_fn *add_crc;
    uint32_t crc;      /* of the chunk's type and of its data up to `at` */
    bool ended;        /* `at` is at the chunk after the last IDAT */
    size_t piece;      /* of CODEC_BYTES_PER_CHECK, in which the deadline was checked last */
    uint64_t deadline_ns;
};

struct stream {
    struct source source;
    struct inflate inflate;
    struct png_state *state;
    const struct image *dst;
    size_t row_bytes;          /* of pixels; a filtered row has one byte more */
    uint64_t total, inflated;  /* bytes of filtered rows */
    png_sum_fn *add_adler;
    uint32_t checksum;         /* Adler-32 of the inflated bytes */
    uint8_t *window_end, *out; /* out: after the inflated bytes */
    const uint8_t *row;        /* the next row to unfilter */
    uint8_t *zeros;            /* the row above the first one */
    uint8_t input[INPUT_BYTES + INFLATE_INPUT_MIN];
    uint8_t window[];
};

/* ---- chunks ---- */

static bool is_type(const uint8_t *chunk, const char *type)
{
    return memcmp(chunk + 4, type, 4) == 0;
}

/* Whether the source has a whole chunk, at least its head and its CRC. */
static bool has_chunk(const struct source *source)
{
    size_t left = source->length - source->at;
    return left >= PNG_CHUNK_OVERHEAD &&
           codec_u32(source->bytes + source->at) <= left - PNG_CHUNK_OVERHEAD;
}

/* Begins an IDAT chunk, whose head is at source->at, or ends the source. */
static bool begin_chunk(struct source *source)
{
    if (!has_chunk(source))
        return false;
    const uint8_t *chunk = source->bytes + source->at;
    source->ended = !is_type(chunk, "IDAT");
    if (source->ended)
        return true;
    source->chunk_left = codec_u32(chunk);
    source->crc = source->add_crc(0, chunk + 4, 4);
    source->at += CHUNK_HEAD;
    return source->chunk_left <= source->chunk_max;
}

/* Checks the deadline once per piece of the file, which may be full of empty chunks. */
static bool is_late(struct source *source)
{
    size_t piece = source->at / CODEC_BYTES_PER_CHECK;
    bool is_new = piece != source->piece;
    source->piece = piece;
    return is_new && codec_late(source->deadline_ns);
}

/* Checks the CRC of a chunk that has been read, and begins the next one. */
static bool end_chunk(struct source *source)
{
    if (source->crc != codec_u32(source->bytes + source->at))
        return false;
    source->at += 4;
    return !is_late(source) && begin_chunk(source);
}

/* Adds data of IDAT chunks to the input. Returns false at damage and after the deadline. */
static bool fill_input(struct stream *stream)
{
    struct source *source = &stream->source;
    struct inflate *inflate = &stream->inflate;
    size_t used = (size_t)(inflate->in_end - inflate->in);
    if (codec_late(source->deadline_ns))
        return false;
    memmove(stream->input, inflate->in, used);
    while (used < INPUT_BYTES && !source->ended) {
        size_t count = INPUT_BYTES - used;
        count = count < source->chunk_left ? count : source->chunk_left;
        const uint8_t *from = source->bytes + source->at;
        memcpy(stream->input + used, from, count);
        source->crc = source->add_crc(source->crc, from, count);
        used += count;
        source->at += count;
        source->chunk_left -= count;
        if (source->chunk_left == 0 && !end_chunk(source))
            return false;
    }
    inflate->in = stream->input;
    inflate->in_end = stream->input + used;
    inflate->in_is_last = source->ended;
    if (source->ended)
        memset(stream->input + used, 0, INFLATE_INPUT_MIN);
    return true;
}

static bool is_ancillary(const uint8_t *chunk)
{
    for (int i = 4; i < CHUNK_HEAD; i++)
        if (!((chunk[i] >= 'a' && chunk[i] <= 'z') || (chunk[i] >= 'A' && chunk[i] <= 'Z')))
            return false;
    /* libpng 1.6.47 and later refuse a third letter in lower case. */
    return (chunk[4] & 0x20) != 0 && (chunk[6] & 0x20) == 0 && !is_type(chunk, "tRNS");
}

/* Whether the chunks after the pixels are those that libpng skips, and an empty IEND. */
static bool check_end(struct source *source)
{
    while (has_chunk(source) && !codec_late(source->deadline_ns)) {
        const uint8_t *chunk = source->bytes + source->at;
        size_t count = codec_u32(chunk);
        bool is_end = is_type(chunk, "IEND");
        if ((is_end ? count > 0 : !is_ancillary(chunk) || count > PNG_CHUNK_BYTES_MAX) ||
            source->add_crc(0, chunk + 4, 4 + count) != codec_u32(chunk + CHUNK_HEAD + count))
            return false;
        if (is_end)
            return true;
        source->at += PNG_CHUNK_OVERHEAD + count;
    }
    return false;
}

/* ---- rows ---- */

static bool has_known_filters(const struct stream *stream, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (stream->row[i * (stream->row_bytes + 1)] >= FILTERS)
            return false;
    return true;
}

/* Unfilters the rows that are complete, but leaves a few for the next time: it is faster to do
 * several together. Returns false at an unknown filter. */
static bool unfilter(struct stream *stream)
{
    const struct image *dst = stream->dst;
    uint32_t *y = &stream->state->rows_done, left = dst->height - *y;
    size_t rows = (size_t)(stream->out - stream->row) / (stream->row_bytes + 1);
    rows = rows >= left ? left : rows / UNFILTER_ROWS * UNFILTER_ROWS;
    if (!has_known_filters(stream, rows))
        return false;
    uint8_t *to = dst->pixels + *y * dst->stride;
    unfilter_rows(stream->row, *y > 0 ? to - dst->stride : stream->zeros, to, dst->stride,
                  stream->row_bytes, dst->channels, rows);
    stream->row += rows * (stream->row_bytes + 1);
    *y += (uint32_t)rows;
    return true;
}

/* Makes room in the window: keeps what matches may refer to, and the rows that are left. */
static void slide(struct stream *stream)
{
    const uint8_t *from = stream->row;
    if (stream->out - from < INFLATE_WINDOW_BYTES)
        from = stream->out - stream->window < INFLATE_WINDOW_BYTES
                   ? stream->window
                   : stream->out - INFLATE_WINDOW_BYTES;
    size_t gone = (size_t)(from - stream->window);
    memmove(stream->window, from, (size_t)(stream->out - from));
    stream->out -= gone;
    stream->row -= gone;
}

/* Inflates up to the end of the window, or one byte more than the rows have. */
static enum inflate_result inflate_more(struct stream *stream)
{
    uint64_t rest = stream->total + 1 - stream->inflated;
    uint8_t *before = stream->out, *limit = stream->window_end;
    if (before >= limit)
        return INFLATE_BAD; /* uncovered: net */
    if (rest < (uint64_t)(limit - before))
        limit = before + rest;
    enum inflate_result result = inflate_run(&stream->inflate, stream->window, &stream->out, limit);
    size_t count = (size_t)(stream->out - before);
    stream->inflated += count;
    stream->checksum = stream->add_adler(stream->checksum, before, count);
    return stream->inflated > stream->total ? INFLATE_BAD : result;
}

static bool read_rows(struct stream *stream)
{
    for (;;) {
        enum inflate_result result = inflate_more(stream);
        if (result == INFLATE_BAD || !unfilter(stream))
            return false;
        if (result == INFLATE_ENDED)
            return stream->inflated == stream->total &&
                   stream->checksum == stream->inflate.checksum;
        if (result == INFLATE_FULL)
            slide(stream);
        if (result == INFLATE_FULL ? codec_late(stream->source.deadline_ns) : !fill_input(stream))
            return false;
    }
}

/* Whether the stream ends with the last IDAT chunk. */
static bool has_no_surplus(struct stream *stream)
{
    return fill_input(stream) && stream->source.ended &&
           stream->inflate.in == stream->inflate.in_end;
}

/* ---- the image ---- */

/* The bytes of the window: the history of a match, rows that are left, and new ones; or the whole
 * image, with the byte that is too much. */
static size_t window_bytes(size_t row_bytes, uint32_t height)
{
    size_t all = (row_bytes + 1) * height + 1,
           some = INFLATE_WINDOW_BYTES + UNFILTER_ROWS * (row_bytes + 1) + OUTPUT_BYTES;
    return all < some ? all : some;
}

size_t png_stream_bytes(uint32_t width, uint32_t height, uint32_t channels)
{
    size_t row_bytes = (size_t)width * channels;
    return sizeof(struct stream) + window_bytes(row_bytes, height) + INFLATE_SLACK + row_bytes;
}

bool png_stream_takes(const struct png_state *state)
{
    int type = png_get_color_type(state->png, state->info);
    return png_get_bit_depth(state->png, state->info) == 8 &&
           (type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_RGB ||
            type == PNG_COLOR_TYPE_RGB_ALPHA) &&
           png_get_interlace_type(state->png, state->info) == PNG_INTERLACE_NONE &&
           png_get_valid(state->png, state->info, PNG_INFO_tRNS) == 0;
}

static void open_stream(struct stream *stream, struct png_state *state, const struct image *dst)
{
    const struct png_kernels *kernels = png_kernels_fastest();
    stream->state = state;
    stream->dst = dst;
    stream->row_bytes = (size_t)dst->width * dst->channels;
    stream->total = (uint64_t)(stream->row_bytes + 1) * dst->height;
    stream->inflated = 0;
    stream->add_adler = kernels->adler;
    stream->checksum = 1;
    stream->row = stream->out = stream->window;
    stream->window_end = stream->window + window_bytes(stream->row_bytes, dst->height);
    stream->zeros = stream->window_end + INFLATE_SLACK;
    memset(stream->zeros, 0, stream->row_bytes);
    stream->source = (struct source){
        .bytes = state->bytes,
        .length = state->length,
        .at = state->at - CHUNK_HEAD,
        .add_crc = kernels->crc,
        .chunk_max = stream->total > PNG_CHUNK_BYTES_MAX ? stream->total : PNG_CHUNK_BYTES_MAX,
        .deadline_ns = state->deadline_ns,
    };
    inflate_open(&stream->inflate, stream->total);
    stream->inflate.in = stream->inflate.in_end = stream->input;
}

bool png_stream_read(struct png_state *state, const struct image *dst)
{
    struct stream *stream = malloc(png_stream_bytes(dst->width, dst->height, dst->channels));
    if (stream == NULL) /* uncovered: memory (tests/coverage/reasons.txt) */
        return false;
    open_stream(stream, state, dst);
    bool good = begin_chunk(&stream->source) && !stream->source.ended && read_rows(stream) &&
                has_no_surplus(stream) && check_end(&stream->source);
    free(stream);
    return good;
}
