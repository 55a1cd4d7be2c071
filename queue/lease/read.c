#include "queue/lease/read.h"

/* uncovered file: moment */

#include <stdlib.h>
#include <string.h>

#include "queue/lease/lease_impl.h"

/* A read fails after this many attempts. An attempt fails if the connection breaks, cannot be
 * made, or Redis refuses the command, except for the errors of is_migrating and WRONGTYPE. */
#define READ_TRIES_MAX 8
#define READ_RETRY_MS 200
/* Bytes of the first GETRANGE. A smaller image needs no other command. A larger one also needs
 * STRLEN and GET, and its first bytes are transferred twice: 1% more for 6.4 MB. */
#define FIRST_BYTES QUEUE_READ_LARGE

static const char lost[] = "the connection to Redis was lost";
static const char unexpected[] = "a reply of an unexpected form";

struct read {
    struct list_node node;
    struct rank rank;
    struct queue *queue;
    uint64_t bytes_max;
    queue_read_cb callback;
    void *context;
    unsigned tries;  /* failed attempts */
    uint64_t due_ms; /* time of the next attempt, uv_now */
    bool out;        /* a command is outstanding */
    bool cancelled;
    enum permit holds; /* the permit that it has */
    enum permit waits; /* the permit that it waits for */
    size_t bytes;      /* its part of read_permits.large_bytes */
    char key[];
};

static bool begin_large(struct read *read);
static void start(struct read *read);
static void retry_later(struct read *read);

/* Starts the reads of the queue that wait for a permit of this kind, in order, until none is free.
 * Returns false if a read must still wait. */
static bool wake_queue(struct queue *queue, enum permit permit)
{
    list_each(node, &queue->reads) {
        struct read *read = container_of(node, struct read, node);
        if (read->waits != permit)
            continue;
        read->waits = PERMIT_NONE;
        if (permit == PERMIT_SMALL)
            start(read);
        else if (!begin_large(read))
            retry_later(read);
        if (read->waits)
            return false;
    }
    return true;
}

/* Starts the reads of all queues that wait for a permit of this kind. Each call begins with another
 * queue, so that all queues get the same chance. */
static void wake_each(struct group *group, enum permit permit)
{
    uint32_t first = group->reads.next++;
    for (uint32_t i = 0; i < group->count; i++) {
        struct queue *queue = group->queues[(first + i) % group->count];
        if (queue && !wake_queue(queue, permit))
            return;
    }
}

/* Call when a permit is free. A read that gets the permit but cannot start gives it up, which calls
 * this function again. The inner call only counts itself, and the outermost one repeats its work:
 * else the stack would grow with the number of reads. */
static void wake(struct group *group, enum permit permit)
{
    unsigned seen;
    if (group->reads.wakes[permit]++ > 0)
        return;
    do {
        seen = group->reads.wakes[permit];
        wake_each(group, permit);
    } while (group->reads.wakes[permit] != seen);
    group->reads.wakes[permit] = 0;
}

static void release(struct queue *queue, enum permit permit, size_t bytes)
{
    struct group *group = queue->group;
    group->reads.permits[permit]--;
    group->reads.large_bytes -= permit == PERMIT_LARGE ? bytes : 0;
    if (permit)
        wake(group, permit);
}

static bool take_permit(struct read *read, enum permit permit, unsigned most)
{
    struct group *group = read->queue->group;
    read->waits = group->reads.permits[permit] >= most ? permit : PERMIT_NONE;
    if (read->waits)
        return false;
    group->reads.permits[permit]++;
    read->holds = permit;
    return true;
}

static void read_free(struct read *read)
{
    struct queue *queue = read->queue;
    enum permit holds = read->holds;
    size_t bytes = read->bytes;
    if (read->node.next)
        list_remove(&queue->reads, &read->node);
    free(read);
    if (holds)
        release(queue, holds, bytes);
}

/* Passes the permit to the caller. Its kind must follow from the length, which is all that
 * queue_read_release knows: a read with a large permit may have found a small image. */
static void hand_over(struct read *read, size_t length)
{
    struct group *group = read->queue->group;
    bool large = length >= QUEUE_READ_LARGE, freed = read->holds == PERMIT_LARGE && !large;
    group->reads.permits[large ? PERMIT_LARGE : PERMIT_SMALL]++;
    group->reads.permits[read->holds]--;
    group->reads.large_bytes += (large ? length : 0) - read->bytes;
    read->holds = PERMIT_NONE;
    read->bytes = 0;
    if (freed)
        wake(group, PERMIT_LARGE);
}

