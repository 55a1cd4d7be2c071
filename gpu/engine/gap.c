#include "gpu/engine/gap.h"

static size_t most_of(const struct gap *root)
{
    return root ? root->most : 0;
}

static void update(struct gap *root)
{
    size_t left = most_of(root->left), right = most_of(root->right);
    root->most = root->bytes > left ? root->bytes : left;
    root->most = root->most > right ? root->most : right;
}

/* Moves the gaps before the address to *left, and the others to *right. */
static void split(struct gap *root, const uint8_t *memory, struct gap **left, struct gap **right)
{
    if (!root) {
        *left = *right = NULL;
    } else if (root->memory < memory) {
        *left = root;
        split(root->right, memory, &root->right, right);
        update(root);
    } else {
        *right = root;
        split(root->left, memory, left, &root->left);
        update(root);
    }
}

/* Joins two trees; all gaps of `left` are before those of `right`. */
static struct gap *join(struct gap *left, struct gap *right)
{
    if (!left || !right)
        return left ? left : right;
    if (left->priority > right->priority) {
        left->right = join(left->right, right);
        update(left);
        return left;
    }
    right->left = join(left, right->left);
    update(right);
    return right;
}

/* Gaps at neighbouring addresses get priorities that look independent (Fibonacci hashing). */
static uint32_t priority_of(const struct gap *gap)
{
    return (uint32_t)(((uintptr_t)gap->memory >> 8) * 0x9E3779B97F4A7C15u >> 32);
}

static void insert(struct gap **root, struct gap *gap)
{
    if (!*root || (*root)->priority < gap->priority) {
        split(*root, gap->memory, &gap->left, &gap->right);
        *root = gap;
    } else {
        insert(gap->memory < (*root)->memory ? &(*root)->left : &(*root)->right, gap);
    }
    update(*root);
}

void gap_insert(struct gap **root, struct gap *gap)
{
    gap->priority = priority_of(gap);
    insert(root, gap);
}

void gap_remove(struct gap **root, struct gap *gap)
{
    if (*root == gap) {
        *root = join(gap->left, gap->right);
        return;
    }
    gap_remove(gap->memory < (*root)->memory ? &(*root)->left : &(*root)->right, gap);
    update(*root);
}

/* Computes `most` again on the way from the gap to the root. */
static void update_to(struct gap *root, const struct gap *gap)
{
    if (root != gap)
        update_to(gap->memory < root->memory ? root->left : root->right, gap);
    update(root);
}

void gap_resize(struct gap **root, struct gap *gap, uint8_t *memory, size_t bytes)
{
    gap->memory = memory;
    gap->bytes = bytes;
    update_to(*root, gap);
}

struct gap *gap_lowest(struct gap *root, size_t bytes)
{
    if (most_of(root) < bytes)
        return NULL;
    for (;;) {
        if (root->left && root->left->most >= bytes)
            root = root->left;
        else if (root->bytes >= bytes)
            return root;
        else
            root = root->right;
    }
}

struct gap *gap_before(struct gap *root, const uint8_t *memory)
{
    struct gap *found = NULL;
    while (root) {
        found = root->memory < memory ? root : found;
        root = root->memory < memory ? root->right : root->left;
    }
    return found;
}

struct gap *gap_from(struct gap *root, const uint8_t *memory)
{
    struct gap *found = NULL;
    while (root) {
        found = root->memory >= memory ? root : found;
        root = root->memory >= memory ? root->left : root->right;
    }
    return found;
}
