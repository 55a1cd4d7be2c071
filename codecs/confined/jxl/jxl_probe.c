/* jxl_probe.c - reads the header and the metadata of a JPEG XL (jxl.h). */
#ifdef GPUIMGD_JXL

#include <stdlib.h>
#include <string.h>

#include "codecs/confined/jxl/jxl.h"
#include "codecs/confined/jxl/jxl_boxes.h"

/* ---- the codestream ------------------------------------------------------------------------- */

/* libjxl gets a codestream without boxes, some bytes at a time, until it has read the header. */
struct stream {
    struct confined_source *source;
    const struct jxl_boxes *boxes;
    size_t part;   /* the index of the part to read next */
    uint64_t skip; /* bytes of it that are read */
    size_t piece;  /* bytes to read next */
    uint8_t *bytes;
    size_t count, taken; /* of bytes; taken: by libjxl */
};

/* Forgets the bytes that libjxl has taken, and appends up to `most` others. false: the file has no
 * more, or memory is short. */
static bool append(struct stream *stream, size_t most)
{
    if (stream->taken > 0)
        memmove(stream->bytes, stream->bytes + stream->taken, stream->count - stream->taken);
    stream->count -= stream->taken;
    stream->taken = 0;
    const struct jxl_boxes *boxes = stream->boxes;
    while (stream->part < boxes->count && stream->skip == boxes->codestream[stream->part].bytes) {
        stream->part++;
        stream->skip = 0;
    }
    if (stream->part == boxes->count)
        return false;
    const struct jxl_part *part = &boxes->codestream[stream->part];
    size_t count = part->bytes - stream->skip < most ? (size_t)(part->bytes - stream->skip) : most;
    const uint8_t *from = confined_read(stream->source, part->at + stream->skip, &count);
    uint8_t *grown = from ? realloc(stream->bytes, stream->count + count) : NULL;
    if (!grown)
        return false;
    stream->bytes = grown;
    memcpy(stream->bytes + stream->count, from, count);
    stream->count += count;
    stream->skip += count;
    return true;
}

/* Takes the input from libjxl. */
static void pause(JxlDecoder *decoder, struct stream *stream)
{
    stream->taken = stream->count - JxlDecoderReleaseInput(decoder);
}

static bool go_on(JxlDecoder *decoder, const struct stream *stream)
{
    return JxlDecoderSetInput(decoder, stream->bytes + stream->taken,
                              stream->count - stream->taken) == JXL_DEC_SUCCESS;
}

