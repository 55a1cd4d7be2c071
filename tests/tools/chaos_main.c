/*
 * chaos - runs jobs of all kinds, kills daemons at random moments, and checks that none is lost.
 *
 *     chaos [--daemon PATH] [--jobs 10000] [--kills 20] [--daemons 2] [--seed N]
 *           [--old PATH] [--plain]
 *     chaos --rss [--jobs 20000]
 *     chaos --shards 4 [--daemons 3] [--kills 100] [--master-kills 10] ...
 *
 * Several daemons work on one private Redis. Each kill is a SIGKILL at a seeded random moment;
 * the daemon restarts at once or after its leases have expired. At the end each job must have
 * exactly one result of the right kind, each image must be correct, and no keys or files may be
 * left.
 *
 * --old is the daemon of another version. All daemons start with it; each restart takes one of the
 * two programs at random. Half of the kills are then drains by SIGTERM, as in a rolling upgrade.
 * --plain uses no priorities.
 *
 * With --rss no daemon is killed, and the resident memory of one daemon after 2,000 jobs is
 * compared with that after all jobs.
 *
 * With --shards the jobs are in several shards on a Redis Cluster of three masters. A master that
 * is killed comes back with its append-only file, which it writes before each reply. So it keeps
 * all that it has acknowledged, and each job still has exactly one result. A failover to a replica
 * could undo a FETCH or DONE, because replication is asynchronous; test_cluster.c covers that, with
 * WAIT after each push. The masters are killed while this client has no command outstanding, so it
 * knows what it has pushed.
 */
#include <stdlib.h>
#include <string.h>

#include "queue/redis/script.h"
#include "queue/redis/shard.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/redis_fleet.h"
#include "tests/fixtures/reference.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define LEASE_S 2.0
#define QUEUE_DEPTH 400      /* limit of jobs without a result */
#define STALL_S 60.0         /* fail after this time without a result */
#define RSS_GROWTH_MAX 1.05
#define IDLE_S 5.0           /* until an idle daemon returns malloc's memory */
#define INPUTS 12
#define CHAINS 14
#define TWINS "reply:twins" /* after the namespace */
#define PROVEN_CHAINS 5 /* these chains are compared with the reference, others with each other */

/* ---- jobs ------------------------------------------------------------------------------------ */

enum kind {
    GOOD_PNG, GOOD_JPEG, GOOD_KEY, GOOD_TWO, GOOD_LATER, GOOD_TWIN, CANCELLED, EXPIRED, CUT,
    MISSING, NO_IMAGE, BAD_OP, UNKNOWN_OP, BAD_KEY, REFUSED, HUGE_SIDES, NONSENSE, KINDS
};
static const struct {
    const char *name, *code; /* the expected error code; "": done */
    unsigned share;          /* of 1000 */
    const char *rest;        /* more members of a job that fails */
} kinds[KINDS] = {
    [GOOD_PNG] = {"file to PNG", "", 390, NULL},
    [GOOD_JPEG] = {"file to JPEG", "", 220, NULL},
    [GOOD_KEY] = {"key to key", "", 80, NULL},
    [GOOD_TWO] = {"two outputs", "", 80, NULL},
    [GOOD_LATER] = {"not before its time", "", 30, NULL},
    [GOOD_TWIN] = {"there twice, unique", "", 30, NULL},
    [CANCELLED] = {"cancelled or done", "cancelled", 20, NULL},
    [EXPIRED] = {"expired", "expired", 10, NULL},
    [CUT] = {"truncated file", "decode_failed", 30, "'input':'cut.jpg','ops':['sobel']"},
    [MISSING] = {"missing file", "input_missing", 20, "'input':'none.jpg'"},
    [NO_IMAGE] = {"not an image", "unsupported_format", 20, "'input':'text.jpg'"},
    [BAD_OP] = {"bad parameter", "bad_op", 10,
                "'input':'0.img','ops':[{'op':'sobel','magnitude':'l9'}]"},
    [UNKNOWN_OP] = {"unknown operation", "unknown_op", 10, "'input':'0.img','ops':['sobell']"},
    [BAD_KEY] = {"unknown key", "bad_job", 10, "'input':'0.img','opps':[]"},
    [REFUSED] = {"path outside", "path_refused", 10, "'input':'../0.img'"},
    [HUGE_SIDES] = {"50,000 a side", "image_too_large", 10, "'input':'huge.png'"},
    [NONSENSE] = {"not JSON", "bad_json", 20, NULL},
};
static const char *const chains[CHAINS] = {
    "[]", "['grayscale']", "['sobel']", "['grayscale',{'op':'sobel','magnitude':'l2'}]",
    "[{'op':'sobel','border':'replicate','magnitude':'l1'}]",
    "['otsu']",
    "['equalize','stats']",
    "[{'op':'resize','width':24,'fast_shrink':false}]",
    "[{'op':'rotate','angle':90},{'op':'gaussian','ksize':7}]",
    "['median','invert']",
    "[{'op':'canny','low':40,'high':90},'phash']",
    "[{'op':'convolve','kernel':[[0,1,0],[1,2,1],[0,1,0]]},{'op':'flip','axis':'vertical'}]",
    "['unsharp',{'op':'gamma','gamma':1.8},'histogram']",
    "[{'op':'crop','width':20,'height':20},'transpose',{'op':'threshold','value':90}]"};

