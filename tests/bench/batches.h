/*
 * batches.h - measures an encoder of CUDA devices with batches of images in device memory.
 *
 * The images are parts of photographs, resized. Every file that the device writes is compared with
 * that of a reference on the cores.
 */
#pragma once

#include "codecs/image.h"
#include "tests/fixtures/picture.h"

struct CUstream_st;

/* All pointers are to device memory. */
struct batch_image {
    struct image source;
    const uint8_t *header;
    uint8_t *work, *file;
    size_t capacity;
    uint32_t *file_bytes;
};

/* Room for what an encoder knows of a batch, as struct avif_encode_batch. */
union batch_state {
    uint64_t words[32];
};

struct batch_encoder {
    const char *name;      /* of the program */
    const char *reference; /* such as "libwebp" */
    unsigned quality;      /* by default */
    unsigned quality_max;
    const char *header; /* the bytes of a file before those of the encoder; NULL: none */
    size_t header_bytes;
    /* Encodes with the reference. The caller frees the file's bytes. */
    struct picture_file (*encode)(const struct image *image, int quality);
    /* As the functions of the encoder with these names, for images of three channels. */
    size_t (*work_bytes)(uint32_t width, uint32_t height);
    size_t (*capacity)(uint32_t width, uint32_t height);
    size_t (*describe)(const struct batch_image *images, uint32_t count, int quality,
                       void *description, size_t bytes, union batch_state *batch);
    int (*launch)(const union batch_state *batch, void *description, struct CUstream_st *stream);
};

struct batch_row {
    uint32_t width, height;
    unsigned streams, images; /* of each stream's batch */
};

/* Prints a line for each row, in which rows of the same size follow each other; the last row has
 * no streams. Returns the exit status of the program. */
int batches_measure(int argc, char **argv, const struct batch_encoder *encoder,
                    const struct batch_row *rows);
