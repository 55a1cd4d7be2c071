/* Tests of the limits of cgroups, with folders of files as the kernel shows them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/limits.h"
#include "daemon/machine.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

#define FILES_MAX 8

static char root[] = "/tmp/gpuimgd-machine-XXXXXX";

static void put(const char *path, const char *text)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = strchr(whole + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(whole, 0755);
        *at = '/';
    }
    assert_true(text_file_write(whole, text, strlen(text)));
}

/* Each row: /proc/self/cgroup, files below /sys/fs/cgroup, and what a process may use on a host of
 * 64 GiB with 16 CPUs. `memory` and `cpus` are the files that the daemon names. */
struct row {
    const char *group;
    const char *files[FILES_MAX][2];
    uint64_t memory_bytes, cpus_wanted;
    const char *memory, *cpus;
};

static const struct row rows[] = {
    {"0::/\n", {{NULL}}, 64 * GIB, 16, "", ""},
    {"0::/\n", {{"/memory.max", "max\n"}, {"/cpu.max", "max 100000\n"}}, 64 * GIB, 16, "", ""},
    {"0::/\n", {{"/memory.max", "1073741824\n"}, {"/cpu.max", "250000 100000\n"}}, GIB, 2,
     "/memory.max", "/cpu.max"},
    {"0::/\n", {{"/cpu.max", "50000 100000\n"}}, 64 * GIB, 1, "", "/cpu.max"},
    {"0::/\n", {{"/cpu.max", "10000 10000\n"}}, 64 * GIB, 1, "", "/cpu.max"},
    {"0::/\n", {{"/cpu.max", "1700000 100000\n"}}, 64 * GIB, 16, "", ""},
    {"0::/\n", {{"/memory.max", "137438953472\n"}}, 64 * GIB, 16, "", ""},
    /* memory.high, and the smallest of all parents */
    {"0::/a.slice/b.service\n",
     {{"/a.slice/b.service/memory.max", "4294967296\n"},
      {"/a.slice/b.service/memory.high", "2147483648\n"},
      {"/a.slice/b.service/cpu.max", "800000 100000\n"},
      {"/a.slice/memory.max", "8589934592\n"},
      {"/a.slice/cpu.max", "300000 100000\n"}},
     2 * GIB, 3, "/a.slice/b.service/memory.high", "/a.slice/cpu.max"},
    {"0::/a.slice/b.service\n",
     {{"/a.slice/b.service/memory.max", "4294967296\n"}, {"/a.slice/memory.max", "1073741824\n"}},
     GIB, 16, "/a.slice/memory.max", ""},
    /* a container that sees the path of its host, and a process of another namespace */
    {"0::/kubepods.slice/pod.slice/c.scope\n", {{"/memory.max", "1073741824\n"}}, GIB, 16,
     "/memory.max", ""},
    {"0::/../../other\n", {{"/memory.max", "1073741824\n"}}, GIB, 16, "/memory.max", ""},
    /* v1 */
    {"4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n1:name=systemd:/\n0::/\n",
     {{"/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/memory/docker/memory.limit_in_bytes", "3221225472\n"},
      {"/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/cpu/docker/x/cpu.cfs_quota_us", "450000\n"},
      {"/cpu/docker/x/cpu.cfs_period_us", "100000\n"},
      {"/cpu/docker/cpu.cfs_quota_us", "-1\n"},
      {"/cpu/docker/cpu.cfs_period_us", "100000\n"}},
     3 * GIB, 4, "/memory/docker/memory.limit_in_bytes", "/cpu/docker/x/cpu.cfs_quota_us"},
    {"3:cpuacct,cpu:/\n", {{"/cpu/cpu.cfs_quota_us", "100000\n"},
                           {"/cpu/cpu.cfs_period_us", "50000\n"}}, 64 * GIB, 2, "",
     "/cpu/cpu.cfs_quota_us"},
    {"3:cpuset,cpuacct:/\n", {{"/cpu/cpu.cfs_quota_us", "100000\n"},
                              {"/cpu/cpu.cfs_period_us", "100000\n"}}, 64 * GIB, 16, "", ""},
    /* files that make no sense have no limit */
    {"0::/\n", {{"/memory.max", "lots\n"}, {"/memory.high", "12x\n"}, {"/cpu.max", "1000\n"}},
     64 * GIB, 16, "", ""},
    {"0::/\n", {{"/memory.max", ""}, {"/cpu.max", "100000 0\n"}}, 64 * GIB, 16, "", ""},
    {"\n:\n0:\n::\n", {{"/memory.max", "1048576\n"}}, MIB, 16, "/memory.max", ""},
    {"nothing", {{"/memory.max", "1048576\n"}}, 64 * GIB, 16, "", ""},
};

static void is_file(const char *limit, const char *wanted)
{
    char path[256] = "";
    if (*wanted)
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, wanted);
    assert_string_equal(limit, path);
}

TEST(limits_of_cgroups_apply)
{
    assert_non_null(mkdtemp(root));
    for (const struct row *row = rows; row < rows + sizeof rows / sizeof rows[0]; row++) {
        struct machine machine = {.memory_bytes = 64 * GIB, .cpus = 16};
        put("/proc/self/cgroup", row->group);
        for (size_t i = 0; i < FILES_MAX && row->files[i][0]; i++)
            put(text_of("/sys/fs/cgroup%s", row->files[i][0]), row->files[i][1]);
        machine_apply_limits(&machine, root);
        assert_int_equal(machine.memory_bytes, row->memory_bytes);
        assert_int_equal(machine.cpus, row->cpus_wanted);
        is_file(machine.memory_limit, row->memory);
        is_file(machine.cpu_limit, row->cpus);
        text_file_remove_folder(root);
        assert_int_equal(mkdir(root, 0755), 0);
    }
    text_file_remove_folder(root);
}

TEST(without_cgroups_the_machine_counts)
{
    struct machine machine = {.memory_bytes = GIB, .cpus = 3};
    machine_apply_limits(&machine, "/nonexistent");
    assert_int_equal(machine.memory_bytes, GIB);
    assert_int_equal(machine.cpus, 3);
    machine_read(&machine);
    assert_true(machine.cpus >= 1 && machine.memory_bytes >= MIB);
}

/* Moves to one CPU and back. */
TEST(affinity_counts)
{
    cpu_set_t before, one;
    struct machine machine;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    machine_read(&machine);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(machine.cpus, 1);
}

TEST_MAIN()
