/* source.h - iterates over the images that a command line names: files, folders, URLs, and names on
 * standard input.
 *
 * It returns one image at a time. The files and subfolders of a folder come in the order of the
 * bytes of their names, which it keeps in memory meanwhile. One thread. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The names must outlive the source. */
struct source_options {
    char **names;
    int count;
    bool recursive;
    bool archives;           /* folders are searched for archives, not for images */
    bool nul;                /* names on standard input end with NUL, not with a line break */
    const char *input_root;  /* searched for relative names that do not exist here; or NULL */
};

struct source_file {
    const char *path;   /* to open, or the URL; valid until the next call */
    const char *name;   /* for messages: the path, or the URL without its query */
    bool is_url;
    const char *within; /* folders between the named folder and the file: "", "a/b/" */
};

/* The deepest nesting of folders. It also ends an endless loop of mounts. */
#define SOURCE_DEPTH_MAX 64

struct dirent;

/* An open folder. `next` is the index of the entry to read next. */
struct source_folder {
    struct dirent **entries;
    int count, next;
    size_t length; /* of source->path up to it, with its slash */
};

/* All zero at the start, except `options`. */
struct source {
    struct source_options options;
    uint64_t left_out;        /* files in folders that were skipped because of their suffix */
    uint64_t special;         /* the same because they are links or special files */
    char why[PATH_MAX + 200]; /* the error of the last SOURCE_BAD */
    /* The rest is private. */
    int next;                 /* index of the next name */
    char path[PATH_MAX];
    size_t base;                            /* length of the named folder, with its slash */
    char within[PATH_MAX], shown[PATH_MAX]; /* texts of source_file.within and .name */
    struct source_folder folders[SOURCE_DEPTH_MAX];
    size_t depth;
    bool reading, at_end;     /* standard input */
    char input[4 * PATH_MAX]; /* unread part of standard input: from..to */
    size_t from, to;
};

enum source_result {
    SOURCE_FILE,
    SOURCE_BAD, /* this name is wrong; `why` says why. The next one may be good */
    SOURCE_END  /* there are no more images or, if source_ready is false, none yet */
};

/* Fills in `file` for SOURCE_FILE. May wait for standard input. */
enum source_result source_next(struct source *source, struct source_file *file);
/* Returns false if source_next would have to wait for standard input. */
bool source_ready(const struct source *source);
void source_close(struct source *source); /* idempotent */

/* Returns the suffix of a name, without the dot; "" if there is none. */
const char *source_suffix(const char *name);
/* Whether a name is a URL. */
bool source_is_url(const char *name);
