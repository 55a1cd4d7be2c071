/*
 * counting.h - adds a job that ends, or an image of a job with many images, to the metrics.
 *
 * Loop only.
 */
#pragma once

#include "daemon/pipeline/job_run.h"
#include "daemon/telemetry/metrics.h"

/* brief: reads only members that no worker writes, because a worker still owns the job. */
void counting_job(const struct job_run *run, const struct error *error,
                  enum metrics_outcome outcome, bool brief);
/* Only images, stages and bytes: the image is not a job. */
void counting_image(const struct job_run *run);
