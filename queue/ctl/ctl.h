/*
 * ctl.h - what every command of gpuimgctl has: its table row, its options, its way to Redis.
 *
 * One thread. A command prints what it was asked for on standard output, sentences on standard
 * error, and returns the exit status.
 */
#ifndef GPUIMGD_QUEUE_CTL_CTL_H
#define GPUIMGD_QUEUE_CTL_CTL_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "conf/options.h"
#include "queue/ctl/client.h"

/* As sysexits.h has them where it has one. */
enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,          /* a job failed, or what was asked for is not there */
    CTL_USAGE = 64,
    CTL_NO_INPUT = 66,       /* a file that cannot be read */
    CTL_UNAVAILABLE = 69,    /* Redis is away or refuses */
    CTL_FAULT = 70,          /* no memory, or a reply that nobody expected */
    CTL_TIMEOUT = 75,
    CTL_CONFIGURATION = 78,
    CTL_INTERRUPTED = 130
};

#define CTL_VALUES_MAX 32

/* An option of a command: one row for the parser, -h and the test of the completion. */
struct ctl_option {
    const char *name;  /* without the dashes; NULL ends a table */
    char letter;       /* 0: none */
    const char *value; /* what stands for its value in -h; NULL: it takes none */
    const char *help;  /* may hold one of @names@, @suffixes@ and @quality@, from formats.def */
};

struct ctl;

struct ctl_command {
    const char *name, *operands, *summary;
    const struct ctl_option *options; /* ended by a row without a name */
    const char *notes;                /* what else -h says; NULL: nothing */
    int (*run)(struct ctl *ctl, int count, char **operands);
};

struct ctl {
    const struct ctl_command *command;
    struct options options;            /* of the configuration */
    const char *file;                  /* -c, or NULL */
    int setting_count;
    const char *settings[CTL_VALUES_MAX]; /* --name=value of the configuration */
    int value_count;
    struct { const char *name, *value; } values[CTL_VALUES_MAX];
    bool json;
    struct client *client;             /* once ctl_connect has succeeded */
};

/* Ended by a row without a name. */
extern const struct ctl_command ctl_commands[];

/* An option as the command line gave it (the last one): its value, "" of one that takes none;
 * NULL: it was not given. */
const char *ctl_value(const struct ctl *ctl, const char *name);

/* "gpuimgctl: " and a sentence, on standard error. Control bytes become '?'. */
void ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, followed by where help is; CTL_USAGE. */
int ctl_usage(const struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills in client. CTL_OK, or a status after the sentence was said. */
int ctl_connect(struct ctl *ctl) MUST_CHECK;
/* Says why the last question to Redis has no answer; CTL_UNAVAILABLE. */
int ctl_no_answer(const struct ctl *ctl);

/* A whole number of at least `least` and at most `most`; false after a sentence. */
bool ctl_number(const struct ctl *ctl, const char *name, double least, double most,
                double *number) MUST_CHECK;

/* One line of JSON on standard output; takes the tree over. CTL_OK, or CTL_FAULT where memory was
 * short (json NULL, too). */
int ctl_print_json(cJSON *json);
/* What cJSON could read, as such a line: as it stands, so that numbers keep their digits, or,
 * where it is no JSON by the letter, as cJSON understood it. */
int ctl_print_text(const char *text);

/* The commands. */
int ctl_submit(struct ctl *ctl, int count, char **operands);
int ctl_result(struct ctl *ctl, int count, char **operands);
int ctl_status(struct ctl *ctl, int count, char **operands);
int ctl_top(struct ctl *ctl, int count, char **operands);
int ctl_dead(struct ctl *ctl, int count, char **operands);
int ctl_cancel(struct ctl *ctl, int count, char **operands);
int ctl_pause(struct ctl *ctl, int count, char **operands);
int ctl_resume(struct ctl *ctl, int count, char **operands);
int ctl_drain(struct ctl *ctl, int count, char **operands);
int ctl_explain(struct ctl *ctl, int count, char **operands);

extern const struct ctl_option ctl_submit_options[], ctl_result_options[], ctl_top_options[],
    ctl_dead_options[], ctl_pause_options[], ctl_drain_options[];

#endif
