#include "tests/tools/redis_fleet.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/picture.h"
#include "tests/tools/process.h"
#include "tests/tools/world.h"

#define SETTLE_S 30.0
#define SLOTS 16384
#define CLUSTER_MASTERS 3
#define PUSH_BATCH 50

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("redis_fleet: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* ---- connections ----------------------------------------------------------------------------- */

static void disconnect(struct redis_fleet *fleet, size_t node)
{
    if (fleet->clients[node])
        redisFree(fleet->clients[node]);
    fleet->clients[node] = NULL;
}

static redisContext *client(struct redis_fleet *fleet, size_t node)
{
    if (!fleet->clients[node] && fleet->nodes[node]->pid)
        fleet->clients[node] = redisConnectUnix(fleet->nodes[node]->socket);
    if (fleet->clients[node] && fleet->clients[node]->err)
        disconnect(fleet, node);
    return fleet->clients[node];
}

/* Reads of a replica that is behind would be answered, and wrongly. */
static bool is_master(redisContext *redis)
{
    redisReply *role = redisCommand(redis, "ROLE");
    bool yes = role && role->type == REDIS_REPLY_ARRAY && !strcmp(role->element[0]->str, "master");
    if (role)
        freeReplyObject(role);
    return yes;
}

static size_t node_of_port(const struct redis_fleet *fleet, int port)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->nodes[i]->port == port)
            return i;
    die("nobody here has the port %d", port);
}

static size_t ask_sentinel(struct redis_fleet *fleet, size_t which)
{
    redisContext *sentinel = redis_server_connect(fleet->sentinels[which]);
    redisReply *reply = redis_command(sentinel, "SENTINEL get-master-addr-by-name " FLEET_MASTER);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        die("Sentinel %zu knows no master", which);
    size_t node = node_of_port(fleet, atoi(reply->element[1]->str));
    freeReplyObject(reply);
    redisFree(sentinel);
    return node;
}

/* The next one, where there is one. */
static void ask_sentinels(struct redis_fleet *fleet)
{
    do
        fleet->asked = (fleet->asked + 1) % FLEET_SENTINELS;
    while (!fleet->sentinels[fleet->asked]->pid);
    fleet->owner = ask_sentinel(fleet, fleet->asked);
}

