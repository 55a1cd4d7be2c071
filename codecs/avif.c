/*
 * avif.c - the AVIF codec on libavif 0.11 and later.
 *
 * libavif cannot be interrupted. pixels_max bounds the time of a decode and, with the effort, that
 * of an encode; a deadline that passes meanwhile fails the job afterwards. libavif 0.11 calls
 * abort() if an allocation fails, so codec_has_memory asks for all of it first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/avif_items.h"
#include "codecs/codec_impl.h"

#define BRANDS_BYTES_MAX 1024

static bool is_brand(const uint8_t *brand)
{
    return memcmp(brand, "avif", 4) == 0 || memcmp(brand, "avis", 4) == 0;
}

/* ISO/IEC 14496-12: the box ftyp has a major brand, a version, and compatible brands. */
static bool avif_sniff(const uint8_t *bytes, size_t length)
{
    enum { major_at = 8, compatible_at = 16 };
    if (!codec_has_bytes(bytes, length, 4, "ftyp", 4) || length < compatible_at)
        return false;
    size_t end = codec_u32(bytes);
    end = end < length ? end : length;
    end = end < BRANDS_BYTES_MAX ? end : BRANDS_BYTES_MAX;
    for (size_t at = compatible_at; at + 4 <= end; at += 4)
        if (is_brand(bytes + at))
            return true;
    return is_brand(bytes + major_at);
}

#ifndef GPUIMGD_AVIF

static const char *avif_refusal(bool writes)
{
    (void)writes;
    return "this gpuimgd was built without libavif (AVIF=no)";
}

const struct codec codec_avif = {.sniff = avif_sniff, .state_bytes = 1, .refusal = avif_refusal};

#else

#include <avif/avif.h>

/* AV1 streams of a file: cells of a grid, alpha, thumbnails. Each may get a decoder of its own. */
#define STREAMS_MAX 256
#define STREAM_BYTES (2 * MIB)
/* libavif's encoder has the metadata in the image, in its copy of the image, in the items and in
 * the file, whose buffer grows by copies. */
#define METADATA_COPIES 5

static const char *avif_refusal(bool writes)
{
    avifCodecFlags flag = writes ? AVIF_CODEC_FLAG_CAN_ENCODE : AVIF_CODEC_FLAG_CAN_DECODE;
    if (avifCodecName(AVIF_CODEC_CHOICE_AUTO, flag))
        return NULL;
    return writes ? "this libavif has no AV1 encoder; install one built with libaom"
                  : "this libavif has no AV1 decoder; install one built with dav1d";
}

/* ---- probe ---- */

static enum status refuse(const avifDecoder *decoder, avifResult result, const char *where,
                          struct error *error)
{
    const char *detail = decoder->diag.error;
    enum status status = STATUS_DECODE_FAILED;
    if (result == AVIF_RESULT_OUT_OF_MEMORY)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to decode an AVIF");
    if (strstr(detail, "too large") && !strstr(detail, "box too large"))
        status = STATUS_IMAGE_TOO_LARGE;
    else if (result == AVIF_RESULT_NOT_IMPLEMENTED || result == AVIF_RESULT_UNSUPPORTED_DEPTH)
        status = STATUS_UNSUPPORTED_FORMAT;
    return error_set(error, status, "the AVIF cannot be decoded, %s: %s%s%s", where,
                     avifResultToString(result), *detail ? ": " : "", detail);
}

/* A file in memory. libavif copies the profile, EXIF and XMP while it reads the boxes, before the
 * job is admitted, so the bytes that it may read then are limited. */
struct source {
    avifIO io; /* first, so that on_read finds the rest */
    const uint8_t *bytes;
    size_t left; /* that libavif may read */
    bool is_over;
};

static avifResult on_read(avifIO *io, uint32_t flags, uint64_t offset, size_t size,
                          avifROData *out)
{
    struct source *source = (struct source *)io;
    if (flags != 0 || offset > io->sizeHint)
        return AVIF_RESULT_IO_ERROR;
    if (size > io->sizeHint - offset)
        size = (size_t)(io->sizeHint - offset);
    if (size > source->left) {
        source->is_over = true;
        return AVIF_RESULT_IO_ERROR;
    }
    source->left -= size;
    *out = (avifROData){source->bytes + offset, size};
    return AVIF_RESULT_OK;
}

