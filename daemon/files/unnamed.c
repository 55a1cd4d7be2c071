/* unnamed.c - files that have no name until they are complete. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/files/files_impl.h"

int files_create_unnamed(int folder)
{
    return openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
}

int files_give_name(int fd, enum files_naming naming, int folder, const char *name)
{
    char path[32];
    if (naming == FILES_LINKED)
        return linkat(fd, "", folder, name, AT_EMPTY_PATH);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW);
}

/* Only a tmpfs gains from files without a name. Disks have to remember such a file, to free it
 * after a crash: on ext4, this costs more than the rename. Btrfs does not log such a file on fsync,
 * so an fsync of its folder would not make it safe. */
enum files_naming files_find_naming(const struct files *files, int folder)
{
    static const enum files_naming ways[] = {FILES_LINKED, FILES_LINKED_BY_PROC};
    enum files_naming found = FILES_RENAMED;
    char name[FILES_TEMPORARY_BYTES_MAX];
    int fd = files_filesystem(folder) == TMPFS_MAGIC ? files_create_unnamed(folder) : -1;
    if (fd < 0)
        return FILES_RENAMED;
    /* Job numbers start at 1, so no output has this name. */
    snprintf(name, sizeof name, "%s.0.0.0" TEMPORARY_SUFFIX, files->instance);
    unlinkat(folder, name, 0);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && found == FILES_RENAMED; i++)
        if (files_give_name(fd, ways[i], folder, name) == 0)
            found = ways[i];
    unlinkat(folder, name, 0);
    close(fd);
    return found;
}
