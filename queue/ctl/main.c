/* main.c - gpuimgctl's command line: the table of commands, the option parser and -h. */
#include <ctype.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/format.h"
#include "conf/limits.h"
#include "conf/log.h"
#include "conf/text.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/job/json.h"

#define DEFAULT_FILE "/etc/gpuimgd/gpuimgd.conf"
#define OPTIONS_MAX  40
#define HELP_COLUMN  24

/* Options of every command. */
static const struct ctl_option common_options[] = {
    {"config", 'c', "FILE", "configuration file (default " DEFAULT_FILE ", if it exists)"},
    {"redis", 0, "ADDRESS", "Redis server, like the option redis of the configuration"},
    {"namespace", 0, "NS", "prefix of every key in Redis"},
    {"json", 0, NULL, "print JSON instead of text: one object, or one per line"},
    {"help", 'h', NULL, "print this help"},
    {"version", 'V', NULL, "print the version"},
    {0}};

const struct ctl_command ctl_commands[] = {
    {"submit", "FILE...", "send images as jobs; with --wait, wait for the results",
     ctl_submit_options,
     "FILE is an image, a folder with -r, or - to read names from standard input, one per line.\n"
     "Without --keys, images must be below input_root and OUT is below output_root, both on\n"
     "disks that the daemons share. With --keys, images may be anywhere and travel through\n"
     "Redis, and OUT is on this machine.\n"
     "\n"
     "OUT is a folder, a file name with an image suffix (for one FILE), or a pattern:\n"
     "%n is the image's name without suffix, %e the result's suffix, %p the folders between the\n"
     "one given with -r and the image, %i the image's number from 1, %% a percent sign.\n"
     "A folder means FOLDER/%p%n.%e. If several results would have the same name, only the\n"
     "first image is sent. A result never replaces an image that is sent. With --keys, it\n"
     "replaces an existing file only if --force is given.\n"
     "\n"
     "A job file holds one job as JSON. Each image becomes the input of a copy of it. The paths\n"
     "and keys of its outputs, and its id, are patterns. Without --wait, submit prints the ids\n"
     "of all jobs.\n"
     "\n"
     "OPS are operations separated by commas, each with parameters after a colon:\n"
     "grayscale,resize:width=512,height=512,sobel:border=zero. A value that is not JSON is text.\n"
     "gpuimgd-job(5) lists the parameters of each operation:\n"
#define X(name, line) "  " line "\n"
#include "queue/ctl/operations.inc"
#undef X
     "\n"
     "Exit status: 0 all done (without --wait: sent), 1 some failed or were not sent, 64 usage,\n"
     "66 an input cannot be read, 69 no Redis, 70 no memory, 75 not all ended within --timeout,\n"
     "78 configuration, 130 interrupted.\n",
     ctl_submit},
    {"result", "ID...", "show the results of jobs by id", ctl_result_options,
     "Redis keeps a result for result_ttl_s.\n"
     "Exit status: 0 all done, 1 a job failed or has no result, 75 no result within --timeout,\n"
     "or 64, 69, 70, 78 as for submit.\n",
     ctl_result},
    {"status", "", "show the queue, the running jobs and the daemons on one screen", NULL,
     "waiting: in the queue; running: leased to a daemon; delayed: until a given time, or until\n"
     "the next attempt; alone: on the last attempt, run one at a time because one of these jobs\n"
     "may have killed a daemon; dead: given up; results: in the list, not yet read.\n"
     "Exit status: 0, or 64, 69, 70, 78 as for submit.\n", ctl_status},
    {"top", "", "show the status with throughput and stages, every second", ctl_top_options,
     "Press q or Ctrl-C to quit. If standard output is not a terminal, or with --json, top prints\n"
     "one report after the other.\n"
     "Exit status: 0, or 64, 69, 70, 78 as for submit.\n", ctl_top},
    {"dead", "list | show JOB... | retry [JOB...] | drop [JOB...]",
     "list dead jobs, show their errors, retry them or drop them", ctl_dead_options,
     "JOB is an id or a number of the list. If several dead jobs have the id, the last one to die\n"
     "is meant. '#1' is the job that died last. Write it in quotes: a bare # begins a comment in\n"
     "a shell. retry and drop name each job.\n"
     "Exit status: 0, 1 there is no such dead job, or 64, 69, 70, 78 as for submit.\n", ctl_dead},
    {"cancel", "ID...", "cancel waiting and running jobs by id", NULL,
     "This cancels every job with the id that was sent before, but none that is sent later. A\n"
     "cancelled job gets a result with the status cancelled; a running one within renew_s.\n"
     "To report whether there is such a job, cancel searches the first 10,000 jobs.\n"
     "Exit status: 0, 1 no such job and no result of one, or 64, 69, 70, 78 as for submit.\n",
     ctl_cancel},
    {"pause", "", "stop the namespace's daemons from fetching jobs; running jobs go on",
     ctl_pause_options, "Exit status: 0, or 64, 69, 70, 78 as for submit.\n", ctl_pause},
    {"resume", "", "let the daemons fetch jobs again", NULL,
     "Exit status: 0, or 64, 69, 70, 78 as for submit.\n", ctl_resume},
    {"drain", "", "pause, and wait until no job runs", ctl_drain_options,
     "The namespace stays paused, also after a failure. Exit status: 0 no job runs, 75 some jobs\n"
     "still run after --timeout, 130 interrupted, or 64, 69, 70, 78 as for submit.\n", ctl_drain},
    {"explain", "JOBFILE", "print how a daemon would run a job: gpuimgd --explain", NULL,
     "JOBFILE holds one job as JSON; - is standard input. Exit status: 0, 1 the job would fail,\n"
     "or 64, 70, 78 as for submit.\n", ctl_explain},
    {0}};

