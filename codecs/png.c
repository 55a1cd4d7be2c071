/*
 * png.c - the PNG codec on libpng's low-level API.
 *
 * libpng reports errors by longjmp. Only png_probe, png_decode and png_encode call setjmp. A
 * variable that is used after a longjmp is in struct png_state, because a local variable could have
 * lost its value. Samples are stored as they are: neither gamma nor a colour profile is applied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

#include "codecs/codec_impl.h"

/* The most chunks with text, palettes and unknown data that libpng keeps of a file. */
#define PNG_CHUNKS_MAX 100

#define SIGNATURE_BYTES 8
/* A chunk has its length, type and CRC besides its data. */
#define CHUNK_OVERHEAD 12
/* Size of the IDAT chunks that are written. Their headers and the calls of deflate then cost
 * nothing that can be measured. */
#define IDAT_BYTES (64 * KIB)
/* Up to this compression level, deflate searches only for runs of one byte: set_effort. */
#define PNG_RUNS_LEVEL_MAX 3
/* The name of a chunk with XMP: XMP part 3, 1.1.5. */
#define XMP_NAME "XML:com.adobe.xmp"
/* Room for the position of the decoder in a message. */
#define POSITION_BYTES 80

struct png_state {
    jmp_buf jump;
    png_structp png;
    png_infop info;
    struct error *error;
    bool encoding;
    bool out_of_memory; /* an allocation of libpng has failed: the cause of the next error */
    bool lenient;       /* accept damage that loses no pixel */
    bool has_all_rows;  /* the rest of the file is read only to find errors in it */
    const uint8_t *bytes;
    size_t length, at;        /* of the file; at: offset of the next byte that libpng reads */
    uint64_t deadline_ns;     /* of decoding */
    uint32_t rows, rows_done; /* rows is 0 until libpng has read the header */
    int pass, passes;         /* of an interlaced image; else one pass */
    struct codec_sink *sink;
    size_t used;              /* bytes in the sink's buffer */
};

/* ---- errors and memory ---- */

static const char *position(const struct png_state *state, char text[POSITION_BYTES])
{
    if (state->rows == 0)
        return "in its header";
    if (state->passes > 1)
        snprintf(text, POSITION_BYTES, "after %u of %u rows of pass %d of %d", state->rows_done,
                 state->rows, state->pass + 1, state->passes);
    else
        snprintf(text, POSITION_BYTES, "after %u of %u rows", state->rows_done, state->rows);
    return text;
}

/* For an error after the last row: ends a lenient decode successfully. */
static void accept_end(struct png_state *state)
{
    if (state->lenient && state->has_all_rows)
        longjmp(state->jump, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp message)
{
    struct png_state *state = png_get_error_ptr(png);
    enum status status = state->out_of_memory ? STATUS_OUT_OF_MEMORY
                         : state->encoding    ? STATUS_ENCODE_FAILED
                                              : STATUS_DECODE_FAILED;
    char text[POSITION_BYTES];
    /* An error in the compressed rows is never accepted: it may mean that rows are wrong. */
    if (status == STATUS_DECODE_FAILED && strncmp(message, "IDAT: ", 6) != 0)
        accept_end(state);
    codec_fail(state, status, "the PNG cannot be %s, %s: %s",
               state->encoding ? "written" : "decoded", position(state, text), message);
}

/* Whether a warning is only about surplus data: after the last row, or after a compressed stream
 * with a correct checksum. */
static bool is_harmless(const char *message)
{
    static const char *const harmless[] = {"Extra compressed data", "Too much image data",
                                           "Too many IDATs found"};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strstr(message, harmless[i]) != NULL)
            return true;
    return false;
}

/* Treats a warning about IDAT chunks as an error, because they have the pixels. libpng only warns
 * about an error of zlib after the last row, but a wrong checksum may mean that rows are wrong. */
static void on_warning(png_structp png, png_const_charp message)
{
    if (strncmp(message, "IDAT: ", 6) == 0 && !is_harmless(message))
        on_error(png, message);
}

