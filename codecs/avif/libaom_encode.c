/* libaom_encode.c - writes AVIFs with libavif and libaom in the codec process. */
#include "codecs/avif/avif_impl.h"
#include "codecs/avif/header.h"

const char *libavif_refusal(bool writes)
{
#ifdef GPUIMGD_AVIF
    return codec_process_refusal(FORMAT_avif, writes,
                                 writes ? "this libavif has no AV1 encoder; install one built "
                                          "with libaom"
                                        : "this libavif has no AV1 decoder; install one built "
                                          "with dav1d");
#else
    (void)writes;
    return "this gpuimgd was built without libavif (AVIF=no)";
#endif
}

/* Measured with libaom 3.6 for an image of noise with quality 100; other images need a fifth less.
 * libaom adds a border to each frame. */
size_t libaom_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings)
{
    enum { fixed_bytes = 4 << 20, border = 160, high_effort = 4 };
    size_t pixel_bytes = settings->effort < high_effort ? 26 : 40;
    (void)channels;
    return CODEC_WINDOW_BYTES + fixed_bytes +
           ((size_t)width + border) * (height + (size_t)border) * pixel_bytes;
}

enum status libaom_encode(void *state, const struct image *src,
                          const struct encode_request *request, struct codec_sink *sink,
                          struct error *error)
{
    const char *refusal = libavif_refusal(true);
    if (refusal)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "alpha, quality 100 and efforts except %d to %d of AVIFs need "
                         "libavif, but %s",
                         AVIF_OWN_EFFORT_MIN, AVIF_OWN_EFFORT_MAX, refusal);
    size_t bytes = libaom_encoder_bytes(src->width, src->height, src->channels, &request->encoder);
    return codec_process_encode(state, src, request, bytes, AVIF_METADATA_COPIES, sink, error);
}
