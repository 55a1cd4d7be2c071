#include "queue/ctl/client.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/list.h"
#include "conf/text.h"
#include "queue/redis/connection.h"
#include "queue/redis/route.h"

/* Tries per command before the user gets an error. */
#define ASK_TRIES 3
/* Seconds between retries while Redis is away or refuses the command. */
#define RETRY_PAUSE_S 0.2

/* A command whose reply the caller has not taken yet. */
struct answer {
    struct list_node node;
    bool came;         /* `reply` is final */
    redisReply *reply; /* NULL: lost */
};

struct client {
    const struct options *options;
    struct redis_address address;
    struct route *route;
    struct redis *redis;
    unsigned short random_state[3];
    struct list answers;
    unsigned failures;         /* failed tries to connect since the last success */
    bool tick;                 /* ends the current pause */
    client_away_cb away;       /* of client_retry_for, or NULL */
    void *away_context;
    double patient_until_s; /* retries end, clock_now_s */
    uv_timer_t timer;
    char why[ERROR_TEXT_MAX * 2]; /* client_why */
    char reason[ERROR_TEXT_MAX]; /* why the connection is down */
};

static uv_loop_t loop;
static unsigned clients; /* number of open clients; 0: the loop is closed */
static volatile sig_atomic_t interrupted;

/* ---- the loop ----------------------------------------------------------------------------- */

static void up(void *context)
{
    struct client *client = context;
    client->failures = 0;
}

static void down(void *context, const char *reason)
{
    struct client *client = context;
    client->failures++;
    text_copy(client->reason, sizeof client->reason, reason);
}

static void tick_cb(uv_timer_t *timer)
{
    struct client *client = timer->data;
    client->tick = true;
}

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void start_timer(struct client *client, double seconds)
{
    client->tick = false;
    uv_update_time(&loop);
    /* The timer repeats, because libuv before 1.45 may run it and then wait for another event. */
    uv_timer_start(&client->timer, tick_cb, (uint64_t)ceil(seconds * 1000), 1);
}

void client_pause(struct client *client, double seconds)
{
    start_timer(client, seconds);
    while (!client->tick && !interrupted)
        uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&client->timer);
}

void client_wake(struct client *client)
{
    client->tick = true;
}

/* With SA_RESTART a signal does not cut off a line that is being written to the terminal. Even so
 * it ends poll and epoll_wait. */
void client_catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool client_interrupted(void)
{
    return interrupted;
}

uv_loop_t *client_loop(void)
{
    return &loop;
}

/* ---- connecting --------------------------------------------------------------------------- */

const char *client_why(const struct client *client)
{
    return client->why;
}

static void say_unreachable(struct client *client)
{
    static const char cannot[] = "cannot connect: ";
    const char *reason = client->reason;
    if (strncmp(reason, cannot, sizeof cannot - 1) == 0)
        reason += sizeof cannot - 1;
    snprintf(client->why, sizeof client->why, "cannot reach Redis at %.200s: %s%s",
             client->options->redis, *reason ? reason : "no answer", redis_advice(reason));
}

bool client_up(struct client *client)
{
    bool is_up = redis_up(client->redis);
    if (!is_up)
        say_unreachable(client);
    return is_up;
}

/* Waits until the connection works, or until there were as many failures as servers in the address.
 * With Sentinels twice as many: each try connects to a Sentinel and then to the master. */
static bool wait_for_tries(struct client *client)
{
    unsigned tries = (unsigned)client->address.count * (*client->address.master ? 2 : 1);
    double limit_s = client->options->connect_timeout_s * (tries + 1);
    start_timer(client, limit_s);
    while (!redis_up(client->redis) && client->failures < tries && !client->tick &&
           !interrupted)
        uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&client->timer);
    if (redis_up(client->redis))
        return true;
    say_unreachable(client);
    return false;
}

static bool wait_until_up(struct client *client)
{
    client->failures = 0;
    return wait_for_tries(client);
}

