#include "gpu/webp/codec_memory.h"

#include "gpu/webp/encode.h"

/* An image with alpha is rarely opaque. The device would decline it after all its work, and the job
 * would be computed twice.
 *
 * No image is too large to gain from the device: one multiprocessor encodes a large image alone,
 * but still in a tenth of the time of a core. */
bool webp_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                          uint32_t channels)
{
    if (channels == 4)
        return false;
    encoder->capacity =
        webp_encode_capacity(width, height, encoder->quality, encoder->header_bytes, 0);
    if (encoder->capacity == 0)
        return false;
    encoder->work_bytes = webp_encode_work_bytes(width, height, encoder->quality);
    return true;
}
