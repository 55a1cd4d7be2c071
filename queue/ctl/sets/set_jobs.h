/* set_jobs.h - the jobs with many images whose results submit awaits.
 *
 * With --keys, their images are in Redis, and their results are downloaded. One thread. */
#pragma once

#include "queue/ctl/sets/image_list.h"
#include "queue/ctl/submit/output_file.h"

struct set_jobs {
    struct image_list **lists; /* by the number of the job; NULL: not awaited */
    size_t room;
    size_t jobs, images; /* that are awaited */
    double fraction;     /* sums over the awaited jobs, from the heartbeats */
    uint64_t live_done, live_failed;
};

/* Adds a job that was sent. Takes ownership of the list. Returns false if memory is short. */
bool set_jobs_hold(struct set_jobs *jobs, struct image_list *list);
/* Returns the job with this number or id; NULL: it is not awaited. */
struct image_list *set_jobs_find(const struct set_jobs *jobs, uint64_t number);
struct image_list *set_jobs_find_id(const struct set_jobs *jobs, const char *id);
/* Sets what a daemon has done of a job. Returns whether that is new. */
bool set_jobs_note(struct set_jobs *jobs, struct image_list *list, double fraction, uint64_t done,
                   uint64_t failed);
/* Removes a job that has ended. */
void set_jobs_end(struct set_jobs *jobs, uint64_t number);
void set_jobs_clear(struct set_jobs *jobs);

/* Downloads the outputs of a list that is done. Returns a JSON array, owned by the caller, as
 * key_transfer_download. */
cJSON *set_jobs_download(const struct job_template *template, const struct output_file_rules *rules,
                         const struct image_list *list, const cJSON *result);
/* Deletes the keys of a list, except those of unwritten outputs. */
void set_jobs_delete_keys(const struct job_template *template, const struct image_list *list,
                          const cJSON *unwritten);
