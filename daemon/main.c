/* main.c - parses the command line, loads the configuration and starts the daemon. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "conf/limits.h"
#include "conf/log.h"
#include "conf/mask.h"
#include "daemon/daemon.h"
#include "daemon/http/http_server.h"
#include "daemon/notify.h"
#include "daemon/preflight.h"
#include "daemon/web/fetcher.h"
#include "queue/redis/shard.h"

#define DEFAULT_FILE "/etc/gpuimgd/gpuimgd.conf"

struct command_line {
    const char *file; /* NULL: DEFAULT_FILE, if it exists */
    bool test, offline;
    const char *explain; /* file of the job to explain; NULL: run the daemon */
    bool json;
    bool wrong;      /* wrong usage; the errors were printed */
    bool runs;       /* the daemon runs, so load() is called for a reload */
    int count;       /* number of settings */
    struct setting {
        char name[64];
        const char *value;
    } *settings; /* options of the configuration, as --name=value */
};

static const char usage[] =
    "usage: gpuimgd [-c FILE] [-t [--offline] | --explain JOBFILE [--json]] [--name=value ...]\n"
    "\n"
    "Fetches image jobs from a Redis list, runs them on GPUs or the CPU, and posts the results.\n"
    "\n"
    "  -c FILE   configuration file (default " DEFAULT_FILE ", if it exists);\n"
    "            the files conf.d/*.conf in the same folder are read after it\n"
    "  -t        check the configuration, print its files or all its errors, and exit\n"
    "  --offline do not ask the roles of url_prefixes for keys\n"
    "  --explain JOBFILE\n"
    "            print how the daemon would run the job in JOBFILE (-: standard input), and exit\n"
    "            with 0, or with 1 if the job would fail; reads the input, but needs no Redis\n"
    "  --json    print the explanation as one line of JSON\n"
    "  -h        this help\n"
    "  -V        version\n"
    "  --sample  print a sample configuration file\n"
    "  --mdoc    print the options in the format of gpuimgd.conf(5)\n"
    "\n"
    "Signals: TERM and INT: drain and exit, the second one at once; HUP: reload; USR1: write the\n"
    "stats line and the timeline; USR2: pause or resume fetching. Exit status: 0: stopped by a\n"
    "signal, 64: wrong usage, 70: fault of a GPU or worker, 78: wrong configuration.\n"
    "\n"
    "Options (default), as --name=value or --name value:\n";

static bool load_sources(const struct command_line *line, struct options *options,
                         struct errors *errors)
{
    FILE *paths = line->test ? stdout : NULL;
    double pipe_s = line->runs ? 0 : CONF_PIPE_S; /* a reload must not block the loop */
    bool good = line->file ? options_load(options, line->file, pipe_s, paths, errors)
                           : options_load_default(options, DEFAULT_FILE, pipe_s, paths, errors);
    for (int i = 0; i < line->count; i++) {
        struct error error = {0};
        if (!options_set(options, line->settings[i].name, line->settings[i].value, &error))
            good = errors_add(errors, &error);
    }
    return good;
}

/* A daemon_load. context: the struct command_line. */
static bool load(void *context, struct options *options, struct errors *errors)
{
    struct error error = {0}, http = {0}, shard = {0};
    if (!options_init(options, &error)) /* uncovered: memory (tests/coverage/reasons.txt) */
        return errors_add(errors, &error);
    bool good = load_sources(context, options, errors);
    good = options_check(options, errors) && good;
    good = (shard_check(options, &shard) || errors_add(errors, &shard)) && good;
    good = (http_server_check(options->metrics_listen, &http) || errors_add(errors, &http)) && good;
    return fetcher_check(options, errors) && good;
}

/* Takes a setting from the command line. Returns how many arguments it has: 1 for "--name=value", 2
 * for "--name" "value". After an unknown name, the next argument counts as its value, unless that
 * begins with "-". */
static int take_setting(struct command_line *line, const char *text, const char *next)
{
    struct setting *setting = &line->settings[line->count];
    struct options options = {0};
    struct error error = {0};
    size_t length = strcspn(text, "=");
    bool one = text[length] == '=';
    snprintf(setting->name, sizeof setting->name, "%.*s", (int)length, text);
    setting->value = one ? text + length + 1 : next;
    bool known = options_has(setting->name);
    if (known && setting->value) {
        line->count++;
        return one ? 1 : 2;
    }
    line->wrong = true;
    if (known || strcmp(setting->name, "explain") == 0)
        fprintf(stderr, "gpuimgd: the option --%s needs a value\n", setting->name);
    else if (!options_set(&options, setting->name, "", &error))
        fprintf(stderr, "gpuimgd: %s\n", error.text);
    return one || !next || *next == '-' ? 1 : 2;
}

/* After wrong usage: also prints which settings have wrong values. */
static void check_values(const struct command_line *line)
{
    struct options options = {0};
    for (int i = 0; i < line->count; i++) {
        struct error error = {0};
        if (!options_set(&options, line->settings[i].name, line->settings[i].value, &error))
            fprintf(stderr, "gpuimgd: %s\n", error.text);
    }
    options_clear(&options);
}

