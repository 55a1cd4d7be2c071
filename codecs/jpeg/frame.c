/*
 * frame.c - reads the headers of a JPEG for the decoder on GPUs and for the row decoder.
 *
 * libjpeg reads the header up to the first scan, so that libjpeg alone decides if a file is valid.
 * The headers of later scans of a progressive file are read here. If these decoders cannot decode
 * such a file, or if libjpeg would warn or fail, the caller decodes the file with libjpeg.
 */
#include "codecs/jpeg/frame.h"

#include <string.h>

#include "codecs/jpeg/jpeg_state.h"

/* ---- Huffman tables ---- */

/* Whether libjpeg accepts the counts and symbols as a table (jpeg_make_d_derived_tbl in its
 * jdhuff.c): the codes must fit their lengths, and DC symbols are at most 15. */
static bool is_table(const struct jpeg_huffman *table, bool dc)
{
    uint32_t code = 0, count = 0;
    for (int bits = 1; bits <= 16; bits++, code <<= 1) {
        code += table->counts[bits - 1];
        count += table->counts[bits - 1];
        if (code >= 1u << bits) /* no code is all ones */
            return false;
    }
    for (uint32_t i = 0; dc && i < count; i++)
        if (table->symbols[i] > 15)
            return false;
    return count > 0 && count <= sizeof table->symbols;
}

/* Adds a table to the frame, unless the frame has the same one, and sets *index to it. Returns
 * false if `from` is NULL or invalid, or if the frame has too many tables. */
static bool add_table(struct jpeg_frame *frame, const JHUFF_TBL *from, bool dc, uint8_t *index)
{
    struct jpeg_huffman table = {0};
    uint32_t count = 0, i = 0;
    if (from == NULL)
        return false;
    memcpy(table.counts, from->bits + 1, sizeof table.counts);
    for (size_t bits = 0; bits < sizeof table.counts; bits++)
        count += table.counts[bits];
    if (count > sizeof table.symbols)
        return false;
    memcpy(table.symbols, from->huffval, count);
    if (!is_table(&table, dc))
        return false;
    while (i < frame->huffman_count && memcmp(&frame->huffman[i], &table, sizeof table) != 0)
        i++;
    if (i == JPEG_FRAME_HUFFMAN_MAX)
        return false;
    frame->huffman[i] = table;
    frame->huffman_count = i == frame->huffman_count ? i + 1 : frame->huffman_count;
    *index = (uint8_t)i;
    return true;
}

/* Replaces tables of libjpeg's reader by those of a DHT segment. at: after the segment's length. */
static bool read_tables(j_decompress_ptr reader, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint32_t count = 0, number = at[0] & 15;
        bool dc = at[0] < 16;
        if (end - at < 17 || at[0] >> 4 > 1 || number >= NUM_HUFF_TBLS)
            return false;
        JHUFF_TBL **table =
            dc ? &reader->dc_huff_tbl_ptrs[number] : &reader->ac_huff_tbl_ptrs[number];
        if (*table == NULL)
            *table = jpeg_alloc_huff_table((j_common_ptr)reader);
        memcpy((*table)->bits + 1, at + 1, 16);
        for (int bits = 1; bits <= 16; bits++)
            count += (*table)->bits[bits];
        at += 17;
        if (count > sizeof (*table)->huffval || (size_t)(end - at) < count)
            return false;
        memset((*table)->huffval, 0, sizeof (*table)->huffval);
        memcpy((*table)->huffval, at, count);
        at += count;
    }
    return true;
}

/* ---- scans ---- */

/* Adds a scan to the frame, with the tables that are in force. at: offset of its data in the file.
 * Returns false if the scan refers to a table that does not exist, or these decoders do not decode
 * it. */