struct job {
    uint8_t kind, input, chain, results;
    bool deferred; /* its shard was away: push it later */
};

struct shard {
    redisContext *client; /* NULL: its master is down */
    char ns[24];
    size_t node;          /* of the Cluster */
};

struct tally {
    unsigned pushed, done, failed, dead, wrong;
};

struct chaos {
    struct world world;
    struct redis_fleet fleet;       /* with several shards */
    struct shard shard[SHARDS_MAX];
    uint32_t random;
    unsigned jobs, kills, daemons, shards, master_kills;
    unsigned masters_killed, deferred, *master_kill_at; /* as kill_at */
    double back_at[FLEET_NODES_MAX]; /* when a killed master restarts; 0: it runs */
    struct job *job;
    unsigned pushed, answered, nonsense_answered;
    unsigned twins, same;           /* second results of unique jobs; those with same_as */
    unsigned twins_dead;            /* second results of jobs that were killed too often */
    const char *old;                /* the program of another version, or NULL */
    bool plain;
    unsigned drained, olds, switches; /* restarts: with the old program, with the other one */
    bool is_old[WORLD_DAEMONS_MAX];
    unsigned killed, repeated, attempts_most, errors;
    unsigned *kill_at;              /* sorted numbers of results after which to kill */
    double restart_at[WORLD_DAEMONS_MAX];
    struct tally tally[KINDS];
    /* The first output of each kind, checked against the reference; all others must equal it. */
    struct picture_file proven[INPUTS][CHAINS][2];
};

static uint32_t pick(struct chaos *chaos, uint32_t below)
{
    return picture_random(&chaos->random) % below;
}

#define complain(chaos, ...) complain_of(chaos, text_of(__VA_ARGS__))
static void complain_of(struct chaos *chaos, const char *text)
{
    if (++chaos->errors <= 20)
        printf("chaos: WRONG: %s\n", text);
}

static struct shard *shard_of(struct chaos *chaos, unsigned id)
{
    const char *text = text_of("%u", id);
    return &chaos->shard[shard_of_id(text, strlen(text), chaos->shards)];
}

static void put_key(struct chaos *chaos, uint32_t input, const struct picture_file *file)
{
    for (struct shard *shard = chaos->shard; shard < chaos->shard + chaos->shards; shard++)
        freeReplyObject(redis_command(shard->client, "SET %s:img:%u %b", shard->ns, input,
                                      file->bytes, file->length));
}

static void put_inputs(struct chaos *chaos)
{
    struct world *w = &chaos->world;
    for (uint32_t i = 0; i < INPUTS; i++) {
        char name[32];
        uint32_t width = 40 + i * 53 % 400, height = 30 + i * 97 % 300;
        struct picture_jpeg jpeg = {.width = width, .height = height, .seed = i + 1,
                                    .progressive = i % 3 == 1};
        struct picture_png png = {.width = width, .height = height, .seed = i + 1,
                                  .colour_type = i % 4 == 1 ? 0 : 2, .level = 1};
        if (i == 0)
            jpeg.width = 1600, jpeg.height = 1200;
        struct picture_file file = i % 2 ? picture_png(&png) : picture_jpeg(&jpeg);
        snprintf(name, sizeof name, "%u.img", i);
        put_key(chaos, i, &file);
        world_put_picture(w, name, file);
    }
    struct picture_file whole = picture_jpeg(&(struct picture_jpeg){.width = 300, .height = 200});
    world_put_picture(w, "cut.jpg", picture_cut_at(&whole, 0.6));
    picture_free(&whole);
    world_put_picture(w, "text.jpg", picture_text());
    world_put_picture(w, "huge.png", picture_png_huge(50000, 50000));
}

/* Writes the text of a job; single quotes become double quotes. */
static void write_job(const struct job *job, unsigned id, const char *ns, char *text, size_t size)
{
    const char *ops = chains[job->chain], *rest = kinds[job->kind].rest;
    char more[40] = "";
    switch ((enum kind)job->kind) {
    case GOOD_KEY:
        snprintf(text, size, "{'id':'%u','input':{'key':'%s:img:%u'},'output':{'key':"
                 "'%s:img:out:%u','format':'png','ttl_s':3600},'ops':%s}", id, ns, job->input, ns,
                 id, ops);
        return;
    case GOOD_TWO:
        snprintf(text, size, "{'id':'%u','input':'%u.img','outputs':[{'output':'o/%u.png',"
                 "'ops':%s},{'output':'o/%u-b.png','ops':%s}]}", id, job->input, id, ops, id, ops);
        return;
    case EXPIRED:
        snprintf(text, size, "{'id':'%u','input':'0.img','output':'never/%u.png','expires':%.3f}",
                 id, id, clock_s(CLOCK_REALTIME) - 1); /* Redis runs on this machine */
        return;
    case NONSENSE:
        snprintf(text, size, "nonsense %u", id);
        return;
    case GOOD_LATER:
        snprintf(more, sizeof more, ",'not_before':%.3f",
                 clock_s(CLOCK_REALTIME) + id % 500 * 0.001);
        break;
    case GOOD_TWIN:
        snprintf(more, sizeof more, ",'unique':true");
        break;
    default:
        break;
    }
    if (rest)
        snprintf(text, size, "{'id':'%u','output':'never/%u.png',%s}", id, id, rest);
    else
        snprintf(text, size, "{'id':'%u','input':'%u.img','output':'o/%u.%s','ops':%s%s}", id,
                 job->input, id, job->kind == GOOD_JPEG ? "jpg" : "png", ops, more);
}

