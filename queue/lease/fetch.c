#include "queue/lease/fetch.h"

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* The first elements of the reply of FETCH (PROTOCOL.md). */
struct fetch_reply {
    uint64_t length;        /* jobs left in all lists */
    long long due_ms;       /* time until the next delayed job is due; -1: there is none */
    long long dropped;      /* entries that named no job that waits */
    bool alone;             /* this daemon has the right to run jobs alone */
    long long horizon;      /* highest job number that a cancel can apply to; -1: there is none */
    bool paused;            /* NS:paused exists */
    enum queue_watch watch; /* is this daemon the watcher? */
    const redisReply *lengths;    /* jobs left in NS:jobs:0 to NS:jobs:9; see lengths_note */
    const redisReply *priorities; /* one character per lease: 0 to 9, or - for NS:jobs */
    long long last_number;        /* the last job number; -1 while paused */
};
enum { REPLY_HEAD = 10 }; /* elements before the leases; each lease is number, attempt, text */

static struct fetch_reply read_reply(const redisReply *reply)
{
    return (struct fetch_reply){
        .length = (uint64_t)script_reply_integer(reply, 0),
        .due_ms = script_reply_integer(reply, 1),
        .dropped = script_reply_integer(reply, 2),
        .alone = script_reply_integer(reply, 3) == 1,
        .horizon = script_reply_integer(reply, 4),
        .paused = script_reply_integer(reply, 5) == 1,
        .watch = (enum queue_watch)script_reply_integer(reply, 6),
        .lengths = reply->element[7],
        .priorities = reply->element[8],
        .last_number = script_reply_integer(reply, 9),
    };
}

/* Gives a new lease to the daemon; or back to Redis, if no place is left for it or the queue is
 * closing. */
static void hand_out(struct queue *queue, struct entry *entry)
{
    struct group *group = queue->group;
    if (queue->fetch.arriving > 0) {
        queue->fetch.arriving--;
        group->places.reserved--;
    }
    uint32_t *places = group->places.free > 0 ? &group->places.free : &group->places.spare;
    if (*places == 0 || queue_is_closing(queue)) {
        entry->internal = true;
        end_push(entry, END_BACK, NULL);
        return;
    }
    --*places;
    if (entry->lease.attempt > 1)
        queue->view.redelivered++;
    list_push(&queue->entries.running, &entry->lease.node);
    queue->events.leased(queue->events.context, &entry->lease);
}

static void note_dropped(struct queue *queue, long long dropped)
{
    if (dropped <= 0)
        return;
    if (queue->view.dropped == 0)
        log_warning("dropped %lld entries of the lists of %s: each names a job that does not exist "
                    "or is not waiting",
                    dropped, queue->options->namespace);
    queue->view.dropped += (uint64_t)dropped;
}

/* The priority of the lease number `index` in the reply. */
static uint32_t priority_of(const redisReply *priorities, size_t index)
{
    bool known = priorities->type == REDIS_REPLY_STRING && index < priorities->len;
    char list = known ? priorities->str[index] : '-';
    return list >= '0' && list <= '9' ? (uint32_t)(list - '0') : PRIORITY_DEFAULT;
}

/* counter, text_bytes: of the call. */
static void take_leases(struct queue *queue, redisReply *reply, const redisReply *priorities,
                        uint64_t counter, size_t text_bytes)
{
    for (size_t i = REPLY_HEAD; i + 2 < reply->elements; i += 3) {
        struct entry *entry = entry_from_reply(queue, reply, i, counter, text_bytes);
        if (!entry) { /* memory is short: RESUME will give the unknown lease back */
            lease_resume_later(queue);
            continue;
        }
        entry->lease.priority = priority_of(priorities, (i - REPLY_HEAD) / 3);
        entry->lease.alone = queue->alone.has;
        entry->lease.may_be_cancelled = (long long)entry->lease.number <= queue->start.horizon;
        hand_out(queue, entry);
    }
    entries_end_batch(queue);
}

