/* jxl_boxes.c - reads the boxes of a JPEG XL (jxl_boxes.h). */
#ifdef GPUIMGD_JXL

#include "codecs/confined/jxl/jxl_boxes.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/confined/jxl/jxl.h"

static uint64_t read_number(const uint8_t *at, unsigned bytes)
{
    uint64_t number = 0;
    while (bytes-- > 0)
        number = number << 8 | *at++;
    return number;
}

/* The head of a box: the place of its contents, and its type. A type "brob" is followed by that of
 * the compressed box. */
struct box {
    uint64_t at, bytes;
    char type[4];
};

/* Reads the head of the box at `at`, which is before the end of the file. false: it is cut off, or
 * the box ends after the file; its type is "" or known. */
static bool read_box(struct confined_source *source, uint64_t at, struct box *box)
{
    enum { short_bytes = 8, long_bytes = 16 };
    size_t ready = long_bytes;
    const uint8_t *head = confined_read(source, at, &ready);
    memset(box, 0, sizeof *box);
    if (!head || ready < short_bytes)
        return false;
    uint64_t size = read_number(head, 4), head_bytes = short_bytes;
    memcpy(box->type, head + 4, sizeof box->type);
    if (size == 1 && ready == long_bytes) {
        head_bytes = long_bytes;
        size = read_number(head + short_bytes, 8);
    }
    if (size == 0)
        size = source->size - at; /* the last box */
    if (size < head_bytes || size > source->size - at)
        return false;
    box->at = at + head_bytes;
    box->bytes = size - head_bytes;
    return true;
}

static void set_part(struct jxl_part *part, const struct box *box, unsigned skip, bool packed)
{
    if (part->bytes == 0 && box->bytes > skip)
        *part = (struct jxl_part){box->at + skip, box->bytes - skip, packed};
}

static bool is_type(const void *type, const char *wanted)
{
    return memcmp(type, wanted, 4) == 0;
}

/* Whether a box that cannot be read is none, but bytes after the image, which other formats may
 * have, too: its type is none of JPEG XL's (ISO/IEC 18181-2). */
static bool is_tail(const struct box *box, const struct jxl_boxes *boxes)
{
    static const char types[][5] = {"jxlc", "jxlp", "Exif", "xml ", "brob",
                                    "jbrd", "jxli", "jumb", "jxll", "ftyp"};
    bool is_known = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is_known |= is_type(box->type, types[i]);
    return boxes->count > 0 && !is_known;
}

static void add_box(struct confined_source *source, const struct box *box, struct jxl_boxes *boxes)
{
    enum { number_bytes = 4, type_bytes = 4 };
    bool packed = is_type(box->type, "brob");
    size_t ready = type_bytes;
    const uint8_t *inner = packed ? confined_read(source, box->at, &ready) : NULL;
    const void *type = packed ? (const void *)inner : box->type;
    if (!type || ready < type_bytes)
        return;
    if (is_type(type, "Exif"))
        set_part(&boxes->exif, box, packed ? type_bytes : 0, packed);
    else if (is_type(type, "xml "))
        set_part(&boxes->xmp, box, packed ? type_bytes : 0, packed);
    else if (!packed && is_type(type, "jxlc"))
        set_part(&boxes->codestream[boxes->count++], box, 0, false);
    else if (!packed && is_type(type, "jxlp")) /* after its number */
        set_part(&boxes->codestream[boxes->count++], box, number_bytes, false);
}

bool jxl_find_boxes(struct confined_source *source, struct jxl_boxes *boxes,
                    struct codec_reply *reply)
{
    size_t ready = 2, count = 0;
    const uint8_t *head = confined_read(source, 0, &ready);
    struct box box;
    memset(boxes, 0, sizeof *boxes);
    if (head && ready == 2 && head[0] == 0xFF && head[1] == 0x0A) {
        boxes->codestream[boxes->count++] = (struct jxl_part){0, source->size, false};
        return true;
    }
    for (uint64_t at = 0; at < source->size; at = box.at + box.bytes) {
        if (!read_box(source, at, &box)) {
            if (!is_tail(&box, boxes))
                confined_fail(
                    reply, STATUS_DECODE_FAILED,
                    "the JPEG XL is truncated: a box ends after the %llu bytes of the file",
                    (unsigned long long)source->size);
            return is_tail(&box, boxes);
        }
        if (count++ == JXL_BOXES_MAX) {
            confined_fail(reply, STATUS_DECODE_LIMIT, "the JPEG XL has more than %d boxes",
                          JXL_BOXES_MAX);
            return false;
        }
        add_box(source, &box, boxes);
    }
    return true;
}

/* ---- compressed boxes ----------------------------------------------------------------------- */

/* libjxl unpacks a box of a file; this is one that consists of the box alone. */
static uint8_t *file_of(const uint8_t *packed, size_t count, const char *type, size_t *bytes)
{
    static const uint8_t head[] = "\0\0\0\fJXL \r\n\x87\n\0\0\0\x14"
                                  "ftypjxl \0\0\0\0jxl ";
    enum { head_bytes = sizeof head - 1, box_bytes = 12 };
    uint8_t *file = malloc(head_bytes + box_bytes + count);
    if (!file)
        return NULL;
    *bytes = head_bytes + box_bytes + count;
    uint8_t *to = mempcpy(file, head, head_bytes);
    for (int shift = 24; shift >= 0; shift -= 8)
        *to++ = (uint8_t)((box_bytes + count) >> shift);
    to = mempcpy(to, "brob", 4);
    to = mempcpy(to, type, 4);
    memcpy(to, packed, count);
    return file;
}

/* Whether the decoder is at the compressed box. */
static bool is_at_packed(JxlDecoder *decoder)
{
    JxlBoxType type;
    return JxlDecoderGetBoxType(decoder, type, JXL_FALSE) == JXL_DEC_SUCCESS &&
           memcmp(type, "brob", 4) == 0;
}

/* Unpacks into `to`, and returns the number of bytes; 0: the box is damaged, or has more than
 * `most`. */
static size_t unpack(JxlDecoder *decoder, uint8_t *to, size_t most)
{
    bool is_set = false;
    for (;;)
        switch (JxlDecoderProcessInput(decoder)) {
        case JXL_DEC_BOX:
            if (is_at_packed(decoder))
                is_set = JxlDecoderSetBoxBuffer(decoder, to, most) == JXL_DEC_SUCCESS;
            break;
        case JXL_DEC_SUCCESS:
        case JXL_DEC_NEED_MORE_INPUT: /* no codestream follows */
            return is_set ? most - JxlDecoderReleaseBoxBuffer(decoder) : 0;
        default:
            return 0;
        }
}

size_t jxl_unpack(const uint8_t *packed, size_t count, const char *type, uint8_t *to, size_t most)
{
    size_t length, bytes = 0;
    uint8_t *file = file_of(packed, count, type, &length);
    JxlDecoder *decoder = file ? JxlDecoderCreate(NULL) : NULL;
    if (decoder && JxlDecoderSubscribeEvents(decoder, JXL_DEC_BOX) == JXL_DEC_SUCCESS &&
        JxlDecoderSetDecompressBoxes(decoder, JXL_TRUE) == JXL_DEC_SUCCESS &&
        JxlDecoderSetInput(decoder, file, length) == JXL_DEC_SUCCESS)
        bytes = unpack(decoder, to, most);
    if (decoder)
        JxlDecoderDestroy(decoder);
    free(file);
    return bytes;
}

#endif
