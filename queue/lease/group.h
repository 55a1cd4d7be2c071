/* group.h - the shards of a daemon, each a queue of its own, as one source of jobs.
 *
 * The shards share the daemon's places. A place is reserved for each job that an outstanding FETCH
 * may bring, so the leases of all shards never exceed the places. If several shards have jobs, each
 * may hold an equal part of the places; a shard that waits for jobs holds none. Places that a shard
 * holds for a FETCH or an unacknowledged end have no job. So that no job of another shard waits for
 * a slow Redis, spare places replace them, up to `inflight`.
 *
 * A shard that is away (not connected, or refused) stops only its own jobs. Its running jobs end as
 * usual. The queue keeps their acknowledgements until Redis has accepted nothing for lease_s. Then
 * it drops them, because the leases have expired and other shards need the memory, and the jobs run
 * again when the Redis is back. A shard alone keeps them without a limit.
 *
 * A job that may have killed a daemon runs its last attempt alone in the daemon: while a shard that
 * is not away has the right to run such jobs, no other shard fetches.
 *
 * A lease names its queue: pass lease->queue to queue_ask, queue_done, queue_retry,
 * queue_give_back and queue_read. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct group;

/* As queue_create, for all shards of the options. */
struct group *group_create(uv_loop_t *loop, const struct options *options, const char *instance,
                           const struct queue_events *events, struct error *error);
void group_start(struct group *group);
/* Gives the reloadable options to the shards after a reload. Logs an error if memory is short. */
void group_reload(struct group *group);

uint32_t group_shard_count(const struct group *group);
const char *group_namespace(const struct group *group, uint32_t index);

/* Sets how many more leases the daemon can take, and how many beyond those while places have no
 * jobs. `open` is false if it takes none for another reason than full places: it is paused, it
 * drains, or it cannot write outputs. */
void group_set_places(struct group *group, uint32_t places, uint32_t spare, bool open);
/* Number of acknowledgements that wait for a shard that is away. */
uint32_t group_waiting_ends(const struct group *group);

/* What a status display shows of one shard. */
struct shard_view {
    bool ready, paused;
    const char *reason; /* why it is not up; "" if it is */
    uint64_t length, delayed, dead_listed, results; /* of its lists */
    uint64_t running, unacknowledged;               /* of this daemon */
};
struct shard_view group_shard_view(struct group *group, uint32_t index);

/* The sum over all shards. The state is QUEUE_READY if one shard is ready; `reason` then still
 * names the shards that are away. `paused`: all shards that are ready are paused; all, if none is
 * ready. */
const struct queue_view *group_view(struct group *group);

/* queue_publish, in each shard. */
void group_publish(struct group *group, const char *text, double ttl_s);

/* queue_close, for all shards. A second call changes the timeout and the callback. */
void group_close(struct group *group, double timeout_s, void (*closed)(void *context),
                 void *context);
void group_destroy(struct group *group);
