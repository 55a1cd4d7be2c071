/*
 * options.h - reads, checks and prints the configuration.
 *
 * Options come from these sources; later ones override earlier ones: the defaults of options.def;
 * the INI file; the *.conf files in the folder conf.d beside it, in the order of their names;
 * --name=value. Loop thread only; jobs copy the values that workers need. Functions that fail
 * return false and set the text of `error`.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "conf/errors.h"
#include "conf/status.h"

#define OPTION_TYPE_TEXT    char *
#define OPTION_TYPE_SECONDS double
#define OPTION_TYPE_COUNT   uint64_t
#define OPTION_TYPE_BYTES   uint64_t
#define OPTION_TYPE_BOOL    bool

struct options {
#define OPTION(kind, name, standard, min, max, reload, help) OPTION_TYPE_##kind name;
#include "conf/options.def"
#undef OPTION
};

/* Sets all options to their defaults. Call options_clear in any case. */
bool options_init(struct options *options, struct error *error) MUST_CHECK;
void options_clear(struct options *options); /* idempotent */
/* Copies all values. `copy` may be uninitialized. Call options_clear in any case. */
bool options_copy(struct options *copy, const struct options *from,
                  struct error *error) MUST_CHECK;

/* Copies the values of the reloadable options. If memory is short for a value, keeps the old one,
 * copies the others, and returns false. */
bool options_follow(struct options *copy, const struct options *from,
                    struct error *error) MUST_CHECK;

/* Whether there is an option with this name. */
bool options_has(const char *name);

/* Parses a value and sets the option. */
bool options_set(struct options *options, const char *name, const char *value,
                 struct error *error) MUST_CHECK;

/* Reads the file, then those of conf.d. Options may be in no section or in [gpuimgd]; of several
 * lines for one option the last one counts. If a file is a pipe, waits for its data, at most pipe_s
 * seconds in all: CONF_PIPE_S, or 0 on a loop. Writes the path of each file without an error to
 * `paths`, one per line, unless `paths` is NULL. Adds all errors, with file and line, and returns
 * false if there are any. */
bool options_load(struct options *options, const char *file, double pipe_s, FILE *paths,
                  struct errors *errors) MUST_CHECK;
/* The same, but the file may be missing. */
bool options_load_default(struct options *options, const char *file, double pipe_s, FILE *paths,
                          struct errors *errors) MUST_CHECK;

/* Checks values that are not numbers, and options that depend on each other. Adds all errors. */
bool options_check(const struct options *options, struct errors *errors) MUST_CHECK;

/* Replaces "auto" of pinned_bytes and host_bytes by numbers. The engine does so for streams and
 * device_bytes, and the next two functions for workers and inflight, which depend on the engine.
 * memory_bytes, cpus: of the host, as far as the process may use them. */
void options_resolve(struct options *options, uint64_t memory_bytes, uint64_t cpus);

/* The host, as far as the process may use it (daemon/machine.h), and the engine that it has opened.
 */
struct options_host {
    uint64_t memory_bytes, cpus;
    uint32_t others;         /* threads and processes that each need a CPU while workers are busy */
    uint32_t devices, slots; /* CUDA devices, and the number of streams of all devices */
    uint32_t ahead;          /* the most jobs that are held in addition to `inflight` */
};

/* Replaces "auto" of workers: one worker per CPU, or fewer if options_memory_max would exceed the
 * memory, but at least one. Call options_resolve first. Returns the number of workers that have no
 * CPU of their own while `others` are busy, and pause then (workers_leave_cpus); none with fewer
 * than 8 CPUs, or if `workers` is a number. */
uint32_t options_resolve_workers(struct options *options, const struct options_host *host);
/* Replaces "auto" of inflight. */
void options_resolve_inflight(struct options *options, uint32_t slots);

/* The least host_bytes, in MiB, whose share part / parts has this many bytes: for messages. */
uint64_t options_host_mib(uint64_t bytes, uint64_t part, uint64_t parts);

/* Returns how many jobs with many images run at once. Beside devices, workers only read and write
 * for them, and at times some of these jobs have no image that can be written next. */
uint32_t options_sets(const struct options *options, bool has_devices);

/* Returns the bound on resident memory, by the formula in limits.h. Call options_resolve first. */
uint64_t options_memory_max(const struct options *options, const struct options_host *host);

/* Returns the least limit of open files (RLIMIT_NOFILE) with which no job fails because descriptors
 * are short. 0 workers, which means auto, count as one. */
uint64_t options_descriptors_min(const struct options *options, uint32_t devices);

/* Moves the reloadable options of `fresh` into `live`, and logs each change. Logs a warning for
 * each other option that differs: it needs a restart. */
void options_adopt(struct options *live, struct options *fresh);

/* Print all options: for -h, as a commented sample file, and as the list in gpuimgd.conf(5). */
void options_print_help(FILE *out);
void options_print_sample(FILE *out);
void options_print_mdoc(FILE *out);
