/* Tests of the headers of NumPy arrays: those that numpy.save of NumPy 1.24 and 2.4 writes. */
#include "codecs/codec.h"
#include "codecs/tensor.h"
#include "tests/fixtures/test.h"

#define PREFIX "\x93NUMPY\x01\x00\x76\x00"

static void expect(int type, int layout, uint32_t width, uint32_t height, uint32_t channels,
                   const char *text)
{
    struct encoder_settings settings = {.type = type, .layout = layout};
    uint8_t header[NPY_HEADER_BYTES + 1], want[NPY_HEADER_BYTES];
    header[NPY_HEADER_BYTES] = 0xA5;
    memset(want, ' ', sizeof want);
    memcpy(want, PREFIX, 10);
    memcpy(want + 10, text, strlen(text));
    want[NPY_HEADER_BYTES - 1] = '\n';
    tensor_write_header(&formats[FORMAT_npy], &settings, width, height, channels, header);
    assert_memory_equal(header, want, sizeof want);
    assert_int_equal(header[NPY_HEADER_BYTES], 0xA5);
}

TEST(test_headers)
{
    expect(TENSOR_U8, TENSOR_HWC, 1, 1, 1,
           "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1), }");
    expect(TENSOR_F16, TENSOR_CHW, 224, 225, 3,
           "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 225, 224), }");
    expect(TENSOR_F32, TENSOR_HWC, 65500, 65500, 4,
           "{'descr': '<f4', 'fortran_order': False, 'shape': (65500, 65500, 4), }");
    assert_int_equal(NPY_HEADER_BYTES % 64, 0);
    assert_int_equal(tensor_header_bytes(&formats[FORMAT_npy]), NPY_HEADER_BYTES);
}

TEST(test_raw)
{
    struct encoder_settings settings = {.type = TENSOR_F32};
    uint8_t byte = 0xA5;
    assert_int_equal(tensor_header_bytes(&formats[FORMAT_raw]), 0);
    tensor_write_header(&formats[FORMAT_raw], &settings, 3, 2, 1, &byte);
    assert_int_equal(byte, 0xA5);
}

/* Memory for outputs to keys is reserved before the numbers are computed. */
TEST(test_bytes)
{
    for (int type = TENSOR_U8; type <= TENSOR_F32; type++) {
        struct encoder_settings settings = {.type = type};
        size_t numbers = (size_t)16384 * 16384 * 4 << type;
        assert_true(codec_encoded_bytes(&formats[FORMAT_npy], 16384, 16384, 4, &settings, 0) >=
                    numbers + NPY_HEADER_BYTES);
        assert_int_equal(codec_encoder_bytes(&formats[FORMAT_npy], 9, 9, 4, &settings, 0), 0);
    }
}

TEST_MAIN(.name = "tensor")
