#include "conf/content.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/limits.h"

/* Waits for data in a pipe. Returns false at the time until_s, and at once for a terminal. */
static bool await_data(int fd, const struct stat *info, double until_s)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    double left_s = until_s - clock_now_s();
    return S_ISFIFO(info->st_mode) && left_s > 0 && poll(&wait, 1, (int)(left_s * 1e3) + 1) != 0;
}

/* Reads up to CONF_BYTES_MAX + 1 bytes. Returns false with errno set. */
static bool read_bytes(int fd, const struct stat *info, double until_s, char *bytes, size_t *length)
{
    ssize_t count = 1;
    for (*length = 0; count > 0 && *length <= CONF_BYTES_MAX;) {
        count = read(fd, bytes + *length, CONF_BYTES_MAX + 1 - *length);
        if (count > 0)
            *length += (size_t)count;
        else if (count < 0 &&
                 (errno == EINTR || (errno == EAGAIN && await_data(fd, info, until_s))))
            count = 1;
    }
    return count >= 0;
}

static const char *refused_kind(mode_t mode)
{
    return S_ISDIR(mode)                                         ? "it is a folder"
           : !S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISCHR(mode) ? "it is no file"
                                                                 : NULL;
}

char *content_read(const char *path, double pipe_until_s, size_t *length, struct error *error)
{
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &info) != 0) {
        error_refuse(error, "cannot open %s: %s", path, strerror(errno));
        if (fd >= 0) /* uncovered: promise */
            close(fd);
        return NULL;
    }
    const char *kind = refused_kind(info.st_mode);
    char *bytes = kind ? NULL : malloc(CONF_BYTES_MAX + 1);
    if (kind)
        error_refuse(error, "cannot read %s: %s", path, kind);
    else if (!bytes) /* uncovered: memory */
        error_refuse(error, "out of memory for %s", path);
    else if (!read_bytes(fd, &info, pipe_until_s, bytes, length))
        error_refuse(error, "cannot read %s: %s", path,
                     errno == EAGAIN ? "it is a pipe whose writer sends nothing" : strerror(errno));
    else if (*length == 0 && S_ISFIFO(info.st_mode))
        error_refuse(error, "cannot read %s: it is a pipe to which no process writes", path);
    else if (*length > CONF_BYTES_MAX)
        error_refuse(error, "cannot read %s: it has more than %llu bytes", path, CONF_BYTES_MAX);
    close(fd);
    if (error->status == STATUS_OK) {
        bytes[*length] = '\0';
        return bytes;
    }
    free(bytes);
    return NULL;
}
