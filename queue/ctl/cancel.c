/* cancel.c - gpuimgctl cancel: cancels jobs by id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"
#include "queue/ctl/job_search.h"
#include "queue/redis/script.h"

/* Runs the cancel script. Its reply is the stored result of the id, or empty. Returns NULL after an
 * error message. */
static redisReply *call(struct ctl *ctl, const char *id)
{
    const char *ns = ctl->options.namespace;
    redisReply *reply = client_ask(ctl->client,
                                   "EVAL %s 6 %s:jobs %s:cancel %s:woken %s:waits:%s "
                                   "%s:result:%s %s:never %s",
                                   script_text(SCRIPT_ID_CANCEL), ns, ns, ns, ns, id, ns, id, ns,
                                   id);
    if (!reply)
        ctl_no_answer(ctl);
    return reply;
}

static const char *sentence(enum job_search_result found, bool ended)
{
    if (found == JOB_SEARCH_FOUND)
        return "all waiting and running jobs with this id are cancelled";
    if (found == JOB_SEARCH_UNKNOWN)
        return "every job with this id that was sent so far is cancelled, if there is one: not all "
               "waiting and running jobs could be searched";
    return ended ? "no job with this id waits or runs, so none is cancelled"
                 : "no job with this id waits or runs, and no result is stored; the cancel still "
                   "applies to jobs that were sent before it";
}

static int say(struct ctl *ctl, const char *id, enum job_search_result found, const char *kept)
{
    cJSON *result = kept ? cJSON_Parse(kept) : NULL;
    int status = found == JOB_SEARCH_NONE && !kept ? CTL_FAILED : CTL_OK;
    if (ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "cancelled", id);
        if (found == JOB_SEARCH_UNKNOWN)
            cJSON_AddNullToObject(json, "found");
        else
            cJSON_AddBoolToObject(json, "found", found == JOB_SEARCH_FOUND);
        if (!result || !cJSON_AddItemReferenceToObject(json, "result", result))
            cJSON_AddNullToObject(json, "result");
        if (ctl_print_json(json) != CTL_OK)
            status = CTL_FAULT;
    } else {
        char word[SHOW_BYTES];
        out_put("%s: %s", id, sentence(found, kept != NULL));
        if (result)
            out_put("; an earlier one has ended (%s)",
                    show_word(result, "status", word, sizeof word));
        out_end();
    }
    cJSON_Delete(result);
    return status;
}

int ctl_cancel(struct ctl *ctl, int count, char **operands)
{
    if (count == 0)
        return ctl_usage(ctl, "ID is missing: give the id of the job to cancel");
    for (int i = 0; i < count; i++)
        if (!*operands[i] || strlen(operands[i]) > JOB_ID_BYTES_MAX)
            return ctl_usage(ctl, "an id has %zu bytes; it must have 1 to %d", strlen(operands[i]),
                             JOB_ID_BYTES_MAX);
    int worst = ctl_connect(ctl);
    if (worst)
        return worst;
    for (int i = 0; i < count && worst != CTL_FAULT; i++) {
        /* Search first: after the cancel a job may be gone at once. */
        enum job_search_result found = job_search(ctl->client, ctl->options.namespace, operands[i]);
        redisReply *reply = call(ctl, operands[i]);
        if (!reply)
            return CTL_UNAVAILABLE;
        const redisReply *kept =
            reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 ? reply->element[0] : NULL;
        int status = say(ctl, operands[i], found,
                         kept && kept->type == REDIS_REPLY_STRING ? kept->str : NULL);
        worst = status > worst ? status : worst;
        freeReplyObject(reply);
    }
    return worst;
}
