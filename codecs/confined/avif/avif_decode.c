/* avif_decode.c - reads the header of an AVIF, and decodes its pixels (avif.h). */
#ifdef GPUIMGD_AVIF

#include <string.h>

#include "codecs/confined/avif/avif.h"
#include "codecs/confined/geometry.h"
#include "conf/format.h"

/* Translates a failure of libavif. where: "in its header". */
static void refuse(const avifDecoder *decoder, avifResult result, const char *where,
                   struct codec_reply *reply)
{
    const char *detail = decoder->diag.error;
    enum status status = STATUS_DECODE_FAILED;
    size_t frames = avif_take_refused_frames();
    if (frames > 0) {
        confined_fail(reply, STATUS_DECODE_LIMIT, "an image of the AVIF has %zu frames; at most %d",
                      frames, AVIF_FRAMES_MAX);
        return;
    }
    if (strstr(detail, "imageCountLimit")) {
        confined_fail(reply, STATUS_DECODE_LIMIT, "the AVIF has more than %d images",
                      AVIF_IMAGES_MAX);
        return;
    }
    if (result == AVIF_RESULT_OUT_OF_MEMORY)
        status = STATUS_OUT_OF_MEMORY;
    else if (strstr(detail, "too large") && !strstr(detail, "box too large"))
        status = STATUS_IMAGE_TOO_LARGE;
    else if (result == AVIF_RESULT_NOT_IMPLEMENTED || result == AVIF_RESULT_UNSUPPORTED_DEPTH)
        status = STATUS_UNSUPPORTED_FORMAT;
    confined_fail(reply, status, "the AVIF cannot be decoded, %s: %s%s%s", where,
                  avifResultToString(result), *detail ? ": " : "", detail);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Width and height in a box "ispe" (image spatial extents). */
struct sides {
    uint32_t width, height;
};

/* What the header says about the AV1 streams of the file. */
struct streams {
    uint64_t count;       /* streams of cells of a grid, alpha planes and thumbnails, too */
    struct sides most[2]; /* the largest sides, and the next smaller ones */
};

/* The file, as libavif reads it. */
struct source {
    avifIO io; /* first, because on_read casts its pointer to struct source */
    struct confined_source file;
    bool is_open; /* libavif has read the header */
    struct streams streams;
};

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t area(struct sides sides)
{
    return (uint64_t)sides.width * sides.height;
}

static bool are_equal(struct sides one, struct sides other)
{
    return one.width == other.width && one.height == other.height;
}

static void add_sides(struct streams *streams, struct sides sides)
{
    struct sides *most = streams->most;
    if (sides.width > SIDE_CEILING || sides.height > SIDE_CEILING || are_equal(sides, most[0]))
        return;
    if (area(sides) > area(most[0])) {
        most[1] = most[0];
        most[0] = sides;
    } else if (area(sides) > area(most[1]))
        most[1] = sides;
}

/* Finds boxes by their names in the bytes that libavif reads. Other bytes may look like a box. Then
 * the estimate of decode_bytes() is too high. */
static void count_streams(struct streams *streams, const uint8_t *at, size_t bytes)
{
    enum { streams_max = 1024, sides_at = 8, ispe_bytes = 16 };
    const uint8_t *end = at + bytes;
    for (const uint8_t *box = at; (box = memmem(box, (size_t)(end - box), "av01", 4)); box += 4)
        streams->count += streams->count < streams_max;
    for (const uint8_t *box = at; (box = memmem(box, (size_t)(end - box), "ispe", 4)); box += 4)
        if (end - box >= ispe_bytes)
            add_sides(streams,
                      (struct sides){read_u32(box + sides_at), read_u32(box + sides_at + 4)});
}

static avifResult on_read(avifIO *io, uint32_t flags, uint64_t offset, size_t size,
                          avifROData *out)
{
    struct source *source = (struct source *)io;
    const uint8_t *bytes = flags == 0 ? confined_read(&source->file, offset, &size) : NULL;
    if (!bytes)
        return AVIF_RESULT_IO_ERROR;
    *out = (avifROData){bytes, size};
    if (!source->is_open)
        count_streams(&source->streams, bytes, size);
    return AVIF_RESULT_OK;
}

static struct source open_source(const struct codec_call *call, const uint8_t *region,
                                 size_t read_max)
{
    return (struct source){
        .io = {.read = on_read, .sizeHint = call->file_bytes, .persistent = AVIF_TRUE},
        .file = confined_open(call, region, read_max)};
}

/* Opens a file and reads its boxes, without decoding pixels. metadata: METADATA_EXIF and
 * METADATA_XMP, to read besides the ICC profile. Accepts files without boxes that old encoders
 * omit, and ignores a wrong box "clap" (AVIF_STRICT_DISABLED). The source must outlive the decoder.
 * The caller destroys the decoder, also after a failure, which is in the reply; NULL: out of
 * memory. */
static avifDecoder *open_decoder(struct source *source, unsigned metadata,
                                 struct codec_reply *reply)
{
    avifDecoder *decoder = avifDecoderCreate();
    if (!decoder) {
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode an AVIF");
        return NULL;
    }
    decoder->maxThreads = 1; /* each worker of the daemon has a process of its own */
    decoder->imageDimensionLimit = SIDE_CEILING;
    decoder->imageCountLimit = AVIF_IMAGES_MAX;
    decoder->strictFlags = AVIF_STRICT_DISABLED;
    decoder->ignoreXMP = !(metadata & METADATA_XMP);
    decoder->ignoreExif = !(metadata & METADATA_EXIF);
    avifDecoderSetIO(decoder, &source->io);
    avifResult result = avifDecoderParse(decoder);
    source->is_open = true;
    if (source->file.is_over)
        confined_fail(reply, STATUS_DECODE_LIMIT,
                      "the AVIF's header has more than %llu bytes of boxes and metadata",
                      CODEC_KEPT_BYTES_MAX);
    else if (result != AVIF_RESULT_OK)
        refuse(decoder, result, "in its header", reply);
    return decoder;
}

/* ---- geometry ------------------------------------------------------------------------------- */

static struct confined_rect crop_of(const avifImage *image)
{
    const avifCleanApertureBox *clap = &image->clap;
    const struct confined_aperture aperture = {.width = {clap->widthN, clap->widthD},
                                               .height = {clap->heightN, clap->heightD},
                                               .x = {clap->horizOffN, clap->horizOffD},
                                               .y = {clap->vertOffN, clap->vertOffD}};
    bool has_clap = (image->transformFlags & AVIF_TRANSFORM_CLAP) != 0;
    return confined_crop(image->width, image->height, has_clap ? &aperture : NULL);
}

static uint32_t orientation_of(const avifImage *image)
{
    bool turned = (image->transformFlags & AVIF_TRANSFORM_IROT) != 0;
    bool mirrored = (image->transformFlags & AVIF_TRANSFORM_IMIR) != 0;
#if AVIF_VERSION_MAJOR >= 1
    int axis = image->imir.axis;
#else
    int axis = image->imir.mode;
#endif
    return confined_orientation(turned ? image->irot.angle : 0,
                                !mirrored   ? CONFINED_PLAIN
                                : axis == 0 ? CONFINED_TOP_BOTTOM
                                            : CONFINED_LEFT_RIGHT);
}

static uint32_t channels_of(const avifDecoder *decoder)
{
    return decoder->alphaPresent                                   ? 4
           : decoder->image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1
                                                                   : 3;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* The samples of Y, Cb and Cr for 2 x 2 pixels. */
static unsigned block_samples(avifPixelFormat format)
{
    switch (format) {
    case AVIF_PIXEL_FORMAT_YUV400:
        return 4;
    case AVIF_PIXEL_FORMAT_YUV420:
        return 6;
    case AVIF_PIXEL_FORMAT_YUV422:
        return 8;
    default:
        return 12;
    }
}

/* dav1d allocates pixels in blocks of this side. */
#define BLOCK 128

static uint64_t in_blocks(uint64_t width, uint64_t height)
{
    return (width + BLOCK - 1) / BLOCK * ((height + BLOCK - 1) / BLOCK) * BLOCK * BLOCK;
}

/* An estimate of the pixels of all AV1 streams together. Cells of a grid are the usual case, so
 * each stream counts with the largest size in the header that is not the size of the whole image.
 * dav1d makes some rows 64 bytes longer: at most a 16th for rows of 1,024 bytes. */
static uint64_t stream_pixels(const struct streams *streams, const avifImage *image)
{
    struct sides all = {image->width, image->height};
    struct sides cell = streams->most[are_equal(streams->most[0], all) ? 1 : 0];
    uint64_t pixels = streams->count * in_blocks(cell.width, cell.height);
    return pixels + pixels / 16;
}

/* The memory that libavif and dav1d need to decode a usual file with this header; a file that needs
 * more fails. It consists of
 * - the image, and one copy of it: the cells of a grid, or the image before film grain is added.
 *   Cells reach beyond the image by less than one row and one column of cells. `most` limits the
 *   copy, and also allows for cells that are smaller than a block of dav1d;
 * - of a sequence, the images that later ones may refer to;
 * - the decoders: libavif 0.11 opens one for each stream, later versions often one for all. With
 *   dav1d 1.0 a decoder was measured to take 390 KiB and half a byte per pixel;
 * - the profile, and a fixed part. */
static uint64_t decode_bytes(const avifDecoder *decoder, const struct streams *streams)
{
    enum { fixed = 8 << 20, stream = 448 << 10, trimmed = 4, references = 8 };
    const avifImage *image = decoder->image;
    uint64_t padded = in_blocks(image->width + BLOCK, image->height + BLOCK), copied = padded;
    uint64_t most = trimmed * padded + streams->count * BLOCK * BLOCK;
    unsigned samples = block_samples(image->yuvFormat) + (decoder->alphaPresent ? 4 : 0);
    uint64_t cells = stream_pixels(streams, image);
    if (cells > padded)
        copied = cells < most ? cells : most;
    uint64_t kept = decoder->imageCount > 1 ? references * padded : 0;
    return (padded + copied + kept) * samples / 4 * (image->depth > 8 ? 2 : 1) + copied / 2 +
           fixed + streams->count * stream + image->icc.size;
}

/* ---- probe ---------------------------------------------------------------------------------- */

static void read_info(const avifDecoder *decoder, const struct streams *streams,
                      struct confined_results results, struct codec_reply *reply)
{
    const avifImage *image = decoder->image;
    struct confined_rect crop = crop_of(image);
    reply->width = crop.width;
    reply->height = crop.height;
    reply->channels = channels_of(decoder);
    reply->may_have_alpha = reply->channels == 4;
    reply->orientation = orientation_of(image);
    reply->is_gray = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400;
    reply->decode_bytes = decode_bytes(decoder, streams);
    reply->frames = (uint32_t)decoder->imageCount;
    if (!confined_give(&results, image->icc.data, image->icc.size, &reply->icc_bytes))
        confined_fail(reply, STATUS_DECODE_LIMIT, "the AVIF's profile has more than %llu bytes",
                      CODEC_METADATA_BYTES_MAX);
    (void)confined_give(&results, image->exif.data, image->exif.size, &reply->exif_bytes);
    (void)confined_give(&results, image->xmp.data, image->xmp.size, &reply->xmp_bytes);
}

/* If the header with its metadata is too large to be read, reads it again without XMP, then also
 * without EXIF. */
void avif_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    const unsigned kinds[] = {call->metadata, call->metadata & METADATA_EXIF, 0};
    struct source source;
    avifDecoder *decoder = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (decoder)
            avifDecoderDestroy(decoder);
        *reply = (struct codec_reply){.kind = CODEC_DONE};
        source = open_source(call, region, CODEC_KEPT_BYTES_MAX);
        decoder = open_decoder(&source, kinds[i], reply);
        if (!source.file.is_over)
            break;
    }
    if (reply->status == STATUS_OK)
        read_info(decoder, &source.streams, confined_results_of(call, region), reply);
    if (decoder)
        avifDecoderDestroy(decoder);
}

