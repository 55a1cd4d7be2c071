/* ctl.h - the interface between gpuimgctl's command line and its commands.
 *
 * A command has a row in a table, its options and a connection to each shard. It prints its output
 * on standard output and messages on standard error, and returns the exit status. One thread. */
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

/* One option of a command. The parser, -h and the completion test read this row. */
struct ctl_option {
    const char *name;  /* without dashes; NULL ends the table */
    char letter;       /* 0: none */
    const char *value; /* placeholder of its value in -h; NULL: no value */
    const char *help;  /* may hold one of @names@, @suffixes@ and @quality@, from formats.def */
};

struct ctl;

typedef int ctl_run(struct ctl *ctl, int count, char **operands);

struct ctl_command {
    const char *name, *operands, *summary;
    const struct ctl_option *options; /* ends with a row without a name */
    const char *notes;                /* further text of -h; NULL: none */
    ctl_run *run;
};

struct ctl_setting {
    const char *name, *value;
};

/* A shard of the queue. With shards = 1 there is one, with the options of the configuration. */
struct ctl_shard {
    uint32_t index;
    struct options options;            /* with its namespace and address */
    struct client *client;             /* NULL: the command does not use this shard */
    bool selected, away;               /* away: Redis did not answer, and the user was told */
    char why[400];                     /* if away */
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
    struct client *client;             /* the next two: of the shard in use */
    const char *ns;
};

/* ---- ctl.c ---- */

/* Prints "gpuimgctl: " and the message on standard error. Control characters become '?'. */
void ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Closes the connections and ends the program. */
_Noreturn void ctl_end(struct ctl *ctl, int status);
/* These print an error and end the program: a message with a pointer to -h, or that memory is
 * short. */
_Noreturn void ctl_usage(struct ctl *ctl, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void ctl_out_of_memory(struct ctl *ctl, const char *what);

/* The value of an option on the command line; the last one wins. "" if the option takes no value,
 * NULL if it was not given. */
const char *ctl_value(const struct ctl *ctl, const char *name);

/* The functions below end the program after an error. */

/* An option that is a number from `least` to `most`; `standard` if it is absent. */
double ctl_number(struct ctl *ctl, const char *name, double least, double most, double standard);
/* The same for an integer; all numbers are within 1e15 and so are exact. */
long long ctl_whole(struct ctl *ctl, const char *name, double least, double most, double standard);
/* Prints one line of JSON on standard output and frees the tree. NULL means out of memory. */
void ctl_print_json(struct ctl *ctl, cJSON *json);
/* Prints JSON text on one line. Valid JSON is printed unchanged, so that numbers keep their digits.
 * Other text is printed as cJSON understood it. */
void ctl_print_text(struct ctl *ctl, const char *text);

/* ---- shards.c ---- */

/* Makes `shards` from `options`; ctl_end frees them. */
bool ctl_open_shards(struct ctl *ctl, struct error *error) MUST_CHECK;
static inline bool ctl_is_sharded(const struct ctl *ctl)
{
    return ctl->shard_count > 1;
}

/* Connects to all shards, or to that of --shard. Reports those that are away. Ends the program if
 * none is left. Then the first of the others is in use. */
void ctl_connect(struct ctl *ctl);
/* The same for the shards of these ids. */
void ctl_connect_for(struct ctl *ctl, int count, char **ids);
/* The index of the shard of an id, or that of --shard. */
uint32_t ctl_shard_of(struct ctl *ctl, const char *id);

/* Uses a shard. Returns false if it is away. */
bool ctl_use(struct ctl *ctl, uint32_t index);
/* Uses the next shard that is connected and not away: for (uint32_t at = 0; ctl_next(ctl, &at);) */
bool ctl_next(struct ctl *ctl, uint32_t *at);
/* Marks the shard in use as away, and reports it with the reason of client_why. Ends the program if
 * none is left. */
void ctl_lose(struct ctl *ctl);
/* Prints why the last command to the shard in use failed, and ends the program. */
_Noreturn void ctl_no_answer(struct ctl *ctl);
/* The exit status of a command: not less than CTL_UNAVAILABLE if a shard is away. */
int ctl_worst(const struct ctl *ctl, int status);

/* With several shards, adds the shard in use as a member: "shard". */
void ctl_add_shard(const struct ctl *ctl, cJSON *json);
/* With several shards, moves the array `rows` to a member: "shards". Adds a row for each shard that
 * is away, with the reason. With one shard, deletes `rows`. */
void ctl_add_rows(const struct ctl *ctl, cJSON *json, cJSON *rows);
/* " of shard 2" or the like; "" with one shard. The text is the format of a number. */
const char *ctl_shard_text(const struct ctl *ctl, const char *format, char text[32]);

/* client_ask on the shard in use. Returns NULL if the shard is away (ctl_lose); never with one
 * shard. */
redisReply *ctl_ask(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The integer reply to a command with the key NS:KEY. 0 if the shard is away. */
long long ctl_integer(struct ctl *ctl, const char *command, const char *key);

/* ---- the commands, each in a file of its name or with its group ---- */

ctl_run ctl_submit, ctl_result, ctl_results, ctl_status, ctl_top, ctl_dead, ctl_cancel, ctl_pause,
    ctl_resume, ctl_drain, ctl_explain;
extern const struct ctl_option ctl_submit_options[], ctl_result_options[], ctl_results_options[],
    ctl_top_options[], ctl_dead_options[], ctl_pause_options[], ctl_drain_options[];