/* Ends a read. On success the caller holds the permit until queue_read_release. */
static void finish(struct read *read, uint8_t *bytes, size_t length, const struct error *error)
{
    queue_read_cb callback = read->callback;
    void *context = read->context;
    if (bytes)
        hand_over(read, length);
    read_free(read);
    callback(context, bytes, length, error);
}

#define fail(read, ...)                                                                            \
    do {                                                                                           \
        struct error failure = {0};                                                                \
        error_set(&failure, __VA_ARGS__);                                                          \
        finish(read, NULL, 0, &failure);                                                           \
    } while (0)

/* A read that cannot go on now gives its permit to others, and begins again later. */
static void give_up_permit(struct read *read)
{
    enum permit holds = read->holds;
    size_t bytes = read->bytes;
    read->holds = read->waits = PERMIT_NONE;
    read->bytes = 0;
    if (holds)
        release(read->queue, holds, bytes);
}

static bool can_send(const struct queue *queue)
{
    return queue->life != LIFE_SHUT && queue->redis && redis_up(queue->redis);
}

static void retry_later(struct read *read)
{
    struct queue *queue = read->queue;
    give_up_permit(read);
    read->due_ms = uv_now(queue->loop) + READ_RETRY_MS;
    timer_ensure(queue, TIMER_READ, READ_RETRY_MS);
}

static void try_failed(struct read *read, const char *reason)
{
    if (++read->tries >= READ_TRIES_MAX)
        fail(read, STATUS_INPUT_UNREADABLE, "key \"%.80s\" cannot be read: %.150s", read->key,
             reason);
    else
        retry_later(read);
}

/* Whether the key's hash slot is migrating between Cluster nodes, or is not served now. Attempts
 * are then not limited here: after job_timeout_s the job goes back to the queue. */
static bool is_migrating(const char *error)
{
    return strncmp(error, "ASK ", 4) == 0 || strncmp(error, "TRYAGAIN", 8) == 0 ||
           strncmp(error, "CLUSTERDOWN", 11) == 0;
}

/* Ends a cancelled read, and handles a missing reply and an error reply. Returns false if the reply
 * must still be handled. */
static bool is_handled(struct read *read, redisReply *reply)
{
    read->out = false;
    if (read->cancelled) {
        read_free(read);
        return true;
    }
    if (reply && reply->type != REDIS_REPLY_ERROR)
        return false;
    if (!reply)
        try_failed(read, lost);
    else if (is_migrating(reply->str))
        retry_later(read);
    else if (strncmp(reply->str, "WRONGTYPE", 9) == 0)
        fail(read, STATUS_INPUT_MISSING, "key \"%.80s\" does not hold a string", read->key);
    else
        try_failed(read, reply->str);
    return true;
}

static bool send_read(struct read *read, const char *command, redis_reply_cb callback)
{
    read->out = redis_ask(read->queue->redis, 0, callback, read, "%s %s", command, read->key);
    return read->out;
}

static void too_large(struct read *read, uint64_t bytes)
{
    fail(read, STATUS_INPUT_TOO_LARGE, "key \"%.80s\" has %llu bytes, at most %llu are allowed",
         read->key, (unsigned long long)bytes, (unsigned long long)read->bytes_max);
}

static void take(struct read *read, redisReply *reply)
{
    uint8_t *bytes = (uint8_t *)reply->str;
    reply->str = NULL;
    finish(read, bytes, (size_t)reply->len, NULL);
}

static void got(void *context, redisReply *reply)
{
    struct read *read = context;
    if (is_handled(read, reply))
        return;
    if (reply->type == REDIS_REPLY_NIL) {
        fail(read, STATUS_INPUT_MISSING, "key \"%.80s\" does not exist", read->key);
    } else if (reply->type != REDIS_REPLY_STRING) { /* uncovered: server */
        try_failed(read, unexpected);
    } else if ((uint64_t)reply->len > read->bytes_max) { /* the image has grown after STRLEN */
        too_large(read, (uint64_t)reply->len);
    } else {
        take(read, reply);
    }
}

/* Counts the bytes of a large read. One read may exceed READS_LARGE_BYTES if no other is counted;
 * else returns false if the sum would. */
static bool take_bytes(struct read *read, size_t bytes)
{
    struct group *group = read->queue->group;
    size_t others = group->reads.large_bytes - read->bytes;
    if (others > 0 && others + bytes > READS_LARGE_BYTES)
        return false;
    group->reads.large_bytes = others + bytes;
    read->bytes = bytes;
    return true;
}

