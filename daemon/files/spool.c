/* spool.c - see spool.h. */
/* uncovered file: disk (tests/coverage/reasons.txt) */
#include "daemon/files/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/files/files_impl.h"

/* step: "created", "written" or "read". */
static enum status spool_error(struct files_spool *spool, const char *step, struct error *error)
{
    spool->reason = errno;
    return error_set(error, STATUS_WRITE_FAILED,
                     "a file in " TEMPORARY_FOLDER " for a job with many images cannot be %s: %s",
                     step, strerror(spool->reason));
}

/* For file systems without O_TMPFILE (NFS, some overlays). */
static int create_and_unlink(int folder)
{
    static _Atomic unsigned counter;
    char name[64];
    snprintf(name, sizeof name, "spool.%ld.%u" TEMPORARY_SUFFIX, (long)getpid(), counter++);
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        unlinkat(folder, name, 0);
    return fd;
}

enum status files_spool_open(const struct files *files, struct files_spool *spool,
                             struct error *error)
{
    int fd = openat(files->temporary, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        fd = create_and_unlink(files->temporary);
    *spool = (struct files_spool){.fd = fd};
    return fd >= 0 ? STATUS_OK : spool_error(spool, "created", error);
}

enum status files_spool_write(struct files_spool *spool, const uint8_t *bytes, size_t length,
                              struct error *error)
{
    spool->wanted = spool->bytes + length;
    while (length > 0) {
        ssize_t count = write(spool->fd, bytes, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0)
            errno = ENOSPC;
        if (count <= 0)
            return spool_error(spool, "written", error);
        bytes += count;
        length -= (size_t)count;
        spool->bytes += (uint64_t)count;
    }
    return STATUS_OK;
}

enum status files_spool_read(struct files_spool *spool, uint64_t offset, uint8_t *bytes,
                             size_t length, struct error *error)
{
    while (length > 0) {
        ssize_t count = pread(spool->fd, bytes, length, (off_t)offset);
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0) /* another process has shortened it */
            errno = EIO;
        if (count <= 0)
            return spool_error(spool, "read", error);
        bytes += count;
        length -= (size_t)count;
        offset += (uint64_t)count;
    }
    return STATUS_OK;
}

void files_spool_empty(struct files_spool *spool)
{
    if (ftruncate(spool->fd, 0) == 0 && lseek(spool->fd, 0, SEEK_SET) == 0)
        spool->bytes = 0;
}

bool files_spool_room(const struct files_spool *spool, uint64_t *bytes)
{
    struct statvfs info;
    if (spool->fd < 0 || fstatvfs(spool->fd, &info) != 0 || info.f_blocks == 0)
        return false;
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return true;
}

void files_spool_close(struct files_spool *spool)
{
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
}
