/*
 * source.h - iterates over the images on a command line: files, folders, names on standard input.
 *
 * It yields one image at a time, so a million images need no memory. The images of a folder come in
 * the order of the filesystem. One thread.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_SOURCE_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct source_options {
    char **names;
    int count;
    bool recursive;
    bool nul;                /* names on standard input end with NUL, not with a line break */
    const char *input_root;  /* searched for relative names that do not exist here; or NULL */
};

struct source_file {
    const char *path;   /* to open; valid until the next call */
    const char *within; /* folders between the one on the command line and the file: "", "a/b/" */
};

struct source;

enum source_step {
    SOURCE_FILE,
    SOURCE_BAD,  /* a name is wrong: see source_why; the next one may be good */
    SOURCE_END   /* no more images; if source_ready is false, none yet */
};

/* The names must outlive the source. NULL: out of memory. */
struct source *source_open(const struct source_options *options);
void source_close(struct source *source); /* NULL is fine */
/* Fills in `file` for SOURCE_FILE. May wait for standard input. */
enum source_step source_next(struct source *source, struct source_file *file);
/* The error of the last SOURCE_BAD. */
const char *source_why(const struct source *source);
/* Returns false if source_next would have to wait for standard input. */
bool source_ready(const struct source *source);
/* The number of files in folders that were skipped because of their suffix. */
uint64_t source_left_out(const struct source *source);

/* The suffix of a name, without the dot; "" if there is none. */
const char *source_suffix(const char *name);

#endif
