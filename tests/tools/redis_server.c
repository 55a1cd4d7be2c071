/* redis_server.c - see redis_server.h. */
#include "tests/tools/redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_CLIENTS_MAX 16
#define LINE_TICK_MS 10

#define START_TRIES 2000 /* of 10 ms: valgrind on a busy machine starts slowly */

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("redis_server: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static void nap_ms(long ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static void launch(struct redis_server *server)
{
    char port[16];
    char *argv[REDIS_SERVER_ARGS_MAX + 32];
    int n = 0;
    snprintf(port, sizeof port, "%d", server->port);
    const char *base[] = {"redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket",
                          server->socket, "--dir", server->folder, "--logfile", "redis.log",
                          "--save", "", "--appendonly", "yes", "--appendfsync", "no",
                          "--daemonize", "no"};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        argv[n++] = (char *)base[i];
    for (int i = 0; i < server->arg_count; i++)
        argv[n++] = server->args[i];
    argv[n] = NULL;
    unlink(server->socket);
    pid_t parent = getpid();
    server->pid = fork();
    if (server->pid < 0)
        die("fork: %s", strerror(errno));
    if (server->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    execvp(argv[0], argv);
    _exit(127);
}

static bool answers(const struct redis_server *server)
{
    redisContext *redis = redisConnectUnix(server->socket);
    bool yes = false;
    if (redis && !redis->err) {
        redisReply *reply = redisCommand(redis, "PING");
        yes = reply && (reply->type != REDIS_REPLY_ERROR || !strncmp(reply->str, "NOAUTH", 6));
        if (reply)
            freeReplyObject(reply);
    }
    if (redis)
        redisFree(redis);
    return yes;
}

static void wait_until_up(struct redis_server *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (answers(server))
            return;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid)
            die("redis-server did not start; see %s/redis.log", server->folder);
        nap_ms(10);
    }
    die("redis-server did not answer; see %s/redis.log", server->folder);
}

struct redis_server *redis_server_start(const char *first, ...)
{
    struct redis_server *server = calloc(1, sizeof *server);
    const char *tmp = getenv("TMPDIR");
    if (!server)
        die("out of memory");
    if (!tmp || strlen(tmp) > 60) /* a socket's path has 107 bytes at most */
        tmp = "/tmp";
    snprintf(server->folder, sizeof server->folder, "%s/redis-test-XXXXXX", tmp);
    if (!mkdtemp(server->folder))
        die("mkdtemp %s: %s", server->folder, strerror(errno));
    snprintf(server->socket, sizeof server->socket, "%s/redis.sock", server->folder);
    snprintf(server->address, sizeof server->address, "unix:%s", server->socket);
    server->port = free_port();
    snprintf(server->tcp, sizeof server->tcp, "127.0.0.1:%d", server->port);
    va_list args;
    va_start(args, first);
    for (const char *arg = first; arg; arg = va_arg(args, const char *)) {
        if (server->arg_count == REDIS_SERVER_ARGS_MAX)
            die("too many arguments");
        server->args[server->arg_count++] = strdup(arg);
    }
    va_end(args);
    launch(server);
    wait_until_up(server);
    return server;
}

void redis_server_kill9(struct redis_server *server)
{
    if (!server->pid)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void redis_server_restart_nowait(struct redis_server *server)
{
    redis_server_kill9(server);
    launch(server);
}

void redis_server_restart(struct redis_server *server)
{
    redis_server_restart_nowait(server);
    wait_until_up(server);
}

void redis_server_freeze(struct redis_server *server, bool frozen)
{
    if (server->pid)
        kill(server->pid, frozen ? SIGSTOP : SIGCONT);
}

/* Forwards what there is, at most so much; false when an end has closed. */
static bool forward(int from, int to, size_t most)
{
    char bytes[64 * 1024];
    ssize_t got = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    for (ssize_t at = 0, sent; at < got; at += sent)
        if ((sent = send(to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL)) <= 0)
            return false;
    return got > 0;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

__attribute__((noreturn)) static void carry(int listener, const char *socket_path, size_t bytes)
{
    int pairs[LINE_CLIENTS_MAX][2];
    size_t count = 0;
    for (;; nap_ms(LINE_TICK_MS)) {
        int client = count < LINE_CLIENTS_MAX ? accept(listener, NULL, NULL) : -1;
        if (client >= 0) {
            pairs[count][0] = client;
            pairs[count++][1] = connect_unix(socket_path);
        }
        for (size_t i = 0; i < count; i++) {
            if (forward(pairs[i][0], pairs[i][1], bytes) &&
                forward(pairs[i][1], pairs[i][0], SIZE_MAX))
                continue;
            close(pairs[i][0]);
            close(pairs[i][1]);
            memcpy(pairs[i], pairs[--count], sizeof pairs[i]);
            i--;
        }
    }
}

void redis_server_slow_line(struct redis_server *server, size_t bytes_per_ms)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int buffer = 16 * 1024, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0 || listen(fd, 8) < 0)
        die("no slow line: %s", strerror(errno));
    snprintf(server->line, sizeof server->line, "127.0.0.1:%d", ntohs(address.sin_port));
    pid_t parent = getpid();
    server->line_pid = fork();
    if (server->line_pid < 0)
        die("fork: %s", strerror(errno));
    if (server->line_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        carry(fd, server->socket, bytes_per_ms * LINE_TICK_MS);
    }
    close(fd);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void redis_server_stop(struct redis_server *server)
{
    if (!server)
        return;
    redis_server_kill9(server);
    if (server->line_pid) {
        kill(server->line_pid, SIGKILL);
        waitpid(server->line_pid, NULL, 0);
    }
    nftw(server->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < server->arg_count; i++)
        free(server->args[i]);
    free(server);
}

redisContext *redis_server_connect(const struct redis_server *server)
{
    redisContext *redis = redisConnectUnix(server->socket);
    if (!redis || redis->err)
        die("connect %s: %s", server->socket, redis ? redis->errstr : "out of memory");
    return redis;
}

static redisReply *command(redisContext *redis, const char *format, va_list args)
{
    redisReply *reply = redisvCommand(redis, format, args);
    if (!reply)
        die("%s: %s", format, redis->errstr);
    return reply;
}

redisReply *redis_command(redisContext *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = command(redis, format, args);
    va_end(args);
    return reply;
}

long long redis_integer(redisContext *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = command(redis, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        die("%s: %s", format, reply->str);
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return value;
}

char *redis_string(redisContext *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = command(redis, format, args);
    va_end(args);
    char *text = reply->str ? strndup(reply->str, reply->len) : NULL;
    freeReplyObject(reply);
    return text;
}
