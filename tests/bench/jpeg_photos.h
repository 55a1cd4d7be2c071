/*
 * jpeg_photos.h - the JPEG files of the JPEG bench, and what libjpeg-turbo makes of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"

#define JPEG_QUALITY 85 /* of results */

/* What is done with each image. */
enum jpeg_step {
    STEP_UPLOAD = 1,
    STEP_DECODE = 2,
    STEP_SOBEL = 4, /* `half` with reflect101, of Y */
    STEP_ENCODE = 8
};

struct jpeg_work {
    const char *name;
    unsigned steps;
    enum decode_as as; /* DECODE_LUMA or DECODE_COLOUR */
    uint32_t eighths;
    bool stay; /* files stay in device memory; otherwise the kernels store them to pinned memory */
    int ssim;  /* of encoded files, in units of 1 / SSIM_ONE; 0: they have JPEG_QUALITY */
};

struct photo {
    uint8_t *bytes;
    size_t length;
    uint32_t width, height, channels; /* of the file */
    struct jpeg_frame *frame;
    uint8_t *result; /* libjpeg's for the current work: rows of image_stride() bytes, or a file */
    size_t result_bytes;
};

struct photos {
    struct photo *list;
    size_t count;
};

/* Reads the JPEG files of the folder and of its subfolders that devices decode: the progressive or
 * the others. Exits with a message if the folder cannot be read. */
struct photos photos_read(const char *folder, bool progressive);
/* Makes `count` files of 4:2:0 with parts of the photographs, mirrored at their borders. */
struct photos photos_make(const struct photos *from, size_t count, uint32_t width, uint32_t height,
                          int quality);
void photos_free(struct photos *photos);
double photos_megapixels(const struct photos *photos);
double photos_megabytes(const struct photos *photos);

/* Does the work with libjpeg-turbo, `repeats` times per photo, and keeps the results. Returns the
 * seconds it took on all cores. */
double photos_work(struct photos *photos, const struct jpeg_work *work, int repeats);

/* Sides and channels of the image before it is encoded. */
struct image photo_image(const struct photo *photo, const struct jpeg_work *work);
/* Whether the rows of an image of this size are libjpeg's; padding may differ. */
bool photo_equals(const struct photo *photo, const struct image *size, const uint8_t *rows);

double bench_seconds(void);
int bench_cores(void);
