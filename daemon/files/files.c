/* files.c - opens the roots and the inputs. */
/* uncovered file: disk (tests/coverage/reasons.txt) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/files/files_impl.h"

bool files_is_refusal(int reason)
{
    return reason == ELOOP || reason == EXDEV || reason == ENOTDIR;
}

bool files_is_lasting(int reason)
{
    return reason == EACCES || reason == EPERM || reason == EFBIG;
}

const char *files_whose(int reason, const char *user, char text[64])
{
    text[0] = '\0';
    if (reason == EACCES)
        snprintf(text, 64, "; the daemon runs as user %s", user);
    return text;
}

/* ---- roots ---------------------------------------------------------------------------------- */

static void name_user(uid_t user, char *name, size_t size)
{
    struct passwd *entry = getpwuid(user);
    if (entry)
        snprintf(name, size, "%s", entry->pw_name);
    else
        snprintf(name, size, "%ju", (uintmax_t)user);
}

/* Returns the setting of the systemd unit that probably hides or write-protects this path; NULL:
 * none. In a shell the path exists, so that the error alone would confuse the administrator. */
static const char *unit_setting(const char *path, int reason)
{
    static const struct {
        const char *folder, *setting;
    } hidden[] = {{"/home/", "ProtectHome=no"}, {"/root/", "ProtectHome=no"},
                  {"/tmp/", "PrivateTmp=no"}, {"/var/tmp/", "PrivateTmp=no"}};
    if (!getenv("NOTIFY_SOCKET"))
        return NULL;
    if (reason == EROFS)
        return "ReadWritePaths=";
    if (reason == ENOENT || reason == EACCES)
        for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
            if (strncmp(path, hidden[i].folder, strlen(hidden[i].folder)) == 0)
                return hidden[i].setting;
    return NULL;
}

static bool refuse_root(const struct files *files, const char *option, const char *path,
                        const char *what, struct error *error)
{
    int reason = errno;
    const char *setting = unit_setting(path, reason);
    if (setting)
        return error_refuse(error, "option %s is \"%s\", %s: %s; the service needs %s%s (systemctl "
                            "edit gpuimgd)", option, path, what, strerror(reason), setting,
                            reason == EROFS ? path : "");
    return error_refuse(error, "option %s is \"%s\", %s: %s (the daemon runs as user %s)", option,
                        path, what, strerror(reason), files->user);
}

static int open_root(const struct files *files, const char *option, const char *path,
                     struct error *error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        refuse_root(files, option, path, "which cannot be opened", error);
    return fd;
}

bool files_open_inputs(struct files *files, const char *input_root, struct error *error)
{
    memset(files, 0, sizeof *files);
    files->output_root = files->temporary = -1;
    pthread_mutex_init(&files->lock, NULL);
    name_user(geteuid(), files->user, sizeof files->user);
    files->input_root = open_root(files, "input_root", input_root, error);
    return files->input_root >= 0;
}

static bool check_mode(const struct stat *info, const char *output_root, struct error *error)
{
    return !(info->st_mode & (S_IWGRP | S_IWOTH)) ||
           error_refuse(error, "option output_root is \"%s\", in which other users may write "
                        "to " TEMPORARY_FOLDER " (mode %04o): chmod 0700 it", output_root,
                        (unsigned)info->st_mode & 07777);
}

/* Refuses TEMPORARY_FOLDER if another user owns it or may write to it: that user could replace an
 * output before the rename. */
static bool check_temporary(const struct files *files, int temporary, const char *output_root,
                            const struct stat *info, struct error *error)
{
    char owner[33];
    struct files_touch touch = {.user = geteuid()};
    if (info->st_uid != touch.user)
        files_touch(files, temporary, "", &touch);
    if (info->st_uid != touch.user) {
        name_user(info->st_uid, owner, sizeof owner);
        return error_refuse(error, "option output_root is \"%s\", in which " TEMPORARY_FOLDER
                            " belongs to user %s; the daemon runs as user %s: chown the folder, or "
                            "remove it", output_root, owner, files->user);
    }
    return check_mode(info, output_root, error);
}

