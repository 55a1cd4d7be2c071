#include "codecs/jpeg/row_decoder.h"

#include <string.h>

#include "codecs/jpeg/bits.h"
#include "codecs/jpeg/frame.h"
#include "codecs/jpeg/zigzag.h"

/* The largest Al that libjpeg accepts. */
#define LOW_MAX 13
/* The bits of the longest code and the most extra bits together. */
#define SYMBOL_BITS_MAX 31

static const uint8_t natural_of_zigzag[64] = JPEG_NATURAL_OF_ZIGZAG;

/* A component, with its coefficients in the current row of MCUs. */
struct component {
    uint32_t h, v;         /* blocks per MCU, across and down */
    uint32_t across, down; /* blocks of the image */
    uint32_t width;        /* blocks of a row, with those that only fill an MCU */
    JBLOCKARRAY rows;      /* v rows of blocks */
    uint64_t *masks;       /* for each block: bit k is set if coefficient k, in zigzag order, is
                              nonzero */
};

struct scan {
    const struct jpeg_scan *header;
    enum jpeg_scan_kind kind;
    struct jpeg_bits bits;       /* the position in the data of the scan */
    uint32_t mcus_left;          /* up to the next restart marker */
    uint32_t restarts;           /* restart markers so far */
    uint32_t ended_blocks;       /* the number of next blocks without a coefficient in this scan */
    int dc[JPEG_COMPONENTS_MAX]; /* the DC of the last block, which the next one is coded against */
    struct jpeg_lookup *lookups[JPEG_COMPONENTS_MAX];
};

struct jpeg_row_decoder {
    uint32_t component_count;
    uint32_t requested; /* the number of components whose coefficients libjpeg has requested */
    struct component components[JPEG_COMPONENTS_MAX];
    uint32_t mcus_across, row_count; /* size of the image in MCUs */
    uint32_t next_row;               /* the row of MCUs to decode next */
    uint32_t scan_count;
    struct scan scans[JPEG_FRAME_SCANS_MAX]; /* without those that the output does not need */
    struct jpeg_frame frame;
};

/* The row decoder fails, and the caller decodes the file with libjpeg alone. */
static _Noreturn void decline(struct jpeg_state *state)
{
    codec_fail(state, STATUS_DECODE_FAILED, "the JPEG's coefficients are left to libjpeg");
}

/* ---- DC scans ---- */

/* Decodes the DC coefficient of a block. index: of the component in the scan. */
static inline bool decode_dc(struct scan *scan, struct jpeg_bits *bits, int index, JCOEF *to)
{
    const struct jpeg_lookup *lookup = scan->lookups[index];
    if (bits->count < SYMBOL_BITS_MAX)
        jpeg_bits_fill(bits);
    uint32_t entry = jpeg_lookup_entry(lookup, bits->window);
    if (entry & JPEG_ENTRY_SPECIAL)
        entry = jpeg_lookup_long(lookup, bits->window);
    scan->dc[index] += jpeg_entry_value(entry, bits);
    int value = scan->dc[index] * (1 << scan->header->low);
    jpeg_bits_drop(bits, jpeg_entry_bits(entry));
    *to = (JCOEF)value;
    return value == (JCOEF)value && !(entry & JPEG_ENTRY_INVALID);
}

static inline void refine_dc(const struct scan *scan, struct jpeg_bits *bits, JCOEF *to)
{
    *to = (JCOEF)(*to | (int)jpeg_bits_take(bits, 1) << scan->header->low);
}

/* Decodes the DC coefficients of `across` x `down` blocks, from column x and row y on. */
static inline bool decode_dcs(struct scan *scan, struct jpeg_bits *bits, int index,
                              JBLOCKARRAY rows, uint32_t x, uint32_t y, uint32_t across,
                              uint32_t down)
{
    for (uint32_t row = y; row < y + down; row++)
        for (uint32_t column = x; column < x + across; column++)
            if (scan->kind == JPEG_DC_REFINE)
                refine_dc(scan, bits, rows[row][column]);
            else if (!decode_dc(scan, bits, index, rows[row][column]))
                return false;
    return true;
}

