/* known.c - see known.h. */
/* uncovered file: disk (tests/coverage/reasons.txt) */
#include "daemon/files/known.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/lock.h"

struct files_folder {
    _Atomic uint32_t references;
    int fd;
    uint64_t since_ns;
    size_t length; /* of path, which ends with a slash */
    char path[];
};

void files_known_open(struct files_known *known)
{
    known->latest = NULL;
    lock_init(&known->lock);
}

void files_known_close(struct files_known *known)
{
    files_folder_end(known->latest);
    known->latest = NULL;
    pthread_mutex_destroy(&known->lock);
}

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash + 1 - path) : 0;
}

static bool leads_to(const char *path, const struct files_folder *folder)
{
    return folder_length(path) == folder->length && memcmp(path, folder->path, folder->length) == 0;
}

struct files_folder *files_known_find(struct files_known *known, const char *path)
{
    uint64_t now_ns = clock_now_ns();
    struct files_folder *old = NULL;
    pthread_mutex_lock(&known->lock);
    struct files_folder *folder = known->latest;
    if (folder && now_ns - folder->since_ns >= FILES_KNOWN_NS) {
        old = folder;
        known->latest = folder = NULL;
    }
    if (folder && leads_to(path, folder))
        atomic_fetch_add(&folder->references, 1);
    else
        folder = NULL;
    pthread_mutex_unlock(&known->lock);
    files_folder_end(old);
    return folder;
}

void files_known_forget(struct files_known *known, const struct files_folder *folder)
{
    struct files_folder *gone = NULL;
    pthread_mutex_lock(&known->lock);
    if (known->latest == folder) {
        gone = known->latest;
        known->latest = NULL;
    }
    pthread_mutex_unlock(&known->lock);
    files_folder_end(gone);
}

struct files_folder *files_known_add(struct files_known *known, const char *path, int fd)
{
    size_t length = folder_length(path);
    struct files_folder *folder = malloc(sizeof *folder + length);
    if (!folder) /* uncovered: memory */
        return NULL;
    atomic_init(&folder->references, 2);
    folder->fd = fd;
    folder->since_ns = clock_now_ns();
    folder->length = length;
    memcpy(folder->path, path, length);
    pthread_mutex_lock(&known->lock);
    struct files_folder *before = known->latest;
    known->latest = folder;
    pthread_mutex_unlock(&known->lock);
    files_folder_end(before);
    return folder;
}

int files_folder_fd(const struct files_folder *folder)
{
    return folder->fd;
}

void files_folder_end(struct files_folder *folder)
{
    if (!folder || atomic_fetch_sub(&folder->references, 1) != 1)
        return;
    close(folder->fd);
    free(folder);
}
