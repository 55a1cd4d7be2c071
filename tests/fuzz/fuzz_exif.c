/* fuzz_exif.c - any bytes as an EXIF blob: a valid orientation, and no read after the end. */
#include "codecs/codec_impl.h"
#include "conf/limits.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    int orientation = exif_orientation(bytes, length);
    FUZZ_MUST(orientation >= 1 && orientation <= ORIENTATION_MAX);
    FUZZ_MUST(exif_orientation(bytes, length) == orientation);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    char name[64];
    for (int i = 0; i < 4; i++)
        for (int orientation = 0; orientation <= ORIENTATION_MAX + 1; orientation += 3) {
            struct picture_file blob = picture_exif(orientation, i % 2 != 0, i / 2 != 0);
            snprintf(name, sizeof name, "%s%s-endian-%d", i % 2 ? "app1-" : "",
                     i / 2 ? "big" : "little", orientation);
            FUZZ_MUST(exif_orientation(blob.bytes, blob.length) ==
                      (orientation >= 1 && orientation <= ORIENTATION_MAX ? orientation : 1));
            fuzz_give_file(give, context, name, blob);
        }
}
