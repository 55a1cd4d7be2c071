/* job.h - parses a job, the JSON text that a client pushes, into a checked struct.
 *
 * A job owns its parsed JSON. Every string points into that tree or, after job_drop_tree, into a
 * copy. `ops` stay cJSON nodes and formats stay names: the daemon checks both. job_parse runs on
 * the loop thread only. */
#pragma once

#include <stdint.h>

#include <cjson/cJSON.h>

#include "conf/format.h"
#include "conf/limits.h"
#include "conf/status.h"
#include "conf/trim.h"

/* Where an image is read or written. Exactly one member is set. An output that only gives values
 * has none. */
struct job_place {
    const char *path; /* relative to input_root or output_root. Its text is checked: not absolute,
                         no empty, "." or ".." part, no control character */
    const char *key;  /* "NS:img:..." */
    const char *url;  /* "https://..." or "http://...", without control characters; the daemon
                         checks the rest. Its query can hold a signature: see job_place_name */
};

static inline bool job_place_is_given(const struct job_place *place)
{
    return place->path || place->key || place->url;
}
/* Whether the file is in memory instead of a path: an input that was read from Redis or a URL, or
 * an encoded output until it is stored there. */
static inline bool job_place_is_in_memory(const struct job_place *place)
{
    return place->key || place->url;
}
/* What to show of a place, without secrets: in `text` if it is a URL, or a path or key that looks
 * like one. NULL: no place. */
const char *job_place_name(const struct job_place *place, char text[JOB_URL_BYTES_MAX + 1]);

/* A point in time. Absolute: Unix seconds of Redis's clock. Relative: seconds after a daemon first
 * fetched the job; START keeps that moment in Redis. seconds is 0 if the job does not give it. */
struct job_time {
    double seconds;
    bool relative;
};

/* Where the images of a job come from. */
enum job_source {
    JOB_ONE,       /* `input` */
    JOB_LIST,      /* `inputs`, an array of places */
    JOB_FOLDER,    /* the files of a folder */
    JOB_ARCHIVE,   /* the members of a tar or zip */
    JOB_ANIMATION, /* the frames of `input` */
};

/* How the images of a job are written to an output. */
enum job_pack {
    JOB_FILES, /* each image is a file. Also of a job with one input, and of an output that only
                  gives values */
    JOB_TAR,   /* one tar with all images */
    JOB_ARRAY, /* one tensor, whose first dimension counts the images */
    JOB_MOVIE, /* one animation, whose frames are the images */
};

/* What becomes of an input with several frames. */
enum job_frames {
    JOB_FRAMES_FIRST,  /* one is read: the first, or the one that `page` names */
    JOB_FRAMES_REFUSE, /* the input fails */
    JOB_FRAMES_ALL,    /* the job has many images: source is JOB_ANIMATION */
    JOB_FRAMES_STRIP,  /* some are one image, side by side: job.strip */
};

struct job_output {
    struct job_place place; /* if nothing is given, ops are not empty; the daemon checks later that
                               they give values. A template of JOB_FILES if the job has many
                               images: queue/job/member_name.h */
    enum job_pack pack;
    const char *format;   /* as the job gives it, not checked here; or NULL */
    unsigned formats;     /* one bit per enum format_id: the smallest file of these formats is
                             written, all of the similarity encoder.ssim; 0: there is no list */
    struct encoder_settings encoder;
    unsigned given;       /* one bit per enum encoder_parameter that the job sets */
    struct normalization normalize; /* of a tensor */
    unsigned metadata;    /* of the input, to keep: METADATA_ICC..., by default the profile */
    uint32_t ttl_s;       /* of a key output; 0 = none */
    const char *headers;  /* of an upload: lines "Name: value\n" of printable ASCII; or NULL */
    const cJSON *ops;     /* an array of at most JOB_OPS_MAX items, each a string or an object with
                             "op"; NULL if the job gives none, and after job_drop_tree */
};

