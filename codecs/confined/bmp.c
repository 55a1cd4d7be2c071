/*
 * bmp.c - reads BMPs, without a library (confined.h).
 *
 * A BMP has a header of 14 bytes, a second header, whose size says which version of Windows or OS/2
 * has defined it, masks or a palette, and pixels. Numbers are little-endian. Microsoft documents
 * all but OS/2's headers: BITMAPFILEHEADER to BITMAPV5HEADER.
 */
#include <stdlib.h>
#include <string.h>

#include "codecs/confined/confined.h"

/* Offsets in the file, and sizes of the second header. */
enum {
    PIXELS_AT = 10,
    HEADER_AT = 14,
    CORE_BYTES = 12,
    OS2_LEAST_BYTES = 16,
    INFO_BYTES = 40,
    RGB_MASKS_BYTES = 52,
    RGBA_MASKS_BYTES = 56,
    OS2_BYTES = 64,
    V4_BYTES = 108,
    V5_BYTES = 124
};

/* Values of its field for the compression. In headers of OS/2, 3 and 4 have other meanings. */
enum { PLAIN, RLE8, RLE4, BITFIELDS, JPEG, PNG, ALPHA_BITFIELDS };

enum { RED, GREEN, BLUE, ALPHA, CHANNELS };

struct bmp {
    struct confined_source *source;
    struct codec_reply *reply;
    uint8_t header[V5_BYTES]; /* the second header, then zeros */
    uint32_t header_bytes;
    uint32_t width, height, bits, compression;
    bool is_top_down, is_os2;
    uint64_t pixels_at;
    uint32_t masks[CHANNELS]; /* of pixels with more than 8 bits; of alpha 0: there is none */
    uint8_t palette[256][3];  /* colours beyond the file's palette are black */
};

static bool fail(struct bmp *bmp, const char *text)
{
    confined_fail(bmp->reply, STATUS_DECODE_FAILED, "the BMP %s", text);
    return false;
}

/* ---- header --------------------------------------------------------------------------------- */

static uint32_t number(const uint8_t *at, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint32_t)at[i] << 8 * i;
    return value;
}

/* NULL: the file ends before. */
static const uint8_t *bytes_at(const struct bmp *bmp, uint64_t at, size_t bytes)
{
    size_t got = bytes;
    const uint8_t *found = confined_read(bmp->source, at, &got);
    return got == bytes ? found : NULL;
}

static bool read_header(struct bmp *bmp)
{
    const uint8_t *bytes = bytes_at(bmp, 0, HEADER_AT + 4);
    if (!bytes)
        return fail(bmp, "ends in its header");
    bmp->pixels_at = number(bytes + PIXELS_AT, 4);
    uint32_t size = bmp->header_bytes = number(bytes + HEADER_AT, 4);
    if (size != CORE_BYTES && !(size >= OS2_LEAST_BYTES && size <= OS2_BYTES) && size != V4_BYTES &&
        size != V5_BYTES) {
        confined_fail(bmp->reply, STATUS_UNSUPPORTED_FORMAT,
                      "the BMP has a second header of %u bytes; it must have 12, 16 to 64, 108 or "
                      "124",
                      size);
        return false;
    }
    bytes = bytes_at(bmp, HEADER_AT, size);
    if (!bytes)
        return fail(bmp, "ends in its second header");
    memcpy(bmp->header, bytes, size);
    bmp->is_os2 = size <= OS2_BYTES && size != INFO_BYTES && size != RGB_MASKS_BYTES &&
                  size != RGBA_MASKS_BYTES;
    return true;
}

static bool read_sides(struct bmp *bmp)
{
    bool is_core = bmp->header_bytes == CORE_BYTES;
    const uint8_t *at = bmp->header + 4;
    int64_t width = (int32_t)number(at, is_core ? 2 : 4);
    int64_t height = (int32_t)number(at + (is_core ? 2 : 4), is_core ? 2 : 4);
    uint32_t planes = number(at + (is_core ? 4 : 8), 2);
    bmp->bits = number(at + (is_core ? 6 : 10), 2);
    bmp->compression = number(bmp->header + 16, 4);
    if (is_core)
        bmp->compression = PLAIN;
    bmp->is_top_down = height < 0;
    height = height < 0 ? -height : height;
    if (width <= 0 || height == 0)
        confined_fail(bmp->reply, STATUS_DECODE_FAILED, "the BMP is %lld x %lld pixels",
                      (long long)width, (long long)height);
    else if (width > SIDE_CEILING || height > SIDE_CEILING)
        confined_fail(bmp->reply, STATUS_IMAGE_TOO_LARGE,
                      "the BMP is %lld x %lld pixels; a side has at most %d", (long long)width,
                      (long long)height, SIDE_CEILING);
    else if (planes != 1)
        confined_fail(bmp->reply, STATUS_DECODE_FAILED, "the BMP has %u planes; it must have 1",
                      planes);
    bmp->width = (uint32_t)width;
    bmp->height = (uint32_t)height;
    return bmp->reply->status == STATUS_OK;
}

