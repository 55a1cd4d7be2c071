/*
 * ctl.h - gpuimgctl run against a world, by a shell, or on a terminal of our own.
 *
 * $GPUIMGCTL is the program. In a command line `ctl` stands for it, `$at` for the options that lead
 * it to the world, and the working folder is the world's. Options that only some commands know are
 * settings, which all take.
 */
#ifndef GPUIMGD_TESTS_TOOLS_CTL_H
#define GPUIMGD_TESTS_TOOLS_CTL_H

#include <sys/types.h>

#include "tests/tools/check.h"

struct ctl_run {
    int status;      /* of exit; 128 + signal */
    char *out, *err; /* malloc'd */
};

/* Runs a command line (printf's format) to its end; ctl_clear is due. */
struct ctl_run ctl_run(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ctl_clear(struct ctl_run *run);

/* The same; fails unless it ends with `status`, and its output and error hold the given texts,
 * which NULL ends. */
void ctl_expect(struct world *world, int status, const char *line, ...) __attribute__((sentinel));
/* The same, its output is JSON, one value a line: gives an array. */
cJSON *ctl_json(struct world *world, int status, const char *line);

/* A command line under way in the background: until ctl_end. */
struct process ctl_begin(struct world *world, const char *line);
struct ctl_run ctl_end(struct process *process);

/* A command line on a terminal of so many columns. What it shows is collected, by reading. */
struct ctl_terminal {
    pid_t pid;
    int fd;
    char text[1 << 17];
    size_t length;
    int status; /* once it has ended */
};

void ctl_open_terminal(struct ctl_terminal *terminal, struct world *world, int columns,
                       const char *line);
/* Reads until the text has been shown, or, text NULL, until the end; false: it was not in time. */
bool ctl_shows(struct ctl_terminal *terminal, const char *text);
void ctl_type(struct ctl_terminal *terminal, const char *keys);
/* Waits for the end and gives the exit status. Idempotent. */
int ctl_close_terminal(struct ctl_terminal *terminal);

#endif
