#include "tests/tools/ctl.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* As a shell's command line, malloc'd. */
static char *full_line(struct world *world, const char *line)
{
    char *full = NULL;
    if (asprintf(&full,
                 "cd %s; at='--redis=%s --namespace=%s --input_root=%s --output_root=%s "
                 "--command_timeout_s=%g'; ctl() { \"$GPUIMGCTL\" \"$@\"; }; %s",
                 world->folder, world->redis ? world->redis->address : "unix:/nowhere", world->ns,
                 world->in, world->out, patience(5), line) < 0)
        abort();
    return full;
}

struct process ctl_begin(struct world *world, const char *line)
{
    static unsigned count; /* several may be under way, each with files of its own */
    struct process process;
    char *full = full_line(world, line), name[32];
    const char *args[] = {"-c", full, NULL};
    struct process_options options = {
        .program = "/bin/sh", .args = args, .folder = world->folder, .name = name};
    snprintf(name, sizeof name, "ctl-%u", count++);
    assert_true(process_start(&process, &options));
    free(full);
    return process;
}

struct ctl_run ctl_end(struct process *process)
{
    struct ctl_run run = {.status = process_wait(process, patience(60))};
    run.out = process_out(process);
    run.err = process_log(process);
    unlink(process->out_path);
    unlink(process->log_path);
    process_clear(process);
    return run;
}

struct ctl_run ctl_run(struct world *world, const char *format, ...)
{
    char *line = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&line, format, args) < 0)
        abort();
    va_end(args);
    struct process process = ctl_begin(world, line);
    free(line);
    return ctl_end(&process);
}

void ctl_clear(struct ctl_run *run)
{
    free(run->out);
    free(run->err);
    run->out = run->err = NULL;
}

void ctl_expect(struct world *world, int status, const char *line, ...)
{
    struct ctl_run run = ctl_run(world, "%s", line);
    const char *text;
    va_list texts;
    if (run.status != status)
        fail_msg("%s: exit status %d, not %d\n%s%s", line, run.status, status, run.out, run.err);
    va_start(texts, line);
    while ((text = va_arg(texts, const char *)))
        if (!strstr(run.out, text) && !strstr(run.err, text))
            fail_msg("%s: there is no \"%s\" in\n%s%s", line, text, run.out, run.err);
    va_end(texts);
    ctl_clear(&run);
}

cJSON *ctl_json(struct world *world, int status, const char *line)
{
    struct ctl_run run = ctl_run(world, "%s", line);
    cJSON *list = cJSON_CreateArray();
    if (run.status != status)
        fail_msg("%s: exit status %d, not %d\n%s%s", line, run.status, status, run.out, run.err);
    for (char *rest = run.out, *each; (each = strtok_r(rest, "\n", &rest));) {
        cJSON *json = cJSON_ParseWithOpts(each, NULL, true);
        if (!json)
            fail_msg("%s: this is no JSON: %s", line, each);
        cJSON_AddItemToArray(list, json);
    }
    ctl_clear(&run);
    return list;
}

/* ---- a terminal ------------------------------------------------------------------------------ */

void ctl_open_terminal(struct ctl_terminal *terminal, struct world *world, int columns,
                       const char *line)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    char *full = full_line(world, line);
    memset(terminal, 0, sizeof *terminal);
    terminal->pid = forkpty(&terminal->fd, NULL, NULL, &size);
    assert_true(terminal->pid >= 0);
    if (terminal->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", full, (char *)NULL);
        _exit(127);
    }
    free(full);
}

/* false: it has ended, or nothing came for so long. */
static bool read_more(struct ctl_terminal *terminal, double seconds)
{
    struct pollfd input = {.fd = terminal->fd, .events = POLLIN};
    if (terminal->fd < 0 || poll(&input, 1, (int)(seconds * 1000)) <= 0)
        return false;
    if (terminal->length > sizeof terminal->text / 2) { /* the end is what is looked at */
        terminal->length -= sizeof terminal->text / 4;
        memmove(terminal->text, terminal->text + sizeof terminal->text / 4, terminal->length);
    }
    ssize_t got = read(terminal->fd, terminal->text + terminal->length,
                       sizeof terminal->text - 1 - terminal->length);
    if (got <= 0)
        return false;
    terminal->length += (size_t)got;
    terminal->text[terminal->length] = '\0';
    return true;
}

bool ctl_shows(struct ctl_terminal *terminal, const char *text)
{
    double end = process_now() + patience(60);
    while (!text || !strstr(terminal->text, text))
        if (!read_more(terminal, end - process_now() > 0 ? end - process_now() : 0))
            return text == NULL;
    return true;
}

void ctl_type(struct ctl_terminal *terminal, const char *keys)
{
    assert_int_equal(write(terminal->fd, keys, strlen(keys)), strlen(keys));
}

int ctl_close_terminal(struct ctl_terminal *terminal)
{
    int status;
    if (terminal->pid <= 0)
        return terminal->status;
    ctl_shows(terminal, NULL);
    waitpid(terminal->pid, &status, 0);
    close(terminal->fd);
    terminal->pid = 0;
    terminal->fd = -1;
    terminal->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return terminal->status;
}
