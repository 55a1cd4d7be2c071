/* result.c - gpuimgctl result: shows the results of jobs by id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/progress.h"
#include "queue/ctl/show.h"

#define POLL_S 0.1

const struct ctl_option ctl_result_options[] = {
    {"wait", 'w', NULL, "wait for results that do not exist yet"},
    {"timeout", 0, "SECONDS", "wait no longer than this"},
    {0}};

/* Reads the result, polling until `until_s`. Returns CTL_OK with *reply NULL if there is none in
 * time. */
static int look(struct ctl *ctl, const char *id, double until_s, redisReply **reply)
{
    int status = CTL_OK;
    for (;;) {
        *reply = client_ask(ctl->client, "GET %s:result:%s", ctl->options.namespace, id);
        if (!*reply) /* uncovered: gone */
            status = ctl_no_answer(ctl);
        else if ((*reply)->type != REDIS_REPLY_STRING) {
            freeReplyObject(*reply);
            *reply = NULL;
        }
        if (*reply || status || clock_now_s() >= until_s || client_interrupted())
            return status;
        client_pause(ctl->client, POLL_S);
    }
}

static int show(struct ctl *ctl, const char *id, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    bool done = strcmp(show_text(result, "status"), "done") == 0;
    if (!cJSON_IsObject(result)) {
        ctl_say("the stored result of %s is not a JSON object", id);
        cJSON_Delete(result);
        return CTL_FAULT;
    }
    int status = done ? CTL_OK : CTL_FAILED;
    if (ctl->json && ctl_print_text(text) != CTL_OK) /* uncovered: screen */
        status = CTL_FAULT;
    else if (!ctl->json)
        show_result(result, id, NULL);
    cJSON_Delete(result);
    return status;
}

static int show_one(struct ctl *ctl, const char *id, bool wait, double until_s)
{
    redisReply *reply;
    int status = look(ctl, id, until_s, &reply);
    if (status) /* uncovered: gone */
        return status;
    if (reply) {
        status = show(ctl, id, reply->str);
        freeReplyObject(reply);
    } else if (client_interrupted()) { /* uncovered: gone */
        status = CTL_INTERRUPTED;
    } else if (wait) {
        ctl_say("no result of %s within --timeout", id);
        status = CTL_TIMEOUT;
    } else {
        ctl_say("no result of %s: the job has not ended, or ended more than %g s ago, or no job "
                "had this id", id, ctl->options.result_ttl_s);
        status = CTL_FAILED;
    }
    return status;
}

int ctl_result(struct ctl *ctl, int count, char **operands)
{
    double timeout_s = 1e9;
    bool wait = ctl_value(ctl, "wait") != NULL;
    int worst = CTL_OK;
    if (count == 0)
        return ctl_usage(ctl, "ID is missing: give the id of the job");
    if (!ctl_number(ctl, "timeout", 0.001, 1e9, &timeout_s)) /* uncovered: slip */
        return CTL_USAGE;
    if (!wait && ctl_value(ctl, "timeout"))
        return ctl_usage(ctl, "--timeout has no effect without --wait");
    int status = ctl_connect(ctl);
    if (status) /* uncovered: gone */
        return status;
    client_catch_interrupt();
    double until_s = wait ? clock_now_s() + timeout_s : 0;
    for (int i = 0; i < count && worst != CTL_UNAVAILABLE && worst != CTL_INTERRUPTED; i++) {
        status = show_one(ctl, operands[i], wait, until_s);
        worst = status > worst ? status : worst;
    }
    return worst;
}
