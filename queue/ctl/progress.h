/*
 * progress.h - how far a submit has come: a bar on a terminal, plain lines elsewhere.
 *
 * The bar stands in the last line of standard error. Lines about single jobs go to standard
 * output: all of them, or, where both are the same terminal, those that failed.
 */
#ifndef GPUIMGD_QUEUE_CTL_PROGRESS_H
#define GPUIMGD_QUEUE_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define PROGRESS_SAMPLES 16

struct progress {
    bool bar, json, verbose;   /* verbose: a line for each job */
    uint64_t total;            /* pictures, as far as known; 0: not known yet */
    uint64_t sent, done, failed, dead, cancelled;
    uint64_t unwritten, refused; /* done, but a result is in no file; never sent */
    double began_s, drawn_s;   /* CLOCK_MONOTONIC */
    struct { double at_s; uint64_t ended; } samples[PROGRESS_SAMPLES]; /* a ring: for the rate */
    unsigned sample;
    bool shown;                /* the bar is on the screen */
    char note[160];            /* what stands in the bar's place of the rate; "": nothing */
};

void progress_begin(struct progress *progress, bool json, bool verbose);
/* One result: text is the line as it came; name and files as of show_result. unwritten: as of
 * key_transfer_download, or NULL. */
void progress_result(struct progress *progress, const cJSON *result, const char *text,
                     const char *name, const char *const *files, const cJSON *unwritten);
uint64_t progress_ended(const struct progress *progress);
/* Draws the bar, where there is one, at most ten times a second. */
void progress_draw(struct progress *progress);
/* Takes the bar away, before something else is printed. */
void progress_hide(struct progress *progress);
/* The last word: counts, and how long it took. */
void progress_end(struct progress *progress, bool waited);

#endif
