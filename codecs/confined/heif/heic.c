/*
 * heic.c - reads HEIC with libheif 1.12 and later (confined.h).
 *
 * libheif decodes an image as it is stored, and leaves out the turns, mirrors and crops of its
 * boxes: the daemon applies turns as the orientation, and crops are applied here.
 */
#ifdef GPUIMGD_HEIF

#include <errno.h>
#include <libheif/heif.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/confined/heif/heif_boxes.h"

/* ---- without threads ------------------------------------------------------------------------ */

/* libheif lets libde265 start a thread per decoder. The dynamic linker binds that call to this
 * function of the program, because it looks there first. Without threads, libde265 decodes in the
 * thread that calls it. Returns DE265_OK. */
int de265_start_worker_threads(void *context, int count) __attribute__((visibility("default")));
int de265_start_worker_threads(void *context, int count)
{
    (void)context;
    (void)count;
    return 0;
}

/* ---- the file ------------------------------------------------------------------------------- */

struct input {
    struct confined_source file;
    uint64_t at;
    const struct heif_layout *needed; /* of a probe: skips the data of coded images; else NULL */
};

static int64_t get_position(void *data)
{
    return (int64_t)((struct input *)data)->at;
}

static bool is_needed(const struct heif_layout *layout, uint64_t at, size_t count)
{
    enum { header = 64 };
    bool needed = count <= header;
    for (unsigned i = 0; i < layout->needed_count && !needed; i++) {
        const struct heif_part *part = &layout->needed[i];
        needed = at < part->at ? part->at - at < count : at - part->at < part->bytes;
    }
    return needed;
}

/* libheif 1.15 reads the data of all items when it opens a file, but uses only that of some. */
static int read_bytes(void *to, size_t count, void *data)
{
    struct input *input = data;
    if (input->needed && !is_needed(input->needed, input->at, count) &&
        count <= input->file.size - input->at) {
        memset(to, 0, count);
        input->at += count;
        return 0;
    }
    size_t got = count;
    const uint8_t *bytes = confined_read(&input->file, input->at, &got);
    if (!bytes || got < count)
        return -1;
    if (count > 0) /* else `to` may be NULL */
        memcpy(to, bytes, count);
    input->at += count;
    return 0;
}

static int seek(int64_t position, void *data)
{
    struct input *input = data;
    if (position < 0 || (uint64_t)position > input->file.size)
        return -1;
    input->at = (uint64_t)position;
    return 0;
}

