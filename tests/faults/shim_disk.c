/*
 * shim_disk.c - preloaded into a daemon: makes file calls fail, return short or hang, as
 * $GPUIMGD_SHIM says:
 *
 *     GPUIMGD_SHIM="call=write,do=ENOSPC,match=*.2.*.tmp,times=2"
 *
 *     call=NAME      pread, write, fsync, close, openat, mkdirat, renameat (its new name)
 *     do=WHAT        ENOSPC, EIO, ... (the table below): fails with this errno (close closes the
 *                    file first). short: transfers a third of the bytes, at least one. full:
 *                    transfers half of the bytes; the next call fails with ENOSPC. zero: returns 0.
 *                    hang: the thread sleeps before the call
 *     match=PATTERN  only files whose absolute path matches (fnmatch; * matches slashes, too)
 *     skip=N         ignores the first N matching calls
 *     times=N        affects N calls; default: all
 *     seconds=N      duration of hang; default: forever
 *     while=PATH     only while this file exists
 *
 * Temporary files always have names, so that `match` finds them: O_TMPFILE fails. Any other text
 * ends the process at its start, so that a typing mistake fails its test.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/faults/shim.h"

static char call[16], what[16], match[160], flag[128];
static unsigned times = UINT_MAX, skip;
static double seconds = 1e9;
static struct shim_page *page;

static const struct {
    const char *name;
    int number;
} errors[] = {{"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS},       {"EIO", EIO},
              {"ESTALE", ESTALE}, {"EINTR", EINTR},   {"ENOTCONN", ENOTCONN}, {"EMFILE", EMFILE}};

/* ---- the fault ------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void refuse(const char *text)
{
    fprintf(stderr, "GPUIMGD_SHIM: \"%s\" is not understood\n", text);
    _exit(99);
}

static int error_number(void)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(what, errors[i].name) == 0)
            return errors[i].number;
    return 0;
}

static bool is(const char *kind)
{
    return strcmp(what, kind) == 0;
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("GPUIMGD_SHIM");
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", text ? text : "");
    for (char *word; (word = strsep(&rest, ","));)
        if (sscanf(word, "call=%15s", call) != 1 && sscanf(word, "do=%15s", what) != 1 &&
            sscanf(word, "match=%159s", match) != 1 && sscanf(word, "times=%u", &times) != 1 &&
            sscanf(word, "skip=%u", &skip) != 1 && sscanf(word, "seconds=%lf", &seconds) != 1 &&
            sscanf(word, "while=%127s", flag) != 1)
            refuse(word);
    if (!*call || !*match || !(error_number() || is("short") || is("full") || is("zero") ||
                               is("hang")))
        refuse(words);
    page = shim_map();
}

/* ---- which calls match ----------------------------------------------------------------------- */

static bool path_of(int fd, char *path, size_t size)
{
    char link[64];
    if (fd == AT_FDCWD)
        return getcwd(path, size) != NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    return true;
}

/* name: below fd, or NULL for the descriptor's own path. */
static bool meant(const char *name_of_call, int fd, const char *name)
{
    char path[2 * PATH_MAX];
    int saved = errno;
    bool found = page && strcmp(call, name_of_call) == 0 && path_of(fd, path, PATH_MAX);
    errno = saved;
    if (!found)
        return false;
    if (name)
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
    if (fnmatch(match, path, 0) != 0 || (*flag && faccessat(AT_FDCWD, flag, F_OK, 0) != 0)) {
        errno = saved;
        return false;
    }
    unsigned met = atomic_fetch_add(&page->met, 1);
    bool fault = met >= skip && met - skip < times;
    if (fault)
        atomic_fetch_add(&page->faults, 1);
    return fault;
}

/* Applies the fault to a matching call. true: the call fails, and errno is set. */
static bool fails(void)
{
    if (is("hang"))
        shim_sleep(seconds);
    else if (error_number())
        errno = error_number();
    return error_number() != 0;
}

/* Like the function above, for pread and write: returns the bytes to transfer, or -1. */
static ssize_t bytes_left(size_t count)
{
    if (is("zero"))
        return 0;
    if (is("short"))
        return (ssize_t)(count / 3 > 0 ? count / 3 : 1);
    if (is("full") && atomic_load(&page->faults) % 2 == 1)
        return (ssize_t)(count / 2);
    if (is("full"))
        errno = ENOSPC;
    return is("full") || fails() ? -1 : (ssize_t)count;
}

/* ---- the calls ------------------------------------------------------------------------------- */

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    SHIM_NEXT(ssize_t, "pread", int, void *, size_t, off_t);
    ssize_t left = meant("pread", fd, NULL) ? bytes_left(count) : (ssize_t)count;
    return left > 0 || count == 0 ? next(fd, bytes, (size_t)left, at) : left;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    SHIM_NEXT(ssize_t, "write", int, const void *, size_t);
    ssize_t left = meant("write", fd, NULL) ? bytes_left(count) : (ssize_t)count;
    return left > 0 || count == 0 ? next(fd, bytes, (size_t)left) : left;
}

int fsync(int fd)
{
    SHIM_NEXT(int, "fsync", int);
    return meant("fsync", fd, NULL) && fails() ? -1 : next(fd);
}

int close(int fd)
{
    SHIM_NEXT(int, "close", int);
    bool chosen = meant("close", fd, NULL);
    int result = next(fd);
    return chosen && fails() ? -1 : result;
}

int openat(int folder, const char *name, int flags, ...)
{
    SHIM_NEXT(int, "openat", int, const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return meant("openat", folder, name) && fails() ? -1 : next(folder, name, flags, mode);
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    SHIM_NEXT(int, "mkdirat", int, const char *, mode_t);
    return meant("mkdirat", folder, name) && fails() ? -1 : next(folder, name, mode);
}

int renameat(int from, const char *old, int to, const char *name)
{
    SHIM_NEXT(int, "renameat", int, const char *, int, const char *);
    return meant("renameat", to, name) && fails() ? -1 : next(from, old, to, name);
}

int renameat2(int from, const char *old, int to, const char *name, unsigned flags)
{
    SHIM_NEXT(int, "renameat2", int, const char *, int, const char *, unsigned);
    return meant("renameat", to, name) && fails() ? -1 : next(from, old, to, name, flags);
}