static int enter_temporary(int root)
{
    return openat(root, TEMPORARY_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens TEMPORARY_FOLDER, without a check of its owner. */
static bool take_temporary(struct files *files, const char *output_root, struct stat *info,
                           struct error *error)
{
    files->temporary = enter_temporary(files->output_root);
    if (files->temporary < 0 && files_is_refusal(errno))
        return error_refuse(error, "option output_root is \"%s\", in which " TEMPORARY_FOLDER
                            " is a symbolic link or a file: remove it", output_root);
    if (files->temporary < 0 || fstat(files->temporary, info) != 0 ||
        faccessat(files->temporary, ".", W_OK, AT_EACCESS) != 0)
        return refuse_root(files, "output_root", output_root,
                           "in which " TEMPORARY_FOLDER " cannot be written", error);
    return true;
}

/* Creates or opens TEMPORARY_FOLDER and checks its owner and mode. */
static bool open_temporary(struct files *files, const char *output_root, struct error *error)
{
    struct stat info;
    if (mkdirat(files->output_root, TEMPORARY_FOLDER, 0700) != 0 && errno != EEXIST)
        return refuse_root(files, "output_root", output_root,
                           "in which " TEMPORARY_FOLDER " cannot be written", error);
    if (!take_temporary(files, output_root, &info, error))
        return false;
    files->temporary_device = info.st_dev;
    if (!check_temporary(files, files->temporary, output_root, &info, error))
        return false;
    files->naming = files_find_naming(files, files->temporary);
    return true;
}

/* Whether TEMPORARY_FOLDER can be used, or created if it is missing. */
static bool check_output_root(struct files *files, const char *output_root, struct error *error)
{
    struct stat info;
    files->output_root = open_root(files, "output_root", output_root, error);
    if (files->output_root < 0)
        return false;
    if (fstatat(files->output_root, TEMPORARY_FOLDER, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return faccessat(files->output_root, ".", W_OK | X_OK, AT_EACCESS) == 0 ||
               refuse_root(files, "output_root", output_root,
                           "in which " TEMPORARY_FOLDER " cannot be written", error);
    return take_temporary(files, output_root, &info, error) &&
           (geteuid() == 0 ? check_mode(&info, output_root, error)
                           : check_temporary(files, files->temporary, output_root, &info, error));
}

void files_check_roots(const char *input_root, const char *output_root, struct errors *errors)
{
    struct files files;
    struct error input = {0}, output = {0};
    if (!files_open_inputs(&files, input_root, &input))
        errors_add(errors, &input);
    if (!check_output_root(&files, output_root, &output))
        errors_add(errors, &output);
    files_close(&files);
}

bool files_open(struct files *files, const char *input_root, const char *output_root,
                const char *instance, struct error *error)
{
    bool inputs = files_open_inputs(files, input_root, error);
    snprintf(files->instance, sizeof files->instance, "%s", instance);
    files->output_root = open_root(files, "output_root", output_root, error);
    if (!inputs || files->output_root < 0 || !open_temporary(files, output_root, error))
        return false;
    files->same_root = files_same_folder(input_root, output_root);
    struct stat info;
    files->root_is_near =
        fstat(files->output_root, &info) == 0 && info.st_dev == files->temporary_device;
    return true;
}

static bool is_same(int a, int b)
{
    struct stat one, two;
    return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

bool files_has_root(const struct files *files, const char *output_root)
{
    int root = open(output_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int temporary = root >= 0 ? enter_temporary(root) : -1;
    bool has = temporary >= 0 && is_same(root, files->output_root) &&
               is_same(temporary, files->temporary);
    files_close_keep_errno(temporary);
    files_close_keep_errno(root);
    return has;
}

/* Puts the new folders in the place of the old ones. dup3 keeps the numbers of the descriptors,
 * which other workers use at the same time. */
static bool take_root(struct files *files, int root, int temporary, const char *output_root,
                      struct error *error)
{
    struct stat of_root, of_temporary;
    if (fstat(root, &of_root) != 0 || fstat(temporary, &of_temporary) != 0 ||
        !check_temporary(files, temporary, output_root, &of_temporary, error) ||
        dup3(root, files->output_root, O_CLOEXEC) < 0 ||
        dup3(temporary, files->temporary, O_CLOEXEC) < 0)
        return false;
    files->temporary_device = of_temporary.st_dev;
    files->naming = files_find_naming(files, temporary);
    files->root_is_near = of_root.st_dev == of_temporary.st_dev;
    files->same_root = is_same(root, files->input_root);
    return true;
}

bool files_follow_root(struct files *files, const char *output_root, struct error *error)
{
    struct stat info;
    if (files_has_root(files, output_root))
        return true;
    int root = open_root(files, "output_root", output_root, error);
    if (root < 0)
        return false;
    int temporary = enter_temporary(root);
    if (temporary < 0 && errno == ENOENT && fstat(root, &info) == 0 &&
        info.st_dev == files->temporary_device && mkdirat(root, TEMPORARY_FOLDER, 0700) == 0)
        temporary = enter_temporary(root);
    bool taken = temporary >= 0 && take_root(files, root, temporary, output_root, error);
    if (!taken)
        error_set(error, STATUS_WRITE_FAILED,
                  "output_root \"%s\" is now another folder, and its " TEMPORARY_FOLDER
                  " cannot be opened: %s; mount its filesystem, or create that folder",
                  output_root, strerror(errno));
    files_close_keep_errno(temporary);
    files_close_keep_errno(root);
    return taken;
}

void files_close(struct files *files)
{
    int *descriptors[] = {&files->input_root, &files->output_root, &files->temporary};
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
        *descriptors[i] = -1;
    }
}

struct files_identity files_identity_of(const struct stat *info)
{
    return (struct files_identity){info->st_dev, info->st_ino};
}

bool files_same_folder(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

bool files_leads_to(int root, const char *path, const struct files_identity *file)
{
    struct stat info;
    int fd = files_open_beneath(root, NULL, path, O_PATH);
    if (fd < 0)
        return false;
    bool known = fstat(fd, &info) == 0;
    close(fd);
    struct files_identity now = known ? files_identity_of(&info) : (struct files_identity){0};
    return files_same(&now, file);
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Whether a path that cannot be opened is a device or the like: these may refuse O_RDONLY, but not
 * O_PATH. */
static bool is_special(const struct files *files, const char *path)
{
    struct stat info;
    int fd = files_open_beneath(files->input_root, NULL, path, O_PATH);
    bool special = fd >= 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode);
    files_close_keep_errno(fd);
    return special;
}

static enum status input_error(const struct files *files, const char *path, struct error *error)
{
    int reason = errno;
    char text[64];
    if (reason != ENOENT && !files_is_refusal(reason) && is_special(files, path))
        return error_set(error, STATUS_PATH_REFUSED, "the input \"%s\" is not a regular file",
                         path);
    if (reason == ENOENT)
        return error_set(error, STATUS_INPUT_MISSING, "the input \"%s\" does not exist", path);
    if (files_is_refusal(reason))
        return error_set(error, STATUS_PATH_REFUSED, "the path \"%s\" %s", path,
                         reason == ENOTDIR ? "leads through a symbolic link or a file"
                                           : "is a symbolic link or leaves its root");
    if (reason == ENAMETOOLONG)
        return error_set(error, STATUS_PATH_REFUSED,
                         "the input \"%s\" has a part of more than %d bytes", path, NAME_MAX);
    return error_set(error, STATUS_INPUT_UNREADABLE, "the input \"%s\" cannot be opened: %s%s",
                     path, strerror(reason), files_whose(reason, files->user, text));
}

static uint64_t nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

enum status files_open_input(const struct files *files, struct files_known *known, const char *path,
                             uint64_t size_max, struct files_input *input, struct error *error)
{
    /* O_NONBLOCK: an open of a FIFO or a device must not wait for its other end. */
    *input = (struct files_input){
        .fd = files_open_beneath(files->input_root, known, path, O_RDONLY | O_NONBLOCK | O_NOCTTY)};
    if (input->fd < 0) {
        input->reason = errno;
        return input_error(files, path, error);
    }
    struct stat info;
    if (fstat(input->fd, &info) != 0) {
        input->reason = errno;
        error_set(error, STATUS_INPUT_UNREADABLE, "the input \"%s\" cannot be read: %s", path,
                  strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        error_set(error, STATUS_PATH_REFUSED, "the input \"%s\" is not a regular file", path);
    } else if ((uint64_t)info.st_size > size_max) {
        error_set(error, STATUS_INPUT_TOO_LARGE, "the input \"%s\" has %" PRIu64 " bytes; at most "
                  "%" PRIu64 " are allowed (input_bytes_max)", path, (uint64_t)info.st_size,
                  size_max);
    } else {
        input->size = (uint64_t)info.st_size;
        input->identity = files_identity_of(&info);
        input->modified_ns = nanoseconds(&info.st_mtim);
        input->changed_ns = nanoseconds(&info.st_ctim);
        return STATUS_OK;
    }
    close(input->fd);
    input->fd = -1;
    return error->status;
}

enum status files_read_input(int fd, const char *path, uint8_t *bytes, uint64_t from, uint64_t size,
                             struct error *error)
{
    uint64_t have = from;
    ssize_t got;
    do { /* one byte more than expected, to find a file that has grown */
        got = pread(fd, bytes + have, size + 1 - have, (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, STATUS_INPUT_UNREADABLE,
                             "reading \"%s\" failed at byte %" PRIu64 ": %s", path, have,
                             strerror(errno));
        if (got == 0 && have < size)
            return error_set(error, STATUS_INPUT_UNREADABLE,
                             "the input \"%s\" shrank from %" PRIu64 " to %" PRIu64
                             " bytes while it was read", path, size, have);
        have += (uint64_t)got;
    } while (got < 0 || have < size);
    if (have > size)
        return error_set(error, STATUS_INPUT_UNREADABLE,
                         "the input \"%s\" grew beyond %" PRIu64 " bytes while it was read", path,
                         size);
    return STATUS_OK;
}

enum status files_read_part(int fd, const char *path, uint64_t offset, uint8_t *bytes,
                            uint64_t from, uint64_t size, struct error *error)
{
    for (uint64_t have = from; have < size;) {
        ssize_t got = pread(fd, bytes + have, size - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(error, STATUS_INPUT_UNREADABLE,
                             "reading \"%s\" failed at byte %" PRIu64 " of %" PRIu64 ": %s", path,
                             have, size, got < 0 ? strerror(errno) : "the file has become shorter");
        have += (uint64_t)got;
    }
    return STATUS_OK;
}

/* Other filesystems need RWF_NOWAIT to read only from the page cache. A tmpfs is always in memory,
 * and does not know the flag. */
int files_cache_flags(int fd)
{
    return files_filesystem(fd) == TMPFS_MAGIC ? 0 : RWF_NOWAIT;
}

bool files_read_cached(int fd, int flags, uint8_t *bytes, uint64_t from, uint64_t to)
{
    while (from < to) {
        struct iovec piece = {bytes + from, to - from};
        ssize_t got = preadv2(fd, &piece, 1, (off_t)from, flags);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        from += (uint64_t)got;
    }
    return true;
}
