#include "gpu/avif/transform/scans.h"

#include <assert.h>
#include <pthread.h>

/* 8192 sqrt(2 / n) cos(pi k / 128), for n = 4 to 64. */
static const int16_t cosines[FORWARD_SIZES][65] = {
    {5793, 5791, 5786, 5777, 5765, 5749, 5730, 5707, 5681, 5652, 5619, 5583, 5543,
     5500, 5454, 5404, 5352, 5296, 5236, 5174, 5109, 5040, 4968, 4894, 4816, 4736,
     4653, 4567, 4478, 4386, 4292, 4195, 4096, 3994, 3890, 3784, 3675, 3564, 3451,
     3335, 3218, 3099, 2978, 2855, 2731, 2604, 2477, 2347, 2217, 2085, 1951, 1817,
     1682, 1545, 1407, 1269, 1130, 990,  850,  709,  568,  426,  284,  142,  0},
    {4096, 4095, 4091, 4085, 4076, 4065, 4052, 4036, 4017, 3996, 3973, 3948, 3920,
     3889, 3857, 3822, 3784, 3745, 3703, 3659, 3612, 3564, 3513, 3461, 3406, 3349,
     3290, 3229, 3166, 3102, 3035, 2967, 2896, 2824, 2751, 2675, 2598, 2520, 2440,
     2359, 2276, 2191, 2106, 2019, 1931, 1842, 1751, 1660, 1567, 1474, 1380, 1285,
     1189, 1092, 995,  897,  799,  700,  601,  501,  401,  301,  201,  101,  0},
    {2896, 2895, 2893, 2888, 2882, 2875, 2865, 2854, 2841, 2826, 2810, 2791, 2772,
     2750, 2727, 2702, 2676, 2648, 2618, 2587, 2554, 2520, 2484, 2447, 2408, 2368,
     2326, 2283, 2239, 2193, 2146, 2098, 2048, 1997, 1945, 1892, 1837, 1782, 1725,
     1668, 1609, 1550, 1489, 1428, 1365, 1302, 1238, 1174, 1108, 1042, 976,  909,
     841,  772,  704,  635,  565,  495,  425,  355,  284,  213,  142,  71,   0},
    {2048, 2047, 2046, 2042, 2038, 2033, 2026, 2018, 2009, 1998, 1987, 1974, 1960,
     1945, 1928, 1911, 1892, 1872, 1851, 1829, 1806, 1782, 1757, 1730, 1703, 1674,
     1645, 1615, 1583, 1551, 1517, 1483, 1448, 1412, 1375, 1338, 1299, 1260, 1220,
     1179, 1138, 1096, 1053, 1009, 965,  921,  876,  830,  784,  737,  690,  642,
     595,  546,  498,  449,  400,  350,  301,  251,  201,  151,  100,  50,   0},
    {1448, 1448, 1446, 1444, 1441, 1437, 1432, 1427, 1420, 1413, 1405, 1396, 1386,
     1375, 1364, 1351, 1338, 1324, 1309, 1294, 1277, 1260, 1242, 1223, 1204, 1184,
     1163, 1142, 1119, 1097, 1073, 1049, 1024, 999,  973,  946,  919,  891,  863,
     834,  805,  775,  745,  714,  683,  651,  619,  587,  554,  521,  488,  454,
     420,  386,  352,  317,  283,  248,  212,  177,  142,  107,  71,   36,   0}};
/* 8192 * 2 / 3 sin(pi k / 9) */
static const int16_t sines[] = {0, 1868, 3510, 4730, 5378};

static struct avif_scans scans;

static int cosine(int size, int angle)
{
    const int16_t *row = cosines[size - 2];
    angle &= 255;
    angle = angle > 128 ? 256 - angle : angle;
    return angle <= 64 ? row[angle] : -row[128 - angle];
}

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
            scans.dct[size - 2][k * side + n] =
                (int16_t)cosine(size, k == 0 ? 32 : (2 * n + 1) * k * unit);
            /* sin(x) = cos(x - pi / 2) */
            if (size == 3 || size == 4)
                scans.adst[size - 2][k * side + n] =
                    (int16_t)cosine(size, (2 * n + 1) * (2 * k + 1) * unit / 2 - 64);
        }
}

static void make_adst_4(void)
{
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 4; n++) {
            int angle = (2 * k + 1) * (n + 1) % 18, half = angle % 9;
            int sine = sines[half <= 4 ? half : 9 - half];
            scans.adst[0][4 * k + n] = (int16_t)(angle < 9 ? sine : -sine);
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

const struct avif_scans *avif_scans(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int result = pthread_once(&once, make);
    assert(result == 0);
    (void)result;
    return &scans;
}
