/*
 * machine.h - finds the memory and the CPUs that this process may use: those of the host, or less
 * if a control group (cgroup) of a container or a service has a limit. Any thread.
 */
#pragma once

#include <stdint.h>

#define MACHINE_PATH_BYTES 512

struct machine {
    uint64_t memory_bytes; /* RAM, or the limit of a cgroup if that is smaller */
    uint64_t cpus;         /* by affinity, or the quota of a cgroup in whole CPUs; at least 1 */
    /* The file with the limit that applies, cut if it is longer; "": none applies. */
    char memory_limit[MACHINE_PATH_BYTES], cpu_limit[MACHINE_PATH_BYTES];
};

void machine_read(struct machine *machine);

/* Raises the limit of open files as far as the system allows (the soft limit to the hard limit),
 * and returns the new limit. */
uint64_t machine_raise_descriptors(void);

/* A part of machine_read, for tests: lowers the members to the limits of the process's cgroup and
 * of all its parents. Reads the file /proc/self/cgroup and files in /sys/fs/cgroup, both below
 * `root`. A file that cannot be read sets no limit. */
void machine_apply_limits(struct machine *machine, const char *root);
