/* output.c - writes outputs. */
/* uncovered file: disk (tests/coverage/reasons.txt) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/files/files_impl.h"

/* Sets the error for a failed step. Errors of the disk (ENOSPC, EIO) are write_failed, after which
 * the job is retried; after path_refused it is not. */
static enum status output_error(struct files_output *output, const char *step, struct error *error)
{
    int reason = errno;
    output->reason = reason;
    char text[64];
    if (files_is_refusal(reason) || reason == EISDIR)
        return error_set(error, STATUS_PATH_REFUSED,
                         "the path of the output \"%s\" has a component that is not a plain file "
                         "or folder: %s",
                         output->path, strerror(reason));
    if (reason == ENAMETOOLONG)
        return error_set(error, STATUS_PATH_REFUSED,
                         "the output \"%s\" has a part of more than %d bytes", output->path,
                         NAME_MAX);
    return error_set(error, STATUS_WRITE_FAILED, "the output \"%s\" cannot be %s: %s%s",
                     output->path, step, strerror(reason), files_whose(reason, output->user, text));
}

/* Opens the folder of a path and creates it if it is missing. Returns output_root itself, a new
 * descriptor, or -1 with errno. making->sync: fsync works with the descriptor. */
static int walk(const struct files *files, const char *path, const struct files_making *making,
                const char **name, struct error *error)
{
    int folder = files_walk_to_parent(files->output_root, path, making, name, error);
    if (folder < 0 || folder == files->output_root || !making->sync)
        return folder;
    /* `folder` was opened with O_PATH, with which fsync does not work. */
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    files_close_keep_errno(folder);
    return fd;
}

/* Opens the folder of the output, unless it is known. */
static void open_parent(const struct files *files, struct files_output *output,
                        const struct files_making *making, struct error *error)
{
    const char *path = output->path;
    if (making->known && !files_has_no_name(path))
        output->known = files_known_find(making->known, path);
    output->keeps = making->known;
    if (output->known) {
        output->folder = files_folder_fd(output->known);
        output->name = strrchr(path, '/') + 1;
        return;
    }
    output->folder = walk(files, path, making, &output->name, error);
    output->own_folder = output->folder >= 0 && output->folder != files->output_root;
    if (making->known && output->own_folder)
        output->known = files_known_add(making->known, path, output->folder);
    output->own_folder &= !output->known;
}

/* Chooses TEMPORARY_FOLDER, or the target's folder if that is on another filesystem, because
 * rename(2) does not cross filesystems. false: errno is set. */
static bool choose_temporary_folder(struct files *files, struct files_output *output)
{
    struct stat info;
    output->temporary_folder = files->temporary;
    if (output->folder == files->output_root && files->root_is_near)
        return true;
    if (fstat(output->folder, &info) != 0)
        return false;
    if (info.st_dev != files->temporary_device) {
        files_sweep_beside(files, output->folder, files_identity_of(&info));
        output->temporary_folder = output->folder;
    }
    return true;
}

/* Some file servers ignore O_EXCL: check that the file is new and empty. */
static enum status check_created(struct files_output *output, struct error *error)
{
    struct stat info;
    if (fstat(output->fd, &info) != 0)
        return output_error(output, "created", error);
    output->identity = files_identity_of(&info);
    nlink_t names = output->is_temporary ? 1 : 0;
    if (S_ISREG(info.st_mode) && info.st_nlink == names && info.st_size == 0)
        return STATUS_OK;
    return error_set(error, STATUS_WRITE_FAILED,
                     "the output \"%s\" cannot be created: its temporary file is not a new, empty "
                     "file; does another program write to its folder?",
                     output->path);
}

enum status files_output_begin(struct files *files, struct files_output *output, const char *path,
                               uint64_t job, uint64_t fetch, size_t index,
                               const struct files_making *making, struct error *error)
{
    static const struct files_making none;
    struct error ended = {0};
    *output = (struct files_output){
        .fd = -1, .folder = -1, .replaced = -1, .path = path, .user = files->user};
    open_parent(files, output, making ? making : &none, &ended);
    if (ended.status != STATUS_OK) {
        *error = ended;
        return error->status;
    }
    if (output->folder < 0 || !choose_temporary_folder(files, output))
        return output_error(output, "given a folder", error);
    snprintf(output->temporary_name, sizeof output->temporary_name,
             "%s%s.%" PRIu64 ".%" PRIu64 ".%zu" TEMPORARY_SUFFIX,
             output->temporary_folder == files->temporary ? "" : BESIDE_PREFIX, files->instance,
             job, fetch, index);
    output->naming = output->temporary_folder == files->temporary ? files->naming : FILES_RENAMED;
    output->fd = output->naming == FILES_RENAMED
                     ? files_create(output->temporary_folder, output->temporary_name)
                     : files_create_unnamed(output->temporary_folder);
    if (output->fd < 0)
        return output_error(output, "created", error);
    output->is_temporary = output->naming == FILES_RENAMED;
    return check_created(output, error);
}

