#include "gpu/avif/kernels/kernels_avx2.h"

const struct avif_kernels *avif_kernels_avx2(void)
{
#ifdef __x86_64__
    static const struct avif_kernels kernels = {
        .import = avif_import_avx2,
        .predict = avif_predict_avx2,
        .satd = avif_satd_avx2,
        .transform = avif_transform_avx2,
        .cost = avif_cost_avx2,
        .quantise = avif_quantise_avx2,
        .inverse = avif_inverse_avx2,
    };
    return __builtin_cpu_supports("avx2") ? &kernels : NULL; /* uncovered: machine */
#else
    return NULL;
#endif
}
