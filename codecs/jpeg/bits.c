#include "codecs/jpeg/bits.h"

/* ---- bits ---- */

struct jpeg_bits jpeg_bits_fill_slowly(struct jpeg_bits bits)
{
    while (bits.count < JPEG_BITS_FULL) {
        uint64_t byte = 0;
        bool stuffed = bits.end - bits.at >= 2 && bits.at[0] == 0xFF && bits.at[1] == 0;
        if (bits.at == bits.end || (bits.at[0] == 0xFF && !stuffed)) {
            bits.padding++;
        } else {
            byte = bits.at[0];
            bits.at += stuffed ? 2 : 1;
        }
        bits.window |= byte << (JPEG_BITS_FULL - bits.count);
        bits.count += 8;
    }
    return bits;
}

/* ---- symbols ---- */

/* Makes the entry of a symbol whose code has `length` bits. */
static uint32_t make_entry(enum jpeg_scan_kind kind, uint32_t low, uint32_t symbol, uint32_t length)
{
    uint32_t run = symbol >> 4, size = symbol & 15;
    if (kind == JPEG_DC_FIRST)
        return (length + size) | size << 16;
    if (size == 0 && run < 15)
        return JPEG_ENTRY_SPECIAL | JPEG_ENTRY_ENDS | (length + run) | run << 8;
    uint32_t entry = (length + size) | run << 8 | size << 16;
    if (kind == JPEG_AC_REFINE) /* a new coefficient has one extra bit, its sign */
        return size > 1 ? JPEG_ENTRY_SPECIAL | JPEG_ENTRY_INVALID | 1 : entry;
    if (size == 0)
        return JPEG_ENTRY_SPECIAL | JPEG_ENTRY_ZEROS | entry;
    if (size + low > 15) /* the value does not fit a coefficient */
        return JPEG_ENTRY_SPECIAL | JPEG_ENTRY_INVALID | 1;
    return entry;
}

void jpeg_lookup_build(struct jpeg_lookup *lookup, const struct jpeg_huffman *table,
                       enum jpeg_scan_kind kind, uint32_t low)
{
    uint32_t code = 0, index = 0, filled = 0;
    lookup->table = table;
    lookup->kind = kind;
    lookup->low = low;
    for (uint32_t length = 1; length <= 16; length++) {
        uint32_t end = index + table->counts[length - 1];
        lookup->offsets[length] = index - code;
        for (; index < end; index++, code++) {
            if (length > JPEG_LOOKUP_BITS)
                continue;
            uint32_t entry = make_entry(kind, low, table->symbols[index], length);
            for (uint32_t i = 0; i < 1u << (JPEG_LOOKUP_BITS - length); i++)
                lookup->entries[filled++] = entry;
        }
        lookup->limits[length] = code << (16 - length);
        code <<= 1;
    }
    while (filled < 1 << JPEG_LOOKUP_BITS)
        lookup->entries[filled++] = JPEG_ENTRY_SPECIAL;
}

uint32_t jpeg_lookup_long(const struct jpeg_lookup *lookup, uint64_t window)
{
    uint32_t prefix = (uint32_t)(window >> 48), length = JPEG_LOOKUP_BITS + 1;
    while (length <= 16 && prefix >= lookup->limits[length])
        length++;
    if (length > 16)
        return JPEG_ENTRY_SPECIAL | JPEG_ENTRY_INVALID | 1;
    uint32_t index = (prefix >> (16 - length)) + lookup->offsets[length];
    return make_entry(lookup->kind, lookup->low, lookup->table->symbols[index & 255], length);
}
