#include "tests/tools/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/tools/call_filter.h"
#include "tests/tools/text_file.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_DEFAULT 3.0
#else
#define SLOW_DEFAULT 1.0
#endif

double patience(double seconds)
{
    const char *slow = getenv("GPUIMGD_TEST_SLOW");
    double factor = slow ? strtod(slow, NULL) : SLOW_DEFAULT;
    return seconds * (factor > 0 ? factor : 1);
}

double process_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void process_sleep(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* As in sd_notify(3): a path, or behind '@' a name in the abstract namespace. 0: too long. */
static socklen_t notify_address(const char *path, struct sockaddr_un *address)
{
    size_t length = strlen(path);
    if (length >= sizeof address->sun_path)
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, length);
    if (*path == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static int notify_socket(const char *path)
{
    struct sockaddr_un address;
    socklen_t length = notify_address(path, &address);
    if (length == 0)
        return -1;
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int room = 1 << 20;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&address, length)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Root passes over file modes by these two; without them it meets EACCES as anyone does. */
static void drop_file_rights(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capget, &header, data))
        return;
    uint32_t mask = ~((1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH));
    data[0].effective &= mask;
    data[0].permitted &= mask;
    data[0].inheritable &= mask;
    prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
    prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0);
    if (syscall(SYS_capset, &header, data))
        _exit(126);
}