#define each_option(option, table)                                                                 \
    for (const struct ctl_option *option = (table); option && option->name; option++)

/* ---- shared by the commands ----------------------------------------------------------------- */

void ctl_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out_error(format, args);
    va_end(args);
}

int ctl_usage(const struct ctl *ctl, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out_error(format, args);
    va_end(args);
    ctl_say("see gpuimgctl %s%s-h", ctl->command ? ctl->command->name : "",
            ctl->command ? " " : "");
    return CTL_USAGE;
}

const char *ctl_value(const struct ctl *ctl, const char *name)
{
    for (int i = ctl->value_count; i-- > 0;)
        if (strcmp(ctl->values[i].name, name) == 0)
            return ctl->values[i].value;
    return NULL;
}

bool ctl_number(const struct ctl *ctl, const char *name, double least, double most,
                double *number)
{
    const char *text = ctl_value(ctl, name);
    char *end;
    if (!text)
        return true;
    *number = strtod(text, &end);
    if (end != text && !*end && *number >= least && *number <= most)
        return true;
    ctl_usage(ctl, "--%s is \"%s\"; it must be a number from %g to %g", name, text, least, most);
    return false;
}

int ctl_connect(struct ctl *ctl)
{
    struct error error = {0};
    ctl->client = client_open(&ctl->options, &error);
    if (ctl->client)
        return CTL_OK;
    ctl_say("%s", error.text);
    return error.status == STATUS_BAD_JOB         ? CTL_CONFIGURATION
           : error.status == STATUS_OUT_OF_MEMORY ? CTL_FAULT
                                                  : CTL_UNAVAILABLE;
}

int ctl_no_answer(const struct ctl *ctl)
{
    ctl_say("%s", client_why(ctl->client));
    return CTL_UNAVAILABLE;
}

int ctl_print_json(cJSON *json)
{
    char *text = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    if (!text) { /* uncovered: memory */
        ctl_say("out of memory for the answer");
        return CTL_FAULT;
    }
    out_json(text);
    free(text);
    return CTL_OK;
}

static bool is_one_line(const char *text)
{
    while ((unsigned char)*text >= 0x20)
        text++;
    return *text == '\0';
}

int ctl_print_text(const char *text)
{
    struct error ignored = {0};
    if (!is_one_line(text) || json_check(text, strlen(text), &ignored) != STATUS_OK)
        return ctl_print_json(cJSON_Parse(text));
    out_json(text);
    return CTL_OK;
}

/* ---- help ----------------------------------------------------------------------------------- */

static void print_option_help(const char *help)
{
    const struct parameter_row *quality = &encoder_parameters[PARAMETER_quality];
    const char *at = strchr(help, '@'), *end = at ? strchr(at + 1, '@') : NULL;
    char list[FORMAT_LIST_BYTES];
    if (!end) {
        puts(help);
        return;
    }
    printf("%.*s", (int)(at - help), help);
    if (strncmp(at, "@names@", 7) == 0)
        fputs(format_list(FORMAT_NAMES, 0, "%s", " or ", list), stdout);
    else if (strncmp(at, "@suffixes@", 10) == 0)
        fputs(format_list(FORMAT_SUFFIXES, 0, "%s", ", ", list), stdout);
    else
        printf("%s, %d to %d",
               format_list(FORMAT_TITLES, TAKES(quality), "%s", " and ", list), quality->min,
               quality->max);
    puts(end + 1);
}

