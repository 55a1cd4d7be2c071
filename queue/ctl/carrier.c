#include "queue/ctl/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

const char *carrier_out(const struct carrier *carrier, uint64_t number)
{
    int place = find(carrier, number);
    return place >= 0 ? carrier->places[place].out : NULL;
}

void carrier_clear(struct carrier *carrier)
{
    for (int i = 0; i < CARRIER_PLACES; i++) {
        free(carrier->places[i].out);
        carrier->places[i].out = NULL;
    }
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
    if (!recipe_place(carrier->recipe, file, number, out, error))
        return false;
    char *copy = *out ? strdup(out) : NULL;
    if (place < 0 || (*out && !copy)) {
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for it");
        return false;
    }
    carrier->places[place].number = number;
    carrier->places[place].out = copy;
    carrier->used++;
    return true;
}

bool carrier_send(struct carrier *carrier, const struct source_file *file, uint64_t number,
                  struct error *error)
{
    char in[320], out[320];
    size_t length = 0;
    uint8_t *bytes = read_file(file->path, carrier->bytes_max, &length, error);
    if (!bytes)
        return false;
    recipe_keys(carrier->recipe, number, in, out);
    const char *argv[] = {"SET", in, (const char *)bytes, "EX", PICTURE_TTL_S};
    size_t lengths[] = {3, strlen(in), length, 2, strlen(PICTURE_TTL_S)};
    redisReply *reply = client_ask_words(carrier->client, 5, argv, lengths);
    free(bytes);
    carrier->redis_lost = !reply;
    freeReplyObject(reply);
    return !carrier->redis_lost && keep_place(carrier, file, number, error);
}

/* ---- and back ------------------------------------------------------------------------------ */

static void make_parents(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *at = folder + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(folder, 0777); /* what is wrong shows itself when the file is made */
        *at = '/';
    }
}

/* Whole or not at all: under a name of its own first. */
static bool write_file(const char *path, const char *bytes, size_t length, struct error *error)
{
    char temporary[PATH_MAX + 16];
    make_parents(path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    mode_t mask = umask(0);
    umask(mask);
    bool ok = fd >= 0 && fchmod(fd, 0666 & ~mask) == 0;
    for (size_t at = 0; ok && at < length;) {
        ssize_t got = write(fd, bytes + at, length - at);
        if (got > 0)
            at += (size_t)got;
        else
            ok = got < 0 && errno == EINTR;
    }
    int reason = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        reason = errno;
        ok = false;
    }
    if (ok && rename(temporary, path) != 0) {
        reason = errno;
        ok = false;
    }
    if (!ok && fd >= 0)
        unlink(temporary);
    if (!ok)
        error_set(error, STATUS_WRITE_FAILED, "%.200s: %s", path, strerror(reason));
    return ok;
}

static bool fetch(struct carrier *carrier, const char *key, const char *path, struct error *error)
{
    redisReply *reply = client_ask(carrier->client, "GET", key, NULL);
    bool ok = false;
    carrier->redis_lost = !reply;
    if (reply && reply->type == REDIS_REPLY_STRING)
        ok = write_file(path, reply->str, reply->len, error);
    else if (reply)
        error_set(error, STATUS_INPUT_MISSING, "its result is not in Redis any more (%.200s)", key);
    freeReplyObject(reply);
    return ok;
}

bool carrier_fetch(struct carrier *carrier, uint64_t number, const char *status,
                   struct error *error)
{
    int place = find(carrier, number);
    char in[320], out[320];
    bool ok = true;
    if (place < 0)
        return true;
    recipe_keys(carrier->recipe, number, in, out);
    carrier->redis_lost = false;
    if (strcmp(status, "done") == 0 && carrier->places[place].out)
        ok = fetch(carrier, out, carrier->places[place].out, error);
    if (!carrier->redis_lost && strcmp(status, "dead") != 0) {
        redisReply *reply = client_ask(carrier->client, "DEL", in, out, NULL);
        carrier->redis_lost = !reply;
        freeReplyObject(reply);
    }
    free(carrier->places[place].out);
    carrier->places[place].out = NULL;
    carrier->places[place].number = 0;
    carrier->used--;
    return ok && !carrier->redis_lost;
}