/* After a failure: whom to try now. */
static void look_elsewhere(struct redis_fleet *fleet)
{
    disconnect(fleet, fleet->owner);
    if (fleet->sentinels[0])
        ask_sentinels(fleet);
    else
        fleet->owner = (fleet->owner + 1) % fleet->count;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool try_command(struct redis_fleet *fleet, const char *command, size_t length, bool asking,
                        redisReply **reply)
{
    redisContext *redis = client(fleet, fleet->owner);
    void *answer = NULL;
    if (!redis || (fleet->sentinels[0] && !is_master(redis)))
        return false;
    if (asking) {
        redisAppendCommand(redis, "ASKING");
        if (redisGetReply(redis, &answer) != REDIS_OK)
            return false;
        freeReplyObject(answer);
    }
    redisAppendFormattedCommand(redis, command, length);
    if (redisGetReply(redis, &answer) != REDIS_OK)
        return false;
    *reply = answer;
    return true;
}

/* True where the reply says to try again; then `asking` is how. */
static bool redirected(struct redis_fleet *fleet, const redisReply *reply, bool *asking)
{
    *asking = false;
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    const char *error = reply->str, *port = strrchr(error, ':');
    if (begins(error, "MOVED ") || begins(error, "ASK ")) {
        *asking = begins(error, "ASK ");
        fleet->owner = node_of_port(fleet, atoi(port + 1));
    } else if (begins(error, "CLUSTERDOWN") || begins(error, "TRYAGAIN") ||
               begins(error, "LOADING")) {
        process_sleep(0.02);
    } else if (begins(error, "READONLY")) {
        look_elsewhere(fleet);
        process_sleep(0.02);
    } else {
        return false;
    }
    return true;
}

static redisReply *command_to_owner(struct redis_fleet *fleet, const char *format, va_list args)
{
    char *command = NULL;
    redisReply *reply = NULL;
    bool asking = false;
    int length = redisvFormatCommand(&command, format, args);
    double end = process_now() + patience(SETTLE_S);
    if (length < 0)
        die("cannot format %s", format);
    while (process_now() < end) {
        if (!try_command(fleet, command, (size_t)length, asking, &reply)) {
            asking = false;
            look_elsewhere(fleet);
            process_sleep(0.02);
        } else if (!redirected(fleet, reply, &asking)) {
            break;
        } else {
            freeReplyObject(reply);
            reply = NULL;
        }
    }
    if (!reply)
        die("nobody carried out %s", format);
    redisFreeCommand(command);
    return reply;
}

redisReply *fleet_command(struct redis_fleet *fleet, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = command_to_owner(fleet, format, args);
    va_end(args);
    return reply;
}

long long fleet_integer(struct redis_fleet *fleet, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = command_to_owner(fleet, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        die("%s: %s", format, reply->str);
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return value;
}

void fleet_order(struct redis_fleet *fleet, size_t node, const char *format, ...)
{
    redisContext *redis = client(fleet, node);
    va_list args;
    va_start(args, format);
    redisReply *reply = redis ? redisvCommand(redis, format, args) : NULL;
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("node %zu, %s: %s", node, format, reply ? reply->str : "no answer");
    freeReplyObject(reply);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Waits until the text that a command of a server answers holds `wanted`, as a whole line. */
static void wait_for(const struct redis_server *server, const char *wanted, const char *command)
{
    double end = process_now() + patience(SETTLE_S);
    bool there = false;
    while (!there && process_now() < end) {
        redisContext *redis = redis_server_connect(server); /* Sentinels end its connections */
        redisReply *reply = redisCommand(redis, command);
        const char *at = reply && reply->str ? strstr(reply->str, wanted) : NULL;
        there = at && strchr("\r\n,", at[strlen(wanted)]);
        if (reply)
            freeReplyObject(reply);
        redisFree(redis);
        if (!there)
            process_sleep(0.02);
    }
    if (!there)
        die("%s of %s does not come to %s", command, server->tcp, wanted);
}

static void add_address(struct redis_fleet *fleet, const struct redis_server *server)
{
    size_t used = strlen(fleet->address);
    bool first = used == 0 || fleet->address[used - 1] == '@';
    snprintf(fleet->address + used, sizeof fleet->address - used, "%s%s", first ? "" : ",",
             server->tcp);
}

static void start(struct redis_fleet *fleet, const char *ns)
{
    memset(fleet, 0, sizeof *fleet);
    fleet->ns = ns;
    signal(SIGPIPE, SIG_IGN); /* servers die while we write to them */
}

void fleet_start_one(struct redis_fleet *fleet, const char *ns)
{
    start(fleet, ns);
    fleet->nodes[fleet->count++] = redis_server_start(NULL);
    add_address(fleet, fleet->nodes[0]);
}

void fleet_start_sentinels(struct redis_fleet *fleet, size_t replicas, const char *ns)
{
    char port[16], slaves[32];
    start(fleet, ns);
    fleet->nodes[fleet->count++] = redis_server_start("--repl-diskless-sync-delay", "0", NULL);
    snprintf(port, sizeof port, "%d", fleet->nodes[0]->port);
    for (size_t i = 0; i < replicas; i++)
        fleet->nodes[fleet->count++] = redis_server_start(
            "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", port, NULL);
    for (size_t i = 1; i < fleet->count; i++)
        wait_for(fleet->nodes[i], "master_link_status:up", "INFO replication");
    fleet->copies = replicas;
    strcpy(fleet->address, "sentinel://" FLEET_MASTER "@");
    for (size_t i = 0; i < FLEET_SENTINELS; i++) {
        fleet->sentinels[i] = redis_sentinel_start(FLEET_MASTER, fleet->nodes[0]->port);
        add_address(fleet, fleet->sentinels[i]);
    }
    snprintf(slaves, sizeof slaves, "slaves=%zu,sentinels=%d", replicas, FLEET_SENTINELS);
    for (size_t i = 0; i < FLEET_SENTINELS; i++)
        wait_for(fleet->sentinels[i], slaves, "INFO sentinel");
}

/* Only then may one of them follow its master, and the others vote for it. */
static void wait_for_replicas(struct redis_fleet *fleet, size_t replicas)
{
    double end = process_now() + patience(SETTLE_S);
    for (size_t i = 0; i < fleet->count;) {
        redisReply *reply = redis_command(client(fleet, i), "CLUSTER REPLICAS %s",
                                          fleet->ids[fleet->owner]);
        i += reply->type == REDIS_REPLY_ARRAY && reply->elements == replicas;
        freeReplyObject(reply);
        if (process_now() > end)
            die("node %zu does not know the replicas", i);
        process_sleep(0.01);
    }
}

static void start_nodes(struct redis_fleet *fleet, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fleet->nodes[i] = redis_server_start(
            "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
            "--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0",
            "--cluster-migration-barrier", "9", /* replicas stay where they were put */
            "--repl-diskless-sync-delay", "0", NULL);
        fleet->count++;
        char *id = redis_string(client(fleet, i), "CLUSTER MYID");
        snprintf(fleet->ids[i], sizeof fleet->ids[i], "%s", id);
        free(id);
        add_address(fleet, fleet->nodes[i]);
    }
}

/* ADDSLOTSRANGE is of Redis 7. */
static void give_slots(struct redis_fleet *fleet, size_t node, int from, int to)
{
    redisContext *redis = client(fleet, node);
    for (int slot = from; slot < to; slot++)
        redisAppendCommand(redis, "CLUSTER ADDSLOTS %d", slot);
    for (int slot = from; slot < to; slot++) {
        void *reply = NULL;
        if (redisGetReply(redis, &reply) != REDIS_OK)
            die("node %zu does not take slot %d", node, slot);
        freeReplyObject(reply);
    }
}

void fleet_start_cluster(struct redis_fleet *fleet, size_t replicas, const char *ns)
{
    char known[48];
    start(fleet, ns);
    fleet->is_cluster = true;
    start_nodes(fleet, CLUSTER_MASTERS + replicas);
    for (size_t i = 0; i < fleet->count; i++) {
        fleet_order(fleet, i, "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
        if (i < CLUSTER_MASTERS)
            give_slots(fleet, i, SLOTS * (int)i / CLUSTER_MASTERS,
                       SLOTS * (int)(i + 1) / CLUSTER_MASTERS);
    }
    for (size_t i = 1; i < fleet->count; i++)
        fleet_order(fleet, 0, "CLUSTER MEET 127.0.0.1 %d", fleet->nodes[i]->port);
    snprintf(known, sizeof known, "cluster_known_nodes:%zu", fleet->count);
    for (size_t i = 0; i < fleet->count; i++) {
        wait_for(fleet->nodes[i], known, "CLUSTER INFO");
        wait_for(fleet->nodes[i], "cluster_slots_assigned:16384", "CLUSTER INFO");
        wait_for(fleet->nodes[i], "cluster_state:ok", "CLUSTER INFO");
    }
    fleet->slot = (int)fleet_integer(fleet, "CLUSTER KEYSLOT %s", ns);
    fleet_integer(fleet, "DEL %s:none", ns); /* finds the owner */
    for (size_t i = CLUSTER_MASTERS; i < fleet->count; i++) {
        fleet_order(fleet, i, "CLUSTER REPLICATE %s", fleet->ids[fleet->owner]);
        wait_for(fleet->nodes[i], "master_link_status:up", "INFO replication");
    }
    wait_for_replicas(fleet, replicas);
    fleet->copies = replicas;
}

void fleet_stop(struct redis_fleet *fleet)
{
    for (size_t i = 0; i < FLEET_SENTINELS; i++)
        redis_server_stop(fleet->sentinels[i]);
    for (size_t i = 0; i < fleet->count; i++) {
        disconnect(fleet, i);
        redis_server_stop(fleet->nodes[i]);
    }
    memset(fleet, 0, sizeof *fleet);
}

/* ---- failover, migration --------------------------------------------------------------------- */

size_t fleet_kill_owner(struct redis_fleet *fleet)
{
    size_t node = fleet->owner;
    redis_server_kill9(fleet->nodes[node]);
    disconnect(fleet, node);
    fleet->copies--;
    return node;
}

void fleet_revive(struct redis_fleet *fleet, size_t node)
{
    char copies[32];
    /* A Sentinel that has not heard of the failover would send clients there. */
    for (size_t i = 0; i < FLEET_SENTINELS && fleet->sentinels[i]; i++)
        while (ask_sentinel(fleet, i) != fleet->owner)
            process_sleep(0.02);
    redis_server_restart(fleet->nodes[node]);
    if (!fleet->is_cluster) /* Sentinels would take 10 s to do this; a Cluster's node does it */
        fleet_order(fleet, node, "REPLICAOF 127.0.0.1 %d", fleet->nodes[fleet->owner]->port);
    wait_for(fleet->nodes[node], "role:slave", "INFO replication");
    wait_for(fleet->nodes[node], "master_link_status:up", "INFO replication");
    fleet->copies++;
    fleet_integer(fleet, "DEL %s:none", fleet->ns); /* on a busy machine there may be another one */
    snprintf(copies, sizeof copies, "connected_slaves:%zu", fleet->copies);
    wait_for(fleet->nodes[fleet->owner], copies, "INFO replication");
}

void fleet_wait_for_other(struct redis_fleet *fleet, size_t node)
{
    double end = process_now() + patience(SETTLE_S);
    do {
        fleet_integer(fleet, "DEL %s:none", fleet->ns); /* a write, which a replica refuses */
        if (fleet->owner != node)
            return;
        process_sleep(0.02);
    } while (process_now() < end);
    die("node %zu has no successor", node);
}

void fleet_slot_begin(struct redis_fleet *fleet, size_t to)
{
    size_t from = fleet->owner;
    fleet_order(fleet, to, "CLUSTER SETSLOT %d IMPORTING %s", fleet->slot, fleet->ids[from]);
    fleet_order(fleet, from, "CLUSTER SETSLOT %d MIGRATING %s", fleet->slot, fleet->ids[to]);
}

size_t fleet_slot_move(struct redis_fleet *fleet, size_t from, size_t to, size_t keys)
{
    redisReply *names = redis_command(client(fleet, from), "CLUSTER GETKEYSINSLOT %d %d",
                                      fleet->slot, (int)keys);
    size_t moved = names->elements;
    for (size_t i = 0; i < moved; i++)
        fleet_order(fleet, from, "MIGRATE 127.0.0.1 %d %b 0 5000", fleet->nodes[to]->port,
                    names->element[i]->str, names->element[i]->len);
    freeReplyObject(names);
    return moved;
}

void fleet_slot_end(struct redis_fleet *fleet, size_t to)
{
    fleet_order(fleet, to, "CLUSTER SETSLOT %d NODE %s", fleet->slot, fleet->ids[to]);
    for (size_t i = 0; i < fleet->count; i++)
        fleet_order(fleet, i, "CLUSTER SETSLOT %d NODE %s", fleet->slot, fleet->ids[to]);
}

/* ---- the load -------------------------------------------------------------------------------- */

static void put_image(struct redis_fleet *fleet)
{
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 64, .height = 48});
    freeReplyObject(fleet_command(fleet, "SET %s:img:in %b", fleet->ns, file.bytes, file.length));
    picture_free(&file);
}

static void wait_for_copies(struct redis_fleet *fleet)
{
    double end = process_now() + patience(SETTLE_S);
    while (fleet->copies > 0 &&
           fleet_integer(fleet, "WAIT %d 1000", (int)fleet->copies) < (long long)fleet->copies)
        if (process_now() > end)
            die("the replicas have not got job %u", fleet->pushed - 1);
}

void load_push(struct redis_fleet *fleet, unsigned count)
{
    if (fleet->pushed == 0)
        put_image(fleet);
    for (unsigned i = 0; i < count; i++) {
        char job[512];
        unsigned id = fleet->pushed++;
        snprintf(job, sizeof job,
                 "{\"id\":\"%u\",\"input\":{\"key\":\"%s:img:in\"},\"output\":{\"key\":"
                 "\"%s:img:out:%u\",\"format\":\"png\"},\"ops\":[\"sobel\"]%s}",
                 id, fleet->ns, fleet->ns, id, id % 4 ? "" : ",\"unique\":true");
        freeReplyObject(fleet_command(fleet, "LPUSH %s:jobs %s", fleet->ns, job));
        if (i + 1 == count || i % PUSH_BATCH == PUSH_BATCH - 1)
            wait_for_copies(fleet);
    }
}

static void say_state(struct redis_fleet *fleet)
{
    static const char *const counts[] = {"LLEN %s:results", "LLEN %s:jobs", "ZCARD %s:lease",
                                         "ZCARD %s:delayed", "LLEN %s:alone", "LLEN %s:dead"};
    fprintf(stderr, "%u pushed; on %s", fleet->pushed, fleet->nodes[fleet->owner]->tcp);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        fprintf(stderr, ", %s %lld", strchr(counts[i], ':') + 1,
                fleet_integer(fleet, counts[i], fleet->ns));
    fputc('\n', stderr);
}

bool load_wait(struct redis_fleet *fleet, unsigned results)
{
    double end = process_now() + patience(SETTLE_S);
    while (fleet_integer(fleet, "LLEN %s:results", fleet->ns) < (long long)results) {
        if (process_now() > end) {
            say_state(fleet);
            return false;
        }
        process_sleep(0.005);
    }
    return true;
}

static bool is_through(struct redis_fleet *fleet)
{
    return fleet_integer(fleet, "LLEN %s:jobs", fleet->ns) +
               fleet_integer(fleet, "ZCARD %s:lease", fleet->ns) +
               fleet_integer(fleet, "ZCARD %s:delayed", fleet->ns) +
               fleet_integer(fleet, "LLEN %s:alone", fleet->ns) == 0;
}

static unsigned check_result(struct redis_fleet *fleet, const char *text, unsigned *counts)
{
    cJSON *result = cJSON_Parse(text);
    unsigned id = (unsigned)strtoul(json_text(result, "id"), NULL, 10);
    bool right = *json_text(result, "id") && id < fleet->pushed && counts[id]++ == 0 &&
                 strcmp(json_text(result, "status"), "done") == 0 &&
                 fleet_integer(fleet, "STRLEN %s:img:out:%u", fleet->ns, id) > 0;
    if (!right)
        fprintf(stderr, "a second result, a wrong one, or one without its output: %s\n", text);
    cJSON_Delete(result);
    return !right;
}

unsigned load_check(struct redis_fleet *fleet)
{
    unsigned wrong = 0, *counts = calloc(fleet->pushed + 1, sizeof *counts);
    double end = process_now() + patience(SETTLE_S);
    if (!counts)
        abort();
    while (!is_through(fleet) && process_now() < end)
        process_sleep(0.02);
    redisReply *results = fleet_command(fleet, "LRANGE %s:results 0 -1", fleet->ns);
    for (size_t i = 0; i < results->elements; i++)
        wrong += check_result(fleet, results->element[i]->str, counts);
    freeReplyObject(results);
    for (unsigned id = 0; id < fleet->pushed; id++) {
        if (counts[id] > 0)
            continue;
        fprintf(stderr, "job %u has no result\n", id);
        wrong++;
    }
    free(counts);
    return wrong;
}
