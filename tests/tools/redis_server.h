/*
 * redis_server.h - a private redis-server for one test.
 *
 * Each has its own folder under $TMPDIR (or /tmp), a unix socket in it and a free port on
 * 127.0.0.1, and keeps its data through kill and restart (append-only file, written before each
 * reply). It dies with the thread that started it. Any failure to start ends the test program
 * with a message: no test can go on without. Without redis-server on the machine the program ends
 * with status 77 and a TAP line: it is skipped.
 */
#ifndef GPUIMGD_TESTS_TOOLS_REDIS_SERVER_H
#define GPUIMGD_TESTS_TOOLS_REDIS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

#define REDIS_SERVER_ARGS_MAX 32

struct redis_server {
    pid_t pid;          /* 0 while it is not running */
    int port;           /* on 127.0.0.1 */
    char folder[128];
    char socket[160];
    char address[192];  /* "unix:/...", as the option `redis` takes it */
    char tcp[32];       /* "127.0.0.1:port" */
    char config[160];   /* a Sentinel's own file; "" for a server */
    char *args[REDIS_SERVER_ARGS_MAX]; /* the extra ones, own copies */
    int arg_count;
};

/* Ends the program as above if there is no redis-server. Starting one does this, too. */
void redis_server_require(void);
/* Starts one and waits until it answers. Extra arguments of redis-server, ended by NULL:
 * redis_server_start(NULL), redis_server_start("--requirepass", "secret", NULL). */
struct redis_server *redis_server_start(const char *first, ...);
/* A Sentinel that watches the master of this name at 127.0.0.1:port, which two of them must find
 * down for a second. It has a server's struct; the functions below that say so take it too. */
struct redis_server *redis_sentinel_start(const char *master, int port);
/* Kills it, removes its folder and frees it. NULL and a Sentinel are fine. */
void redis_server_stop(struct redis_server *server);

/* Ends the process (kill -9; a Sentinel too), keeping its folder. */
void redis_server_kill9(struct redis_server *server);
/* Starts it again with the data it had, same socket and port; the process that ran is killed
 * first. `_nowait` returns at once, while it may be loading still. */
void redis_server_restart(struct redis_server *server);
void redis_server_restart_nowait(struct redis_server *server);
/* SIGSTOP and SIGCONT: connections stay, nothing answers. */
void redis_server_freeze(struct redis_server *server, bool frozen);

/* A blocking hiredis connection over the unix socket, to a Sentinel too. Ends the program when
 * that fails. */
redisContext *redis_server_connect(const struct redis_server *server);

/* One command on such a connection, whose reply must not be NULL; free it with freeReplyObject. */
redisReply *redis_command(redisContext *redis, const char *format, ...);
/* The same, when only a number (integers as they are, else 0) or no reply is wanted. An error
 * reply ends the program. */
long long redis_integer(redisContext *redis, const char *format, ...);
/* The reply as malloc'd text: strings and statuses as they are, errors too; NULL for nil. */
char *redis_string(redisContext *redis, const char *format, ...);

#endif
