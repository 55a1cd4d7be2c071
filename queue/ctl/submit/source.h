/*
 * source.h - the pictures that a command line names: files, folders, names on standard input.
 *
 * They are given one by one, so that a million of them need no memory; those of a folder in the
 * order in which the filesystem has them.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_SOURCE_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct source_options {
    char **names;
    int count;
    bool recursive;
    bool nul;                /* names on standard input end in NUL, not in a line break */
    const char *input_root;  /* a relative name that is not here is looked for there; or NULL */
};

struct source_file {
    const char *path;   /* to open; until the next call */
    const char *within; /* the folders between the folder that was named and the file: "", "a/b/" */
};

struct source;

enum source_step {
    SOURCE_FILE,
    SOURCE_BAD,  /* source_why says what is wrong with a name; the next one may be good */
    SOURCE_END   /* there is none, or, where source_ready says no, none yet */
};

struct source *source_open(const struct source_options *options);
void source_close(struct source *source); /* NULL is fine */
enum source_step source_next(struct source *source, struct source_file *file);
const char *source_why(const struct source *source);
/* Would source_next come back at once? Not where standard input has nothing yet. */
bool source_ready(const struct source *source);
/* Files in folders that were left out because of their suffix. */
uint64_t source_left_out(const struct source *source);

/* The suffix of a name, without the dot; "" where there is none. */
const char *source_suffix(const char *name);

#endif
