/*
 * suffix.h - what the suffix of a file's name promises.
 */
#ifndef GPUIMGD_CONF_SUFFIX_H
#define GPUIMGD_CONF_SUFFIX_H

/* The suffix of a path, with its dot, if it is that of pictures which gpuimgd does not write, such
 * as ".gif"; else NULL. A name that promises nothing ("cat", "cat.v2") may hold anything. */
const char *suffix_of_others(const char *path);

#endif
