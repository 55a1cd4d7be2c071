/* progress.h - shows the progress of gpuimgctl submit: a bar on a terminal, plain lines elsewhere.
 *
 * The bar is the last line of standard error. Standard output gets a line per job. If standard
 * output is a terminal, only failed jobs get one, unless --verbose is given. One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "queue/ctl/ctl.h"

#define PROGRESS_SAMPLES 16

/* How a job ended. UNWRITTEN: it is done, but a result file was not written. */
enum progress_end { PROGRESS_DONE, PROGRESS_FAILED, PROGRESS_DEAD, PROGRESS_CANCELLED,
                    PROGRESS_UNWRITTEN, PROGRESS_ENDS };

struct progress {
    struct ctl *ctl;
    bool bar, verbose;         /* verbose: a line for each job */
    uint64_t total;            /* images; 0: not known yet */
    uint64_t sent, refused;    /* jobs; refused: images for which no job was sent */
    uint64_t ended[PROGRESS_ENDS];
    double began_s, drawn_s;   /* CLOCK_MONOTONIC */
    struct { double at_s; uint64_t ended; } samples[PROGRESS_SAMPLES]; /* a ring, for the rate */
    unsigned sample;
    char note[160];            /* shown instead of the rate; "": none */
};

void progress_begin(struct progress *progress, struct ctl *ctl, bool verbose);
/* Counts and prints one result. text: its JSON; name and files: as for show_result; unwritten: the
 * result of key_transfer_download, or NULL. */
void progress_result(struct progress *progress, const cJSON *result, const char *text,
                     const char *name, const char *const *files, const cJSON *unwritten);
/* The number of jobs that have a result. */
uint64_t progress_ended(const struct progress *progress);
/* Draws the bar, if there is one, at most ten times per second. */
void progress_draw(struct progress *progress);
/* Prints the counts and the elapsed time. waited: gpuimgctl waited for the results. */
void progress_end(struct progress *progress, bool waited);
