/* output_file.h - writes results to files, but never replaces an image that this submit sends.
 *
 * Other existing files are replaced only with --force. A file is identified by device and inode, so
 * a link to an image is recognized. One thread. */
#pragma once

#include "conf/status.h"

/* Limits of a map, because standard input may name any number of images. A full map takes 200 MiB
 * with its nodes. */
#define OUTPUT_NAMES_MAX       1000000u
#define OUTPUT_NAMES_BYTES_MAX (128u << 20)

/* A map from names, of outputs or of files, to the image that has each. */
struct output_names {
    void *tree; /* of tsearch(3) */
    size_t count, bytes;
};

/* Returns the image that has the name, valid until the next output_names_add; NULL: none. */
const char *output_names_find(const struct output_names *names, const char *name);
/* Adds a name. Returns false if the map is full or memory is short. */
bool output_names_add(struct output_names *names, const char *name, const char *image);
void output_names_clear(struct output_names *names); /* idempotent */

struct output_file_rules {
    struct output_names inputs; /* the images to protect; free with output_names_clear */
    bool force;                 /* other existing files may be replaced */
};

/* Adds an image to protect, if the file exists and the map is not full. */
void output_file_add_input(struct output_file_rules *rules, const char *path);
/* Returns the protected image that is the file at the path, valid until the next
 * output_file_add_input; NULL: none is. */
const char *output_file_input(const struct output_file_rules *rules, const char *path);
/* Returns whether a result may be written to the path now; sets `error` if not. */
bool output_file_check(const struct output_file_rules *rules, const char *path,
                       struct error *error);
/* Writes the file atomically and makes its folders. Returns false and sets `error` on failure. */
bool output_file_write(const struct output_file_rules *rules, const char *path, const char *bytes,
                       size_t length, struct error *error);
