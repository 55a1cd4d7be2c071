/* jxl_frames.c - decodes all frames of a JPEG XL animation (jxl.h). */
#ifdef GPUIMGD_JXL

#include <stdlib.h>

#include "codecs/confined/jxl/jxl.h"

enum { RGBA = 4 };
static const JxlPixelFormat rgba = {RGBA, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};

/* An animation while it is decoded. */
struct player {
    JxlDecoder *decoder;
    const struct codec_call *call;
    JxlBasicInfo info;
    uint8_t *pixels;
    struct codec_reply frame; /* what is said of the next frame */
};

/* In milliseconds, rounded. A tick lasts denominator / numerator seconds. */
static uint32_t delay_of(const JxlAnimationHeader *animation, uint32_t ticks)
{
    uint64_t scale = animation->tps_numerator;
    if (scale == 0)
        return 0;
    uint64_t seconds = (uint64_t)ticks * animation->tps_denominator; /* times scale */
    if (seconds > UINT64_MAX / 1000 - scale)
        return UINT32_MAX;
    uint64_t delay_ms = (seconds * 1000 + scale / 2) / scale;
    return delay_ms < UINT32_MAX ? (uint32_t)delay_ms : UINT32_MAX;
}

static void begin(struct player *player, struct codec_reply *reply)
{
    const struct codec_call *call = player->call;
    size_t needed = 0, bytes = (size_t)call->width * call->height * RGBA;
    jxl_prefer_srgb(player->decoder);
    if (JxlDecoderGetBasicInfo(player->decoder, &player->info) != JXL_DEC_SUCCESS ||
        player->info.xsize != call->width || player->info.ysize != call->height ||
        JxlDecoderImageOutBufferSize(player->decoder, &rgba, &needed) != JXL_DEC_SUCCESS ||
        needed != bytes)
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the JPEG XL's frames are not those of its header (%u x %u)", call->width,
                      call->height);
    else if (!(player->pixels = malloc(bytes)))
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory for the frames of a JPEG XL");
    player->frame.plays = player->info.animation.num_loops;
}

static void begin_frame(struct player *player, struct codec_reply *reply)
{
    JxlFrameHeader header;
    if (!player->pixels || JxlDecoderGetFrameHeader(player->decoder, &header) != JXL_DEC_SUCCESS)
        confined_fail(reply, STATUS_DECODE_FAILED, "the header of a JPEG XL's frame is damaged");
    else
        player->frame.delay_ms = delay_of(&player->info.animation, header.duration);
}

static void set_buffer(struct player *player, struct codec_reply *reply)
{
    size_t bytes = (size_t)player->call->width * player->call->height * RGBA;
    if (!player->pixels || JxlDecoderSetImageOutBuffer(player->decoder, &rgba, player->pixels,
                                                       bytes) != JXL_DEC_SUCCESS)
        confined_fail(reply, STATUS_DECODE_FAILED, "a frame of the JPEG XL has no pixels");
}

static void give_frame(struct player *player, uint8_t *window, struct codec_reply *reply)
{
    if (!player->pixels) {
        confined_fail(reply, STATUS_DECODE_FAILED, "a frame of the JPEG XL has no pixels");
        return;
    }
    jxl_unpremultiply(player->decoder, player->call, player->pixels);
    confined_offer_frame(player->call, &player->frame, player->pixels, window);
}

/* The daemon ends the task after the last frame. */
static void play(struct player *player, uint8_t *window, struct codec_reply *reply)
{
    while (reply->status == STATUS_OK)
        switch (JxlDecoderProcessInput(player->decoder)) {
        case JXL_DEC_COLOR_ENCODING:
            begin(player, reply);
            break;
        case JXL_DEC_FRAME:
            begin_frame(player, reply);
            break;
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
            set_buffer(player, reply);
            break;
        case JXL_DEC_FULL_IMAGE:
            give_frame(player, window, reply);
            break;
        case JXL_DEC_NEED_MORE_INPUT:
            confined_fail(reply, STATUS_DECODE_FAILED,
                          "the JPEG XL is truncated: its frames need more "
                          "than the %llu bytes of the file",
                          (unsigned long long)player->call->file_bytes);
            break;
        default:
            confined_fail(reply, STATUS_DECODE_FAILED, "the JPEG XL's frames are damaged");
        }
}

void jxl_frames(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct player player = {.decoder = jxl_create_decoder(
                                JXL_DEC_COLOR_ENCODING | JXL_DEC_FRAME | JXL_DEC_FULL_IMAGE, reply),
                            .call = call};
    if (!player.decoder)
        return;
    if (JxlDecoderSetInput(player.decoder, region + CODEC_WINDOW_BYTES, call->file_bytes) ==
        JXL_DEC_SUCCESS)
        play(&player, region, reply);
    JxlDecoderDestroy(player.decoder);
    free(player.pixels);
}

#endif
