/* main.c - the command line; the only place that knows exit codes other than daemon_run's. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/options.h"
#include "daemon/daemon.h"
#include "daemon/explain.h"
#include "daemon/http/server.h"
#include "daemon/notify.h"
#include "queue/redis/connection.h"

#define DEFAULT_FILE "/etc/gpuimgd/gpuimgd.conf"

struct command_line {
    const char *file; /* NULL: DEFAULT_FILE, which may be missing */
    bool test;
    const char *explain; /* NULL: run */
    bool json;
    int count;        /* of settings */
    char **settings;  /* "name=value", or "name" and behind it the value */
};

static const char usage[] =
    "usage: gpuimgd [-c FILE] [-t | --explain JOBFILE [--json]] [--name=value ...]\n"
    "\n"
    "Takes image jobs from a Redis list, carries them out on the GPU or the CPU, posts results.\n"
    "\n"
    "  -c FILE   configuration (default " DEFAULT_FILE ", where it exists);\n"
    "            conf.d/*.conf beside it are read after it\n"
    "  -t        check the configuration, name the files that were read, and exit\n"
    "  --explain JOBFILE\n"
    "            print how the job in the file (-: standard input) would be carried out, and\n"
    "            exit (0; 1: it would fail); reads its input, needs no Redis, writes nothing\n"
    "  --json    explain as one line of JSON\n"
    "  -h        this help\n"
    "  -V        version\n"
    "  --sample  print a sample configuration file\n"
    "  --mdoc    print the options as they stand in gpuimgd.conf(5)\n"
    "\n"
    "Signals: TERM, INT drain and exit (twice: at once); HUP reload; USR1 a stats line and the\n"
    "timeline now; USR2 pause and resume fetching. Exit status: 0 stopped, 64 usage, 70 GPU or\n"
    "worker fault, 78 configuration.\n"
    "\n"
    "Options (default), as --name=value or --name value:\n";

/* Returns how many words it took, 0 with the error set. */
static int apply_setting(struct options *options, char *const *words, struct error *error)
{
    size_t length = strcspn(words[0], "=");
    bool one = words[0][length] == '=';
    char *name = strndup(words[0], length);
    bool ok = name && options_set(options, name, one ? words[0] + length + 1 : words[1], error);
    free(name);
    return !ok ? 0 : one ? 1 : 2;
}

static bool load(void *context, struct options *options, struct error *error)
{
    const struct command_line *line = context;
    const char *file = line->file ? line->file : DEFAULT_FILE;
    if (!options_init(options, error))
        return false;
    if ((line->file || access(file, F_OK) == 0) &&
        !options_load(options, file, line->test ? stdout : NULL, error))
        return false;
    for (int i = 0, took; i < line->count; i += took)
        if ((took = apply_setting(options, line->settings + i, error)) == 0)
            return false;
    struct redis_address address;
    return options_check(options, error) &&
           redis_address_parse(&address, options->redis, error) == STATUS_OK &&
           web_check(options->metrics_listen, error);
}

/* How many words the setting has, 0 where it is none: "name=..." with a name of the table, or the
 * name and one more word. The value is checked later. */
static int setting_words(const char *text, const char *next)
{
    size_t length = strcspn(text, "=");
    char name[64];
    if (length >= sizeof name)
        return 0;
    memcpy(name, text, length);
    name[length] = '\0';
    if (!options_has(name))
        return 0;
    return text[length] == '=' ? 1 : next ? 2 : 0;
}

static int refuse_setting(const char *text)
{
    char name[64];
    struct options options = {0};
    struct error error = {0};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    if (options_has(name) || strcmp(name, "explain") == 0)
        fprintf(stderr, "gpuimgd: the option --%s needs a value\n", name);
    else if (!options_set(&options, name, "", &error))
        fprintf(stderr, "gpuimgd: %s\n", error.text);
    fputs("gpuimgd -h shows what there is\n", stderr);
    return EXIT_USAGE;
}

/* The options that are ours rather than the table's are taken out; what is left is settings. */
static int parse(struct command_line *line, int argc, char **argv)
{
    line->settings = argv; /* overwritten from the front; never overtakes the reading */
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
            fputs(usage, stdout);
            options_print_help(stdout);
            return EXIT_OK;
        }
        if (strcmp(argument, "-V") == 0 || strcmp(argument, "--version") == 0) {
            puts("gpuimgd " GPUIMGD_VERSION);
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
        } else if (strcmp(argument, "--explain") == 0 && i + 1 < argc) {
            line->explain = argv[++i];
        } else if (strcmp(argument, "--json") == 0) {
            line->json = true;
        } else if (strcmp(argument, "-c") == 0 && i + 1 < argc) {
            line->file = argv[++i];
        } else if (strncmp(argument, "-c", 2) == 0 && argument[2]) {
            line->file = argument + 2;
        } else if (strncmp(argument, "--", 2) == 0 && argument[2]) {
            int words = setting_words(argument + 2, argv[i + 1]);
            if (words == 0)
                return refuse_setting(argument + 2);
            line->settings[line->count++] = argv[i] + 2;
            if (words == 2)
                line->settings[line->count++] = argv[++i];
        } else {
            fprintf(stderr, "gpuimgd: \"%s\" is not understood; -h shows what is\n", argument);
            return EXIT_USAGE;
        }
    }
    if (line->json && !line->explain) {
        fputs("gpuimgd: --json is of no use without --explain\n", stderr);
        return EXIT_USAGE;
    }
    return -1;
}

/* A warning, because the one who asks may see other folders than the service does. */
static void look_at_folder(const char *option, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        log_warning("option %s is \"%s\": %s", option, path, strerror(errno));
    else if (!S_ISDIR(info.st_mode))
        log_warning("option %s is \"%s\", which is no folder", option, path);
}

int main(int argc, char **argv)
{
    struct command_line line = {0};
    struct options options;
    struct error error = {0};
    log_init();
    signal(SIGPIPE, SIG_IGN);
    umask(022);
    int status = parse(&line, argc, argv);
    if (status >= 0)
        return status;
    if (!load(&line, &options, &error)) {
        log_error("%s", error.text);
        if (!line.test)
            notify_status("%s", error.text);
        options_clear(&options);
        return EXIT_CONFIGURATION;
    }
    if (line.test) {
        look_at_folder("input_root", options.input_root);
        look_at_folder("output_root", options.output_root);
        puts("the configuration is good");
        options_clear(&options);
        return EXIT_OK;
    }
    log_set_level(log_level_parse(options.log_level));
    if (line.explain) {
        bool good = explain_job(&options, line.explain, line.json, stdout);
        options_clear(&options);
        return good ? EXIT_OK : EXIT_FAILURE;
    }
    struct daemon_source source = {load, &line};
    bool abrupt;
    status = daemon_run(&options, &source, &abrupt);
    if (abrupt)
        _exit(status);
    options_clear(&options);
    return status;
}
