/*
 * simple.c - computes the tables of profiles that have a curve per channel and three colorants, or
 * a curve of gray.
 *
 * The profile's black becomes sRGB's black (black point compensation), as in lcms2.
 */
#include <math.h>
#include <string.h>

#include "gpu/colour/build.h"

/* The colorants of sRGB (IEC 61966-2-1), adapted to D50, as ICC profiles have them: X, Y and Z of
 * red, green and blue. */
static const double srgb_colorants[3][3] = {
    {0.43606567, 0.38514709, 0.14306641},
    {0.22248840, 0.71687317, 0.06060791},
    {0.01391602, 0.09707642, 0.71409607},
};
/* A profile counts as sRGB if its colorants differ from those of sRGB by at most this much, and its
 * curves by at most this many 255ths. The many profiles of sRGB differ in their last digits. */
#define SRGB_COLORANT_NEAR 0.001
#define SRGB_CURVE_NEAR 0.5

static const uint32_t curve_names[3] = {
    ICC_NAME('r', 'T', 'R', 'C'), ICC_NAME('g', 'T', 'R', 'C'), ICC_NAME('b', 'T', 'R', 'C')};
static const uint32_t colorant_names[3] = {
    ICC_NAME('r', 'X', 'Y', 'Z'), ICC_NAME('g', 'X', 'Y', 'Z'), ICC_NAME('b', 'X', 'Y', 'Z')};

#define GRAY_CURVE ICC_NAME('k', 'T', 'R', 'C')
#define TABLE_0 ICC_NAME('A', '2', 'B', '0')
#define TABLE_1 ICC_NAME('A', '2', 'B', '1')

bool colour_is_simple(const struct icc *icc, enum colour_intent intent)
{
    if (icc_has(icc, TABLE_0) || (intent == COLOUR_RELATIVE && icc_has(icc, TABLE_1)))
        return false;
    return (icc->space == ICC_SPACE_GRAY && icc_has(icc, GRAY_CURVE)) ||
           (icc->space == ICC_SPACE_RGB && !icc->pcs_is_lab);
}

/* ---- sRGB's curve ---- */

static double srgb_encoded(double linear)
{
    return linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
}

static uint8_t srgb_byte(double linear)
{
    double clamped = linear >= 1 ? 1 : linear > 0 ? linear : 0;
    return (uint8_t)floor(255 * srgb_encoded(clamped) + 0.5);
}

/* ---- black point compensation ---- */

/* The luminance that becomes 0: that of the profile's black, but at most that of L* = 50, as in
 * lcms2. */
static double black_of(double luminance)
{
    double lightest = pow(66.0 / 116, 3);
    return luminance < lightest ? luminance : lightest;
}

static double without_black(double luminance, double black)
{
    return (luminance - black) / (1 - black);
}

/* ---- gray ---- */

static double luminance_of_lightness(double part)
{
    double f = (100 * part + 16) / 116;
    return f > 6.0 / 29 ? f * f * f : (f - 16.0 / 116) * 108 / 841;
}

static double gray_luminance(const struct icc *icc, const struct icc_curve *curve, int value)
{
    double y = icc_curve_at(curve, value / 255.0);
    return icc->pcs_is_lab ? luminance_of_lightness(y) : y;
}

static enum status build_gray(const struct icc *icc, struct colour **colour, struct error *error)
{
    struct icc_curve curve;
    if (!icc_read_curve(icc, GRAY_CURVE, &curve))
        return error_set(error, STATUS_DECODE_FAILED, "its curve of gray is damaged");
    *colour = colour_create(COLOUR_GRAY, 0);
    if (!*colour)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the tables of a profile");
    double black = black_of(gray_luminance(icc, &curve, 0));
    for (int v = 0; v < 256; v++)
        (*colour)->gray[v] = srgb_byte(without_black(gray_luminance(icc, &curve, v), black));
    return STATUS_OK;
}

/* ---- RGB ---- */

struct primaries {
    struct icc_curve curves[3];
    double colorants[3][3]; /* X, Y and Z of red, green and blue */
};