/* ---- decode --------------------------------------------------------------------------------- */

/* Scales luma of 8, 10 or 12 bits, of either range, to 8 bits of full range. */
static uint8_t gray_of(unsigned y, const avifImage *image)
{
    unsigned depth = image->depth, most = (1u << depth) - 1;
    unsigned low = 0, span = most;
    if (image->yuvRange == AVIF_RANGE_LIMITED) {
        low = 16u << (depth - 8);
        span = 219u << (depth - 8);
    }
    y = y < low ? 0 : y - low;
    y = y > span ? span : y;
    return (uint8_t)((y * 255 + span / 2) / span);
}

static void convert_gray(const avifImage *image, uint8_t *to)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->yuvPlanes[AVIF_CHAN_Y] +
                             (size_t)y * image->yuvRowBytes[AVIF_CHAN_Y];
        for (uint32_t x = 0; x < image->width; x++)
            *to++ = gray_of(image->depth > 8 ? ((const uint16_t *)row)[x] : row[x], image);
    }
}

static avifResult convert(const avifImage *image, uint32_t channels, uint8_t *to)
{
    avifRGBImage rgb;
    if (channels == 1) {
        convert_gray(image, to);
        return AVIF_RESULT_OK;
    }
    avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.ignoreAlpha = channels == 3;
    rgb.pixels = to;
    rgb.rowBytes = image->width * channels;
    return avifImageYUVToRGB(image, &rgb);
}

