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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_NOT_HERE 77 /* tests/run.sh: a tool is missing, nothing is wrong */
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

/* The port, or any where it is 0; 0 when it is taken. */
static int try_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0;
    if (fd >= 0)
        close(fd);
    return free ? ntohs(address.sin_port) : 0;
}

/* With the one that a Cluster's bus takes, 10,000 above it. */
static int free_port(void)
{
    for (int i = 0; i < 1000; i++) {
        int port = try_port(0);
        if (port && port < 65536 - 10000 && try_port(port + 10000))
            return port;
    }
    die("no free port");
}

static void launch(struct redis_server *server)
{
    char port[16];
    char *argv[REDIS_SERVER_ARGS_MAX + 32];
    int n = 0;
    snprintf(port, sizeof port, "%d", server->port);
    argv[n++] = (char *)"redis-server";
    if (*server->config)
        argv[n++] = server->config;
    const char *base[] = {"--port", port, "--bind", "127.0.0.1", "--unixsocket",
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

void redis_server_require(void)
{
    if (system("command -v redis-server >/dev/null") == 0)
        return;
    puts("ok - Redis # SKIP there is no redis-server here");
    exit(EXIT_NOT_HERE);
}

static struct redis_server *new_server(void)
{
    redis_server_require();
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
    return server;
}

static void add_arg(struct redis_server *server, const char *arg)
{
    if (server->arg_count == REDIS_SERVER_ARGS_MAX)
        die("too many arguments");
    server->args[server->arg_count++] = strdup(arg);
}

struct redis_server *redis_sentinel_start(const char *master, int port)
{
    struct redis_server *server = new_server();
    snprintf(server->config, sizeof server->config, "%s/sentinel.conf", server->folder);
    FILE *file = fopen(server->config, "w");
    if (!file)
        die("cannot write %s: %s", server->config, strerror(errno));
    fprintf(file, "sentinel monitor %s 127.0.0.1 %d 2\n"
                  "sentinel down-after-milliseconds %s 1000\n"
                  "sentinel failover-timeout %s 4000\n", master, port, master, master);
    if (fclose(file) != 0)
        die("cannot write %s: %s", server->config, strerror(errno));
    add_arg(server, "--sentinel");
    launch(server);
    wait_until_up(server);
    return server;
}

struct redis_server *redis_server_start(const char *first, ...)
{
    struct redis_server *server = new_server();
    va_list args;
    va_start(args, first);
    for (const char *arg = first; arg; arg = va_arg(args, const char *))
        add_arg(server, arg);
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
