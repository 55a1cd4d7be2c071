/*
 * picture.h - test pictures, made straight with libjpeg and libpng (never with codecs/).
 *
 * All pictures are functions of their options: the same options give the same pixels on every
 * machine. A picture_file owns its malloc'd bytes; picture_free frees them. Everything here
 * aborts with a message on failure, because a test that cannot make its picture is broken.
 * Options start from zero: `struct picture_jpeg p = {.width = 64, .height = 48};` is a colour
 * 4:2:0 baseline JPEG of quality 85.
 */
#ifndef GPUIMGD_TESTS_TOOLS_PICTURE_H
#define GPUIMGD_TESTS_TOOLS_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct picture_file {
    uint8_t *bytes;
    size_t length;
};

void picture_free(struct picture_file *file);
/* Writes the file's bytes to a path (mode 0644, replaced). */
void picture_save(const struct picture_file *file, const char *path);
/* Reads a whole file; length 0 for an empty one. */
struct picture_file picture_load(const char *path);

/* ---- pixels ---- */

/* The 16-bit sample of the synthetic scene (gradients, a disc, a box, noise) at x, y of channel
 * c; channel 3 is alpha with regions of 0, 65535 and a ramp. 8-bit samples are its upper byte. */
uint16_t picture_sample(uint32_t seed, uint32_t width, uint32_t height, uint32_t x, uint32_t y,
                        uint32_t c);
/* Fills 8-bit interleaved rows with the scene. */
void picture_fill(uint8_t *pixels, size_t stride, uint32_t width, uint32_t height,
                  uint32_t channels, uint32_t seed);
/* The same, malloc'd, rows without padding; free() it. */
uint8_t *picture_pixels(uint32_t width, uint32_t height, uint32_t channels, uint32_t seed);
/* The next number of a fixed generator (xorshift), for tests that need one. *state is not 0. */
uint32_t picture_random(uint32_t *state);

/* ---- good pictures ---- */

enum picture_colour {
    PICTURE_YCBCR = 0, /* the usual colour JPEG */
    PICTURE_GRAY,
    PICTURE_RGB,     /* Adobe RGB JPEG: three components without a colour transform */
    PICTURE_CMYK,    /* with the Adobe marker; samples as they are stored */
    PICTURE_YCCK,
    PICTURE_TWO,     /* two components of no known colour space */
};

struct picture_jpeg {
    uint32_t width, height;
    enum picture_colour colour;
    int subsampling;  /* 444, 422 or 420 (also 0) */
    int quality;      /* 1..100, 0 = 85 */
    bool progressive;
    int scans;        /* > 0: progressive with exactly this many scans (3..1152; YCBCR or RGB) */
    bool separate;    /* sequential, one scan a component */
    bool arithmetic;
    int restart_rows; /* restart markers every so many MCU rows; 0 = none */
    int orientation;  /* EXIF APP1 with this value (any 16-bit number); 0 = no APP1 */
    const uint8_t *exif; /* a raw APP1 payload instead */
    size_t exif_bytes;
    const uint8_t *icc;  /* written as APP2 markers */
    size_t icc_bytes;
    uint32_t seed;
};
struct picture_file picture_jpeg(const struct picture_jpeg *options);

struct picture_png {
    uint32_t width, height;
    int colour_type;   /* the standard's: 0 gray, 2 RGB, 3 palette, 4 gray + alpha, 6 RGBA */
    int bit_depth;     /* 1, 2, 4, 8, 16; 0 = 8 */
    bool transparent;  /* with a tRNS chunk (colour types 0, 2, 3) */
    bool interlaced;
    int level;         /* zlib level 1..9; 0 = 6 */
    int orientation;   /* eXIf chunk; 0 = none */
    const uint8_t *icc;
    size_t icc_bytes;
    uint32_t seed;
};
struct picture_file picture_png(const struct picture_png *options);
/* What that PNG decodes to, by own arithmetic: 8-bit gray, RGB or RGBA (also for gray with
 * alpha or tRNS), rows without padding, malloc'd. */
uint8_t *picture_png_expected(const struct picture_png *options, uint32_t *channels);

/* A syntactically valid ICC profile of so many bytes (132 at least, a multiple of 4) and the
 * given data colour space, such as "RGB " or "GRAY". */
struct picture_file picture_icc(size_t bytes, const char *space);
/* An EXIF blob of one IFD with an orientation, with ("Exif\0\0" in front) or without header. */
struct picture_file picture_exif(int orientation, bool header, bool big_endian);

/* ---- broken pictures ---- */

/* The first so many bytes. */
struct picture_file picture_cut(const struct picture_file *file, size_t length);
/* The first part (0.0 .. 1.0) of the bytes. */
struct picture_file picture_cut_at(const struct picture_file *file, double part);
/* Overwrites the sides in a JPEG's frame header; the data stays as it is. */
void picture_jpeg_set_size(struct picture_file *file, uint32_t width, uint32_t height);
/* Overwrites the sample precision (8) in a JPEG's frame header. */
void picture_jpeg_set_precision(struct picture_file *file, int bits);
/* Offset of the first marker 0xFF code in a JPEG's headers; aborts where there is none. */
size_t picture_jpeg_marker(const struct picture_file *file, int code);
/* Puts bytes in at an offset. */
void picture_insert(struct picture_file *file, size_t at, const void *bytes, size_t length);

/* Flips a bit of the CRC of the first chunk of this type. */
void picture_png_break_crc(struct picture_file *file, const char *type);
/* Makes the CRC of every chunk right again, so that a changed byte gets past it. */
void picture_png_fix_crcs(struct picture_file *file);
/* Puts a chunk with a right CRC in front of the first chunk of type `before`. */
void picture_png_insert(struct picture_file *file, const char *before, const char *type,
                        const void *data, size_t length);
/* A PNG of a few KB whose header claims these sides (RGB, 8 bit) and whose data is zeros. */
struct picture_file picture_png_huge(uint32_t width, uint32_t height);
/* A JPEG of a few hundred bytes whose header claims these sides. */
struct picture_file picture_jpeg_huge(uint32_t width, uint32_t height);
/* A valid 8 x 8 PNG with a chunk of some KB that inflates to 16 MiB: a zTXt comment, or an iCCP
 * profile with an honest header. */
struct picture_file picture_png_ztxt_bomb(void);
struct picture_file picture_png_iccp_bomb(void);
/* Bytes of a fixed generator; a text; nothing at all. */
struct picture_file picture_garbage(size_t length, uint32_t seed);
struct picture_file picture_text(void);
struct picture_file picture_empty(void);

#endif
