/*
 * union_find.cuh - disjoint sets that many threads join at once, in shared or in global memory.
 *
 * A node's label is a node of its own set that is not above it; a root's label is itself. Roots
 * alone are hooked to smaller ones, by compare-and-swap, so a set's root is its smallest node
 * whatever the order of joins. Paths are halved on the way (J. Jaiganesh, M. Burtscher, A
 * High-Performance Connected Components Implementation for GPUs, 2018): a label that is replaced
 * is not a root's, and stays in its set, so a stale one costs steps, not correctness. Node 0 is a
 * root for good; its label is never read.
 */
#ifndef GPUIMGD_GPU_OPS_UNION_FIND_CUH
#define GPUIMGD_GPU_OPS_UNION_FIND_CUH

#include <stdint.h>

/* A block's own; every access is an atomic one. */
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

/* The device's; words are read and written whole, past the first-level cache. */
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

template <class Labels>
static __device__ __forceinline__ uint32_t union_find(const Labels &labels, uint32_t node)
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

template <class Labels>
static __device__ __forceinline__ void union_join(const Labels &labels, uint32_t a, uint32_t b)
{
    a = union_find(labels, a);
    b = union_find(labels, b);
    while (a != b) {
        uint32_t high = max(a, b), low = min(a, b);
        uint32_t label = atomicCAS(labels.at + high, high, low);
        if (label == high)
            return;
        a = union_find(labels, label); /* somebody else has hooked it */
        b = low;
    }
}

#endif