/* Decodes `count` MCUs of an interleaved scan, from MCU x on. */
static bool decode_dc_mcus(const struct jpeg_row_decoder *decoder, struct scan *scan, uint32_t x,
                           uint32_t count)
{
    struct jpeg_bits bits = scan->bits;
    for (uint32_t mcu = x; mcu < x + count; mcu++)
        for (int i = 0; i < scan->header->component_count; i++) {
            const struct component *component = &decoder->components[scan->header->components[i]];
            if (!decode_dcs(scan, &bits, i, component->rows, mcu * component->h, 0, component->h,
                            component->v))
                return false;
        }
    scan->bits = bits;
    return true;
}

/* Decodes `count` blocks of a row, from block x on. */
static bool decode_dc_blocks(struct scan *scan, JBLOCKARRAY rows, uint32_t x, uint32_t y,
                             uint32_t count)
{
    struct jpeg_bits bits = scan->bits;
    if (!decode_dcs(scan, &bits, 0, rows, x, y, count, 1))
        return false;
    scan->bits = bits;
    return true;
}

/* ---- AC scans ---- */

/* The state of an AC scan while it decodes a row. The band of a block are the coefficients that the
 * scan has. This is a copy of parts of struct scan: the compiler can keep a local struct in
 * registers, because stores to coefficients cannot change it. */
struct band {
    const struct jpeg_lookup *lookup;
    struct jpeg_bits bits;
    uint32_t first, end, low; /* the band: coefficients from `first` to before `end`, and Al */
    uint64_t mask;            /* a bit for each coefficient of the band */
    uint32_t ended_blocks;    /* as in struct scan */
};

static struct band load_band(const struct scan *scan)
{
    const struct jpeg_scan *header = scan->header;
    return (struct band){
        .lookup = scan->lookups[0],
        .bits = scan->bits,
        .first = header->first,
        .end = header->last + 1u,
        .low = header->low,
        .mask = ((uint64_t)2 << header->last) - ((uint64_t)1 << header->first),
        .ended_blocks = scan->ended_blocks,
    };
}

static void store_band(struct scan *scan, const struct band *band)
{
    scan->bits = band->bits;
    scan->ended_blocks = band->ended_blocks;
}

/* Returns the next entry, which may be invalid. */
static inline uint32_t next_entry(struct band *band)
{
    if (band->bits.count < SYMBOL_BITS_MAX)
        jpeg_bits_fill(&band->bits);
    uint32_t entry = jpeg_lookup_entry(band->lookup, band->bits.window);
    if (entry & JPEG_ENTRY_SPECIAL && jpeg_entry_bits(entry) == 0)
        entry = jpeg_lookup_long(band->lookup, band->bits.window);
    return entry;
}

static inline void end_blocks(struct band *band, uint32_t entry)
{
    band->ended_blocks = jpeg_entry_blocks(entry, &band->bits);
    jpeg_bits_drop(&band->bits, jpeg_entry_bits(entry));
}

/* Decodes a block of a JPEG_AC_FIRST scan. Adds its nonzero coefficients to the mask *nonzero. */
static inline bool decode_block(struct band *band, JCOEF *block, uint64_t *nonzero)
{
    uint64_t found = 0;
    uint32_t k = band->first;
    do {
        uint32_t entry = next_entry(band);
        if (entry & JPEG_ENTRY_SPECIAL) {
            if (entry & JPEG_ENTRY_INVALID)
                return false;
            if (entry & JPEG_ENTRY_ENDS) {
                end_blocks(band, entry);
                break;
            }
        }
        k += jpeg_entry_run(entry);
        if (k >= band->end)
            return false;
        if (!(entry & JPEG_ENTRY_ZEROS)) {
            int value = jpeg_entry_value(entry, &band->bits) * (1 << band->low);
            block[natural_of_zigzag[k]] = (JCOEF)value;
            found |= (uint64_t)1 << k;
        }
        k++;
        jpeg_bits_drop(&band->bits, jpeg_entry_bits(entry));
    } while (k < band->end);
    *nonzero |= found;
    return true;
}

