/*
 * jxl_boxes.h - finds the parts of a JPEG XL file: its codestream, EXIF and XMP.
 *
 * A file is a bare codestream, or a list of boxes (ISO/IEC 18181-2): one box "jxlc" or many "jxlp"
 * have the codestream, "Exif" and "xml " the metadata, and "brob" has another box, compressed with
 * Brotli. The boxes may be in any order, so a probe reads the heads of all.
 */
#pragma once

#include <stdbool.h>

#include "codecs/confined/confined.h"

/* A file with more boxes is refused. A writer may split the codestream: usually by group. */
#define JXL_BOXES_MAX 4096

struct jxl_part {
    uint64_t at, bytes; /* in the file; bytes 0: there is none */
    bool packed;        /* Brotli */
};

struct jxl_boxes {
    struct jxl_part exif, xmp; /* the contents of the first box of each kind */
    struct jxl_part codestream[JXL_BOXES_MAX];
    size_t count; /* of codestream */
};

/* Reads the heads of all boxes. false: the file is damaged; the reply has the reason. */
bool jxl_find_boxes(struct confined_source *source, struct jxl_boxes *boxes,
                    struct codec_reply *reply);

/* Unpacks the contents of a box "brob" after the type, that of the box inside. to: room for `most`
 * bytes. Returns the number of bytes; 0: it is damaged, or has more. */
size_t jxl_unpack(const uint8_t *packed, size_t count, const char *type, uint8_t *to, size_t most);