static struct source open_source(const uint8_t *bytes, size_t length, size_t read_max)
{
    return (struct source){.io = {.read = on_read, .sizeHint = length, .persistent = AVIF_TRUE},
                           .bytes = bytes, .left = read_max};
}

/* Opens a file and reads its boxes; libavif has no image in memory yet. The caller destroys the
 * decoder in every case. Boxes that old encoders omit are not required. metadata: METADATA_EXIF and
 * METADATA_XMP, to read besides the profile. The source must outlive the decoder. */
static enum status open_decoder(struct source *source, unsigned metadata, avifDecoder **opened,
                                struct error *error)
{
    avifDecoder *decoder = *opened = avifDecoderCreate();
    if (!decoder)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to decode an AVIF");
    decoder->maxThreads = 1; /* the workers are the parallelism */
    decoder->imageDimensionLimit = SIDE_CEILING;
    decoder->imageCountLimit = AVIF_IMAGES_MAX;
    decoder->strictFlags = AVIF_STRICT_CLAP_VALID;
    decoder->ignoreXMP = !(metadata & METADATA_XMP);
    decoder->ignoreExif = !(metadata & METADATA_EXIF);
    avifDecoderSetIO(decoder, &source->io);
    avifResult result = avifDecoderParse(decoder);
    if (source->is_over)
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the AVIF's header has more than %llu bytes of boxes and metadata",
                         AVIF_KEPT_BYTES_MAX);
    return result == AVIF_RESULT_OK ? STATUS_OK : refuse(decoder, result, "in its header", error);
}

/* Maps irot (quarter turns anticlockwise) and then imir (top and bottom, or left and right, are
 * exchanged) to the orientation of EXIF. If there are none, EXIF itself decides. */
