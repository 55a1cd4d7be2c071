/*
 * floor.h - runs the codecs and operations of a job alone: the lower bound of a job's cost.
 *
 * A job reads a file, decodes it with libjpeg-turbo or libpng, and runs its plan on the CPU engine.
 * Then libjpeg-turbo encodes a JPEG of quality 85 into memory. A YCbCr JPEG is decoded to gray, or
 * at M/8, if the daemon would do so. Each thread reuses its own libjpeg objects and buffers. There
 * is no queue, and files are written only if output_folder is set.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "gpu/engine/engine.h"

struct floor_photo {
    char *name;                       /* relative to the folder; owned by the photo */
    uint32_t width, height;           /* of the file, in pixels */
    uint32_t channels;                /* as decoded for this job */
    bool png;
    const uint8_t *bytes;             /* the contents of the file, borrowed; NULL: read it */
    size_t length;
    struct plan plan;
    size_t output_bytes;              /* of the floor's JPEG */
};

/* Seconds of wall time and of CPU time (user and system, all threads). */
struct floor_turn {
    double wall_s, cpu_s;
};

struct floor_thread;

struct floor {
    const char *folder;
    struct floor_photo *photos;
    size_t count;
    unsigned threads;
    struct engine *engine;
    int output_folder;        /* descriptor of the folder to write files to; -1: no files */
    struct floor_thread *pool;
    unsigned total;           /* images per turn; the photos in turn, from the first */
    atomic_uint next, failed;
};

/* Opens a CPU engine and the state of the threads. Aborts on error. Borrows `folder`. */
void floor_open(struct floor *floor, const char *folder, unsigned threads);
/* Also frees the plans and names of the photos, but not their array. */
void floor_close(struct floor *floor);

/* Reads the header of an image and builds the plan of the operations. Returns false, with the error
 * set, if the floor cannot handle the image. */
bool floor_take(struct floor *floor, struct floor_photo *photo, const cJSON *operations,
                struct error *error);
/* Runs `total` images on all threads. Counts failures in floor->failed. */
struct floor_turn floor_run(struct floor *floor, unsigned total);