/* libpng frees this memory with free(), because it gets no function for that. */
static png_voidp allocate(png_structp png, png_alloc_size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL)
        ((struct png_state *)png_get_mem_ptr(png))->out_of_memory = true;
    return memory;
}

/* Fails if an allocation has failed. libpng itself then only drops chunks without pixels, for
 * example the colour profile, so that the output would have wrong colours. */
static void check_memory(struct png_state *state)
{
    if (state->out_of_memory)
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for all chunks of a PNG");
}

static void stop_late_decode(struct png_state *state)
{
    char text[POSITION_BYTES];
    if (codec_late(state->deadline_ns))
        codec_fail(state, STATUS_DECODE_LIMIT, "the deadline for decoding passed %s",
                   position(state, text));
}

/* ---- the source: one block of memory ---- */

static void source_read(png_structp png, png_bytep to, size_t count)
{
    struct png_state *state = png_get_io_ptr(png);
    char text[POSITION_BYTES];
    if (count > state->length - state->at) {
        accept_end(state);
        codec_fail(state, STATUS_DECODE_FAILED, "the PNG's data ends %s (at byte %zu)%s",
                   position(state, text), state->length,
                   state->has_all_rows ? ": it has no complete IEND chunk" : "");
    }
    memcpy(to, state->bytes + state->at, count);
    size_t piece = state->at / CODEC_BYTES_PER_CHECK;
    state->at += count;
    if (state->at / CODEC_BYTES_PER_CHECK != piece)
        stop_late_decode(state);
}

/* Returns the data of the first chunk of a type before IEND, or NULL. Skips chunks with a wrong
 * CRC, with which only a lenient decode succeeds. */
static const uint8_t *find_chunk(const uint8_t *bytes, size_t length, const char *type,
                                 size_t *data_bytes)
{
    size_t at = SIGNATURE_BYTES;
    while (length - at >= CHUNK_OVERHEAD) {
        size_t count = codec_u32(bytes + at);
        if (count > length - at - CHUNK_OVERHEAD || memcmp(bytes + at + 4, "IEND", 4) == 0)
            return NULL;
        if (memcmp(bytes + at + 4, type, 4) == 0 &&
            crc32(0, bytes + at + 4, (uInt)(4 + count)) == codec_u32(bytes + at + 8 + count)) {
            *data_bytes = count;
            return bytes + at + 8;
        }
        at += CHUNK_OVERHEAD + count;
    }
    return NULL;
}

/* Fails because libpng has created no object: memory is short, or the version of libpng differs
 * from that of its header file. */
static _Noreturn void refuse_library(struct png_state *state)
{
    if (state->out_of_memory)
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory to %s a PNG",
                   state->encoding ? "write" : "decode");
    codec_fail(state, STATUS_INTERNAL, "libpng %s refuses calls for version %s",
               png_get_libpng_ver(NULL), PNG_LIBPNG_VER_STRING);
}

/* Reads the file up to the first IDAT chunk. Call only after setjmp(state->jump). libpng skips
 * ancillary chunks, except iCCP if want_icc is true, but checks their CRC; a lenient decode ignores
 * a wrong one. What libpng calls benign errors are warnings: for an invalid profile, it drops the
 * profile and keeps the image. */
static void open_reader(struct png_state *state, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, bool want_icc)
{
    static const png_byte profile[] = "iCCP";
    state->bytes = bytes;
    state->length = length;
    state->deadline_ns = limits->deadline_ns;
    state->lenient = limits->lenient;
    state->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, state, on_error, on_warning,
                                          state, allocate, NULL);
    state->info = state->png != NULL ? png_create_info_struct(state->png) : NULL;
    if (state->info == NULL)
        refuse_library(state);
    png_structp png = state->png;
    png_set_user_limits(png, limits->side_max, limits->side_max);
    png_set_chunk_malloc_max(png, PNG_CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(png, PNG_CHUNKS_MAX);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT,
                       state->lenient ? PNG_CRC_WARN_DISCARD : PNG_CRC_ERROR_QUIT);
    png_set_benign_errors(png, 1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    if (want_icc)
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, profile, 1);
    png_set_read_fn(png, state, source_read);
    png_read_info(png, state->info);
}