/* A third of the jobs have no priority. Jobs with the same id may be in different lists. */
static void push_one(struct chaos *chaos, const struct shard *shard, const char *text)
{
    unsigned list = chaos->plain ? JOB_PRIORITIES : pick(chaos, 15);
    if (list < JOB_PRIORITIES)
        redisAppendCommand(shard->client, "LPUSH %s:jobs:%u %s", shard->ns, list, text);
    else
        redisAppendCommand(shard->client, "LPUSH %s:jobs %s", shard->ns, text);
}

/* Sends a job and the other commands of its kind; returns the number of commands. */
static unsigned send_job(struct chaos *chaos, unsigned id)
{
    const struct job *job = &chaos->job[id];
    const struct shard *shard = shard_of(chaos, id);
    char text[512], second[640];
    write_job(job, id, shard->ns, text, sizeof text);
    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    push_one(chaos, shard, text);
    if (job->kind == GOOD_TWIN) { /* a second one with its own reply list */
        snprintf(second, sizeof second, "%.*s,\"reply_to\":\"%s:%s\"}", (int)strlen(text) - 1,
                 text, shard->ns, TWINS);
        push_one(chaos, shard, second);
        return 2;
    }
    if (job->kind == CANCELLED) {
        redisAppendCommand(shard->client,
                           "EVAL %s 6 %s:jobs %s:cancel %s:woken %s:waits:%u %s:result:%u %s:never "
                           "%u", script_text(SCRIPT_ID_CANCEL), shard->ns, shard->ns, shard->ns,
                           shard->ns, id, shard->ns, id, shard->ns, id);
        return 2;
    }
    return 1;
}

/* Pushes a job, or defers it if its shard is away. sent: the commands to each shard. */
static void push_or_defer(struct chaos *chaos, unsigned id, unsigned *sent)
{
    struct job *job = &chaos->job[id];
    struct shard *shard = shard_of(chaos, id);
    chaos->deferred -= job->deferred;
    job->deferred = !shard->client;
    chaos->deferred += job->deferred;
    if (shard->client)
        sent[shard - chaos->shard] += send_job(chaos, id);
}

static void push_some(struct chaos *chaos, unsigned count)
{
    unsigned sent[SHARDS_MAX] = {0};
    for (unsigned id = 0; chaos->deferred > 0 && id < chaos->pushed; id++)
        if (chaos->job[id].deferred)
            push_or_defer(chaos, id, sent);
    for (unsigned added = 0; added < count && chaos->pushed < chaos->jobs; added++) {
        struct job *job = &chaos->job[chaos->pushed];
        unsigned ticket = pick(chaos, 1000), kind = 0;
        while (ticket >= kinds[kind].share)
            ticket -= kinds[kind++].share;
        *job = (struct job){.kind = (uint8_t)kind, .input = (uint8_t)pick(chaos, INPUTS),
                            .chain = (uint8_t)pick(chaos, CHAINS)};
        /* Limits the number of jobs with the large image. */
        if (job->input == 0 && pick(chaos, 4))
            job->input = 2;
        chaos->tally[kind].pushed++;
        push_or_defer(chaos, chaos->pushed++, sent);
    }
    for (unsigned i = 0; i < chaos->shards; i++)
        if (sent[i] > 0)
            redis_drain(chaos->shard[i].client, sent[i]);
}

/* ---- results --------------------------------------------------------------------------------- */

static struct raster expected_pixels(struct chaos *chaos, unsigned input, unsigned chain)
{
    char name[32];
    snprintf(name, sizeof name, "%u.img", input);
    struct raster in = world_load_in(&chaos->world, name, chain ? RASTER_LUMA : RASTER_COLOUR);
    if (chain == 0)
        return in;
    struct raster gray = reference_gray(&in, NULL, (const uint8_t[3]){255, 255, 255});
    raster_clear(&in);
    if (chain == 1)
        return gray;
    struct raster edges = chain == 2 ? reference_sobel(&gray, REFERENCE_HALF, REFERENCE_REFLECT101)
                          : chain == 3
                              ? reference_sobel(&gray, REFERENCE_L2, REFERENCE_REFLECT101)
                              : reference_sobel(&gray, REFERENCE_L1, REFERENCE_REPLICATE);
    raster_clear(&gray);
    return edges;
}

