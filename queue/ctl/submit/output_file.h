/*
 * output_file.h - writes results to files without replacing the images that are sent.
 *
 * Other existing files are replaced only with --force. Device and inode identify a file, so links
 * to an image are recognized. One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_FILE_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/status.h"
#include "queue/ctl/submit/output_names.h"

struct output_file_rules {
    struct output_names inputs; /* the images known so far; free with output_names_clear */
    bool force;
};

/* Adds an image to protect. Returns false if the table is full or the file does not exist. */
bool output_file_add_input(struct output_file_rules *rules, const char *path);
/* The known image that the path leads to; NULL: none. Valid until the next
 * output_file_add_input. */
const char *output_file_input(const struct output_file_rules *rules, const char *path);
/* Returns whether a result may be written to the path now; sets `error` if not. */
bool output_file_check(const struct output_file_rules *rules, const char *path,
                       struct error *error);
/* Writes the file atomically and makes its folders. Returns false and sets `error` on failure. */
bool output_file_write(const struct output_file_rules *rules, const char *path, const char *bytes,
                       size_t length, struct error *error);

#endif
