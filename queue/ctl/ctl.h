/* ctl.h - the interface between gpuimgctl's command line and its commands.
 *
 * gpuimgctl.c has a table with one row per command. A command gets its options and connects to the
 * shards of the queue (queue/redis/shard.h). It prints its output on standard output and messages
 * on standard error, and returns the exit status. One thread. */
#pragma once

#include <stdint.h>

#include <cjson/cJSON.h>

#include "conf/options.h"
#include "queue/ctl/client.h"

/* Exit statuses; those of sysexits.h keep their numbers. */
enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,          /* a job failed, or the requested item does not exist */
    CTL_USAGE = 64,
    CTL_NO_INPUT = 66,       /* a file cannot be read */
    CTL_UNAVAILABLE = 69,    /* Redis is away or refuses */
    CTL_FAULT = 70,          /* out of memory, or an unexpected reply */
    CTL_TIMEOUT = 75,
    CTL_CONFIGURATION = 78,
    CTL_INTERRUPTED = 130
};

#define CTL_VALUES_MAX 32

/* One option of a command: the parser and -h read this row. */
struct ctl_option {
    const char *name;  /* without dashes; NULL ends the table */
    char letter;       /* 0: none */
    const char *value; /* placeholder of its value in -h; NULL: no value */
    const char *help;  /* -h replaces @names@, @suffixes@ or @quality@ by a list from formats.def */
};

struct ctl;

typedef int ctl_run(struct ctl *ctl, int count, char **operands);

struct ctl_command {
    const char *name, *operands, *summary;
    const struct ctl_option *options; /* ends with a row without a name */
    const char *notes;                /* further text of -h; NULL: none */
    ctl_run *run;
};

/* --NAME=VALUE on the command line. */
struct ctl_setting {
    const char *name, *value;
};

/* A shard of the queue. With shards = 1 there is one. */
struct ctl_shard {
    uint32_t index;
    struct options options;            /* with its namespace and address */
    struct client *client;             /* NULL: the command does not use this shard */
    bool selected;                     /* the command uses this shard */
    bool away;                         /* Redis did not answer, and the user was told */
    char why[400];                     /* if away: the reason */
};

struct ctl {
    const struct ctl_command *command;
    struct options options;            /* the configuration */
    struct ctl_shard *shards;
    uint32_t shard_count;
    const char *file;                  /* -c, or NULL */
    int setting_count, value_count;
    struct ctl_setting settings[CTL_VALUES_MAX]; /* configuration options */
    struct ctl_setting values[CTL_VALUES_MAX];   /* options of the command */
    bool json;
    struct ctl_shard *shard;           /* the shard in use; NULL before ctl_connect */
    struct client *client;             /* of the shard in use */
    const char *ns;                    /* namespace of the shard in use */
};

/* ---- ctl.c ---- */

/* Prints "gpuimgctl: " and the message on standard error. Control characters become '?'. */
void ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Closes the connections and ends the program. */
_Noreturn void ctl_end(struct ctl *ctl, int status);
/* Prints the message, and which -h to read, and ends the program. */
_Noreturn void ctl_usage(struct ctl *ctl, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints that memory is short for `what`, and ends the program. */
_Noreturn void ctl_out_of_memory(struct ctl *ctl, const char *what);

/* The value of an option on the command line; the last one wins. "" if the option takes no value,
 * NULL if it was not given. */
const char *ctl_value(const struct ctl *ctl, const char *name);

/* The functions below end the program after an error. */

/* Returns the value of an option that must be a number from `least` to `most`; `standard` if the
 * option is absent. */
double ctl_number(struct ctl *ctl, const char *name, double least, double most, double standard);
/* The same for an integer. `most` is at most 1e15, so that a double holds it exactly. */
long long ctl_whole(struct ctl *ctl, const char *name, double least, double most, double standard);
/* Prints one line of JSON on standard output and frees the tree. NULL means out of memory. */
void ctl_print_json(struct ctl *ctl, cJSON *json);
/* Prints JSON text on one line. If it is valid JSON on one line, it is printed unchanged, so that
 * numbers keep their digits. Other text is parsed and printed by cJSON. */
void ctl_print_text(struct ctl *ctl, const char *text);

/* ---- shards.c ---- */

/* Fills ctl->shards from ctl->options; ctl_end frees them. */
bool ctl_open_shards(struct ctl *ctl, struct error *error) MUST_CHECK;
static inline bool ctl_is_sharded(const struct ctl *ctl)
{
    return ctl->shard_count > 1;
}

/* Connects to all shards, or only to the shard that --shard names. Reports each shard that is away.
 * Ends the program if all are; else the first shard that answers is then in use. */
void ctl_connect(struct ctl *ctl);
/* The same for the shards of these job ids. */
void ctl_connect_for(struct ctl *ctl, int count, char **ids);
/* Returns the index of the shard that --shard names or, without --shard, of the shard of this id.
 */
uint32_t ctl_shard_of(struct ctl *ctl, const char *id);

/* Puts a shard in use. Returns false if it is away. */
bool ctl_use(struct ctl *ctl, uint32_t index);
/* Puts the next shard in use that is selected and not away; returns false if there is none. For
 * loops: for (uint32_t at = 0; ctl_next(ctl, &at);) */
bool ctl_next(struct ctl *ctl, uint32_t *at);
/* Marks the shard in use as away, and prints the reason (client_why). Ends the program if all
 * shards are away. */
void ctl_lose(struct ctl *ctl);
/* Prints why the last command to the shard in use failed, and ends the program. */
_Noreturn void ctl_no_answer(struct ctl *ctl);
/* Returns the exit status of a command: `status`, or CTL_UNAVAILABLE if that is larger and a shard
 * is away. */
int ctl_worst(const struct ctl *ctl, int status);

/* With several shards, adds the index of the shard in use as the member "shard". */
void ctl_add_shard(const struct ctl *ctl, cJSON *json);
/* With several shards, adds a row to the array `rows` for each shard that is away, with the reason,
 * and makes `rows` the member "shards". With one shard, deletes `rows`. */
void ctl_add_rows(const struct ctl *ctl, cJSON *json, cJSON *rows);
/* Writes the index of the shard in use with a printf format, for example "shard %u: "; writes ""
 * with one shard. Returns `text`. */
const char *ctl_shard_text(const struct ctl *ctl, const char *format, char text[32]);

/* Sends a command to the shard in use (client_ask). Returns NULL if the shard is away, after
 * ctl_lose; with one shard ctl_lose ends the program instead. */
redisReply *ctl_ask(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the integer reply to `command` with the key NS:KEY; 0 if the shard is away. */
long long ctl_integer(struct ctl *ctl, const char *command, const char *key);

/* ---- the commands: gpuimgctl.c lists them ---- */

ctl_run ctl_submit, ctl_result, ctl_results, ctl_status, ctl_top, ctl_dead, ctl_cancel, ctl_pause,
    ctl_resume, ctl_drain, ctl_explain;
extern const struct ctl_option ctl_submit_options[], ctl_result_options[], ctl_results_options[],
    ctl_top_options[], ctl_dead_options[], ctl_pause_options[], ctl_drain_options[];
