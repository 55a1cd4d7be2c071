/* machine.c - reads the limits of control groups (cgroup v2 and v1). It does so itself, because
 * libuv before 1.49 ignores CPU quotas, and no libuv reads the memory limits of a cgroup's
 * parents. */
#include "daemon/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <uv.h>

#include "conf/limits.h"
#include "conf/text.h"

/* Room for the path of a cgroup and the name of a file in it. */
#define PATH_BYTES (PATH_MAX + 64)

/* ---- files ---------------------------------------------------------------------------------- */

/* Reads the first line of folder/name. Writes the path of the file to `path`. */
static bool read_line(const char *folder, const char *name, char path[PATH_BYTES], char line[64])
{
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    FILE *file = length < PATH_BYTES ? fopen(path, "re") : NULL;
    bool good = file && fgets(line, 64, file);
    if (file)
        fclose(file);
    return good;
}

/* false: the text is no number, so there is no limit ("max" in v2, -1 in v1). Without a memory
 * limit, v1 has a number of almost 2^63 bytes, which limits nothing. */
static bool parse_limit(const char *text, uint64_t *limit)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *limit = strtoull(text, &end, 10);
    return *end == '\n' || *end == ' ' || *end == '\0';
}

static void lower_memory(struct machine *machine, const char *folder, const char *name)
{
    char path[PATH_BYTES], line[64];
    uint64_t bytes;
    if (!read_line(folder, name, path, line) || !parse_limit(line, &bytes) ||
        bytes >= machine->memory_bytes)
        return;
    machine->memory_bytes = bytes;
    text_copy(machine->memory_limit, sizeof machine->memory_limit, path);
}

/* Rounds down to whole CPUs. With more workers than that, the process would use up its quota, and
 * the kernel would stop all threads for the rest of each period, also the loop, which renews
 * leases. */
static void lower_cpus(struct machine *machine, const char *path, uint64_t quota, uint64_t period)
{
    uint64_t cpus = quota < period ? 1 : quota / period;
    if (cpus > machine->cpus)
        return;
    machine->cpus = cpus;
    text_copy(machine->cpu_limit, sizeof machine->cpu_limit, path);
}

/* ---- cgroups -------------------------------------------------------------------------------- */

static void apply_v2(struct machine *machine, const char *folder)
{
    char path[PATH_BYTES], line[64];
    uint64_t quota, period;
    lower_memory(machine, folder, "memory.max");
    lower_memory(machine, folder, "memory.high"); /* above it the kernel slows the process down */
    if (read_line(folder, "cpu.max", path, line) && parse_limit(line, &quota) &&
        parse_limit(line + strcspn(line, " ") + 1, &period) && period > 0)
        lower_cpus(machine, path, quota, period);
}

static void apply_v1_memory(struct machine *machine, const char *folder)
{
    lower_memory(machine, folder, "memory.limit_in_bytes");
}

static void apply_v1_cpu(struct machine *machine, const char *folder)
{
    char path[PATH_BYTES], line[64];
    uint64_t quota, period;
    if (read_line(folder, "cpu.cfs_period_us", path, line) && parse_limit(line, &period) &&
        period > 0 && read_line(folder, "cpu.cfs_quota_us", path, line) &&
        parse_limit(line, &quota))
        lower_cpus(machine, path, quota, period);
}

/* Applies the limits of a cgroup and of all its parents. Some folders may not exist: a container
 * may see the path that its cgroup has on the host, but only its own cgroup in /sys/fs/cgroup. */
static void apply_cgroup(struct machine *machine, const char *root, const char *mount, char *cgroup,
                         void (*apply)(struct machine *, const char *))
{
    for (char *end = cgroup + strlen(cgroup); end; end = strrchr(cgroup, '/')) {
        char folder[PATH_BYTES];
        *end = '\0';
        if (snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", root, mount, cgroup) <
            (int)sizeof folder)
            apply(machine, folder);
    }
}

/* Whether a list like "cpu,cpuacct" has the name. */
static bool has_controller(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && strncmp(list, name, length) == 0)
            return true;
    return false;
}

/* Takes a line of /proc/self/cgroup: ID:CONTROLLERS:PATH. In v2 there are no controllers. */
static void apply_line(struct machine *machine, const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!cgroup)
        return;
    *controllers++ = '\0';
    *cgroup++ = '\0';
    cgroup[strcspn(cgroup, "\n")] = '\0';
    if (strcmp(cgroup, "/") == 0)
        *cgroup = '\0';
    if (*controllers == '\0')
        apply_cgroup(machine, root, "", cgroup, apply_v2);
    else if (has_controller(controllers, "memory"))
        apply_cgroup(machine, root, "/memory", cgroup, apply_v1_memory);
    else if (has_controller(controllers, "cpu"))
        apply_cgroup(machine, root, "/cpu", cgroup, apply_v1_cpu);
}

void machine_apply_limits(struct machine *machine, const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        apply_line(machine, root, line);
    if (file)
        fclose(file);
}

uint64_t machine_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) /* uncovered: promise (tests/coverage/reasons.txt) */
        return 0;
    struct rlimit raised = {limit.rlim_max, limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

void machine_read(struct machine *machine)
{
    struct sysinfo info;
    *machine = (struct machine){
        .memory_bytes = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 4 * GIB,
        .cpus = uv_available_parallelism(),
    };
    machine_apply_limits(machine, "");
}