static bool decode_blocks(struct scan *scan, JBLOCK *blocks, uint64_t *masks, uint32_t count)
{
    struct band band = load_band(scan);
    for (uint32_t i = 0; i < count; i++) {
        if (band.ended_blocks > 0) {
            uint32_t left = count - i, ended = band.ended_blocks < left ? band.ended_blocks : left;
            band.ended_blocks -= ended;
            i += ended - 1;
        } else if (!decode_block(&band, blocks[i], &masks[i])) {
            return false;
        }
    }
    store_band(scan, &band);
    return true;
}

static inline uint32_t count_bits(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return (uint32_t)(word * 0x0101010101010101 >> 56);
}

/* Sets the bit `low` of the coefficients whose correction bit is 1. nonzero: the coefficients that
 * have a correction bit. corrections: these bits, in zigzag order, the last one in bit 0. */
static inline void correct(JCOEF *block, uint64_t nonzero, uint64_t corrections, uint32_t low)
{
    if (corrections == 0)
        return;
    corrections <<= 64 - count_bits(nonzero);
    for (; corrections != 0; corrections <<= 1, nonzero &= nonzero - 1) {
        JCOEF *value = &block[natural_of_zigzag[__builtin_ctzll(nonzero)]];
        int step = *value < 0 ? -(1 << low) : 1 << low;
        *value = (JCOEF)(*value + (corrections >> 63 ? step : 0));
    }
}

/* Decodes a block of a JPEG_AC_REFINE scan. Adds its new nonzero coefficients to *mask. */
static inline bool refine_block(struct band *band, JCOEF *block, uint64_t *mask)
{
    uint64_t nonzero = *mask & band->mask, rest = nonzero, found = 0, corrections = 0;
    uint32_t k = band->first;
    do {
        uint32_t entry = next_entry(band);
        if (entry & JPEG_ENTRY_SPECIAL) {
            if (entry & JPEG_ENTRY_INVALID)
                return false;
            if (entry & JPEG_ENTRY_ENDS) {
                uint32_t left = count_bits(rest);
                end_blocks(band, entry);
                corrections = corrections << left | jpeg_bits_take(&band->bits, left);
                break;
            }
        }
        /* Find the coefficient after `run` zeros. Nonzero coefficients do not count as zeros, so
         * each one that is passed moves it by one. */
        uint32_t run = jpeg_entry_run(entry), at = k + run;
        if (at >= band->end)
            return false;
        for (; rest & (((uint64_t)2 << at) - 1); rest &= rest - 1)
            if (++at >= band->end)
                return false;
        if (jpeg_entry_size(entry) > 0) {
            bool positive = jpeg_bits_peek(&band->bits, jpeg_entry_bits(entry) - 1, 1);
            int value = positive ? 1 << band->low : -(1 << band->low);
            block[natural_of_zigzag[at]] = (JCOEF)value;
            found |= (uint64_t)1 << at;
        }
        uint32_t passed = at - k - run;
        jpeg_bits_drop(&band->bits, jpeg_entry_bits(entry));
        corrections = corrections << passed | jpeg_bits_take(&band->bits, passed);
        k = at + 1;
    } while (k < band->end);
    correct(block, nonzero, corrections, band->low);
    *mask |= found;
    return true;
}

