/* main.c - gpuimgctl's command line: which command, which options, and what -h says of them. */
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

/* Of every command. */
static const struct ctl_option common_options[] = {
    {"config", 'c', "FILE", "configuration (default " DEFAULT_FILE ", where it exists)"},
    {"redis", 0, "ADDRESS", "the Redis server, as the option redis of the configuration"},
    {"namespace", 0, "NS", "the prefix of every key"},
    {"json", 0, NULL, "one JSON object, or one a line, instead of text"},
    {"help", 'h', NULL, "this help"},
    {"version", 'V', NULL, "version"},
    {0}};

const struct ctl_command ctl_commands[] = {
    {"submit", "FILE...", "send pictures as jobs, and wait for them with --wait",
     ctl_submit_options,
     "FILE is a picture, a folder with -r, or - for names on standard input, one a line.\n"
     "Pictures lie below input_root, and OUT below output_root, where daemons find them; with\n"
     "--keys they lie anywhere, travel through Redis, and OUT is a place on this machine.\n"
     "\n"
     "OUT is a folder, a file name with the suffix of a picture (for one FILE), or a pattern:\n"
     "%n is the picture's name without suffix, %e the result's suffix, %p the folders between\n"
     "the one given with -r and the picture, %i the picture's number from 1, %% a percent sign.\n"
     "A folder stands for FOLDER/%p%n.%e. Of pictures whose results would have the same name the\n"
     "first one is sent. No result replaces a picture that is sent, nor, with --keys and without\n"
     "--force, any file that is there.\n"
     "\n"
     "A job file holds one job as JSON. Its input is replaced by each picture; the paths and keys\n"
     "of its outputs, and its id, are patterns. Without --wait the ids of all jobs are printed.\n"
     "\n"
     "OPS are names with commas between, each with parameters behind a colon:\n"
     "grayscale,resize:width=512,height=512,sobel:border=zero. A value is JSON, or else a text.\n"
     "gpuimgd-job(5) has the parameters of each:\n"
#define X(name, line) "  " line "\n"
#include "queue/ctl/submit/operations.inc"
#undef X
     "\n"
     "Exit status: 0 all done (without --wait: sent), 1 some failed or were not sent, 64 usage,\n"
     "66 an input cannot be read, 69 no Redis, 70 no memory, 75 not all ended within --timeout,\n"
     "78 configuration, 130 interrupted.\n",
     ctl_submit},
    {"result", "ID...", "show the results of jobs by their id", ctl_result_options,
     "Exit status: 0 all done, 1 one failed or is not there (yet, or any more: results are kept\n"
     "for result_ttl_s), 64, 69, 70, 78 as of submit, 75 one is not there within --timeout.\n",
     ctl_result},
    {"status", "", "what waits, what runs and where, on one screen", NULL,
     "waiting: in the queue; running: taken by a daemon; delayed: until their time, or before\n"
     "another attempt; alone: on their last attempt, with nothing beside them, since one of\n"
     "them may be what killed a daemon; dead: given up; results: in the list for who takes them.\n"
     "Exit status: 0, or 64, 69, 70, 78 as of submit.\n", ctl_status},
    {"top", "", "the same with throughput and stages, drawn anew each second", ctl_top_options,
     "q or Ctrl-C ends it. Where standard output is no terminal, and with --json, each drawing is\n"
     "printed behind the last one.\n"
     "Exit status: 0, or 64, 69, 70, 78 as of submit.\n", ctl_top},
    {"dead", "list | show JOB... | retry [JOB...] | drop [JOB...]",
     "list the jobs that were given up, show why, try them again, forget them", ctl_dead_options,
     "JOB is an id (of several dead jobs with it, the one that died last), or a number of the\n"
     "list: '#1' died last. Write it in quotes: a bare # begins a comment in a shell. Jobs that\n"
     "are tried again or dropped are named.\n"
     "Exit status: 0, 1 there is no such dead job, or 64, 69, 70, 78 as of submit.\n", ctl_dead},
    {"cancel", "ID...", "end jobs that wait or run, by their id", NULL,
     "Every job with the id that was sent before is meant, one that is sent later is not. A job\n"
     "that is cancelled gets a result with the status cancelled; a running one within renew_s.\n"
     "Whether there is one is looked up among the first 10,000 that wait and run.\n"
     "Exit status: 0, 1 there is none and no result of one, or 64, 69, 70, 78 as of submit.\n",
     ctl_cancel},
    {"pause", "", "let no daemon of the namespace take a job; what runs goes on",
     ctl_pause_options, "Exit status: 0, or 64, 69, 70, 78 as of submit.\n", ctl_pause},
    {"resume", "", "let the daemons take jobs again", NULL,
     "Exit status: 0, or 64, 69, 70, 78 as of submit.\n", ctl_resume},
    {"drain", "", "pause, and wait until no job runs any more", ctl_drain_options,
     "Taking jobs stays paused, whatever the exit status: 0 no job runs, 75 some still do when\n"
     "--timeout is over, 130 interrupted, or 64, 69, 70, 78 as of submit.\n", ctl_drain},
    {"explain", "JOBFILE", "print how a job would be carried out: gpuimgd --explain", NULL,
     "JOBFILE holds one job as JSON, - is standard input. Exit status: 0, 1 the job would fail,\n"
     "or 64, 70, 78 as of submit.\n", ctl_explain},
    {0}};

#define each_option(option, table)                                                                 \
    for (const struct ctl_option *option = (table); option && option->name; option++)

/* ---- what the commands share ---------------------------------------------------------------- */

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
    if (!text) {
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
             "Sends jobs to gpuimgd through Redis, and shows what becomes of them.\n\nCommands:");
        for (command = ctl_commands; command->name; command++)
            printf("  %-*s %s\n", HELP_COLUMN - 2, command->name, command->summary);
        puts("\ngpuimgctl COMMAND -h shows a command's options and exit status.\n");
    }
    puts("Options of every command:");
    print_options(common_options);
    puts("  --name=value           any other option of the configuration (gpuimgd -h lists them)");
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

/* Whether text is --name=value with a name of the configuration that is no option of ours. */
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

/* Takes the configuration's options out of argv, up to "--". */
static int take_settings(struct ctl *ctl, const struct option *longs, size_t count, int argc,
                         char **argv)
{
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
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

/* -1: go on, with the operands from optind. Else the exit status. */
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
            return false;
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
    if (load(ctl, &error))
        status = ctl->command->run(ctl, count, operands);
    else
        ctl_say("%s", error.text);
    client_close(ctl->client);
    options_clear(&ctl->options);
    if (out_failed()) {
        ctl_say("standard output cannot be written");
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
        return ctl_usage(&ctl, "the command comes before \"%s\"", name);
    ctl.command = find_command(name);
    if (!ctl.command)
        return unknown_command(&ctl, name);
    argc--;
    argv++;
    int status = parse(&ctl, &argc, argv);
    return status >= 0 ? status : run(&ctl, argc - optind, argv + optind);
}
