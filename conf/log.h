/*
 * log.h - one line a message, to standard error.
 *
 * Under journald (JOURNAL_STREAM names our stderr) a line begins with the <N> priority prefix of
 * sd-daemon(3); elsewhere with a UTC timestamp and the level. Any thread may log; a line is one
 * write(2). The level may be changed at any time.
 */
#ifndef GPUIMGD_CONF_LOG_H
#define GPUIMGD_CONF_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* Values are syslog's priorities. */
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

/* Looks at standard error and remembers how to prefix lines. Call once, first thing in main. */
void log_init(void);
void log_set_level(enum log_level level);
/* "error", "warning", "info" or "debug"; returns 0 for anything else. */
enum log_level log_level_parse(const char *name);

void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like log_at for text that came from outside and may hold control bytes: they become '?'. All
 * of the above do the same; this one exists for text without a format. */
void log_text(enum log_level level, const char *text);

#define log_error(...)   log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