/* ---- probe ---- */

/* Whether the file has a tRNS chunk that is in force: if a PLTE chunk follows, libpng drops it. */
static bool has_transparency(const struct png_state *state)
{
    int count = 0;
    return png_get_valid(state->png, state->info, PNG_INFO_tRNS) != 0 &&
           png_get_tRNS(state->png, state->info, NULL, &count, NULL) != 0 && count > 0;
}

static uint32_t channels_of(const struct png_state *state)
{
    int type = png_get_color_type(state->png, state->info);
    if ((type & PNG_COLOR_MASK_ALPHA) != 0 || has_transparency(state))
        return 4;
    return (type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
}

/* Copies the profile. libpng drops invalid ones, and those for other colours than the file's. */
static void read_icc(struct png_state *state, struct image_info *info)
{
    png_charp name;
    int compression;
    png_bytep profile;
    png_uint_32 bytes;
    size_t chunk_bytes;
    check_memory(state);
    /* libpng keeps a profile even if the CRC of its chunk is wrong; find_chunk does not find it. */
    if (state->lenient && !find_chunk(state->bytes, state->length, "iCCP", &chunk_bytes))
        return;
    if (png_get_iCCP(state->png, state->info, &name, &compression, &profile, &bytes) !=
        PNG_INFO_iCCP)
        return;
    if (!codec_keep_icc(profile, bytes, info))
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for a colour profile of %u bytes",
                   bytes);
    codec_fit_icc(info, (png_get_color_type(state->png, state->info) & PNG_COLOR_MASK_COLOR) == 0);
}

/* Copies the XMP packet of an iTXt chunk. `at` is after the name of the chunk: two bytes about
 * compression, a language and a translated name, each with a zero byte, then the packet. A
 * compressed packet is left out: the XMP specification (part 3, 1.1.5) forbids compression. */
static bool keep_xmp(const struct codec_limits *limits, const uint8_t *at, size_t bytes,
                     struct image_info *info)
{
    const uint8_t *end = at + bytes;
    if (bytes < 2 || at[0] != 0)
        return true;
    at += 2;
    for (int i = 0; i < 2; i++) {
        at = memchr(at, 0, (size_t)(end - at));
        if (at == NULL)
            return true;
        at++;
    }
    return codec_keep_xmp(limits, at, (size_t)(end - at), info);
}

static void read_density(const struct png_state *state, struct image_info *info)
{
    enum { chunk_bytes = 9, metre = 1 };
    size_t bytes;
    const uint8_t *chunk = find_chunk(state->bytes, state->length, "pHYs", &bytes);
    if (chunk == NULL || bytes != chunk_bytes || chunk[8] != metre)
        return;
    struct image_density density = {codec_u32(chunk), codec_u32(chunk + 4), DENSITY_METRE};
    if (density.x > 0 && density.y > 0)
        info->density = density;
}

/* Copies the first XMP packet. If that is dropped, further ones are not read, because each takes
 * time. */
static bool keep_first_xmp(const struct png_state *state, const struct codec_limits *limits,
                           struct image_info *info)
{
    const uint8_t *from = state->bytes, *at;
    size_t rest = state->length, bytes;
    if ((limits->metadata & (METADATA_XMP | METADATA_COPYRIGHT)) == 0)
        return true;
    while ((at = find_chunk(from, rest, "iTXt", &bytes)) != NULL) {
        if (codec_has_bytes(at, bytes, 0, XMP_NAME, sizeof XMP_NAME))
            return keep_xmp(limits, at + sizeof XMP_NAME, bytes - sizeof XMP_NAME, info);
        /* find_chunk begins after a signature, so let one "end" at the next chunk. */
        from = at + bytes + 4 - SIGNATURE_BYTES;
        rest = state->length - (size_t)(from - state->bytes);
    }
    return true;
}