static void measured(void *context, redisReply *reply)
{
    struct read *read = context;
    if (is_handled(read, reply))
        return;
    if (reply->type != REDIS_REPLY_INTEGER) /* uncovered: server */
        try_failed(read, unexpected);
    else if ((uint64_t)reply->integer > read->bytes_max)
        too_large(read, (uint64_t)reply->integer);
    else if (!take_bytes(read, (size_t)reply->integer))
        read->waits = PERMIT_LARGE;
    else if (!send_read(read, "GET", got))
        try_failed(read, lost);
}

/* Exchanges the small permit for a large one, or waits for it, and sends STRLEN. Returns false if
 * STRLEN could not be sent. */
static bool begin_large(struct read *read)
{
    struct queue *queue = read->queue;
    if (read->holds == PERMIT_SMALL) {
        read->holds = PERMIT_NONE;
        release(queue, PERMIT_SMALL, 0);
    }
    if (read->holds != PERMIT_LARGE && !take_permit(read, PERMIT_LARGE, READS_LARGE_MAX))
        return true;
    return can_send(queue) && send_read(read, "STRLEN", measured);
}

static uint64_t first_bytes(const struct read *read)
{
    return read->bytes_max < FIRST_BYTES ? read->bytes_max + 1 : FIRST_BYTES;
}

static void got_first(void *context, redisReply *reply)
{
    struct read *read = context;
    if (is_handled(read, reply))
        return;
    if (reply->type != REDIS_REPLY_STRING) /* uncovered: server */
        try_failed(read, unexpected);
    else if (reply->len > 0 && (uint64_t)reply->len < first_bytes(read))
        take(read, reply);
    else if (!begin_large(read)) /* more bytes follow, or the key is empty or missing */
        try_failed(read, lost);
}

/* Sends GETRANGE if there is a connection and a small permit. Without a connection, read_pump tries
 * again after the next connect. */
static void start(struct read *read)
{
    if (!can_send(read->queue) ||
        (read->holds == PERMIT_NONE && !take_permit(read, PERMIT_SMALL, READS_SMALL_MAX)))
        return;
    read->out = redis_ask(read->queue->redis, 0, got_first, read, "GETRANGE %s 0 %llu", read->key,
                          (unsigned long long)first_bytes(read) - 1);
    if (!read->out)
        retry_later(read); /* memory is short */
}

void read_pump(struct queue *queue)
{
    uint64_t now = uv_now(queue->loop), next = UINT64_MAX;
    list_each(node, &queue->reads) {
        struct read *read = container_of(node, struct read, node);
        if (read->out || read->waits)
            continue;
        if (read->due_ms <= now)
            start(read);
        else if (read->due_ms < next)
            next = read->due_ms;
    }
    if (next != UINT64_MAX)
        timer_start(queue, TIMER_READ, next - now);
}

/* Counts a failed attempt for each read that waits. Reads with an outstanding command get a NULL
 * reply instead. A callback of try_failed may cancel other reads, so the search starts again at the
 * head of the list after each call. */
void read_down(struct queue *queue, const char *reason)
{
    struct read *spent;
    list_each(node, &queue->reads) {
        struct read *read = container_of(node, struct read, node);
        if (read->out)
            continue;
        read->tries++;
        give_up_permit(read);
    }
    do {
        spent = NULL;
        list_each(node, &queue->reads) {
            struct read *read = container_of(node, struct read, node);
            if (!read->out && read->tries >= READ_TRIES_MAX)
                spent = read;
        }
        if (spent)
            try_failed(spent, reason);
    } while (spent);
}

void *queue_read(struct queue *queue, const char *key, uint64_t bytes_max, const struct rank *rank,
                 queue_read_cb callback, void *context)
{
    size_t length = strlen(key) + 1;
    struct read *read = calloc(1, sizeof *read + length);
    if (!read)
        return NULL;
    memcpy(read->key, key, length);
    read->queue = queue;
    read->bytes_max = bytes_max;
    read->callback = callback;
    read->context = context;
    read->rank = rank ? *rank : (struct rank){0};
    rank_push(&queue->reads, &read->node, RANK_OFFSET(struct read, node, rank));
    start(read);
    return read;
}

void queue_read_cancel(struct queue *queue, void *handle)
{
    struct read *read = handle;
    (void)queue;
    if (!read)
        return;
    read->cancelled = true;
    if (!read->out)
        read_free(read);
}

void queue_read_release(struct queue *queue, size_t length)
{
    release(queue, length >= QUEUE_READ_LARGE ? PERMIT_LARGE : PERMIT_SMALL, length);
}

void read_cancel_all(struct queue *queue)
{
    list_each(node, &queue->reads)
        container_of(node, struct read, node)->cancelled = true;
}

void read_free_all(struct queue *queue)
{
    while (!list_empty(&queue->reads))
        read_free(container_of(list_first(&queue->reads), struct read, node));
}
