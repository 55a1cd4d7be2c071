/*
 * tar_header.h - reads the plain headers of a tar: of files and folders whose name and size fit.
 *
 * Nearly all members of a tar of images have one. For all other headers, libarchive reads the tar:
 * extended ones (pax, GNU), links, sparse files, numbers that are not octal digits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAR_UNIT_BYTES = 512 }; /* of a header, and the contents are filled up to a multiple */

struct tar_header {
    char name[155 + 1 + 100 + 1]; /* as stored, with its prefix */
    uint64_t bytes;               /* of the contents, which follow the header; 0 for a folder */
    uint64_t modified_s;          /* seconds since 1970 */
    bool is_folder;
};

/* Whether the bytes begin with a header of a tar: the sum of its bytes is right. The name in it may
 * begin as other kinds of files do, as "PK1.jpg" does. */
bool tar_header_is_valid(const uint8_t *bytes, size_t length);
/* Reads the header in the unit. false: it is not valid, or not plain. */
bool tar_header_read(const uint8_t unit[TAR_UNIT_BYTES], struct tar_header *header);