static int orientation_of(const avifImage *image)
{
    enum { none, top_bottom, left_right };
    static const int orientations[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    bool turned = (image->transformFlags & AVIF_TRANSFORM_IROT) != 0;
    bool mirrored = (image->transformFlags & AVIF_TRANSFORM_IMIR) != 0;
#if AVIF_VERSION_MAJOR >= 1
    int axis = image->imir.axis;
#else
    int axis = image->imir.mode;
#endif
    if (!turned && !mirrored)
        return exif_orientation(image->exif.data, image->exif.size);
    return orientations[turned ? image->irot.angle % 4 : 0]
                       [!mirrored ? none : axis == 0 ? top_bottom : left_right];
}

/* Returns an upper bound on the number of AV1 streams: each item or track has this type. */
static size_t count_streams(const uint8_t *bytes, size_t length)
{
    size_t count = 0;
    const uint8_t *end = bytes + length, *at = bytes;
    while ((at = memmem(at, (size_t)(end - at), "av01", 4)) != NULL) {
        at += 4;
        count++;
    }
    return count;
}

/* Returns an upper bound on the memory of libavif and the AV1 decoder for an image of 12 bits
 * without subsampling: the frame, a second one with film grain, and in a grid the cells too. Frames
 * are padded to blocks of 128. A decode copies the profile, too, and joins extents. */
static size_t decoder_bytes(const avifDecoder *decoder, size_t streams, uint64_t joined)
{
    enum { block = 128, deep_bytes = 2, frames = 3, alpha_planes = 1, planes = 3 };
    size_t across = (decoder->image->width + 2 * block) / block * block;
    size_t down = (decoder->image->height + 2 * block) / block * block;
    size_t samples = across * down * (planes + (decoder->alphaPresent ? alpha_planes : 0));
    return samples * deep_bytes * frames + streams * STREAM_BYTES + decoder->image->icc.size +
           (size_t)joined;
}

static enum status read_metadata(const avifImage *image, const struct codec_limits *limits,
                                 struct image_info *info, struct error *error)
{
    const avifRWData *icc = &image->icc, *exif = &image->exif, *xmp = &image->xmp;
    info->orientation = orientation_of(image);
    if ((icc->size > 0 && !codec_keep_icc(icc->data, icc->size, info)) ||
        (exif->size > 0 && !codec_keep_exif(limits, exif->data, exif->size, info)) ||
        (xmp->size > 0 && !codec_keep_xmp(limits, xmp->data, xmp->size, info)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of an AVIF");
    codec_fit_icc(info, image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400);
    return STATUS_OK;
}

static enum status read_info(const avifDecoder *decoder, size_t streams, uint64_t joined,
                             const struct codec_limits *limits, struct image_info *info,
                             struct error *error)
{
    const avifImage *image = decoder->image;
    if (codec_check_size("AVIF", image->width, image->height, limits, error) != STATUS_OK)
        return error->status;
    if (image->width == 0 || image->height == 0)
        return error_set(error, STATUS_DECODE_FAILED, "the AVIF is %u x %u pixels", image->width,
                         image->height);
    if (streams > STREAMS_MAX)
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the AVIF has %zu AV1 streams; at most %d are allowed", streams,
                         STREAMS_MAX);
    info->width = image->width;
    info->height = image->height;
    info->channels = decoder->alphaPresent                          ? 4
                     : image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1
                                                                    : 3;
    info->codec_bytes = decoder_bytes(decoder, streams, joined);
    return read_metadata(image, limits, info, error);
}

/* Opens a file for its header. EXIF may have the orientation. If the metadata is too large, XMP is
 * left out, and then EXIF. */
static enum status open_header(struct source *source, const uint8_t *bytes, size_t length,
                               unsigned wanted, avifDecoder **decoder, struct error *error)
{
    const unsigned kinds[] = {METADATA_EXIF | wanted, METADATA_EXIF, 0};
    size_t read_max = length < AVIF_KEPT_BYTES_MAX ? length : AVIF_KEPT_BYTES_MAX;
    /* libavif joins the parts of EXIF and XMP before it copies them. */
    if (!codec_has_memory(2 * read_max))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to decode an AVIF");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (*decoder)
            avifDecoderDestroy(*decoder);
        *error = (struct error){0};
        *source = open_source(bytes, length, AVIF_KEPT_BYTES_MAX);
        open_decoder(source, kinds[i], decoder, error);
        if (!source->is_over)
            break;
    }
    return error->status;
}

static enum status avif_probe(void *state, const uint8_t *bytes, size_t length,
                              const struct codec_limits *limits, struct image_info *info,
                              struct error *error)
{
    struct source source;
    avifDecoder *decoder = NULL;
    uint64_t joined;
    (void)state;
    if (avif_measure_items(bytes, length, &joined, error) == STATUS_OK &&
        open_header(&source, bytes, length, limits->metadata, &decoder, error) == STATUS_OK)
        read_info(decoder, count_streams(bytes, length), joined, limits, info, error);
    if (decoder)
        avifDecoderDestroy(decoder);
    return error->status;
}

/* ---- decode ---- */

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

static void copy_gray(const avifImage *image, const struct image *dst)
{
    const uint8_t *plane = image->yuvPlanes[AVIF_CHAN_Y];
    for (uint32_t y = 0; y < dst->height; y++) {
        const uint8_t *row = plane + (size_t)y * image->yuvRowBytes[AVIF_CHAN_Y];
        uint8_t *to = dst->pixels + y * dst->stride;
        for (uint32_t x = 0; x < dst->width; x++)
            to[x] = gray_of(image->depth > 8 ? ((const uint16_t *)row)[x] : row[x], image);
    }
}

static avifResult copy_colours(const avifImage *image, const struct image *dst)
{
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = dst->channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.ignoreAlpha = dst->channels == 3;
    rgb.pixels = dst->pixels;
    rgb.rowBytes = (uint32_t)dst->stride;
    return avifImageYUVToRGB(image, &rgb);
}

static enum status decode_pixels(avifDecoder *decoder, const struct image *dst,
                                 struct error *error)
{
    const avifImage *image = decoder->image;
    /* The AV1 data may be of another size than the boxes say. */
    uint32_t block = 128, across = (dst->width + block - 1) / block * block;
    uint64_t samples = (uint64_t)across * ((dst->height + block - 1) / block * block);
    if (samples < decoder->imageSizeLimit)
        decoder->imageSizeLimit = (uint32_t)samples;
    avifResult result = avifDecoderNextImage(decoder);
    if (result != AVIF_RESULT_OK)
        return refuse(decoder, result, "in its pixels", error);
    if (image->width != dst->width || image->height != dst->height ||
        (dst->channels == 1 && image->yuvFormat != AVIF_PIXEL_FORMAT_YUV400))
        return error_set(error, STATUS_DECODE_FAILED,
                         "the AVIF's pixels are not those of its header (%u x %u, %u channels)",
                         dst->width, dst->height, dst->channels);
    if (dst->channels == 1)
        copy_gray(image, dst);
    else
        result = copy_colours(image, dst);
    return result == AVIF_RESULT_OK ? STATUS_OK : refuse(decoder, result, "in its colours", error);
}

static enum status avif_decode(void *state, const uint8_t *bytes, size_t length,
                               const struct image_info *info, const struct decode_request *request,
                               const struct codec_limits *limits, const struct image *dst,
                               struct error *error)
{
    struct source source = open_source(bytes, length, SIZE_MAX);
    avifDecoder *decoder = NULL;
    (void)state, (void)request; /* the file alone determines the channels */
    if (!codec_has_memory(info->codec_bytes))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to decode an AVIF");
    if (open_decoder(&source, 0, &decoder, error) == STATUS_OK)
        decode_pixels(decoder, dst, error);
    if (decoder)
        avifDecoderDestroy(decoder);
    if (error->status == STATUS_OK && codec_late(limits->deadline_ns))
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the deadline for decoding passed while libavif ran");
    return error->status;
}

/* ---- encode ---- */

/* With a profile, the primaries are the profile's. libavif copies the orientation of EXIF to irot
 * and imir, but pixels that still need it have it in EXIF alone, as in the other formats. */
static bool set_metadata(avifImage *image, const struct image *src,
                         const struct encode_request *request)
{
    bool profile = request->icc && src->channels >= 3 &&
                   codec_icc_is_rgb(request->icc, request->icc_bytes);
    if (profile) {
        image->colorPrimaries = AVIF_COLOR_PRIMARIES_UNSPECIFIED;
        image->transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_UNSPECIFIED;
        (void)avifImageSetProfileICC(image, request->icc, request->icc_bytes);
    }
    if (request->exif)
        (void)avifImageSetMetadataExif(image, request->exif, request->exif_bytes);
    if (request->xmp)
        (void)avifImageSetMetadataXMP(image, request->xmp, request->xmp_bytes);
    image->transformFlags = AVIF_TRANSFORM_NONE;
    /* libavif 1 returns failures, 0.11 aborts. */
    return image->icc.size == (profile ? request->icc_bytes : 0) &&
           image->exif.size == (request->exif ? request->exif_bytes : 0) &&
           image->xmp.size == (request->xmp ? request->xmp_bytes : 0);
}

/* Sets the format of the file: 4:2:0 like the other lossy formats here, and BT.601 with the full
 * range like JPEG. */
static enum status fill_image(avifImage *image, const struct image *src,
                              const struct encode_request *request)
{
    avifRGBImage rgb;
    image->yuvRange = AVIF_RANGE_FULL;
    image->colorPrimaries = AVIF_COLOR_PRIMARIES_BT709;
    image->transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
    image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT601;
    if (!set_metadata(image, src, request))
        return STATUS_OUT_OF_MEMORY;
    if (src->channels == 1) { /* no copy: libavif only reads the plane */
        image->yuvPlanes[AVIF_CHAN_Y] = src->pixels;
        image->yuvRowBytes[AVIF_CHAN_Y] = (uint32_t)src->stride;
        image->imageOwnsYUVPlanes = AVIF_FALSE;
        return STATUS_OK;
    }
    avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = src->channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.pixels = src->pixels;
    rgb.rowBytes = (uint32_t)src->stride;
    return avifImageRGBToYUV(image, &rgb) == AVIF_RESULT_OK ? STATUS_OK : STATUS_OUT_OF_MEMORY;
}

/* quality is the scale of avifenc: the quantizers 63 to 0. Alpha is lossless. */
static void set_encoder(avifEncoder *encoder, const struct encoder_settings *settings)
{
    int quantizer = ((100 - settings->quality) * AVIF_QUANTIZER_WORST_QUALITY + 50) / 100;
    encoder->maxThreads = 1;
    encoder->minQuantizer = encoder->maxQuantizer = quantizer;
    encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = AVIF_QUANTIZER_LOSSLESS;
    encoder->speed = AVIF_SPEED_FASTEST - settings->effort;
    if (avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_ENCODE))
        encoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
}

