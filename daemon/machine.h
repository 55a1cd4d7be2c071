/*
 * machine.h - the memory and the CPUs that this process may use: those of the host, or less if a
 * control group (cgroup) of a container or a service has a limit. Any thread.
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

/* Raises the soft limit of open files to the hard one, and returns it. */
uint64_t machine_raise_descriptors(void);

/* Lowers the members to the limits of the process's cgroup and of all its parents. Reads `root` +
 * "/proc/self/cgroup" and files in `root` + "/sys/fs/cgroup". A file that cannot be read has no
 * limit. */
void machine_apply_limits(struct machine *machine, const char *root);
