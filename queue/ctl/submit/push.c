/* push.c - pushes batches of jobs of gpuimgctl submit, and copes with a Redis that is away. */
#include <inttypes.h>
#include <stdio.h>

#include "conf/clock.h"
#include "queue/ctl/out.h"
#include "queue/ctl/submit/submit.h"

/* Tells the user once that the shard in use is away, and that submit waits for it. */
void push_say_away(void *context)
{
    struct submit *submit = context;
    struct ctl *ctl = submit->ctl;
    char number[32];
    snprintf(submit->progress.note, sizeof submit->progress.note, "%s is away; trying again",
             ctl_is_sharded(ctl) ? ctl_shard_text(ctl, "shard %u", number) : "Redis");
    submit->quiet_since_s = clock_now_s();
    if (submit->notified_away & push_bit(ctl->shard)) {
        progress_draw(&submit->progress);
        return;
    }
    ctl_say("%s%s; waiting until it is back", ctl_shard_text(ctl, "shard %u is away: ", number),
            client_why(ctl->client));
    submit->notified_away |= push_bit(ctl->shard);
}

/* Call after a push of `count` jobs to the shard in use failed. Returns true if they are to be sent
 * again. After a lost reply they may be in the queue already. A submit that waits may send them
 * twice even so, because result_reader delivers each result once. */
static bool retries_batch(struct submit *submit, size_t count, const redisReply *reply)
{
    if (!submit->wait || !client_is_transient(reply))
        return false;
    push_say_away(submit);
    if (!reply) /* uncovered: gone */
        ctl_say("Redis did not reply: the last %zu jobs are sent again, and some may run twice",
                count);
    else
        client_pause(submit->ctl->client, POLL_LAST_S);
    return true;
}

/* Without --wait, prints the ids of the shard in use for a later gpuimgctl result. */
static void print_ids(struct submit *submit)
{
    const struct batch_job *job;
    for (size_t at = 0; (job = batch_next(&submit->batch, submit->ctl->shard, &at));) {
        if (submit->ctl->json) {
            cJSON *line = cJSON_CreateObject();
            if (*job->id)
                cJSON_AddStringToObject(line, "id", job->id);
            ctl_add_shard(submit->ctl, line);
            cJSON_AddStringToObject(line, "file", job->file);
            ctl_print_json(submit->ctl, line);
        } else if (*job->id) {
            out_line("%s", job->id);
        }
    }
}

static void say_unsure_ids(struct submit *submit)
{
    const struct ctl_shard *shard = submit->ctl->shard;
    size_t at = 0;
    const struct batch_job *first = batch_next(&submit->batch, shard, &at), *last = first, *job;
    while ((job = batch_next(&submit->batch, shard, &at)))
        last = job;
    if (*first->id)
        ctl_say("the last few have the ids from %s to %s", first->id, last->id);
}

/* Tells the user that a push of `count` jobs to the shard in use failed; without an answer, Redis
 * may have run it. With one shard, this ends the submit. */
static void say_unsure(struct submit *submit, size_t count, bool answered)
{
    struct ctl *ctl = submit->ctl;
    if (ctl_is_sharded(ctl)) { /* uncovered: gone */
        submit->shard_lost = true;
        submit->progress.refused += batch_images(&submit->batch, ctl->shard);
        ctl_say("the last %zu jobs of shard %u %s", count, ctl->shard->index,
                answered ? "were not sent" : "may or may not be in the queue");
    } else {
        submit->status = CTL_UNAVAILABLE;
        ctl_say("%s", client_why(ctl->client));
        ctl_say("%" PRIu64 " jobs were sent before; %s", submit->progress.jobs_sent,
                answered ? "no more are sent"
                         : "Redis went away before it replied, so the last few may or may not be "
                           "in the queue");
    }
    if (!answered)
        say_unsure_ids(submit);
    if (ctl_is_sharded(ctl)) /* uncovered: gone */
        ctl_lose(ctl);
}

/* Sends the push of the jobs of the shard in use. Returns their number. */
static size_t send_jobs(struct submit *submit)
{
    const struct ctl_shard *shard = submit->ctl->shard;
    char list[SUBMIT_KEY_BYTES];
    if (submit->wait && !client_up(shard->client))
        return 0;
    job_template_list(&submit->template, shard, list);
    return batch_send(&submit->batch, shard, submit->first ? "RPUSH" : "LPUSH", list);
}

static void take_push(struct submit *submit, size_t count)
{
    struct ctl *ctl = submit->ctl;
    redisReply *reply = client_take(ctl->client);
    bool sent = client_reply_ok(ctl->client, reply, submit->first ? "RPUSH" : "LPUSH");
    bool again = !sent && retries_batch(submit, count, reply);
    if (sent) {
        submit->progress.jobs_sent += count;
        submit->progress.sent += batch_images(&submit->batch, ctl->shard);
        if (!submit->wait)
            print_ids(submit);
    } else if (!again) {
        say_unsure(submit, count, reply != NULL);
    }
    freeReplyObject(reply);
    if (!again)
        batch_clear(&submit->batch, ctl->shard);
}

/* Sends the pushes of all shards before it awaits the first reply, so that the servers work at the
 * same time. */
void push_batch(struct submit *submit)
{
    struct ctl *ctl = submit->ctl;
    size_t sent[SHARDS_MAX] = {0};
    for (uint32_t i = 0; i < ctl->shard_count && submit->batch.count > 0 && !submit->status; i++)
        if (ctl->shards[i].client) {
            ctl_use(ctl, i);
            sent[i] = send_jobs(submit);
        }
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (sent[i] > 0) {
            ctl_use(ctl, i);
            take_push(submit, sent[i]);
        }
}