/* The image is converted in bands of rows, one at a time, into the window. A band has some rows
 * more than are sent, because the interpolation of chroma also reads the rows above and below. So
 * the pixels are the same as if the whole image were converted at once. */
struct band {
    uint32_t top, bottom; /* rows in the window */
    uint32_t from, to;    /* rows to be sent; from >= top, to <= bottom */
};

static struct band band_at(const avifImage *image, const struct confined_rect *crop,
                           uint32_t channels, uint32_t row)
{
    enum { margin = 2 }; /* with 4:2:0, a row of chroma belongs to two rows of pixels */
    uint32_t most = confined_band_rows(image->width, channels);
    struct band band = {
        .top = 0, .bottom = image->height, .from = row, .to = crop->y + crop->height};
    if (image->height <= most)
        return band;
    band.top = row < margin ? 0 : (row - margin) & ~1u;
    if (image->height - band.top > most)
        band.bottom = band.top + most;
    uint32_t end = band.bottom < image->height ? band.bottom - margin : image->height;
    band.to = band.to < end ? band.to : end;
    return band;
}

static avifResult convert_band(const avifImage *image, const struct band *band, uint32_t channels,
                               uint8_t *window)
{
    const avifCropRect rect = {0, band->top, image->width, band->bottom - band->top};
    avifImage *view = avifImageCreateEmpty();
    if (!view)
        return AVIF_RESULT_OUT_OF_MEMORY;
    avifResult result = avifImageSetViewRect(view, image, &rect);
    if (result == AVIF_RESULT_OK)
        result = convert(view, channels, window);
    avifImageDestroy(view);
    return result;
}