static bool open_loop(void)
{
    if (clients == 0 && uv_loop_init(&loop) != 0) /* uncovered: gone */
        return false;
    clients++;
    return true;
}

struct client *client_begin(const struct options *options, struct error *error)
{
    struct client *client = calloc(1, sizeof *client);
    if (!client || !open_loop()) { /* uncovered: gone */
        free(client);
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for a connection to Redis");
        return NULL;
    }
    const struct redis_events events = {client, up, down, NULL};
    struct redis_options how = {.conf = options, .random_state = client->random_state};
    client->options = options;
    list_init(&client->answers);
    uv_timer_init(&loop, &client->timer);
    client->timer.data = client;
    /* If this fails, all clients have the same delays, which is harmless. */
    (void)!getentropy(client->random_state, sizeof client->random_state);
    if (redis_address_parse(&client->address, options->redis, error) == STATUS_OK) {
        how.route = client->route = route_create(&loop, &client->address, &how);
        client->redis = how.route ? redis_create(&loop, &how, &events) : NULL;
        if (!client->redis)
            error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for a connection to Redis");
    }
    if (client->redis) {
        redis_start(client->redis);
        return client;
    }
    client_close(client);
    return NULL;
}

bool client_ready(struct client *client)
{
    if (!wait_for_tries(client))
        return false;
    /* A Cluster node may redirect the client: follow that now, not with the first job. */
    redisReply *reply = client_ask(client, "EXISTS %s:jobs", client->options->namespace);
    freeReplyObject(reply);
    return reply != NULL;
}

static void part_closed(void *closed)
{
    *(bool *)closed = true;
}

static void close_walk(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void client_close(struct client *client)
{
    struct list_node *node;
    bool redis_closed = false, route_closed = false;
    if (!client)
        return;
    if (client->redis)
        redis_close(client->redis, part_closed, &redis_closed);
    while (client->redis && !redis_closed)
        uv_run(&loop, UV_RUN_ONCE);
    if (client->route)
        route_close(client->route, part_closed, &route_closed);
    while (client->route && !route_closed)
        uv_run(&loop, UV_RUN_ONCE);
    while ((node = list_pop(&client->answers))) { /* uncovered: gone */
        struct answer *answer = container_of(node, struct answer, node);
        freeReplyObject(answer->reply);
        free(answer);
    }
    uv_close((uv_handle_t *)&client->timer, timer_closed); /* frees the client */
    if (--clients == 0) {
        uv_walk(&loop, close_walk, NULL);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
    }
}

/* ---- commands ----------------------------------------------------------------------------- */

/* Moves the content of a reply to one that the caller owns: link.c frees the original. */
static redisReply *take_over(redisReply *reply)
{
    redisReply *mine = reply ? malloc(sizeof *mine) : NULL;
    if (mine) {
        *mine = *reply;
        memset(reply, 0, sizeof *reply);
        reply->type = REDIS_REPLY_NIL;
    }
    return mine;
}

static void reply_came(void *context, redisReply *reply)
{
    struct answer *answer = context;
    answer->reply = take_over(reply);
    answer->came = true;
}

/* Sends a command that hiredis has encoded. A negative length means that memory was short. */
static void send_encoded(struct client *client, const char *command, long long length)
{
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer) /* uncovered: gone */
        abort(); /* memory is too short even for an error message */
    list_push(&client->answers, &answer->node);
    if (length < 0 || !redis_send(client->redis, command, (size_t)length, NULL, 0, reply_came,
                                  answer)) /* uncovered: gone */
        answer->came = true;
}

void client_send(struct client *client, const char *format, ...)
{
    char *command = NULL;
    va_list args;
    va_start(args, format);
    int length = redisvFormatCommand(&command, format, args);
    va_end(args);
    send_encoded(client, command, length);
    free(command);
}

