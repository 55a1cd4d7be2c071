#include "tests/tools/world.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tools/text_file.h"

#define ARGS_MAX 60

__attribute__((noreturn)) static void die(const char *what, const char *name)
{
    fprintf(stderr, "world: %s %s: %s\n", what, name, strerror(errno));
    abort();
}

static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        abort();
    return text;
}

/* A child that waits until our end of a pipe is closed, by world_close or by our death in
 * whatever way, and then removes the folders. */
static void hire_janitor(struct world *world)
{
    int ends[2];
    if (getenv("GPUIMGD_TEST_KEEP") || pipe2(ends, O_CLOEXEC))
        return;
    fflush(NULL);
    world->janitor = fork();
    if (world->janitor == 0) {
        char byte;
        setsid(); /* a Ctrl-C is not for it */
        if (dup2(ends[0], 3) < 0)
            _exit(1);
        for (int fd = 0; fd < 256; fd++)
            if (fd != 3)
                close(fd);
        while (read(3, &byte, 1) < 0 && errno == EINTR)
            continue;
        process_sleep(0.2); /* what ran in there dies with us, but not at the same moment */
        text_file_remove_folder(world->folder);
        if (world->redis)
            text_file_remove_folder(world->redis->folder);
        _exit(0);
    }
    close(ends[0]);
    world->janitor_fd = ends[1];
}

static void dismiss_janitor(struct world *world)
{
    if (world->janitor <= 0)
        return;
    kill(world->janitor, SIGKILL);
    waitpid(world->janitor, NULL, 0);
    close(world->janitor_fd);
}

void world_open(struct world *world, struct redis_server *redis)
{
    const char *parent = getenv("TMPDIR");
    memset(world, 0, sizeof *world);
    int length = snprintf(world->folder, sizeof world->folder, "%s/gpuimgd-test-XXXXXX",
                          parent ? parent : "/tmp");
    if (length < 0 || (size_t)length >= sizeof world->folder || !mkdtemp(world->folder))
        die("cannot make", world->folder);
    snprintf(world->in, sizeof world->in, "%s/in", world->folder);
    snprintf(world->out, sizeof world->out, "%s/out", world->folder);
    if (mkdir(world->in, 0755) || mkdir(world->out, 0755))
        die("cannot make folders in", world->folder);
    strcpy(world->ns, "gpuimgd");
    world->redis = redis;
    for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++)
        world->daemons[i].notify_fd = -1;
    hire_janitor(world);
    if (redis)
        world->client = redis_server_connect(redis);
}

void world_close(struct world *world)
{
    if (!world->folder[0])
        return;
    for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++)
        process_clear(&world->daemons[i]);
    if (world->client)
        redisFree(world->client);
    redis_server_stop(world->redis);
    dismiss_janitor(world);
    if (!getenv("GPUIMGD_TEST_KEEP"))
        text_file_remove_folder(world->folder);
    memset(world, 0, sizeof *world);
}

void world_reconnect(struct world *world)
{
    if (world->client)
        redisFree(world->client);
    world->client = redis_server_connect(world->redis);
}

/* ---- daemons --------------------------------------------------------------------------------- */

struct process *world_start_with(struct world *world, size_t index,
                                 const struct process_options *how, const char *const *extra)
{
    const char *args[ARGS_MAX];
    char common[16][256], name[32];
    size_t count = 0, made = 0;
#define COMMON(...) snprintf(common[made++], sizeof common[0], __VA_ARGS__)
    if (world->redis)
        COMMON("--redis=%s", world->redis->address);
    COMMON("--namespace=%s", world->ns);
    COMMON("--input_root=%s", world->in);
    COMMON("--output_root=%s", world->out);
    COMMON("--engine=cpu");
    COMMON("--workers=2");
    COMMON("--lease_s=%g", patience(3));
    COMMON("--renew_s=%g", patience(0.5));
    COMMON("--reap_s=0.5");
    COMMON("--retry_delay_s=0.05");
    COMMON("--sync_outputs=no");
#undef COMMON
    for (size_t i = 0; i < made; i++)
        args[count++] = common[i];
    for (; extra && *extra && count < ARGS_MAX - 1; extra++)
        args[count++] = *extra;
    args[count] = NULL;
    snprintf(name, sizeof name, "daemon%zu", index);
    struct process_options options = *how;
    options.args = args;
    options.folder = world->folder;
    options.name = name;
    process_clear(&world->daemons[index]);
    if (!process_start(&world->daemons[index], &options))
        die("cannot start", name);
    return &world->daemons[index];
}