static const char *compression_name(const struct bmp *bmp)
{
    static const char *const names[] = {
        "none", "RLE of 8 bits", "RLE of 4 bits",        "bit fields",
        "JPEG", "PNG",           "bit fields with alpha"};
    if (bmp->is_os2 && bmp->compression == BITFIELDS)
        return "Huffman";
    if (bmp->is_os2 && bmp->compression == JPEG)
        return "RLE of 24 bits";
    return bmp->compression < sizeof names / sizeof *names ? names[bmp->compression] : "unknown";
}

/* Whether the bits per pixel and the compression fit each other. */
static bool check_kind(struct bmp *bmp)
{
    uint32_t bits = bmp->bits;
    bool is_deep = bits == 16 || bits == 24 || bits == 32;
    bool is_read = false;
    switch (bmp->compression) {
    case PLAIN:
        is_read = is_deep || bits == 1 || bits == 2 || bits == 4 || bits == 8;
        break;
    case RLE8:
    case RLE4:
        if (bmp->is_top_down)
            return fail(bmp, "is compressed (RLE) from top to bottom, which is not allowed");
        is_read = bits == (bmp->compression == RLE8 ? 8 : 4);
        break;
    case BITFIELDS:
    case ALPHA_BITFIELDS:
        is_read = is_deep && !bmp->is_os2;
        break;
    default:
        break;
    }
    if (!is_read)
        confined_fail(bmp->reply, STATUS_UNSUPPORTED_FORMAT,
                      "the BMP has compression %u (%s) and %u bits per pixel; gpuimgd reads BMPs "
                      "without compression or with RLE, of 1, 2, 4, 8, 16, 24 or 32 bits",
                      bmp->compression, compression_name(bmp), bits);
    return is_read;
}

/* ---- palette and masks ---------------------------------------------------------------------- */

/* Reads the palette, which begins at an offset, and sets pixels_at if the header has none. Some
 * files have fewer colours than their header says: then the pixels begin earlier. */
static bool read_palette(struct bmp *bmp, uint64_t at)
{
    unsigned entry = bmp->header_bytes == CORE_BYTES ? 3 : 4;
    uint32_t most = 1u << bmp->bits, count = number(bmp->header + 32, 4);
    count = count == 0 || count > most ? most : count;
    if (bmp->pixels_at <= at)
        bmp->pixels_at = at + (uint64_t)count * entry;
    else if (count > (bmp->pixels_at - at) / entry)
        count = (uint32_t)((bmp->pixels_at - at) / entry);
    const uint8_t *bytes = bytes_at(bmp, at, (size_t)count * entry);
    if (!bytes)
        return fail(bmp, "ends in its palette");
    for (uint32_t i = 0; i < count; i++, bytes += entry)
        for (int k = 0; k < 3; k++)
            bmp->palette[i][k] = bytes[2 - k];
    return true;
}

/* Whether all bits of the mask follow each other. */
static bool is_run(uint32_t mask)
{
    uint32_t bit = mask & (0u - mask);
    return mask == 0 || ((mask / bit) & (mask / bit + 1)) == 0;
}

/* Reads the masks, which are in the second header or follow it. Sets *at to the byte after them. If
 * all masks are 0, the usual ones count. */