static void print_options(const struct ctl_option *table)
{
    each_option (option, table) {
        char left[80];
        int length = snprintf(left, sizeof left, "  ");
        if (option->letter)
            length += snprintf(left + length, sizeof left - (size_t)length, "-%c, ",
                               option->letter);
        snprintf(left + length, sizeof left - (size_t)length, "--%s%s%s", option->name,
                 option->value ? "=" : "", option->value ? option->value : "");
        printf("%-*s ", HELP_COLUMN, left);
        print_option_help(option->help);
    }
}

static void print_help(const struct ctl_command *command)
{
    if (command) {
        printf("usage: gpuimgctl %s%s%s [options]\n\n%c%s.\n\n", command->name,
               *command->operands ? " " : "", command->operands,
               toupper((unsigned char)command->summary[0]), command->summary + 1);
        if (command->options && command->options->name) {
            puts("Options:");
            print_options(command->options);
            putchar('\n');
        }
        if (command->notes)
            printf("%s\n", command->notes);
    } else {
        puts("usage: gpuimgctl COMMAND [options]\n\n"
             "Sends jobs to gpuimgd through Redis, and shows their progress and results.\n\n"
             "Commands:");
        for (command = ctl_commands; command->name; command++)
            printf("  %-*s %s\n", HELP_COLUMN - 2, command->name, command->summary);
        puts("\ngpuimgctl COMMAND -h shows a command's options and exit status.\n");
    }
    puts("Options of every command:");
    print_options(common_options);
    puts("  --name=value           any other configuration option (gpuimgd -h lists them)");
}

/* ---- the command line ----------------------------------------------------------------------- */

static const struct ctl_command *find_command(const char *name)
{
    for (const struct ctl_command *command = ctl_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static int unknown_command(const struct ctl *ctl, const char *name)
{
    const char *names[sizeof ctl_commands / sizeof *ctl_commands];
    size_t count = 0;
    for (const struct ctl_command *command = ctl_commands; command->name; command++)
        names[count++] = command->name;
    const char *near = text_nearest(name, names, count);
    return near ? ctl_usage(ctl, "there is no command \"%s\"; did you mean %s?", name, near)
                : ctl_usage(ctl, "there is no command \"%s\"", name);
}

static size_t add_options(struct option *longs, char *letters, size_t count,
                          const struct ctl_option *table)
{
    each_option (option, table) {
        if (option->letter) {
            char text[3] = {option->letter, option->value ? ':' : '\0', '\0'};
            strcat(letters, text);
        }
        longs[count++] = (struct option){
            option->name, option->value ? required_argument : no_argument, NULL, option->letter};
    }
    return count;
}

static const char *name_of_letter(const struct ctl *ctl, int letter)
{
    const struct ctl_option *tables[] = {common_options, ctl->command->options};
    for (size_t i = 0; i < 2; i++)
        each_option (option, tables[i])
            if (option->letter == letter)
                return option->name;
    return NULL;
}

static int bad_option(const struct ctl *ctl, const struct option *longs, size_t count,
                      const char *argument)
{
    const char *names[OPTIONS_MAX];
    char word[40] = "";
    for (size_t i = 0; i < count; i++)
        names[i] = longs[i].name;
    if (strncmp(argument, "--", 2) == 0)
        snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0)
            return ctl_usage(ctl, "the option --%s %s", word,
                             longs[i].has_arg ? "needs a value" : "takes no value");
    const char *near = *word ? text_nearest(word, names, count) : NULL;
    return near ? ctl_usage(ctl, "there is no option \"%s\"; did you mean --%s?", argument, near)
                : ctl_usage(ctl, "there is no option \"%s\", or it needs a value", argument);
}

static void set_value(struct ctl *ctl, const char *name, const char *value)
{
    if (strcmp(name, "config") == 0)
        ctl->file = value;
    else if (strcmp(name, "json") == 0)
        ctl->json = true;
    if (ctl->value_count < CTL_VALUES_MAX) {
        ctl->values[ctl->value_count].name = name;
        ctl->values[ctl->value_count++].value = value ? value : "";
    }
}

/* Returns whether text is --name=value with a name that only the configuration has. */
static bool is_setting(const struct option *longs, size_t count, const char *text)
{
    char name[64];
    size_t length = strcspn(text, "=");
    if (strncmp(text, "--", 2) != 0 || text[length] != '=' || length - 2 >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length - 2, text + 2);
    for (size_t i = 0; i < count; i++)
        if (strcmp(longs[i].name, name) == 0)
            return false;
    return options_has(name);
}

/* Moves the configuration's options from argv to ctl->settings, up to "--". Returns the new
 * argc. */
static int take_settings(struct ctl *ctl, const struct option *longs, size_t count, int argc,
                         char **argv)
{
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) { /* uncovered: slip */
            while (i < argc)
                argv[kept++] = argv[i++];
        } else if (!is_setting(longs, count, argv[i])) {
            argv[kept++] = argv[i];
        } else if (ctl->setting_count < CTL_VALUES_MAX) {
            ctl->settings[ctl->setting_count++] = argv[i] + 2;
        }
    }
    argv[kept] = NULL;
    return kept;
}

