/* folder.c - see folder.h. */
/* uncovered file: disk (tests/coverage/reasons.txt) */
#include "daemon/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/files/files_impl.h"

struct listing {
    struct files_names *names;
    size_t bytes, room, places; /* of names->text, and of names->offsets */
};

static bool grow(struct listing *listing, size_t length)
{
    struct files_names *names = listing->names;
    if (listing->bytes + length > listing->room) {
        size_t room = 2 * listing->room + length;
        char *text = realloc(names->text, room);
        if (!text)
            return false;
        names->text = text;
        listing->room = room;
    }
    if (names->count == listing->places) {
        size_t places = 2 * listing->places + 64;
        size_t *offsets = realloc(names->offsets, places * sizeof *offsets);
        if (!offsets)
            return false;
        names->offsets = offsets;
        listing->places = places;
    }
    return true;
}

static bool add(struct listing *listing, const char *name)
{
    size_t length = strlen(name) + 1;
    if (!grow(listing, length))
        return false;
    memcpy(listing->names->text + listing->bytes, name, length);
    listing->names->offsets[listing->names->count++] = listing->bytes;
    listing->bytes += length;
    return true;
}

/* DT_REG, DT_DIR or another type; DT_UNKNOWN: the file is gone. */
static unsigned char type_of(DIR *folder, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    return fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0
               ? IFTODT(info.st_mode)
               : DT_UNKNOWN;
}

/* Whether the entry is a file that the caller wants. */
static bool is_wanted(DIR *folder, const struct dirent *entry, files_wants *wants,
                      const void *context, struct files_names *names)
{
    if (!wants(context, entry->d_name))
        return false;
    unsigned char type = type_of(folder, entry);
    names->skipped += type != DT_REG && type != DT_DIR && type != DT_UNKNOWN;
    return type == DT_REG;
}

static int compare(const void *a, const void *b, void *text)
{
    return strcmp((char *)text + *(const size_t *)a, (char *)text + *(const size_t *)b);
}

static DIR *open_folder(const struct files *files, const char *path, struct error *error)
{
    bool is_root = strcmp(path, ".") == 0; /* which is no name beneath it */
    int fd = is_root ? openat(files->input_root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : files_open_beneath(files->input_root, NULL, path, O_RDONLY | O_DIRECTORY);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder)
        return folder;
    int reason = errno;
    if (fd >= 0) /* uncovered: memory */
        close(fd);
    if (reason == ENOENT)
        error_set(error, STATUS_INPUT_MISSING, "the folder \"%.200s\" does not exist", path);
    else if (reason == ELOOP || reason == EXDEV || reason == ENOTDIR || reason == ENAMETOOLONG)
        error_set(error, STATUS_PATH_REFUSED, "the path \"%.200s\" is not a folder below the root",
                  path);
    else
        error_set(error, STATUS_INPUT_UNREADABLE,
                  "the folder \"%.200s\" cannot be opened: %s; "
                  "the daemon runs as user %s",
                  path, strerror(reason), files->user);
    return NULL;
}

enum status files_list(const struct files *files, const char *path, files_wants *wants,
                       const void *context, size_t count_max, size_t bytes_max,
                       struct files_names *names, struct error *error)
{
    struct listing listing = {.names = names};
    struct dirent *entry;
    *names = (struct files_names){0};
    DIR *folder = open_folder(files, path, error);
    while (folder && error->status == STATUS_OK && (errno = 0, entry = readdir(folder)) != NULL) {
        if (!is_wanted(folder, entry, wants, context, names))
            continue;
        if (names->count == count_max || listing.bytes > bytes_max)
            error_set(error, STATUS_INPUT_TOO_LARGE,
                      "the folder \"%.200s\" has more than %zu "
                      "files that match, or names of more than %zu bytes; use narrower patterns",
                      path, count_max, bytes_max);
        else if (!add(&listing, entry->d_name))
            error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the names in \"%.200s\"", path);
    }
    if (folder && error->status == STATUS_OK && errno != 0)
        error_set(error, STATUS_INPUT_UNREADABLE, "the folder \"%.200s\" cannot be read: %s", path,
                  strerror(errno));
    if (folder)
        closedir(folder);
    if (error->status == STATUS_OK && names->count > 0)
        qsort_r(names->offsets, names->count, sizeof *names->offsets, compare, names->text);
    return error->status;
}

void files_names_clear(struct files_names *names)
{
    free(names->text);
    free(names->offsets);
    *names = (struct files_names){0};
}
