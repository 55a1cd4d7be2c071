/*
 * union_find.cuh - disjoint sets that many threads join concurrently, in shared or global memory.
 *
 * A node's label is a node of its own set with the same or a smaller number. The label of a root
 * is itself. Only roots are hooked to smaller nodes, by compare-and-swap, so the root of a set is
 * its smallest node, whatever the order of joins. Paths are halved during a search (J. Jaiganesh,
 * M. Burtscher, A High-Performance Connected Components Implementation for GPUs, 2018). A replaced
 * label is not a root's and stays within its set, so a stale label costs steps but not
 * correctness. Node 0 is always a root; its label is never read.
 */
#ifndef GPUIMGD_GPU_OPS_UNION_FIND_CUH
#define GPUIMGD_GPU_OPS_UNION_FIND_CUH

#include "gpu/ops/pixel.h"

/* Labels of one block; every access is atomic. */
struct shared_labels {
    uint32_t *at;

    __device__ __forceinline__ uint32_t load(uint32_t node) const
    {
        return atomicOr(at + node, 0u);
    }
    __device__ __forceinline__ void store(uint32_t node, uint32_t label) const
    {
        atomicExch(at + node, label);
    }
};

/* Labels in global memory. Words are read and written whole and bypass the L1 cache. */
struct global_labels {
    uint32_t *at;

    __device__ __forceinline__ uint32_t load(uint32_t node) const
    {
        return *reinterpret_cast<volatile uint32_t *>(at + node);
    }
    __device__ __forceinline__ void store(uint32_t node, uint32_t label) const
    {
        *reinterpret_cast<volatile uint32_t *>(at + node) = label;
    }
};

template <class Labels> SIMT uint32_t union_find(const Labels &labels, uint32_t node)
{
    while (node != 0) {
        uint32_t parent = labels.load(node);
        if (parent == node || parent == 0)
            return parent;
        uint32_t next = labels.load(parent);
        if (next == parent)
            return parent;
        labels.store(node, next);
        node = next;
    }
    return 0;
}

template <class Labels> SIMT void union_join(const Labels &labels, uint32_t a, uint32_t b)
{
    a = union_find(labels, a);
    b = union_find(labels, b);
    while (a != b) {
        uint32_t high = max(a, b), low = min(a, b);
        uint32_t label = atomicCAS(labels.at + high, high, low);
        if (label == high)
            return;
        a = union_find(labels, label); /* another thread has hooked it */
        b = low;
    }
}

#endif