static bool read_primaries(const struct icc *icc, struct primaries *primaries)
{
    for (int c = 0; c < 3; c++) {
        double xyz[3];
        if (!icc_read_curve(icc, curve_names[c], &primaries->curves[c]) ||
            !icc_read_xyz(icc, colorant_names[c], xyz))
            return false;
        for (int i = 0; i < 3; i++)
            primaries->colorants[i][c] = xyz[i];
    }
    return true;
}

static bool is_srgb(const struct primaries *primaries)
{
    for (int i = 0; i < 9; i++)
        if (fabs(primaries->colorants[i / 3][i % 3] - srgb_colorants[i / 3][i % 3]) >
            SRGB_COLORANT_NEAR)
            return false;
    for (int i = 0; i < 3 * 256; i++) {
        double linear = icc_curve_at(&primaries->curves[i / 256], i % 256 / 255.0);
        if (fabs(255 * srgb_encoded(linear) - i % 256) > SRGB_CURVE_NEAR)
            return false;
    }
    return true;
}

static void invert(const double m[3][3], double inverse[3][3])
{
    double determinant = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int a = (j + 1) % 3, b = (j + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
            inverse[i][j] = m[a][c] * m[b][d] - m[a][d] * m[b][c];
        }
    for (int i = 0; i < 3; i++)
        determinant += m[0][i] * inverse[i][0];
    for (int i = 0; i < 9; i++)
        inverse[i / 3][i % 3] /= determinant;
}

/* Computes the matrix from linear light of the profile to linear light of sRGB. The last column is
 * added to the product. */
static void multiply(const struct primaries *primaries, double rows[3][4])
{
    double inverse[3][3], luminance = 0;
    invert(srgb_colorants, inverse);
    for (int c = 0; c < 3; c++)
        luminance += primaries->colorants[1][c] * icc_curve_at(&primaries->curves[c], 0);
    double black = black_of(luminance > 0 ? luminance : 0);
    for (int i = 0; i < 3; i++) {
        for (int c = 0; c < 3; c++) {
            rows[i][c] = 0;
            for (int k = 0; k < 3; k++)
                rows[i][c] += inverse[i][k] * primaries->colorants[k][c] / (1 - black);
        }
        rows[i][3] = -black / (1 - black);
    }
}

/* false: a row exceeds COLOUR_ROW_MAX. */
static bool write_rows(struct colour_matrix *matrix, double rows[3][4])
{
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int c = 0; c < 4; c++) {
            sum += fabs(rows[i][c]);
            if (!(sum <= COLOUR_ROW_MAX))
                return false;
            double unit = c < 3 ? COLOUR_ONE : (double)COLOUR_ONE * COLOUR_ONE;
            matrix->rows[i][c] = (int32_t)floor(rows[i][c] * unit + 0.5);
        }
        matrix->rows[i][3] += COLOUR_ONE / 2;
    }
    return true;
}

static void write_curves(struct colour_matrix *matrix, const struct primaries *primaries)
{
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            matrix->linear[c][v] = (uint16_t)floor(
                COLOUR_ONE * icc_curve_at(&primaries->curves[c], v / 255.0) + 0.5);
    for (int i = 0; i <= COLOUR_ONE; i++)
        matrix->encoded[i] = srgb_byte((double)i / COLOUR_ONE);
}

enum status colour_build_simple(const struct icc *icc, struct colour **colour, struct error *error)
{
    struct primaries primaries;
    double rows[3][4];
    if (icc->space == ICC_SPACE_GRAY)
        return build_gray(icc, colour, error);
    if (!read_primaries(icc, &primaries))
        return error_set(error, STATUS_DECODE_FAILED,
                         "it has no valid curves and colorants of red, green and blue");
    bool same = is_srgb(&primaries);
    *colour = colour_create(same ? COLOUR_SAME : COLOUR_MATRIX,
                            same ? 0 : sizeof(struct colour_matrix));
    if (!*colour)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the tables of a profile");
    if (same)
        return STATUS_OK;
    struct colour_matrix *matrix = (*colour)->tables;
    multiply(&primaries, rows);
    if (!write_rows(matrix, rows))
        return error_set(error, STATUS_DECODE_FAILED,
                         "its colorants are far outside of real colours");
    write_curves(matrix, &primaries);
    return STATUS_OK;
}
