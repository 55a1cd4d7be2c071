/* group.h - lets a daemon take jobs from several Redis databases (shards) as if from one queue.
 *
 * Each shard is a struct queue of its own. All shards share the daemon's places: a place is the
 * right to hold one more lease. Each outstanding FETCH reserves a place for every job that it may
 * return, so the leases of all shards never exceed the places and the spare places. If several
 * shards have jobs, each may hold an equal share of the places. A shard that has no lease, no
 * unacknowledged end and no outstanding FETCH holds no place.
 *
 * A place does no work while it is reserved for a FETCH, or while Redis has not acknowledged the
 * end of its job. With a slow Redis that time is long. Other shards may then take leases from a
 * second supply, the spare places (group_set_places). A shard may use them while its own places and
 * the running jobs of the other shards together are fewer than the option `inflight`.
 *
 * A shard is away while it is not connected, or while Redis refuses its calls. Its running jobs end
 * as usual. The queue keeps their ends (DONE or NACK) to send them later. After lease_s in which
 * Redis has accepted no call, it drops the waiting ends, because other shards need the places and
 * the memory; after lease_s in which it has refused all DONE, or all NACK, those of that kind. The
 * jobs run again: their leases have expired, or RESUME gives them back. A daemon with one shard
 * never drops ends.
 *
 * A job that may have killed a daemon runs its last attempt exclusively (lease->alone). The Redis
 * of each shard gives the right to do so to one daemon, with the key NS:alone:owner (alone.h).
 * While this daemon has the right of one shard, its other shards do not fetch. A shard that is away
 * counts only while it runs such a job.
 *
 * A lease names its queue: pass lease->queue to queue_ask, queue_done, queue_retry,
 * queue_give_back and queue_read. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct group;

/* Like queue_create, for all shards that the options name. */
struct group *group_create(uv_loop_t *loop, const struct options *options, const char *instance,
                           const struct queue_events *events, struct error *error);
void group_start(struct group *group);
/* Call after a reload: copies the reloadable options to each shard. Logs an error if memory is
 * short. */
void group_reload(struct group *group);

uint32_t group_shard_count(const struct group *group);
const char *group_namespace(const struct group *group, uint32_t index);

/* Sets the number of free places and of spare places. `open` is false if the daemon takes no jobs
 * although places may be free: it is paused, it drains, or it cannot write outputs. */
void group_set_places(struct group *group, uint32_t places, uint32_t spare, bool open);
/* Number of ended leases that Redis has not acknowledged, of the shards that are away. */
uint32_t group_waiting_ends(const struct group *group);

/* One shard, for a status display. */
struct shard_view {
    bool ready, paused;
    const char *reason; /* why it is not ready, a sentence; "" if it is */
    uint64_t length, delayed, dead_listed, results; /* as in struct queue_view */
    uint64_t running, unacknowledged;               /* leases of this daemon */
};
struct shard_view group_shard_view(struct group *group, uint32_t index);

/* Sums over all shards, but the maximum of oldest_s and the first known version. `connects` counts
 * only one first connect. The state is QUEUE_READY if at least one shard is ready; `reason` then
 * still names the shards that are not. `paused`: every ready shard is paused; without a ready
 * shard: every shard is paused. */
const struct queue_view *group_view(struct group *group);

/* Calls queue_publish for each shard. */
void group_publish(struct group *group, const char *text, double ttl_s);

/* Closes all shards (queue_close). A second call changes the timeout and the callback. */
void group_close(struct group *group, double timeout_s, void (*closed)(void *context),
                 void *context);
void group_destroy(struct group *group);
