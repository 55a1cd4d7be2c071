/* ctl.h - the interface between gpuimgctl's command line and its commands.
 *
 * A command has a row in a table, its options and a connection to Redis. It prints its output on
 * standard output and messages on standard error, and returns the exit status. One thread. */
#pragma once

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

struct ctl {
    const struct ctl_command *command;
    struct options options;            /* the configuration */
    const char *file;                  /* -c, or NULL */
    int setting_count, value_count;
    struct ctl_setting settings[CTL_VALUES_MAX]; /* configuration options */
    struct ctl_setting values[CTL_VALUES_MAX];   /* options of the command */
    bool json;
    struct client *client;             /* set by ctl_connect */
};

/* Ends with a row without a name. */
extern const struct ctl_command ctl_commands[];

/* The value of an option on the command line; the last one wins. "" if the option takes no value,
 * NULL if it was not given. */
const char *ctl_value(const struct ctl *ctl, const char *name);

/* Prints "gpuimgctl: " and the message on standard error. Control characters become '?'. */
void ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Closes the connection and ends the program. */
_Noreturn void ctl_end(struct ctl *ctl, int status);
/* These print an error and end the program: a message with a pointer to -h, why the last command to
 * Redis failed, or that memory is short. */
_Noreturn void ctl_usage(struct ctl *ctl, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void ctl_no_answer(struct ctl *ctl);
_Noreturn void ctl_out_of_memory(struct ctl *ctl, const char *what);

/* The functions below end the program after an error. */

/* Connects to Redis and sets `client`. */
void ctl_connect(struct ctl *ctl);
/* client_ask; never returns NULL. */
redisReply *ctl_ask(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The integer reply to a command with the key NS:KEY. */
long long ctl_integer(struct ctl *ctl, const char *command, const char *key);
/* An option that is a number from `least` to `most`; `standard` if it is absent. */
double ctl_number(struct ctl *ctl, const char *name, double least, double most, double standard);
/* Prints one line of JSON on standard output and frees the tree. NULL means out of memory. */
void ctl_print_json(struct ctl *ctl, cJSON *json);
/* Prints JSON text on one line. Valid JSON is printed unchanged, so that numbers keep their digits.
 * Other text is printed as cJSON understood it. */
void ctl_print_text(struct ctl *ctl, const char *text);

ctl_run ctl_submit, ctl_result, ctl_results, ctl_status, ctl_top, ctl_dead, ctl_cancel, ctl_pause,
    ctl_resume, ctl_drain, ctl_explain;
extern const struct ctl_option ctl_submit_options[], ctl_result_options[], ctl_results_options[],
    ctl_top_options[], ctl_dead_options[], ctl_pause_options[], ctl_drain_options[];