struct job {
    cJSON *root;          /* NULL after job_drop_tree */
    char *texts;          /* all strings in one block, after job_drop_tree */
    size_t bytes;         /* heap memory after job_drop_tree */
    const char *id;       /* or NULL */
    bool unique;          /* one job with this id at a time; then id is set */
    bool prioritized;     /* the job gives `priority`, 0 to JOB_PRIORITIES - 1. Only its result
                             repeats it: the list of the job decides when it is taken */
    uint8_t priority;
    const char *tag;                      /* or NULL: the label of the client, for metrics */
    const char *traceparent, *tracestate; /* or NULL: queue/job/client_labels.h */
    cJSON *meta;          /* or NULL: a raw node, detached from root */
    const char *reply_to; /* "NS:reply:...", or NULL */
    enum job_source source;
    bool fails_on_error;    /* the first image that fails ends the job; otherwise it is left out */
    struct job_place input; /* the archive of JOB_ARCHIVE; the folder, as a path, of JOB_FOLDER;
                               nothing of JOB_LIST. Of a refused job: as the job gives it, for
                               messages only. Just its length is checked then */
    struct job_place *inputs; /* of JOB_LIST; owned by the job */
    size_t input_count;       /* of JOB_LIST; 0 if the job was refused before its list was read */
    const char *patterns[JOB_PATTERNS_MAX]; /* of JOB_FOLDER and JOB_ARCHIVE */
    size_t pattern_count;                   /* 0: the default of member_matches */
    size_t output_count;
    bool listed;          /* the job has the key `outputs`, even if for one output only */
    double timeout_s;     /* at most rules->timeout_s, which is also the default */
    uint8_t background[3];
    bool orient;
    struct trim_rule trim; /* of each input, after `orient` */
    enum job_frames frames;
    uint32_t page;        /* of each input: 0 is the first */
    uint32_t strip;       /* frames of the strip of each input; 0: none */
    double pushed;        /* Unix seconds; 0 = not given */
    struct job_time not_before, expires; /* the job may start between the two */
    struct job_output outputs[JOB_OUTPUTS_MAX]; /* from output_count on, not initialized */
};

/* Whether the job has many images, even if its list has one. */
static inline bool job_is_set(const struct job *job)
{
    return job->source != JOB_ONE;
}

struct job_rules {
    const char *ns;               /* the namespace */
    double timeout_s;
};

/* Parses text[0..length). Fills *job as far as possible, even on error: the result of a refused job
 * needs its id, meta, reply_to and input name. The caller must call job_clear in every case.
 * Errors: bad_json (names the byte), bad_job (names key, value and bound), path_refused,
 * out_of_memory. */
enum status job_parse(struct job *job, const char *text, size_t length,
                      const struct job_rules *rules, struct error *error) MUST_CHECK;
/* Checks a place that an operation names as `input` of a job does, and fills *place with texts of
 * the item. where: the key for messages. Loop thread only. Errors: bad_job, path_refused. */
enum status job_check_place(const cJSON *item, const char *where, const struct job_rules *rules,
                            struct job_place *place, struct error *error) MUST_CHECK;
/* Checks the place of an image whose template member_expand has filled in, as job_parse checks an
 * output. Any thread. Errors: path_refused, out_of_memory. */
enum status job_check_output(const struct job_place *place, const char *ns,
                             struct error *error) MUST_CHECK;
/* Whether both are the same path or the same key. The daemon compares URLs: two texts can be one
 * URL. Paths of an input and of an output are below different roots. */
bool job_places_are_same(const struct job_place *a, const struct job_place *b);
void job_clear(struct job *job); /* idempotent */

/* Frees the JSON of a job whose operations have been parsed. Returns false if memory is short; the
 * job keeps its JSON then. */
bool job_drop_tree(struct job *job) MUST_CHECK;

/* A job of a daemon. Each shard numbers its jobs from 1. */
struct job_name {
    uint64_t number;
    uint32_t shard, shards; /* `shards` of 0 or 1: there are no shards to tell apart */
};
#define JOB_NAME_BYTES 36
/* Writes "17", or "0:17" for job 17 of shard 0 if there are several shards. Returns `text`. */
const char *job_name_text(char text[JOB_NAME_BYTES], struct job_name name);

/* A label shows the last bytes of a long input name. Most file systems allow file names of 255
 * bytes, but a folder and a file name rarely exceed 160. A result has the whole name. */
#define LABEL_INPUT_BYTES_MAX 160
/* With the blanks and the parentheses between them. */
#define LABEL_BYTES (LABEL_INPUT_BYTES_MAX + JOB_ID_BYTES_MAX + JOB_NAME_BYTES + 8)

/* Writes the beginning of a job's text, for logs and results of a job that cannot be parsed, and
 * returns it. Secrets of URLs are removed (conf/mask.h), and control characters are escaped. */
const char *job_excerpt(char excerpt[JOB_EXCERPT_BYTES_MAX + 1], const char *text, size_t length);

/* Write a name of the job for log lines, and return it. Any thread. label_input writes the input's
 * name with control characters escaped, or "list of 256"; if it is unknown, the beginning of the
 * job's text, or "" without a text. label_job also writes the number, and the id if the job has
 * one: "12 holiday (a/cat.jpg)". job and text may be NULL. */
const char *label_input(char name[LABEL_INPUT_BYTES_MAX + 1], const struct job *job,
                        const char *text, size_t length);
const char *label_job(char label[LABEL_BYTES], struct job_name name, const struct job *job,
                      const char *text, size_t length);
