/*
 * jxl_recompress.c - makes a JPEG XL of a JPEG without loss, and the same JPEG from it (jxl.h).
 *
 * libjxl keeps the coefficients of the JPEG, coded better, and stores all else of the file in a box
 * "jbrd". Each JPEG XL is turned back at once and compared with the JPEG, because a user may delete
 * the JPEG afterwards.
 */
#ifdef GPUIMGD_JXL

#include <stdlib.h>
#include <string.h>

#include "codecs/confined/jxl/jxl.h"

/* A file that grows. */
struct buffer {
    uint8_t *bytes;
    size_t count, room;
};

static bool grow(struct buffer *buffer)
{
    enum { first = 64 * 1024 };
    size_t room = buffer->room > 0 ? buffer->room + buffer->room / 2 : first;
    uint8_t *grown = realloc(buffer->bytes, room);
    if (!grown)
        return false;
    buffer->bytes = grown;
    buffer->room = room;
    return true;
}

static void offer_file(const struct buffer *file, uint8_t *window)
{
    for (size_t at = 0; at < file->count;) {
        size_t part = file->count - at < CODEC_WINDOW_BYTES ? file->count - at : CODEC_WINDOW_BYTES;
        memcpy(window, file->bytes + at, part);
        confined_ask(&(struct codec_reply){.kind = CODEC_PART, .bytes = part});
        at += part;
    }
}

/* ---- to the JPEG ---------------------------------------------------------------------------- */

/* Gives the decoder more room for the JPEG. */
static bool set_room(JxlDecoder *decoder, struct buffer *jpeg)
{
    return (jpeg->count < jpeg->room || grow(jpeg)) &&
           JxlDecoderSetJPEGBuffer(decoder, jpeg->bytes + jpeg->count, jpeg->room - jpeg->count) ==
               JXL_DEC_SUCCESS;
}

static void take_written(JxlDecoder *decoder, struct buffer *jpeg)
{
    jpeg->count = jpeg->room - JxlDecoderReleaseJPEGBuffer(decoder);
}

enum restored { RESTORED, NOT_A_JPEG, DAMAGED };

static enum restored run_restore(JxlDecoder *decoder, struct buffer *jpeg)
{
    bool is_jpeg = false;
    for (;;)
        switch (JxlDecoderProcessInput(decoder)) {
        case JXL_DEC_JPEG_RECONSTRUCTION:
            is_jpeg = true;
            if (!set_room(decoder, jpeg))
                return DAMAGED;
            break;
        case JXL_DEC_JPEG_NEED_MORE_OUTPUT:
            take_written(decoder, jpeg);
            if (!grow(jpeg) || !set_room(decoder, jpeg))
                return DAMAGED;
            break;
        case JXL_DEC_FULL_IMAGE:
            take_written(decoder, jpeg);
            return RESTORED;
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
            return NOT_A_JPEG;
        default:
            return is_jpeg ? DAMAGED : NOT_A_JPEG;
        }
}

static enum restored restore(const uint8_t *file, size_t bytes, struct buffer *jpeg)
{
    enum restored result = DAMAGED;
    JxlDecoder *decoder = JxlDecoderCreate(NULL);
    if (decoder &&
        JxlDecoderSubscribeEvents(decoder, JXL_DEC_JPEG_RECONSTRUCTION | JXL_DEC_FULL_IMAGE) ==
            JXL_DEC_SUCCESS &&
        JxlDecoderSetInput(decoder, file, bytes) == JXL_DEC_SUCCESS)
        result = run_restore(decoder, jpeg);

    if (decoder)
        JxlDecoderDestroy(decoder);
    return result;
}

static void to_jpeg(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct buffer jpeg = {0};
    enum restored result = restore(region + CODEC_WINDOW_BYTES, call->file_bytes, &jpeg);
    if (result == RESTORED)
        offer_file(&jpeg, region);
    else
        confined_fail(reply, STATUS_ENCODE_FAILED,
                      result == NOT_A_JPEG ? "the JPEG XL was not made from a JPEG by recompress; "
                                             "omit recompress to encode its pixels"
                                           : "the JPEG cannot be restored: the JPEG XL is damaged");
    free(jpeg.bytes);
}

/* ---- to JPEG XL ----------------------------------------------------------------------------- */

static bool take_output(JxlEncoder *encoder, struct buffer *file)
{
    JxlEncoderStatus status = JXL_ENC_NEED_MORE_OUTPUT;
    while (status == JXL_ENC_NEED_MORE_OUTPUT) {
        if (file->count == file->room && !grow(file))
            return false;
        uint8_t *next = file->bytes + file->count;
        size_t left = file->room - file->count;
        status = JxlEncoderProcessOutput(encoder, &next, &left);
        file->count = file->room - left;
        if (status == JXL_ENC_NEED_MORE_OUTPUT && !grow(file))
            return false;
    }
    return status == JXL_ENC_SUCCESS;
}

static bool pack(const uint8_t *jpeg, size_t bytes, int effort, struct buffer *file)
{
    JxlEncoder *encoder = JxlEncoderCreate(NULL);
    JxlEncoderFrameSettings *settings =
        encoder ? JxlEncoderFrameSettingsCreate(encoder, NULL) : NULL;
    bool ok = settings && JxlEncoderStoreJPEGMetadata(encoder, JXL_TRUE) == JXL_ENC_SUCCESS &&
              JxlEncoderFrameSettingsSetOption(settings, JXL_ENC_FRAME_SETTING_EFFORT,
                                               effort + 1) == JXL_ENC_SUCCESS &&
              JxlEncoderAddJPEGFrame(settings, jpeg, bytes) == JXL_ENC_SUCCESS;
    if (ok) {
        JxlEncoderCloseInput(encoder);
        ok = take_output(encoder, file);
    }
    if (encoder)
        JxlEncoderDestroy(encoder);
    return ok;
}

static void to_jxl(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    const uint8_t *jpeg = region + CODEC_WINDOW_BYTES;
    size_t bytes = call->file_bytes;
    struct buffer file = {0}, restored = {0};
    if (!pack(jpeg, bytes, call->effort, &file))
        confined_fail(
            reply, STATUS_ENCODE_FAILED,
            "libjxl cannot recompress this JPEG: it must be whole, gray, YCbCr or RGB, with "
            "Huffman "
            "codes, 8 bits per channel and no damaged profile; omit recompress to encode its "
            "pixels");
    else if (restore(file.bytes, file.count, &restored) != RESTORED || restored.count != bytes ||
             memcmp(restored.bytes, jpeg, bytes) != 0)
        confined_fail(reply, STATUS_ENCODE_FAILED,
                      "libjxl does not restore this JPEG byte for byte; omit recompress to encode "
                      "its pixels");
    free(restored.bytes);
    if (reply->status == STATUS_OK)
        offer_file(&file, region);
    free(file.bytes);
}

void jxl_recompress(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    const uint8_t *file = region + CODEC_WINDOW_BYTES;
    bool is_jpeg = call->file_bytes > 2 && file[0] == 0xFF && file[1] == 0xD8;
    if (is_jpeg)
        to_jxl(call, region, reply);
    else
        to_jpeg(call, region, reply);
}

#endif