enum status files_output_write(struct files_output *output, const uint8_t *bytes, size_t length,
                               struct error *error)
{
    while (length > 0) {
        ssize_t count = write(output->fd, bytes, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0) /* never for a regular file, but the loop must end */
            errno = ENOSPC;
        if (count <= 0)
            return output_error(output, "written", error);
        bytes += count;
        length -= (size_t)count;
    }
    return STATUS_OK;
}

/* Opens the temporary file again with O_RDWR, which a writable map needs. Files with a name are
 * first opened with O_WRONLY, because some file servers allow only that. */
static int reopen(const struct files_output *output)
{
    struct stat info;
    if (output->naming != FILES_RENAMED)
        return output->fd;
    int fd = openat(output->temporary_folder, output->temporary_name,
                    O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &info) == 0 && info.st_dev == output->identity.device &&
                   info.st_ino == output->identity.inode))
        return fd;
    close(fd);
    return -1;
}

/* Whether a file in a tmpfs would get huge pages: st_blksize is the size of the largest page that
 * the tmpfs tries to allocate for a file of this length. */
static bool has_huge_pages(int fd)
{
    struct stat info;
    return fstat(fd, &info) != 0 || info.st_blksize > sysconf(_SC_PAGESIZE);
}

uint8_t *files_output_map(struct files_output *output, size_t length)
{
    void *map = MAP_FAILED;
    if (files_filesystem(output->fd) != TMPFS_MAGIC || lseek(output->fd, 0, SEEK_END) != 0)
        return NULL;
    int fd = reopen(output);
    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)length) == 0 && !has_huge_pages(fd))
        map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd != output->fd)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* The bytes are copied by process_vm_writev to this process itself, not by memcpy: if the tmpfs
 * cannot allocate a page, or another process has shortened the file, memcpy would end this process
 * with SIGBUS, but process_vm_writev only copies fewer bytes.
 *
 * Then the pages are removed from the map, so that they do not count as memory of this process;
 * they stay in the file. It is faster if each thread removes its own pages than if munmap removes
 * all. */
bool files_map_write(uint8_t *map, const uint8_t *bytes, uint64_t from, uint64_t to)
{
    size_t size = to - from;
    const struct iovec source = {(void *)(bytes + from), size}, target = {map + from, size};
    ssize_t copied = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    madvise(map + from, size, MADV_DONTNEED);
    return copied == (ssize_t)size;
}

enum status files_output_unmap(struct files_output *output, uint8_t *map, size_t length,
                               bool written, struct error *error)
{
    munmap(map, length);
    if (written && lseek(output->fd, (off_t)length, SEEK_SET) < 0)
        return output_error(output, "written", error);
    return STATUS_OK;
}

enum status files_output_finish(struct files_output *output, bool sync, struct error *error)
{
    if (sync && fsync(output->fd) != 0)
        return output_error(output, "synced", error);
    if (output->naming != FILES_RENAMED)
        return STATUS_OK; /* files_output_place needs the descriptor */
    int closed = close(output->fd);
    output->fd = -1;
    if (closed != 0) /* NFS reports a full disk on close */
        return output_error(output, "closed", error);
    return STATUS_OK;
}

/* Whether a file may be open while another file is renamed over it. NFS would first rename an open
 * file to another name ("silly rename"), so that for a moment no file has its name. */
