/* jxl_encode.c - encodes an image as a JPEG XL (jxl.h). */
#ifdef GPUIMGD_JXL

#include <stdlib.h>
#include <string.h>

#include "codecs/confined/jxl/jxl.h"

/* The largest distance of libjxl 0.7. Later versions allow 25, but should write the same files. */
#define DISTANCE_MAX 15.0f

/* The distance of a quality in libjxl's tool cjxl: 0 for 100, 1 for 90. */
static float distance_of(int32_t quality)
{
    float q = (float)quality;
    float distance = quality >= 100  ? 0
                     : quality >= 30 ? 0.1f + (100 - q) * 0.09f
                                     : 53.0f / 3000 * q * q - 23.0f / 20 * q + 25;
    return distance < DISTANCE_MAX ? distance : DISTANCE_MAX;
}

static bool set_option(JxlEncoderFrameSettings *settings, JxlEncoderFrameSettingId option,
                       int64_t value)
{
    return JxlEncoderFrameSettingsSetOption(settings, option, value) == JXL_ENC_SUCCESS;
}

/* Sets the size, the kind of the channels, and the orientation. With a distance, libjxl stores
 * colours as XYB, which needs no profile. */
static bool set_info(JxlEncoder *encoder, const struct codec_call *call, bool lossless)
{
    JxlBasicInfo info;
    JxlEncoderInitBasicInfo(&info);
    info.xsize = call->width;
    info.ysize = call->height;
    info.bits_per_sample = 8;
    info.num_color_channels = call->channels == 1 ? 1 : 3;
    info.num_extra_channels = call->channels == 4 ? 1 : 0;
    info.alpha_bits = call->channels == 4 ? 8 : 0;
    info.orientation = (JxlOrientation)call->orientation;
    info.uses_original_profile = lossless;
    return JxlEncoderSetBasicInfo(encoder, &info) == JXL_ENC_SUCCESS;
}

/* libjxl needs to understand the profile. One that it refuses is left out, as by libpng: nothing
 * could show the colours that it means. */
static bool set_colours(JxlEncoder *encoder, const struct codec_call *call, const uint8_t *icc)
{
    JxlColorEncoding srgb;
    if (call->icc_bytes > 0 &&
        JxlEncoderSetICCProfile(encoder, icc, call->icc_bytes) == JXL_ENC_SUCCESS)
        return true;
    JxlColorEncodingSetToSRGB(&srgb, call->channels == 1);
    return JxlEncoderSetColorEncoding(encoder, &srgb) == JXL_ENC_SUCCESS;
}

/* Adds EXIF and XMP, which follow each other at `bytes`. A box "Exif" begins with the offset of the
 * TIFF header, which is 0. */
static bool add_metadata(JxlEncoder *encoder, const struct codec_call *call, const uint8_t *bytes)
{
    enum { offset_bytes = 4 };
    bool ok = true;
    if (call->exif_bytes == 0 && call->xmp_bytes == 0)
        return true;
    if (JxlEncoderUseBoxes(encoder) != JXL_ENC_SUCCESS)
        return false;
    if (call->exif_bytes > 0) {
        uint8_t *box = calloc(1, offset_bytes + call->exif_bytes);
        if (!box)
            return false;
        memcpy(box + offset_bytes, bytes, call->exif_bytes);
        ok = JxlEncoderAddBox(encoder, "Exif", box, offset_bytes + call->exif_bytes, JXL_FALSE) ==
             JXL_ENC_SUCCESS;
        free(box);
    }
    bytes += call->exif_bytes;
    if (ok && call->xmp_bytes > 0)
        ok =
            JxlEncoderAddBox(encoder, "xml ", bytes, call->xmp_bytes, JXL_FALSE) == JXL_ENC_SUCCESS;
    JxlEncoderCloseBoxes(encoder);
    return ok;
}

/* Collects the pixels from the window. NULL: no memory. */
static uint8_t *take_pixels(const struct codec_call *call, const uint8_t *window)
{
    size_t row_bytes = (size_t)call->width * call->channels;
    uint32_t most = confined_band_rows(call->width, call->channels);
    uint8_t *pixels = malloc(row_bytes * call->height);
    for (uint32_t row = 0, rows; pixels && row < call->height; row += rows) {
        rows = call->height - row < most ? call->height - row : most;
        confined_ask(&(struct codec_reply){.kind = CODEC_ROWS, .rows = rows});
        memcpy(pixels + row * row_bytes, window, rows * row_bytes);
    }
    return pixels;
}

static bool add_pixels(JxlEncoder *encoder, const struct codec_call *call, bool lossless,
                       const uint8_t *window)
{
    const JxlPixelFormat format = {call->channels, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    JxlEncoderFrameSettings *settings = JxlEncoderFrameSettingsCreate(encoder, NULL);
    if (!settings || JxlEncoderSetFrameLossless(settings, lossless) != JXL_ENC_SUCCESS ||
        (!lossless &&
         JxlEncoderSetFrameDistance(settings, distance_of(call->quality)) != JXL_ENC_SUCCESS) ||
        !set_option(settings, JXL_ENC_FRAME_SETTING_EFFORT, call->effort + 1) ||
        !set_option(settings, JXL_ENC_FRAME_SETTING_PATCHES, 0) ||
        !set_option(settings, JXL_ENC_FRAME_SETTING_DOTS, 0))
        return false;
    uint8_t *pixels = take_pixels(call, window);
    bool ok = pixels && JxlEncoderAddImageFrame(settings, &format, pixels,
                                                (size_t)call->width * call->height *
                                                    call->channels) == JXL_ENC_SUCCESS;
    free(pixels);
    JxlEncoderCloseFrames(encoder);
    return ok;
}

static bool put_file(JxlEncoder *encoder, uint8_t *window)
{
    for (;;) {
        uint8_t *next = window;
        size_t left = CODEC_WINDOW_BYTES;
        JxlEncoderStatus status = JxlEncoderProcessOutput(encoder, &next, &left);
        if (status != JXL_ENC_SUCCESS && status != JXL_ENC_NEED_MORE_OUTPUT)
            return false;
        if (next > window)
            confined_ask(
                &(struct codec_reply){.kind = CODEC_PART, .bytes = (uint64_t)(next - window)});
        if (status == JXL_ENC_SUCCESS)
            return true;
    }
}

void jxl_encode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    const uint8_t *metadata = region + CODEC_WINDOW_BYTES;
    bool lossless = call->lossless || call->quality >= 100;
    JxlEncoder *encoder = JxlEncoderCreate(NULL);
    if (!encoder) {
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to write a JPEG XL");
        return;
    }
    if (!set_info(encoder, call, lossless))
        confined_fail(reply, STATUS_ENCODE_FAILED, "a JPEG XL cannot have %u x %u pixels",
                      call->width, call->height);
    else if (!set_colours(encoder, call, metadata) ||
             !add_metadata(encoder, call, metadata + call->icc_bytes) ||
             !add_pixels(encoder, call, lossless, region) || !put_file(encoder, region))
        confined_fail(reply, STATUS_ENCODE_FAILED,
                      "libjxl cannot write a JPEG XL of %u x %u pixels", call->width, call->height);
    JxlEncoderDestroy(encoder);
}

#endif
