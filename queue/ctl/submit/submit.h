/* submit.h - the state of gpuimgctl submit, which its files share. One thread. */
#pragma once

#include "queue/ctl/ctl.h"
#include "queue/ctl/progress.h"
#include "queue/ctl/sets/heartbeats.h"
#include "queue/ctl/submit/batch.h"
#include "queue/ctl/submit/job_template.h"
#include "queue/ctl/submit/key_transfer.h"
#include "queue/ctl/submit/output_checks.h"
#include "queue/ctl/submit/result_reader.h"
#include "queue/ctl/submit/shard_choice.h"
#include "queue/ctl/submit/source.h"

/* Pause between polls for results, in seconds. While no results arrive, it grows from the first
 * value to the second one. */
#define POLL_FIRST_S 0.005
#define POLL_LAST_S  0.1
/* Lists that are not full, one for each suffix of images. */
#define OPEN_LISTS_MAX 8

struct submit {
    struct ctl *ctl;
    struct job_template template;
    struct source source;
    struct key_transfer transfer;
    struct output_checks checks;
    struct result_reader reader;
    struct progress progress;
    bool wait, first, source_ended;          /* source_ended: there are no more images */
    double timeout_s;                        /* 0: none */
    uint64_t number;                         /* the last image's number */
    struct image_list *open[OPEN_LISTS_MAX]; /* --list: the oldest first */
    size_t open_count;
    uint64_t list_number; /* the last list's number */
    struct set_jobs sets; /* jobs with many images that are awaited */
    struct heartbeats heartbeats;
    struct batch batch;
    struct shard_choice choice;
    double quiet_since_s, poll_s; /* time of the last result; pause before the next poll */
    uint64_t notified_away;       /* bit i: the user was told that shard i is away */
    bool notified_idle;           /* the user was told that no daemon fetches jobs */
    bool shard_lost;              /* jobs were not sent because their shard is away */
    int status;                   /* exit status; not 0: the submit is over */
};

/* ---- refusals.c ---- */

/* Whether --timeout is over. */
bool submit_is_late(const struct submit *submit);
/* Reports and counts an image that is not sent. error NULL: source.why is the reason. */
void submit_refuse(struct submit *submit, const char *name, const struct error *error);
/* Ends the program if the second job has the output or the id of the first one. number: of the job.
 */
void submit_require_pattern(struct submit *submit, uint64_t number);

/* ---- push.c ---- */

/* Pushes the batch. */
void push_batch(struct submit *submit);
/* Tells the user once that the shard in use is away, and that submit waits for it. context: the
 * submit. */
void push_say_away(void *context);
static inline uint64_t push_bit(const struct ctl_shard *shard)
{
    return (uint64_t)1 << shard->index;
}

/* ---- lists.c ---- */

/* Adds an image to a list, and the list to the batch when it is full. */
void lists_add(struct submit *submit, const struct source_file *file);
/* Adds the oldest list to the batch, which must not be full. */
void lists_end_oldest(struct submit *submit);
/* Whether --keys lets no more images into Redis before a job ends. */
bool lists_are_held(const struct submit *submit);
void lists_clear(struct submit *submit);
