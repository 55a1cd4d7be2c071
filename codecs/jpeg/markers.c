/* markers.c - finds and reads the marker segments of a JPEG, and those between its scans. */
#include "codecs/jpeg/jpeg_state.h"

#include <string.h>

/* Checks the deadline every CODEC_BYTES_PER_CHECK bytes. */
static bool is_late(struct jpeg_markers *markers, const uint8_t *at)
{
    if ((size_t)(at - markers->checked) < CODEC_BYTES_PER_CHECK)
        return false;
    markers->checked = at;
    return codec_late(markers->deadline_ns);
}

const uint8_t *jpeg_find_marker(struct jpeg_markers *markers, const uint8_t *at, const uint8_t *end)
{
    while (at < end && (at = memchr(at, 0xFF, (size_t)(end - at))) != NULL) {
        if (end - at < 2 || is_late(markers, at))
            return NULL;
        if (at[1] != 0x00 && at[1] != 0xFF && (at[1] < JPEG_RST0 || at[1] > JPEG_RST0 + 7))
            return at;
        at += at[1] == 0xFF ? 1 : 2; /* any number of 0xFF may precede a marker */
    }
    return NULL;
}

size_t jpeg_segment_length(const uint8_t *at, const uint8_t *end)
{
    int marker = at[1];
    bool plain = marker == JPEG_MARKER_SOS || marker == JPEG_MARKER_DHT ||
                 marker == JPEG_MARKER_DQT || marker == JPEG_MARKER_DRI || marker == JPEG_COM ||
                 (marker >= JPEG_APP0 && marker <= JPEG_APP0 + 15);
    if (!plain || end - at < 4)
        return 0;
    size_t length = (size_t)at[2] << 8 | at[3];
    return length >= 2 && length <= (size_t)(end - at) - 2 ? length : 0;
}

static int component_of(const struct jpeg_decompress_struct *reader, int id)
{
    int index = 0;
    while (index < reader->num_components && reader->comp_info[index].component_id != id)
        index++;
    return index;
}

bool jpeg_read_scan_header(const struct jpeg_decompress_struct *reader, const uint8_t *segment,
                           size_t length, struct jpeg_scan_header *scan)
{
    scan->count = length >= 3 ? segment[2] : 0;
    if (scan->count < 1 || scan->count > MAX_COMPS_IN_SCAN ||
        length != 6 + 2 * (size_t)scan->count)
        return false;
    for (int i = 0; i < scan->count; i++) {
        const uint8_t *selector = segment + 3 + 2 * i;
        scan->components[i] = component_of(reader, selector[0]);
        scan->dc[i] = selector[1] >> 4;
        scan->ac[i] = selector[1] & 15;
        if (scan->components[i] == reader->num_components)
            return false;
    }
    const uint8_t *tail = segment + 3 + 2 * scan->count;
    scan->first = tail[0];
    scan->last = tail[1];
    scan->high = tail[2] >> 4;
    scan->low = tail[2] & 15;
    if (scan->first == 0)
        return scan->last == 0;
    return scan->count == 1 && scan->first <= scan->last && scan->last < DCTSIZE2;
}

/* Returns 0 for markers without a segment, and for bytes between segments: only libjpeg reads such
 * files. */
size_t jpeg_header_bytes(const uint8_t *bytes, size_t length)
{
    bool is_sequential = false;
    size_t at = 2;
    if (!codec_has_bytes(bytes, length, 0, "\xFF\xD8", 2))
        return 0;
    while (length - at >= 4) {
        const uint8_t *marker = bytes + at;
        size_t segment = (size_t)marker[2] << 8 | marker[3];
        bool has_none = marker[1] <= 1 || (marker[1] >= JPEG_RST0 && marker[1] <= JPEG_EOI);
        if (marker[0] != 0xFF || marker[1] == 0xFF || has_none || segment < 2 ||
            length - at - 2 < segment)
            return 0;
        is_sequential |= marker[1] == JPEG_MARKER_SOF0 || marker[1] == JPEG_MARKER_SOF1;
        if (marker[1] == JPEG_MARKER_SOS)
            return is_sequential ? at + 2 + segment : 0;
        at += 2 + segment;
    }
    return 0;
}
