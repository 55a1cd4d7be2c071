/* Runs one job on an image below gpuimgd's input_root and waits for the result:
 * REDIS=host:port client SECONDS INPUT OUTPUT OPERATION...
 * cc -o client client.c $(pkg-config --cflags --libs hiredis libcjson zlib)
 * PRIORITY=0 to 9 selects the list of that priority, ID is the job's id. SHARDS is the daemons'
 * option; REDIS may then name several servers, with spaces. Prints the output's path. Exit status:
 * 0 done, 1 the job failed, 2 no result in time, 3 Redis, 64 usage. It frees no memory. */
#include <cjson/cJSON.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

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
    char host[256], ns[32], reply_to[80], *servers[64], one[] = "127.0.0.1:6379";
    const char *urgency = getenv("PRIORITY") ? getenv("PRIORITY") : "", *id = getenv("ID");
    unsigned port, count = 0, shards = getenv("SHARDS") ? atoi(getenv("SHARDS")) : 1;
    unsigned long long number = (unsigned long long)arc4random() << 32 | arc4random();
    if (argc < 5 || limit.tv_sec <= 5 || shards < 1)
        return end(64, "usage: ", "REDIS=host:port client SECONDS INPUT OUTPUT OPERATION...");
    char *list = getenv("REDIS") ? getenv("REDIS") : one;
    for (; count < 64 && (servers[count] = strtok(count ? NULL : list, " ")); count++) {}
    unsigned shard = (id ? crc32(0, (const Bytef *)id, strlen(id)) : number) % shards;
    if (count == 0 || sscanf(servers[shard % count], "%255[^:]:%u", host, &port) != 2)
        return end(64, "not host:port: ", list);
    snprintf(ns, sizeof ns, shards > 1 ? "{gpuimgd:%u}" : "gpuimgd", shard);
    snprintf(reply_to, sizeof reply_to, "%s:reply:%016llx", ns, number); /* a private list */
    cJSON *job = cJSON_CreateObject();
    cJSON_AddStringToObject(job, "input", argv[2]);
    cJSON_AddStringToObject(job, "output", argv[3]);
    cJSON_AddStringToObject(job, "reply_to", reply_to);
    cJSON_AddNumberToObject(job, "pushed", time(NULL));
    cJSON_AddItemToObject(job, "ops", cJSON_CreateStringArray((const char **)argv + 4, argc - 4));
    cJSON_AddItemToObject(job, "id", id ? cJSON_CreateString(id) : NULL);
    cJSON_AddItemToObject(job, "priority", *urgency ? cJSON_CreateNumber(atoi(urgency)) : NULL);
    redisContext *redis = redisConnectWithTimeout(host, port, limit);
    if (!redis || redis->err || redisSetTimeout(redis, limit) != REDIS_OK)
        return end(3, "Redis: ", redis ? redis->errstr : "no memory");
    redisReply *reply = redisCommand(redis, "LPUSH %s:jobs%s%s %s", ns, *urgency ? ":" : "",
                                     urgency, cJSON_PrintUnformatted(job));
    if (reply && reply->type != REDIS_REPLY_ERROR)
        reply = redisCommand(redis, "BRPOP %s %s", reply_to, argv[1]);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        return end(3, "Redis: ", reply ? reply->str : redis->errstr);
    if (reply->type == REDIS_REPLY_NIL)
        return end(2, "no result within the seconds ", argv[1]);
    cJSON *result = cJSON_Parse(reply->element[1]->str); /* element[0] is the list's name */
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(result, "error");
    int done = strcmp(member(result, "status"), "done") == 0;
    return done ? end(0, argv[3], "") : end(1, "error: ", cJSON_PrintUnformatted(error));
}