static bool read_masks(struct bmp *bmp, uint64_t *at)
{
    static const uint32_t of16[] = {0x7C00, 0x3E0, 0x1F, 0}, of32[] = {0xFF0000, 0xFF00, 0xFF, 0};
    bool is_plain = bmp->compression == PLAIN, is_inside = bmp->header_bytes > INFO_BYTES;
    uint32_t any = 0;
    memcpy(bmp->masks, bmp->bits == 16 ? of16 : of32, sizeof bmp->masks);
    if (is_plain)
        return true;
    uint32_t count = is_inside                             ? (bmp->header_bytes - INFO_BYTES) / 4
                     : bmp->compression == ALPHA_BITFIELDS ? 4
                                                           : 3;
    count = count < CHANNELS ? count : CHANNELS;
    const uint8_t *bytes = is_inside ? bmp->header + INFO_BYTES : bytes_at(bmp, *at, 4 * count);
    if (!bytes)
        return fail(bmp, "ends in its masks");
    *at += is_inside ? 0 : 4 * count;
    for (uint32_t i = 0; i < count; i++)
        any |= number(bytes + 4 * i, 4);
    for (uint32_t i = 0; i < count && any != 0; i++)
        bmp->masks[i] = number(bytes + 4 * i, 4);
    for (uint32_t i = 0; i < count; i++)
        if (!is_run(bmp->masks[i])) {
            confined_fail(bmp->reply, STATUS_UNSUPPORTED_FORMAT,
                          "the BMP has the mask 0x%08X, whose bits are not contiguous",
                          bmp->masks[i]);
            return false;
        }
    return true;
}

static size_t row_bytes(const struct bmp *bmp)
{
    return ((size_t)bmp->width * bmp->bits + 31) / 32 * 4;
}

/* Checks that the file has all pixels. The padding of the last row may be missing. */
static bool check_length(struct bmp *bmp)
{
    bool is_packed = bmp->compression == RLE8 || bmp->compression == RLE4;
    uint64_t last = ((uint64_t)bmp->width * bmp->bits + 7) / 8, size = bmp->source->size;
    uint64_t needed =
        bmp->pixels_at + (is_packed ? 1 : row_bytes(bmp) * (bmp->height - 1ull) + last);
    if (size < needed)
        confined_fail(bmp->reply, STATUS_DECODE_FAILED,
                      "the BMP is truncated: it has %llu bytes, but its %u x %u pixels need %llu",
                      (unsigned long long)size, bmp->width, bmp->height,
                      (unsigned long long)needed);
    return size >= needed;
}

/* false: the reply has the error. */
static bool open_bmp(struct bmp *bmp)
{
    if (!read_header(bmp) || !read_sides(bmp) || !check_kind(bmp))
        return false;
    uint64_t at = HEADER_AT + (uint64_t)bmp->header_bytes;
    if (bmp->pixels_at > 0 && bmp->pixels_at < at) {
        confined_fail(bmp->reply, STATUS_DECODE_FAILED,
                      "the BMP's pixels begin at byte %llu, in its headers of %llu bytes",
                      (unsigned long long)bmp->pixels_at, (unsigned long long)at);
        return false;
    }
    if (bmp->bits <= 8 ? !read_palette(bmp, at) : !read_masks(bmp, &at))
        return false;
    if (bmp->pixels_at < at)
        bmp->pixels_at = at;
    return check_length(bmp);
}

/* ---- probe ---------------------------------------------------------------------------------- */

/* Gives the ICC profile that a header of version 5 may have. A damaged one is left out. */
static void give_profile(const struct bmp *bmp, struct confined_results results)
{
    enum { kind_at = 56, profile_at = 112 };
    if (bmp->header_bytes != V5_BYTES || memcmp(bmp->header + kind_at, "DEBM", 4) != 0)
        return;
    uint32_t at = number(bmp->header + profile_at, 4);
    uint32_t bytes = number(bmp->header + profile_at + 4, 4);
    const uint8_t *profile =
        bytes <= ICC_BYTES_MAX ? bytes_at(bmp, HEADER_AT + (uint64_t)at, bytes) : NULL;
    if (profile)
        (void)confined_give(&results, profile, bytes, &bmp->reply->icc_bytes);
}

static void bmp_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct confined_source source = confined_open(call, region, CODEC_KEPT_BYTES_MAX);
    struct bmp bmp = {.source = &source, .reply = reply};
    if (!open_bmp(&bmp))
        return;
    bool is_packed = bmp.compression == RLE8 || bmp.compression == RLE4;
    reply->width = bmp.width;
    reply->height = bmp.height;
    reply->channels = bmp.masks[ALPHA] != 0 ? 4 : 3;
    reply->orientation = 1;
    reply->frames = 1;
    reply->decode_bytes = (is_packed ? (uint64_t)bmp.width * bmp.height : 0) + MIB;
    if (bmp.header_bytes >= INFO_BYTES) {
        reply->per_metre_x = number(bmp.header + 24, 4);
        reply->per_metre_y = number(bmp.header + 28, 4);
    }
    give_profile(&bmp, confined_results_of(call, region));
}

