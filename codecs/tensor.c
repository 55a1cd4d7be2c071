#include "codecs/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "codecs/codec_impl.h"

/* In the order of enum tensor_type. */
static const struct {
    const char *dtype, *descr;
} types[] = {{"uint8", "|u1"}, {"float16", "<f2"}, {"float32", "<f4"}};

static bool sniff(const uint8_t *bytes, size_t length)
{
    (void)bytes, (void)length;
    return false;
}

static const char *refusal(bool writes)
{
    return writes ? NULL : "tensors are only written";
}

static size_t encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings)
{
    return (size_t)width * height * channels * tensor_number_bytes(settings->type);
}

const struct codec codec_npy = {.sniff = sniff, .refusal = refusal, .encoded_bytes = encoded_bytes};
const struct codec codec_raw = {.sniff = sniff, .refusal = refusal, .encoded_bytes = encoded_bytes};

size_t tensor_header_bytes(const struct format *format)
{
    return format == &formats[FORMAT_npy] ? NPY_HEADER_BYTES : 0;
}

void tensor_shape(const struct encoder_settings *settings, uint32_t width, uint32_t height,
                  uint32_t channels, uint32_t shape[3])
{
    bool planar = settings->layout == TENSOR_CHW;
    shape[0] = planar ? channels : height;
    shape[1] = planar ? height : width;
    shape[2] = planar ? width : channels;
}

const char *tensor_dtype(const struct encoder_settings *settings)
{
    return types[settings->type].dtype;
}

/* numpy.lib.format, version 1.0: magic, version, length of the text in 16 bits, and the text, which
 * ends with a newline at a multiple of 64 bytes. count: "N, ", or "". */
static void write_npy_header(const struct encoder_settings *settings, const char *count,
                             const uint32_t shape[3], uint8_t *to)
{
    enum { prefix_bytes = 10, text_bytes = NPY_HEADER_BYTES - prefix_bytes };
    char text[text_bytes + 1];
    int length = snprintf(text, sizeof text,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s%u, %u, %u), }",
                          types[settings->type].descr, count, shape[0], shape[1], shape[2]);
    assert(length > 0 && length < text_bytes);
    memset(text + length, ' ', text_bytes - (size_t)length);
    text[text_bytes - 1] = '\n';
    memcpy(to, "\x93NUMPY\x01\x00", 8);
    to[8] = text_bytes;
    to[9] = 0;
    memcpy(to + prefix_bytes, text, text_bytes);
}

void tensor_write_header(const struct format *format, const struct encoder_settings *settings,
                         uint32_t width, uint32_t height, uint32_t channels, uint8_t *to)
{
    uint32_t shape[3];
    if (tensor_header_bytes(format) == 0)
        return;
    tensor_shape(settings, width, height, channels, shape);
    write_npy_header(settings, "", shape, to);
}

void tensor_write_array_header(const struct encoder_settings *settings, uint64_t count,
                               const uint32_t shape[3], uint8_t to[NPY_HEADER_BYTES])
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 ", ", count);
    write_npy_header(settings, text, shape, to);
}
