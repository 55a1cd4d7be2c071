/*
 * options.h - the configuration: one table (options.def), three sources.
 *
 * Defaults, then the INI file and the conf.d folder beside it in the order of their names, then
 * --name=value. Loop thread only; the daemon copies into each job what workers need. Functions
 * that fail return false with a sentence in `error` (its status has no meaning here).
 */
#ifndef GPUIMGD_CONF_OPTIONS_H
#define GPUIMGD_CONF_OPTIONS_H

#include <stdbool.h>
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

/* Fills in the defaults; *options is overwritten. options_clear is due in any case. */
bool options_init(struct options *options, struct error *error) MUST_CHECK;
void options_clear(struct options *options); /* idempotent */

bool options_has(const char *name);

/* Sets one option from text, checking its range. */
bool options_set(struct options *options, const char *name, const char *value,
                 struct error *error) MUST_CHECK;

/* Reads FILE, then FILE's folder/conf.d/ *.conf. Keys may stand in no section or in [gpuimgd].
 * paths: gets the path of each file that was read, a line each; NULL for nobody. */
bool options_load(struct options *options, const char *file, FILE *paths,
                  struct error *error) MUST_CHECK;

/* Checks what no single row can: choices and relations between options. */
bool options_check(const struct options *options, struct error *error) MUST_CHECK;

/* Replaces "auto" by what this machine calls for. Left alone: device_bytes, which the engine
 * knows best, and inflight, which depends on the engine's slots (options_resolve_inflight). */
void options_resolve(struct options *options);
void options_resolve_inflight(struct options *options, uint32_t slots);

/* Moves the reloadable options of `fresh` into `live` and says at INFO what changed; names at
 * WARNING those that differ and need a restart. */
void options_adopt(struct options *live, struct options *fresh);

/* The table as text: for -h, as a commented sample file, and as the list in gpuimgd.conf(5). */
void options_print_help(FILE *out);
void options_print_sample(FILE *out);
void options_print_mdoc(FILE *out);

#endif
