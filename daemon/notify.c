/* notify.c - sends messages to systemd as datagrams. It does not use sd_notify of libsystemd, which
 * would block the loop while systemd does not read: the kernel may queue only ten datagrams. */
#include "daemon/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <systemd/sd-daemon.h>

#include "conf/clock.h"
#include "conf/text.h"

/* How long a ready, reloading or stopping message waits for room in the socket. */
#define STATE_WAIT_US 200000

static int notify_fd = -1;

/* Parses the environment variable NOTIFY_SOCKET: a path, or '@' and a name in the abstract
 * namespace of unix sockets. Returns the length of the address; 0: the variable is not set or not
 * valid. */
static socklen_t address_of(struct sockaddr_un *address)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;
    if (length < 2 || length >= sizeof address->sun_path || (*name != '/' && *name != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (*name == '@')
        address->sun_path[0] = '\0';
    else
        length++; /* the length of a path includes its NUL; an abstract name has none */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

/* flags: MSG_DONTWAIT, or 0 to wait up to STATE_WAIT_US. false: the message was not sent. */
static bool post(const char *text, int flags)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&address);
    if (length == 0)
        return true;
    if (notify_fd < 0) {
        const struct timeval wait = {.tv_usec = STATE_WAIT_US};
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (notify_fd < 0) /* uncovered: service (tests/coverage/reasons.txt) */
            return false;
        setsockopt(notify_fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    }
    ssize_t sent;
    do /* the socket is not connected, because systemd may replace its own socket */
        sent = sendto(notify_fd, text, strlen(text), flags | MSG_NOSIGNAL,
                      (struct sockaddr *)&address, length);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

/* A ready, reloading or stopping message that could not be sent; "": none. A later one replaces
 * it. */
static char unsent[64];

static void post_unsent(int flags)
{
    if (unsent[0] && post(unsent, flags))
        unsent[0] = '\0';
}

void notify_state(const char *text)
{
    strcpy(unsent, text);
    post_unsent(0);
}

void notify_reloading(void)
{
    snprintf(unsent, sizeof unsent, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
    post_unsent(0);
}

void notify_status(const char *format, ...)
{
    static char last[512];
    char text[512], line[sizeof text + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_printable(text); /* a newline would start another assignment */
    post_unsent(MSG_DONTWAIT);
    if (strcmp(text, last) == 0)
        return; /* an idle daemon must not wake systemd */
    snprintf(line, sizeof line, "STATUS=%s", text);
    if (post(line, MSG_DONTWAIT))
        strcpy(last, text);
}

void notify_watchdog(void)
{
    post_unsent(MSG_DONTWAIT);
    post("WATCHDOG=1", MSG_DONTWAIT);
}

uint64_t notify_watchdog_interval_ms(void)
{
    uint64_t period_us = 0;
    if (sd_watchdog_enabled(0, &period_us) <= 0)
        return 0;
    uint64_t interval = period_us / 1000 / 3;
    return interval > 0 ? interval : 1;
}
