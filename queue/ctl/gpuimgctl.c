/* gpuimgctl.c - gpuimgctl's command line: the table of commands, the option parser and -h. */
#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "conf/format.h"
#include "conf/limits.h"
#include "conf/log.h"
#include "conf/text.h"
#include "queue/ctl/ctl.h"

#define DEFAULT_FILE "/etc/gpuimgd/gpuimgd.conf"
#define OPTIONS_MAX  40
#define HELP_COLUMN  24

static const struct ctl_option common_options[] = {
    {"config", 'c', "FILE", "configuration file (default " DEFAULT_FILE ", if it exists)"},
    {"redis", 0, "ADDRESS", "Redis server, like the option redis of the configuration"},
    {"namespace", 0, "NS", "prefix of every key in Redis"},
    {"shard", 0, "I", "only shard I, from 0, if the option shards is 2 or more"},
    {"json", 0, NULL, "print JSON instead of text: one object, or one per line"},
    {"help", 'h', NULL, "print this help"},
    {"version", 'V', NULL, "print the version"},
    {0}};

static const struct ctl_command commands[] = {
    {"submit", "FILE...", "send images as jobs; with --wait, wait for the results",
     ctl_submit_options,
     "FILE is an image, a URL, a folder with -r, or - to read names from standard input, one per\n"
     "line. The daemon downloads a URL, if its option url_prefixes allows it.\n"
     "Without --keys, images must be below input_root and OUT is below output_root, both on\n"
     "disks that the daemons share. With --keys, images may be anywhere and travel through\n"
     "Redis, and OUT is on this machine.\n"
     "\n"
     "OUT is a folder, a file name with an image suffix (for one FILE), a URL to which the daemon\n"
     "uploads the result, or a pattern of one of them:\n"
     "%n is the image's name without suffix, %e the result's suffix, %p the folders between the\n"
     "one given with -r and the image, %i the image's number from 1, %% a percent sign.\n"
     "A folder means FOLDER/%p%n.%e. If several results would have the same name, only the\n"
     "first image is sent. A result never replaces an image that is sent. With --keys, it\n"
     "replaces an existing file only if --force is given.\n"
     "\n"
     "With --list N, a job has up to N images, with --shards the images of an archive, and with\n"
     "--frames=all the frames of an animation. An image that fails does not fail its job, unless\n"
     "it is a frame, or --on-error=fail is given. OUT is then a folder, or a pattern with other\n"
     "letters: %p is the image's path below input_root (with --keys: the folders and the name)\n"
     "without suffix, %n its number within its job from 000000, %i the number of the job from 1,\n"
     "%a the archive's or animation's name without suffix, %e the result's suffix. A folder means\n"
     "FOLDER/%p.%e for lists, FOLDER/%a.tar for archives, FOLDER/%a.webp for frames (.avif with\n"
     "--format=avif; one file per frame with another format); with --pack FOLDER/%i.tar or, for\n"
     "arrays, FOLDER/%i.npy. An OUT that ends in .tar is a tar with all images of a job, and with\n"
     "--frames=all one that ends in .webp or .avif is an animation.\n"
     "\n"
     "An ARCHIVE is a tar or a zip below input_root, a URL, or a pattern in quotes ('*.tar').\n"
     "Members that --pattern does not choose are copied to the tar. --shards with a number is\n"
     "the option shards of the configuration.\n"
     "\n"
     "A job file holds one job as JSON. Each image becomes the input of a copy of it. The paths\n"
     "and keys of its outputs, and its id, are patterns. Without --wait, submit prints the ids\n"
     "of all jobs.\n"
     "\n"
     "The overlay of composite may be a file on this machine: with --keys it is uploaded as the\n"
     "images are, otherwise it must be below input_root.\n"
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
    {"results", "", "show the results of all jobs; with --follow, take them as they come",
     ctl_results_options,
     "Without --follow, results shows what is there and leaves it there. With --follow, it is a\n"
     "consumer: it takes results, and acknowledges each one when its line is written (in a file:\n"
     "is on the disk). A consumer that dies loses none, but some results may come twice. The\n"
     "consumers of a group share a stream's results, and each group gets all of them. A list's\n"
     "results are shared by all; those of a dead consumer come when it starts again by its name.\n"
     "Exit status: 0 also after Ctrl-C, or 64, 69, 70, 78 as for submit.\n",
     ctl_results},
    {"status", "", "show the queue, the running jobs and the daemons on one screen", NULL,
     "waiting: in the queue; running: leased to a daemon; delayed: until a given time, or until\n"
     "the next attempt; alone: on the last attempt, run one at a time because one of these jobs\n"
     "may have killed a daemon; dead: given up; results: in the list or the stream, not yet read.\n"
     "Exit status: 0, or 64, 69, 70, 78 as for submit.\n",
     ctl_status},
    {"top", "", "show the status with throughput and stages, every second", ctl_top_options,
     "Press q or Ctrl-C to quit. If standard output is not a terminal, or with --json, top prints\n"
     "one report after the other.\n"
     "Exit status: 0, or 64, 69, 70, 78 as for submit.\n",
     ctl_top},
    {"dead", "list | show JOB... | retry [JOB...] | drop [JOB...]",
     "list dead jobs, show their errors, retry them or drop them", ctl_dead_options,
     "JOB is an id or a number of the list. If several dead jobs have the id, the last one to die\n"
     "is meant. '#1' is the job that died last, '#2:1' the last one of shard 2. Write it in\n"
     "quotes: a bare # begins a comment in a shell. retry and drop name each job.\n"
     "Exit status: 0, 1 there is no such dead job, or 64, 69, 70, 78 as for submit.\n",
     ctl_dead},
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
     "still run after --timeout, 130 interrupted, or 64, 69, 70, 78 as for submit.\n",
     ctl_drain},
    {"explain", "JOBFILE", "print how a daemon would run a job: gpuimgd --explain", NULL,
     "JOBFILE holds one job as JSON; - is standard input. Exit status: 0, 1 the job would fail,\n"
     "or 64, 70, 78 as for submit.\n",
     ctl_explain},
    {0}};

