/* archives.h - the archives that gpuimgctl submit --shards names. One thread. */
#pragma once

#include <stdbool.h>

#include "queue/ctl/ctl.h"

struct archive_names {
    char **names;
    int count, room;
};

/* Returns the values of --shards, then the operands. A pattern with *, ? or [ that is not the name
 * of a file becomes the files that match it, relative to the current folder or else to the folder
 * `root`, unless that is NULL. Ends the program if memory is short. */
struct archive_names archives_find(struct ctl *ctl, int count, char **operands, const char *root);
void archives_clear(struct archive_names *archives);
