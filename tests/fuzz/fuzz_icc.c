/* fuzz_icc.c - any bytes as an ICC profile: tables or a reason, in bounded memory. */
#include <string.h>

#include "gpu/colour/conversion.h"
#include "tests/fixtures/profile.h"
#include "tests/fuzz/fuzz.h"

/* The profile's copy, lcms2's memory with its heads of blocks, and two tables. */
#define ICC_PEAK_MAX (ICC_BYTES_MAX + 2 * COLOUR_BUILD_BYTES_MAX)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    for (int intent = COLOUR_RELATIVE; intent <= COLOUR_PERCEPTUAL; intent++) {
        struct colour *colour = NULL;
        struct error error = {0};
        memory_peak_start();
        enum status status =
            colour_take(bytes, length, (enum colour_intent)intent, &colour, &error);
        FUZZ_MUST(memory_peak_end() <= ICC_PEAK_MAX);
        FUZZ_MUST(status == error.status && (status == STATUS_OK) == (colour != NULL));
        FUZZ_MUST(status == STATUS_OK || status == STATUS_DECODE_FAILED ||
                  status == STATUS_UNSUPPORTED_FORMAT);
        FUZZ_MUST((status == STATUS_OK) == (error.text[0] == '\0'));
        FUZZ_MUST(status != STATUS_OK || (colour->tables != NULL) == (colour->tables_bytes > 0));
        colour_release(colour);
    }
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file like = profile_of_matrix(&profile_adobe);
    fuzz_give_file(give, context, "srgb", profile_of_matrix(&profile_srgb));
    fuzz_give_file(give, context, "prophoto", profile_of_matrix(&profile_prophoto));
    fuzz_give_file(give, context, "gray", profile_of_gray(2.2));
    fuzz_give_file(give, context, "none", picture_icc(600, "RGB "));
    fuzz_give_file(give, context, "lab", picture_icc(600, "Lab "));
    if (profile_has_lcms) {
        fuzz_give_file(give, context, "table", profile_of_table(&like, 2));
        fuzz_give_file(give, context, "inks", profile_of_inks());
    }
    picture_free(&like);
}