#define each_option(option, table)                                                                 \
    for (const struct ctl_option *option = (table); option && option->name; option++)

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
        fputs(format_list(FORMAT_SUFFIXES, FORMATS_READ, "%s", ", ", list), stdout);
    else
        printf("%s, %d to %d",
               format_list(FORMAT_TITLES, TAKES(quality), "%s", " and ", list), quality->min,
               quality->max);
    puts(end + 1);
}

static void print_options(const struct ctl_option *table)
{
    each_option (option, table) {
        char left[80], letter[8] = "";
        if (option->letter)
            snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(left, sizeof left, "  %s--%s%s%s", letter, option->name, option->value ? "=" : "",
                 option->value ? option->value : "");
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
        for (command = commands; command->name; command++)
            printf("  %-*s %s\n", HELP_COLUMN - 2, command->name, command->summary);
        puts("\ngpuimgctl COMMAND -h shows a command's options and exit status.\n");
    }
    puts("Options of every command:");
    print_options(common_options);
    puts("  --name=value           any other configuration option (gpuimgd -h lists them)");
}

/* ---- the command line ----------------------------------------------------------------------- */

static void find_command(struct ctl *ctl, const char *name)
{
    const char *names[sizeof commands / sizeof *commands];
    size_t count = 0;
    for (const struct ctl_command *command = commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) {
            ctl->command = command;
            return;
        }
        names[count++] = command->name;
    }
    const char *near = text_nearest(name, names, count);
    if (near)
        ctl_usage(ctl, "there is no command \"%s\"; did you mean %s?", name, near);
    ctl_usage(ctl, "there is no command \"%s\"", name);
}

static size_t add_options(struct option *longs, char *letters, size_t count,
                          const struct ctl_option *table)
{
    each_option (option, table) {
        if (option->letter) {
            char text[3] = {option->letter, option->value ? ':' : '\0', '\0'};
            strcat(letters, text);
        }
        longs[count] = (struct option){
            option->name, option->value ? required_argument : no_argument, NULL,
            option->letter ? option->letter : UCHAR_MAX + 1 + (int)count};
        count++;
    }
    return count;
}

static void bad_option(struct ctl *ctl, const struct option *longs, size_t count,
                       const char *argument)
{
    const char *names[OPTIONS_MAX];
    char word[40] = "";
    if (strncmp(argument, "--", 2) == 0)
        snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    for (size_t i = 0; i < count; i++) {
        names[i] = longs[i].name;
        if (strcmp(names[i], word) == 0)
            ctl_usage(ctl, "the option --%s %s", word,
                      longs[i].has_arg ? "needs a value" : "takes no value");
    }
    const char *near = *word ? text_nearest(word, names, count) : NULL;
    if (near)
        ctl_usage(ctl, "there is no option \"%s\"; did you mean --%s?", argument, near);
    ctl_usage(ctl, "there is no option \"%s\", or it needs a value", argument);
}