/* Returns -1 if the command should run, with its operands from optind; otherwise the exit
 * status. */
static int parse(struct ctl *ctl, int *argc, char **argv)
{
    struct option longs[OPTIONS_MAX] = {0};
    char letters[2 * OPTIONS_MAX + 2] = ":";
    size_t count = add_options(longs, letters, 0, ctl->command->options);
    int letter, index;
    count = add_options(longs, letters, count, common_options);
    *argc = take_settings(ctl, longs, count, *argc, argv);
    opterr = 0;
    optind = 1;
    while (index = -1, (letter = getopt_long(*argc, argv, letters, longs, &index)) != -1) {
        const char *name = index >= 0 ? longs[index].name : name_of_letter(ctl, letter);
        if (letter == '?' || letter == ':' || !name)
            return bad_option(ctl, longs, count, argv[optind - 1]);
        if (strcmp(name, "help") == 0) {
            print_help(ctl->command);
            return CTL_OK;
        }
        if (strcmp(name, "version") == 0) {
            puts("gpuimgctl " GPUIMGD_VERSION);
            return CTL_OK;
        }
        set_value(ctl, name, optarg);
    }
    return -1;
}

static bool set_option(struct options *options, const char *name, size_t length,
                       const char *value, struct error *error)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)length, name);
    return options_set(options, copy, value, error);
}

static bool load(struct ctl *ctl, struct error *error)
{
    const char *file = ctl->file ? ctl->file : DEFAULT_FILE;
    struct options *options = &ctl->options;
    static const char *const direct[] = {"redis", "namespace"};
    if (!options_init(options, error) ||
        ((ctl->file || access(file, F_OK) == 0) && !options_load(options, file, NULL, error)))
        return false;
    for (int i = 0; i < ctl->setting_count; i++) {
        size_t length = strcspn(ctl->settings[i], "=");
        if (!set_option(options, ctl->settings[i], length, ctl->settings[i] + length + 1, error))
            return false; /* uncovered: slip */
    }
    for (size_t i = 0; i < 2; i++) {
        const char *value = ctl_value(ctl, direct[i]);
        if (value && !options_set(options, direct[i], value, error))
            return false;
    }
    return options_check(options, error);
}

static int run(struct ctl *ctl, int count, char **operands)
{
    struct error error = {0};
    int status = CTL_CONFIGURATION;
    const struct ctl_command *command = ctl->command;
    if (!load(ctl, &error))
        ctl_say("%s", error.text);
    else if (count > 0 && !*command->operands)
        status = ctl_usage(ctl, "%s takes no operand, but got \"%s\"", command->name, operands[0]);
    else
        status = command->run(ctl, count, operands);
    client_close(ctl->client);
    options_clear(&ctl->options);
    if (out_failed()) {
        ctl_say("cannot write to standard output");
        status = status ? status : CTL_FAULT;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct ctl ctl = {0};
    log_init();
    signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "-h";
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
        print_help(NULL);
        return argc > 1 ? CTL_OK : CTL_USAGE;
    }
    if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0) {
        puts("gpuimgctl " GPUIMGD_VERSION);
        return CTL_OK;
    }
    if (name[0] == '-')
        return ctl_usage(&ctl, "put the command before \"%s\"", name);
    ctl.command = find_command(name);
    if (!ctl.command)
        return unknown_command(&ctl, name);
    argc--;
    argv++;
    int status = parse(&ctl, &argc, argv);
    return status >= 0 ? status : run(&ctl, argc - optind, argv + optind);
}
