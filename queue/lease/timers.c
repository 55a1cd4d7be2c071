#include "queue/lease/timers.h"

#include "queue/lease/lease_impl.h"

static void on_timer(uv_timer_t *timer)
{
    struct queue *queue = timer->data;
    queue->timers.expired(queue, (enum queue_timer)(timer - queue->timers.each));
}

void timer_start(struct queue *queue, enum queue_timer timer, uint64_t ms)
{
    if (queue->life != LIFE_NEW && queue->life != LIFE_SHUT)
        uv_timer_start(&queue->timers.each[timer], on_timer, ms, 0);
}

void timer_ensure(struct queue *queue, enum queue_timer timer, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&queue->timers.each[timer]))
        timer_start(queue, timer, ms);
}

void timer_turn(struct queue *queue)
{
    queue->group->places.fetch_due = true;
    timer_ensure(queue, TIMER_TURN, 0);
}
