#include "queue/ctl/submit/source.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/format.h"
#include "conf/text.h"

static void leave(struct source *source)
{
    struct source_folder *folder = &source->folders[--source->depth];
    while (folder->count > 0)
        free(folder->entries[--folder->count]);
    free(folder->entries);
}

void source_close(struct source *source)
{
    while (source->depth > 0) /* uncovered: slip */
        leave(source);
}

const char *source_suffix(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    return dot && dot > base ? dot + 1 : "";
}

bool source_is_url(const char *name)
{
    return strncasecmp(name, "https://", 8) == 0 || strncasecmp(name, "http://", 7) == 0;
}

static enum source_result bad(struct source *source, const char *name, const char *what)
{
    snprintf(source->why, sizeof source->why, "%s: %s", name, what);
    return SOURCE_BAD;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int compare(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

/* Opens the folder at source->path, which ends with a slash and has `length` bytes. */
static enum source_result enter(struct source *source, size_t length)
{
    struct source_folder folder = {.count = -1, .length = length};
    if (source->depth == SOURCE_DEPTH_MAX) /* uncovered: slip */
        errno = ELOOP;
    else
        folder.count = scandir(source->path, &folder.entries, is_shown, compare);
    if (folder.count < 0) /* uncovered: slip */
        return bad(source, source->path, strerror(errno));
    source->folders[source->depth++] = folder;
    return SOURCE_END;
}

static enum source_result give(struct source *source, struct source_file *file)
{
    const char *slash = strrchr(source->path, '/');
    size_t length = source->base > 0 && slash ? (size_t)(slash + 1 - source->path) : 0;
    length = length > source->base ? length - source->base : 0;
    memcpy(source->within, source->path + source->base, length);
    source->within[length] = '\0';
    *file = (struct source_file){source->path, source->path, false, source->within};
    return SOURCE_FILE;
}

static enum source_result give_url(struct source *source, struct source_file *file)
{
    *source->within = '\0';
    text_copy_url(source->shown, sizeof source->shown, source->path);
    *file = (struct source_file){source->path, source->shown, true, source->within};
    return SOURCE_FILE;
}

/* Whether a file in a folder is sent. */
static bool is_wanted(const struct source *source, const char *name)
{
    const char *suffix = source_suffix(name);
    return source->options.archives
               ? strcasecmp(suffix, "tar") == 0 || strcasecmp(suffix, "zip") == 0
               : format_reads_suffix(suffix);
}

/* Takes one entry of the innermost open folder. SOURCE_END: it is not an image; call again. */
static enum source_result walk(struct source *source, struct source_file *file)
{
    struct source_folder *folder = &source->folders[source->depth - 1];
    size_t length = folder->length;
    struct stat about;
    if (folder->next == folder->count) {
        leave(source);
        return SOURCE_END;
    }
    const char *entry = folder->entries[folder->next++]->d_name;
    size_t name = strlen(entry);
    if (length + name + 2 > sizeof source->path) /* uncovered: slip */
        return bad(source, entry, "the path is too long");
    memcpy(source->path + length, entry, name + 1);
    if (lstat(source->path, &about) != 0) /* uncovered: slip */
        return bad(source, source->path, strerror(errno));
    if (S_ISDIR(about.st_mode)) {
        strcpy(source->path + length + name, "/");
        return enter(source, length + name + 1);
    }
    if (S_ISREG(about.st_mode) && is_wanted(source, entry))
        return give(source, file);
    source->left_out += S_ISREG(about.st_mode);
    source->special += !S_ISREG(about.st_mode);
    return SOURCE_END;
}

/* Starts with a name from the command line or standard input: relative to the current folder, or
 * else below input_root. */
static enum source_result begin(struct source *source, const char *name, struct source_file *file)
{
    struct stat about;
    const char *root = source->options.input_root;
    source->base = 0;
    if (strlen(name) + 2 > sizeof source->path) /* uncovered: slip */
        return bad(source, "a name", "the path is too long");
    strcpy(source->path, name);
    if (source_is_url(name))
        return give_url(source, file);
    if (stat(name, &about) != 0) {
        int reason = errno;
        int length = root && *name != '/'
                         ? snprintf(source->path, sizeof source->path, "%s/%s", root, name)
                         : 0;
        if (length <= 0 || (size_t)length + 2 > sizeof source->path ||
            stat(source->path, &about) != 0)
            return bad(source, name, strerror(reason));
    }
    if (S_ISREG(about.st_mode))
        return give(source, file);
    if (!S_ISDIR(about.st_mode)) /* uncovered: slip */
        return bad(source, name, "neither a file nor a folder");
    if (!source->options.recursive)
        return bad(source, name,
                   source->options.archives ? "is a folder; -r sends the archives in it"
                                            : "is a folder; -r sends the images in it");
    size_t length = strlen(source->path);
    if (source->path[length - 1] != '/')
        strcpy(source->path + length++, "/");
    source->base = length;
    return enter(source, length);
}

static char *find_end(const struct source *source)
{
    return memchr(source->input + source->from, source->options.nul ? '\0' : '\n',
                  source->to - source->from);
}

bool source_ready(const struct source *source)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return source->depth > 0 || !source->reading || source->at_end || find_end(source) ||
           poll(&input, 1, 0) != 0;
}

/* Reads more of standard input. The buffer holds no complete name yet. */
static enum source_result read_more(struct source *source)
{
    memmove(source->input, source->input + source->from, source->to - source->from);
    source->to -= source->from;
    source->from = 0;
    if (source->to + 1 >= sizeof source->input) { /* uncovered: slip */
        source->reading = false;
        return bad(source, "standard input", "a name is too long");
    }
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    ssize_t got = poll(&input, 1, -1); /* a signal ends poll, but not read */
    if (got > 0)
        got = read(STDIN_FILENO, source->input + source->to,
                   sizeof source->input - 1 - source->to);
    if (got > 0)
        source->to += (size_t)got;
    else if (got == 0)
        source->at_end = true;
    else if (errno != EINTR && errno != EAGAIN) { /* uncovered: slip */
        source->reading = false;
        return bad(source, "standard input", strerror(errno));
    }
    return SOURCE_END;
}

static enum source_result read_name(struct source *source, struct source_file *file)
{
    char *name = source->input + source->from, *end = find_end(source);
    if (!end && !source->at_end)
        return read_more(source);
    if (!end) { /* the last name may have no line break */
        end = source->input + source->to;
        source->reading = false;
    }
    *end = '\0';
    source->from = (size_t)(end - source->input) + source->reading;
    return *name ? begin(source, name, file) : SOURCE_END;
}

enum source_result source_next(struct source *source, struct source_file *file)
{
    for (;;) {
        enum source_result found = SOURCE_END;
        if (source->depth > 0) {
            found = walk(source, file);
        } else if (source->reading) {
            found = read_name(source, file);
        } else if (source->next < source->options.count) {
            const char *name = source->options.names[source->next++];
            source->reading = strcmp(name, "-") == 0;
            if (!source->reading)
                found = begin(source, name, file);
        } else {
            return SOURCE_END;
        }
        if (found != SOURCE_END || !source_ready(source))
            return found;
    }
}
