/* avif_encode.c - encodes an image as an AVIF (avif.h). */
#ifdef GPUIMGD_AVIF

#include <string.h>

#include "codecs/confined/avif/avif.h"

/* Stores an orientation of EXIF in the boxes "irot" (quarter turns anticlockwise) and "imir" (a
 * mirror): the opposite of orientation_of in avif_decode.c. */
static void set_orientation(avifImage *image, uint32_t orientation)
{
    enum { none = -1, top_bottom, left_right };
    static const struct {
        uint8_t angle;
        int axis;
    } rows[ORIENTATION_MAX + 1] = {
        [1] = {0, none}, [2] = {0, left_right}, [3] = {2, none}, [4] = {0, top_bottom},
        [5] = {1, top_bottom}, [6] = {3, none}, [7] = {3, top_bottom}, [8] = {1, none},
    };
    /* avifImageSetMetadataExif has set the boxes from the orientation in the EXIF. */
    image->transformFlags = AVIF_TRANSFORM_NONE;
    if (rows[orientation].angle != 0) {
        image->transformFlags |= AVIF_TRANSFORM_IROT;
        image->irot.angle = rows[orientation].angle;
    }
    if (rows[orientation].axis != none) {
        image->transformFlags |= AVIF_TRANSFORM_IMIR;
#if AVIF_VERSION_MAJOR >= 1
        image->imir.axis = (uint8_t)rows[orientation].axis;
#else
        image->imir.mode = (uint8_t)rows[orientation].axis;
#endif
    }
}

/* Sets the ICC profile, EXIF and XMP, which follow each other at `bytes`. With a profile, the
 * primaries are unspecified, because the profile defines them. The functions of libavif 0.11 return
 * nothing and abort if memory is short, so the lengths show whether those of libavif 1 failed. */
static bool set_metadata(avifImage *image, const struct codec_call *call, const uint8_t *bytes)
{
    if (call->icc_bytes > 0) {
        image->colorPrimaries = AVIF_COLOR_PRIMARIES_UNSPECIFIED;
        image->transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_UNSPECIFIED;
        (void)avifImageSetProfileICC(image, bytes, call->icc_bytes);
    }
    bytes += call->icc_bytes;
    if (call->exif_bytes > 0)
        (void)avifImageSetMetadataExif(image, bytes, call->exif_bytes);
    bytes += call->exif_bytes;
    if (call->xmp_bytes > 0)
        (void)avifImageSetMetadataXMP(image, bytes, call->xmp_bytes);
    set_orientation(image, call->orientation);
    return image->icc.size == call->icc_bytes && image->exif.size == call->exif_bytes &&
           image->xmp.size == call->xmp_bytes;
}

/* Converts rows in the window to YUV. `row` is even, because with 4:2:0 a row of chroma belongs to
 * two rows of pixels. */
static bool fill_rows(avifImage *image, const struct codec_call *call, uint32_t row, uint32_t rows,
                      uint8_t *window)
{
    size_t row_bytes = (size_t)call->width * call->channels;
    if (call->channels == 1) {
        size_t stride = image->yuvRowBytes[AVIF_CHAN_Y];
        for (uint32_t y = 0; y < rows; y++)
            memcpy(image->yuvPlanes[AVIF_CHAN_Y] + (row + y) * stride, window + y * row_bytes,
                   row_bytes);
        return true;
    }
    avifImage *view = avifImageCreateEmpty();
    const avifCropRect rect = {0, row, call->width, rows};
    avifRGBImage rgb;
    bool ok = view && avifImageSetViewRect(view, image, &rect) == AVIF_RESULT_OK;
    if (ok) {
        avifRGBImageSetDefaults(&rgb, view);
        rgb.depth = 8;
        rgb.format = call->channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
        rgb.pixels = window;
        rgb.rowBytes = (uint32_t)row_bytes;
        ok = avifImageRGBToYUV(view, &rgb) == AVIF_RESULT_OK;
        /* libavif 0.11 sets these flags, so that avifImageDestroy would free the image's planes. */
        view->imageOwnsYUVPlanes = view->imageOwnsAlphaPlane = AVIF_FALSE;
    }
    if (view)
        avifImageDestroy(view);
    return ok;
}

static bool fill_planes(avifImage *image, const struct codec_call *call, uint8_t *window)
{
    uint32_t most = confined_band_rows(call->width, call->channels);
    (void)avifImageAllocatePlanes(image,
                                  AVIF_PLANES_YUV | (call->channels == 4 ? AVIF_PLANES_A : 0));
    if (!image->yuvPlanes[AVIF_CHAN_Y] || (call->channels > 1 && !image->yuvPlanes[AVIF_CHAN_V]) ||
        (call->channels == 4 && !image->alphaPlane))
        return false;
    for (uint32_t row = 0, rows; row < call->height; row += rows) {
        rows = call->height - row < most ? call->height - row : most;
        confined_ask(&(struct codec_reply){.kind = CODEC_ROWS, .rows = rows});
        if (!fill_rows(image, call, row, rows, window))
            return false;
    }
    return true;
}