static enum status put_file(const avifRWData *file, struct codec_sink *sink, struct error *error)
{
    size_t used = 0;
    bool ok = codec_put(sink, &used, file->data, file->size, "AVIF", error) &&
              codec_put_end(sink, &used, "AVIF", error);
    return ok ? STATUS_OK : error->status;
}

static enum status write_image(avifEncoder *encoder, avifImage *image, const struct image *src,
                               const struct encode_request *request, struct codec_sink *sink,
                               struct error *error)
{
    avifRWData file = AVIF_DATA_EMPTY;
    if (!encoder || !image || fill_image(image, src, request) != STATUS_OK)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to write an AVIF of %u x %u "
                         "pixels", src->width, src->height);
    set_encoder(encoder, &request->encoder);
    avifResult result = avifEncoderWrite(encoder, image, &file);
    if (result != AVIF_RESULT_OK)
        error_set(error,
                  result == AVIF_RESULT_OUT_OF_MEMORY ? STATUS_OUT_OF_MEMORY : STATUS_ENCODE_FAILED,
                  "the AVIF cannot be written: %s: %s", avifResultToString(result),
                  encoder->diag.error);
    else if (codec_late(request->deadline_ns))
        error_set(error, STATUS_TIMEOUT, "the deadline for encoding passed while libavif ran");
    else
        put_file(&file, sink, error);
    avifRWDataFree(&file);
    return error->status;
}

