/*
 * log.h - writes log messages to standard error, one line per message.
 *
 * If standard error goes to journald (see JOURNAL_STREAM), a line begins with the <N> priority
 * prefix of sd-daemon(3). Otherwise it begins with a UTC timestamp and the level. Secrets of URLs
 * are removed from a message (mask.h), and control characters become '?'. Any thread, except
 * log_init. Lines of different threads do not mix, because each is written by one write(2).
 */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Values are syslog's priorities: a lower value is more urgent. */
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

/* Detects journald. Call once at the beginning of main. */
void log_init(void);
/* Drops messages that are less urgent than this level. The default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
/* Returns the level named "error", "warning", "info" or "debug"; 0 for other names. */
enum log_level log_level_parse(const char *name);

void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_text(enum log_level level, const char *text);

#define log_error(...)   log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
