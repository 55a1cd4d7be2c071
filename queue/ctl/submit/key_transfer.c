#include "queue/ctl/submit/key_transfer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "queue/ctl/show.h"
#include "queue/ctl/submit/key_file.h"

static struct job_image *find(const struct key_transfer *transfer, uint64_t number)
{
    for (int i = 0; i < KEY_TRANSFER_IMAGES; i++)
        if (transfer->images[i].number == number)
            return (struct job_image *)&transfer->images[i];
    return NULL;
}

const char *const *key_transfer_outs(const struct key_transfer *transfer, uint64_t number)
{
    const struct job_image *image = find(transfer, number);
    return image ? (const char *const *)image->outs : NULL;
}

void key_transfer_clear(struct key_transfer *transfer)
{
    for (int i = 0; i < KEY_TRANSFER_IMAGES; i++)
        job_image_clear(&transfer->images[i]);
}

/* ---- upload -------------------------------------------------------------------------------- */

bool key_transfer_upload(struct key_transfer *transfer, const struct job_image *image,
                         struct error *error)
{
    char in[SUBMIT_KEY_BYTES];
    if (image->file.is_url)
        return true;
    job_template_input_key(transfer->template, image, in);
    return key_file_put(image->shard->client, in, image->file.path, transfer->bytes_max,
                        &transfer->redis_lost, error);
}

void key_transfer_hold(struct key_transfer *transfer, struct job_image *image)
{
    struct job_image *held = find(transfer, 0);
    assert(held);
    *held = *image;
    *image = (struct job_image){0};
    transfer->used++;
}

/* ---- download ------------------------------------------------------------------------------ */

/* Adds an output that could not be written, with its key, so that the user can read it from Redis.
 */
static bool add_unwritten(struct client *client, cJSON *unwritten, const char *key,
                          const char *path, const struct error *error)
{
    double left_s = OUTPUT_KEY_TTL_S;
    redisReply *left = client_ask(client, "PTTL %s", key);
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

void key_transfer_fetch(const struct output_file_rules *rules, struct client *client,
                        const char *key, const char *path, bool may_lack, cJSON *unwritten)
{
    struct error error = {0};
    redisReply *reply = client_ask(client, "GET %s", key);
    if (reply && reply->type == REDIS_REPLY_NIL && may_lack) {
        freeReplyObject(reply);
        return;
    }
    if (!reply)
        error_set(&error, STATUS_INTERNAL, "%s", client_why(client));
    else if (reply->type != REDIS_REPLY_STRING) /* uncovered: gone */
        error_set(&error, STATUS_INPUT_MISSING, "the key %.200s is not in Redis any more", key);
    else
        output_file_write(rules, path, reply->str, reply->len, &error);
    freeReplyObject(reply);
    if (error.status)
        add_unwritten(client, unwritten, key, path, &error);
}

cJSON *key_transfer_download(struct key_transfer *transfer, uint64_t number, const cJSON *result)
{
    const struct job_image *image = find(transfer, number);
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(result, "outputs");
    cJSON *unwritten = cJSON_CreateArray();
    bool done = strcmp(show_text(result, "status"), "done") == 0;
    char key[SUBMIT_KEY_BYTES];
    for (size_t i = 0; image && i < JOB_OUTPUTS_MAX; i++) {
        const cJSON *output = cJSON_GetArrayItem(outputs, (int)i);
        if (!image->outs[i] || cJSON_HasObjectItem(output, "error") ||
            (!done && !cJSON_HasObjectItem(output, "bytes")))
            continue;
        job_template_output_key(transfer->template, image, i, key);
        key_transfer_fetch(transfer->rules, image->shard->client, key, image->outs[i], false,
                           unwritten);
    }
    return unwritten;
}

bool key_transfer_is_unwritten(const cJSON *unwritten, const char *key)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, unwritten)
        if (strcmp(show_text(item, "key"), key) == 0)
            return true;
    return false;
}

void key_transfer_end(struct key_transfer *transfer, uint64_t number, const char *status,
                      const cJSON *unwritten)
{
    struct job_image *image = find(transfer, number);
    const char *argv[JOB_OUTPUTS_MAX + 2] = {"DEL"};
    char keys[JOB_OUTPUTS_MAX + 1][SUBMIT_KEY_BYTES];
    int count = 1;
    if (!image)
        return;
    job_template_input_key(transfer->template, image, keys[0]);
    argv[count++] = keys[0];
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++) {
        job_template_output_key(transfer->template, image, i, keys[i + 1]);
        if (image->outs[i] && !key_transfer_is_unwritten(unwritten, keys[i + 1]))
            argv[count++] = keys[i + 1];
    }
    /* If DEL fails, the keys expire later. */
    if (strcmp(status, "dead") != 0)
        freeReplyObject(client_ask_words(image->shard->client, count, argv, NULL));
    job_image_clear(image);
    transfer->used--;
}