/* Measured with libaom 3.6. It never looks at the deadline. */
static uint64_t avif_encoder_blind_ns(uint32_t channels, const struct encoder_settings *settings)
{
    static const uint64_t whole[] = {450, 450, 800, 1000, 1500, 7000, 7500};
    (void)channels;
    return whole[settings->effort];
}

/* Measured with libaom for noise. Its frames have borders. */
static size_t avif_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    enum { fixed_bytes = 4 << 20, border = 320, high_effort = 5 };
    size_t pixel_bytes = settings->effort < high_effort ? 28 : 56;
    (void)channels;
    return fixed_bytes + ((size_t)width + border) * (height + (size_t)border) * pixel_bytes;
}

static enum status avif_encode(void *state, const struct image *src,
                               const struct encode_request *request, struct codec_sink *sink,
                               struct error *error)
{
    size_t metadata = (request->icc ? request->icc_bytes : 0) +
                      (request->exif ? request->exif_bytes : 0) +
                      (request->xmp ? request->xmp_bytes : 0);
    if (!codec_has_memory(codec_encoder_bytes(request->format, src->width, src->height,
                                              src->channels, &request->encoder, metadata)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to write an AVIF of %u x %u "
                         "pixels", src->width, src->height);
    avifEncoder *encoder = avifEncoderCreate();
    avifImage *image = avifImageCreate(src->width, src->height, 8,
                                       src->channels == 1 ? AVIF_PIXEL_FORMAT_YUV400
                                                          : AVIF_PIXEL_FORMAT_YUV420);
    (void)state;
    enum status status = write_image(encoder, image, src, request, sink, error);
    if (image)
        avifImageDestroy(image);
    if (encoder)
        avifEncoderDestroy(encoder);
    return status;
}

/* The size of noise at quality 100, and of an incompressible alpha. */
static size_t avif_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    enum { block = 8 };
    (void)settings;
    size_t pixels = (width + block - 1ull) / block * block * ((height + block - 1) / block * block);
    return pixels * 5 / 2 + (channels == 4 ? pixels * 3 / 2 : 0);
}

const struct codec codec_avif = {
    .sniff = avif_sniff,
    .state_bytes = 1,
    .refusal = avif_refusal,
    .probe = avif_probe,
    .decode = avif_decode,
    .encode = avif_encode,
    .encoded_bytes = avif_encoded_bytes,
    .encoder_bytes = avif_encoder_bytes,
    .encoder_blind_ns = avif_encoder_blind_ns,
    .metadata_copies = METADATA_COPIES,
};

#endif