/* Moves the columns of the crop together, in place. Returns the offset of the first row to send. */
static size_t crop_band(const avifImage *image, const struct confined_rect *crop,
                        const struct band *band, uint32_t channels, uint8_t *window)
{
    size_t row_bytes = (size_t)image->width * channels, to_bytes = (size_t)crop->width * channels;
    size_t at = (band->from - band->top) * row_bytes;
    if (crop->width == image->width)
        return at;
    const uint8_t *from = window + at + (size_t)crop->x * channels;
    for (uint32_t row = band->from; row < band->to; row++, from += row_bytes)
        memmove(window + (row - band->from) * to_bytes, from, to_bytes);
    return 0;
}

/* Sends rows of a frame, and what the reply says of it. */
static void offer_of_frame(const struct codec_reply *reply, uint32_t rows, uint64_t at)
{
    confined_ask(&(struct codec_reply){.kind = CODEC_ROWS,
                                       .rows = rows,
                                       .at = at,
                                       .delay_ms = reply->delay_ms,
                                       .plays = reply->plays});
}

/* Sends the rows of the crop to the daemon. The last ones are announced in `reply`, which ends the
 * task, unless it is one of many frames. */
static avifResult send_pixels(const avifImage *image, const struct confined_rect *crop,
                              uint32_t channels, bool is_frame, uint8_t *window,
                              struct codec_reply *reply)
{
    uint32_t end = crop->y + crop->height;
    struct band band;
    for (uint32_t row = crop->y; row < end; row = band.to) {
        band = band_at(image, crop, channels, row);
        avifResult result = convert_band(image, &band, channels, window);
        if (result != AVIF_RESULT_OK)
            return result;
        size_t at = crop_band(image, crop, &band, channels, window);
        if (is_frame)
            offer_of_frame(reply, band.to - band.from, at);
        else
            confined_offer(reply, band.to - band.from, at, band.to == end);
    }
    return AVIF_RESULT_OK;
}

