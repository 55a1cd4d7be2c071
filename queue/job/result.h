/*
 * result.h - writes the result of a job: the JSON message that tells the client how the job ended.
 *
 * Any thread. All pointers are borrowed for the duration of the call.
 */
#pragma once

#include "conf/status.h"
#include "queue/job/job.h"

struct result_output {
    const struct job_place *place;
    const char *format; /* NULL: not known yet */
    uint32_t width, height;
    uint64_t bytes;
    uint32_t quality; /* found for max_bytes or a similarity; 0: not said */
    bool has_ssim;
    double ssim;               /* of the file to its image */
    const struct error *error; /* NULL or STATUS_OK if the output was written */
    const cJSON *values;       /* of its operations, or NULL */
    const char *encoder;       /* "cpu", "cuda:0"; NULL: nothing was encoded */
    const char *dtype;         /* of a tensor: "float16"; NULL: an image, without shape */
    uint32_t shape[3];
    uint64_t images; /* that were written to the output of a job with many images */
    uint64_t count;  /* of an array: the images in it, the first number of its shape */
    bool array;
};

/* What a job with many images adds to its result. */
struct result_images {
    uint64_t count, done, failed, copied;    /* images tried; members copied as they were */
    uint64_t skipped;                        /* links and special files of the input */
    uint64_t pixels;                         /* of the images that are done */
    const char *warning;                     /* why there was no image; NULL: there was one */
    const char *errors, *values;             /* JSON arrays, or NULL */
    uint64_t errors_omitted, values_omitted; /* entries for which the arrays had no room */
    const char *archive_format;              /* "tar" or "zip"; NULL: not known, or no archive */
};

struct result {
    const struct job *job;      /* may be NULL, or partly filled by a failed job_parse */
    const char *text;           /* of the job, or NULL; quoted if the input's name is unknown */
    size_t text_bytes;
    uint64_t number;
    uint32_t shard, shards;     /* of the daemon; the shard is written if there are several */
    const char *status;         /* "done", "failed", "dead" or "cancelled" */
    const struct error *error;  /* of the whole job; NULL or STATUS_OK if it is done */
    const char *input_format;   /* NULL: not known */
    uint32_t input_width, input_height;
    uint32_t input_frames; /* written if there are several */
    bool input_gain_map;   /* written if true */
    struct trim_part input_trim; /* the part of the upright image that is left; width 0: the job
                                     does not trim */
    uint64_t input_bytes;
    const struct result_images *images; /* NULL: the job has one input */
    const struct result_output *outputs;
    size_t output_count;
    uint32_t attempt;
    const char *engine;         /* "cpu", "cuda:0"; NULL before the engine was reached */
    const char *decoder;        /* "cpu", "cuda:0"; NULL: nothing was decoded */
    const char *daemon;         /* "host:pid" */
    struct {
        double queue, read, admit, decode, h2d, kernel, d2h, encode, total; /* negative: omitted */
        double download, upload; /* of URLs; 0: omitted */
    } ms;
};

/* Returns one line of JSON, which the caller frees, or NULL if memory is short. Keys have the order
 * of the README's example; times have three decimal places. */
char *result_write(const struct result *result);

/* Return an element of `errors` or `values` of result_images, which the caller frees, or NULL if
 * memory is short. name: of the image; secrets of URLs and bytes that are not printable are
 * replaced. NULL: omitted. */
char *result_image_error(uint64_t index, const char *name, const struct error *error);
char *result_image_values(uint64_t index, size_t output, const cJSON *values);

/* Answers a job with the kept result of an earlier job that has the same id. Returns the kept text
 * with this job's number, meta, priority, tag and trace context, and with the earlier number as
 * `same_as`. The caller frees it. Returns NULL if memory is short or `kept` is not a result. */
char *result_repeat(const char *kept, const struct job *job, uint64_t number);

/* Changes a result after Redis refused to store the output with this key. Sets the error of the
 * output and, if the job was done, of the job. Returns a new text, which the caller frees, or NULL
 * if memory is short. */
char *result_deny(const char *result, const char *key, const struct error *error);

/* Returns a result that says only which job failed, why, and where: Redis did not take the whole
 * one. The caller frees it. Returns NULL if memory is short. */
char *result_shorten(const char *result, const struct error *error);
