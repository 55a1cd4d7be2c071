/*
 * gap.h - the free parts of a pool's segments, in a tree that finds the lowest one of a size.
 *
 * The tree is a treap: ordered by address, and a heap of pseudo-random priorities, so that it stays
 * balanced. Each gap knows the size of the largest gap below it. All functions take a number of
 * steps that grows with the logarithm of the number of gaps, and allocate nothing. The caller locks
 * the tree. Private to gpu/engine/pool.c.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct gap {
    uint8_t *memory;
    size_t bytes;
    struct gap *left, *right; /* this and the following members belong to gap.c */
    size_t most;              /* bytes of the largest gap in this subtree */
    uint32_t priority;
};

/* The tree is its root; NULL: it is empty. Gaps do not overlap. */
void gap_insert(struct gap **root, struct gap *gap);
void gap_remove(struct gap **root, struct gap *gap);
/* Gives a gap of the tree another extent. Its place in the order of addresses must not change. */
void gap_resize(struct gap **root, struct gap *gap, uint8_t *memory, size_t bytes);

/* The gap of at least `bytes` with the lowest address; NULL: there is none. */
struct gap *gap_lowest(struct gap *root, size_t bytes);
/* The last gap that starts before the address, and the first one that starts there or after it. */
struct gap *gap_before(struct gap *root, const uint8_t *memory);
struct gap *gap_from(struct gap *root, const uint8_t *memory);
