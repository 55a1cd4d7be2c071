/* explain.c - gpuimgctl explain: runs gpuimgd --explain with gpuimgctl's configuration. */
/* uncovered file: exec */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "queue/ctl/ctl.h"

#define ARGUMENTS_MAX (CTL_VALUES_MAX + 10)

/* Runs the gpuimgd that was installed or built with this program, or else the one in PATH. */
static void run_daemon(char *const *arguments)
{
    static const char *const places[] = {"gpuimgd", "../sbin/gpuimgd"};
    char self[PATH_MAX], path[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < 2; i++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - self), self, places[i]);
        execv(path, arguments);
    }
    execvp("gpuimgd", arguments);
}

/* Returns "--name=value", malloc'd. execv replaces the program, so nothing frees it. */
static char *setting(struct ctl *ctl, const char *name, const char *value)
{
    char *text = NULL;
    if (asprintf(&text, "--%s=%s", name, value) < 0)
        ctl_out_of_memory(ctl, "an option");
    return text;
}

int ctl_explain(struct ctl *ctl, int count, char **operands)
{
    static const char *const direct[] = {"redis", "namespace"}; /* parsed as options of gpuimgctl */
    char *arguments[ARGUMENTS_MAX] = {"gpuimgd"};
    int last = 1;
    if (count != 1)
        ctl_usage(ctl, count ? "explain takes one JOBFILE, but got more"
                             : "JOBFILE is missing: give the file of the job to explain");
    if (ctl->file) {
        arguments[last++] = "-c";
        arguments[last++] = (char *)ctl->file;
    }
    for (int i = 0; i < ctl->setting_count; i++)
        arguments[last++] = setting(ctl, ctl->settings[i].name, ctl->settings[i].value);
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
        if (ctl_value(ctl, direct[i]))
            arguments[last++] = setting(ctl, direct[i], ctl_value(ctl, direct[i]));
    if (ctl->json)
        arguments[last++] = "--json";
    arguments[last++] = "--explain";
    arguments[last] = operands[0];
    run_daemon(arguments);
    ctl_say("cannot run gpuimgd, neither from gpuimgctl's folder nor from PATH: %s",
            strerror(errno));
    return CTL_FAULT;
}
