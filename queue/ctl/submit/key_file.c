#include "queue/ctl/submit/key_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Expiry of an uploaded image, in seconds, in case this program dies and never deletes it. It is a
 * day, because the job may wait in the queue. */
#define IMAGE_TTL_S "86400"

static uint8_t *read_file(const char *path, uint64_t bytes_max, size_t *length,
                          struct error *error)
{
    struct stat about;
    uint8_t *bytes = NULL;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &about) != 0) /* uncovered: slip */
        error_set(error, STATUS_INPUT_UNREADABLE, "%s", strerror(errno));
    else if ((uint64_t)about.st_size > bytes_max)
        error_set(error, STATUS_INPUT_TOO_LARGE,
                  "the file has %lld bytes; input_bytes_max allows %llu",
                  (long long)about.st_size, (unsigned long long)bytes_max);
    else if (!(bytes = malloc((size_t)about.st_size + 1)))
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the file");
    else
        *length = fread(bytes, 1, (size_t)about.st_size, file);
    if (bytes && (ferror(file) || *length == 0)) { /* uncovered: slip */
        error_set(error, STATUS_INPUT_UNREADABLE, "%s",
                  ferror(file) ? strerror(errno) : "the file is empty");
        free(bytes);
        bytes = NULL;
    }
    if (file)
        fclose(file);
    return bytes;
}

bool key_file_put(struct client *client, const char *key, const char *path, uint64_t bytes_max,
                  bool *redis_lost, struct error *error)
{
    size_t length = 0;
    uint8_t *bytes = read_file(path, bytes_max, &length, error);
    if (!bytes)
        return false;
    const char *argv[] = {"SET", key, (const char *)bytes, "EX", IMAGE_TTL_S};
    size_t lengths[] = {3, strlen(key), length, 2, strlen(IMAGE_TTL_S)};
    redisReply *reply = client_ask_words(client, 5, argv, lengths);
    free(bytes);
    *redis_lost = !reply;
    freeReplyObject(reply);
    return !*redis_lost;
}
