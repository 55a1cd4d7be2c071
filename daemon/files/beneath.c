/* beneath.c - resolves paths below a root, and creates missing folders there. */
/* uncovered file: disk (tests/coverage/reasons.txt) */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/files/files_impl.h"

/* false: errno is set, and *error as well if making->may_go_on has failed. */
static bool make_folder(int parent, const char *name, const struct files_making *making,
                        struct error *error)
{
    if (making->may_go_on && making->may_go_on(making->context, error) != STATUS_OK) {
        errno = ECANCELED;
        return false;
    }
    if (mkdirat(parent, name, 0755) != 0)
        return errno == EEXIST;
    int fd = making->sync ? openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd); /* an error is ignored, because the fsync of the file will report it as well */
        close(fd);
    }
    return true;
}

/* Whether a component of a path is "", "." or "..", which are not names of files. The job parser
 * (queue/job/job.c) refuses them, too, but the functions here must be safe without it. */
static bool is_no_name(const char *part, size_t length)
{
    return length == 0 || (length == 1 && part[0] == '.') ||
           (length == 2 && part[0] == '.' && part[1] == '.');
}

bool files_has_no_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return is_no_name(name, strlen(name));
}

void files_close_keep_errno(int fd)
{
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
}

/* Opens a subfolder. making: how to create it if it is missing; NULL: it is not created. Returns a
 * descriptor, or -1 with errno. */
static int step_into(int folder, const char *name, size_t length, const struct files_making *making,
                     struct error *error)
{
    int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char part[NAME_MAX + 1];
    if (length > NAME_MAX || is_no_name(name, length)) {
        errno = length > NAME_MAX ? ENAMETOOLONG : EXDEV;
        return -1;
    }
    memcpy(part, name, length);
    part[length] = '\0';
    int next = openat(folder, part, flags);
    if (next < 0 && errno == ENOENT && making && make_folder(folder, part, making, error))
        next = openat(folder, part, flags);
    return next;
}

/* Opens one component at a time, because O_NOFOLLOW checks only the last component of a path.
 * openat2 could check all of them, but the systemd unit forbids it (RestrictSUIDSGID=). */
int files_walk_to_parent(int root, const char *path, const struct files_making *making,
                         const char **name, struct error *error)
{
    int folder = root;
    *name = path;
    for (const char *slash; folder >= 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
        int next = step_into(folder, *name, (size_t)(slash - *name), making, error);
        if (folder != root)
            files_close_keep_errno(folder);
        folder = next;
    }
    if (folder >= 0 && files_has_no_name(path)) {
        if (folder != root)
            close(folder);
        errno = EXDEV; /* callers report this as a path that leaves the root */
        return -1;
    }
    return folder;
}

static int open_in(int folder, const char *name, int flags)
{
    return openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW);
}

/* Opens a file in its folder, if that is known. -1 with errno ENOENT: it must be looked for. */
static int open_known(struct files_known *known, const char *path, int flags)
{
    struct files_folder *folder =
        known && !files_has_no_name(path) ? files_known_find(known, path) : NULL;
    errno = ENOENT;
    if (!folder)
        return -1;
    int fd = open_in(files_folder_fd(folder), strrchr(path, '/') + 1, flags), reason = errno;
    if (fd < 0 && (reason == ENOENT || reason == ESTALE)) { /* the folder may be another one now */
        files_known_forget(known, folder);
        reason = ENOENT;
    }
    files_folder_end(folder);
    errno = reason;
    return fd;
}

int files_open_beneath(int root, struct files_known *known, const char *path, int flags)
{
    const char *name;
    struct files_folder *latest = NULL;
    int fd = open_known(known, path, flags);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    int folder = files_walk_to_parent(root, path, NULL, &name, NULL), reason;
    fd = folder >= 0 ? open_in(folder, name, flags) : -1;
    reason = errno;
    if (fd >= 0 && known && folder != root)
        latest = files_known_add(known, path, folder);
    if (latest)
        files_folder_end(latest);
    else if (folder != root)
        files_close_keep_errno(folder);
    errno = reason;
    return fd;
}

uint32_t files_filesystem(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 ? (uint32_t)info.f_type : 0;
}
