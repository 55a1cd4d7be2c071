/* set_options.h - the options of gpuimgctl submit for jobs with many images.
 *
 * A set is the images of one job: with --list a list of files, keys or URLs, with --shards the
 * members of an archive, with --frames=all the frames of an animation. One thread. */
#pragma once

#include <limits.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"

enum set_kind { SET_NONE, SET_LIST, SET_ARCHIVE, SET_FRAMES };

struct set_options {
    enum set_kind kind;   /* SET_NONE: each job has one image */
    size_t images_max;    /* of a list */
    const char *pack;     /* "tar" or "array"; NULL: files, or a tar if the name ends in .tar */
    const char *on_error; /* "skip" or "fail"; NULL: not given */
    const char *patterns[JOB_PATTERNS_MAX];
    size_t pattern_count; /* 0: the images of an archive are chosen by their suffix */
};

/* The value of the key `frames` for the option: a word, or "strip:N". NULL: no memory. */
cJSON *set_options_frames(const char *text);
/* Reads the options, or ends the program with an error. frames: of the command line, --set or the
 * job file; NULL: not given. */
void set_options_read(struct set_options *set, struct ctl *ctl, const char *frames);
/* Writes the pattern of each output that --out gives: `out` itself, or a name in the folder that it
 * is. keys: the outputs are on this machine. Ends the program if the name cannot serve many images.
 */
void set_options_read_out(const struct set_options *set, struct ctl *ctl, const char *out,
                          bool keys, char pattern[PATH_MAX]);
/* Adds the keys on_error to a job, and pack to an output. Return false if memory is short. */
bool set_options_add_job(const struct set_options *set, cJSON *job);
bool set_options_add_output(const struct set_options *set, cJSON *output);
/* Whether an output with this place is one file for all images of a job: a tar or an array. output:
 * of the job, or NULL, if the command line gives it. */
bool set_options_is_whole(const struct set_options *set, const cJSON *output, const char *place);
