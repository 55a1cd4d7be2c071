/*
 * job.h - a job as users push it: strict JSON in, a checked struct out.
 *
 * A job owns its parsed JSON; every string points into it, or into a copy after job_pack. `ops`
 * pass through as opaque cJSON, and formats as names: the operation table in gpu and the codecs
 * judge them. Parsing is for the loop thread only.
 */
#ifndef GPUIMGD_QUEUE_JOB_JOB_H
#define GPUIMGD_QUEUE_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "conf/format.h"
#include "conf/status.h"

/* Exactly one of path and key is set, or neither in an output that is there for its values. */
struct job_place {
    const char *path; /* relative, under input_root or output_root; lexically checked here: not
                         absolute, no empty, "." or ".." part, no control byte */
    const char *key;  /* "NS:img:..." */
};

/* A moment: Unix seconds by Redis's clock; or, if relative, so many seconds after the moment at
 * which a daemon first took the job, which START keeps. seconds 0: not given. */
struct job_time {
    double seconds;
    bool relative;
};

struct job_output {
    struct job_place place; /* neither path nor key: the job gave none. Its ops are not empty then;
                               whether they give values is for others to say */
    const char *format;   /* as given: whether it is one is for others to say; or NULL */
    struct encoder_settings encoder;
    unsigned given;       /* a bit per enum encoder_parameter that the job sets */
    uint32_t ttl_s;       /* of a key output; 0 = none */
    const cJSON *ops;     /* an array of at most JOB_OPS_MAX, each a string or an object with
                             "op"; an empty array where the job has none. NULL only after job_pack,
                             until job_unpack */
    char *ops_text;       /* the same as text, of a packed job */
};

struct job {
    cJSON *root;          /* NULL of a packed job */
    char *texts;          /* its strings then */
    size_t bytes;         /* after job_pack: about what all of it takes on the heap */
    const char *id;       /* or NULL */
    bool unique;          /* one job with this id at a time; there is an id */
    cJSON *meta;          /* or NULL: a raw node, not in root */
    const char *reply_to; /* "NS:reply:...", or NULL */
    struct job_place input;
    struct job_place named; /* the input as the job gives it, also where the job is refused: only
                               to be shown. At most JOB_PATH_BYTES_MAX, and no more was checked */
    struct job_output outputs[JOB_OUTPUTS_MAX];
    size_t output_count;
    bool listed;          /* they stand in `outputs`, be it only one */
    double timeout_s;     /* at most rules->timeout_s, which is the default */
    uint8_t background[3];
    bool orient;
    double pushed;        /* Unix seconds, 0 = not given, here and below */
    struct job_time not_before, expires; /* when it may be started; the second is the later one */
};

struct job_rules {
    const char *ns;               /* the namespace */
    double timeout_s;
};

/* Parses text[0..length). In any case *job is filled as far as it could be (id, meta, reply_to
 * and the input's name of a job that is otherwise bad are still given back to its user) and
 * job_clear is due.
 * bad_json (position in the text), bad_job (key, value, bound), path_refused. */
enum status job_parse(struct job *job, const char *text, size_t length,
                      const struct job_rules *rules, struct error *error) MUST_CHECK;
void job_clear(struct job *job); /* idempotent */

/* Frees the tree of a job that waits (job_pack.c) if it has more than JOB_NODES_MAX nodes; then ops
 * are NULL. length: of the text that it was parsed from. false: memory is short, and nothing else
 * has changed. */
bool job_pack(struct job *job, size_t length);
/* On any thread: ops are there until job_repack, which is due then. Both do nothing for a job that
 * was small enough to keep its tree. out_of_memory. */
enum status job_unpack(struct job *job, struct error *error) MUST_CHECK;
void job_repack(struct job *job);

#endif
