#include "daemon/preflight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/content.h"
#include "daemon/files/files.h"
#include "daemon/http/http_server.h"
#include "queue/redis/connection.h"
#include "queue/redis/tls.h"

/* Checks the path of a file that the daemon replaces by a new one: its folder must be writable. A
 * device or a FIFO is not checked; the daemon reports it when it opens the file. */
static void check_replaced(const char *option, const char *path, struct errors *errors)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (!*path || (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)))
        return;
    char *folder = !slash ? strdup(".") : strndup(path, slash > path ? (size_t)(slash - path) : 1);
    if (folder && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        errors_addf(errors, "option %s is \"%s\", which is a folder", option, path);
    else if (folder && access(folder, W_OK | X_OK) != 0)
        errors_addf(errors, "option %s is \"%s\", whose folder cannot be written: %s", option, path,
                    strerror(errno));
    free(folder);
}

static void check_password(const char *option, const char *path, struct errors *errors)
{
    struct error error = {0};
    if (*path && !redis_password_check(path, &error))
        errors_addf(errors, "option %s: %s", option, error.text);
}

static void check_content(const char *option, const char *path, struct errors *errors)
{
    struct error error = {0};
    size_t length;
    char *content = *path ? content_read(path, 0, &length, &error) : NULL;
    if (*path && !content)
        errors_addf(errors, "option %s: %s", option, error.text);
    free(content);
}

void preflight_start(const struct options *options, struct errors *errors)
{
    struct error form = {0}, host = {0};
    files_check_roots(options->input_root, options->output_root, errors);
    check_replaced("trace", options->trace, errors);
    check_replaced("timeline", options->timeline, errors);
    /* main.c has already reported a value that cannot be parsed. */
    if (http_server_check(options->metrics_listen, &form) &&
        !http_server_check_host(options->metrics_listen, &host))
        errors_add(errors, &host);
}

void preflight_connect(const struct options *options, struct errors *errors)
{
    check_password("redis_password_file", options->redis_password_file, errors);
    check_password("sentinel_password_file", options->sentinel_password_file, errors);
    tls_check_files(options, errors);
    check_content("url_ca_file", options->url_ca_file, errors);
}
