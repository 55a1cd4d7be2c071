/*
 * jpeg.c - the JPEG codec: its table of functions, and the sizes of encoded files.
 *
 * The codec uses libjpeg-turbo by its libjpeg API; only the coefficients of most progressive files
 * are decoded by row_decoder.h. The results equal those of the programs djpeg and cjpeg:
 * slow-integer DCT, fancy upsampling, and 4:2:0 by default.
 */
#include "codecs/jpeg/header.h"
#include "codecs/jpeg/jpeg_state.h"

/* The number of samples of all components, each padded to whole MCUs. */
static size_t count_samples(uint32_t width, uint32_t height, uint32_t channels,
                            enum subsampling subsampling)
{
    bool gray = channels == 1 || subsampling == SUBSAMPLING_GRAY;
    struct jpeg_sampling sampling = jpeg_sampling_of(gray ? SUBSAMPLING_GRAY : subsampling);
    size_t across = (width - 1) / (DCTSIZE * sampling.h) + 1;
    size_t down = (height - 1) / (DCTSIZE * sampling.v) + 1;
    size_t blocks_per_mcu = (size_t)sampling.h * sampling.v + (gray ? 0 : 2);
    return across * down * blocks_per_mcu * DCTSIZE2;
}

/* Estimates the size of a file: there is one coefficient per sample, and it takes on average less
 * than a byte, or less than two at high qualities, except in an image of noise. */
static size_t jpeg_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    enum { high_quality = 90 };
    size_t samples = count_samples(width, height, channels, settings->subsampling);
    return settings->quality > high_quality ? 2 * samples : samples;
}

/* The encoder keeps all coefficients in memory if the file is progressive, because it has several
 * scans, or if tables are optimized, because they are known only after the last block. */
static size_t jpeg_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    if (!settings->progressive && !settings->optimize)
        return 0;
    return count_samples(width, height, channels, settings->subsampling) * sizeof(JCOEF);
}

/* As the estimate of jpeg_probe for any subsampling: rows of samples and of blocks for each column,
 * and of a progressive file, which has several scans, all coefficients. */
static size_t jpeg_decoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                 const struct encoder_settings *settings)
{
    enum { fixed_bytes = 512 << 10, column_bytes = 160, more = 2 * DCTSIZE };
    size_t bytes = fixed_bytes + (size_t)width * column_bytes;
    if (settings->progressive)
        bytes += count_samples(width + more, height + more, channels, settings->subsampling) *
                     sizeof(JCOEF) +
                 (size_t)height * sizeof(JBLOCKROW);
    return bytes;
}

static bool jpeg_sniff(const uint8_t *bytes, size_t length)
{
    return codec_has_bytes(bytes, length, 0, "\xFF\xD8\xFF", 3);
}

const struct codec codec_jpeg = {
    .sniff = jpeg_sniff,
    .state_bytes = sizeof(struct jpeg_state),
    .probe = jpeg_probe,
    .decode = jpeg_decode,
    .encode = jpeg_encode,
    .frame = jpeg_read_frame,
    .encoded_bytes = jpeg_encoded_bytes,
    .encoder_bytes = jpeg_encoder_bytes,
    .decoder_bytes = jpeg_decoder_bytes,
};
