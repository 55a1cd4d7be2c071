#include "queue/ctl/submit/key_transfer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/ctl/show.h"

/* A picture whose client died goes away by itself; until then its job may wait in the queue. */
#define PICTURE_TTL_S "86400"

bool carrier_full(const struct carrier *carrier)
{
    return carrier->used == CARRIER_PLACES;
}

static int find(const struct carrier *carrier, uint64_t number)
{
    for (int i = 0; i < CARRIER_PLACES; i++)
        if (carrier->places[i].number == number)
            return i;
    return -1;
}

const char *const *carrier_outs(const struct carrier *carrier, uint64_t number)
{
    int place = find(carrier, number);
    return place >= 0 ? (const char *const *)carrier->places[place].outs : NULL;
}

static void clear_place(struct carrier *carrier, int place)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++) {
        free(carrier->places[place].outs[i]);
        carrier->places[place].outs[i] = NULL;
    }
    carrier->places[place].number = 0;
}

void carrier_clear(struct carrier *carrier)
{
    for (int i = 0; i < CARRIER_PLACES; i++)
        clear_place(carrier, i);
}

/* ---- there --------------------------------------------------------------------------------- */

static uint8_t *read_file(const char *path, uint64_t bytes_max, size_t *length,
                          struct error *error)
{
    struct stat about;
    uint8_t *bytes = NULL;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &about) != 0)
        error_set(error, STATUS_INPUT_UNREADABLE, "%s", strerror(errno));
    else if ((uint64_t)about.st_size > bytes_max)
        error_set(error, STATUS_INPUT_TOO_LARGE,
                  "it has %lld bytes, at most %llu are allowed (input_bytes_max)",
                  (long long)about.st_size, (unsigned long long)bytes_max);
    else if (!(bytes = malloc((size_t)about.st_size + 1)))
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for it");
    else
        *length = fread(bytes, 1, (size_t)about.st_size, file);
    if (bytes && (ferror(file) || *length == 0)) {
        error_set(error, STATUS_INPUT_UNREADABLE, "%s",
                  ferror(file) ? strerror(errno) : "it is empty");
        free(bytes);
        bytes = NULL;
    }
    if (file)
        fclose(file);
    return bytes;
}

static bool keep_place(struct carrier *carrier, const struct source_file *file, uint64_t number,
                       struct error *error)
{
    char out[PATH_MAX];
    int place = find(carrier, 0);
    assert(place >= 0);
    for (size_t i = 0; i < carrier->recipe->output_count; i++) {
        bool ok = recipe_place(carrier->recipe, file, number, i, out, error);
        carrier->places[place].outs[i] = ok && *out ? strdup(out) : NULL;
        if (ok && (!*out || carrier->places[place].outs[i]))
            continue;
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for it");
        clear_place(carrier, place);
        return false;
    }
    carrier->places[place].number = number;
    carrier->used++;
    return true;
}

bool carrier_send(struct carrier *carrier, const struct source_file *file, uint64_t number,
                  struct error *error)
{
    char in[320];
    size_t length = 0;
    uint8_t *bytes = read_file(file->path, carrier->bytes_max, &length, error);
    if (!bytes)
        return false;
    recipe_input_key(carrier->recipe, number, in);
    const char *argv[] = {"SET", in, (const char *)bytes, "EX", PICTURE_TTL_S};
    size_t lengths[] = {3, strlen(in), length, 2, strlen(PICTURE_TTL_S)};
    redisReply *reply = client_ask_words(carrier->client, 5, argv, lengths);
    free(bytes);
    carrier->redis_lost = !reply;
    freeReplyObject(reply);
    return !carrier->redis_lost && keep_place(carrier, file, number, error);
}

/* ---- and back ------------------------------------------------------------------------------ */

/* What to say of one that was not written, so that somebody can take it from Redis. */
static bool note(struct carrier *carrier, cJSON *unwritten, const char *key, const char *path,
                 const struct error *error)
{
    double left_s = RECIPE_OUTPUT_TTL_S;
    redisReply *left = client_ask(carrier->client, "PTTL", key, NULL);
    if (left && left->type == REDIS_REPLY_INTEGER && left->integer >= 0)
        left_s = (double)left->integer / 1000;
    bool there = !left || left->type != REDIS_REPLY_INTEGER || left->integer != -2;
    freeReplyObject(left);
    cJSON *item = cJSON_CreateObject();
    return cJSON_AddItemToArray(unwritten, item) &&
           cJSON_AddStringToObject(item, "path", path) &&
           cJSON_AddStringToObject(item, "message", error->text) &&
           (!there || (cJSON_AddStringToObject(item, "key", key) &&
                       cJSON_AddNumberToObject(item, "left_s", left_s)));
}

/* One result to its file. */
static void fetch(struct carrier *carrier, const char *key, const char *path, cJSON *unwritten)
{
    struct error error = {0};
    redisReply *reply = client_ask(carrier->client, "GET", key, NULL);
    if (!reply)
        error_set(&error, STATUS_INTERNAL, "%s", client_why(carrier->client));
    else if (reply->type != REDIS_REPLY_STRING)
        error_set(&error, STATUS_INPUT_MISSING, "it is not in Redis any more (%.200s)", key);
    else
        place_write(carrier->rules, path, reply->str, reply->len, &error);
    freeReplyObject(reply);
    if (error.status)
        note(carrier, unwritten, key, path, &error);
}

cJSON *carrier_fetch(struct carrier *carrier, uint64_t number, const cJSON *result)
{
    const char *const *outs = carrier_outs(carrier, number);
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(result, "outputs");
    cJSON *unwritten = cJSON_CreateArray();
    bool done = strcmp(show_text(result, "status"), "done") == 0;
    char key[320];
    for (size_t i = 0; outs && i < JOB_OUTPUTS_MAX; i++) {
        const cJSON *output = cJSON_GetArrayItem(outputs, (int)i);
        if (!outs[i] || cJSON_HasObjectItem(output, "error") ||
            (!done && !cJSON_HasObjectItem(output, "bytes")))
            continue;
        recipe_output_key(carrier->recipe, number, i, key);
        fetch(carrier, key, outs[i], unwritten);
    }
    return unwritten;
}

static bool is_unwritten(const cJSON *unwritten, const char *key)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, unwritten)
        if (strcmp(show_text(item, "key"), key) == 0)
            return true;
    return false;
}

void carrier_end(struct carrier *carrier, uint64_t number, const char *status,
                 const cJSON *unwritten)
{
    int place = find(carrier, number);
    const char *argv[JOB_OUTPUTS_MAX + 2] = {"DEL"};
    size_t lengths[JOB_OUTPUTS_MAX + 2] = {3};
    char keys[JOB_OUTPUTS_MAX + 1][320];
    int count = 1;
    if (place < 0)
        return;
    recipe_input_key(carrier->recipe, number, keys[0]);
    argv[count++] = keys[0];
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++) {
        recipe_output_key(carrier->recipe, number, i, keys[i + 1]);
        if (carrier->places[place].outs[i] && !is_unwritten(unwritten, keys[i + 1]))
            argv[count++] = keys[i + 1];
    }
    for (int i = 1; i < count; i++)
        lengths[i] = strlen(argv[i]);
    /* One that is lost leaves them to their end in time. */
    if (strcmp(status, "dead") != 0)
        freeReplyObject(client_ask_words(carrier->client, count, argv, lengths));
    clear_place(carrier, place);
    carrier->used--;
}
