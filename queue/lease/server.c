#include "queue/lease/server.h"

#include <stdio.h>
#include <string.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"

#define REDIS_VERSION_LEAST 602 /* 6.2: the first version with LMOVE and BLMOVE */

/* Copies the value of a line "name:value" of INFO. `name` includes the colon. */
static bool info_value(const redisReply *reply, const char *name, char *value, size_t size)
{
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    if (at)
        snprintf(value, size, "%.*s", (int)strcspn(at + strlen(name), "\r\n"), at + strlen(name));
    return at != NULL;
}

/* A hash tag {...} in the namespace puts all keys in one hash slot of a Cluster, as scripts
 * require. */
static bool has_hash_tag(const char *ns)
{
    const char *open = strchr(ns, '{');
    return open && open[1] && open[1] != '}' && strchr(open, '}');
}

static void info_answered(void *context, redisReply *reply)
{
    struct queue *queue = context;
    char *version = queue->view.version, mode[32], policy[64];
    const char *ns = queue->options->namespace;
    unsigned major, minor;
    if (!reply)
        return;
    queue->server_checked = true;
    bool known = info_value(reply, "redis_version:", version, sizeof queue->view.version);
    text_make_printable(version);
    if (known && sscanf(version, "%u.%u", &major, &minor) == 2 &&
        major * 100 + minor < REDIS_VERSION_LEAST) /* uncovered: server */
        log_error("%sRedis %s is too old: gpuimgd needs 6.2 or later", queue->log_prefix, version);
    if (info_value(reply, "redis_mode:", mode, sizeof mode) && strcmp(mode, "cluster") == 0 &&
        !has_hash_tag(ns)) /* uncovered: sentinel */
        log_error("Redis is a Cluster and the namespace %s has no hash tag: its keys are in many "
                  "slots and no script can run; set namespace = {%s}", ns, ns);
    if (info_value(reply, "maxmemory_policy:", policy, sizeof policy) &&
        strcmp(policy, "noeviction") != 0)
        log_warning("%sRedis has maxmemory-policy %s: it may throw jobs and results away; set "
                    "maxmemory-policy noeviction",
                    queue->log_prefix, policy);
}

void server_check(struct queue *queue)
{
    redis_ask(queue->redis, 0, info_answered, queue, "INFO");
}
