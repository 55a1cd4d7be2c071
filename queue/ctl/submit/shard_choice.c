#include "queue/ctl/submit/shard_choice.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* How often an id is extended. If 63 of 64 shards are away, this does not reach the last one for
 * one id in ten million. */
#define TRIES_MAX 1000

struct shard_choice shard_choice_begin(struct ctl *ctl, bool made_ids, bool waits)
{
    struct shard_choice choice = {
        .ctl = ctl, .made_ids = made_ids && !ctl_value(ctl, "shard"), .waits = waits};
    if (getrandom(&choice.last, sizeof choice.last, 0) < 0) /* uncovered: screen */
        choice.last = 0;
    choice.last %= ctl->shard_count;
    return choice;
}

/* Whether a job may be sent to the shard. A shard that was away may be back. A shard that answered
 * at the start may be used even if it has gone away since, if submit waits for it. */
static bool is_usable(const struct shard_choice *choice, uint32_t index)
{
    const struct ctl_shard *shard = &choice->ctl->shards[index];
    bool waits = choice->waits || !ctl_is_sharded(choice->ctl);
    return shard->client && ((waits && !shard->away) || client_up(shard->client));
}

/* Returns the next shard that is not away, or any if all are. */
static uint32_t in_turn(struct shard_choice *choice)
{
    const struct ctl *ctl = choice->ctl;
    for (uint32_t i = 0; i < ctl->shard_count; i++) {
        choice->last = (choice->last + 1) % ctl->shard_count;
        struct client *client = ctl->shards[choice->last].client;
        if (client && client_up(client))
            break;
    }
    return choice->last;
}

static uint32_t of_id(const struct shard_choice *choice, char id[PATH_MAX])
{
    struct ctl *ctl = choice->ctl;
    size_t length = strlen(id);
    uint32_t index = ctl_shard_of(ctl, id);
    for (int i = 1; i < TRIES_MAX && choice->made_ids && !is_usable(choice, index); i++) {
        snprintf(id + length, PATH_MAX - length, ".%d", i);
        index = ctl_shard_of(ctl, id);
    }
    return index;
}

bool shard_choice_next(struct shard_choice *choice, char id[PATH_MAX], struct error *error)
{
    struct ctl *ctl = choice->ctl;
    bool is_free = !*id && !ctl_value(ctl, "shard");
    ctl_use(ctl, is_free ? in_turn(choice) : of_id(choice, id));
    if (is_usable(choice, ctl->shard->index))
        return true;
    return error_fail(error, STATUS_INTERNAL, "not sent: its shard, %u, is away",
                      ctl->shard->index);
}
