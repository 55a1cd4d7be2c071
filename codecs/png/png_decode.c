/* png_decode.c - reads PNGs with libpng, and the usual ones around it (png_stream.h). */
#include <endian.h>

#include "codecs/png/apng_parts.h"
#include "codecs/png/png_stream.h"

/* The most chunks with text, palettes and unknown data that libpng keeps of a file. */
#define CHUNKS_MAX 100
/* How often the deadline is checked while libpng reads the file. A chunk takes at least three
 * reads, and one of a few KiB may be a profile of 4 MiB. */
#define READS_PER_CHECK 16

static void stop_late_decode(struct png_state *state)
{
    char text[PNG_POSITION_BYTES];
    if (codec_late(state->deadline_ns))
        codec_fail(state, STATUS_DECODE_LIMIT, "the deadline for decoding passed %s",
                   png_position(state, text));
}

/* ---- the source: one block of memory ---- */

static void source_read(png_structp png, png_bytep to, size_t count)
{
    struct png_state *state = png_get_io_ptr(png);
    char text[PNG_POSITION_BYTES];
    if (count > state->length - state->at) {
        png_accept_end(state);
        codec_fail(state, STATUS_DECODE_FAILED, "the PNG's data ends %s (at byte %zu)%s",
                   png_position(state, text), state->length,
                   state->has_all_rows ? ": it has no complete IEND chunk" : "");
    }
    memcpy(to, state->bytes + state->at, count);
    size_t piece = state->at / CODEC_BYTES_PER_CHECK;
    state->at += count;
    if (++state->reads % READS_PER_CHECK == 0 || state->at / CODEC_BYTES_PER_CHECK != piece)
        stop_late_decode(state);
}

/* Returns the data of the first chunk of a type before IEND, or NULL. Skips chunks with a wrong
 * CRC, with which only a lenient decode succeeds. */
static const uint8_t *find_chunk(const uint8_t *bytes, size_t length, const char *type,
                                 size_t *data_bytes)
{
    size_t at = PNG_SIGNATURE_BYTES;
    while (length - at >= PNG_CHUNK_OVERHEAD) {
        size_t count = codec_u32(bytes + at);
        if (count > length - at - PNG_CHUNK_OVERHEAD || memcmp(bytes + at + 4, "IEND", 4) == 0)
            return NULL;
        if (memcmp(bytes + at + 4, type, 4) == 0 &&
            crc32(0, bytes + at + 4, (uInt)(4 + count)) == codec_u32(bytes + at + 8 + count)) {
            *data_bytes = count;
            return bytes + at + 8;
        }
        at += PNG_CHUNK_OVERHEAD + count;
    }
    return NULL;
}

/* libpng skips ancillary chunks, except iCCP if want_icc is true, but checks their CRC; a lenient
 * decode ignores a wrong one. What libpng calls benign errors are warnings: for an invalid profile,
 * it drops the profile and keeps the image. */