static bool refine_blocks(struct scan *scan, JBLOCK *blocks, uint64_t *masks, uint32_t count)
{
    struct band band = load_band(scan);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t nonzero = masks[i] & band.mask;
        if (band.ended_blocks == 0) {
            if (!refine_block(&band, blocks[i], &masks[i]))
                return false;
            continue;
        }
        band.ended_blocks--;
        if (nonzero)
            correct(blocks[i], nonzero, jpeg_bits_take(&band.bits, count_bits(nonzero)), band.low);
    }
    store_band(scan, &band);
    return true;
}

/* ---- scans ---- */

static bool is_interleaved(const struct scan *scan)
{
    return scan->header->component_count > 1;
}

static bool segment_ends(const struct scan *scan)
{
    return scan->ended_blocks == 0 && jpeg_bits_end(&scan->bits);
}

/* Reads the restart marker between two segments. */
static bool start_segment(struct scan *scan)
{
    struct jpeg_bits *bits = &scan->bits;
    if (!segment_ends(scan) || bits->end - bits->at < 2 || bits->at[0] != 0xFF ||
        bits->at[1] != JPEG_RST0 + scan->restarts % 8)
        return false;
    scan->restarts++;
    *bits = (struct jpeg_bits){.at = bits->at + 2, .end = bits->end};
    scan->mcus_left = scan->header->restart_interval;
    memset(scan->dc, 0, sizeof scan->dc);
    return true;
}

/* Decodes `count` MCUs of a scan, from MCU x on, without a restart marker between them. row: the
 * row of blocks within the row of MCUs, if the scan has one component. */
static bool decode_part(const struct jpeg_row_decoder *decoder, struct scan *scan, uint32_t row,
                        uint32_t x, uint32_t count)
{
    const struct component *component = &decoder->components[scan->header->components[0]];
    if (is_interleaved(scan))
        return decode_dc_mcus(decoder, scan, x, count);
    if (scan->header->first == 0)
        return decode_dc_blocks(scan, component->rows, x, row, count);
    JBLOCK *blocks = component->rows[row] + x;
    uint64_t *masks = component->masks + (size_t)row * component->width + x;
    return scan->kind == JPEG_AC_FIRST ? decode_blocks(scan, blocks, masks, count)
                                       : refine_blocks(scan, blocks, masks, count);
}

static bool decode_mcus(const struct jpeg_row_decoder *decoder, struct scan *scan, uint32_t row,
                        uint32_t count)
{
    for (uint32_t x = 0; x < count;) {
        if (scan->mcus_left == 0 && !start_segment(scan))
            return false;
        uint32_t part = count - x < scan->mcus_left ? count - x : scan->mcus_left;
        if (!decode_part(decoder, scan, row, x, part) || jpeg_bits_are_missing(&scan->bits))
            return false;
        scan->mcus_left -= part;
        x += part;
    }
    return true;
}

/* Decodes the current row of MCUs of a scan. In a scan with one component, an MCU is a single
 * block. */
static bool decode_scan_row(const struct jpeg_row_decoder *decoder, struct scan *scan)
{
    const struct component *component = &decoder->components[scan->header->components[0]];
    if (is_interleaved(scan))
        return decode_mcus(decoder, scan, 0, decoder->mcus_across);
    uint32_t first = decoder->next_row * component->v;
    for (uint32_t row = 0; row < component->v && first + row < component->down; row++)
        if (!decode_mcus(decoder, scan, row, component->across))
            return false;
    return true;
}

static void clear_rows(struct component *component)
{
    for (uint32_t row = 0; row < component->v; row++)
        memset(component->rows[row], 0, component->width * sizeof(JBLOCK));
    memset(component->masks, 0, (size_t)component->width * component->v * sizeof(uint64_t));
}

static bool decode_row(struct jpeg_row_decoder *decoder)
{
    bool is_last = decoder->next_row + 1 == decoder->row_count;
    for (uint32_t i = 0; i < decoder->component_count; i++)
        clear_rows(&decoder->components[i]);
    for (uint32_t i = 0; i < decoder->scan_count; i++) {
        struct scan *scan = &decoder->scans[i];
        if (!decode_scan_row(decoder, scan) ||
            (is_last && (!segment_ends(scan) || scan->bits.at != scan->bits.end)))
            return false;
    }
    decoder->next_row++;
    return true;
}

