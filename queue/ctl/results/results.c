/* results.c - gpuimgctl results: shows the results of all jobs, or takes them as a consumer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/results/consumer.h"
#include "queue/ctl/show.h"

#define NAME_BYTES_MAX 128
/* The longest wait in one command, so that Ctrl-C takes effect soon. */
#define WAIT_S 1.0

const struct ctl_option ctl_results_options[] = {
    {"follow", 'f', NULL, "take results as they come, until Ctrl-C"},
    {"from", 0, "PLACE", "list or stream (default: the option results, else the list)"},
    {"group", 'g', "NAME", "consumer group of the stream (default gpuimgctl); it is created"},
    {"consumer", 0, "NAME", "name of this consumer, unique among those that run (default: host)"},
    {"new", 0, NULL, "a new group begins with the results after now, not with the oldest"},
    {"idle", 0, "SECONDS", "take over what another consumer of the stream holds for longer (60)"},
    {"count", 'n', "COUNT", "end after so many results"},
    {0}};

/* The consumer of one shard. */
struct follower {
    struct consumer consumer;
    uint32_t shard;
    bool away; /* Redis is away, and the user was told */
};

struct results {
    struct ctl *ctl;
    bool stream;
    long long left; /* results until the end */
    uint64_t trimmed;
    struct follower *followers;
    size_t count;
};

/* ---- printing ------------------------------------------------------------------------------ */

static void print_result(struct results *results, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    char number[32];
    snprintf(number, sizeof number, "job %.0f", show_number(result, "job"));
    if (!cJSON_IsObject(result))
        ctl_say("a result is not a JSON object: %.160s", text);
    else if (results->ctl->json)
        ctl_print_text(results->ctl, text);
    else
        show_result(result, *show_text(result, "id") ? show_text(result, "id") : number, NULL, NULL,
                    0);
    cJSON_Delete(result);
    results->left--;
}

/* Prints the results. Ends the program if that fails: the results then stay in Redis. */
static void print_taken(struct results *results, const struct consumer *consumer)
{
    out_hold(true);
    for (size_t i = 0; i < consumer->count; i++) {
        if (consumer->results[i].text)
            print_result(results, consumer->results[i].text);
        else
            results->trimmed++;
    }
    out_hold(false);
    if (consumer->count > 0)
        out_sync();
    if (out_failed())
        ctl_end(results->ctl, CTL_FAULT);
}

/* ---- without --follow ---------------------------------------------------------------------- */

/* Reads the results after the `shown` oldest ones. Their indexes count from the right end, where
 * the oldest are, so that new results do not change them. */
static redisReply *list_piece(struct ctl *ctl, long long shown)
{
    return ctl_ask(ctl, "LRANGE %s:results %lld %lld", ctl->ns, -shown - CONSUMER_BATCH,
                   -shown - 1);
}

static void show_list(struct results *results)
{
    long long shown = 0;
    size_t got = CONSUMER_BATCH;
    while (got == CONSUMER_BATCH && results->left > 0) {
        redisReply *reply = list_piece(results->ctl, shown);
        got = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = got; i-- > 0 && results->left > 0;)
            print_result(results, reply->element[i]->str);
        shown += CONSUMER_BATCH;
        freeReplyObject(reply);
    }
}

static const char *result_of(const redisReply *entry)
{
    const redisReply *fields = entry->elements == 2 ? entry->element[1] : NULL;
    for (size_t i = 0; fields && i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, "result") == 0)
            return fields->element[i + 1]->str;
    return "";
}

static void show_stream(struct results *results)
{
    char after[48] = "-";
    size_t got = CONSUMER_BATCH;
    while (got == CONSUMER_BATCH && results->left > 0) {
        redisReply *reply = ctl_ask(results->ctl, "XRANGE %s:results:stream %s + COUNT %d",
                                    results->ctl->ns, after, CONSUMER_BATCH);
        got = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = 0; i < got && results->left > 0; i++)
            print_result(results, result_of(reply->element[i]));
        if (got > 0)
            snprintf(after, sizeof after, "(%.40s", reply->element[got - 1]->element[0]->str);
        freeReplyObject(reply);
    }
}

/* ---- following ----------------------------------------------------------------------------- */

static void say_away(struct follower *follower, struct ctl *ctl)
{
    char number[32];
    if (!follower->away)
        ctl_say("%s%s; waiting until it is back", ctl_shard_text(ctl, "shard %u is away: ", number),
                client_why(ctl->client));
    follower->away = true;
}

static void on_away(void *context)
{
    struct results *results = context;
    say_away(&results->followers[0], results->ctl);
}

/* Tells the user if there are results in the list although this command reads the stream, or the
 * other way round: each daemon posts to the one that its option `results` names. */
static void report_other_results(struct results *results)
{
    struct ctl *ctl = results->ctl;
    long long count = 0;
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        count += results->stream ? ctl_integer(ctl, "LLEN", "results")
                                 : ctl_integer(ctl, "XLEN", "results:stream");
    if (count > 0)
        ctl_say("%lld results are in the %s; take them with --from=%s", count,
                results->stream ? "list" : "stream", results->stream ? "list" : "stream");
}

/* Takes and prints results of one shard. A shard that is away does not stop the others. Returns
 * whether results came. */
