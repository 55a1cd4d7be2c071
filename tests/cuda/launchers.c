/* launchers.c - the kernels' launchers, by the names that the operation table has for them. */
#include "tests/cuda/launch.h"

#define LAUNCHER(name)                                                                            \
    pass_cuda name;                                                                               \
    int name(const struct pass *pass, const struct image *from, const struct image *to,          \
             uint8_t *work, struct CUstream_st *stream)                                           \
    {                                                                                             \
        return cuda_launch(pass, from, to, work, stream);                                         \
    }
#include "tests/cuda/launchers.inc"
