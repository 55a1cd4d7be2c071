/* overlay_files.h - finds the files of overlays that gpuimgctl submit sends with its jobs.
 *
 * An overlay is an image that the operation composite lays over another one. With --keys its file
 * is uploaded to Redis once per shard; without, it must be below input_root. One thread. */
#pragma once

#include <limits.h>

#include "queue/ctl/ctl.h"

#define OVERLAY_FILES_MAX 32

struct overlay_files {
    const char *run; /* job_template.run; borrowed */
    size_t count;    /* of files to upload */
    struct overlay_file {
        char path[PATH_MAX];
        uint64_t shards; /* bit i: uploaded to shard i */
    } files[OVERLAY_FILES_MAX];
};

/* Changes the overlays of a job that are files on this machine. Other overlays stay as they are:
 * only the daemons know them. root NULL (--keys): the file is marked, for overlay_files_upload.
 * Else root is the resolved input_root: a path relative to the current folder becomes relative to
 * input_root, and a file that is not below input_root ends the program with an error. */
void overlay_files_find(struct overlay_files *overlays, struct ctl *ctl, cJSON *job,
                        const char *root);
/* Replaces the marks in a copy of the job by the keys of the overlays in a shard. Returns false if
 * memory is short. */
bool overlay_files_fill(const struct overlay_files *overlays, cJSON *job,
                        const struct ctl_shard *shard);
/* Uploads the files that a shard does not have yet. On failure returns false, and sets `error` if a
 * file is the reason, or *redis_lost if Redis is. */
bool overlay_files_upload(struct overlay_files *overlays, const struct ctl_shard *shard,
                          uint64_t bytes_max, bool *redis_lost, struct error *error);
/* Deletes the uploaded overlays. If this fails, they expire later. */
void overlay_files_delete(struct overlay_files *overlays, struct ctl *ctl);
