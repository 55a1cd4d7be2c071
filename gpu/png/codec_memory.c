#include "gpu/png/codec_memory.h"

#include "gpu/png/decode.h"
#include "gpu/png/encode.h"

size_t png_decoder_bytes(const struct png_frame *frame, size_t file_bytes)
{
    return png_decode_work_bytes(frame, file_bytes);
}

bool png_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                         uint32_t channels)
{
    encoder->capacity = png_encode_capacity(width, height, channels, encoder->header_bytes);
    if (encoder->capacity == 0)
        return false;
    encoder->work_bytes = png_encode_work_bytes(width, height, channels);
    return true;
}
