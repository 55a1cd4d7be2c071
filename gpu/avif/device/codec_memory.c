#include "gpu/avif/device/codec_memory.h"

#include "gpu/avif/encode.h"

/* An H200 takes 8.5 ms for an image of this size alone: most steps depend on the one before.
 * Larger ones would keep a stream from short tasks for too long. */
#define PIXELS_MAX (2u << 20)

/* An image with alpha is rarely opaque, and libaom encodes the others. The device would decline it
 * after all its work. */
bool avif_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                          uint32_t channels)
{
    if (channels == 4 || (uint64_t)width * height > PIXELS_MAX)
        return false;
    encoder->capacity = avif_device_capacity(width, height, channels, encoder->header_bytes, 0);
    if (encoder->capacity == 0)
        return false;
    encoder->work_bytes = avif_device_work_bytes(width, height, channels, encoder->quality);
    return true;
}
