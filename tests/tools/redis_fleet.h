/*
 * redis_fleet.h - several redis-servers that are one to their clients: a master with replicas and
 * three Sentinels, or the nodes of a Cluster. And a load of jobs on them, whose images are keys.
 *
 * All are of redis_server.h. What cannot be started, or does not settle, ends the test program.
 */
#ifndef GPUIMGD_TESTS_TOOLS_REDIS_FLEET_H
#define GPUIMGD_TESTS_TOOLS_REDIS_FLEET_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include "tests/tools/redis_server.h"

#define FLEET_NODES_MAX 6
#define FLEET_SENTINELS 3
#define FLEET_MASTER "pictures" /* as the Sentinels know it */

struct redis_fleet {
    bool is_cluster;
    struct redis_server *nodes[FLEET_NODES_MAX];
    char ids[FLEET_NODES_MAX][48];  /* of a Cluster's nodes */
    size_t count;
    struct redis_server *sentinels[FLEET_SENTINELS]; /* NULL without */
    size_t asked;            /* the Sentinel that was asked last */
    redisContext *clients[FLEET_NODES_MAX];
    size_t owner;            /* the node that answered last: the master, or the slot's */
    size_t copies;           /* replicas that each pushed job must have reached; 0 at the start */
    char address[256];       /* for the option `redis` */
    const char *ns;
    int slot;
    unsigned pushed;
};

/* One server, without anything. */
void fleet_start_one(struct redis_fleet *fleet, const char *ns);
/* Returns once the Sentinels know each other and all replicas. */
void fleet_start_sentinels(struct redis_fleet *fleet, size_t replicas, const char *ns);
/* Three masters with a third of the slots each, and as many replicas of the one that has the
 * namespace's slot. Returns once all agree. */
void fleet_start_cluster(struct redis_fleet *fleet, size_t replicas, const char *ns);
void fleet_stop(struct redis_fleet *fleet);

/* A command to whoever has the data now; goes on asking while that is nobody. Not for commands
 * that may not be carried out twice when a server dies in the middle of them. */
redisReply *fleet_command(struct redis_fleet *fleet, const char *format, ...);
long long fleet_integer(struct redis_fleet *fleet, const char *format, ...);
/* A command to one node, which must succeed. */
void fleet_order(struct redis_fleet *fleet, size_t node, const char *format, ...);
/* Waits until some other node than this one is the master, or has the slot. */
void fleet_wait_for_other(struct redis_fleet *fleet, size_t node);

/* Kills the owner with SIGKILL; pushed jobs then have a copy less. */
size_t fleet_kill_owner(struct redis_fleet *fleet);
/* Starts it again as a replica of who is the owner now, and waits until it has everything. */
void fleet_revive(struct redis_fleet *fleet, size_t node);

/* Moves the slot from its owner to another node, by hand: begins, moves at most so many keys
 * (returns how many), ends. */
void fleet_slot_begin(struct redis_fleet *fleet, size_t to);
size_t fleet_slot_move(struct redis_fleet *fleet, size_t from, size_t to, size_t keys);
void fleet_slot_end(struct redis_fleet *fleet, size_t to);

/* ---- the load ---- */

/* Pushes jobs whose input and output are keys, and waits until the copies have them. */
void load_push(struct redis_fleet *fleet, unsigned count);
/* Waits until so many results are there. */
bool load_wait(struct redis_fleet *fleet, unsigned results);
/* Waits until all is through; then each job must have one result, `done`, and its output must be
 * there. Returns how many were wrong, having said which. */
unsigned load_check(struct redis_fleet *fleet);

#endif
