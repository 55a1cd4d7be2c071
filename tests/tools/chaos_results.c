/* chaos_results.c - takes the results of chaos and checks them and the outputs. */
#include "tests/tools/chaos.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/measure.h"
#include "tests/fixtures/reference.h"

#define PROVEN_CHAINS 5 /* these chains are compared with the reference, others with each other */

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
            complain(chaos, "input %u, operations %s: no image", job->input,
                     chaos_chains[job->chain]);
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
        complain(chaos, "input %u, operations %s, %s: %s", job->input, chaos_chains[job->chain],
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
        struct shard *shard = chaos_shard(chaos, id);
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
        bool good = !*chaos_kinds[job->kind].code;
        if (job->kind == CANCELLED && strcmp(status, "done") == 0) {
            good = true; /* the job ended before the cancel */
            code = "cancelled";
        }
        chaos->same += json_at(result, "same_as") != NULL;
        if (++job->results > 1)
            complain(chaos, "job %u has %u results, the last: %s", id, job->results, text);
        if (strcmp(status, "dead") == 0 && strcmp(code, "attempts_exhausted") == 0) {
            tally->dead++; /* killed with its daemon three times, which is allowed */
        } else if (strcmp(code, chaos_kinds[job->kind].code) != 0 ||
                   strcmp(status, good                      ? "done"
                                  : job->kind == CANCELLED ? "cancelled"
                                                           : "failed") != 0) {
            tally->wrong++;
            complain(chaos, "wrong result of job %u (%s): %s", id, chaos_kinds[job->kind].name,
                     text);
        } else {
            good ? tally->done++ : tally->failed++;
            if (good)
                check_outputs(chaos, id, job);
        }
    }
    cJSON_Delete(result);
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

unsigned chaos_take(struct chaos *chaos)
{
    unsigned count = 0;
    for (unsigned i = 0; i < chaos->shards; i++)
        if (chaos->shard[i].client)
            count += take_from(chaos, &chaos->shard[i]);
    return count;
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

static long long twins_waiting(struct chaos *chaos)
{
    long long count = 0;
    for (unsigned i = 0; i < chaos->shards; i++)
        count += redis_integer(chaos->shard[i].client, "LLEN %s:" TWINS, chaos->shard[i].ns);
    return count;
}

void chaos_await_twins(struct chaos *chaos)
{
    await(30, twins_waiting(chaos) == chaos->tally[GOOD_TWIN].pushed);
}

void chaos_check_twins(struct chaos *chaos)
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