void png_open_reader(struct png_state *state, const uint8_t *bytes, size_t length,
                     const struct codec_limits *limits, bool want_icc)
{
    static const png_byte profile[] = "iCCP";
    state->bytes = bytes;
    state->length = length;
    state->deadline_ns = limits->deadline_ns;
    state->lenient = limits->lenient;
    state->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, state, png_on_error,
                                          png_on_warning, state, png_allocate, NULL);
    state->info = state->png != NULL ? png_create_info_struct(state->png) : NULL;
    if (state->info == NULL)
        png_refuse_library(state);
    png_structp png = state->png;
    png_set_user_limits(png, limits->side_max, limits->side_max);
    png_set_chunk_malloc_max(png, PNG_CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(png, CHUNKS_MAX);
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
    png_check_memory(state);
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
        if (codec_has_bytes(at, bytes, 0, PNG_XMP_NAME, sizeof PNG_XMP_NAME))
            return keep_xmp(limits, at + sizeof PNG_XMP_NAME, bytes - sizeof PNG_XMP_NAME, info);
        /* find_chunk begins after a signature, so let one "end" at the next chunk. */
        from = at + bytes + 4 - PNG_SIGNATURE_BYTES;
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

/* Returns the data of the chunk acTL, or NULL. It makes the file an APNG if it is before the
 * pixels: libpng has read the file up to them. */
static const uint8_t *find_control(const struct png_state *state)
{
    enum { chunk_bytes = 8 };
    size_t bytes;
    const uint8_t *chunk = find_chunk(state->bytes, state->at, "acTL", &bytes);
    return chunk && bytes == chunk_bytes ? chunk : NULL;
}

uint32_t png_count_plays(const struct png_state *state)
{
    const uint8_t *control = find_control(state);
    return control ? codec_u32(control + 4) : 1;
}

/* Returns an upper bound on the memory, which never has the whole image. libpng's: two rows, a
 * transformed row, and the window and tables of zlib. A pixel has at most 8 bytes before it is
 * converted. */
static size_t decoder_bytes(const struct png_state *state, const struct image_info *info)
{
    enum { fixed_bytes = 128 * 1024, rows = 4, pixel_bytes = 8, row_slack = 128 };
    size_t stream =
        png_stream_takes(state) ? png_stream_bytes(info->width, info->height, info->channels) : 0;
    return fixed_bytes + rows * ((size_t)info->width * pixel_bytes + row_slack) + stream;
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
    info->deep = png_get_bit_depth(state->png, state->info) == 16;
    info->progressive = png_get_interlace_type(state->png, state->info) != PNG_INTERLACE_NONE;
    info->codec_bytes = decoder_bytes(state, info);
    info->may_have_alpha = limits->finds_alpha && info->channels == 4;
    const uint8_t *control = find_control(state);
    uint32_t frames = control ? codec_u32(control) : 0; /* as it announces */
    info->frames = frames > 0 ? frames : 1;
    if (limits->finds_alpha && frames > 0 && frames <= FRAMES_MAX &&
        apng_measure(state->bytes, state->length, limits, info, state->error) != STATUS_OK)
        return;
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

enum status png_probe(void *opaque, const uint8_t *bytes, size_t length,
                      const struct codec_limits *limits, struct image_info *info,
                      struct error *error)
{
    struct png_state *state = opaque;
    enum status status = check_header(bytes, length, limits, error);
    if (status != STATUS_OK)
        return status;
    *state = (struct png_state){.error = error};
    if (setjmp(state->jump) == 0) {
        png_open_reader(state, bytes, length, limits, true);
        read_info(state, limits, info);
    }
    png_destroy_read_struct(&state->png, &state->info, NULL);
    return error->status;
}

/* ---- decode ---- */

/* Converts to gray, RGB or RGBA. Samples of 16 bits are rounded to 8 to nearest, unless the image
 * is deep. */
static void set_transforms(struct png_state *state, uint32_t channels)
{
    int type = png_get_color_type(state->png, state->info);
    bool is_wide = png_get_bit_depth(state->png, state->info) == 16;
    if (is_wide && !image_is_deep(channels))
        png_set_scale_16(state->png);
    else if (is_wide && htobe16(1) != 1)
        png_set_swap(state->png);
    png_set_expand(state->png);
    if (image_samples(channels) == 4 && (type & PNG_COLOR_MASK_COLOR) == 0)
        png_set_gray_to_rgb(state->png);
    state->passes = png_set_interlace_handling(state->png);
    png_read_update_info(state->png, state->info);
}

static void decode_rows(struct png_state *state, const struct image *dst)
{
    bool is_deep = png_get_bit_depth(state->png, state->info) == 16;
    set_transforms(state, dst->channels);
    if ((image_is_deep(dst->channels) && !is_deep) ||
        png_get_rowbytes(state->png, state->info) != (size_t)dst->width * dst->channels ||
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

/* Returns false if libpng must read the rows. */
static bool decode_stream(struct png_state *state, const struct image *dst)
{
    if (!png_stream_takes(state) || image_is_deep(dst->channels) ||
        png_get_rowbytes(state->png, state->info) != (size_t)dst->width * dst->channels ||
        png_get_image_height(state->png, state->info) != dst->height)
        return false;
    state->rows = dst->height;
    state->passes = 1;
    if (png_stream_read(state, dst))
        return true;
    stop_late_decode(state);
    state->rows = state->rows_done = 0;
    return false;
}

static enum status decode(struct png_state *state, const uint8_t *bytes, size_t length,
                          const struct codec_limits *limits, const struct image *dst,
                          bool by_libpng, struct error *error)
{
    *state = (struct png_state){.error = error};
    if (setjmp(state->jump) == 0) {
        png_open_reader(state, bytes, length, limits, false);
        if (by_libpng || !decode_stream(state, dst))
            decode_rows(state, dst);
    }
    png_destroy_read_struct(&state->png, &state->info, NULL);
    return error->status;
}

/* info and request are not used: the channels of dst say whether it is deep, and the file alone
 * determines all else. */
enum status png_decode(void *state, const uint8_t *bytes, size_t length,
                       const struct image_info *info, const struct decode_request *request,
                       const struct codec_limits *limits, const struct image *dst,
                       struct error *error)
{
    (void)info, (void)request;
    return decode(state, bytes, length, limits, dst, false, error);
}

enum status png_decode_by_libpng(void *state, const uint8_t *bytes, size_t length,
                                 const struct image_info *info,
                                 const struct decode_request *request,
                                 const struct codec_limits *limits, const struct image *dst,
                                 struct error *error)
{
    (void)info, (void)request;
    return decode(state, bytes, length, limits, dst, true, error);
}
