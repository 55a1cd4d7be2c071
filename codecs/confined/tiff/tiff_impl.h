/*
 * tiff_impl.h - the parts of the TIFF reader, which runs libtiff in the process gpuimgd-codec.
 *
 * tiff_pages.c finds the directory of a page, tiff_exif.c collects its metadata as EXIF,
 * tiff_file.c opens files with libtiff, tiff_layout.c says how pixels are stored and refuses what
 * is not read, tiff.c answers probes, and tiff_decode.c reads pixels. Works with libtiff 4.2 and
 * later.
 */
#pragma once

#include <stdbool.h>
#include <tiffio.h>

#include "codecs/confined/confined.h"

/* ---- tiff_pages.c and tiff_exif.c: directories, read without libtiff ---- */

/* libtiff reads no directory with more entries. */
#define TIFF_ENTRIES_MAX 4096
/* libtiff may allocate this much memory for a table of tiles, or for the values of a tag. */
#define TIFF_BLOCK_BYTES_MAX (16 * MIB)

/* A directory of the file (TIFF 6.0, section 2; BigTIFF has wider numbers). */
struct tiff_directory_view {
    const uint8_t *entries;
    uint64_t at;    /* their offset */
    uint32_t count; /* those that were read */
    uint64_t next;  /* the offset of the next directory; 0: none */
};

struct tiff_entry {
    uint16_t tag, type;
    uint64_t count;
    const uint8_t *value; /* 4 bytes, in BigTIFF 8: the values if they fit, else their offset */
};

/* How the numbers of a file are stored. */
struct tiff_numbers {
    struct confined_source *source;
    bool little, big; /* big: BigTIFF */
    uint64_t first;   /* the offset of the first directory */
};

/* false: the file is no TIFF. */
bool tiff_open_numbers(struct confined_source *source, struct tiff_numbers *numbers);
/* Reads a number of 2, 4 or 8 bytes. */
uint64_t tiff_number_at(const struct tiff_numbers *numbers, const uint8_t *at, unsigned bytes);
/* Reads this many bytes of the file. NULL: it ends before, or too much of it has been read. */
const uint8_t *tiff_bytes_at(const struct tiff_numbers *numbers, uint64_t at, size_t bytes);
/* Reads the first entries of a directory, at most `most`. false: there is no directory at the
 * offset, or too much of the file has been read. */
bool tiff_view_directory(const struct tiff_numbers *numbers, uint64_t at, uint32_t most,
                         struct tiff_directory_view *view);
/* index: below view->count. */
struct tiff_entry tiff_view_entry(const struct tiff_numbers *numbers,
                                  const struct tiff_directory_view *view, uint32_t index);

/* Finds the directory of a page, counted from 0, and sets reply->frames to the number of pages. 0:
 * there is no such page, or an error is in the reply. */
uint64_t tiff_find_page(const struct tiff_numbers *numbers, uint32_t page,
                        struct codec_reply *reply);

bool tiff_has_tag(const struct tiff_numbers *numbers, uint64_t directory, unsigned tag);
/* Returns the values of a tag, whose numbers are not converted, and sets *bytes. NULL: there is no
 * such tag, or its values are no bytes or LONGs. */
const uint8_t *tiff_find_bytes(const struct tiff_numbers *numbers, uint64_t directory, unsigned tag,
                               size_t *bytes);
/* The size of the values of a directory that libtiff reads in a decode: those of at most
 * TIFF_BLOCK_BYTES_MAX bytes. */
uint64_t tiff_tags_bytes(const struct tiff_numbers *numbers, uint64_t directory);

/* Writes what a directory says about the photograph as EXIF data: new TIFF data with its entries
 * and those of its directories for EXIF and GPS. Returns the size, at most `most`; 0: there is
 * nothing, or no room. has_unit: the resolution has a unit. */
size_t tiff_write_exif(const struct tiff_numbers *numbers, uint64_t directory, bool has_unit,
                       uint8_t *to, size_t most);

/* ---- tiff_layout.c ---- */

/* How the pixels of a page are stored, and what they become. */
struct tiff_layout {
    uint32_t width, height;
    uint32_t tile_width, tile_height; /* of tiles; for strips: the width, and the rows of a strip */
    uint64_t tile_bytes;              /* of a decoded tile or strip */
    uint64_t row_bytes;               /* of a row of the image (of a plane) or of a tile */
    uint32_t tiles;                   /* number of tiles or strips */
    uint16_t bits, samples, compression, photometric;
    bool is_planar, is_tiled;
    bool has_reversed_bits;         /* libtiff copies the file's bytes to reverse the bits */
    uint16_t ycc_columns, ycc_rows; /* pixels for which there is one Cb and one Cr; if not 1 x 1,
                                       the samples of such a block are together */
    uint16_t colours;   /* 1, 3 or 4 samples of a colour, or the index of one; they come first */
    uint16_t alpha;     /* the index of the sample with alpha; 0: there is none */
    bool is_associated; /* colours are multiplied by alpha */
    uint16_t channels;  /* of the decoded image: 1, 3 or 4 */
};

/* Fills in the layout of a directory that was opened. false: it cannot be read, and the reply says
 * why. */
bool tiff_read_layout(TIFF *tiff, const struct tiff_numbers *numbers, uint64_t directory,
                      struct tiff_layout *layout, struct codec_reply *reply);
/* The memory that a decode needs. has_scans: of JPEG data, tiff_has_scans. */
uint64_t tiff_decode_bytes(const struct tiff_layout *layout, uint64_t file_bytes, bool has_scans);

/* Whether a Cb and a Cr are for several pixels, and libtiff does not convert them. */
static inline bool tiff_is_packed_ycc(const struct tiff_layout *layout)
{
    return layout->ycc_columns * layout->ycc_rows > 1;
}

/* CMYK without alpha may be decoded as it is. */
static inline bool tiff_is_cmyk(const struct tiff_layout *layout)
{
    return layout->colours == 4 && layout->alpha == 0;
}

/* Whether the page may be decoded to a deep image (codecs/image.h): gray or RGB with more than 8
 * bits. */
static inline bool tiff_is_deep(const struct tiff_layout *layout)
{
    return layout->bits > 8 && (layout->photometric == PHOTOMETRIC_MINISBLACK ||
                                layout->photometric == PHOTOMETRIC_MINISWHITE ||
                                layout->photometric == PHOTOMETRIC_RGB);
}

/* Samples that are read of each pixel. */
static inline unsigned tiff_used_samples(const struct tiff_layout *layout)
{
    return layout->colours + (layout->alpha > 0 ? 1u : 0u);
}

/* ---- tiff_jpeg.c ---- */

/* Whether the first JPEG of the directory may have several scans. libjpeg then holds all
 * coefficients in memory. */
bool tiff_has_scans(TIFF *tiff, const struct tiff_numbers *numbers);

/* ---- tiff_decode.c ---- */

confined_task_fn tiff_decode;

/* ---- tiff_file.c ---- */

/* Opens the directory at an offset. most: the largest block of memory that libtiff may allocate.
 * is_whole: all of the file is in memory. NULL: the reply has the error. */
TIFF *tiff_open_directory(struct confined_source *source, uint64_t directory, uint64_t most,
                          bool is_whole, struct codec_reply *reply);
/* Whether libtiff has reported an error since the last file was opened. */
bool tiff_has_failed(void);
/* Sets the reply to libtiff's first error. doing: "its header cannot be read". */
void tiff_fail(struct codec_reply *reply, const char *doing);
