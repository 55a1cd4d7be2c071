/* overlay_files.h - the overlays of a submit's operations: finds their files, as those of the
 * images, and with --keys uploads them. One thread. */
#pragma once

#include <limits.h>

#include "queue/ctl/ctl.h"

#define OVERLAY_FILES_MAX 32

struct overlay_files {
    const char *run; /* unique name of this submit; borrowed */
    size_t count;    /* of files to upload */
    struct overlay_file {
        char path[PATH_MAX];
        uint64_t shards; /* a bit per shard that has it */
    } files[OVERLAY_FILES_MAX];
};

/* Checks the overlays of a job. Without keys (root: the resolved input_root), the path of a file
 * that is not below it, but in the current folder, becomes the one below input_root; ends the
 * program if it is elsewhere. With keys (root NULL), a file on this machine is marked for upload.
 * All other overlays stay as they are: only the daemons know them. */
void overlay_files_find(struct overlay_files *overlays, struct ctl *ctl, cJSON *job,
                        const char *root);
/* In a copy of the job: replaces the marks by the keys of a shard. Returns false if memory is
 * short. */
bool overlay_files_fill(const struct overlay_files *overlays, cJSON *job,
                        const struct ctl_shard *shard);
/* Uploads the files that a shard does not have. Returns false and sets `error` if a file cannot be
 * read, or *redis_lost. */
bool overlay_files_upload(struct overlay_files *overlays, const struct ctl_shard *shard,
                          uint64_t bytes_max, bool *redis_lost, struct error *error);
/* Deletes the uploaded overlays. If this is lost, they expire. */
void overlay_files_delete(struct overlay_files *overlays, struct ctl *ctl);