/* Describes the colours: sRGB, converted to YUV by BT.601 with the full range, as in a JPEG. */
static bool fill_image(avifImage *image, const struct codec_call *call, uint8_t *region)
{
    image->yuvRange = AVIF_RANGE_FULL;
    image->colorPrimaries = AVIF_COLOR_PRIMARIES_BT709;
    image->transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
    image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT601;
    return set_metadata(image, call, region + CODEC_WINDOW_BYTES) &&
           fill_planes(image, call, region);
}

/* The qualities 0 to 100 are the quantizers 63 to 0, as in libavif's tool avifenc. Alpha is
 * lossless. For images of few colours, libaom 3.6 can copy blocks of the image; that makes files up
 * to 3% smaller, but its tables need 80 bytes of memory per pixel. */
static void set_encoder(avifEncoder *encoder, const struct codec_call *call)
{
    int quantizer = ((100 - call->quality) * AVIF_QUANTIZER_WORST_QUALITY + 50) / 100;
    encoder->maxThreads = 1;
    encoder->minQuantizer = encoder->maxQuantizer = quantizer;
    encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = AVIF_QUANTIZER_LOSSLESS;
    encoder->speed = AVIF_SPEED_FASTEST - call->effort;
    if (avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_ENCODE)) {
        encoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
        (void)avifEncoderSetCodecSpecificOption(encoder, "enable-intrabc", "0");
    }
}

static void put_file(const avifRWData *file, uint8_t *window)
{
    for (size_t at = 0; at < file->size;) {
        size_t part = file->size - at < CODEC_WINDOW_BYTES ? file->size - at : CODEC_WINDOW_BYTES;
        memcpy(window, file->data + at, part);
        confined_ask(&(struct codec_reply){.kind = CODEC_PART, .bytes = part});
        at += part;
    }
}

static void fail_memory(const struct codec_call *call, struct codec_reply *reply)
{
    confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to write an AVIF of %u x %u pixels",
                  call->width, call->height);
}

static void write_image(const avifImage *image, const struct codec_call *call, uint8_t *region,
                        struct codec_reply *reply)
{
    avifEncoder *encoder = avifEncoderCreate();
    avifRWData file = AVIF_DATA_EMPTY;
    if (!encoder) {
        fail_memory(call, reply);
        return;
    }
    set_encoder(encoder, call);
    avifResult result = avifEncoderWrite(encoder, image, &file);
    if (result != AVIF_RESULT_OK)
        confined_fail(
            reply,
            result == AVIF_RESULT_OUT_OF_MEMORY ? STATUS_OUT_OF_MEMORY : STATUS_ENCODE_FAILED,
            "the AVIF cannot be written: %s: %s", avifResultToString(result), encoder->diag.error);
    else
        put_file(&file, region);
    avifRWDataFree(&file);
    avifEncoderDestroy(encoder);
}

static bool is_opaque(const avifImage *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            if (image->alphaPlane[(size_t)y * image->alphaRowBytes + x] != UINT8_MAX)
                return false;
    return true;
}

/* libavif leaves out the alpha of an opaque image, but a sequence needs it for each frame. As an
 * image of its own, an alpha plane is gray, lossless, and has no colour space. */
static void write_opaque_alpha(const struct codec_call *call, uint8_t *region,
                               struct codec_reply *reply)
{
    struct codec_call lossless = *call;
    avifImage *image = avifImageCreate(call->width, call->height, 8, AVIF_PIXEL_FORMAT_YUV400);
    lossless.quality = 100;
    if (image) {
        image->yuvRange = AVIF_RANGE_FULL;
        (void)avifImageAllocatePlanes(image, AVIF_PLANES_YUV);
    }
    if (image && image->yuvPlanes[AVIF_CHAN_Y]) {
        memset(image->yuvPlanes[AVIF_CHAN_Y], UINT8_MAX,
               (size_t)image->yuvRowBytes[AVIF_CHAN_Y] * image->height);
        write_image(image, &lossless, region, reply);
    } else {
        fail_memory(call, reply);
    }
    if (image)
        avifImageDestroy(image);
}

void avif_encode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    bool adds_alpha = call->keeps_alpha && call->channels == 4;
    avifImage *image = avifImageCreate(call->width, call->height, 8,
                                       call->channels == 1 ? AVIF_PIXEL_FORMAT_YUV400
                                                           : AVIF_PIXEL_FORMAT_YUV420);
    if (!image || !fill_image(image, call, region)) {
        fail_memory(call, reply);
    } else {
        adds_alpha = adds_alpha && is_opaque(image);
        write_image(image, call, region, reply);
    }
    if (image)
        avifImageDestroy(image);
    if (adds_alpha && reply->status == STATUS_OK)
        write_opaque_alpha(call, region, reply);
}

#endif
