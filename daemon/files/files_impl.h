/*
 * files_impl.h - functions that only the sources of this folder use: for paths below a root, and
 * for temporary files.
 */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "daemon/files/files.h"

#define TEMPORARY_FOLDER ".gpuimgd"
#define TEMPORARY_SUFFIX ".tmp"
/* The name of a temporary file in TEMPORARY_FOLDER is INSTANCE.JOB.FETCH.INDEX.tmp. Beside its
 * target, in the same folder, its name begins with this prefix. */
#define BESIDE_PREFIX TEMPORARY_FOLDER "."

/* Whether an errno means that a path is not allowed: a symbolic link, "..", or a file as folder. */
bool files_is_refusal(int reason);
/* The end of an error message: for missing permissions, the user who lacks them; else "". */
const char *files_whose(int reason, const char *user, char text[64]);
struct files_identity files_identity_of(const struct stat *info);
/* The type of the filesystem (linux/magic.h); 0: unknown. */
uint32_t files_filesystem(int fd);

/* Creates a file for writing. Removes an existing one and never opens it: it may be a link by which
 * somebody wants the daemon to overwrite another file. Returns a descriptor, or -1 with errno. */
int files_create(int folder, const char *name);

/* Creates a file without a name for reading and writing, on the filesystem of the folder. Returns a
 * descriptor, or -1 with errno. */
int files_create_unnamed(int folder);
/* Gives a file without a name its name; naming: not FILES_RENAMED. Returns 0, or -1 with errno:
 * EEXIST if the name exists. */
int files_give_name(int fd, enum files_naming naming, int folder, const char *name);
/* Tries in TEMPORARY_FOLDER which naming the system allows. */
enum files_naming files_find_naming(const struct files *files, int folder);

/* The time and owner that a filesystem gives to a new file. They may differ from those of this
 * host: a file server has its own clock and may map users. */
struct files_touch {
    time_t now;
    uid_t user;
};
/* Creates a file in the folder to read its time and owner, and removes it. prefix: "" or
 * BESIDE_PREFIX. false: it cannot be created, and *touch is not changed. */
bool files_touch(const struct files *files, int folder, const char *prefix,
                 struct files_touch *touch);

/* Removes the temporary files of dead daemons in a folder of outputs on another filesystem. Does
 * nothing if this folder was searched before. identity: of the folder. */
void files_sweep_beside(struct files *files, int folder, struct files_identity identity);

/* Closes a descriptor, unless it is -1, and keeps errno. */
void files_close_keep_errno(int fd);

/* Opens the parent folder of `path` below the folder `root`, and sets *name to the last component
 * of the path. making: how to create missing folders; NULL: they are not created. Returns `root`
 * itself if the path has only one component, else a new descriptor, or -1 with errno. If
 * making->may_go_on has failed, *error is set as well. */
int files_walk_to_parent(int root, const char *path, const struct files_making *making,
                         const char **name, struct error *error);

/* Opens a file below the folder `root` without following symbolic links. known: where to keep its
 * folder; NULL: nowhere. Returns a descriptor, or -1 with errno. */
int files_open_beneath(int root, struct files_known *known, const char *path, int flags);
/* Whether the last component of a path is no name of a file: "", "." or "..". */
bool files_has_no_name(const char *path);