static void run_child(const struct process *process, const struct process_options *options)
{
    const char *program = options->program ? options->program : getenv("GPUIMGD");
    const char *argv[64] = {program ? program : "gpuimgd"};
    size_t count = 1;
    for (const char *const *arg = options->args; arg && *arg && count < 63; arg++)
        argv[count++] = *arg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int out = open(process->out_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int err = open(process->log_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int in = open("/dev/null", O_RDONLY);
    if (out < 0 || err < 0 || in < 0)
        _exit(126);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    setenv("NOTIFY_SOCKET", process->notify_path, 1);
    unsetenv("JOURNAL_STREAM");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    if (options->watchdog_s > 0) {
        char text[32];
        snprintf(text, sizeof text, "%.0f", options->watchdog_s * 1e6);
        setenv("WATCHDOG_USEC", text, 1);
        snprintf(text, sizeof text, "%ld", (long)getpid());
        setenv("WATCHDOG_PID", text, 1);
    }
    if (options->unprivileged)
        drop_file_rights();
    if (options->no_openat2 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                                !call_refuse(SYS_openat2, ENOSYS)))
        _exit(126);
    execv(argv[0], (char *const *)argv);
    dprintf(2, "cannot execute %s (is GPUIMGD set?): %s\n", argv[0], strerror(errno));
    _exit(127);
}

bool process_start(struct process *process, const struct process_options *options)
{
    memset(process, 0, sizeof *process);
    snprintf(process->log_path, sizeof process->log_path, "%s/%s.err", options->folder,
             options->name);
    snprintf(process->out_path, sizeof process->out_path, "%s/%s.out", options->folder,
             options->name);
    snprintf(process->notify_path, sizeof process->notify_path, "%s%s/%s.sock",
             options->abstract_notify ? "@" : "", options->folder, options->name);
    process->notify_fd = notify_socket(process->notify_path);
    process->notes = calloc(1, 1);
    if (process->notify_fd < 0 || !process->notes) {
        process_clear(process);
        return false;
    }
    fflush(NULL);
    process->pid = fork();
    if (process->pid == 0)
        run_child(process, options);
    if (process->pid < 0)
        process->pid = 0;
    return process->pid != 0;
}

void process_clear(struct process *process)
{
    process_kill9(process);
    if (process->notify_path[0]) {
        if (process->notify_fd >= 0)
            close(process->notify_fd);
        unlink(process->notify_path);
    }
    free(process->notes);
    memset(process, 0, sizeof *process);
    process->notify_fd = -1;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void process_signal(struct process *process, int signal)
{
    if (process->pid > 0)
        kill(process->pid, signal);
}

void process_kill9(struct process *process)
{
    if (process->pid <= 0)
        return;
    kill(process->pid, SIGKILL);
    waitpid(process->pid, &process->status, 0);
    process->pid = 0;
}

bool process_running(struct process *process)
{
    if (process->pid > 0 && waitpid(process->pid, &process->status, WNOHANG) == process->pid)
        process->pid = 0;
    return process->pid > 0;
}

int process_wait(struct process *process, double seconds)
{
    double deadline = process_now() + patience(seconds);
    while (process_running(process)) {
        if (process_now() > deadline)
            return -1;
        process_mark(process);
        process_sleep(0.002);
    }
    process_mark(process);
    return WIFSIGNALED(process->status) ? 128 + WTERMSIG(process->status)
                                        : WEXITSTATUS(process->status);
}

/* ---- what it says ---------------------------------------------------------------------------- */

size_t process_mark(struct process *process)
{
    char datagram[4096];
    ssize_t got;
    while (process->notes && process->notify_fd >= 0 &&
           (got = recv(process->notify_fd, datagram, sizeof datagram - 1, MSG_DONTWAIT)) >= 0) {
        char *longer = realloc(process->notes, process->notes_length + (size_t)got + 2);
        if (!longer)
            break;
        memcpy(longer + process->notes_length, datagram, (size_t)got);
        process->notes_length += (size_t)got;
        longer[process->notes_length++] = '\n';
        longer[process->notes_length] = '\0';
        process->notes = longer;
    }
    return process->notes_length;
}

bool process_noted(struct process *process, size_t mark, const char *text, double seconds)
{
    double deadline = process_now() + patience(seconds);
    for (;;) {
        bool running = process_running(process);
        if (process_mark(process) > mark && strstr(process->notes + mark, text))
            return true;
        double left = deadline - process_now();
        if (!running || left <= 0)
            return false;
        struct pollfd wait = {.fd = process->notify_fd, .events = POLLIN};
        poll(&wait, 1, left < 0.05 ? 5 : 50);
    }
}

bool process_fill_notes(struct process *process)
{
    struct sockaddr_un address;
    socklen_t length = notify_address(process->notify_path, &address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool sent_any = false, full = false;
    for (ssize_t sent = 0; fd >= 0 && !full;) {
        sent = sendto(fd, "X", 1, 0, (struct sockaddr *)&address, length);
        if (sent > 0) {
            sent_any = true;
            continue;
        }
        if (errno != EAGAIN)
            break;
        /* Either the queue is full, or what this socket may have under way: then another one can
         * still send. What is sent stays sent. */
        full = !sent_any;
        sent_any = false;
        close(fd);
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd >= 0)
        close(fd);
    return full;
}

void process_stop_listening(struct process *process)
{
    process_mark(process);
    if (process->notify_fd >= 0)
        close(process->notify_fd);
    process->notify_fd = -1;
    unlink(process->notify_path);
}

char *process_log(const struct process *process)
{
    return text_file_read(process->log_path);
}

char *process_out(const struct process *process)
{
    return text_file_read(process->out_path);
}

size_t process_log_mark(const struct process *process)
{
    struct stat st;
    return stat(process->log_path, &st) ? 0 : (size_t)st.st_size;
}

size_t process_log_count(const struct process *process, size_t mark, const char *text)
{
    char *log = process_log(process);
    size_t count = 0, length = strlen(log);
    for (char *at = mark < length ? strstr(log + mark, text) : NULL; at; at = strstr(at + 1, text))
        count++;
    free(log);
    return count;
}

bool process_logged(struct process *process, size_t mark, const char *text, double seconds)
{
    double deadline = process_now() + patience(seconds);
    for (;;) {
        bool running = process_running(process);
        if (process_log_count(process, mark, text) > 0)
            return true;
        if (!running || process_now() > deadline)
            return false;
        process_mark(process);
        process_sleep(0.01);
    }
}

/* A line of /proc/PID/status, such as "VmRSS:". */
static size_t status_number(const struct process *process, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process->pid);
    char *status = text_file_read(path);
    char *line = strstr(status, name);
    size_t number = line ? strtoul(line + strlen(name), NULL, 10) : 0;
    free(status);
    return number;
}

size_t process_rss_kib(const struct process *process)
{
    return status_number(process, "VmRSS:");
}

size_t process_peak_kib(const struct process *process)
{
    return status_number(process, "VmHWM:");
}

size_t process_descriptors(const struct process *process)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)process->pid);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

double process_cpu_s(const struct process *process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process->pid);
    char *stat_text = text_file_read(path);
    /* The name in parentheses may hold anything; utime and stime are fields 14 and 15. */
    char *after = strrchr(stat_text, ')');
    unsigned long user = 0, system = 0;
    if (after)
        sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    free(stat_text);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}
