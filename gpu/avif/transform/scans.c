#include "gpu/avif/transform/scans.h"

#include <assert.h>
#include <pthread.h>

#include "gpu/avif/transform/forward.h"

/* 8192 * 2 / 3 sin(pi k / 9) */
static const int16_t sines[] = {0, 1868, 3510, 4730, 5378};

static struct avif_scans scans;
static struct avif_matrices matrices;

/* Diagonals from the first coefficient on, in alternating directions. */
static void make_scan(int size)
{
    uint16_t *positions = scans.positions[size - 2], *ranks = scans.ranks[size - 2];
    int side = 1 << size, count = 0;
    for (int diagonal = 0; diagonal < 2 * side - 1; diagonal++)
        for (int i = 0; i <= diagonal; i++) {
            int row = diagonal % 2 ? i : diagonal - i, column = diagonal - row;
            if (row >= side || column >= side)
                continue;
            positions[count] = (uint16_t)(row * side + column);
            ranks[row * side + column] = (uint16_t)++count;
        }
}

static void make_matrices(int size)
{
    int side = 1 << size, unit = 64 >> size;
    for (int k = 0; k < side; k++)
        for (int n = 0; n < side; n++) {
            matrices.dct[size - 2][k * side + n] =
                (int16_t)avif_forward_cosine(size, k == 0 ? 32 : (2 * n + 1) * k * unit);
            /* sin(x) = cos(x - pi / 2) */
            if (size == 3 || size == 4)
                matrices.adst[size - 2][k * side + n] =
                    (int16_t)avif_forward_cosine(size, (2 * n + 1) * (2 * k + 1) * unit / 2 - 64);
        }
}

static void make_adst_4(void)
{
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 4; n++) {
            int angle = (2 * k + 1) * (n + 1) % 18, half = angle % 9;
            int sine = sines[half <= 4 ? half : 9 - half];
            matrices.adst[0][4 * k + n] = (int16_t)(angle < 9 ? sine : -sine);
        }
}

static void make(void)
{
    for (int size = 2; size < 2 + SCAN_SIZES; size++)
        make_scan(size);
    for (int size = 2; size < 2 + FORWARD_SIZES; size++)
        make_matrices(size);
    make_adst_4();
}

static void need(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int result = pthread_once(&once, make);
    assert(result == 0);
    (void)result;
}

const struct avif_scans *avif_scans(void)
{
    need();
    return &scans;
}

const struct avif_matrices *avif_matrices(void)
{
    need();
    return &matrices;
}
