/* jxl_decode.c - decodes the pixels of a JPEG XL (jxl.h). */
#ifdef GPUIMGD_JXL

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/confined/jxl/jxl.h"

JxlDecoder *jxl_create_decoder(int events, struct codec_reply *reply)
{
    JxlDecoder *decoder = JxlDecoderCreate(NULL);
    if (decoder && JxlDecoderSubscribeEvents(decoder, events) == JXL_DEC_SUCCESS &&
        JxlDecoderSetKeepOrientation(decoder, JXL_TRUE) == JXL_DEC_SUCCESS)
        return decoder;
    if (decoder)
        JxlDecoderDestroy(decoder);
    confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a JPEG XL");
    return NULL;
}

uint32_t jxl_channels(const JxlBasicInfo *info)
{
    return info->alpha_bits > 0 ? 4 : info->num_color_channels;
}

/* Linear light needs more than 8 bits, and a profile cannot describe PQ and HLG well. Such pixels
 * become sRGB, but only those that are stored as XYB: libjxl converts no others. */
void jxl_prefer_srgb(JxlDecoder *decoder)
{
    JxlBasicInfo info;
    JxlColorEncoding colours;
    if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS || info.uses_original_profile ||
        JxlDecoderGetColorAsEncodedProfile(decoder, JXL_COLOURS(DATA), &colours) != JXL_DEC_SUCCESS)
        return;
    if (colours.transfer_function != JXL_TRANSFER_FUNCTION_LINEAR &&
        colours.transfer_function != JXL_TRANSFER_FUNCTION_PQ &&
        colours.transfer_function != JXL_TRANSFER_FUNCTION_HLG)
        return;
    JxlColorEncodingSetToSRGB(&colours, info.num_color_channels == 1);
    (void)JxlDecoderSetPreferredColorProfile(decoder, &colours);
}

/* Sets the buffer of the pixels. Returns NULL if it cannot; the reply then has the reason. */
static uint8_t *set_buffer(JxlDecoder *decoder, const struct codec_call *call,
                           struct codec_reply *reply)
{
    JxlBasicInfo info;
    const JxlPixelFormat format = {call->channels, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    size_t bytes = (size_t)call->width * call->height * call->channels, needed = 0;
    if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS || info.xsize != call->width ||
        info.ysize != call->height || jxl_channels(&info) != call->channels ||
        JxlDecoderImageOutBufferSize(decoder, &format, &needed) != JXL_DEC_SUCCESS ||
        needed != bytes) {
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the JPEG XL's pixels are not those of its header (%u x %u, %u channels)",
                      call->width, call->height, call->channels);
        return NULL;
    }
    uint8_t *pixels = malloc(bytes);
    if (!pixels || JxlDecoderSetImageOutBuffer(decoder, &format, pixels, bytes) != JXL_DEC_SUCCESS)
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory for the pixels of a JPEG XL");
    return pixels;
}

/* Decodes the first image of the file. Returns its pixels, which the caller frees; NULL or a failed
 * reply: an error. */
static uint8_t *decode_pixels(JxlDecoder *decoder, const struct codec_call *call,
                              struct codec_reply *reply)
{
    uint8_t *pixels = NULL;
    for (;;)
        switch (JxlDecoderProcessInput(decoder)) {
        case JXL_DEC_COLOR_ENCODING:
            jxl_prefer_srgb(decoder);
            break;
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
            if (!pixels)
                pixels = set_buffer(decoder, call, reply);
            if (reply->status != STATUS_OK)
                return pixels;
            break;
        case JXL_DEC_FULL_IMAGE:
            return pixels;
        case JXL_DEC_NEED_MORE_INPUT:
            confined_fail(reply, STATUS_DECODE_FAILED,
                          "the JPEG XL is truncated: its pixels need more "
                          "than the %llu bytes of the file",
                          (unsigned long long)call->file_bytes);
            return pixels;
        default:
            confined_fail(reply, STATUS_DECODE_FAILED, "the JPEG XL's pixels are damaged");
            return pixels;
        }
}

/* Whether libjxl has converted the pixels from linear light to sRGB (jxl_prefer_srgb). */
static bool was_linear(const JxlDecoder *decoder, const JxlBasicInfo *info)
{
    JxlColorEncoding colours;
    return !info->uses_original_profile &&
           JxlDecoderGetColorAsEncodedProfile(decoder, JXL_COLOURS(ORIGINAL), &colours) ==
               JXL_DEC_SUCCESS &&
           colours.transfer_function == JXL_TRANSFER_FUNCTION_LINEAR;
}

enum { LIGHT_MAX = 65535 };

/* The linear light of a colour of sRGB from 0 to 1 (IEC 61966-2-1). */
static double light_of(double colour)
{
    return colour <= 0.04045 ? colour / 12.92 : pow((colour + 0.055) / 1.055, 2.4);
}

/* Fills light with the light of each colour, and colours with the nearest colour of each light. */
static void fill_tables(uint16_t light[256], uint8_t colours[LIGHT_MAX + 1])
{
    unsigned next = 0;
    for (unsigned v = 0; v < 256; v++) {
        light[v] = (uint16_t)(LIGHT_MAX * light_of(v / 255.0) + 0.5);
        for (double last = LIGHT_MAX * light_of((v + 0.5) / 255);
             next <= LIGHT_MAX && (next <= last || v == 255); next++)
            colours[next] = (uint8_t)v;
    }
}

/* Divides light, not colours: alpha was multiplied before libjxl converted the light to sRGB. */
static void divide_light(uint8_t *pixels, const uint8_t *end)
{
    static uint16_t light[256];
    static uint8_t colours[LIGHT_MAX + 1];
    fill_tables(light, colours);
    for (; pixels < end; pixels += 4)
        for (unsigned c = 0, alpha = pixels[3]; c < 3 && alpha > 0; c++) {
            unsigned divided = (light[pixels[c]] * 255u + alpha / 2) / alpha;
            pixels[c] = colours[divided < LIGHT_MAX ? divided : LIGHT_MAX];
        }
}

static void divide_colours(uint8_t *pixels, const uint8_t *end)
{
    for (; pixels < end; pixels += 4)
        for (unsigned c = 0, alpha = pixels[3]; c < 3 && alpha > 0; c++) {
            unsigned colour = (pixels[c] * 255u + alpha / 2) / alpha;
            pixels[c] = (uint8_t)(colour < 255 ? colour : 255);
        }
}

void jxl_unpremultiply(const JxlDecoder *decoder, const struct codec_call *call, uint8_t *pixels)
{
    JxlBasicInfo info;
    const uint8_t *end = pixels + (size_t)call->width * call->height * 4;
    if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS || call->channels != 4 ||
        !info.alpha_premultiplied)
        return;
    (was_linear(decoder, &info) ? divide_light : divide_colours)(pixels, end);
}

void jxl_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    JxlDecoder *decoder = jxl_create_decoder(JXL_DEC_COLOR_ENCODING | JXL_DEC_FULL_IMAGE, reply);
    if (!decoder)
        return;
    uint8_t *pixels = NULL;
    if (JxlDecoderSetInput(decoder, region + CODEC_WINDOW_BYTES, call->file_bytes) ==
        JXL_DEC_SUCCESS)
        pixels = decode_pixels(decoder, call, reply);
    if (pixels && reply->status == STATUS_OK)
        jxl_unpremultiply(decoder, call, pixels);
    JxlDecoderDestroy(decoder);
    if (reply->status == STATUS_OK)
        confined_offer_image(call, pixels, (size_t)call->width * call->channels, region, reply);
    free(pixels);
}

#endif
