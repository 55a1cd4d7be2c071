/* both_engines.h - the two engines of a test program, and a test on each. */
#ifndef GPUIMGD_TESTS_BOTH_ENGINES_H
#define GPUIMGD_TESTS_BOTH_ENGINES_H

#include "tests/unit/gpu/gpu_run.h"

/* cuda: NULL where there is none. */
static struct engine *cpu, *cuda;

static inline int engines_open(void **state)
{
    (void)state;
    cpu = test_engine_open("cpu", 1, 512 * MIB, 0);
    cuda = test_engine_open("cuda", 2, 512 * MIB, 512 * MIB);
    return cpu ? 0 : -1;
}

static inline int engines_close(void **state)
{
    (void)state;
    engine_close(cpu);
    engine_close(cuda);
    return 0;
}

/* test_NAME_cpu and test_NAME_cuda of all_NAME(engine). */
#define ON_BOTH(name)                                                                              \
    static void test_##name##_cpu(void **state)                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        all_##name(cpu);                                                                           \
    }                                                                                              \
    static void test_##name##_cuda(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        if (!cuda)                                                                                 \
            skip();                                                                                \
        all_##name(cuda);                                                                          \
    }

#endif