struct process *world_start(struct world *world, size_t index, ...)
{
    const char *extra[ARGS_MAX] = {NULL};
    size_t count = 0;
    va_list args;
    va_start(args, index);
    for (const char *arg; (arg = va_arg(args, const char *)) && count < ARGS_MAX - 1;)
        extra[count++] = arg;
    va_end(args);
    return world_start_with(world, index, &(struct process_options){0}, extra);
}

bool world_ready(struct process *daemon)
{
    if (process_noted(daemon, 0, "READY=1", 20))
        return true;
    char *log = process_log(daemon);
    fprintf(stderr, "the daemon is not ready; it said:\n%s\n", log);
    free(log);
    return false;
}

bool world_has_cuda(void)
{
    static int known = -1;
    struct world world;
    if (known >= 0)
        return known;
    world_open(&world, redis_server_start(NULL, NULL));
    struct process *daemon = world_start(&world, 0, "--engine=cuda", NULL);
    known = process_noted(daemon, 0, "READY=1", 30);
    process_signal(daemon, SIGTERM);
    process_wait(daemon, 10);
    world_close(&world);
    return known;
}

/* ---- files ----------------------------------------------------------------------------------- */

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path)
        abort();
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *world_in_path(const struct world *world, const char *name)
{
    return join(world->in, name);
}

char *world_out_path(const struct world *world, const char *name)
{
    return join(world->out, name);
}

void world_put(struct world *world, const char *name, const void *bytes, size_t length)
{
    char *path = world_in_path(world, name);
    for (char *at = strchr(path + strlen(world->in) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
    if (!text_file_write(path, bytes, length))
        die("cannot write", path);
    free(path);
}

void world_put_picture(struct world *world, const char *name, struct picture_file file)
{
    world_put(world, name, file.bytes, file.length);
    picture_free(&file);
}

void world_put_photo(struct world *world, const char *name, uint32_t width, uint32_t height)
{
    struct picture_jpeg how = {.width = width, .height = height};
    world_put_picture(world, name, picture_jpeg(&how));
}

void world_put_slow(struct world *world)
{
    struct picture_png how = {.width = 1600, .height = 1200, .colour_type = 2, .level = 1};
    world_put_picture(world, "slow.png", picture_png(&how));
}

struct raster world_load_in(const struct world *world, const char *name, enum raster_as as)
{
    char *path = world_in_path(world, name);
    struct raster raster = raster_load(path, as);
    free(path);
    return raster;
}

struct raster world_load_out(const struct world *world, const char *name)
{
    char *path = world_out_path(world, name);
    struct raster raster = raster_load(path, RASTER_COLOUR);
    free(path);
    return raster;
}

/* ---- jobs and results ------------------------------------------------------------------------ */

void world_push_bytes(struct world *world, const void *bytes, size_t length)
{
    char key[64];
    snprintf(key, sizeof key, "%s:jobs", world->ns);
    redisReply *reply = redis_command(world->client, "LPUSH %s %b", key, bytes, length);
    if (reply->type != REDIS_REPLY_INTEGER)
        die("cannot push to", reply->type == REDIS_REPLY_ERROR ? reply->str : key);
    freeReplyObject(reply);
}

void world_push(struct world *world, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    world_push_bytes(world, text, strlen(text));
    free(text);
}

/* Nobody who waits lets the daemons' notifications pile up. */
static void listen_to_all(struct world *world)
{
    for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++)
        process_mark(&world->daemons[i]);
}

cJSON *world_result_from(struct world *world, const char *list, double seconds)
{
    redisReply *reply = redis_command(world->client, "BRPOP %s %s", list, "0.05");
    double deadline = process_now() + patience(seconds);
    while (reply->type == REDIS_REPLY_NIL && process_now() < deadline) {
        freeReplyObject(reply);
        listen_to_all(world);
        reply = redis_command(world->client, "BRPOP %s %s", list, "0.25");
    }
    cJSON *result = NULL;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        result = cJSON_ParseWithLength(reply->element[1]->str, reply->element[1]->len);
        if (!result)
            fprintf(stderr, "a result is not JSON: %s\n", reply->element[1]->str);
    }
    freeReplyObject(reply);
    return result;
}

