/* fuzz_inflate.c - any bytes as a zlib stream: inflate.h gives the bytes of zlib, and refuses the
 * streams that zlib refuses. A wrong checksum does not hide the stream. */
#include <string.h>

#include <zlib.h>

#include "tests/fixtures/inflated.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    enum { output_max = 200000 };
    bool accepted;
    const char *difference = inflated_difference(bytes, length, output_max, 1 + length % 50,
                                                 1 + length * 7 % 3000, &accepted);
    if (difference)
        fprintf(stderr, "%s\n", difference);
    FUZZ_MUST(difference == NULL);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
    uint8_t *pixels = picture_pixels(40, 30, 3, 1);
    for (int level = 0; level <= 9; level += 3)
        for (int s = 0; s < 4; s++) {
            uint8_t stream[8192];
            char name[32];
            z_stream z = {.next_in = pixels,
                          .avail_in = 40 * 30 * 3,
                          .next_out = stream,
                          .avail_out = sizeof stream};
            FUZZ_MUST(deflateInit2(&z, level, Z_DEFLATED, 15, 1 + s, strategies[s]) == Z_OK);
            FUZZ_MUST(deflate(&z, Z_FINISH) == Z_STREAM_END);
            snprintf(name, sizeof name, "level-%d-%d", level, s);
            give(context, name, stream, z.total_out);
            deflateEnd(&z);
        }
    free(pixels);
}