/* Sends an image that was decoded with this result. */
static void give_image(avifDecoder *decoder, avifResult result, const struct codec_call *call,
                       uint8_t *window, struct codec_reply *reply)
{
    const avifImage *image = decoder->image;
    if (result != AVIF_RESULT_OK) {
        refuse(decoder, result, "in its pixels", reply);
        return;
    }
    struct confined_rect crop = crop_of(image);
    if (crop.width != call->width || crop.height != call->height ||
        (call->channels == 1 && image->yuvFormat != AVIF_PIXEL_FORMAT_YUV400)) {
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the AVIF's pixels are not those of its header (%u x %u, %u channels)",
                      call->width, call->height, call->channels);
        return;
    }
    result = send_pixels(image, &crop, call->channels, call->kind == CODEC_FRAMES, window, reply);
    if (result != AVIF_RESULT_OK)
        refuse(decoder, result, "in its colours", reply);
}

void avif_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct source source = open_source(call, region, SIZE_MAX);
    avifDecoder *decoder = open_decoder(&source, 0, reply);
    if (reply->status == STATUS_OK)
        give_image(decoder, avifDecoderNthImage(decoder, call->page), call, region, reply);
    if (decoder)
        avifDecoderDestroy(decoder);
}

/* ---- all images of a sequence --------------------------------------------------------------- */

/* In milliseconds, rounded. */
static uint32_t delay_of(const avifImageTiming *timing)
{
    uint64_t scale = timing->timescale, length = timing->durationInTimescales;
    if (scale == 0 || length > UINT32_MAX)
        return 0; /* uncovered: promise (tests/coverage/reasons.txt) */
    uint64_t delay_ms = (length * 1000 + scale / 2) / scale;
    return delay_ms < UINT32_MAX ? (uint32_t)delay_ms : UINT32_MAX;
}

/* The daemon ends the task after the last image. */
void avif_frames(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct source source = open_source(call, region, SIZE_MAX);
    avifDecoder *decoder = open_decoder(&source, 0, reply);
    uint32_t plays = avif_plays(call, region);
    while (reply->status == STATUS_OK) {
        avifResult result = avifDecoderNextImage(decoder);
        reply->delay_ms = delay_of(&decoder->imageTiming);
        reply->plays = plays;
        give_image(decoder, result, call, region, reply);
    }
    if (decoder)
        avifDecoderDestroy(decoder);
}

#endif
