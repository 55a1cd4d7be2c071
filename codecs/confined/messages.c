/* messages.c - receives calls of the daemon and sends replies (codecs/process/protocol.h). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "codecs/confined/confined.h"

void confined_send(const struct codec_reply *reply)
{
    if (send(CODEC_SOCKET, reply, sizeof *reply, MSG_NOSIGNAL) != sizeof *reply)
        _exit(0);
}

void confined_receive(struct codec_call *call)
{
    ssize_t bytes;
    do
        bytes = recv(CODEC_SOCKET, call, sizeof *call, 0);
    while (bytes < 0 && errno == EINTR);
    if (bytes != sizeof *call)
        _exit(0);
}

void confined_ask(const struct codec_reply *reply)
{
    struct codec_call call;
    confined_send(reply);
    confined_receive(&call);
}

void confined_fail(struct codec_reply *reply, enum status status, const char *format, ...)
{
    va_list args;
    reply->status = status;
    va_start(args, format);
    vsnprintf(reply->text, sizeof reply->text, format, args);
    va_end(args);
}