/* Gives back the places that the call of the handled reply has not filled. */
static void release_places(struct queue *queue)
{
    queue->group->places.reserved -= queue->fetch.arriving;
    queue->fetch.arriving = 0;
}

/* taken: number of leases in the reply. */
static void note_state(struct queue *queue, const struct fetch_reply *reply, size_t taken)
{
    queue->view.length = reply->length;
    lengths_note(queue, reply->lengths);
    lengths_note_age(queue, reply->last_number);
    note_dropped(queue, reply->dropped);
    alone_note(queue, reply->alone, taken);
    idle_note_paused(queue, reply->paused);
    if (reply->horizon != queue->start.horizon)
        start_check(queue, reply->horizon);
    queue->watch = reply->watch;
    if ((reply->length == 0 && !reply->alone) || reply->paused)
        idle_enter(queue, reply->due_ms);
}

static void fetch_next(struct queue *queue);

static void fetched(void *context, redisReply *reply)
{
    struct queue *queue = context;
    uint64_t counter = queue->fetch.counter;
    size_t text_bytes = queue->fetch.text_bytes;
    queue->fetch.arriving = queue->fetch.reserved;
    queue->fetch.counter = queue->fetch.reserved = 0;
    timer_turn(queue);
    if (!reply) {
        if (queue->calls.proved &&
            limit_lost(&queue->fetch.limit, queue->fetch.arriving, uv_now(queue->loop)))
            redis_reset_backoff(queue->redis);
        calls_lost(queue, SCRIPT_ID_FETCH);
        release_places(queue);
        return;
    }
    if (!calls_accept(queue, SCRIPT_ID_FETCH, reply, REPLY_HEAD, true)) {
        release_places(queue);
        return;
    }
    limit_accepted(&queue->fetch.limit, uv_now(queue->loop));
    struct fetch_reply head = read_reply(reply);
    note_state(queue, &head, (reply->elements - REPLY_HEAD) / 3);
    fetch_next(queue);
    take_leases(queue, reply, head.priorities, counter, text_bytes);
    release_places(queue);
}

/* The argument of FETCH that says how many jobs must end before a job may run alone. If it is not
 * 0, FETCH claims or keeps the right, but takes no job from NS:alone. Before the queue has the
 * right, other shards may still get jobs, so each of them counts as one. The first FETCH then only
 * claims the right, and a later one takes the job. */
static size_t blockers_of_alone(const struct queue *queue)
{
    size_t others = queue->alone.has ? 0 : queue->group->count - 1;
    return places_blocking_alone(queue) + others;
}

/* Sends FETCH for at most `places` jobs; less if the option `batch` or fetch.limit is smaller. */
static void send_fetch(struct queue *queue, uint32_t places)
{
    const struct options *options = queue->options;
    uint32_t most = limit_count(&queue->fetch.limit, (uint32_t)options->batch);
    places = places < most ? places : most;
    struct group *group = queue->group;
    bool may_run_alone = alone_may_claim(queue);
    queue->fetch.text_bytes = limit_text_bytes(&queue->fetch.limit);
    struct script_call *call = call_new(queue, SCRIPT_ID_FETCH, "jobs", "delayed", "alone",
                                        "alone:owner", "lease", "inst", "seq", "cancel", "paused",
                                        "watcher", "wake", "woken");
    script_call_text(call, options->namespace);
    script_call_text(call, queue->instance);
    script_call_number(call, ++group->counter);
    script_call_number(call, places);
    script_call_ms(call, options->lease_s);
    script_call_number(call, options->attempts);
    script_call_number(call, queue->fetch.text_bytes);
    script_call_number(call, may_run_alone);
    script_call_number(call, blockers_of_alone(queue));
    script_call_text(call, queue->watch != WATCH_NOT ? "watch"
                           : queue->wait.on == WAIT_ON_WAKE ? "wait" : "none");
    queue->fetch.counter = group->counter;
    queue->fetch.sent_ms = uv_now(queue->loop);
    queue->fetch.reserved = places;
    queue->fetch.serial = ++group->places.fetches;
    if (may_run_alone)
        queue->alone.claim_serial = queue->fetch.serial;
    group->places.reserved += places;
    if (script_call_send(call, queue->redis, fetched, queue))
        return;
    queue->fetch.counter = queue->fetch.reserved = 0;
    group->places.reserved -= places;
}

