/* chaos_jobs.c - the kinds of jobs of chaos, their inputs, and how they are pushed. */
#include "tests/tools/chaos.h"

#include <string.h>

#include "queue/redis/script.h"
#include "tests/fixtures/measure.h"

const struct kind_row chaos_kinds[KINDS] = {
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
const char *const chaos_chains[CHAINS] = {
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

static void put_key(struct chaos *chaos, uint32_t input, const struct picture_file *file)
{
    for (struct shard *shard = chaos->shard; shard < chaos->shard + chaos->shards; shard++)
        freeReplyObject(redis_command(shard->client, "SET %s:img:%u %b", shard->ns, input,
                                      file->bytes, file->length));
}

void chaos_put_inputs(struct chaos *chaos)
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
    const char *ops = chaos_chains[job->chain], *rest = chaos_kinds[job->kind].rest;
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
    unsigned list = chaos->plain ? JOB_PRIORITIES : chaos_pick(chaos, 15);
    if (list < JOB_PRIORITIES)
        redisAppendCommand(shard->client, "LPUSH %s:jobs:%u %s", shard->ns, list, text);
    else
        redisAppendCommand(shard->client, "LPUSH %s:jobs %s", shard->ns, text);
}

/* Sends a job and the other commands of its kind; returns the number of commands. */
static unsigned send_job(struct chaos *chaos, unsigned id)
{
    const struct job *job = &chaos->job[id];
    const struct shard *shard = chaos_shard(chaos, id);
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
    struct shard *shard = chaos_shard(chaos, id);
    chaos->deferred -= job->deferred;
    job->deferred = !shard->client;
    chaos->deferred += job->deferred;
    if (shard->client)
        sent[shard - chaos->shard] += send_job(chaos, id);
}

void chaos_push(struct chaos *chaos, unsigned count)
{
    unsigned sent[SHARDS_MAX] = {0};
    for (unsigned id = 0; chaos->deferred > 0 && id < chaos->pushed; id++)
        if (chaos->job[id].deferred)
            push_or_defer(chaos, id, sent);
    for (unsigned added = 0; added < count && chaos->pushed < chaos->jobs; added++) {
        struct job *job = &chaos->job[chaos->pushed];
        unsigned ticket = chaos_pick(chaos, 1000), kind = 0;
        while (ticket >= chaos_kinds[kind].share)
            ticket -= chaos_kinds[kind++].share;
        *job = (struct job){.kind = (uint8_t)kind, .input = (uint8_t)chaos_pick(chaos, INPUTS),
                            .chain = (uint8_t)chaos_pick(chaos, CHAINS)};
        /* Limits the number of jobs with the large image. */
        if (job->input == 0 && chaos_pick(chaos, 4))
            job->input = 2;
        chaos->tally[kind].pushed++;
        push_or_defer(chaos, chaos->pushed++, sent);
    }
    for (unsigned i = 0; i < chaos->shards; i++)
        if (sent[i] > 0)
            redis_drain(chaos->shard[i].client, sent[i]);
}
