/* fuzz_exif.c - any bytes as an EXIF blob: a valid orientation, changes that end, and no access
 * after the end. */
#include <string.h>

#include "codecs/codec_impl.h"
#include "conf/limits.h"
#include "tests/fixtures/camera.h"
#include "tests/fuzz/fuzz.h"

/* A copy is read like its source, and copied again it stays the same. An output does not change it
 * for the next one, except for its orientation. */
static void check_changes(const uint8_t *bytes, size_t length)
{
    const struct metadata_fit fits[] = {
        {.upright = true, .in_srgb = true, .width = 65500, .height = 1},
        {.upright = true, .width = 7, .height = 9},
    };
    uint8_t *first = NULL, *second = NULL;
    size_t kept = 0, again = 0;
    FUZZ_MUST(exif_copy(bytes, length, 1, &first, &kept) && kept <= EXIF_KEPT_BYTES_MAX);
    uint8_t *notice = NULL;
    size_t notice_bytes = 0;
    FUZZ_MUST(exif_notice(bytes, length, &notice, &notice_bytes) && notice_bytes <= length + 64);
    free(notice);
    struct image_density density = exif_density(bytes, length), metre;
    if (codec_convert_density(&density, DENSITY_METRE, UINT32_MAX, &metre))
        FUZZ_MUST(metre.x > 0 && metre.y > 0);
    FUZZ_MUST(exif_copy(first, kept, 1, &second, &again));
    FUZZ_MUST(again == kept && (kept == 0 || memcmp(first, second, kept) == 0));
    uint16_t space = exif_colour_space(first, kept);
    if (first != NULL)
        FUZZ_MUST(exif_orientation(first, kept) == exif_orientation(bytes, length));
    exif_fit(first, kept, space, &fits[0]);
    exif_fit(first, kept, space, &fits[1]);
    exif_fit(first, kept, space, &fits[1]);
    exif_fit(second, kept, space, &fits[1]);
    FUZZ_MUST(exif_orientation(first, kept) == exif_orientation(second, kept));
    free(first);
    free(second);
}

/* EXIF for pixels that are not upright has the tag for it, with any source. */
static void check_turned(const uint8_t *bytes, size_t length)
{
    const struct metadata_fit turned = {.orientation = 6, .width = 7, .height = 9};
    uint8_t *copy = NULL;
    size_t kept = 0;
    FUZZ_MUST(exif_copy(bytes, length, 6, &copy, &kept) && kept <= EXIF_KEPT_BYTES_MAX);
    exif_fit(copy, kept, 0, &turned);
    FUZZ_MUST(copy == NULL || exif_orientation(copy, kept) == 6);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    int orientation = exif_orientation(bytes, length);
    FUZZ_MUST(orientation >= 1 && orientation <= ORIENTATION_MAX);
    FUZZ_MUST(exif_orientation(bytes, length) == orientation);
    check_changes(bytes, length);
    check_turned(bytes, length);
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
    fuzz_give_file(give, context, "camera-little", camera_exif(false, 6, 40, 30, 0));
    fuzz_give_file(give, context, "camera-big", camera_exif(true, 6, 40, 30, 9));
}