/* Prints the version, and the formats that this program cannot read or write. */
static void print_version(void)
{
    puts("gpuimgd " GPUIMGD_VERSION);
    for (const struct format *format = formats; format < formats + FORMAT_COUNT; format++) {
        const char *reads = codec_refusal(format, false);
        const char *writes = format->becomes ? NULL : codec_refusal(format, true);
        if (format->reads && (reads || writes))
            printf("no %s %s: %s\n", format_title(format), reads ? "files" : "outputs",
                   reads ? reads : writes);
    }
}

/* Parses the command line: handles -h, -V, -c and the like, and collects the settings. Returns an
 * exit status, or -1 to go on. */
static int parse(struct command_line *line, int argc, char **argv)
{
    line->settings = calloc((size_t)argc, sizeof *line->settings);
    if (!line->settings) { /* uncovered: memory */
        log_error("no memory to start");
        return EXIT_FAULT;
    }
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
            fputs(usage, stdout);
            options_print_help(stdout);
            return EXIT_OK;
        }
        if (strcmp(argument, "-V") == 0 || strcmp(argument, "--version") == 0) {
            print_version();
            return EXIT_OK;
        }
        if (strcmp(argument, "--sample") == 0) {
            options_print_sample(stdout);
            return EXIT_OK;
        }
        if (strcmp(argument, "--mdoc") == 0) {
            options_print_mdoc(stdout);
            return EXIT_OK;
        }
        if (strcmp(argument, "-t") == 0) {
            line->test = true;
        } else if (strcmp(argument, "--offline") == 0) {
            line->offline = true;
        } else if (strcmp(argument, "--explain") == 0 && i + 1 < argc) {
            line->explain = argv[++i];
        } else if (strcmp(argument, "--json") == 0) {
            line->json = true;
        } else if (strcmp(argument, "-c") == 0 && i + 1 < argc) {
            line->file = argv[++i];
        } else if (strncmp(argument, "-c", 2) == 0 && argument[2]) {
            line->file = argument + 2;
        } else if (strncmp(argument, "--", 2) == 0 && argument[2]) {
            i += take_setting(line, argument + 2, argv[i + 1]) - 1;
        } else {
            char shown[OPTION_SHOWN_BYTES];
            fprintf(stderr, "gpuimgd: unknown argument \"%s\"\n",
                    mask_copy(shown, sizeof shown, argument));
            line->wrong = true;
        }
    }
    if (line->json && !line->explain && !line->wrong) {
        fputs("gpuimgd: --json requires --explain\n", stderr);
        line->wrong = true;
    }
    if (line->offline && !line->test && !line->wrong) {
        fputs("gpuimgd: --offline requires -t\n", stderr);
        line->wrong = true;
    }
    if (!line->wrong)
        return -1;
    check_values(line);
    fputs("gpuimgd -h lists all options\n", stderr);
    return EXIT_USAGE;
}

static void say_missing_key(const char *text)
{
    log_warning("%s; without this the daemon does not start", text);
}

/* Checks the keys for signing. A missing key is only a warning, because the service has another
 * environment, other credentials and perhaps another host than the user who runs `gpuimgd -t`. */
static void warn_of_keys(const struct options *options, bool offline)
{
    struct errors errors = {.say = say_missing_key};
    if (fetcher_check_keys(options, &errors) && !offline)
        fetcher_try_roles(options);
}

/* gpuimgd -t: checks all files that the configuration names, even if other options have errors.
 * Returns the exit status. */
static int check(const struct options *options, bool offline, struct errors *errors)
{
    preflight_start(options, errors);
    preflight_connect(options, errors);
    if (errors->count > 0)
        return EXIT_CONFIGURATION;
    warn_of_keys(options, offline);
    fetcher_warn_of_order(options);
    puts("the configuration is good");
    return EXIT_OK;
}

static void say_error(const char *text)
{
    log_error("%s", text);
}

int main(int argc, char **argv)
{
    static struct command_line line;
    struct options options;
    struct errors errors = {.say = say_error};
    log_init();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* so that a write beyond RLIMIT_FSIZE only fails */
    umask(022);
    int status = parse(&line, argc, argv);
    if (status >= 0)
        return status;
    bool good = load(&line, &options, &errors);
    if (good && !line.test && !line.explain)
        preflight_start(&options, &errors);
    if (line.test) {
        status = check(&options, line.offline, &errors);
    } else if (errors.count > 0) {
        notify_status("%s", errors.first.text);
        status = EXIT_CONFIGURATION;
    } else if (line.explain) {
        log_set_level(log_level_parse(options.log_level));
        status = explain_job(&options, line.explain, line.json, stdout) ? EXIT_OK : EXIT_FAILURE;
    } else {
        bool abrupt;
        log_set_level(log_level_parse(options.log_level));
        line.runs = true;
        status = daemon_run(&options, load, &line, &abrupt);
        if (abrupt)
            _exit(status);
    }
    options_clear(&options);
    return status;
}
