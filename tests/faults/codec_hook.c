/*
 * codec_hook.c - faults of gpuimgd-codec.
 *
 * The name of the program ends in STAGE-ACTION: start, probe, decode or encode; exit, crash, kill,
 * hang, memory, lie, empty, long, flood or shrink (a smaller second header). A process is faulty
 * only if it can remove the file PROGRAM.armed at its start, so a test chooses which process fails,
 * and the next one works.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "codecs/process/protocol.h"

void confined_fault(const char *stage);

static void fail(const char *action)
{
    const struct codec_reply lie = {.kind = CODEC_DONE, .width = 1u << 31, .height = 7,
                                    .channels = 2, .orientation = 99, .icc_bytes = UINT64_MAX};
    const struct codec_reply odd = {.kind = 77};
    if (strcmp(action, "exit") == 0)
        _exit(3);
    if (strcmp(action, "crash") == 0)
        __builtin_trap();
    if (strcmp(action, "kill") == 0)
        raise(SIGKILL);
    while (strcmp(action, "hang") == 0)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    if (strcmp(action, "lie") == 0) {
        send(CODEC_SOCKET, &lie, sizeof lie, 0);
        send(CODEC_SOCKET, &odd, sizeof odd, 0);
        while (true)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    if (strcmp(action, "empty") == 0 || strcmp(action, "long") == 0) {
        static const char message[2 * sizeof lie];
        send(CODEC_SOCKET, message, *action == 'e' ? 0 : sizeof message, 0);
        while (true)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    static int headers;
    if (strcmp(action, "shrink") == 0 && headers++ == 1) {
        const struct codec_reply header = {.kind = CODEC_DONE,
                                           .width = 1,
                                           .height = 1,
                                           .channels = 3,
                                           .orientation = 1,
                                           .frames = 1};
        struct codec_call same; /* the next attempt's */
        if (send(CODEC_SOCKET, &header, sizeof header, 0) < 0 ||
            recv(CODEC_SOCKET, &same, sizeof same, 0) <= 0)
            _exit(0);
    }
    while (strcmp(action, "flood") == 0) {
        const struct codec_reply part = {.kind = CODEC_PART, .bytes = CODEC_WINDOW_BYTES};
        struct codec_call call;
        if (send(CODEC_SOCKET, &part, sizeof part, 0) < 0 ||
            recv(CODEC_SOCKET, &call, sizeof call, 0) <= 0)
            _exit(0);
    }
    if (strcmp(action, "memory") == 0) {
        for (volatile char *block; (block = malloc(1 << 20)) != NULL;)
            *block = 1;
        abort();
    }
}

void confined_fault(const char *stage)
{
    static char wanted[32];
    static const char *action;
    if (strcmp(stage, "start") == 0) {
        char armed[4096];
        const char *name = strrchr(program_invocation_name, '/');
        snprintf(armed, sizeof armed, "%s.armed", program_invocation_name);
        if (name && unlink(armed) == 0)
            snprintf(wanted, sizeof wanted, "%s", name + 1);
        action = strchr(wanted, '-');
    }
    if (action && strncmp(wanted, stage, strlen(stage)) == 0 && wanted + strlen(stage) == action)
        fail(action + 1);
}
