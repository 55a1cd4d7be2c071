/* output_file.h - writes results to files without replacing the images that are sent.
 *
 * Other existing files are replaced only with --force. Device and inode identify a file, so links
 * to an image are recognized. One thread. */
#pragma once

#include "conf/status.h"

/* Standard input may name any number of images. With its nodes, a full map takes 200 MiB. */
#define OUTPUT_NAMES_MAX       1000000u
#define OUTPUT_NAMES_BYTES_MAX (128u << 20)

/* A map from the names of outputs or files to images. */
struct output_names {
    void *tree; /* of tsearch(3) */
    size_t count, bytes;
};

/* The image whose output has the name; NULL: none. Valid until the next output_names_add. */
const char *output_names_find(const struct output_names *names, const char *name);
/* Adds a name. Returns false if the map is full or out of memory. */
bool output_names_add(struct output_names *names, const char *name, const char *image);
void output_names_clear(struct output_names *names); /* idempotent */

struct output_file_rules {
    struct output_names inputs; /* the images known so far; free with output_names_clear */
    bool force;
};

/* Adds an image to protect, if the file exists and the map is not full. */
void output_file_add_input(struct output_file_rules *rules, const char *path);
/* The known image that the path leads to; NULL: none. Valid until the next
 * output_file_add_input. */
const char *output_file_input(const struct output_file_rules *rules, const char *path);
/* Returns whether a result may be written to the path now; sets `error` if not. */
bool output_file_check(const struct output_file_rules *rules, const char *path,
                       struct error *error);
/* Writes the file atomically and makes its folders. Returns false and sets `error` on failure. */
bool output_file_write(const struct output_file_rules *rules, const char *path, const char *bytes,
                       size_t length, struct error *error);