/* ---- pixels --------------------------------------------------------------------------------- */

static void read_indices(const struct bmp *bmp, const uint8_t *from, uint8_t *to)
{
    unsigned bits = bmp->bits, mask = (1u << bits) - 1;
    for (size_t x = 0; x < bmp->width; x++, to += 3)
        memcpy(to, bmp->palette[from[x * bits / 8] >> (8 - bits - x * bits % 8) & mask], 3);
}

/* A channel of pixels with masks. */
struct channel {
    uint32_t mask, shift, most; /* most: its largest value; 0: the channel is missing */
    uint8_t scaled[256];        /* if it has 8 bits or fewer */
};

static void prepare_channel(struct channel *channel, uint32_t mask)
{
    *channel = (struct channel){.mask = mask};
    if (mask == 0)
        return;
    while (!(mask >> channel->shift & 1))
        channel->shift++;
    channel->most = mask >> channel->shift;
    for (uint32_t i = 0; i < 256 && i <= channel->most; i++)
        channel->scaled[i] = (uint8_t)((i * 255 + channel->most / 2) / channel->most);
}

/* Scales a value to 8 bits, rounded to nearest. */
static uint8_t channel_of(const struct channel *channel, uint32_t pixel)
{
    uint32_t value = (pixel & channel->mask) >> channel->shift;
    return channel->most < 256 ? channel->scaled[value]
                               : (uint8_t)((value * 255ull + channel->most / 2) / channel->most);
}

static void read_masked(const struct bmp *bmp, const struct channel *channels, unsigned count,
                        const uint8_t *from, uint8_t *to)
{
    unsigned bytes = bmp->bits / 8;
    for (uint32_t x = 0; x < bmp->width; x++, from += bytes) {
        uint32_t pixel = number(from, bytes);
        for (unsigned i = 0; i < count; i++)
            *to++ = channel_of(&channels[i], pixel);
    }
}

/* Whether each channel is a byte of the pixel. */
static bool are_bytes(const struct bmp *bmp, const struct channel *channels, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (channels[i].most != 255 || channels[i].shift % 8 != 0 || channels[i].shift >= bmp->bits)
            return false;
    return true;
}

/* As read_masked, if are_bytes. */
static void read_bytes(const struct bmp *bmp, const struct channel *channels, unsigned count,
                       const uint8_t *from, uint8_t *to)
{
    unsigned bytes = bmp->bits / 8, red = channels[RED].shift / 8;
    unsigned green = channels[GREEN].shift / 8, blue = channels[BLUE].shift / 8;
    unsigned alpha = channels[ALPHA].shift / 8;
    for (uint32_t x = 0; x < bmp->width; x++, from += bytes, to += count) {
        to[0] = from[red];
        to[1] = from[green];
        to[2] = from[blue];
        if (count == 4)
            to[3] = from[alpha];
    }
}

/* ---- RLE ------------------------------------------------------------------------------------ */

/* The position in an image that is decompressed, whose first row is the lowest one. */
struct run {
    const struct bmp *bmp;
    const uint8_t *at, *end; /* compressed data */
    uint8_t *indices;        /* 0 where nothing is written, as in Pillow */
    uint32_t x, y;
};

/* Writes pixels, as far as they are in the row. bytes: those of an absolute run, or one byte to
 * repeat. */
static void put_run(struct run *run, const uint8_t *bytes, unsigned count, bool repeats)
{
    bool is_nibble = run->bmp->bits == 4;
    uint8_t *row = run->indices + (size_t)run->y * run->bmp->width;
    for (unsigned i = 0; i < count && run->x < run->bmp->width; i++, run->x++) {
        uint8_t byte = repeats ? bytes[0] : bytes[is_nibble ? i / 2 : i];
        row[run->x] = !is_nibble ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
    }
}

/* Moves right and up. A position to the right of the image stays there until the next row. */
static void move_by(struct run *run, uint32_t x, uint32_t y)
{
    run->x = x < run->bmp->width - run->x ? run->x + x : run->bmp->width;
    run->y = y < run->bmp->height - run->y ? run->y + y : run->bmp->height;
}

enum step { CONTINUES, ENDS, BREAKS };

