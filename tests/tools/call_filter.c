#include "tests/tools/call_filter.h"

#include <assert.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "filters are written for x86-64 and of aarch64"
#endif

/* The kernel's BPF_MAXINSNS. */
#define INSTRUCTIONS_MAX 4096

struct filter {
    struct sock_filter code[INSTRUCTIONS_MAX];
    unsigned short length;
};

static void put(struct filter *filter, struct sock_filter instruction)
{
    assert(filter->length < INSTRUCTIONS_MAX);
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

/* Where the accumulator is `value`, `what` is the answer; else the filter goes on. */
static void answer_if(struct filter *filter, uint32_t value, uint32_t what)
{
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(filter, what);
}

static uint32_t error(int number)
{
    return SECCOMP_RET_ERRNO | (uint32_t)number;
}

/* Another architecture's calls, and x32's, would pass by the numbers: they are refused. */
static void begin(struct filter *filter)
{
    filter->length = 0;
    load(filter, offsetof(struct seccomp_data, arch));
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0));
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    load(filter, offsetof(struct seccomp_data, nr));
}

static bool install(const struct filter *filter)
{
    struct sock_fprog program = {filter->length, (struct sock_filter *)filter->code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* The argument's low half: flags and modes have no more. */
static size_t argument_at(int index)
{
    return offsetof(struct seccomp_data, args) + (size_t)index * sizeof(uint64_t);
}

bool call_refuse_all_bits(long call, int argument, uint32_t bits, int number)
{
    static struct filter filter;
    begin(&filter);
    put(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4));
    load(&filter, argument_at(argument));
    put(&filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
    answer_if(&filter, bits, error(number));
    answer(&filter, SECCOMP_RET_ALLOW);
    return install(&filter);
}

bool call_refuse_any_bit(long call, int argument, uint32_t bits, int number)
{
    static struct filter filter;
    begin(&filter);
    put(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3));
    load(&filter, argument_at(argument));
    put(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    answer(&filter, error(number));
    answer(&filter, SECCOMP_RET_ALLOW);
    return install(&filter);
}

bool call_refuse_others(long call, int argument, const uint32_t *values, size_t count, int number)
{
    static struct filter filter;
    begin(&filter);
    put(&filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 1, 0));
    answer(&filter, SECCOMP_RET_ALLOW);
    load(&filter, argument_at(argument));
    for (size_t i = 0; i < count; i++)
        answer_if(&filter, values[i], SECCOMP_RET_ALLOW);
    answer(&filter, error(number));
    return install(&filter);
}

bool call_refuse(long call, int number)
{
    return call_refuse_all_bits(call, 0, 0, number);
}

bool call_allow(const unsigned *calls, size_t count, int number)
{
    static struct filter filter;
    begin(&filter);
    for (size_t i = 0; i < count; i++)
        answer_if(&filter, calls[i], SECCOMP_RET_ALLOW);
    answer(&filter, error(number));
    return install(&filter);
}