static void take_option(struct ctl *ctl, const char *name, const char *value)
{
    if (strcmp(name, "help") == 0) {
        print_help(ctl->command);
        ctl_end(ctl, CTL_OK);
    }
    if (strcmp(name, "version") == 0) {
        puts("gpuimgctl " GPUIMGD_VERSION);
        ctl_end(ctl, CTL_OK);
    }
    /* A number is the option of the configuration; submit's option of this name takes archives. */
    bool is_setting = strcmp(name, "shards") == 0 && value[strspn(value, "0123456789")] == '\0';
    struct ctl_setting *list = is_setting ? ctl->settings : ctl->values;
    int *count = is_setting ? &ctl->setting_count : &ctl->value_count;
    if (*count == CTL_VALUES_MAX)
        ctl_usage(ctl, "there are more than %d options", CTL_VALUES_MAX);
    list[(*count)++] = (struct ctl_setting){name, value ? value : ""};
}

/* Takes --name=value, splitting it, if only the configuration has the name. */
static bool take_setting(struct ctl *ctl, char *text)
{
    char *equals = strchr(text, '=');
    if (strncmp(text, "--", 2) != 0 || !equals)
        return false;
    *equals = '\0';
    bool known = options_has(text + 2);
    if (!known)
        *equals = '=';
    else if (ctl->setting_count < CTL_VALUES_MAX)
        ctl->settings[ctl->setting_count++] = (struct ctl_setting){text + 2, equals + 1};
    return known;
}

static void parse(struct ctl *ctl, int argc, char **argv)
{
    struct option longs[OPTIONS_MAX] = {0};
    char letters[2 * OPTIONS_MAX + 2] = ":";
    size_t count = add_options(longs, letters, 0, ctl->command->options);
    int value;
    count = add_options(longs, letters, count, common_options);
    opterr = 0;
    while ((value = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct option *found = longs;
        while (found->name && found->val != value)
            found++;
        if (found->name)
            take_option(ctl, found->name, optarg);
        else if (!take_setting(ctl, argv[optind - 1]))
            bad_option(ctl, longs, count, argv[optind - 1]);
    }
    ctl->file = ctl_value(ctl, "config");
    ctl->json = ctl_value(ctl, "json") != NULL;
}

static void say_error(const char *text)
{
    ctl_say("%s", text);
}

static bool set(struct ctl *ctl, const char *name, const char *value, struct errors *errors)
{
    struct error error = {0};
    return !value || options_set(&ctl->options, name, value, &error) || errors_add(errors, &error);
}

static bool load(struct ctl *ctl, struct errors *errors)
{
    struct options *options = &ctl->options;
    struct error error = {0};
    static const char *const direct[] = {"redis", "namespace"};
    if (!options_init(options, &error)) /* uncovered: memory */
        return errors_add(errors, &error);
    bool good = ctl->file ? options_load(options, ctl->file, CONF_PIPE_S, NULL, errors)
                          : options_load_default(options, DEFAULT_FILE, CONF_PIPE_S, NULL, errors);
    for (int i = 0; i < ctl->setting_count; i++)
        good = set(ctl, ctl->settings[i].name, ctl->settings[i].value, errors) && good;
    for (size_t i = 0; i < 2; i++)
        good = set(ctl, direct[i], ctl_value(ctl, direct[i]), errors) && good;
    good = options_check(options, errors) && good;
    return good && (ctl_open_shards(ctl, &error) || errors_add(errors, &error));
}

int main(int argc, char **argv)
{
    struct ctl ctl = {0};
    struct errors errors = {.say = say_error};
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
        ctl_usage(&ctl, "put the command before \"%s\"", name);
    find_command(&ctl, name);
    parse(&ctl, --argc, ++argv);
    if (!load(&ctl, &errors))
        ctl_end(&ctl, CTL_CONFIGURATION);
    if (optind < argc && !*ctl.command->operands)
        ctl_usage(&ctl, "%s takes no operand, but got \"%s\"", name, argv[optind]);
    ctl_end(&ctl, ctl.command->run(&ctl, argc - optind, argv + optind));
}
