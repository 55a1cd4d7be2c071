/* png.c - the PNG codec. */
#include "codecs/png/png_state.h"

static bool png_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "\x89PNG\r\n\x1A\n", PNG_SIGNATURE_BYTES);
}

const struct codec codec_png = {
    .sniff = png_sniff,
    .state_bytes = sizeof(struct png_state),
    .probe = png_probe,
    .decode = png_decode,
    .next_frame = png_next_frame,
    .encode = png_encode,
    .encoded_bytes = png_encoded_bytes,
    .encoder_bytes = png_encoder_bytes,
};
