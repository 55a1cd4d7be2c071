#include "gpu/colour/icc.h"

#include <math.h>
#include <string.h>

#include "conf/limits.h"

#define TAG_ENTRY_BYTES 12
#define CLASS_AT 12
#define SPACE_AT 16
#define PCS_AT 20
#define SIGNATURE_AT 36
#define VERSION_MAJOR_MAX 4

static uint32_t u32(const uint8_t *at)
{
    return ICC_NAME(at[0], at[1], at[2], at[3]);
}

static uint32_t u16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static double fixed(const uint8_t *at)
{
    return (int32_t)u32(at) / 65536.0;
}

enum icc_space icc_space(const uint8_t *bytes, size_t length)
{
    if (!bytes || length < ICC_HEADER_BYTES + 4 || length > ICC_BYTES_MAX ||
        u32(bytes) != length || memcmp(bytes + SIGNATURE_AT, "acsp", 4) != 0)
        return ICC_SPACE_NONE;
    switch (u32(bytes + SPACE_AT)) {
    case ICC_NAME('G', 'R', 'A', 'Y'): return ICC_SPACE_GRAY;
    case ICC_NAME('R', 'G', 'B', ' '): return ICC_SPACE_RGB;
    case ICC_NAME('C', 'M', 'Y', 'K'): return ICC_SPACE_CMYK;
    default: return ICC_SPACE_OTHER;
    }
}

/* Whether the profile's class is that of an input, display or output device or of a colour space.
 * The other classes (device links, abstract profiles, named colours) do not describe images. */
static bool is_of_image(const uint8_t *bytes)
{
    static const char *const classes[] = {"scnr", "mntr", "prtr", "spac"};
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (memcmp(bytes + CLASS_AT, classes[i], 4) == 0)
            return true;
    return false;
}

const char *icc_open(struct icc *icc, const uint8_t *bytes, size_t length)
{
    *icc = (struct icc){.bytes = bytes, .length = length, .space = icc_space(bytes, length)};
    if (icc->space == ICC_SPACE_NONE)
        return "it has no valid header";
    icc->tag_count = u32(bytes + ICC_HEADER_BYTES);
    icc->pcs_is_lab = u32(bytes + PCS_AT) == ICC_NAME('L', 'a', 'b', ' ');
    if (bytes[8] > VERSION_MAJOR_MAX)
        return "its version is newer than 4";
    if (!is_of_image(bytes))
        return "it is not a profile of a device or a colour space";
    if (!icc->pcs_is_lab && u32(bytes + PCS_AT) != ICC_NAME('X', 'Y', 'Z', ' '))
        return "its connection space is neither XYZ nor Lab";
    if (icc->tag_count > ICC_TAGS_MAX)
        return "it has more than 100 tags";
    if (length - ICC_HEADER_BYTES - 4 < (size_t)icc->tag_count * TAG_ENTRY_BYTES)
        return "its table of tags is truncated";
    return NULL;
}

static const uint8_t *find_entry(const struct icc *icc, uint32_t name)
{
    const uint8_t *entry = icc->bytes + ICC_HEADER_BYTES + 4;
    for (uint32_t i = 0; i < icc->tag_count; i++, entry += TAG_ENTRY_BYTES)
        if (u32(entry) == name)
            return entry;
    return NULL;
}

bool icc_has(const struct icc *icc, uint32_t name)
{
    return find_entry(icc, name) != NULL;
}

struct icc_tag icc_find(const struct icc *icc, uint32_t name)
{
    const uint8_t *entry = find_entry(icc, name);
    if (!entry)
        return (struct icc_tag){NULL, 0};
    size_t at = u32(entry + 4), length = u32(entry + 8);
    if (at > icc->length || length > icc->length - at || length < 8)
        return (struct icc_tag){NULL, 0};
    return (struct icc_tag){icc->bytes + at, length};
}

bool icc_read_xyz(const struct icc *icc, uint32_t name, double xyz[3])
{
    struct icc_tag tag = icc_find(icc, name);
    if (tag.length < 20 || u32(tag.bytes) != ICC_NAME('X', 'Y', 'Z', ' '))
        return false;
    for (int i = 0; i < 3; i++)
        xyz[i] = fixed(tag.bytes + 8 + 4 * i);
    return true;
}

/* Type `curv`: a table; or, if it has one entry, a gamma in units of 1/256; or, if it has none, the
 * identity. */
static bool read_table(struct icc_tag tag, struct icc_curve *curve)
{
    uint32_t count = tag.length >= 12 ? u32(tag.bytes + 8) : UINT32_MAX;
    if (count > (tag.length - 12) / 2)
        return false;
    *curve = (struct icc_curve){.function = count < 2 ? 0 : -1, .values = {1},
                                .table = tag.bytes + 12, .count = count};
    if (count == 1)
        curve->values[0] = u16(curve->table) / 256.0;
    return true;
}

static bool read_parameters(struct icc_tag tag, struct icc_curve *curve)
{
    static const uint8_t counts[] = {1, 3, 4, 5, 7};
    uint32_t function = tag.length >= 12 ? u16(tag.bytes + 8) : UINT32_MAX;
    if (function >= sizeof(counts) || tag.length < 12 + 4 * (size_t)counts[function])
        return false;
    *curve = (struct icc_curve){.function = (int)function};
    for (int i = 0; i < counts[function]; i++)
        curve->values[i] = fixed(tag.bytes + 12 + 4 * i);
    return true;
}

bool icc_read_curve(const struct icc *icc, uint32_t name, struct icc_curve *curve)
{
    struct icc_tag tag = icc_find(icc, name);
    if (!tag.bytes)
        return false;
    switch (u32(tag.bytes)) {
    case ICC_NAME('c', 'u', 'r', 'v'): return read_table(tag, curve);
    case ICC_NAME('p', 'a', 'r', 'a'): return read_parameters(tag, curve);
    default: return false;
    }
}

static double table_at(const struct icc_curve *curve, double x)
{
    double place = x * (curve->count - 1);
    uint32_t index = (uint32_t)place;
    if (index > curve->count - 2)
        index = curve->count - 2;
    double low = u16(curve->table + 2 * (size_t)index);
    double high = u16(curve->table + 2 * (size_t)index + 2);
    return (low + (high - low) * (place - index)) / 65535.0;
}

/* The functions of ICC.1:2022, table 68. */
static double function_at(const struct icc_curve *curve, double x)
{
    double g = curve->values[0], a = curve->values[1], b = curve->values[2];
    double c = curve->values[3], d = curve->values[4];
    double e = curve->values[5], f = curve->values[6];
    switch (curve->function) {
    case 0: return pow(x, g);
    case 1: return a * x + b >= 0 ? pow(a * x + b, g) : 0;
    case 2: return a * x + b >= 0 ? pow(a * x + b, g) + c : c;
    case 3: return x >= d ? pow(a * x + b, g) : c * x;
    default: return x >= d ? pow(a * x + b, g) + e : c * x + f;
    }
}

double icc_curve_at(const struct icc_curve *curve, double x)
{
    double y = curve->function < 0 ? table_at(curve, x) : function_at(curve, x);
    return y >= 1 ? 1 : y > 0 ? y : 0; /* NaN: 0 */
}