/* ---- libjpeg's memory manager ---- */

/* libjpeg calls this once for each component, in their order. The array that it gets is a struct
 * component; libjpeg never looks into it. */
static jvirt_barray_ptr request_rows(j_common_ptr common, int pool, boolean pre_zero,
                                     JDIMENSION across, JDIMENSION down, JDIMENSION access_max)
{
    struct jpeg_state *state = common->client_data;
    struct jpeg_row_decoder *decoder = state->row_decoder;
    struct component *component = &decoder->components[decoder->requested];
    (void)pool, (void)pre_zero, (void)down, (void)access_max;
    if (decoder->requested == decoder->component_count || component->width != across)
        decline(state); /* uncovered: promise (tests/coverage/reasons.txt) */
    decoder->requested++;
    return (jvirt_barray_ptr)(void *)component;
}

/* Called by libjpeg: first to write coefficients, while it "decodes" the missing scan; then to read
 * each row, which is decoded at that moment. */
static JBLOCKARRAY access_rows(j_common_ptr common, jvirt_barray_ptr array, JDIMENSION first,
                               JDIMENSION count, boolean writable)
{
    struct jpeg_state *state = common->client_data;
    struct jpeg_row_decoder *decoder = state->row_decoder;
    const struct component *component = (struct component *)(void *)array;
    uint32_t row = first / component->v;
    if (first % component->v > 0 || count > component->v)
        decline(state); /* uncovered: promise */
    if (writable)
        return component->rows;
    if (row == decoder->next_row) {
        jpeg_stop_late_decode(state);
        if (!decode_row(decoder))
            decline(state);
    }
    if (row + 1 != decoder->next_row)
        decline(state); /* uncovered: promise */
    return component->rows;
}

/* ---- setup ---- */

/* What the scans so far have told: the lowest known bit of each coefficient, in zigzag order; -1 if
 * none is known. */
struct known {
    int8_t low[JPEG_COMPONENTS_MAX][DCTSIZE2];
};

/* Records a scan. Returns false if it does not continue the scans before it: libjpeg warns. */
static bool learn(struct known *known, const struct jpeg_scan *scan)
{
    for (int i = 0; i < scan->component_count; i++) {
        int8_t *low = known->low[scan->components[i]];
        if (scan->first > 0 && low[0] < 0)
            return false;
        for (int k = scan->first; k <= scan->last; k++) {
            bool begins = low[k] < 0 && scan->high == 0;
            bool refines = low[k] == scan->high && scan->high > 0 && scan->low == scan->high - 1;
            if (!begins && !refines)
                return false;
            low[k] = (int8_t)scan->low;
        }
    }
    return true;
}

/* Whether libjpeg takes all scans without a warning, and they contain all bits of the components
 * of the output. If they do not, libjpeg smooths blocks. */
static bool is_complete(const struct jpeg_frame *frame, uint32_t components)
{
    struct known known;
    bool complete = true;
    memset(&known, -1, sizeof known);
    for (uint32_t i = 0; i < frame->scan_count; i++) {
        const struct jpeg_scan *scan = &frame->scans[i];
        if (scan->low > LOW_MAX || (scan->first == 0 && scan->last > 0) || !learn(&known, scan))
            return false;
    }
    for (uint32_t i = 0; i < components * DCTSIZE2; i++)
        complete &= known.low[i / DCTSIZE2][i % DCTSIZE2] == 0;
    return complete;
}

static void *allocate(j_decompress_ptr reader, size_t bytes)
{
    return reader->mem->alloc_large((j_common_ptr)reader, JPOOL_IMAGE, bytes);
}