static bool add_scan(struct jpeg_frame *frame, j_decompress_ptr reader,
                     const struct jpeg_scan_header *header, uint32_t at)
{
    if (frame->scan_count == JPEG_FRAME_SCANS_MAX)
        return false;
    struct jpeg_scan *scan = &frame->scans[frame->scan_count++];
    bool needs_dc = header->first == 0 && header->high == 0, needs_ac = header->last > 0;
    *scan = (struct jpeg_scan){
        .component_count = (uint8_t)header->count,
        .first = (uint8_t)header->first,
        .last = (uint8_t)header->last,
        .high = (uint8_t)header->high,
        .low = (uint8_t)header->low,
        .restart_interval = reader->restart_interval,
        .at = at,
    };
    for (int i = 0; i < header->count; i++) {
        scan->components[i] = (uint8_t)header->components[i];
        if (i > 0 && header->components[i] <= header->components[i - 1])
            return false;
        if ((needs_dc && (header->dc[i] >= NUM_HUFF_TBLS ||
                          !add_table(frame, reader->dc_huff_tbl_ptrs[header->dc[i]], true,
                                     &scan->dc[i]))) ||
            (needs_ac && (header->ac[i] >= NUM_HUFF_TBLS ||
                          !add_table(frame, reader->ac_huff_tbl_ptrs[header->ac[i]], false,
                                     &scan->ac[i]))))
            return false;
    }
    return true;
}

/* The header of the first scan, which libjpeg has read. */
static struct jpeg_scan_header first_scan(const struct jpeg_decompress_struct *reader)
{
    struct jpeg_scan_header header = {.count = reader->comps_in_scan, .first = reader->Ss,
                                      .last = reader->Se, .high = reader->Ah, .low = reader->Al};
    for (int i = 0; i < reader->comps_in_scan; i++) {
        header.components[i] = reader->cur_comp_info[i]->component_index;
        header.dc[i] = reader->cur_comp_info[i]->dc_tbl_no;
        header.ac[i] = reader->cur_comp_info[i]->ac_tbl_no;
    }
    return header;
}

/* Reads a segment between two scans. at: its marker; length: of the bytes after the marker. Returns
 * false if libjpeg might refuse the file or warn. It warns for example about an APP0 of another
 * version. */
static bool read_segment(struct jpeg_state *state, const uint8_t *at, size_t length)
{
    switch (at[1]) {
    case JPEG_MARKER_DHT:
        return read_tables(&state->reader, at + 4, at + 2 + length);
    case JPEG_MARKER_DRI:
        state->reader.restart_interval = (unsigned)at[4] << 8 | at[5];
        return length == 4;
    case JPEG_MARKER_DQT:
    case JPEG_APP0:
        return false;
    default: /* APPn or COM. libjpeg has counted those of the header. */
        return ++state->segments_seen <= JPEG_SEGMENTS_MAX;
    }
}

/* Reads the headers of the later scans of a progressive file, up to the EOI marker. */
static bool read_later_scans(struct jpeg_frame *frame, struct jpeg_state *state,
                             const uint8_t *bytes, const uint8_t *end)
{
    j_decompress_ptr reader = &state->reader;
    const uint8_t *from = bytes + frame->scans[0].at;
    struct jpeg_markers markers = {from, state->limits->deadline_ns};
    for (;;) {
        struct jpeg_scan *scan = &frame->scans[frame->scan_count - 1];
        const uint8_t *at = jpeg_find_marker(&markers, from, end);
        if (at == NULL)
            return false;
        scan->bytes = (uint32_t)(at - bytes) - scan->at;
        for (size_t length; at[1] != JPEG_MARKER_SOS; at += 2 + length) {
            if (at[1] == JPEG_EOI)
                return true;
            length = jpeg_segment_length(at, end);
            if (length == 0 || end - at < (ptrdiff_t)length + 4 || at[2 + length] != 0xFF ||
                !read_segment(state, at, length))
                return false;
        }
        struct jpeg_scan_header header;
        size_t length = jpeg_segment_length(at, end);
        if (length == 0 || !jpeg_read_scan_header(reader, at + 2, length, &header))
            return false;
        from = at + 2 + length;
        /* If there are too many scans, libjpeg reports it. */
        if (frame->scan_count >= state->limits->jpeg_scans_max ||
            !add_scan(frame, reader, &header, (uint32_t)(from - bytes)))
            return false;
    }
}

/* ---- the frame ---- */

static bool has_usual_sampling(const struct jpeg_decompress_struct *reader)
{
    const jpeg_component_info *c = reader->comp_info;
    if (reader->num_components == 1)
        return true;
    return c[0].h_samp_factor <= 2 && c[0].v_samp_factor <= 2 && c[1].h_samp_factor == 1 &&
           c[1].v_samp_factor == 1 && c[2].h_samp_factor == 1 && c[2].v_samp_factor == 1;
}