/* The chunks are searched in the whole file: they may come after the pixels, but libpng has read
 * the file only up to the pixels. */
static void read_exif_and_xmp(struct png_state *state, const struct codec_limits *limits,
                              struct image_info *info)
{
    size_t exif_bytes;
    const uint8_t *exif = find_chunk(state->bytes, state->length, "eXIf", &exif_bytes);
    if (exif != NULL)
        info->orientation = exif_orientation(exif, exif_bytes);
    if ((exif != NULL && !codec_keep_exif(limits, exif, exif_bytes, info)) ||
        !keep_first_xmp(state, limits, info))
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for the metadata of a PNG");
}

/* Returns an upper bound on libpng's memory, which never has the whole image: two rows, a
 * transformed row, and the window and tables of zlib. A pixel has at most 8 bytes before it is
 * converted. */
static size_t decoder_bytes(uint32_t width)
{
    enum { fixed_bytes = 128 * 1024, rows = 4, pixel_bytes = 8, row_slack = 128 };
    return fixed_bytes + rows * ((size_t)width * pixel_bytes + row_slack);
}

static void read_info(struct png_state *state, const struct codec_limits *limits,
                      struct image_info *info)
{
    info->width = png_get_image_width(state->png, state->info);
    info->height = png_get_image_height(state->png, state->info);
    /* check_header has checked the size only if IHDR is the first chunk, but libpng also accepts an
     * IHDR after ancillary chunks. */
    if (codec_check_size("PNG", info->width, info->height, limits, state->error) != STATUS_OK)
        return;
    info->channels = channels_of(state);
    info->progressive = png_get_interlace_type(state->png, state->info) != PNG_INTERLACE_NONE;
    info->codec_bytes = decoder_bytes(info->width);
    /* First, because a density in EXIF counts only if there is no other. */
    read_density(state, info);
    read_exif_and_xmp(state, limits, info);
    read_icc(state, info);
}

/* Checks the size before libpng does, because libpng would only report "Invalid IHDR data". An
 * incomplete header is left to libpng, which reports it well. */
static enum status check_header(const uint8_t *bytes, size_t length,
                                const struct codec_limits *limits, struct error *error)
{
    enum { type_at = 12, width_at = 16, height_at = 20, needed = 24 };
    if (length < needed || memcmp(bytes + type_at, "IHDR", 4) != 0)
        return STATUS_OK;
    return codec_check_size("PNG", codec_u32(bytes + width_at), codec_u32(bytes + height_at),
                            limits, error);
}

static enum status png_probe(void *opaque, const uint8_t *bytes, size_t length,
                             const struct codec_limits *limits, struct image_info *info,
                             struct error *error)
{
    struct png_state *state = opaque;
    enum status status = check_header(bytes, length, limits, error);
    if (status != STATUS_OK)
        return status;
    *state = (struct png_state){.error = error};
    if (setjmp(state->jump) == 0) {
        open_reader(state, bytes, length, limits, true);
        read_info(state, limits, info);
    }
    png_destroy_read_struct(&state->png, &state->info, NULL);
    return error->status;
}

/* ---- decode ---- */

/* Converts to 8-bit gray, RGB or RGBA. Samples of 16 bits are rounded to nearest. */
static void set_transforms(struct png_state *state, uint32_t channels)
{
    int type = png_get_color_type(state->png, state->info);
    if (png_get_bit_depth(state->png, state->info) == 16)
        png_set_scale_16(state->png);
    png_set_expand(state->png);
    if (channels == 4 && (type & PNG_COLOR_MASK_COLOR) == 0)
        png_set_gray_to_rgb(state->png);
    state->passes = png_set_interlace_handling(state->png);
    png_read_update_info(state->png, state->info);
}

