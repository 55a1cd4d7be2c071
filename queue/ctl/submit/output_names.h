/*
 * output_names.h - a map from output names to images, to detect two outputs with one name.
 *
 * One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Standard input may name any number of images. With its nodes, a full map takes 200 MiB. */
#define OUTPUT_NAMES_MAX       1000000u
#define OUTPUT_NAMES_BYTES_MAX (128u << 20)

struct output_names {
    void *tree; /* of tsearch(3) */
    size_t count, bytes;
};

/* The image whose output has the name; NULL: none. Valid until the next output_names_add. */
const char *output_names_find(const struct output_names *names, const char *name);
/* Adds a name. Returns false if the map is full or out of memory. */
bool output_names_add(struct output_names *names, const char *name, const char *image);
void output_names_clear(struct output_names *names); /* idempotent */

#endif
