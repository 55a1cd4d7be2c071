/*
 * output_names.h - a hash table from output names to images, to detect two outputs with one name.
 *
 * It stores a 64-bit hash of each name, and the image's name. With a million names the chance that
 * any two of them collide is one in 10^7. One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Standard input may name any number of images. The bounds are 32 MiB of slots and 128 MiB of image
 * names. */
#define OUTPUT_NAMES_MAX       1000000u
#define OUTPUT_NAMES_BYTES_MAX (128u << 20)

struct output_names {
    struct entry *slots;
    size_t room, count;  /* room: number of slots, a power of two, at least twice the count */
    char *images;        /* names of images, each with its NUL */
    size_t bytes, bytes_room;
};

/* The image whose output has the name; NULL: none. Valid until the next output_names_add. */
const char *output_names_find(const struct output_names *names, const char *name);
/* Adds a name. Returns false if the table is full or out of memory. */
bool output_names_add(struct output_names *names, const char *name, const char *image);
void output_names_clear(struct output_names *names); /* idempotent */

#endif