/* Decodes the first output of its kind and compares it with the reference. A JPEG of a single gray
 * component is compared with libjpeg's encoding of the reference. */
static bool prove(struct chaos *chaos, const struct job *job, bool jpeg, const uint8_t *bytes,
                  size_t length)
{
    char where[160] = "";
    struct raster got = raster_decode(bytes, length, RASTER_COLOUR);
    if (job->chain >= PROVEN_CHAINS) {
        bool whole = got.pixels != NULL;
        if (!whole)
            complain(chaos, "input %u, operations %s: no image", job->input, chains[job->chain]);
        raster_clear(&got);
        return whole;
    }
    struct raster expected = expected_pixels(chaos, job->input, job->chain);
    int limit = 0;
    if (jpeg && expected.channels == 1) {
        size_t size;
        uint8_t *file = raster_to_jpeg(&expected, 85, &size);
        raster_clear(&expected);
        expected = raster_decode(file, size, RASTER_COLOUR);
        free(file);
    } else if (jpeg) {
        limit = 255; /* only the size: chroma subsampling is the encoder's choice */
    }
    size_t differ = raster_differ(&got, &expected, limit, where, sizeof where);
    if (differ)
        complain(chaos, "input %u, operations %s, %s: %s", job->input, chains[job->chain],
                 jpeg ? "JPEG" : "PNG", where);
    raster_clear(&got);
    raster_clear(&expected);
    return differ == 0;
}

static void check_bytes(struct chaos *chaos, unsigned id, const struct job *job, bool jpeg,
                        const uint8_t *bytes, size_t length)
{
    struct picture_file *proven = &chaos->proven[job->input][job->chain][jpeg];
    if (!bytes || !length) {
        complain(chaos, "job %u is done, but its output is missing", id);
    } else if (!proven->bytes) {
        if (!prove(chaos, job, jpeg, bytes, length))
            return;
        proven->bytes = malloc(length);
        memcpy(proven->bytes, bytes, length);
        proven->length = length;
    } else if (chaos->old) { /* another version may encode the same pixels in other bytes */
        prove(chaos, job, jpeg, bytes, length);
    } else if (length != proven->length || memcmp(bytes, proven->bytes, length) != 0) {
        complain(chaos, "job %u: %zu bytes that differ from the first of its kind", id, length);
    }
}

static void check_file(struct chaos *chaos, unsigned id, const struct job *job, const char *suffix)
{
    char path[256];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/o/%u%s", chaos->world.out, id, suffix);
    unsigned char *bytes = text_file_bytes(path, &length);
    check_bytes(chaos, id, job, job->kind == GOOD_JPEG, bytes, length);
    free(bytes);
}

static void check_outputs(struct chaos *chaos, unsigned id, const struct job *job)
{
    if (job->kind == GOOD_KEY) {
        struct shard *shard = shard_of(chaos, id);
        redisReply *value = redis_command(shard->client, "GET %s:img:out:%u", shard->ns, id);
        check_bytes(chaos, id, job, false, (const uint8_t *)value->str,
                    value->type == REDIS_REPLY_STRING ? value->len : 0);
        freeReplyObject(value);
        return;
    }
    check_file(chaos, id, job, job->kind == GOOD_JPEG ? ".jpg" : ".png");
    if (job->kind == GOOD_TWO)
        check_file(chaos, id, job, "-b.png");
}

static void take_result(struct chaos *chaos, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    const char *id_text = json_text(result, "id"), *status = json_text(result, "status");
    const char *code = json_text(result, "error.code");
    double attempt = json_number(result, "attempt");
    unsigned id = (unsigned)strtoul(id_text, NULL, 10);
    if (attempt > 1)
        chaos->repeated++;
    if (attempt > chaos->attempts_most)
        chaos->attempts_most = (unsigned)attempt;
    chaos->answered++;
    if (!*id_text) { /* without an id only the number of results is checked */
        struct tally *tally = &chaos->tally[NONSENSE];
        chaos->nonsense_answered++;
        bool dead = strcmp(status, "dead") == 0;
        dead ? tally->dead++ : tally->failed++;
        if (strcmp(code, dead ? "attempts_exhausted" : "bad_json") != 0)
            complain(chaos, "wrong result of a job without id: %s", text);
    } else if (id >= chaos->pushed) {
        complain(chaos, "result of a job that was not pushed: %s", text);
    } else {
        struct job *job = &chaos->job[id];
        struct tally *tally = &chaos->tally[job->kind];
        bool good = !*kinds[job->kind].code;
        if (job->kind == CANCELLED && strcmp(status, "done") == 0) {
            good = true; /* the job ended before the cancel */
            code = "cancelled";
        }
        chaos->same += json_at(result, "same_as") != NULL;
        if (++job->results > 1)
            complain(chaos, "job %u has %u results, the last: %s", id, job->results, text);
        if (strcmp(status, "dead") == 0 && strcmp(code, "attempts_exhausted") == 0) {
            tally->dead++; /* killed with its daemon three times, which is allowed */
        } else if (strcmp(code, kinds[job->kind].code) != 0 ||
                   strcmp(status, good                      ? "done"
                                  : job->kind == CANCELLED ? "cancelled"
                                                           : "failed") != 0) {
            tally->wrong++;
            complain(chaos, "wrong result of job %u (%s): %s", id, kinds[job->kind].name, text);
        } else {
            good ? tally->done++ : tally->failed++;
            if (good)
                check_outputs(chaos, id, job);
        }
    }
    cJSON_Delete(result);
}

