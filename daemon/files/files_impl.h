/*
 * files_impl.h - what files.c and sweep.c share: names of temporary files, and making them.
 */
#ifndef GPUIMGD_DAEMON_FILES_FILES_IMPL_H
#define GPUIMGD_DAEMON_FILES_FILES_IMPL_H

#include <sys/types.h>
#include <time.h>

#include "daemon/files/files.h"

#define TEMPORARY_FOLDER ".gpuimgd"
#define TEMPORARY_SUFFIX ".tmp"
/* INST.JOB.FETCH.INDEX.tmp in that folder, with this before it beside a target elsewhere. */
#define BESIDE_PREFIX TEMPORARY_FOLDER "."

/* Creates a file for writing. One that has the name already is removed, not written to: it is a
 * leftover of our own, or a link that somebody made to have another file overwritten. Returns the
 * descriptor, or -1 with errno. */
int files_create(int folder, const char *name);

/* The time and the owner that a filesystem gives to a file made now: a file server has its own
 * clock, and may map users. */
struct files_touch {
    time_t now;
    uid_t user;
};
/* Makes a file in the folder and removes it again. prefix: "" or BESIDE_PREFIX. false: it cannot
 * be made, and *touch stays as it was. */
bool files_touch(const struct files *files, int folder, const char *prefix,
                 struct files_touch *touch);

/* Sweeps a folder that holds outputs and their temporary files, the first time that it is met. */
void files_sweep_beside(struct files *files, int folder, struct files_identity now);

#endif
