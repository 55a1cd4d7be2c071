/*
 * files_impl.h - what the sources of this folder share: paths below a root, and the names and
 * creation of temporary files.
 */
#pragma once

#include <sys/types.h>
#include <time.h>

#include "daemon/files/files.h"

#define TEMPORARY_FOLDER ".gpuimgd"
#define TEMPORARY_SUFFIX ".tmp"
/* A temporary file is INSTANCE.JOB.FETCH.INDEX.tmp in TEMPORARY_FOLDER. If it is in the target's
 * folder, its name has this prefix. */
#define BESIDE_PREFIX TEMPORARY_FOLDER "."

/* Creates a file for writing. An existing one is removed, never opened: it may be a link planted to
 * make the daemon overwrite another file. Returns a descriptor, or -1 with errno. */
int files_create(int folder, const char *name);

/* The time and owner that a filesystem gives to a new file. A file server has its own clock and may
 * map users. */
struct files_touch {
    time_t now;
    uid_t user;
};
/* Creates a file in the folder to read its time and owner, and removes it. prefix: "" or
 * BESIDE_PREFIX. false: it cannot be created, and *touch is not changed. */
bool files_touch(const struct files *files, int folder, const char *prefix,
                 struct files_touch *touch);

/* Sweeps a folder with outputs and their temporary files, once per folder. */
void files_sweep_beside(struct files *files, int folder, struct files_identity now);

/* Closes a descriptor, unless it is -1, and keeps errno. */
void files_close_keep_errno(int fd);

/* Finds the parent folder of path below root, and sets *name to the last component. making: creates
 * missing folders; NULL: does not. Returns root if path has no other component, else a new
 * descriptor, or -1 with errno; *error is set, too, if making->may_go_on said no. */
int files_walk_to_parent(int root, const char *path, const struct files_making *making,
                         const char **name, struct error *error);

/* Opens a file below root without following links. Returns a descriptor, or -1 with errno. */
int files_open_beneath(int root, const char *path, int flags);
