/*
 * options.h - reads, checks and prints the configuration.
 *
 * The table options.def declares all options. Later sources override earlier ones: the defaults,
 * the INI file, the files of the conf.d folder beside it in the order of their names, and
 * --name=value. Loop thread only; the daemon copies the values that workers need into each job.
 * Functions that fail return false and set `error` (only its text has a meaning here).
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

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

bool options_has(const char *name);

bool options_set(struct options *options, const char *name, const char *value,
                 struct error *error) MUST_CHECK;

/* Reads the file, then the *.conf files of conf.d in the same folder. Options may be in no section
 * or in [gpuimgd]. Writes the path of each file that was read to `paths`, one per line; NULL: does
 * not. */
bool options_load(struct options *options, const char *file, FILE *paths,
                  struct error *error) MUST_CHECK;

bool options_check(const struct options *options, struct error *error) MUST_CHECK;

/* Replaces "auto" by values for this machine, except device_bytes, which the engine resolves, and
 * inflight, which depends on the engine's slots (options_resolve_inflight). */
void options_resolve(struct options *options);
void options_resolve_inflight(struct options *options, uint32_t slots);

/* Moves the reloadable options of `fresh` into `live` and logs each change at INFO. Logs at WARNING
 * the options that differ but need a restart. */
void options_adopt(struct options *live, struct options *fresh);

/* Print the table: for -h, as a commented sample file, and as the list in gpuimgd.conf(5). */
void options_print_help(FILE *out);
void options_print_sample(FILE *out);
void options_print_mdoc(FILE *out);
