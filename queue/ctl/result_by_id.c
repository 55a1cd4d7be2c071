/* result_by_id.c - gpuimgctl result: shows the results of jobs by id. */
#include <string.h>

#include "conf/clock.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/show.h"

#define POLL_S 0.1

const struct ctl_option ctl_result_options[] = {
    {"wait", 'w', NULL, "wait for results that do not exist yet"},
    {"timeout", 0, "SECONDS", "wait no longer than this"},
    {0}};

/* Polls for the result until the time until_s. Returns NULL if there is none by then, or if the
 * shard is away. */
static redisReply *look(struct ctl *ctl, const char *id, double until_s)
{
    for (;;) {
        redisReply *reply = ctl_ask(ctl, "GET %s:result:%s", ctl->ns, id);
        if (!reply || reply->type == REDIS_REPLY_STRING)
            return reply;
        freeReplyObject(reply);
        if (clock_now_s() >= until_s || client_interrupted())
            return NULL;
        client_pause(ctl->client, POLL_S);
    }
}

static int show(struct ctl *ctl, const char *id, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    const cJSON *images = cJSON_GetObjectItemCaseSensitive(result, "images");
    bool good = strcmp(show_text(result, "status"), "done") == 0 &&
                !show_number(images, "failed") && !*show_text(images, "warning");
    int status = good ? CTL_OK : CTL_FAILED;
    if (!cJSON_IsObject(result)) {
        ctl_say("the stored result of %s is not a JSON object", id);
        status = CTL_FAULT;
    } else if (ctl->json) {
        ctl_print_text(ctl, text);
    } else {
        show_result(result, id, NULL, NULL, 0);
    }
    cJSON_Delete(result);
    return status;
}

static int show_one(struct ctl *ctl, const char *id, bool wait, double until_s)
{
    redisReply *reply = ctl_use(ctl, ctl_shard_of(ctl, id)) ? look(ctl, id, until_s) : NULL;
    if (ctl->shard->away) {
        ctl_say("no result of %s: its shard, %u, is away", id, ctl->shard->index);
        return CTL_UNAVAILABLE;
    }
    if (reply) {
        int status = show(ctl, id, reply->str);
        freeReplyObject(reply);
        return status;
    }
    if (client_interrupted()) /* uncovered: gone */
        return CTL_INTERRUPTED;
    if (wait) {
        ctl_say("no result of %s within --timeout", id);
        return CTL_TIMEOUT;
    }
    ctl_say("no result of %s: the job has not ended, or ended more than %g s ago, or no job "
            "had this id", id, ctl->options.result_ttl_s);
    return CTL_FAILED;
}

int ctl_result(struct ctl *ctl, int count, char **operands)
{
    bool wait = ctl_value(ctl, "wait") != NULL;
    int worst = CTL_OK;
    if (count == 0)
        ctl_usage(ctl, "ID is missing: give the id of the job");
    double timeout_s = ctl_number(ctl, "timeout", 0.001, 1e9, 1e9);
    if (!wait && ctl_value(ctl, "timeout"))
        ctl_usage(ctl, "--timeout has no effect without --wait");
    ctl_connect_for(ctl, count, operands);
    client_catch_interrupt();
    double until_s = wait ? clock_now_s() + timeout_s : 0;
    for (int i = 0; i < count && worst != CTL_INTERRUPTED; i++) {
        int status = show_one(ctl, operands[i], wait, until_s);
        worst = status > worst ? status : worst;
    }
    return worst;
}