static bool take_some(struct results *results, struct follower *follower, double wait_s)
{
    struct consumer *consumer = &follower->consumer;
    struct ctl *ctl = results->ctl;
    size_t limit = results->left < CONSUMER_BATCH ? (size_t)results->left : CONSUMER_BATCH;
    ctl_use(ctl, follower->shard);
    if ((consumer->others && !client_up(ctl->client)) || !consumer_take(consumer, limit, wait_s)) {
        if (!consumer->others)
            ctl_no_answer(ctl);
        say_away(follower, ctl);
        client_pause(ctl->client,
                     wait_s > 0 ? wait_s : 0.001); /* meanwhile the client tries to connect */
        return false;
    }
    if (consumer->count > 0 || client_up(ctl->client)) /* else the connection has broken */
        follower->away = false;
    print_taken(results, consumer);
    if (!consumer_settle(consumer) && !client_interrupted()) {
        if (!consumer->others)
            ctl_no_answer(ctl); /* uncovered: gone */
        say_away(follower, ctl);
    }
    return consumer->count > 0;
}

static void follow(struct results *results)
{
    double wait_s = results->ctl->options.command_timeout_s / 2;
    wait_s = (wait_s < WAIT_S ? wait_s : WAIT_S) / (double)results->count;
    client_catch_interrupt();
    if (results->count == 1)
        client_retry_for(results->ctl->client, 1e15, on_away, results);
    report_other_results(results);
    out_separate();
    for (bool quiet = true; results->left > 0 && !client_interrupted();) {
        bool came = false;
        for (size_t i = 0; i < results->count && results->left > 0 && !client_interrupted(); i++)
            came |= take_some(results, &results->followers[i], quiet ? wait_s : 0);
        quiet = !came;
    }
    for (size_t i = 0; i < results->count; i++)
        consumer_clear(&results->followers[i].consumer);
    if (results->trimmed > 0)
        ctl_say("%llu results were trimmed before a consumer ended them; raise results_max",
                (unsigned long long)results->trimmed);
}

/* Makes a consumer for each selected shard. model: has the options that all consumers share. */
static void make_followers(struct results *results, const struct consumer *model)
{
    struct ctl *ctl = results->ctl;
    results->followers = calloc(ctl->shard_count, sizeof *results->followers);
    if (!results->followers)
        ctl_out_of_memory(ctl, "the consumers");
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (ctl->shards[i].client) {
            struct follower *follower = &results->followers[results->count++];
            *follower = (struct follower){.consumer = *model, .shard = i};
            follower->consumer.client = ctl->shards[i].client;
            follower->consumer.ns = ctl->shards[i].options.namespace;
            follower->away = ctl->shards[i].away;
            consumer_init(&follower->consumer);
        }
    for (size_t i = 0; i < results->count; i++)
        results->followers[i].consumer.others = results->count > 1;
}

/* ---- the command --------------------------------------------------------------------------- */

static bool reads_stream(struct ctl *ctl)
{
    const char *from = ctl_value(ctl, "from");
    if (from && strcmp(from, "list") != 0 && strcmp(from, "stream") != 0)
        ctl_usage(ctl, "--from is \"%s\"; it must be list or stream", from);
    return strcmp(from ? from : ctl->options.results, "stream") == 0;
}

static void check_options(struct results *results)
{
    static const char *const of_follow[] = {"group", "consumer", "new", "idle"};
    static const char *const of_stream[] = {"group", "new", "idle"};
    struct ctl *ctl = results->ctl;
    for (size_t i = 0; i < 4; i++)
        if (!ctl_value(ctl, "follow") && ctl_value(ctl, of_follow[i]))
            ctl_usage(ctl, "--%s has no effect without --follow", of_follow[i]);
    for (size_t i = 0; i < 3; i++)
        if (!results->stream && ctl_value(ctl, of_stream[i]))
            ctl_usage(ctl, "--%s is for a stream, but the results come from the list; give "
                           "--from=stream", of_stream[i]);
}

/* Returns the name of a consumer group or a consumer, from an option; `standard` without the
 * option. */
static const char *name_of(struct ctl *ctl, const char *option, const char *standard)
{
    const char *name = ctl_value(ctl, option) ? ctl_value(ctl, option) : standard;
    size_t bytes = strlen(name);
    if (bytes < 1 || bytes > NAME_BYTES_MAX)
        ctl_usage(ctl, "--%s has %zu bytes; it must have 1 to %d", option, bytes, NAME_BYTES_MAX);
    return name;
}

int ctl_results(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    struct results results = {.ctl = ctl, .stream = reads_stream(ctl)};
    char host[NAME_BYTES_MAX + 1] = "";
    check_options(&results);
    if (gethostname(host, sizeof host - 1) != 0 || !*host) /* uncovered: gone */
        snprintf(host, sizeof host, "unknown");
    const struct consumer model = {.stream = results.stream,
                                   .group = name_of(ctl, "group", "gpuimgctl"),
                                   .name = name_of(ctl, "consumer", host),
                                   .idle_s = ctl_number(ctl, "idle", 0.1, 1e6, 60),
                                   .only_new = ctl_value(ctl, "new") != NULL};
    results.left = ctl_whole(ctl, "count", 1, 1e15, 1e15);
    ctl_connect(ctl);
    if (ctl_value(ctl, "follow")) {
        make_followers(&results, &model);
        follow(&results);
        free(results.followers);
        return CTL_OK;
    }
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        (results.stream ? show_stream : show_list)(&results);
    return ctl_worst(ctl, CTL_OK);
}
