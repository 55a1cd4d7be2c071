#include "gpu/jpeg/codec_memory.h"

#include "gpu/jpeg/decode.h"
#include "gpu/jpeg/encode.h"
#include "gpu/jpeg/progressive.h"

static bool needs_luma_only(const struct jpeg_frame *frame, enum decode_as as)
{
    return as == DECODE_LUMA || frame->component_count == 1;
}

size_t jpeg_decoder_bytes(const struct jpeg_frame *frame, size_t file_bytes, enum decode_as as,
                          uint32_t eighths)
{
    size_t pixels = jpeg_decode_work_bytes(frame, file_bytes, as, eighths), scans;
    if (pixels == 0 || !frame->progressive)
        return pixels;
    scans = jpeg_progressive_work_bytes(frame, (uint32_t)file_bytes, needs_luma_only(frame, as));
    return scans == 0 ? 0 : buffer_align(pixels) + BUFFER_ALIGN + scans; /* between: the verdict */
}

size_t jpeg_scans_at(const struct jpeg_decode_image *image)
{
    return buffer_align(
        jpeg_decode_work_bytes(image->frame, image->file_bytes, image->as, image->eighths));
}

struct jpeg_progressive_image jpeg_scans_of(const struct jpeg_decode_image *image, size_t scans_at)
{
    return (struct jpeg_progressive_image){
        .frame = image->frame,
        .file = image->file,
        .file_bytes = image->file_bytes,
        .luma_only = needs_luma_only(image->frame, image->as),
        .work = image->work + scans_at + BUFFER_ALIGN,
        .verdict = (uint32_t *)(image->work + scans_at),
    };
}

bool jpeg_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                          uint32_t channels)
{
    enum { mcu = 16, high_quality = 90 };
    size_t across = (width + mcu - 1) / mcu * mcu;
    size_t samples = across * ((height + mcu - 1) / mcu * mcu);
    if (channels == 1)
        encoder->h = encoder->v = 1;
    else
        samples += 2 * samples / ((size_t)encoder->h * encoder->v);
    encoder->capacity = encoder->header_bytes + samples * (encoder->quality > high_quality ? 2 : 1);
    encoder->work_bytes =
        jpeg_encode_work_bytes(width, height, channels, encoder->h, encoder->v, encoder->capacity);
    return true;
}
