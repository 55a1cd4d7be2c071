/* launchers.c - defines the launchers by the names that the operation table refers to. */
#include "tests/cuda/launch.h"

#define LAUNCHER(name)                                                                            \
    pass_cuda name;                                                                               \
    int name(const struct pass *pass, const struct image *from, const struct image *to,          \
             uint8_t *work, struct CUstream_st *stream)                                           \
    {                                                                                             \
        return cuda_launch(pass, from, to, work, stream);                                         \
    }
#define LAUNCHER_OF_MANY(name)                                                                    \
    pass_cuda_many name;                                                                          \
    int name(const struct pass_call *calls, uint32_t count, struct CUstream_st *stream)           \
    {                                                                                             \
        return cuda_launch_many(calls, count, stream);                                            \
    }
#include "tests/cuda/launchers.inc"

const char launchers_run_cpu_passes[] = "yes";