cJSON *world_result(struct world *world, double seconds)
{
    char key[64];
    snprintf(key, sizeof key, "%s:results", world->ns);
    return world_result_from(world, key, seconds);
}

bool world_until(struct world *world, double seconds, long long wanted, const char *format, ...)
{
    double deadline = process_now() + patience(seconds);
    va_list args;
    va_start(args, format);
    char *command = format_text(format, args);
    va_end(args);
    bool reached;
    while (!(reached = redis_integer(world->client, command) == wanted) &&
           process_now() < deadline) {
        listen_to_all(world);
        process_sleep(0.01);
    }
    free(command);
    return reached;
}

/* Jobs go from one place to another meanwhile: one look must find all of them empty. */
bool world_settle(struct world *world)
{
    long long left;
    static const char script[] =
        "return redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2]) + "
        "redis.call('ZCARD', KEYS[3]) + redis.call('LLEN', KEYS[4])";
    double deadline = process_now() + patience(30);
    while ((left = redis_integer(world->client, "EVAL %s 4 %s:jobs %s:lease %s:delayed %s:alone",
                                 script, world->ns, world->ns, world->ns, world->ns)) > 0 &&
           process_now() < deadline) {
        listen_to_all(world);
        process_sleep(0.01);
    }
    redis_integer(world->client, "DEL %s:results", world->ns);
    if (left > 0)
        fprintf(stderr, "world: %lld jobs have not ended\n", left);
    return left == 0;
}

static bool may_stay(const struct world *world, const char *key)
{
    static const char *const fine[] = {"seq",     "results", "dead", "dead:errors", "trimmed",
                                       "cancel",  "watcher", "wake", "result:",     "img:",
                                       "reply:",  NULL};
    size_t ns = strlen(world->ns);
    if (strncmp(key, world->ns, ns) || key[ns] != ':')
        return true;
    for (size_t i = 0; fine[i]; i++) {
        size_t length = strlen(fine[i]);
        bool prefix = fine[i][length - 1] == ':';
        if (prefix ? !strncmp(key + ns + 1, fine[i], length) : !strcmp(key + ns + 1, fine[i]))
            return true;
    }
    return false;
}

size_t world_leftovers(struct world *world, char *names, size_t size)
{
    size_t count = 0, used = 0;
    char cursor[32] = "0";
    names[0] = '\0';
    do {
        redisReply *reply = redis_command(world->client, "SCAN %s COUNT 1000", cursor);
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
            die("SCAN", "is refused");
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++) {
            const char *key = reply->element[1]->element[i]->str;
            if (may_stay(world, key))
                continue;
            count++;
            if (used + strlen(key) + 2 < size)
                used += (size_t)snprintf(names + used, size - used, " %s", key);
        }
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    return count;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

const cJSON *json_at(const cJSON *json, const char *place)
{
    char part[64];
    while (json && *place) {
        size_t length = strcspn(place, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, place);
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(part))
                                   : cJSON_GetObjectItemCaseSensitive(json, part);
        place += length + (place[length] == '.');
    }
    return json;
}

const char *json_text(const cJSON *json, const char *place)
{
    const cJSON *found = json_at(json, place);
    return cJSON_IsString(found) ? found->valuestring : "";
}

double json_number(const cJSON *json, const char *place)
{
    const cJSON *found = json_at(json, place);
    return cJSON_IsNumber(found) ? found->valuedouble : (double)NAN;
}
