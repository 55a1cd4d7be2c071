/*
 * options.h - reads, checks and prints the configuration.
 *
 * Later sources override earlier ones: the defaults of options.def, the INI file, the *.conf files
 * of the conf.d folder beside it in the order of their names, and --name=value. Loop thread only;
 * jobs copy the values that workers need. Functions that fail return false and set error's text.
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

/* Copies the values of the reloadable options. Returns false, with the others copied, if memory is
 * short for one. */
bool options_follow(struct options *copy, const struct options *from,
                    struct error *error) MUST_CHECK;

bool options_has(const char *name);

bool options_set(struct options *options, const char *name, const char *value,
                 struct error *error) MUST_CHECK;

/* Reads the file, then conf.d. Options may be in no section or in [gpuimgd]. Waits for the writers
 * of pipes for `pipe_s` in all: CONF_PIPE_S, or 0 on a loop. Writes the path of each good file to
 * `paths`, one per line, unless it is NULL. Adds all errors, by file and line, and returns false if
 * there are any. Of several lines for one option the last one counts. */
bool options_load(struct options *options, const char *file, double pipe_s, FILE *paths,
                  struct errors *errors) MUST_CHECK;
/* The same for a file that may be missing. */
bool options_load_default(struct options *options, const char *file, double pipe_s, FILE *paths,
                          struct errors *errors) MUST_CHECK;

/* Checks values that are not numbers, and relations of options. Adds all errors. */
bool options_check(const struct options *options, struct errors *errors) MUST_CHECK;

/* Replaces "auto" of pinned_bytes and host_bytes. The engine resolves streams and device_bytes;
 * workers and inflight depend on the engine. memory_bytes, cpus: what the process may use. */
void options_resolve(struct options *options, uint64_t memory_bytes, uint64_t cpus);

/* What the process may use (daemon/machine.h), and the engine that it has opened. */
struct options_host {
    uint64_t memory_bytes, cpus;
    uint32_t others;         /* threads and processes that each need a CPU while workers are busy */
    uint32_t devices, slots; /* CUDA devices, and the streams of all of them (engine_slots) */
    uint32_t ahead;          /* jobs that are held at most in addition to `inflight` */
};

/* One worker per CPU, or fewer if options_memory_max would exceed the memory; at least one. Call
 * options_resolve first. */
void options_resolve_workers(struct options *options, const struct options_host *host);
/* One worker per CPU. With 8 CPUs or more, `others` get one each. */
uint64_t options_auto_workers(uint64_t cpus, uint32_t others);
void options_resolve_inflight(struct options *options, uint32_t slots);

/* The bound on resident memory by the formula in limits.h. Call options_resolve first. */
uint64_t options_memory_max(const struct options *options, const struct options_host *host);

/* The least limit of open files with which no job fails for want of a descriptor (limits.h). 0
 * workers count as one. */
uint64_t options_descriptors_min(const struct options *options, uint32_t devices);

/* Moves the reloadable options of `fresh` into `live` and logs each change at INFO. Logs at WARNING
 * the options that differ but need a restart. */
void options_adopt(struct options *live, struct options *fresh);

/* Print the table: for -h, as a commented sample file, and as the list in gpuimgd.conf(5). */
void options_print_help(FILE *out);
void options_print_sample(FILE *out);
void options_print_mdoc(FILE *out);