static void decode_rows(struct png_state *state, const struct image *dst)
{
    set_transforms(state, dst->channels);
    if (png_get_rowbytes(state->png, state->info) != (size_t)dst->width * dst->channels ||
        png_get_image_height(state->png, state->info) != dst->height)
        /* uncovered: net (tests/coverage/reasons.txt) */
        codec_fail(state, STATUS_INTERNAL, "the PNG is no longer the probed file (%u x %u pixels)",
                   dst->width, dst->height);
    state->rows = dst->height;
    for (state->pass = 0; state->pass < state->passes; state->pass++)
        for (state->rows_done = 0; state->rows_done < dst->height; state->rows_done++) {
            png_read_row(state->png, dst->pixels + state->rows_done * dst->stride, NULL);
            if (state->rows_done % CODEC_ROWS_PER_CHECK == 0)
                stop_late_decode(state);
        }
    state->pass = state->passes - 1; /* for messages about chunks after the pixels */
    state->has_all_rows = true;
    png_read_end(state->png, NULL);
}

static enum status png_decode(void *opaque, const uint8_t *bytes, size_t length,
                              const struct image_info *info, const struct decode_request *request,
                              const struct codec_limits *limits, const struct image *dst,
                              struct error *error)
{
    (void)info, (void)request; /* the file alone determines the channels */
    struct png_state *state = opaque;
    *state = (struct png_state){.error = error};
    if (setjmp(state->jump) == 0) {
        open_reader(state, bytes, length, limits, false);
        decode_rows(state, dst);
    }
    png_destroy_read_struct(&state->png, &state->info, NULL);
    return error->status;
}

/* ---- encode ---- */

static void sink_flush(struct png_state *state)
{
    enum status status = state->sink->flush(state->sink, state->used, state->error);
    if (status != STATUS_OK)
        codec_fail(state, status, "the PNG could not be written after %llu bytes",
                   (unsigned long long)state->sink->total);
    state->sink->total += state->used;
    state->used = 0;
}

static void sink_write(png_structp png, png_bytep bytes, size_t count)
{
    struct png_state *state = png_get_io_ptr(png);
    while (count > 0) {
        size_t part = state->sink->capacity - state->used;
        if (part > count)
            part = count;
        memcpy(state->sink->buffer + state->used, bytes, part);
        state->used += part;
        bytes += part;
        count -= part;
        if (state->used == state->sink->capacity)
            sink_flush(state);
    }
}

static void sink_no_flush(png_structp png) /* uncovered: promise */
{
    (void)png; /* sink_write flushes full buffers, and write_rows the last one */
}

/* Levels 1 to PNG_RUNS_LEVEL_MAX use the Paeth filter and search only for runs of one byte, because
 * filtered photographs and edges have almost no other repetitions. This takes half the time of
 * zlib's usual search at these levels. Photographs get smaller, and drawings no larger (`make
 * bench-png BENCH=curve`). */
static void set_effort(png_structp png, int compression)
{
    bool runs = compression >= 1 && compression <= PNG_RUNS_LEVEL_MAX;
    png_set_compression_level(png, compression);
    if (runs)
        png_set_compression_strategy(png, Z_RLE);
    png_set_filter(png, PNG_FILTER_TYPE_BASE,
                   compression == 0 ? PNG_FILTER_NONE : runs ? PNG_FILTER_PAETH : PNG_ALL_FILTERS);
}

/* Whether libpng would accept the profile; if not, the output gets none. libpng 1.6.47 and later
 * refuse to write an image with a bad profile; earlier versions leave the profile out. */
static bool can_write_profile(const uint8_t *icc, size_t bytes)
{
    enum { version_at = 8 };
    return codec_icc_is_rgb(icc, bytes) && (icc[version_at] < 4 || bytes % 4 == 0);
}

