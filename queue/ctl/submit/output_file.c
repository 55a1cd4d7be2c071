#include "queue/ctl/submit/output_file.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/replace.h"

#define NAME_BYTES 48

/* ---- names --------------------------------------------------------------------------------- */

struct name {
    const char *name, *image; /* in `text` */
    char text[];
};

static int order(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->name, ((const struct name *)b)->name);
}

const char *output_names_find(const struct output_names *names, const char *name)
{
    const struct name key = {.name = name};
    struct name *const *found = tfind(&key, &names->tree, order);
    return found ? (*found)->image : NULL;
}

bool output_names_add(struct output_names *names, const char *name, const char *image)
{
    size_t length = strlen(name) + 1, bytes = length + strlen(image) + 1;
    if (names->count == OUTPUT_NAMES_MAX || names->bytes + bytes > OUTPUT_NAMES_BYTES_MAX)
        return false; /* uncovered: gone */
    struct name *added = malloc(sizeof *added + bytes);
    if (!added) /* uncovered: gone */
        return false;
    added->name = memcpy(added->text, name, length);
    added->image = strcpy(added->text + length, image);
    struct name *const *at = tsearch(added, &names->tree, order);
    if (!at || *at != added) { /* memory is short, or the map has the name */
        free(added);
        return at != NULL;
    }
    names->bytes += bytes;
    names->count++;
    return true;
}

void output_names_clear(struct output_names *names)
{
    tdestroy(names->tree, free);
    *names = (struct output_names){0};
}

/* ---- rules --------------------------------------------------------------------------------- */

/* Writes "device:inode" of the file, its name in output_file_rules.inputs. */
static bool name_file(const char *path, char name[NAME_BYTES])
{
    struct stat about;
    if (stat(path, &about) != 0)
        return false;
    snprintf(name, NAME_BYTES, "%llx:%llx", (unsigned long long)about.st_dev,
             (unsigned long long)about.st_ino);
    return true;
}

void output_file_add_input(struct output_file_rules *rules, const char *path)
{
    char name[NAME_BYTES];
    if (name_file(path, name))
        output_names_add(&rules->inputs, name, path);
}

const char *output_file_input(const struct output_file_rules *rules, const char *path)
{
    char name[NAME_BYTES];
    return name_file(path, name) ? output_names_find(&rules->inputs, name) : NULL;
}

bool output_file_check(const struct output_file_rules *rules, const char *path, struct error *error)
{
    struct stat about;
    const char *input = output_file_input(rules, path);
    if (input)
        error_set(error, STATUS_PATH_REFUSED, "%.120s is the input image %.120s, which a result "
                  "must not replace; choose another --out", path, input);
    else if (!rules->force && lstat(path, &about) == 0)
        error_set(error, STATUS_PATH_REFUSED, "%.200s exists; --force replaces it", path);
    return error->status == STATUS_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void make_parents(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *at = folder + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(folder, 0777); /* errors show when the file is created */
        *at = '/';
    }
}

static mode_t mode_of_new_files(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

bool output_file_write(const struct output_file_rules *rules, const char *path, const char *bytes,
                       size_t length, struct error *error)
{
    if (!output_file_check(rules, path, error))
        return false;
    make_parents(path);
    int reason = replace_file(path, bytes, length, mode_of_new_files(), rules->force);
    if (reason == EEXIST)
        error_set(error, STATUS_PATH_REFUSED, "%.200s exists; --force replaces it", path);
    else if (reason)
        error_set(error, STATUS_WRITE_FAILED, "%.200s: %s", path, strerror(reason));
    return !reason;
}
