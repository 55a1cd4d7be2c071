/* ycc.c - YCbCr as a mixture of channels. */
#include "gpu/ops/ycc.h"

#include "gpu/ops/point.h"

/* libjpeg's FIX: 1/65536, half up. */
#define FIX(x) ((int32_t)((x) * 65536 + 0.5))

void ycc_add_rgb(struct chain *chain)
{
    static const int32_t coefficients[12] = {
        65536, 0, FIX(1.40200), -128 * FIX(1.40200),
        65536, -FIX(0.34414), -FIX(0.71414), 128 * (FIX(0.34414) + FIX(0.71414)),
        65536, FIX(1.77200), 0, -128 * FIX(1.77200),
    };
    point_add_ycc(chain, coefficients);
}

/* Gray with all the weight on the first channel is that channel. */
void ycc_add_luma(struct chain *chain)
{
    struct grayscale gray = grayscale_default(chain->background);
    gray.r = GRAYSCALE_WHOLE;
    gray.g = gray.b = 0;
    point_add_gray(chain, &gray);
}