/* Runs the decoder until its next event. Each piece is twice as long as the one before. */
static JxlDecoderStatus run_to_event(JxlDecoder *decoder, struct stream *stream)
{
    enum { first_piece = 4096, last_piece = 256 * 1024 };
    for (;;) {
        JxlDecoderStatus status = JxlDecoderProcessInput(decoder);
        if (status != JXL_DEC_NEED_MORE_INPUT)
            return status;
        pause(decoder, stream);
        stream->piece = stream->piece == 0           ? first_piece
                        : stream->piece < last_piece ? 2 * stream->piece
                                                     : last_piece;
        if (!append(stream, stream->piece))
            return status;
        if (!go_on(decoder, stream))
            return JXL_DEC_ERROR;
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Of the first frame of an image. */
struct first_frame {
    bool is_dct; /* VarDCT, as the first bits of its header say: only defaults, or type (0: regular)
                    and coding (ISO/IEC 18181-1, F.2) */
    bool is_only; /* no other follows. Each layer of an image is a frame, and so are parts that
                     others refer to */
};

static struct first_frame read_first_frame(JxlDecoder *decoder, struct stream *stream)
{
    enum { defaults = 1, type_mask = 6, modular = 8 };
    JxlFrameHeader header;
    pause(decoder, stream);
    if (stream->taken == stream->count && !append(stream, 1))
        return (struct first_frame){false, false};
    uint8_t bits = stream->bytes[stream->taken];
    bool is_read = go_on(decoder, stream) && run_to_event(decoder, stream) == JXL_DEC_FRAME &&
                   JxlDecoderGetFrameHeader(decoder, &header) == JXL_DEC_SUCCESS;
    return (struct first_frame){.is_dct = bits & defaults || !(bits & (type_mask | modular)),
                                .is_only = is_read && header.is_last};
}

/* The memory that libjxl 0.7 needs to decode a usual file with this header; a file that needs more
 * fails. It was measured as bytes per pixel, besides those of the decoded image:
 * - 4 to 6 for colours in a single frame of VarDCT, and 16 for gray;
 * - 30 for three modular channels with a wavelet-like transform ("squeeze"), 38 for four;
 * - 39 for VarDCT with alpha;
 * - 47 for an animation, whose first image is kept for the next.
 * Up to four layers of an image are kept for those that are blended with them. */
static uint64_t decode_bytes(const JxlBasicInfo *info, const struct first_frame *first)
{
    enum { fixed = 8 << 20, dct = 8, dct_gray = 16, channel = 10, kept = 6, layers = 16 };
    bool is_layered = !info->have_animation && !first->is_only;
    uint64_t pixels = (uint64_t)info->xsize * info->ysize;
    uint64_t channels = 3ull + info->num_extra_channels, each = jxl_channels(info);
    if (first->is_dct && first->is_only && channels == 3)
        each += each == 1 ? dct_gray : dct;
    else
        each += channels * (channel + (info->have_animation ? kept : is_layered ? layers : 0));
    return fixed + pixels * each;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Counts the frames of an animation, up to one more than FRAMES_MAX. libjxl skips their pixels.
 * Frames that are shown for no time are layers of the next one. A truncated file has at least one
 * frame. */
static uint32_t count_frames(JxlDecoder *decoder, struct stream *stream, bool *ends_early)
{
    uint32_t frames = 0;
    uint64_t left = stream->source->left;
    JxlFrameHeader header = {.is_last = JXL_FALSE};
    stream->source->left = UINT64_MAX; /* it reads all of the file */
    while (!header.is_last && frames <= FRAMES_MAX &&
           run_to_event(decoder, stream) == JXL_DEC_FRAME &&
           JxlDecoderGetFrameHeader(decoder, &header) == JXL_DEC_SUCCESS)
        frames += header.duration > 0 || header.is_last;
    stream->source->left = left;
    *ends_early = !header.is_last && frames <= FRAMES_MAX;
    return frames > 0 ? frames : 1;
}

/* ---- metadata ------------------------------------------------------------------------------- */

/* Gives the contents of a box, after `skip` bytes. Metadata that is damaged or too large is left
 * out. */
static void give_part(struct confined_source *source, const struct jxl_part *part, const char *type,
                      struct confined_results *results, uint64_t *to_bytes)
{
    enum { offset_bytes = 4 };
    size_t count = (size_t)part->bytes, room = results->left + offset_bytes;
    const uint8_t *bytes =
        count > 0 && count <= room ? confined_read(source, part->at, &count) : NULL;
    uint8_t *unpacked = bytes && part->packed ? malloc(room) : NULL;
    if (unpacked) {
        count = jxl_unpack(bytes, count, type, unpacked, room);
        bytes = unpacked;
    } else if (part->packed) {
        bytes = NULL;
    }
    /* EXIF begins with the offset of its TIFF header. */
    size_t skip = 0;
    if (bytes && memcmp(type, "Exif", 4) == 0)
        skip = count < offset_bytes ? count
                                    : offset_bytes + ((size_t)bytes[0] << 24 | bytes[1] << 16 |
                                                      bytes[2] << 8 | bytes[3]);
    if (bytes && skip < count)
        (void)confined_give(results, bytes + skip, count - skip, to_bytes);
    free(unpacked);
}

/* The profile describes the pixels that a decode gives. sRGB, which is the usual one, is left
 * out. */
static void give_profile(JxlDecoder *decoder, struct confined_results *results,
                         struct codec_reply *reply)
{
    JxlColorEncoding colours;
    size_t bytes = 0;
    if (JxlDecoderGetColorAsEncodedProfile(decoder, JXL_COLOURS(DATA), &colours) ==
            JXL_DEC_SUCCESS &&
        colours.white_point == JXL_WHITE_POINT_D65 &&
        (colours.color_space == JXL_COLOR_SPACE_GRAY || colours.primaries == JXL_PRIMARIES_SRGB) &&
        colours.transfer_function == JXL_TRANSFER_FUNCTION_SRGB)
        return;
    if (JxlDecoderGetICCProfileSize(decoder, JXL_COLOURS(DATA), &bytes) != JXL_DEC_SUCCESS)
        return; /* of unknown colours */
    uint8_t *icc = bytes > 0 && bytes <= results->left ? malloc(bytes) : NULL;
    if (icc &&
        JxlDecoderGetColorAsICCProfile(decoder, JXL_COLOURS(DATA), icc, bytes) == JXL_DEC_SUCCESS)
        (void)confined_give(results, icc, bytes, &reply->icc_bytes);
    else if (bytes > 0)
        confined_fail(reply, STATUS_DECODE_LIMIT, "the JPEG XL's profile has more than %llu bytes",
                      (unsigned long long)CODEC_METADATA_BYTES_MAX);
    free(icc);
}

/* ---- probe ---------------------------------------------------------------------------------- */

static void refuse_header(JxlDecoderStatus status, const struct confined_source *source,
                          struct codec_reply *reply)
{
    if (source->is_over)
        confined_fail(reply, STATUS_DECODE_LIMIT, "the JPEG XL's header has more than %llu bytes",
                      (unsigned long long)CODEC_KEPT_BYTES_MAX);
    else if (status == JXL_DEC_NEED_MORE_INPUT)
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the JPEG XL is truncated: its header needs more than the %llu bytes of the "
                      "file",
                      (unsigned long long)source->size);
    else
        confined_fail(reply, STATUS_DECODE_FAILED, "the JPEG XL's header is damaged");
}

/* CMYK is RGB with an additional channel for black. */
static bool is_cmyk(const JxlDecoder *decoder, const JxlBasicInfo *info)
{
    JxlExtraChannelInfo channel;
    for (uint32_t i = 0; i < info->num_extra_channels; i++)
        if (JxlDecoderGetExtraChannelInfo(decoder, i, &channel) == JXL_DEC_SUCCESS &&
            channel.type == JXL_CHANNEL_BLACK)
            return true;
    return false;
}

/* With the decoder at JXL_DEC_COLOR_ENCODING. */
static void read_info(JxlDecoder *decoder, struct stream *stream, struct confined_results *results,
                      struct codec_reply *reply)
{
    JxlBasicInfo info;
    if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS) {
        refuse_header(JXL_DEC_ERROR, stream->source, reply);
        return;
    }
    if (is_cmyk(decoder, &info)) {
        confined_fail(reply, STATUS_UNSUPPORTED_FORMAT,
                      "the JPEG XL is CMYK, which is not read; convert it to RGB");
        return;
    }
    reply->width = info.xsize;
    reply->height = info.ysize;
    reply->channels = jxl_channels(&info);
    reply->may_have_alpha = reply->channels == 4;
    reply->is_gray = info.num_color_channels == 1;
    reply->orientation = (uint32_t)info.orientation;
    jxl_prefer_srgb(decoder);
    give_profile(decoder, results, reply);
    struct first_frame first = {false, false};
    if (!info.have_animation)
        first = read_first_frame(decoder, stream);
    reply->decode_bytes = decode_bytes(&info, &first);
    bool ends_early = false;
    reply->frames = info.have_animation ? count_frames(decoder, stream, &ends_early) : 1;
    reply->ends_early = ends_early;
}

static void read_stream(struct stream *stream, struct confined_results *results,
                        struct codec_reply *reply)
{
    JxlDecoder *decoder = jxl_create_decoder(JXL_DEC_COLOR_ENCODING | JXL_DEC_FRAME, reply);
    if (!decoder)
        return;
    JxlDecoderStatus status = JxlDecoderSetCoalescing(decoder, JXL_FALSE); /* layers are frames */
    if (status == JXL_DEC_SUCCESS)
        status = run_to_event(decoder, stream);
    if (status == JXL_DEC_COLOR_ENCODING)
        read_info(decoder, stream, results, reply);
    else
        refuse_header(status, stream->source, reply);
    JxlDecoderDestroy(decoder);
    free(stream->bytes);
}

void jxl_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    static struct jxl_boxes boxes;
    struct confined_source source = confined_open(call, region, CODEC_KEPT_BYTES_MAX);
    struct confined_results results = confined_results_of(call, region);
    if (!jxl_find_boxes(&source, &boxes, reply))
        return;
    read_stream(&(struct stream){.source = &source, .boxes = &boxes}, &results, reply);
    if (reply->status != STATUS_OK)
        return;
    if (call->metadata & METADATA_EXIF)
        give_part(&source, &boxes.exif, "Exif", &results, &reply->exif_bytes);
    if (call->metadata & METADATA_XMP)
        give_part(&source, &boxes.xmp, "xml ", &results, &reply->xmp_bytes);
}

#endif