static bool may_stay_open(uint32_t filesystem)
{
    switch (filesystem) {
    case TMPFS_MAGIC:
    case EXT4_SUPER_MAGIC: /* also ext2 and ext3 */
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

#define COMPARED "compared with the file that it replaces"

static enum status ask_may_replace(struct files_output *output, int target,
                                   files_may_replace *may_replace, void *context,
                                   struct error *error)
{
    struct stat info;
    if (fstat(target, &info) != 0)
        return output_error(output, COMPARED, error);
    struct files_identity identity = files_identity_of(&info);
    return may_replace(context, &identity, error);
}

/* Gives a file without a name its temporary name. Returns 0, or -1 with errno. */
static int name_temporary(struct files_output *output)
{
    int folder = output->temporary_folder;
    const char *name = output->temporary_name;
    if (output->naming == FILES_RENAMED)
        return 0;
    int failed = files_give_name(output->fd, output->naming, folder, name);
    if (failed != 0 && errno == EEXIST && unlinkat(folder, name, 0) == 0)
        failed = files_give_name(output->fd, output->naming, folder, name);
    if (failed == 0) {
        output->naming = FILES_RENAMED;
        output->is_temporary = true;
    }
    return failed;
}

/* Renames the temporary file over an existing file.
 *
 * The kernel frees the blocks of the replaced file when its last reference ends. If rename(2) has
 * the last reference, it frees them while it holds the locks of both folders and the lock for all
 * renames between folders of the filesystem: for 0.18 ms per 1.3 MB in a tmpfs, during which no
 * other worker can rename (tests/bench/FIGURES.md). So the replaced file is open during the rename,
 * and its close frees it without these locks. */
static enum status replace_target(struct files_output *output, files_may_replace *may_replace,
                                  void *context, struct error *error)
{
    int target = openat(output->folder, output->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0 && errno != ENOENT)
        return output_error(output, COMPARED, error);
    enum status status =
        target < 0 ? STATUS_OK : ask_may_replace(output, target, may_replace, context, error);
    uint32_t filesystem = target < 0 ? 0 : files_filesystem(target);
    if (target >= 0 && !may_stay_open(filesystem)) {
        close(target);
        target = -1;
    }
    if (status == STATUS_OK &&
        (name_temporary(output) != 0 || renameat(output->temporary_folder, output->temporary_name,
                                                 output->folder, output->name) != 0))
        status = output_error(output, "renamed into place", error);
    if (target >= 0 && status == STATUS_OK && filesystem == TMPFS_MAGIC)
        output->replaced = target;
    else if (target >= 0)
        close(target);
    return status;
}

/* Returns 0, or -1 with errno: EEXIST if a file has this name. */
static int place_new(const struct files_output *output)
{
    if (output->naming != FILES_RENAMED)
        return files_give_name(output->fd, output->naming, output->folder, output->name);
    return renameat2(output->temporary_folder, output->temporary_name, output->folder, output->name,
                     RENAME_NOREPLACE);
}

enum status files_output_place(struct files_output *output, bool sync,
                               files_may_replace *may_replace, void *context, struct error *error)
{
    if (place_new(output) != 0) {
        /* EINVAL, ENOSYS: the filesystem lacks RENAME_NOREPLACE, so the name may exist or not. */
        int reason = errno;
        if (output->known && (reason == ENOENT || reason == ESTALE))
            files_known_forget(output->keeps, output->known); /* later images look for it */
        errno = reason;
        if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
            return output_error(output, "renamed into place", error);
        if (replace_target(output, may_replace, context, error) != STATUS_OK)
            return error->status;
    }
    output->is_temporary = false;
    if (sync && fsync(output->folder) != 0)
        return output_error(output, "synced with its folder", error);
    return STATUS_OK;
}

bool files_output_same(const struct files_output *one, const struct files_output *other)
{
    struct stat a, b;
    return strcmp(one->name, other->name) == 0 && fstat(one->folder, &a) == 0 &&
           fstat(other->folder, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

struct files_identity files_output_target(const struct files_output *output)
{
    struct stat info;
    if (fstatat(output->folder, output->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return (struct files_identity){0};
    return files_identity_of(&info);
}

bool files_output_room(const struct files_output *output, uint64_t *bytes)
{
    struct statvfs info;
    if (output->folder < 0 || fstatvfs(output->folder, &info) != 0 || info.f_blocks == 0)
        return false;
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return true;
}

void files_output_end(struct files_output *output)
{
    if (output->fd >= 0)
        close(output->fd);
    if (output->replaced >= 0)
        close(output->replaced);
    if (output->is_temporary)
        unlinkat(output->temporary_folder, output->temporary_name, 0);
    if (output->own_folder)
        close(output->folder);
    files_folder_end(output->known);
    output->known = NULL;
    output->own_folder = output->is_temporary = false;
    output->fd = output->folder = output->replaced = -1;
}
