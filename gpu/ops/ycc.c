/*
 * ycc.c - converts the Y, Cb and Cr of a JPEG to RGB, or to Y alone.
 *
 * JFIF's R = Y + 1.402 Cr', G = Y - 0.34414 Cb' - 0.71414 Cr', B = Y + 1.772 Cb', in which Cb' and
 * Cr' are Cb and Cr less 128. The arithmetic is that of libjpeg's jdcolor.c: coefficients in
 * 1/65536, products (for G the sum of two) rounded half up, results clamped to 0..255. Y is an
 * integer number of 1/65536, so it can be added before the shift. The conversion is therefore a
 * row of a color_matrix with the same result.
 */
#include "gpu/ops/point.h"
#include "gpu/plan/steps.h"

/* libjpeg's FIX: 1/65536, round half up. */
#define FIX(x) ((int32_t)((x) * 65536 + 0.5))

void step_rgb(struct chain *chain)
{
    static const int32_t coefficients[12] = {
        65536, 0, FIX(1.40200), -128 * FIX(1.40200),
        65536, -FIX(0.34414), -FIX(0.71414), 128 * (FIX(0.34414) + FIX(0.71414)),
        65536, FIX(1.77200), 0, -128 * FIX(1.77200),
    };
    point_add_ycc(chain, coefficients);
}

/* Gray with all the weight on the first channel is that channel. */
void step_luma(struct chain *chain)
{
    struct grayscale gray = grayscale_default(chain->background);
    gray.r = GRAYSCALE_WHOLE;
    gray.g = gray.b = 0;
    point_add_gray(chain, &gray);
}