static bool read_components(struct jpeg_frame *frame, const struct jpeg_decompress_struct *reader)
{
    for (int i = 0; i < reader->num_components; i++) {
        const jpeg_component_info *from = &reader->comp_info[i];
        const JQUANT_TBL *table = from->quant_tbl_no >= 0 && from->quant_tbl_no < NUM_QUANT_TBLS
                                      ? reader->quant_tbl_ptrs[from->quant_tbl_no]
                                      : NULL;
        struct jpeg_component *to = &frame->components[i];
        if (table == NULL)
            return false;
        to->h = reader->num_components == 1 ? 1 : (uint8_t)from->h_samp_factor;
        to->v = reader->num_components == 1 ? 1 : (uint8_t)from->v_samp_factor;
        for (int k = 0; k < DCTSIZE2; k++) {
            to->quant[k] = table->quantval[k];
            if (table->quantval[k] == 0)
                return false;
        }
    }
    return true;
}

/* Whether the header of a sequential scan says that it has all coefficients. If not, libjpeg
 * decodes all of them nevertheless, but warns (JWRN_NOT_SEQUENTIAL). */
static bool is_whole_scan(const struct jpeg_decompress_struct *reader)
{
    return reader->Ss == 0 && reader->Se == DCTSIZE2 - 1 && reader->Ah == 0 && reader->Al == 0;
}

static bool has_standard_tables(const struct jpeg_frame *frame)
{
    const struct jpeg_scan *scan = &frame->scans[0];
    bool are_standard = true;
    for (int i = 0; i < scan->component_count && are_standard; i++) {
        const struct jpeg_huffman *wanted = &jpeg_standard_tables[i == 0 ? 0 : 2];
        are_standard = memcmp(&frame->huffman[scan->dc[i]], &wanted[0], sizeof *wanted) == 0 &&
                       memcmp(&frame->huffman[scan->ac[i]], &wanted[1], sizeof *wanted) == 0;
    }
    return are_standard;
}

bool jpeg_fill_frame(struct jpeg_frame *frame, struct jpeg_state *state, const uint8_t *bytes,
                     size_t length)
{
    j_decompress_ptr reader = &state->reader;
    bool gray = reader->jpeg_color_space == JCS_GRAYSCALE && reader->num_components == 1;
    bool ycc = reader->jpeg_color_space == JCS_YCbCr && reader->num_components == 3;
    if (reader->data_precision != 8 || reader->arith_code || (!gray && !ycc) ||
        length > UINT32_MAX || state->errors.num_warnings > 0 || !has_usual_sampling(reader) ||
        (!reader->progressive_mode &&
         (reader->comps_in_scan != reader->num_components || !is_whole_scan(reader))))
        return false;
    frame->width = reader->image_width;
    frame->height = reader->image_height;
    frame->component_count = (uint8_t)reader->num_components;
    frame->progressive = reader->progressive_mode;
    size_t at = length - state->rest_bytes - state->source.bytes_in_buffer;
    struct jpeg_scan_header header = first_scan(reader);
    if (!read_components(frame, reader) || !add_scan(frame, reader, &header, (uint32_t)at))
        return false;
    frame->scans[0].bytes = (uint32_t)(length - at);
    frame->has_standard_tables = !frame->progressive && has_standard_tables(frame);
    return !frame->progressive || read_later_scans(frame, state, bytes, bytes + length);
}

bool jpeg_read_frame(void *opaque, const uint8_t *bytes, size_t length,
                     const struct codec_limits *limits, struct jpeg_frame *frame)
{
    struct jpeg_state *state = opaque;
    struct error error = {0};
    struct jpeg_known_header *known = jpeg_find_known(state, bytes, length);
    if (known && jpeg_copy_frame(known, length, frame))
        return true;
    memset(&state->reader, 0, sizeof state->reader);
    /* The tables and scans, most of the 12 KiB, are written when they are counted. */
    memset(frame, 0, offsetof(struct jpeg_frame, scans));
    frame->huffman_count = 0;
    state->limits = limits;
    jpeg_begin(state, (j_common_ptr)&state->reader, &error);
    if (setjmp(state->jump) == 0) {
        jpeg_open_reader(state, bytes, length);
        jpeg_read_header(&state->reader, TRUE);
        if (!jpeg_fill_frame(frame, state, bytes, length))
            error_set(&error, STATUS_UNSUPPORTED_FORMAT, "devices do not decode this JPEG");
    }
    jpeg_destroy_decompress(&state->reader);
    if (known && error.status == STATUS_OK)
        jpeg_keep_frame(known, frame);
    return error.status == STATUS_OK;
}