bool fetch_is_possible(const struct queue *queue)
{
    return calls_may_send(queue, SCRIPT_ID_FETCH) && !queue_is_fetching(queue) &&
           !queue_is_closing(queue) && places_open(queue) && !queue->done.refused &&
           !queue->nack.refused &&
           /* FETCH returns no job while other jobs run that must end first */
           !(queue->alone.has && places_blocking_alone(queue) > 0);
}

/* Whether the queue may send FETCH now: GATHER_MS have passed since its last FETCH, or the places
 * suffice for a full batch. Else starts TIMER_FETCH, after which fetch_all tries again. */
static bool is_due_or_wait(struct queue *queue, uint32_t places)
{
    uint64_t since = uv_now(queue->loop) - queue->fetch.sent_ms;
    if (places >= queue->options->batch || since >= GATHER_MS)
        return true;
    timer_start(queue, TIMER_FETCH, GATHER_MS - since);
    return false;
}

/* Sends the next FETCH before the jobs of the last one start, so that Redis runs it meanwhile. Only
 * for a full batch, and with one shard: several take turns. */
static void fetch_next(struct queue *queue)
{
    uint32_t batch = (uint32_t)queue->options->batch;
    if (queue->group->count == 1 && !queue->idle.now && !queue->alone.has &&
        queue->view.length >= batch && fetch_is_possible(queue) && places_to_fetch(queue) >= batch)
        send_fetch(queue, batch);
}

/* ---- the shards ------------------------------------------------------------------------------ */

/* Sorts the queues by the time of their last FETCH, the oldest first. The array is short and nearly
 * sorted, so an insertion sort suffices. */
static void sort_by_serial(struct queue **queues, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct queue *queue = queues[i];
        uint32_t at = i;
        for (; at > 0 && queues[at - 1]->fetch.serial > queue->fetch.serial; at--)
            queues[at] = queues[at - 1];
        queues[at] = queue;
    }
}

/* The most places that each active queue may hold: an equal share of all places, held or free. Only
 * dividing the free places would favour slow shards: they give places back late, and would get
 * the same part of the free places again. Shards that are away do not count, nor do the places
 * that they hold. */
static size_t fair_share(const struct group *group)
{
    size_t places = group->places.free, active = 0;
    each_queue (queue, group) {
        places += calls_ready(queue) ? queue->entries.all.length : 0;
        active += queue_is_active(queue);
    }
    return active > 0 ? (places + active - 1) / active : 0;
}

/* Number of jobs that the queue may fetch now without holding more places than its share. It may
 * use spare places for them (places_to_fetch); the share does not count those. */
static uint32_t to_fetch_in_share(const struct queue *queue, size_t share)
{
    size_t held = places_held(queue), jobs = places_to_fetch(queue);
    size_t left = share > held ? share - held : 0;
    return (uint32_t)(left < jobs ? left : jobs);
}

void fetch_all(struct group *group)
{
    struct queue *queues[SHARDS_MAX];
    uint32_t due = 0;
    if (!group->places.fetch_due)
        return;
    group->places.fetch_due = false;
    if (group->places.free + group->places.spare <= group->places.reserved)
        return;
    size_t share = fair_share(group);
    each_queue (queue, group) {
        uint32_t jobs =
            !queue->idle.now && fetch_is_possible(queue) ? to_fetch_in_share(queue, share) : 0;
        if (jobs > 0 && is_due_or_wait(queue, jobs))
            queues[due++] = queue;
    }
    sort_by_serial(queues, due);
    for (uint32_t i = 0; i < due; i++) {
        uint32_t jobs = to_fetch_in_share(queues[i], share);
        if (jobs > 0)
            send_fetch(queues[i], jobs);
    }
}
