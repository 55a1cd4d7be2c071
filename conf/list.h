/* list.h - a doubly linked list whose nodes are members of the listed structs. A list belongs to
 * one thread, or the caller locks it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head;
    size_t length;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define list_each(node, list)                                                                      \
    for (struct list_node *node = (list)->head.next; node != &(list)->head; node = node->next)
/* Like list_each, but the body may remove the current node. */
#define list_each_safe(node, after, list)                                                          \
    for (struct list_node *node = (list)->head.next, *after = node->next; node != &(list)->head;   \
         node = after, after = node->next)
/* Like list_each_safe, from the last node to the first. */
#define list_each_back_safe(node, before, list)                                                    \
    for (struct list_node *node = (list)->head.prev, *before = node->prev; node != &(list)->head;  \
         node = before, before = node->prev)

static inline void list_init(struct list *list)
{
    list->head.prev = list->head.next = &list->head;
    list->length = 0;
}

static inline bool list_empty(const struct list *list)
{
    return list->length == 0;
}

static inline void list_insert_before(struct list *list, struct list_node *at,
                                      struct list_node *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
    list->length++;
}

static inline void list_push(struct list *list, struct list_node *node)
{
    list_insert_before(list, &list->head, node);
}

static inline void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list, list->head.next, node);
}

static inline void list_remove(struct list *list, struct list_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = NULL;
    list->length--;
}

static inline struct list_node *list_first(const struct list *list)
{
    return list_empty(list) ? NULL : list->head.next;
}

/* Appends all nodes of `from`, which is empty afterwards. */
static inline void list_take(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->head.next->prev = to->head.prev;
    from->head.prev->next = &to->head;
    to->head.prev->next = from->head.next;
    to->head.prev = from->head.prev;
    to->length += from->length;
    list_init(from);
}

/* Removes and returns the first node; NULL if the list is empty. */
static inline struct list_node *list_pop(struct list *list)
{
    struct list_node *node = list_first(list);
    if (node)
        list_remove(list, node);
    return node;
}
