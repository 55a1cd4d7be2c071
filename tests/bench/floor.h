/*
 * floor.h - what a machine can do with pictures at best: the codecs, the operations, nothing else.
 *
 * The job is some operations on a picture, to a JPEG of quality 85. Each thread has its own
 * libjpeg objects and its own buffers, which are reused: read the file, decode it straight with
 * libjpeg-turbo or libpng (a YCbCr JPEG to gray alone, or at M/8, where the daemon does so), run
 * the plan on the CPU engine of gpu/, encode it straight with libjpeg-turbo into memory. It knows
 * no queue, and writes no file unless it is told to.
 */
#ifndef GPUIMGD_TESTS_BENCH_FLOOR_H
#define GPUIMGD_TESTS_BENCH_FLOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/engine/engine.h"

struct floor_photo {
    char *name;                       /* below the folder; the photo's own */
    uint32_t width, height;           /* of the file */
    uint32_t channels;                /* as decoded for this job */
    bool png;
    const uint8_t *bytes;             /* the file, where it is not to be read; borrowed */
    size_t length;
    struct plan plan;
    size_t output_bytes;              /* of the floor's JPEG */
};

/* Wall and CPU (user and system, all threads) seconds. */
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
    int output_folder;        /* files are written below it, and renamed into place; -1: none */
    struct floor_thread *pool;
    unsigned total;           /* pictures a turn: the photos in turn, from the first */
    atomic_uint next, failed;
};

/* Opens a CPU engine and what the threads need; ends the program where it cannot. folder is
 * borrowed. */
void floor_open(struct floor *floor, const char *folder, unsigned threads);
/* The photos' plans and names too, but not the array. */
void floor_close(struct floor *floor);

/* Reads a picture's header and builds the plan of these operations. false, with a sentence in
 * error: it is not one for the floor. */
bool floor_take(struct floor *floor, struct floor_photo *photo, const cJSON *operations,
                struct error *error);
/* total pictures, on all threads. Failures are counted in floor->failed. */
struct floor_turn floor_run(struct floor *floor, unsigned total);

#endif
