#include "daemon/pipeline/hand_over.h"

static void on_woken(void *context)
{
    struct hand_over *hand_over = context;
    struct list tasks;
    list_init(&tasks);
    pthread_mutex_lock(&hand_over->lock);
    list_take(&tasks, &hand_over->tasks);
    pthread_mutex_unlock(&hand_over->lock);
    for (struct list_node *node; (node = list_pop(&tasks));)
        hand_over->take(container_of(node, struct engine_task, node));
}

bool hand_over_open(struct hand_over *hand_over, uv_loop_t *loop,
                    void (*take)(struct engine_task *task))
{
    if (waker_open(&hand_over->waker, loop, on_woken, hand_over) != 0) /* uncovered: memory */
        return false;
    pthread_mutex_init(&hand_over->lock, NULL);
    list_init(&hand_over->tasks);
    hand_over->take = take;
    return true;
}

void hand_over_put(struct hand_over *hand_over, struct engine_task *task)
{
    pthread_mutex_lock(&hand_over->lock);
    list_push(&hand_over->tasks, &task->node);
    pthread_mutex_unlock(&hand_over->lock);
    waker_wake(&hand_over->waker);
}

void hand_over_close(struct hand_over *hand_over)
{
    waker_close(&hand_over->waker);
}

void hand_over_destroy(struct hand_over *hand_over)
{
    pthread_mutex_destroy(&hand_over->lock);
}
