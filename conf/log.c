#include "conf/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "conf/mask.h"
#include "conf/text.h"

#define LINE_MAX_BYTES 2048

static _Atomic int level_now = LOG_LEVEL_INFO;
static bool under_journald;

static const char *const level_names[LOG_LEVEL_DEBUG + 1] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_INFO] = "info",   [LOG_LEVEL_DEBUG] = "debug",
};

void log_init(void)
{
    /* systemd sets JOURNAL_STREAM to the device and inode of our standard error. A child with
     * another standard error inherits the variable, so compare them. */
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device = 0, inode = 0;
    struct stat info;
    under_journald = stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
                     fstat(STDERR_FILENO, &info) == 0 && info.st_dev == device &&
                     info.st_ino == inode;
}

void log_set_level(enum log_level level)
{
    atomic_store(&level_now, (int)level);
}

enum log_level log_level_parse(const char *name)
{
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++)
        if (level_names[level] && strcmp(level_names[level], name) == 0)
            return level;
    return 0;
}

static int write_prefix(char *line, size_t size, enum log_level level)
{
    if (under_journald)
        return snprintf(line, size, "<%d>", (int)level);
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    return snprintf(line, size, "%s.%03ldZ %-7s ", stamp, now.tv_nsec / 1000000,
                    level_names[level]);
}

void log_text(enum log_level level, const char *text)
{
    if ((int)level > atomic_load(&level_now)) /* uncovered: promise */
        return;
    char line[LINE_MAX_BYTES];
    int start = write_prefix(line, sizeof line, level);
    /* A message that is too long is cut, not dropped. Leave room for the newline. */
    text_copy(line + start, sizeof line - (size_t)start - 1, text);
    mask_text(line + start, MASK_MESSAGE);
    text_make_printable(line + start);
    size_t length = strlen(line);
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* there is no other place to report the error */
}

void log_at(enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load(&level_now)) /* uncovered: promise */
        return;
    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_text(level, text);
}
