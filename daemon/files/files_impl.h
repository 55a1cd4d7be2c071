/*
 * files_impl.h - names and creation of temporary files, shared by files.c and sweep.c.
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
