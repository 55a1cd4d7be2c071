/* member_name.h - names of the images of a job with many inputs: patterns choose images by their
 * names, and templates of outputs are filled in with them. Any thread.
 *
 * In a template, %p is the name of the input without its suffix, %n its index with at least six
 * digits, and %% a percent sign. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/job/job.h"

/* Whether one of the patterns matches the whole name: `*` matches any bytes, `?` one byte.
 * Without patterns: whether the name has the suffix of a format that is read. Takes one
 * step per byte of the name and pattern. A pattern has at most JOB_PATTERN_BYTES_MAX bytes. */
bool member_matches(const char *name, const char *const *patterns, size_t count);

/* Returns how many bytes of a name precede the last suffix of its last part: 5 of "a.seg.png". A
 * name without a suffix counts whole, also ".png" and "a.b/c". */
size_t member_stem(const char *name);

/* Returns the name of an image of a list: its path; its key after "NS:img:"; the last part of its
 * URL's path, which may be empty. */
const char *member_of_place(const struct job_place *place, const char *ns,
                            char text[JOB_URL_BYTES_MAX + 1]);

/* Writes the path of a file in a folder below input_root; "." is input_root itself. Returns the
 * number of bytes that it has, without the NUL, as snprintf. */
int member_of_folder(char *text, size_t size, const char *folder, const char *name);

/* Fills in a template. stem: the name without its suffix. Returns the number of bytes, without the
 * NUL, or -1 if `size` bytes do not hold the text. */
int member_expand(char *text, size_t size, const char *pattern, const char *stem, uint64_t index);

/* Writes a stem as a part of a URL: percent-encodes all bytes but letters, digits and "-._~/".
 * Returns the number of bytes, or -1 if `size` bytes do not hold the text. The stem of an input
 * that is a URL is encoded already. */
int member_encode(char *text, size_t size, const char *stem);

/* Makes the place of an image from the template of an output, and checks it. name: of the image,
 * with its suffix; is_url: it is a part of a URL. *place points into `text`. The daemon checks more
 * of a URL. Errors: path_refused, out_of_memory. */
enum status member_output(const struct job_place *template, const char *name, bool is_url,
                          uint64_t index, const char *ns, char text[JOB_URL_BYTES_MAX + 1],
                          struct job_place *place, struct error *error) MUST_CHECK;

/* Returns the first `%` of a template that is not %p, %n or %%, or NULL. *names: whether the
 * template has %p or %n. */
const char *member_template_fault(const char *pattern, bool *names);
/* Whether a template gives different names to all images: it has %n, and characters that are no
 * digits separate each %n from each %p. */
bool member_names_differ(const char *pattern);
/* Whether no name can come from both templates: they differ before the first % of either. */
bool member_templates_part(const char *one, const char *other);