static enum step do_escape(struct run *run, unsigned code)
{
    enum { end_of_row, end_of_image, delta };
    size_t left = (size_t)(run->end - run->at);
    size_t bytes = run->bmp->bits == 4 ? (code + 1) / 2 : code;
    switch (code) {
    case end_of_row:
        run->x = 0;
        move_by(run, 0, 1);
        return CONTINUES;
    case end_of_image:
        return ENDS;
    case delta:
        if (left < 2)
            return BREAKS;
        move_by(run, run->at[0], run->at[1]);
        run->at += 2;
        return CONTINUES;
    default:
        if (left < bytes)
            return BREAKS;
        put_run(run, run->at, code, false);
        bytes += bytes % 2; /* padding, which the last run may lack */
        run->at += bytes < left ? bytes : left;
        return CONTINUES;
    }
}

/* Returns ENDS if the image is complete, or its end is marked. */
static enum step decompress(struct run *run)
{
    enum step step = CONTINUES;
    while (step == CONTINUES && run->y < run->bmp->height) {
        bool is_top = run->y + 1 == run->bmp->height;
        if (run->end - run->at < 2)
            return is_top && run->x == run->bmp->width ? ENDS : BREAKS;
        unsigned count = run->at[0];
        const uint8_t *value = run->at + 1;
        run->at += 2;
        if (count > 0)
            put_run(run, value, count, true);
        else
            step = do_escape(run, *value);
    }
    return step == CONTINUES ? ENDS : step;
}

/* ---- decode --------------------------------------------------------------------------------- */

/* Offers the rows, the first row first. indices: a decompressed image; NULL: there is none. */
static void send_rows(const struct bmp *bmp, const struct codec_call *call, const uint8_t *pixels,
                      const uint8_t *indices, uint8_t *window)
{
    struct channel channels[CHANNELS];
    size_t to_bytes = (size_t)call->width * call->channels, from_bytes = row_bytes(bmp);
    uint32_t most = confined_band_rows(call->width, call->channels), filled = 0;
    for (int i = 0; i < CHANNELS; i++)
        prepare_channel(&channels[i], bmp->masks[i]);
    bool has_bytes = are_bytes(bmp, channels, call->channels);
    for (uint32_t y = 0; y < bmp->height; y++) {
        uint32_t row = bmp->is_top_down ? y : bmp->height - 1 - y;
        uint8_t *to = window + filled++ * to_bytes;
        if (indices)
            for (uint32_t x = 0; x < bmp->width; x++)
                memcpy(to + 3 * (size_t)x, bmp->palette[indices[(size_t)row * bmp->width + x]], 3);
        else if (bmp->bits <= 8)
            read_indices(bmp, pixels + row * from_bytes, to);
        else if (has_bytes)
            read_bytes(bmp, channels, call->channels, pixels + row * from_bytes, to);
        else
            read_masked(bmp, channels, call->channels, pixels + row * from_bytes, to);
        bool is_last = y + 1 == bmp->height;
        if (filled == most || is_last) {
            confined_offer(bmp->reply, filled, 0, is_last);
            filled = 0;
        }
    }
}

static void bmp_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct confined_source source = confined_open(call, region, UINT64_MAX);
    struct bmp bmp = {.source = &source, .reply = reply};
    uint8_t *indices = NULL;
    if (!open_bmp(&bmp))
        return;
    if (bmp.width != call->width || bmp.height != call->height ||
        call->channels != (bmp.masks[ALPHA] != 0 ? 4 : 3)) {
        (void)fail(&bmp, "is not that of its header");
        return;
    }
    if (bmp.compression == RLE8 || bmp.compression == RLE4) {
        indices = calloc(bmp.height, bmp.width);
        if (!indices) {
            confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a BMP");
            return;
        }
        struct run run = {
            &bmp, source.bytes + bmp.pixels_at, source.bytes + source.size, indices, 0, 0};
        if (decompress(&run) != ENDS)
            confined_fail(reply, STATUS_DECODE_FAILED,
                          "the BMP is truncated: its compressed data ends in row %u of %u", run.y,
                          bmp.height);
    }
    if (reply->status == STATUS_OK)
        send_rows(&bmp, call, source.bytes + bmp.pixels_at, indices, region);
    free(indices);
}

static bool can(bool writes)
{
    return !writes;
}

const struct confined_codec confined_bmp = {.can = can, .probe = bmp_probe, .decode = bmp_decode};