static void take_twins(struct chaos *chaos, const struct shard *shard)
{
    char *text;
    while ((text = redis_string(shard->client, "RPOP %s:" TWINS, shard->ns)) != NULL) {
        cJSON *result = cJSON_Parse(text);
        const char *status = json_text(result, "status");
        unsigned id = (unsigned)strtoul(json_text(result, "id"), NULL, 10);
        chaos->twins++;
        chaos->same += json_at(result, "same_as") != NULL;
        chaos->twins_dead += json_at(result, "same_as") == NULL && strcmp(status, "dead") == 0;
        if (id >= chaos->pushed || chaos->job[id].kind != GOOD_TWIN ||
            (strcmp(status, "done") != 0 && strcmp(status, "dead") != 0))
            complain(chaos, "wrong result of a second unique job: %s", text);
        cJSON_Delete(result);
        free(text);
    }
}

/* Checks the results of second unique jobs. Each has exactly one, which repeats that of the first
 * job, unless one of the two was dead before the other was looked at. */
static void check_twins(struct chaos *chaos)
{
    const struct tally *tally = &chaos->tally[GOOD_TWIN];
    for (unsigned i = 0; i < chaos->shards; i++)
        take_twins(chaos, &chaos->shard[i]);
    if (chaos->twins != tally->pushed)
        complain(chaos, "%u of %u second unique jobs have a result", chaos->twins, tally->pushed);
    if (chaos->same > tally->pushed ||
        chaos->same + tally->dead + chaos->twins_dead < tally->pushed)
        complain(chaos, "%u of %u results repeat that of a first job; %u and %u are dead",
                 chaos->same, tally->pushed, tally->dead, chaos->twins_dead);
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool start_daemon(struct chaos *chaos, size_t index, bool wait)
{
    static char lease[32], renew[32];
    snprintf(lease, sizeof lease, "--lease_s=%g", patience(LEASE_S));
    snprintf(renew, sizeof renew, "--renew_s=%g", patience(LEASE_S / 5));
    const char *shards = chaos->shards > 1 ? text_of("--shards=%u", chaos->shards) : NULL;
    const char *const extra[] = {lease, renew, "--reap_s=0.4", "--host_bytes=256M",
                                 "--pinned_bytes=256M", shards,
                                 text_of("--redis=%s", chaos->fleet.address), NULL};
    bool first = !chaos->world.daemons[index].log_path[0], was_old = chaos->is_old[index];
    bool is_old = chaos->is_old[index] = chaos->old && (first || pick(chaos, 2));
    struct process_options how = {.program = is_old ? chaos->old : NULL};
    chaos->switches += !first && was_old != is_old;
    chaos->olds += !first && is_old;
    struct process *daemon = world_start_with(&chaos->world, index, &how, extra);
    chaos->restart_at[index] = 0;
    return !wait || world_ready(daemon);
}

static void drain(struct chaos *chaos, size_t index)
{
    struct process *daemon = &chaos->world.daemons[index];
    int status = -1;
    if (world_ready(daemon)) { /* before that, SIGTERM may end it without a drain */
        process_signal(daemon, SIGTERM);
        status = process_wait(daemon, 30);
    }
    if (status != 0)
        complain(chaos, "daemon %zu exited with %d after SIGTERM", index, status);
    chaos->drained++;
}

static void kill_and_restart(struct chaos *chaos)
{
    double now = process_now();
    for (size_t i = 0; i < chaos->daemons; i++) {
        process_mark(&chaos->world.daemons[i]);
        if (chaos->restart_at[i] > 0 && now >= chaos->restart_at[i])
            start_daemon(chaos, i, false);
        if (chaos->world.daemons[i].pid > 0 && !process_running(&chaos->world.daemons[i])) {
            char *log = process_log(&chaos->world.daemons[i]);
            complain(chaos, "daemon %zu exited, status %d; its log:\n%s", i,
                     chaos->world.daemons[i].status, log);
            free(log);
            chaos->restart_at[i] = now;
        }
    }
    if (chaos->killed == chaos->kills || chaos->answered < chaos->kill_at[chaos->killed])
        return;
    size_t victim = pick(chaos, chaos->daemons);
    if (!process_running(&chaos->world.daemons[victim]))
        return; /* it is dead; the kill follows later */
    process_sleep(pick(chaos, 20) * 0.001);
    if (chaos->old && pick(chaos, 2))
        drain(chaos, victim);
    else
        process_kill9(&chaos->world.daemons[victim]);
    if (++chaos->killed % 100 == 0) {
        printf("%u kills, %u results\n", chaos->killed, chaos->answered);
        fflush(stdout);
    }
    /* Restarts immediately, or so late that another daemon must take over its jobs. */
    double away = pick(chaos, 3) ? pick(chaos, 300) * 0.001 : patience(LEASE_S) * 1.5;
    chaos->restart_at[victim] = process_now() + away;
}

/* Connects to the shards of a master. false: it does not accept writes yet. */
static bool connect_shards(struct chaos *chaos, size_t node)
{
    for (unsigned i = 0; i < chaos->shards; i++) {
        struct shard *shard = &chaos->shard[i];
        if (shard->node != node || shard->client)
            continue;
        redisContext *client = redisConnectUnix(chaos->fleet.nodes[node]->socket);
        redisReply *reply =
            client && !client->err ? redisCommand(client, "SET %s:img:probe 1", shard->ns) : NULL;
        bool good = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (good)
            shard->client = client;
        else if (client)
            redisFree(client);
        if (!good)
            return false;
    }
    return true;
}

static void kill_master(struct chaos *chaos, size_t node)
{
    for (unsigned i = 0; i < chaos->shards; i++) {
        struct shard *shard = &chaos->shard[i];
        if (shard->node == node && shard->client)
            redisFree(shard->client);
        if (shard->node == node)
            shard->client = NULL;
    }
    redis_server_kill9(chaos->fleet.nodes[node]);
    chaos->masters_killed++;
    /* Some are away for longer than a lease. */
    double away = pick(chaos, 3) ? pick(chaos, 1000) * 0.001 : patience(LEASE_S) * 2;
    chaos->back_at[node] = process_now() + away;
}

static void restart_masters(struct chaos *chaos)
{
    for (size_t node = 0; node < chaos->fleet.count; node++) {
        struct redis_server *server = chaos->fleet.nodes[node];
        if (chaos->back_at[node] == 0 || process_now() < chaos->back_at[node])
            continue;
        if (!server->pid)
            redis_server_restart_nowait(server);
        if (connect_shards(chaos, node))
            chaos->back_at[node] = 0;
    }
}

static void kill_masters(struct chaos *chaos)
{
    restart_masters(chaos);
    if (chaos->masters_killed == chaos->master_kills ||
        chaos->answered < chaos->master_kill_at[chaos->masters_killed])
        return;
    size_t node = chaos->shard[pick(chaos, chaos->shards)].node;
    if (chaos->back_at[node] == 0)
        kill_master(chaos, node);
}

static unsigned take_from(struct chaos *chaos, const struct shard *shard)
{
    redisReply *reply = redis_command(shard->client, "RPOP %s:results 200", shard->ns);
    unsigned count = 0;
    if (reply->type == REDIS_REPLY_ARRAY)
        for (; count < reply->elements; count++)
            take_result(chaos, reply->element[count]->str);
    freeReplyObject(reply);
    return count;
}

static unsigned take_some(struct chaos *chaos)
{
    unsigned count = 0;
    for (unsigned i = 0; i < chaos->shards; i++)
        if (chaos->shard[i].client)
            count += take_from(chaos, &chaos->shard[i]);
    return count;
}

/* Many restarts take longer than their jobs on a fast machine. */
static bool waits_for_kills(const struct chaos *chaos)
{
    return chaos->old && chaos->killed < chaos->kills &&
           chaos->answered > chaos->kill_at[chaos->killed] + QUEUE_DEPTH / 4;
}

static void run(struct chaos *chaos)
{
    double heard = process_now();
    while (chaos->answered < chaos->jobs) {
        bool deep = chaos->pushed - chaos->answered >= QUEUE_DEPTH || waits_for_kills(chaos);
        if (chaos->deferred > 0 || !deep)
            push_some(chaos, deep ? 0 : 100);
        if (take_some(chaos) > 0)
            heard = process_now();
        else
            process_sleep(0.002);
        kill_and_restart(chaos);
        kill_masters(chaos);
        if (process_now() - heard > patience(STALL_S)) {
            complain(chaos, "no result for %.0f s; %u of %u have arrived", patience(STALL_S),
                     chaos->answered, chaos->jobs);
            return;
        }
    }
}

/* NS:inst keeps dead daemons for ten leases. */
static void check_names(struct chaos *chaos, const struct shard *shard)
{
    long long names = 0;
    if (!await(LEASE_S * 14, (names = redis_integer(shard->client, "ZCARD %s:inst", shard->ns)) ==
                                 chaos->daemons))
        complain(chaos, "%s:inst has %lld entries, %u daemons run", shard->ns, names,
                 chaos->daemons);
}

static void check_keys(struct chaos *chaos, const struct shard *shard)
{
    struct world one = chaos->world;
    char names[2048];
    one.client = shard->client;
    snprintf(one.ns, sizeof one.ns, "%s", shard->ns);
    if (world_leftovers(&one, names, sizeof names))
        complain(chaos, "keys are left:%s", names);
}

static long long twins_waiting(struct chaos *chaos)
{
    long long count = 0;
    for (unsigned i = 0; i < chaos->shards; i++)
        count += redis_integer(chaos->shard[i].client, "LLEN %s:" TWINS, chaos->shard[i].ns);
    return count;
}

static bool all_masters_run(struct chaos *chaos)
{
    restart_masters(chaos);
    for (unsigned i = 0; i < chaos->shards; i++)
        if (!chaos->shard[i].client)
            return false;
    return true;
}

/* Checks the state after every job has its result. */
static void check_end(struct chaos *chaos)
{
    struct world *w = &chaos->world;
    unsigned nonsense = chaos->tally[NONSENSE].pushed, silent = 0, kept = 0;
    if (!await(60, all_masters_run(chaos))) {
        complain(chaos, "a master does not come back");
        return;
    }
    for (size_t i = 0; i < chaos->daemons; i++)
        if (!process_running(&w->daemons[i]))
            start_daemon(chaos, i, true);
    for (unsigned i = 0; i < chaos->shards; i++)
        check_names(chaos, &chaos->shard[i]);
    take_some(chaos);
    await(30, twins_waiting(chaos) == chaos->tally[GOOD_TWIN].pushed);
    for (size_t i = 0; i < chaos->daemons; i++)
        drain(chaos, i);
    while (take_some(chaos) > 0)
        continue;
    for (unsigned i = 0; i < chaos->jobs; i++) {
        if (chaos->job[i].kind == NONSENSE)
            continue;
        silent += chaos->job[i].results == 0;
        kept += redis_integer(shard_of(chaos, i)->client, "EXISTS %s:result:%u",
                              shard_of(chaos, i)->ns, i) == 1;
    }
    if (silent || chaos->nonsense_answered != nonsense)
        complain(chaos, "%u jobs have no result; %u of %u without id have", silent,
                 chaos->nonsense_answered, nonsense);
    if (kept != chaos->jobs - nonsense)
        complain(chaos, "%u of %u results are kept by id", kept, chaos->jobs - nonsense);
    check_twins(chaos);
    for (unsigned i = 0; i < chaos->shards; i++)
        check_keys(chaos, &chaos->shard[i]);
    if (text_file_count(w->out, ".tmp"))
        complain(chaos, "%zu temporary files are left", text_file_count(w->out, ".tmp"));
    if (text_file_count(w->out, "/never/"))
        complain(chaos, "failed jobs left outputs");
}

static int report(const struct chaos *chaos, double seconds)
{
    unsigned dead = 0;
    printf("%-20s %8s %8s %8s %8s %8s  %s\n", "kind", "pushed", "done", "failed", "dead", "wrong",
           "due");
    for (size_t i = 0; i < KINDS; i++) {
        const struct tally *t = &chaos->tally[i];
        printf("%-20s %8u %8u %8u %8u %8u  %s\n", kinds[i].name, t->pushed, t->done, t->failed,
               t->dead, t->wrong, *kinds[i].code ? kinds[i].code : "done");
        dead += t->dead;
    }
    printf("%u jobs, %u results, %u daemons, %u kills, %.1f s, %.0f jobs/s\n", chaos->jobs,
           chaos->answered, chaos->daemons, chaos->killed, seconds, chaos->jobs / seconds);
    if (chaos->shards > 1)
        printf("%u shards on a Cluster, %u kills of masters\n", chaos->shards,
               chaos->masters_killed);
    printf("%u jobs were tried more than once, at most %u times; %u used up their attempts\n",
           chaos->repeated, chaos->attempts_most, dead + chaos->twins_dead);
    if (chaos->old)
        printf("%u of the kills were drains; %u restarts with the old program, %u with another "
               "than before\n", chaos->drained - chaos->daemons, chaos->olds, chaos->switches);
    bool right = chaos->errors == 0 && chaos->killed == chaos->kills &&
                 chaos->masters_killed == chaos->master_kills;
    printf("%s: %u errors\n", right ? "PASSED" : "FAILED", chaos->errors);
    return right ? 0 : 1;
}

static int by_value(const void *a, const void *b)
{
    return *(const unsigned *)a < *(const unsigned *)b ? -1 : 1;
}

/* Sorted numbers of results after which to kill. */
static unsigned *kill_times(struct chaos *chaos, unsigned kills)
{
    unsigned *times = calloc(kills + 1, sizeof *times);
    if (!times)
        abort();
    for (unsigned i = 0; i < kills; i++)
        times[i] = pick(chaos, chaos->jobs * 9 / 10);
    qsort(times, kills, sizeof *times, by_value);
    return times;
}

static void open_shards(struct chaos *chaos)
{
    fleet_start_cluster(&chaos->fleet, 0, "{gpuimgd:0}");
    for (unsigned i = 0; i < chaos->shards; i++) {
        struct shard *shard = &chaos->shard[i];
        snprintf(shard->ns, sizeof shard->ns, "{gpuimgd:%u}", i);
        fleet_integer(&chaos->fleet, "DEL %s:none", shard->ns); /* finds the owner */
        shard->node = chaos->fleet.owner;
        shard->client = redis_server_connect(chaos->fleet.nodes[shard->node]);
        printf("%s is on master %zu\n", shard->ns, shard->node);
    }
}

static void open_chaos(struct chaos *chaos)
{
    world_open(&chaos->world, chaos->shards > 1 ? NULL : redis_server_start(NULL, NULL));
    if (chaos->shards > 1) {
        open_shards(chaos);
    } else {
        chaos->shard[0].client = chaos->world.client;
        strcpy(chaos->shard[0].ns, chaos->world.ns);
        strcpy(chaos->fleet.address, chaos->world.redis->address);
    }
    chaos->job = calloc(chaos->jobs, sizeof *chaos->job);
    if (!chaos->job)
        abort();
    chaos->kill_at = kill_times(chaos, chaos->kills);
    chaos->master_kill_at = kill_times(chaos, chaos->master_kills);
    put_inputs(chaos);
}

static void close_chaos(struct chaos *chaos)
{
    for (size_t i = 0; i < INPUTS * CHAINS * 2; i++)
        free((&chaos->proven[0][0][0] + i)->bytes);
    free(chaos->job);
    free(chaos->kill_at);
    free(chaos->master_kill_at);
    world_close(&chaos->world);
    for (unsigned i = 0; chaos->shards > 1 && i < chaos->shards; i++)
        if (chaos->shard[i].client)
            redisFree(chaos->shard[i].client);
    if (chaos->shards > 1)
        fleet_stop(&chaos->fleet);
}

static int chaos_run(struct chaos *chaos)
{
    int status = 1;
    printf("chaos: %u jobs, %u daemons, %u kills, seed %u\n", chaos->jobs, chaos->daemons,
           chaos->kills, chaos->random);
    fflush(stdout);
    open_chaos(chaos);
    bool ready = true;
    for (size_t i = 0; i < chaos->daemons; i++)
        ready = ready && start_daemon(chaos, i, true);
    if (ready) {
        double start = process_now();
        run(chaos);
        double seconds = process_now() - start;
        check_end(chaos);
        status = report(chaos, seconds);
    }
    close_chaos(chaos);
    return status;
}

static int rss_run(struct chaos *chaos)
{
    const unsigned marks[] = {2000, chaos->jobs};
    size_t kib[2] = {0, 0};
    chaos->kills = 0;
    chaos->daemons = 1;
    open_chaos(chaos);
    bool ready = start_daemon(chaos, 0, true);
    for (size_t i = 0; ready && i < 2; i++) {
        chaos->jobs = marks[i];
        run(chaos);
        process_sleep(IDLE_S);
        kib[i] = process_rss_kib(&chaos->world.daemons[0]);
        printf("resident after %6u jobs: %8zu KiB\n", marks[i], kib[i]);
        fflush(stdout);
    }
    double ratio = kib[0] ? (double)kib[1] / (double)kib[0] : 99;
    bool right = ready && !chaos->errors && ratio <= RSS_GROWTH_MAX;
    printf("ratio %.3f, at most %.2f is allowed: %s\n", ratio, RSS_GROWTH_MAX,
           right ? "PASSED" : "FAILED");
    close_chaos(chaos);
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct chaos chaos;
    chaos = (struct chaos){
        .kills = 20, .daemons = 2, .shards = 1, .random = (uint32_t)time(NULL) | 1};
    const char *daemon = getenv("GPUIMGD");
    bool rss = false;
    const struct argument options[] = {
        {"daemon", .text = &daemon},        {"jobs", .number = &chaos.jobs},
        {"kills", .number = &chaos.kills},  {"daemons", .number = &chaos.daemons},
        {"shards", .number = &chaos.shards}, {"master-kills", .number = &chaos.master_kills},
        {"seed", .number = &chaos.random},  {"old", .text = &chaos.old},
        {"plain", .flag = &chaos.plain},    {"rss", .flag = &rss},
        {.name = NULL}};
    bool usable = arguments_read(argc, argv, options) == argc;
    if (chaos.random == 0)
        chaos.random = 1;
    if (chaos.jobs == 0)
        chaos.jobs = rss ? 20000 : 10000;
    bool sharded = chaos.shards > 1 && chaos.shards <= SHARDS_MAX;
    usable = usable && (sharded || (chaos.shards == 1 && chaos.master_kills == 0));
    if (!usable || !daemon || chaos.daemons == 0 || chaos.daemons > WORLD_DAEMONS_MAX) {
        fprintf(stderr, "usage: chaos --daemon PATH [--jobs N] [--kills N] [--daemons 1-%d] "
                        "[--seed N] [--old PATH] [--plain] [--rss] "
                        "[--shards 2-%d [--master-kills N]]\n",
                WORLD_DAEMONS_MAX, SHARDS_MAX);
        return 64;
    }
    setenv("GPUIMGD", daemon, 1);
    return rss ? rss_run(&chaos) : chaos_run(&chaos);
}
