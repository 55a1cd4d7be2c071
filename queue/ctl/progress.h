/* progress.h - shows the progress of gpuimgctl submit: a bar on a terminal, plain lines elsewhere.
 *
 * The bar is the last line of standard error. Standard output gets a line per job. If standard
 * output is a terminal, only failed jobs get one, unless --verbose is given. Images that fail
 * within a job get a line in any case. One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "queue/ctl/ctl.h"

#define PROGRESS_SAMPLES 16

/* How an image ended: as its job did or, in a job with many images, on its own. UNWRITTEN: it is
 * done, but a result file was not written. */
enum progress_end { PROGRESS_DONE, PROGRESS_FAILED, PROGRESS_DEAD, PROGRESS_CANCELLED,
                    PROGRESS_UNWRITTEN, PROGRESS_ENDS };

struct set_jobs;

struct progress {
    struct ctl *ctl;
    bool bar, verbose;         /* verbose: a line for each job */
    bool plain;                /* lines instead of a bar */
    const struct set_jobs *sets; /* jobs with many images that run; NULL: jobs have one image */
    bool archives;               /* `total`, `sent` and `refused` count archives */
    uint64_t total;            /* images; 0: not known yet */
    uint64_t sent, refused;    /* images; refused: no job was sent for them */
    uint64_t jobs_sent, jobs_ended;
    uint64_t jobs_failed;          /* that are not done */
    uint64_t jobs_empty;           /* that are done, but had no image */
    uint64_t ended[PROGRESS_ENDS]; /* images */
    double began_s, drawn_s;   /* CLOCK_MONOTONIC */
    double printed;            /* images that had ended in the last plain line; negative: none */
    struct {
        double at_s, ended, share;
    } samples[PROGRESS_SAMPLES]; /* a ring, for the rates */
    unsigned sample;
    char note[160];            /* shown instead of the rate; "": none */
};

/* A job that has ended. */
struct progress_job {
    const char *name;         /* of the image, or of the set */
    const char *const *files; /* as for show_result */
    const cJSON *unwritten;   /* of key_transfer_download or set_jobs_download, or NULL */
    bool is_set;
    char **names;  /* of the images of a list; NULL: only the result knows them */
    size_t images; /* of a list */
};

void progress_begin(struct progress *progress, struct ctl *ctl, bool verbose);
/* The jobs have many images: of archives, or of lists. */
void progress_use_sets(struct progress *progress, const struct set_jobs *sets, bool archives);
/* Counts and prints one result. text: its JSON. */
void progress_result(struct progress *progress, const cJSON *result, const char *text,
                     const struct progress_job *job);
/* The number of images that have ended. */
uint64_t progress_ended(const struct progress *progress);
/* Whether all images and jobs that ended are done, and no job lacked images. */
bool progress_is_good(const struct progress *progress);
/* Whether progress_draw prints anything. */
bool progress_is_shown(const struct progress *progress);
/* Draws the bar, if there is one, at most four times per second, or prints a line now and then. */
void progress_draw(struct progress *progress);
/* Prints the counts and the elapsed time. waited: gpuimgctl waited for the results. */
void progress_end(struct progress *progress, bool waited);
