/* sweep.c - creates temporary files and removes those of dead daemons. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/text.h"
#include "daemon/files/files_impl.h"

/* In folders other than TEMPORARY_FOLDER, a temporary file of a daemon on another host is removed
 * at this age. No job writes an output for that long: this is the maximum of job_timeout_s. */
#define LEFTOVER_AGE_S 86400

int files_create(int folder, const char *name)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, flags, 0644);
    if (fd >= 0 || errno != EEXIST || unlinkat(folder, name, 0) != 0)
        return fd;
    return openat(folder, name, flags, 0644);
}

bool files_touch(const struct files *files, int folder, const char *prefix,
                 struct files_touch *touch)
{
    char name[FILES_TEMPORARY_BYTES_MAX];
    struct stat info;
    /* Job numbers start at 1, so no output has this name. */
    snprintf(name, sizeof name, "%s%s.0.0.0" TEMPORARY_SUFFIX, prefix, files->instance);
    int fd = files_create(folder, name);
    if (fd < 0)
        return false;
    bool known = futimens(fd, NULL) == 0 && fstat(fd, &info) == 0;
    close(fd);
    unlinkat(folder, name, 0);
    if (known)
        *touch = (struct files_touch){info.st_mtime, info.st_uid};
    return known;
}

/* Removes ".NUMBER" from the end of the name. false: the name does not end like this. */
static bool cut_number(char *name)
{
    char *dot = strrchr(name, '.');
    size_t digits = dot ? strspn(dot + 1, "0123456789") : 0;
    if (digits == 0 || digits > TEXT_DIGITS_MAX || dot[1 + digits] || (dot[1] == '0' && digits > 1))
        return false;
    *dot = '\0';
    return true;
}

/* Copies INSTANCE from a name of the form INSTANCE.JOB.FETCH.INDEX.tmp after the prefix. false: the
 * name differs from this form in any way, so it may be the file of a user. */
static bool temporary_owner(const char *name, const char *prefix, char inst[INSTANCE_BYTES_MAX])
{
    char rest[FILES_TEMPORARY_BYTES_MAX];
    size_t skipped = strlen(prefix), suffix = strlen(TEMPORARY_SUFFIX);
    if (strncmp(name, prefix, skipped) != 0 || !text_copy(rest, sizeof rest, name + skipped))
        return false;
    size_t length = strlen(rest);
    if (length <= suffix || strcmp(rest + length - suffix, TEMPORARY_SUFFIX) != 0)
        return false;
    rest[length - suffix] = '\0';
    return cut_number(rest) && cut_number(rest) && cut_number(rest) && instance_is_name(rest) &&
           text_copy(inst, INSTANCE_BYTES_MAX, rest);
}

/* The search for temporary files in one folder. */
struct sweep {
    const struct files *files;
    int folder;
    const char *prefix;
    double age_s;
    bool touched; /* files_touch was called; only if a file may have to be removed, because it
                     writes to the disk */
    bool dated;   /* files_touch has set touch.now */
    struct files_touch touch;
};

static bool is_leftover(struct sweep *sweep, const char *name)
{
    char inst[INSTANCE_BYTES_MAX];
    struct stat info;
    const char *self = sweep->files->instance;
    if (!temporary_owner(name, sweep->prefix, inst) || strcmp(inst, self) == 0)
        return false;
    enum instance_life life = instance_life(inst, self);
    if (life == INSTANCE_ALIVE)
        return false;
    if (!sweep->touched)
        sweep->dated = files_touch(sweep->files, sweep->folder, sweep->prefix, &sweep->touch);
    sweep->touched = true;
    if (fstatat(sweep->folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != sweep->touch.user)
        return false;
    return life == INSTANCE_DEAD ||
           (sweep->dated && difftime(sweep->touch.now, info.st_mtime) > sweep->age_s);
}

static size_t sweep_folder(const struct files *files, int fd, const char *prefix, double age_s)
{
    struct sweep sweep = {.files = files, .folder = fd, .prefix = prefix, .age_s = age_s,
                          .touch.user = geteuid()};
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = own >= 0 ? fdopendir(own) : NULL;
    if (!folder) {
        if (own >= 0)
            close(own);
        return 0;
    }
    size_t removed = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (is_leftover(&sweep, entry->d_name) && unlinkat(fd, entry->d_name, 0) == 0)
            removed++;
    closedir(folder);
    if (removed)
        log_info("removed %zu temporary files of dead daemons", removed);
    return removed;
}

size_t files_sweep(const struct files *files, double age_s)
{
    return sweep_folder(files, files->temporary, "", age_s);
}

void files_sweep_beside(struct files *files, int folder, struct files_identity identity)
{
    bool known = false;
    pthread_mutex_lock(&files->lock);
    for (size_t i = 0; i < FILES_SWEPT_MAX && !known; i++)
        known = files_same(&files->swept[i], &identity);
    if (!known)
        files->swept[files->swept_next++ % FILES_SWEPT_MAX] = identity;
    pthread_mutex_unlock(&files->lock);
    if (!known)
        sweep_folder(files, folder, BESIDE_PREFIX, LEFTOVER_AGE_S);
}
