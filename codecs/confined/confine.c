#include "codecs/confined/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "codecs/process/protocol.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define NATIVE AUDIT_ARCH_PPC64LE
#else
#error "no filter of system calls for this architecture: add it here"
#endif

/* If the memory of the service or of the host runs out, the kernel kills a process with a high
 * score first: this one, which costs one job, and not the daemon. */
#define OOM_SCORE "500"

/* ---- begin ---------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t ignored = write(file, text, strlen(text));
    (void)ignored;
    close(file);
}

static void close_others(void)
{
    enum { likely_max = 1024 };
#ifdef SYS_close_range
    if (syscall(SYS_close_range, CODEC_REGION + 1, ~0U, 0) == 0)
        return;
#endif
    for (int i = CODEC_REGION + 1; i < likely_max; i++) /* before Linux 5.9 */
        close(i);
}

bool confine_begin(int parent)
{
    const struct rlimit none = {0, 0};
    sigset_t faults;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        return false;
    close_others();
    sigemptyset(&faults);
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&faults, numbers[i]);
    sigprocmask(SIG_UNBLOCK, &faults, NULL); /* the daemon has blocked all signals */
    setrlimit(RLIMIT_CORE, &none);           /* a core file would contain images of users */
    write_text("/proc/self/oom_score_adj", OOM_SCORE);
    return true;
}

/* ---- system calls --------------------------------------------------------------------------- */

/* The functions below write a program for the kernel's seccomp filter, which the kernel runs at
 * each system call: seccomp(2). */
#define INSTRUCTIONS_MAX 128

struct filter {
    struct sock_filter code[INSTRUCTIONS_MAX];
    unsigned short length;
};

static void put(struct filter *filter, struct sock_filter instruction)
{
    if (filter->length < INSTRUCTIONS_MAX)
        filter->code[filter->length++] = instruction;
}

static void load(struct filter *filter, size_t offset)
{
    put(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void answer(struct filter *filter, uint32_t what)
{
    put(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void allow(struct filter *filter, long call)
{
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1));
    answer(filter, SECCOMP_RET_ALLOW);
}

/* Loads the low 32 bits of an argument of the system call: descriptors and flags have no more. */
static void load_argument(struct filter *filter, int index)
{
    load(filter, offsetof(struct seccomp_data, args) + (size_t)index * sizeof(uint64_t)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
                     + sizeof(uint32_t)
#endif
    );
}

static const uint32_t refused = SECCOMP_RET_ERRNO | EPERM;

/* Allows the call if its argument is `value`. */
static void allow_if(struct filter *filter, long call, int argument, uint32_t value)
{
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4));
    load_argument(filter, argument);
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(filter, SECCOMP_RET_ALLOW);
    answer(filter, refused);
}

/* has: allows the call only if its argument has at least one of the bits. Otherwise allows it only
 * if the argument has none of them. */
static void allow_by_bits(struct filter *filter, long call, int argument, uint32_t bits, bool has)
{
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4));
    load_argument(filter, argument);
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, has ? 0 : 1,
                                             has ? 1 : 0));
    answer(filter, SECCOMP_RET_ALLOW);
    answer(filter, refused);
}

/* Not for code, and without shared memory besides the region: RLIMIT_DATA does not count that. */
static void allow_mmap(struct filter *filter)
{
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 7));
    load_argument(filter, 2);
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 4, 0));
    load_argument(filter, 3);
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1));
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 1, 0));
    answer(filter, SECCOMP_RET_ALLOW);
    answer(filter, refused);
}

/* Calls that are always allowed: for memory, locks, clocks, signal handlers, and the threads of
 * this process. */
static const long calls[] = {
    SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_futex, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday,
    SYS_getpid, SYS_gettid, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction,
    SYS_sigaltstack, SYS_set_robust_list, SYS_getrandom, SYS_restart_syscall, SYS_exit,
    SYS_exit_group,
#ifdef SYS_rseq
    SYS_rseq,
#endif
};

static void write_filter(struct filter *filter)
{
    /* The numbers below are those of this architecture, so calls of others end the process. Calls
     * of x32 have other numbers (bit 30), so they are refused at the end. */
    load(filter, offsetof(struct seccomp_data, arch));
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0));
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    load(filter, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        allow(filter, calls[i]);
    allow_if(filter, SYS_recvfrom, 0, CODEC_SOCKET);
    allow_if(filter, SYS_sendto, 0, CODEC_SOCKET);
    allow_if(filter, SYS_tgkill, 0, (uint32_t)getpid()); /* abort() */
    allow_mmap(filter);
    allow_by_bits(filter, SYS_mprotect, 2, PROT_EXEC, false);
    allow_by_bits(filter, SYS_clone, 0, CLONE_THREAD, true);
#ifdef SYS_clone3
    /* A filter cannot check the flags of clone3, because they are in memory. After ENOSYS, the C
     * library uses clone instead. */
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
    answer(filter, SECCOMP_RET_ERRNO | ENOSYS);
#endif
    answer(filter, refused);
}

/* prctl filters the calls of this thread only. seccomp can filter those of all threads, but the
 * unit's filter must allow it. */
static bool filter_calls(bool has_threads)
{
    static struct filter filter;
    write_filter(&filter);
    struct sock_fprog program = {filter.length, filter.code};
    if (filter.length >= INSTRUCTIONS_MAX || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return false;
    if (has_threads)
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
               0;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* ---- enter ---------------------------------------------------------------------------------- */

static bool read_bytes(uint64_t *address_bytes, uint64_t *data_bytes)
{
    unsigned long long pages = 0, data = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    bool read = file && fscanf(file, "%llu %*s %*s %*s %*s %llu", &pages, &data) == 2 && pages > 0;
    if (file)
        fclose(file);
    *address_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    *data_bytes = data * (uint64_t)sysconf(_SC_PAGESIZE);
    return read;
}

const char *confine_enter(bool has_threads, uint64_t *address_bytes, uint64_t *data_bytes)
{
    *address_bytes = *data_bytes = 0;
    if (CONFINE_WITHOUT_LIMITS)
        return NULL;
    if (!read_bytes(address_bytes, data_bytes))
        return "/proc/self/statm cannot be read";
    if (!filter_calls(has_threads))
        return "its system calls cannot be filtered (seccomp)";
    return NULL;
}
