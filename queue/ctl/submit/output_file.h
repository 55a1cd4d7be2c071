/*
 * output_file.h - files that results are written to: never over a picture that is sent, and over another
 * file that was there before only with --force.
 *
 * Files are told apart by device and inode, so that links do not deceive.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_FILE_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/status.h"
#include "queue/ctl/submit/output_names.h"

struct output_file_rules {
    struct output_names inputs; /* the pictures that are known so far; output_names_clear is due */
    bool force;
};

/* Notes a picture. false: there is no room for more, or it is not there. */
bool output_file_add_input(struct output_file_rules *rules, const char *path);
/* The picture that the path leads to; NULL: none that is known, or nothing is there. Until the next
 * output_file_add_input. */
const char *output_file_input(const struct output_file_rules *rules, const char *path);
/* Whether a result may be written there, now; false with a sentence. */
bool output_file_check(const struct output_file_rules *rules, const char *path,
                       struct error *error);
/* Writes the file, whole or not at all, if it may be. Makes folders. */
bool output_file_write(const struct output_file_rules *rules, const char *path, const char *bytes,
                       size_t length, struct error *error);

#endif
