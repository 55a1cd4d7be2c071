/* fuzz_bmp.c - any bytes as a BMP. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

/* The second header follows; numbers are little-endian. */
#define FILE_HEADER(pixels_at) "BM\0\0\0\0\0\0\0\0" pixels_at "\0\0\0"
/* 5 x 3 pixels in one plane. */
#define SIDES "\5\0\0\0\3\0\0\0\1\0"
/* From the compression on: its number, then sizes and densities. */
#define REST(compression)                                                                          \
    compression "\0\0\0"                                                                           \
                "\0\0\0\0\x13\x0B\0\0\x13\x0B\0\0\2\0\0\0\0\0\0\0"
#define PALETTE "\0\0\0\0\xFF\x80\x40\0"

void fuzz_seeds(fuzz_give *give, void *context)
{
#define SEED(name, text) give(context, name, text, sizeof text - 1)
    SEED("1.bmp", FILE_HEADER("\x3E") "\x28\0\0\0" SIDES "\1\0" REST("\0") PALETTE
         "\xA8\0\0\0\x50\0\0\0\xF8\0\0\0");
    SEED("core.bmp", FILE_HEADER("\x20") "\x0C\0\0\0"
                                         "\5\0\3\0\1\0\1\0"
                                         "\0\0\0\xFF\x80\x40"
                                         "\xA8\0\0\0\x50\0\0\0\xF8\0\0\0");
    SEED("rle8.bmp", FILE_HEADER("\x3E") "\x28\0\0\0" SIDES "\x08\0" REST("\1") PALETTE
         "\5\1\0\0\0\3\1\0\1\0\0\2\1\1\2\1\0\1");
    SEED("rle4.bmp", FILE_HEADER("\x3E") "\x28\0\0\0" SIDES "\4\0" REST("\2") PALETTE
         "\5\x10\0\0\0\5\x10\x01\x10\0\0\2\1\1\0\1");
    SEED("masks.bmp",
         FILE_HEADER("\x42") "\x28\0\0\0" SIDES "\x10\0" REST("\3") "\0\xF8\0\0\xE0\7\0\0\x1F\0\0\0"
                                                                    "12345678901\0"
                                                                    "12345678901\0"
                                                                    "12345678901\0");
    SEED("alpha.bmp",
         FILE_HEADER("\x46") "\x38\0\0\0"
                             "\1\0\0\0\3\0\0\0\1\0"
                             "\x20\0" REST("\3") "\0\0\xFF\0\0\xFF\0\0\xFF\0\0\0\0\0\0\xFF"
                                                 "123456789012");
#undef SEED
}
