/* Runs one job on an image below gpuimgd's input_root and waits for the result:
 * REDIS=host:port client SECONDS INPUT OUTPUT OPERATION...
 *
 * cc -o client client.c $(pkg-config --cflags --libs hiredis libcjson)
 * PRIORITY=0 to 9 selects the list of that priority. Prints the output's path. Exit status: 0
 * done, 1 the job failed, 2 no result in time, 3 Redis, 64 usage. It exits soon, so it frees no
 * memory. */
#include <cjson/cJSON.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char *member(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

static int end(int status, const char *text, const char *detail)
{
    fprintf(status == 0 ? stdout : stderr, "%s%s\n", text, detail);
    return status;
}

int main(int argc, char **argv)
{
    struct timeval limit = {.tv_sec = argc > 1 ? atoi(argv[1]) + 5 : 0};
    char host[256] = "127.0.0.1", reply_to[64];
    int port = 6379;
    unsigned long long number;
    if (argc < 5 || limit.tv_sec <= 5 || getrandom(&number, sizeof number, 0) < 0)
        return end(64, "usage: ", "REDIS=host:port client SECONDS INPUT OUTPUT OPERATION...");
    if (getenv("REDIS") && sscanf(getenv("REDIS"), "%255[^:]:%d", host, &port) != 2)
        return end(64, "not host:port: ", getenv("REDIS"));
    snprintf(reply_to, sizeof reply_to, "gpuimgd:reply:%016llx", number); /* a private list */

    cJSON *job = cJSON_CreateObject();
    cJSON_AddStringToObject(job, "input", argv[2]);
    cJSON_AddStringToObject(job, "output", argv[3]);
    cJSON_AddStringToObject(job, "reply_to", reply_to);
    cJSON_AddItemToObject(job, "ops", cJSON_CreateStringArray((const char **)argv + 4, argc - 4));
    const char *urgency = getenv("PRIORITY") ? getenv("PRIORITY") : ""; /* the list decides */
    if (*urgency)
        cJSON_AddNumberToObject(job, "priority", atoi(urgency));
    char *text = cJSON_PrintUnformatted(job);
    redisContext *redis = redisConnectWithTimeout(host, port, limit);
    if (!text || !redis || redis->err || redisSetTimeout(redis, limit) != REDIS_OK)
        return end(3, "Redis: ", redis ? redis->errstr : "no memory");
    redisReply *reply = redisCommand(redis, "LPUSH gpuimgd:jobs%s%s %s", *urgency ? ":" : "",
                                     urgency, text);
    if (reply && reply->type != REDIS_REPLY_ERROR)
        reply = redisCommand(redis, "BRPOP %s %s", reply_to, argv[1]);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        return end(3, "Redis: ", reply ? reply->str : redis->errstr);
    if (reply->type == REDIS_REPLY_NIL)
        return end(2, "no result within the seconds ", argv[1]);
    cJSON *result = cJSON_Parse(reply->element[1]->str); /* element[0] is the list's name */
    if (strcmp(member(result, "status"), "done") == 0)
        return end(0, argv[3], "");
    return end(1, "the job failed: ",
               member(cJSON_GetObjectItemCaseSensitive(result, "error"), "message"));
}
