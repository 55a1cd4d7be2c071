#include "conf/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 0 or errno. */
static int write_all(int fd, const char *bytes, size_t length, mode_t mode)
{
    if (fchmod(fd, mode) != 0) /* uncovered: service */
        return errno;
    while (length > 0) {
        ssize_t got = write(fd, bytes, length);
        if (got < 0 && errno != EINTR) /* uncovered: service */
            return errno;
        if (got > 0) {
            bytes += got;
            length -= (size_t)got;
        }
    }
    return 0;
}

/* If the filesystem does not support RENAME_NOREPLACE, use a hard link. */
static int put_in_place(const char *temporary, const char *path, bool overwrite)
{
    if (overwrite)
        return rename(temporary, path) == 0 ? 0 : errno;
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (link(temporary, path) != 0) /* uncovered: service */
        return errno;
    unlink(temporary);
    return 0;
}

int replace_file(const char *path, const char *bytes, size_t length, mode_t mode, bool overwrite)
{
    char temporary[PATH_MAX + 16];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= sizeof temporary)
        return ENAMETOOLONG; /* uncovered: service */
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return errno;
    int reason = write_all(fd, bytes, length, mode);
    if (close(fd) != 0 && !reason) /* uncovered: service */
        reason = errno;
    if (!reason)
        reason = put_in_place(temporary, path, overwrite);
    if (reason) /* uncovered: service */
        unlink(temporary);
    return reason;
}
