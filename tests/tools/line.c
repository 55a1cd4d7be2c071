#include "tests/tools/line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/tools/process.h"

#define PAIRS_MAX 64
#define CHUNK_BYTES (64 * 1024)
#define TICK_MS 10

/* One client and its connection to the server. */
struct pair {
    int client, server;
    unsigned epoch;              /* of the silence before which it was made */
    redisReader *commands, *replies;
    uint64_t command_count, reply_count;
    uint64_t cut_at;             /* the command whose reply is withheld; 0: none */
    size_t budget;               /* bytes that may pass before the next tick */
};

struct line {
    pthread_t thread;
    int listener, wake[2];       /* a byte ends the thread */
    char socket[160], address[32];
    struct pair pairs[PAIRS_MAX];
    size_t pair_count;
    atomic_size_t bytes_per_ms;
    atomic_bool bytewise;
    atomic_uint epoch, cuts, connections;
    pthread_mutex_t lock;        /* guards what follows */
    char cut_text[128];
    unsigned cut_times;
};

__attribute__((noreturn)) static void die(const char *what)
{
    fprintf(stderr, "line: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- one connection -------------------------------------------------------------------------- */

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void take_client(struct line *line)
{
    int on = 1, client = accept4(line->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    int server = line->pair_count < PAIRS_MAX ? connect_unix(line->socket) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    line->pairs[line->pair_count++] = (struct pair){
        .client = client, .server = server, .epoch = atomic_load(&line->epoch),
        .commands = redisReaderCreate(), .replies = redisReaderCreate()};
    atomic_fetch_add(&line->connections, 1);
}

static void drop_pair(struct line *line, size_t index)
{
    struct pair *pair = &line->pairs[index];
    close(pair->client);
    close(pair->server);
    redisReaderFree(pair->commands);
    redisReaderFree(pair->replies);
    *pair = line->pairs[--line->pair_count];
}

static bool send_all(int to, const char *bytes, size_t length, size_t step)
{
    for (size_t at = 0; at < length;) {
        size_t part = length - at < step ? length - at : step;
        ssize_t sent = send(to, bytes + at, part, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += (size_t)sent;
        if (step == 1)
            usleep(1); /* or the next byte would meet this one in the receiver's buffer */
    }
    return true;
}

/* Whether the reply to this command is to be withheld; takes one of the times. */
static bool claims_cut(struct line *line, const redisReply *command)
{
    bool found = false;
    pthread_mutex_lock(&line->lock);
    for (size_t i = 0; line->cut_times > 0 && !found && i < command->elements; i++)
        found = command->element[i]->str &&
                memmem(command->element[i]->str, command->element[i]->len, line->cut_text,
                       strlen(line->cut_text));
    line->cut_times -= found;
    pthread_mutex_unlock(&line->lock);
    return found;
}

static void note_commands(struct line *line, struct pair *pair, const char *bytes, size_t length)
{
    void *command = NULL;
    redisReaderFeed(pair->commands, bytes, length);
    while (redisReaderGetReply(pair->commands, &command) == REDIS_OK && command) {
        pair->command_count++;
        if (!pair->cut_at && claims_cut(line, command))
            pair->cut_at = pair->command_count;
        freeReplyObject(command);
    }
}

/* false: the reply that is to be withheld is among these bytes. */
static bool note_replies(struct line *line, struct pair *pair, const char *bytes, size_t length)
{
    void *reply = NULL;
    redisReaderFeed(pair->replies, bytes, length);
    while (redisReaderGetReply(pair->replies, &reply) == REDIS_OK && reply) {
        freeReplyObject(reply);
        if (++pair->reply_count != pair->cut_at)
            continue;
        atomic_fetch_add(&line->cuts, 1);
        return false;
    }
    return true;
}

/* Carries on what there is; false when the connection is at its end. */
static bool carry(struct line *line, struct pair *pair, bool from_client)
{
    static _Thread_local char bytes[CHUNK_BYTES];
    bool limited = from_client && atomic_load(&line->bytes_per_ms) > 0;
    size_t most = limited && pair->budget < sizeof bytes ? pair->budget : sizeof bytes;
    int from = from_client ? pair->client : pair->server;
    ssize_t got = recv(from, bytes, most, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    if (from_client) {
        pair->budget -= limited ? (size_t)got : 0;
        note_commands(line, pair, bytes, (size_t)got);
        return send_all(pair->server, bytes, (size_t)got, CHUNK_BYTES);
    }
    return note_replies(line, pair, bytes, (size_t)got) &&
           send_all(pair->client, bytes, (size_t)got,
                    atomic_load(&line->bytewise) ? 1 : CHUNK_BYTES);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static size_t watch(struct line *line, struct pollfd *polls)
{
    bool limited = atomic_load(&line->bytes_per_ms) > 0;
    size_t count = 0;
    polls[count++] = (struct pollfd){line->wake[0], POLLIN, 0};
    polls[count++] = (struct pollfd){line->listener, POLLIN, 0};
    for (size_t i = 0; i < line->pair_count; i++) {
        const struct pair *pair = &line->pairs[i];
        bool silent = pair->epoch != atomic_load(&line->epoch);
        bool wait = silent || (limited && pair->budget == 0);
        polls[count++] = (struct pollfd){wait ? -1 : pair->client, POLLIN, 0};
        polls[count++] = (struct pollfd){silent ? -1 : pair->server, POLLIN, 0};
    }
    return count;
}

static void *run(void *argument)
{
    struct line *line = argument;
    struct pollfd polls[2 + 2 * PAIRS_MAX];
    double ticked = 0;
    for (;;) {
        size_t pairs = line->pair_count, count = watch(line, polls);
        poll(polls, count, TICK_MS);
        if (polls[0].revents)
            return NULL;
        bool tick = process_now() - ticked >= TICK_MS / 1e3;
        if (tick)
            ticked = process_now();
        for (size_t i = pairs; i-- > 0;) { /* from the end: dropping moves the last one */
            struct pair *pair = &line->pairs[i];
            if (tick)
                pair->budget = atomic_load(&line->bytes_per_ms) * TICK_MS;
            bool alive = !polls[2 + 2 * i].revents || carry(line, pair, true);
            alive = alive && (!polls[3 + 2 * i].revents || carry(line, pair, false));
            if (!alive)
                drop_pair(line, i);
        }
        if (polls[1].revents)
            take_client(line);
    }
}

struct line *line_open(const char *socket_path)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    struct line *line = calloc(1, sizeof *line);
    int buffer = 16 * 1024; /* small, so that a slow line holds the sender up */
    sigset_t all, before;
    if (!line || pipe2(line->wake, O_CLOEXEC) != 0)
        die("no line");
    snprintf(line->socket, sizeof line->socket, "%s", socket_path);
    pthread_mutex_init(&line->lock, NULL);
    line->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (line->listener < 0 ||
        setsockopt(line->listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) < 0 ||
        bind(line->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(line->listener, (struct sockaddr *)&address, &size) < 0 ||
        listen(line->listener, 64) < 0)
        die("cannot listen");
    snprintf(line->address, sizeof line->address, "127.0.0.1:%d", ntohs(address.sin_port));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&line->thread, NULL, run, line) != 0)
        die("no thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return line;
}

void line_close(struct line *line)
{
    if (!line)
        return;
    if (write(line->wake[1], "", 1) != 1)
        die("cannot end the thread");
    pthread_join(line->thread, NULL);
    while (line->pair_count > 0)
        drop_pair(line, 0);
    close(line->listener);
    close(line->wake[0]);
    close(line->wake[1]);
    pthread_mutex_destroy(&line->lock);
    free(line);
}

/* ---- the test's side ------------------------------------------------------------------------- */

const char *line_address(const struct line *line)
{
    return line->address;
}

void line_slow(struct line *line, size_t bytes_per_ms)
{
    atomic_store(&line->bytes_per_ms, bytes_per_ms);
}

void line_bytewise(struct line *line, bool on)
{
    atomic_store(&line->bytewise, on);
}

void line_silence(struct line *line)
{
    atomic_fetch_add(&line->epoch, 1);
}

void line_cut(struct line *line, const char *text, unsigned times)
{
    pthread_mutex_lock(&line->lock);
    snprintf(line->cut_text, sizeof line->cut_text, "%s", text);
    line->cut_times = times;
    pthread_mutex_unlock(&line->lock);
}

unsigned line_cuts(struct line *line)
{
    return atomic_load(&line->cuts);
}

unsigned line_connections(struct line *line)
{
    return atomic_load(&line->connections);
}