static enum heif_reader_grow_status wait_for_size(int64_t size, void *data)
{
    const struct input *input = data;
    return size >= 0 && (uint64_t)size <= input->file.size
               ? heif_reader_grow_status_size_reached
               : heif_reader_grow_status_size_beyond_eof;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* where: "in its header". */
static void refuse(struct heif_error error, const char *where, struct codec_reply *reply)
{
    enum status status = STATUS_DECODE_FAILED;
    if (error.subcode == heif_suberror_Security_limit_exceeded)
        status = STATUS_DECODE_LIMIT;
    else if (error.code == heif_error_Memory_allocation_error)
        status = STATUS_OUT_OF_MEMORY;
    else if (error.code == heif_error_Unsupported_feature ||
             error.code == heif_error_Unsupported_filetype)
        status = STATUS_UNSUPPORTED_FORMAT;
    confined_fail(reply, status, "the HEIC cannot be decoded, %s: %s", where,
                  *error.message ? error.message : "libheif gives no reason");
}

/* ---- open ----------------------------------------------------------------------------------- */

struct opened {
    struct input input;
    struct heif_context *context;
    struct heif_image_handle *image;
    struct heif_layout layout;
};

static void close_file(struct opened *opened)
{
    if (opened->image)
        heif_image_handle_release(opened->image);
    if (opened->context)
        heif_context_free(opened->context);
}

/* The types of primary images that are read: one HEVC image, or a grid of such. */
static void check_layout(struct opened *opened, struct codec_reply *reply)
{
    const struct heif_layout *layout = &opened->layout;
    struct heif_problem problem = heif_read_layout(&opened->input.file, &opened->layout);
    if (problem.status != STATUS_OK)
        confined_fail(reply, problem.status, "the HEIC cannot be decoded: %s", problem.text);
    else if (strcmp(layout->type, "hvc1") != 0 && strcmp(layout->type, "grid") != 0)
        confined_fail(reply, STATUS_UNSUPPORTED_FORMAT,
                      "the primary image of the HEIF is of the type \"%s\"; gpuimgd reads \"hvc1\" "
                      "and \"grid\"",
                      layout->type);
    else if (layout->sides.width > SIDE_CEILING || layout->sides.height > SIDE_CEILING)
        confined_fail(reply, STATUS_IMAGE_TOO_LARGE,
                      "the HEIC is %u x %u pixels; a side has at most %u", layout->sides.width,
                      layout->sides.height, SIDE_CEILING);
}

/* Reads the boxes. The caller calls close_file, also after a failure, which is in the reply. */
static void open_file(struct opened *opened, const struct codec_call *call, const uint8_t *region,
                      uint64_t read_max, struct codec_reply *reply)
{
    static const struct heif_reader reader = {1, get_position, read_bytes, seek, wait_for_size};
    *opened = (struct opened){.input.file = confined_open(call, region, read_max),
                              .context = heif_context_alloc()};
    if (!opened->context) {
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a HEIC");
        return;
    }
    struct heif_error error = {.code = heif_error_Ok};
    check_layout(opened, reply);
    opened->input.needed = call->kind == CODEC_PROBE ? &opened->layout : NULL;
    if (reply->status == STATUS_OK) {
        heif_context_set_max_decoding_threads(opened->context, 0);
        heif_context_set_maximum_image_size_limit(opened->context, SIDE_CEILING);
        error = heif_context_read_from_reader(opened->context, &reader, &opened->input, NULL);
    }
    if (reply->status == STATUS_OK && error.code == heif_error_Ok)
        error = heif_context_get_primary_image_handle(opened->context, &opened->image);
    if (opened->input.file.is_over)
        confined_fail(reply, STATUS_DECODE_LIMIT,
                      "the HEIC's header has more than %llu bytes of boxes and metadata",
                      CODEC_KEPT_BYTES_MAX);
    else if (error.code != heif_error_Ok)
        refuse(error, "in its header", reply);
}

static bool has_alpha(const struct opened *opened)
{
    return heif_image_handle_has_alpha_channel(opened->image);
}

static uint32_t channels_of(const struct opened *opened)
{
    return has_alpha(opened) ? 4 : opened->layout.chroma == 0 ? 1 : 3;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* libde265 and libheif make rows and columns longer. */
static uint64_t padded(struct heif_sides sides)
{
    enum { border = 64 };
    return ((uint64_t)sides.width + border) * (sides.height + (uint64_t)border);
}

/* The memory that libheif 1.15 and libde265 1.0.11 need at most for a usual file with this header;
 * a file that needs more fails. It is the most of three steps:
 * - An image without tiles, or a tile, is decoded. This was measured to take 5.2 times the samples,
 *   and 6 bytes per pixel for what libde265 knows of blocks.
 * - Its samples are converted to planes of RGB.
 * - All planes are copied to interleaved pixels.
 * In the first two, libheif holds the whole image in planes of RGB if it has tiles, or alpha, which
 * is decoded last. It has the coded bytes up to three times besides the region. */
static uint64_t decode_bytes(const struct opened *opened, uint64_t file_bytes)
{
    enum { fixed = 6 << 20, copies = 6, block_bytes = 6, coded_copies = 3 };
    static const unsigned halves[] = {2, 3, 4, 6}; /* twice the samples per pixel */
    const struct heif_layout *layout = &opened->layout;
    uint64_t depth = layout->depth > 8 ? 2 : 1, alpha = has_alpha(opened);
    uint64_t pixels = padded(layout->sides), tile = padded(layout->tile);
    uint64_t samples = halves[layout->chroma] * depth;
    uint64_t decoded = tile * (copies * samples / 2 + block_bytes);
    uint64_t converted = tile * (samples / 2 + 3 * depth);
    uint64_t interleaved = pixels * depth * 2 * (3 + alpha);
    uint64_t most = decoded > converted ? decoded : converted;
    if (alpha || strcmp(layout->type, "grid") == 0)
        most += pixels * depth * 3;
    most = most > interleaved ? most : interleaved;
    return fixed + most + coded_copies * file_bytes +
           heif_image_handle_get_raw_color_profile_size(opened->image);
}

/* ---- probe ---------------------------------------------------------------------------------- */

static bool is_wanted(const struct heif_image_handle *image, heif_item_id id, const char *kind)
{
    const char *type = heif_image_handle_get_metadata_type(image, id);
    const char *content = heif_image_handle_get_metadata_content_type(image, id);
    return type && strcmp(type, "Exif") == 0 ? kind == type || strcmp(kind, "Exif") == 0
                                             : content && strcmp(content, kind) == 0;
}

/* Gives the first metadata of a kind: "Exif", or a MIME type. EXIF begins with the offset of its
 * TIFF header. false: no memory. */
static bool give_metadata(const struct heif_image_handle *image, const char *kind,
                          struct confined_results *results, uint64_t *to_bytes)
{
    enum { items_max = 64, offset_bytes = 4 };
    heif_item_id ids[items_max];
    int count = heif_image_handle_get_list_of_metadata_block_IDs(image, NULL, ids, items_max);
    size_t skipped = strcmp(kind, "Exif") == 0 ? offset_bytes : 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = heif_image_handle_get_metadata_size(image, ids[i]);
        if (!is_wanted(image, ids[i], kind) || bytes <= skipped || bytes > CODEC_METADATA_BYTES_MAX)
            continue;
        uint8_t *data = malloc(bytes);
        if (!data)
            return false;
        if (heif_image_handle_get_metadata(image, ids[i], data).code == heif_error_Ok) {
            uint32_t offset = skipped ? (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 |
                                            (uint32_t)data[2] << 8 | data[3]
                                      : 0;
            if (offset < bytes - skipped)
                (void)confined_give(results, data + skipped + offset, bytes - skipped - offset,
                                    to_bytes);
        }
        free(data);
        return true;
    }
    return true;
}

/* false: no memory. */
static bool give_profile(const struct heif_image_handle *image, struct confined_results *results,
                         struct codec_reply *reply)
{
    size_t bytes = heif_image_handle_get_raw_color_profile_size(image);
    enum heif_color_profile_type type = heif_image_handle_get_color_profile_type(image);
    if (bytes == 0 ||
        (type != heif_color_profile_type_prof && type != heif_color_profile_type_rICC))
        return true;
    if (bytes > CODEC_METADATA_BYTES_MAX) {
        confined_fail(reply, STATUS_DECODE_LIMIT, "the HEIC's profile has more than %llu bytes",
                      CODEC_METADATA_BYTES_MAX);
        return true;
    }
    uint8_t *data = malloc(bytes);
    if (!data)
        return false;
    if (heif_image_handle_get_raw_color_profile(image, data).code == heif_error_Ok)
        (void)confined_give(results, data, bytes, &reply->icc_bytes);
    free(data);
    return true;
}

static void read_info(const struct opened *opened, const struct codec_call *call, uint8_t *region,
                      struct codec_reply *reply)
{
    const struct heif_layout *layout = &opened->layout;
    struct confined_results results = confined_results_of(call, region);
    reply->width = layout->crop.width;
    reply->height = layout->crop.height;
    reply->channels = channels_of(opened);
    reply->orientation = confined_orientation(layout->turns, layout->mirror);
    reply->is_gray = layout->chroma == 0;
    reply->frames = layout->images;
    reply->decode_bytes = decode_bytes(opened, call->file_bytes);
    if (!give_profile(opened->image, &results, reply) ||
        (call->metadata & METADATA_EXIF &&
         !give_metadata(opened->image, "Exif", &results, &reply->exif_bytes)) ||
        (call->metadata & METADATA_XMP &&
         !give_metadata(opened->image, "application/rdf+xml", &results, &reply->xmp_bytes)))
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory for the metadata of a HEIC");
}

static void probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct opened opened;
    open_file(&opened, call, region, CODEC_KEPT_BYTES_MAX, reply);
    if (reply->status == STATUS_OK)
        read_info(&opened, call, region, reply);
    close_file(&opened);
}

/* ---- decode --------------------------------------------------------------------------------- */

/* The decoded image: interleaved samples of 8 bits, or of more in two bytes. Interleaved ones are
 * big-endian, because libheif makes others from these, by a copy; a plane has the processor's
 * order.
 */
struct samples {
    const uint8_t *at;
    size_t stride;
    uint32_t channels;
    unsigned depth;
    unsigned low, span; /* gray of limited range: the value of black, and the values up to white */
    bool is_wide, is_little;
    bool premultiplied; /* the colours were multiplied by alpha */
};

static uint8_t scaled(unsigned value, const struct samples *samples, bool is_alpha)
{
    unsigned low = is_alpha ? 0 : samples->low;
    unsigned span = is_alpha ? (1u << samples->depth) - 1 : samples->span;
    value = value < low ? 0 : value - low;
    value = value > span ? span : value;
    return (uint8_t)((value * 255 + span / 2) / span);
}

static void divide_by_alpha(uint8_t *pixel)
{
    unsigned alpha = pixel[3];
    for (int c = 0; c < 3; c++) {
        unsigned value = alpha ? (pixel[c] * 255u + alpha / 2) / alpha : 0;
        pixel[c] = (uint8_t)(value > 255 ? 255 : value);
    }
}

static void convert_row(const struct samples *samples, uint32_t x, uint32_t y, uint32_t width,
                        uint8_t *to)
{
    uint32_t channels = samples->channels, count = width * channels;
    const uint8_t *row = samples->at + y * samples->stride;
    for (uint32_t i = 0; i < count; i++) {
        size_t from = (size_t)x * channels + i;
        unsigned value = row[from];
        if (samples->is_wide)
            value = samples->is_little ? row[2 * from] | row[2 * from + 1] << 8
                                       : row[2 * from] << 8 | row[2 * from + 1];
        to[i] = scaled(value, samples, channels == 4 && i % 4 == 3);
    }
    for (uint32_t i = 0; samples->premultiplied && i < count; i += 4)
        divide_by_alpha(to + i);
}

/* Sends the crop of an image to the daemon. */
static void send_pixels(const struct samples *samples, const struct confined_rect *crop,
                        uint8_t *window, struct codec_reply *reply)
{
    size_t row_bytes = (size_t)crop->width * samples->channels;
    uint32_t most = confined_band_rows(crop->width, samples->channels);
    for (uint32_t row = 0, rows; row < crop->height; row += rows) {
        rows = crop->height - row < most ? crop->height - row : most;
        for (uint32_t y = 0; y < rows; y++)
            convert_row(samples, crop->x, crop->y + row + y, crop->width, window + y * row_bytes);
        confined_offer(reply, rows, 0, row + rows == crop->height);
    }
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

static void fit_range(const struct heif_image *image, enum heif_channel plane,
                      struct samples *samples)
{
    struct heif_color_profile_nclx *nclx = NULL;
    samples->low = 0;
    samples->span = (1u << samples->depth) - 1;
    if (plane != heif_channel_Y)
        return; /* libheif has converted the colours */
    if (heif_image_get_nclx_color_profile(image, &nclx).code == heif_error_Ok && nclx &&
        !nclx->full_range_flag) {
        samples->low = 16u << (samples->depth - 8);
        samples->span = 219u << (samples->depth - 8);
    }
    heif_nclx_color_profile_free(nclx);
}

static struct heif_error decode_image(const struct opened *opened, uint32_t channels, bool is_deep,
                                      struct heif_image **image)
{
    bool gray = channels == 1; /* libheif chooses between planes of gray and, in a grid, RGB */
    enum heif_chroma chroma =
        gray            ? heif_chroma_undefined
        : channels == 3 ? is_deep ? heif_chroma_interleaved_RRGGBB_BE : heif_chroma_interleaved_RGB
        : is_deep       ? heif_chroma_interleaved_RRGGBBAA_BE
                        : heif_chroma_interleaved_RGBA;
    struct heif_decoding_options *options = heif_decoding_options_alloc();
    if (!options)
        return (struct heif_error){heif_error_Memory_allocation_error, heif_suberror_Unspecified,
                                   "no memory"};
    options->ignore_transformations = 1;
    options->convert_hdr_to_8bit = !gray && !is_deep;
    struct heif_error error =
        heif_decode_image(opened->image, image,
                          gray ? heif_colorspace_undefined : heif_colorspace_RGB, chroma, options);
    heif_decoding_options_free(options);
    return error;
}

static void send_image(const struct opened *opened, const struct heif_image *image,
                       const struct codec_call *call, uint8_t *window, struct codec_reply *reply)
{
    enum heif_channel plane = call->channels > 1 ? heif_channel_interleaved
                              : heif_image_has_channel(image, heif_channel_Y) ? heif_channel_Y
                                                                              : heif_channel_R;
    const struct heif_layout *layout = &opened->layout;
    int stride = 0, depth = heif_image_get_bits_per_pixel_range(image, plane);
    struct samples samples = {.at = heif_image_get_plane_readonly(image, plane, &stride),
                              .channels = call->channels,
                              .depth = (unsigned)depth};
    if (!samples.at || depth < 8 || depth > 16 ||
        heif_image_get_width(image, plane) != (int)layout->sides.width ||
        heif_image_get_height(image, plane) != (int)layout->sides.height ||
        layout->crop.width != call->width || layout->crop.height != call->height) {
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the HEIC's pixels are not those of its header (%u x %u, %u channels)",
                      call->width, call->height, call->channels);
        return;
    }
    samples.stride = (size_t)stride;
    samples.is_wide = depth > 8;
    samples.is_little = plane != heif_channel_interleaved && is_little_endian();
    samples.premultiplied =
        call->channels == 4 && heif_image_handle_is_premultiplied_alpha(opened->image);
    fit_range(image, plane, &samples);
    send_pixels(&samples, &layout->crop, window, reply);
}

static void decode_pixels(const struct opened *opened, const struct codec_call *call,
                          uint8_t *window, struct codec_reply *reply)
{
    struct heif_image *image = NULL;
    bool is_deep = heif_image_handle_get_luma_bits_per_pixel(opened->image) > 8;
    struct heif_error error = decode_image(opened, call->channels, is_deep, &image);
    /* libheif 1.15 cannot convert all combinations of many bits and alpha. It also says so if
     * memory is short. */
    if (is_deep && error.subcode == heif_suberror_Unsupported_color_conversion && errno != ENOMEM)
        error = decode_image(opened, call->channels, false, &image);
    if (error.code == heif_error_Ok)
        send_image(opened, image, call, window, reply);
    else
        refuse(error, "in its pixels", reply);
    if (image)
        heif_image_release(image);
}

/* A damaged stream may leave pixels unset. M_PERTURB lets malloc clear blocks, so that these are
 * not pieces of another user's image. */
static void decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct opened opened;
    mallopt(M_PERTURB, 0xFF);
    open_file(&opened, call, region, UINT64_MAX, reply);
    if (reply->status == STATUS_OK)
        decode_pixels(&opened, call, region, reply);
    close_file(&opened);
    mallopt(M_PERTURB, 0);
}

/* ---- codec ---------------------------------------------------------------------------------- */

/* Loads libheif's plugins from its own folder, if its decoders are plugins. Later, the process
 * cannot open files. */
static void begin(void)
{
#if LIBHEIF_HAVE_VERSION(1, 13, 0)
    (void)heif_init(NULL);
#endif
}

static bool can(bool writes)
{
    return !writes && heif_have_decoder_for_format(heif_compression_HEVC);
}

const struct confined_codec confined_heic = {
    .begin = begin, .can = can, .probe = probe, .decode = decode};

#endif
