/*
 * route.h - chooses which codecs of a job run on its device.
 *
 * A device decodes JPEGs and PNGs of the usual kinds, with the samples of libjpeg and libpng. It
 * encodes sequential JPEGs of any subsampling that a job can name, with the bytes of libjpeg, and
 * PNGs with those of the own encoder. All other codecs run on the host. dispatch.c decides where a
 * file is decoded. If the device declines a file, which only costs an
 * upload, the job is planned again for the host.
 */
#pragma once

#include <stdbool.h>

#include "gpu/plan/plan.h"

struct job_run;
struct worker_tools;

/* Chooses for the decoder and each output, and charges the job to the cores or a device. Returns
 * the file for the device to decode, or none. tools NULL: there is no engine. */
struct plan_file route_choose(struct job_run *run, struct worker_tools *tools);
/* After the plan was built: it has no encoder for an image that its device cannot encode. */
void route_plan(struct job_run *run);
/* Reads the frame of the input to `frame`, the member of a union device_frame for its format, which
 * devices decode. Returns the file for a device; if devices cannot decode it, its work_bytes is
 * 0. */
struct plan_file route_read_frame(struct job_run *run, struct worker_tools *tools, void *frame);
/* Chooses the host for all, and charges the job to the cores. Returns no file. */
struct plan_file route_to_host(struct job_run *run);
/* The charge ends. Idempotent. */
void route_end(struct job_run *run);
/* Whether the plan's memory can ever be reserved, or no codec runs on a device. */
bool route_fits(const struct job_run *run);
/* Whether a device decodes the input or encodes an output. */
bool route_uses_device(const struct job_run *run);
/* After the device: whether it has declined the file, or a result is larger than its capacity or
 * max_bytes. */
bool route_was_declined(const struct job_run *run);
