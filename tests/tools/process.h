/*
 * process.h - a forked gpuimgd (or any program) under test, and what it tells the world.
 *
 * Its standard error goes to a file, its service notifications (sd_notify) to a socket of ours,
 * where they are kept as lines. It dies with the test that started it. Functions that wait take
 * seconds, stretched by patience() on slow builds.
 */
#ifndef GPUIMGD_TESTS_TOOLS_PROCESS_H
#define GPUIMGD_TESTS_TOOLS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct process_options {
    const char *program;         /* NULL: $GPUIMGD */
    const char *const *args;     /* after the program's name, ended by NULL */
    const char *folder;          /* where `NAME.err`, `NAME.out` and `NAME.sock` are made */
    const char *name;
    double watchdog_s;           /* 0: no watchdog is asked for */
    bool unprivileged;           /* without the right to pass over file modes, even as root */
    bool abstract_notify;        /* NOTIFY_SOCKET is a name in the abstract namespace */
    bool no_openat2;             /* as under an old kernel, or the unit's RestrictSUIDSGID */
};

struct process {
    pid_t pid;                   /* 0: not running */
    int status;                  /* as waitpid gave it, once it has ended */
    int notify_fd;
    char log_path[256], out_path[256], notify_path[256];
    char *notes;                 /* every notification, a line each; never NULL while started */
    size_t notes_length;
};

/* Seconds times GPUIMGD_TEST_SLOW; without it, times 3 under a sanitizer. */
double patience(double seconds);
double process_now(void); /* CLOCK_MONOTONIC in seconds */
void process_sleep(double seconds);

/* false: it could not be forked. A program that cannot be executed exits with 127. */
bool process_start(struct process *process, const struct process_options *options);
/* Kills and forgets; its files stay. Idempotent. */
void process_clear(struct process *process);

void process_signal(struct process *process, int signal);
/* Kills it with SIGKILL and waits. */
void process_kill9(struct process *process);
/* Its exit status, 128 + signal where one ended it, -1 when it still runs after `seconds`. */
int process_wait(struct process *process, double seconds);
bool process_running(struct process *process);

/* Waits until a notification line after the `mark` first bytes of notes holds `text`. */
bool process_noted(struct process *process, size_t mark, const char *text, double seconds);
/* Takes in what has been sent by now and returns the length of notes, to be used as a mark. */
size_t process_mark(struct process *process);

/* Sends to the socket for notifications until it takes no more. false: it could not. */
bool process_fill_notes(struct process *process);
/* Closes the socket for notifications: from then on they fail at the sender, as without systemd. */
void process_stop_listening(struct process *process);

/* All of its standard error (or output) so far, malloc'd, never NULL. */
char *process_log(const struct process *process);
char *process_out(const struct process *process);
/* Bytes of the log so far, as a mark. */
size_t process_log_mark(const struct process *process);
/* Waits until the log holds `text` behind `mark`; process_log_count counts it. */
bool process_logged(struct process *process, size_t mark, const char *text, double seconds);
size_t process_log_count(const struct process *process, size_t mark, const char *text);

/* Resident memory in KiB, now and at most so far; 0 when it is gone. */
size_t process_rss_kib(const struct process *process);
size_t process_peak_kib(const struct process *process);
/* How many file descriptors it has open (and two more, the same each time). */
size_t process_descriptors(const struct process *process);
/* User and system seconds so far; of an ended one, 0. */
double process_cpu_s(const struct process *process);

#endif
