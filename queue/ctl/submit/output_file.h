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

struct place_rules {
    struct claims inputs; /* the pictures that are known so far; claims_clear is due */
    bool force;
};

/* Notes a picture. false: there is no room for more, or it is not there. */
bool place_add_input(struct place_rules *rules, const char *path);
/* The picture that the path leads to; NULL: none that is known, or nothing is there. Until the next
 * place_add_input. */
const char *place_input(const struct place_rules *rules, const char *path);
/* Whether a result may be written there, now; false with a sentence. */
bool place_check(const struct place_rules *rules, const char *path, struct error *error);
/* Writes the file, whole or not at all, if it may be. Makes folders. */
bool place_write(const struct place_rules *rules, const char *path, const char *bytes,
                 size_t length, struct error *error);

#endif