static void open_component(struct component *component, j_decompress_ptr reader,
                           jpeg_component_info *info)
{
    component->h = (uint32_t)info->h_samp_factor;
    component->v = (uint32_t)info->v_samp_factor;
    component->across = info->width_in_blocks;
    component->down = info->height_in_blocks;
    component->width = (component->across + component->h - 1) / component->h * component->h;
    component->rows = reader->mem->alloc_barray((j_common_ptr)reader, JPOOL_IMAGE,
                                                component->width, component->v);
    component->masks =
        allocate(reader, (size_t)component->width * component->v * sizeof *component->masks);
    /* libjpeg itself would do this at the first scan of the component. */
    info->quant_table = reader->quant_tbl_ptrs[info->quant_tbl_no];
}

static void open_scan(struct jpeg_row_decoder *decoder, j_decompress_ptr reader,
                      const struct jpeg_scan *header, const uint8_t *bytes)
{
    bool is_dc = header->first == 0, refines = header->high > 0;
    struct scan *scan = &decoder->scans[decoder->scan_count++];
    *scan = (struct scan){
        .header = header,
        .kind = is_dc ? (refines ? JPEG_DC_REFINE : JPEG_DC_FIRST)
                      : (refines ? JPEG_AC_REFINE : JPEG_AC_FIRST),
        .bits = {.at = bytes + header->at, .end = bytes + header->at + header->bytes},
        .mcus_left = header->restart_interval ? header->restart_interval : UINT32_MAX,
    };
    for (int i = 0; i < header->component_count && scan->kind != JPEG_DC_REFINE; i++) {
        uint32_t table = is_dc ? header->dc[i] : header->ac[i];
        scan->lookups[i] = allocate(reader, sizeof *scan->lookups[i]);
        jpeg_lookup_build(scan->lookups[i], &decoder->frame.huffman[table], scan->kind,
                          header->low);
    }
}

/* Whether the output needs the coefficients of the scan. */
static bool is_needed(j_decompress_ptr reader, const struct jpeg_scan *scan)
{
    bool luma = reader->out_color_space == JCS_GRAYSCALE;
    const jpeg_component_info *info = &reader->comp_info[scan->components[0]];
    return scan->first == 0 || (info->DCT_scaled_size > 1 && !(luma && scan->components[0] > 0));
}

void jpeg_row_decoder_take_over(struct jpeg_state *state, const uint8_t *bytes, size_t length)
{
    j_decompress_ptr reader = &state->reader;
    struct jpeg_row_decoder *decoder = allocate(reader, sizeof *decoder);
    memset(decoder, 0, sizeof *decoder);
    bool luma = reader->out_color_space == JCS_GRAYSCALE;
    if (!jpeg_fill_frame(&decoder->frame, state, bytes, length) ||
        !is_complete(&decoder->frame, luma ? 1 : decoder->frame.component_count))
        decline(state);
    jpeg_calc_output_dimensions(reader); /* sets DCT_scaled_size */
    uint32_t mcu_width = (uint32_t)reader->max_h_samp_factor * DCTSIZE;
    decoder->component_count = (uint32_t)reader->num_components;
    decoder->mcus_across = (reader->image_width + mcu_width - 1) / mcu_width;
    decoder->row_count = reader->total_iMCU_rows;
    for (uint32_t i = 0; i < decoder->component_count; i++)
        open_component(&decoder->components[i], reader, &reader->comp_info[i]);
    for (uint32_t i = 0; i < decoder->frame.scan_count; i++)
        if (is_needed(reader, &decoder->frame.scans[i]))
            open_scan(decoder, reader, &decoder->frame.scans[i], bytes);
    reader->mem->request_virt_barray = request_rows;
    reader->mem->access_virt_barray = access_rows;
    /* libjpeg must not look for restart markers in the missing scan. It must not smooth blocks,
     * which it does if it thinks that scans are missing. */
    reader->restart_interval = 0;
    reader->do_block_smoothing = FALSE;
    state->row_decoder = decoder;
}
