/*
 * confine - runs a program under the restrictions of systemd/gpuimgd.service without systemd:
 *
 *     confine [--user=UID] [--write=FOLDER ...] PROGRAM [ARGUMENT ...]
 *
 * It is for GPU machines that are containers themselves. The system call filters follow systemd's
 * seccomp-util.c: @system-service without @privileged, MemoryDenyWriteExecute,
 * RestrictAddressFamilies, RestrictNamespaces, RestrictRealtime, RestrictSUIDSGID and
 * LockPersonality. It prints on standard error which restrictions are active; it fails if a filter
 * cannot be installed. It lacks DeviceAllow, ProtectProc, PrivateTmp and ProtectHome.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fixtures/call_filter.h"

#ifndef PR_SET_MDWE /* Linux 6.3 */
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#ifndef MOUNT_ATTR_RDONLY /* glibc 2.36 */
#define MOUNT_ATTR_RDONLY 1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

#define WRITABLE_MAX 8
#define NAMESPACES \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
     CLONE_NEWNET)
#define SET_ID_BITS (S_ISUID | S_ISGID)

static const unsigned allowed[] = {
#include "tests/tools/system_service.inc"
    __NR_seccomp, /* the unit allows it besides */
};

static void said(const char *what, bool ok)
{
    fprintf(stderr, "confine: %s: %s\n", what, ok ? "applied" : strerror(errno));
}

static void need(const char *what, bool ok)
{
    said(what, ok);
    if (!ok)
        exit(125);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool deny_write_execute(void)
{
    return call_refuse_all_bits(SYS_mmap, 2, PROT_WRITE | PROT_EXEC, EPERM) &&
           call_refuse_all_bits(SYS_mprotect, 2, PROT_EXEC, EPERM) &&
           call_refuse_all_bits(SYS_pkey_mprotect, 2, PROT_EXEC, EPERM) &&
           call_refuse_all_bits(SYS_shmat, 2, SHM_EXEC, EPERM);
}

/* clone3 passes its flags in memory, which a filter cannot read: it fails with ENOSYS. */
static bool restrict_namespaces(void)
{
    return call_refuse_any_bit(SYS_clone, 0, NAMESPACES, EPERM) &&
           call_refuse_any_bit(SYS_unshare, 0, NAMESPACES, EPERM) &&
           call_refuse(SYS_clone3, ENOSYS) && call_refuse(SYS_setns, EPERM);
}

static bool restrict_set_ids(void)
{
    return call_refuse_any_bit(SYS_fchmod, 1, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_fchmodat, 2, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_mkdirat, 2, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_mknodat, 2, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_openat, 3, SET_ID_BITS, EPERM) &&
           call_refuse(SYS_openat2, ENOSYS) /* as clone3 */
#ifdef SYS_chmod
           && call_refuse_any_bit(SYS_chmod, 1, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_mkdir, 1, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_mknod, 1, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_open, 2, SET_ID_BITS, EPERM) &&
           call_refuse_any_bit(SYS_creat, 1, SET_ID_BITS, EPERM)
#endif
        ;
}

/* Calls whose argument may only have these values. */
static const struct {
    const char *name;
    long call;
    int argument;
    uint32_t values[3];
    size_t count;
    int error;
} closed[] = {
    {"RestrictAddressFamilies", SYS_socket, 0, {AF_UNIX, AF_INET, AF_INET6}, 3, EAFNOSUPPORT},
    {"RestrictRealtime", SYS_sched_setscheduler, 1, {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE}, 3,
     EPERM},
    {"LockPersonality", SYS_personality, 0, {0, UINT32_MAX}, 2, EPERM},
};

static void filter_calls(void)
{
    need("NoNewPrivileges", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    said("memory never gains execution (prctl)",
         prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0);
    need("MemoryDenyWriteExecute", deny_write_execute());
    need("RestrictNamespaces", restrict_namespaces());
    need("RestrictSUIDSGID", restrict_set_ids());
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        need(closed[i].name, call_refuse_others(closed[i].call, closed[i].argument,
                                                closed[i].values, closed[i].count,
                                                closed[i].error));
    need("SystemCallFilter", call_allow(allowed, sizeof allowed / sizeof *allowed, EPERM));
}

/* ---- mounts and rights ----------------------------------------------------------------------- */

/* The kernel's struct mount_attr. */
struct mount_change {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static bool set_read_only(const char *path, bool read_only, unsigned flags)
{
    struct mount_change change = {.attr_set = read_only ? MOUNT_ATTR_RDONLY : 0,
                                  .attr_clr = read_only ? 0 : MOUNT_ATTR_RDONLY};
    return syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &change, sizeof change) == 0;
}

static bool bind_mount(const char *path)
{
    return mount(path, path, NULL, MS_BIND | MS_REC, NULL) == 0;
}

/* Creates a mount namespace: read-only except for /dev, /proc and the given folders. */
static bool protect_system(char **writable)
{
    static const char *const kernels[] = {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq"};
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        return false;
    for (char **path = writable; *path; path++)
        if (!bind_mount(*path))
            return false;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (access(kernels[i], F_OK) == 0 && !bind_mount(kernels[i]))
            return false;
    if (!set_read_only("/", true, AT_RECURSIVE) || !set_read_only("/proc", false, 0) ||
        !set_read_only("/dev", false, AT_RECURSIVE))
        return false;
    for (char **path = writable; *path; path++)
        if (!set_read_only(*path, false, AT_RECURSIVE))
            return false;
    return true;
}

static bool become(unsigned user)
{
    return setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 &&
           setresuid(user, user, user) == 0;
}

static bool write_text(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0)
        close(file);
    return ok;
}

static bool private_users(void)
{
    char users[32], groups[32];
    snprintf(users, sizeof users, "%u %u 1", geteuid(), geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", getegid(), getegid());
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* lost with the change of user; else root has /proc/self */
    return unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups);
}

static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 &&
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            return false;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 &&
           syscall(SYS_capset, &header, none) == 0;
}

int main(int argc, char **argv)
{
    char *writable[WRITABLE_MAX + 1] = {NULL};
    unsigned long user = geteuid();
    size_t count = 0;
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strncmp(argv[at], "--user=", 7) == 0)
            user = strtoul(argv[at] + 7, NULL, 10);
        else if (strncmp(argv[at], "--write=", 8) == 0 && count < WRITABLE_MAX)
            writable[count++] = argv[at] + 8;
        else
            break;
    }
    if (at >= argc || argv[at][0] == '-') {
        fputs("usage: confine [--user=UID] [--write=FOLDER ...] PROGRAM [ARGUMENT ...]\n", stderr);
        return 125;
    }
    said("ProtectSystem, ProtectKernelTunables, PrivateIPC", protect_system(writable));
    if (user != geteuid())
        need("User", become((unsigned)user));
    said("PrivateUsers", private_users());
    said("CapabilityBoundingSet", drop_capabilities());
    filter_calls();
    execvp(argv[at], argv + at);
    fprintf(stderr, "confine: cannot execute %s: %s\n", argv[at], strerror(errno));
    return 127;
}