void client_send_words(struct client *client, int argc, const char **argv, const size_t *lengths)
{
    char *command = NULL;
    long long length = redisFormatCommandArgv(&command, argc, argv, lengths);
    send_encoded(client, command, length);
    free(command);
}

redisReply *client_take(struct client *client)
{
    struct list_node *node = list_first(&client->answers);
    assert(node);
    struct answer *answer = container_of(node, struct answer, node);
    while (!answer->came)
        uv_run(&loop, UV_RUN_ONCE);
    list_remove(&client->answers, node);
    redisReply *reply = answer->reply;
    free(answer);
    return reply;
}

bool client_reply_ok(struct client *client, const redisReply *reply, const char *what)
{
    if (reply && reply->type != REDIS_REPLY_ERROR)
        return true;
    if (!reply) {
        say_unreachable(client);
        return false;
    }
    snprintf(client->why, sizeof client->why, "Redis at %.200s refuses %s: %.300s%s",
             client->options->redis, what, reply->str, redis_advice(reply->str));
    text_make_printable(client->why);
    return false;
}

void client_retry_for(struct client *client, double seconds, client_away_cb away, void *context)
{
    client->patient_until_s = clock_now_s() + seconds;
    client->away = away;
    client->away_context = context;
}

bool client_is_transient(const redisReply *reply)
{
    if (!reply)
        return true;
    enum redis_refusal refusal = reply->type == REDIS_REPLY_ERROR ? redis_refusal(reply->str)
                                                                  : REDIS_REFUSAL_OTHER;
    return refusal == REDIS_REFUSAL_WAIT || refusal == REDIS_REFUSAL_RECONNECT;
}

static bool may_retry(const struct client *client)
{
    return client->away && !interrupted && clock_now_s() < client->patient_until_s;
}

/* Waits until the connection works again, or client_retry_for permits no more. During the pauses
 * the connection tries to connect. */
static bool wait_and_retry(struct client *client)
{
    if (!may_retry(client))
        return false;
    do {
        client->away(client->away_context);
        client_pause(client, RETRY_PAUSE_S);
    } while (!redis_up(client->redis) && may_retry(client));
    return redis_up(client->redis);
}

/* client_ask for an encoded command, which this function frees. */
static redisReply *ask(struct client *client, char *command, long long length)
{
    redisReply *answer = NULL;
    char name[32] = "the command"; /* if possible, GET of "*2\r\n$3\r\nGET\r\n..." */
    if (length > 0)
        sscanf(command, "*%*d $%*d %31s", name);
    for (int try = 0; try < ASK_TRIES && (try == 0 || !interrupted); try++) {
        if (!redis_up(client->redis) && !wait_until_up(client) && !wait_and_retry(client))
            break;
        send_encoded(client, command, length);
        redisReply *reply = client_take(client);
        if (client_reply_ok(client, reply, name)) {
            redis_mark_healthy(client->redis);
            answer = reply;
            break;
        }
        bool lost = !reply || redis_refusal(reply->str) == REDIS_REFUSAL_RECONNECT;
        bool transient = client_is_transient(reply);
        if (reply && lost) /* uncovered: gone */
            redis_drop(client->redis, reply->str);
        freeReplyObject(reply);
        if (!lost && !(transient && wait_and_retry(client)))
            break;
        if (may_retry(client))
            try = -1; /* retry until the time is over */
    }
    free(command);
    return answer;
}

redisReply *client_ask_words(struct client *client, int argc, const char **argv,
                             const size_t *lengths)
{
    char *command = NULL;
    long long length = redisFormatCommandArgv(&command, argc, argv, lengths);
    return ask(client, command, length);
}

redisReply *client_vask(struct client *client, const char *format, va_list args)
{
    char *command = NULL;
    int length = redisvFormatCommand(&command, format, args);
    return ask(client, command, length);
}

redisReply *client_ask(struct client *client, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = client_vask(client, format, args);
    va_end(args);
    return reply;
}