static void open_writer(struct png_state *state, const struct image *src,
                        const struct encode_request *request)
{
    static const int types[] = {[1] = PNG_COLOR_TYPE_GRAY, [3] = PNG_COLOR_TYPE_RGB,
                                [4] = PNG_COLOR_TYPE_RGB_ALPHA};
    state->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, state, on_error, on_warning,
                                           state, allocate, NULL);
    state->info = state->png != NULL ? png_create_info_struct(state->png) : NULL;
    if (state->info == NULL)
        refuse_library(state);
    png_structp png = state->png;
    png_set_user_limits(png, SIDE_CEILING, SIDE_CEILING);
    png_set_write_fn(png, state, sink_write, sink_no_flush);
    set_effort(png, request->encoder.compression);
    png_set_compression_buffer_size(png, IDAT_BYTES);
    png_set_IHDR(png, state->info, src->width, src->height, 8, types[src->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_benign_errors(png, 1);
    struct image_density density;
    if (codec_convert_density(&request->density, DENSITY_METRE, PNG_UINT_31_MAX, &density))
        png_set_pHYs(png, state->info, density.x, density.y, PNG_RESOLUTION_METER);
    if (request->icc != NULL && src->channels >= 3 &&
        can_write_profile(request->icc, request->icc_bytes))
        png_set_iCCP(png, state->info, "icc", PNG_COMPRESSION_TYPE_BASE, request->icc,
                     (png_uint_32)request->icc_bytes);
}

/* Writes EXIF and XMP. Call it before the pixels are written: EXIF must precede them. */
static void write_metadata(struct png_state *state, const struct encode_request *request)
{
    static const png_byte exif[] = "eXIf", text[] = "iTXt";
    /* The name, then zero bytes: no compression, no language, no translated name. */
    static const png_byte head[sizeof XMP_NAME + 4] = XMP_NAME;
    if (request->exif != NULL)
        png_write_chunk(state->png, exif, request->exif, request->exif_bytes);
    if (request->xmp == NULL)
        return;
    png_write_chunk_start(state->png, text, (png_uint_32)(sizeof head + request->xmp_bytes));
    png_write_chunk_data(state->png, head, sizeof head);
    png_write_chunk_data(state->png, request->xmp, request->xmp_bytes);
    png_write_chunk_end(state->png);
}

static void write_rows(struct png_state *state, const struct image *src,
                       const struct encode_request *request)
{
    state->rows = src->height;
    for (; state->rows_done < src->height; state->rows_done++) {
        png_write_row(state->png, src->pixels + state->rows_done * src->stride);
        if (state->rows_done % CODEC_ROWS_PER_CHECK == 0 && codec_late(request->deadline_ns))
            codec_fail(state, STATUS_TIMEOUT,
                       "the deadline for encoding passed after %u of %u rows",
                       state->rows_done + 1, state->rows);
    }
    png_write_end(state->png, state->info);
    if (state->used > 0)
        sink_flush(state);
    check_memory(state);
}

static enum status png_encode(void *opaque, const struct image *src,
                              const struct encode_request *request, struct codec_sink *sink,
                              struct error *error)
{
    struct png_state *state = opaque;
    *state = (struct png_state){.error = error, .encoding = true, .sink = sink};
    if (setjmp(state->jump) == 0) {
        open_writer(state, src, request);
        png_write_info(state->png, state->info);
        write_metadata(state, request);
        write_rows(state, src, request);
    }
    png_destroy_write_struct(&state->png, &state->info);
    return error->status;
}

/* Returns an upper bound for pixels that cannot be compressed. deflate adds 5 bytes per 16 KiB, and
 * each IDAT chunk CHUNK_OVERHEAD: together less than 1/1024 of the data. */
static size_t png_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                const struct encoder_settings *settings)
{
    (void)settings;
    size_t rows = ((size_t)width * channels + 1) * height;
    return rows + rows / 1024;
}

static bool png_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "\x89PNG\r\n\x1A\n", SIGNATURE_BYTES);
}

const struct codec codec_png = {
    .sniff = png_sniff,
    .state_bytes = sizeof(struct png_state),
    .probe = png_probe,
    .decode = png_decode,
    .encode = png_encode,
    .encoded_bytes = png_encoded_bytes,
};
