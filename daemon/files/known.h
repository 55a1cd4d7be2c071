/*
 * known.h - the folder to which paths of a job led last, so that the images of a job with many
 * images do not open it again, each with a system call per component of its path.
 *
 * A folder is known for FILES_KNOWN_NS. If its path leads elsewhere meanwhile, images go to the
 * folder to which it led before, as they would if they were a moment older. It is forgotten at once
 * if it is gone. Its descriptor is closed when another folder takes its place, when it is found to
 * be old, or with the job. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>

#define FILES_KNOWN_NS 100000000ull

/* An open folder, with a count of references. */
struct files_folder;

struct files_known {
    pthread_mutex_t lock; /* guards `latest` */
    struct files_folder *latest;
};

void files_known_open(struct files_known *known);
/* Folders that are still used stay open until their last files_folder_end. */
void files_known_close(struct files_known *known);

/* The folder of the path, with a new reference for the caller. NULL: it is not known. */
struct files_folder *files_known_find(struct files_known *known, const char *path);
/* The folder of the path was opened as `fd`, which the new files_folder takes over. Returns it with
 * a reference for the caller. NULL: no memory; the caller keeps `fd`. */
struct files_folder *files_known_add(struct files_known *known, const char *path, int fd);

/* The folder is gone (ENOENT, ESTALE): it is known no longer. Does not end the caller's reference.
 */
void files_known_forget(struct files_known *known, const struct files_folder *folder);

int files_folder_fd(const struct files_folder *folder);
/* Ends a reference. NULL is ignored. */
void files_folder_end(struct files_folder *folder);
