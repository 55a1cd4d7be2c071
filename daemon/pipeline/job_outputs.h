/*
 * job_outputs.h - what the errors of outputs mean for their job, and how each output is encoded.
 */
#pragma once

#include "codecs/codec.h"

struct job_output;
struct job_run;

/* The job fails with the first output's error if each output has one. */
void job_outputs_fail_if_all_failed(struct job_run *run);
/* Sets run->error to the first retryable error of an output, or else to the first one. */
void job_outputs_judge(struct job_run *run);
/* Sets the error STATUS_CANCELLED after the stage in which the job was cancelled. Keeps an error
 * that is not retryable, and the success of a job whose outputs are all complete. */
void job_outputs_end_cancelled(struct job_run *run);
/* Whether an output without an error is made of the input's file (recompress), and whether one is
 * made of its pixels. */
bool job_outputs_recompress(const struct job_run *run);
bool job_outputs_need_pixels(const struct job_run *run);
/* The next format after `after` (NULL: the first) of the list of an output that this program writes
 * and reads, and that holds an image of this size; NULL: none. */
const struct format *job_outputs_next_format(const struct job_output *output,
                                             const struct format *after, uint32_t width,
                                             uint32_t height, uint32_t channels);
/* The parameters of an output for a format: those that the job omits have the format's defaults. */
struct encoder_settings job_outputs_settings(const struct job_output *output,
                                             const struct format *format);
/* The request to encode an output; changes the metadata in run->info to fit it. */
struct encode_request job_outputs_encode_request(struct job_run *run, size_t index);
