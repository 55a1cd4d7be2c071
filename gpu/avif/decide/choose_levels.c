#include "gpu/avif/decide/choose_levels.h"

#include "gpu/avif/transform/levels.h"

/* Returns the end that costs least; of equal ones, the last. */
static int cut_tail(const struct avif_coefficients *from, int size,
                    const struct avif_quantiser *quantiser, int end, const int16_t *levels)
{
    const uint16_t *scan = avif_scans()->positions[avif_min(size, 5) - 2];
    int64_t gain = 0, least = 0;
    int best = end;
    for (int i = end - 1; i >= 0; i--) {
        int at = scan[i];
        gain += avif_tail_gain(quantiser, avif_abs(from->of[at]), avif_abs(levels[at]),
                               quantiser->steps[at > 0]);
        if (gain < least) {
            least = gain;
            best = i;
        }
    }
    while (best > 0 && levels[scan[best - 1]] == 0)
        best--;
    return best;
}

int avif_choose_levels(const struct avif_kernels *kernels, const struct avif_coefficients *from,
                       int size, const struct avif_quantiser *quantiser, int16_t *levels,
                       int16_t *columns, int *rows)
{
    const uint16_t *scan = avif_scans()->positions[avif_min(size, 5) - 2];
    int bits = avif_min(size, 5), side = 1 << bits, count = side * side;
    int end = kernels->quantise(from, size, quantiser, levels);
    *rows = 0;
    if (end == 0)
        return 0;
    int kept = cut_tail(from, size, quantiser, end, levels);
    for (int i = kept; i < end; i++)
        levels[scan[i]] = 0;
    memset(columns, 0, (size_t)count * sizeof *columns);
    for (int i = 0; i < kept; i++) {
        int at = scan[i], row = at >> bits, column = at & (side - 1);
        if (levels[at] == 0)
            continue;
        columns[column * side + row] =
            (int16_t)avif_dequantise(levels[at], quantiser->steps[at > 0], size);
        *rows = avif_max(*rows, row + 1);
    }
    return kept;
}
