#include "daemon/http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/text.h"

/* Connections that wait in the kernel until they are accepted: a browser opens six at once, a
 * Prometheus server one. */
#define BACKLOG 16

/* A parsed address. */
struct place {
    char host[256];   /* "": unix socket */
    char port[8];     /* of TCP */
    const char *path; /* of a unix socket; NULL: TCP */
};

static bool refuse(const char *option, const char *text, const char *why, struct error *error)
{
    return error_refuse(error, "option %s is \"%.200s\"; it must be port, host:port, "
                        "[v6 address]:port or unix:/path: %s", option, text, why);
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && !text[digits] && atoi(text) <= 65535;
}

static bool split(struct place *place, const char *option, const char *text, struct error *error)
{
    *place = (struct place){0};
    if (strncmp(text, "unix:", 5) == 0) {
        place->path = text + 5;
        if (*place->path != '/')
            return refuse(option, text, "the path is not absolute", error);
        if (strlen(place->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
            /* uncovered: service (tests/coverage/reasons.txt) */
            return refuse(option, text, "the path is too long for a socket", error);
        return true;
    }
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    const char *host = colon ? text : "127.0.0.1";
    size_t length = colon ? (size_t)(colon - text) : strlen(host);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    } else if (memchr(host, ':', length)) {
        return refuse(option, text, "an IPv6 address must be in brackets", error);
    }
    if (length == 0 || length >= sizeof place->host)
        return refuse(option, text, "the host must have 1 to 255 bytes", error);
    if (!is_port(port))
        return refuse(option, text, "the port must be a number from 0 to 65535", error);
    memcpy(place->host, host, length);
    text_copy(place->port, sizeof place->port, port);
    return true;
}

bool listener_check(const char *option, const char *text, struct error *error)
{
    struct place place;
    return split(&place, option, text, error);
}

/* Binds a socket and listens on it; sets listener->fd. false: errno is set. */
static bool listen_on(struct listener *listener, int family, const struct sockaddr *address,
                      socklen_t length)
{
    const int yes = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) /* uncovered: service */
        return false;
    if (family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, address, length) != 0 || listen(fd, BACKLOG) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return false;
    }
    listener->fd = fd;
    return true;
}

static bool cannot(const char *option, const char *text, const char *why, struct error *error)
{
    return error_refuse(error, "option %s is \"%.200s\"; cannot listen on it: %s", option, text,
                        why);
}

/* Returns true if the path is a socket on which no process listens. */
static bool is_abandoned(const struct sockaddr_un *address)
{
    struct stat info;
    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static bool open_unix(struct listener *listener, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    text_copy(address.sun_path, sizeof address.sun_path, path);
    if (is_abandoned(&address))
        unlink(path);
    if (!listen_on(listener, AF_UNIX, (const struct sockaddr *)&address, sizeof address))
        return false;
    text_copy(listener->path, sizeof listener->path, path);
    chmod(path, 0660); /* the group may connect, whatever the umask is */
    snprintf(listener->name, sizeof listener->name, "unix:%s", path);
    return true;
}

/* Sets the name with the actual port, which differs from the option if that has port 0. */
static void set_name(struct listener *listener, const char *host)
{
    struct sockaddr_storage got;
    socklen_t length = sizeof got;
    char port[8] = "?";
    if (getsockname(listener->fd, (struct sockaddr *)&got, &length) == 0)
        getnameinfo((struct sockaddr *)&got, length, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    bool v6 = strchr(host, ':');
    snprintf(listener->name, sizeof listener->name, "http://%s%s%s:%s/", v6 ? "[" : "", host,
             v6 ? "]" : "", port);
}

/* Sets listener->fd to a socket on the host and the port. */
static bool open_tcp(struct listener *listener, const char *option, const char *text,
                     const struct place *place, const char *port, struct error *error)
{
    struct addrinfo *found = NULL;
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    /* localhost is always the loopback address (RFC 6761, section 6.3), even without /etc/hosts. */
    const char *host = strcasecmp(place->host, "localhost") == 0 ? "127.0.0.1" : place->host;
    int failed = getaddrinfo(host, port, &wanted, &found);
    if (failed)
        return cannot(option, text, gai_strerror(failed), error);
    for (struct addrinfo *at = found; at && listener->fd < 0; at = at->ai_next)
        listen_on(listener, at->ai_family, at->ai_addr, at->ai_addrlen);
    int why = errno;
    freeaddrinfo(found);
    return listener->fd >= 0 || cannot(option, text, strerror(why), error);
}

/* Whether a socket can be created at the path, or exists there. false: errno is set. */
static bool may_listen(const char *path)
{
    char folder[sizeof(((struct listener *)NULL)->path)];
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode)) {
        errno = EADDRINUSE;
        return false;
    }
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    return access(folder, W_OK | X_OK) == 0;
}

bool listener_check_host(const char *option, const char *text, struct error *error)
{
    struct place place;
    struct listener listener = {.fd = -1};
    if (!split(&place, option, text, error))
        return false;
    if (place.path)
        return may_listen(place.path) || cannot(option, text, strerror(errno), error);
    if (!open_tcp(&listener, option, text, &place, "0", error))
        return false;
    close(listener.fd);
    return true;
}

bool listener_open(struct listener *listener, const char *option, const char *text,
                   struct error *error)
{
    struct place place;
    *listener = (struct listener){.fd = -1};
    if (!split(&place, option, text, error)) /* uncovered: service */
        return false;
    if (place.path)
        return open_unix(listener, place.path) || cannot(option, text, strerror(errno), error);
    if (!open_tcp(listener, option, text, &place, place.port, error))
        return false;
    set_name(listener, place.host);
    text_copy(listener->host, sizeof listener->host, place.host);
    return true;
}

void listener_close(struct listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    if (*listener->path)
        unlink(listener->path);
    listener->fd = -1;
    listener->path[0] = '\0';
}

bool listener_takes_host(const struct listener *listener, const char *header)
{
    char host[sizeof listener->host];
    if (!*listener->host || !header)
        return true;
    bool bracketed = *header == '[';
    const char *begin = header + bracketed;
    size_t length = strcspn(begin, bracketed ? "]" : ":");
    const char *port = begin + length;
    if (length == 0 || length >= sizeof host || (bracketed && *port++ != ']'))
        return false;
    if (*port && (*port != ':' || !is_port(port + 1)))
        return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    struct in6_addr address;
    if (inet_pton(bracketed ? AF_INET6 : AF_INET, host, &address) == 1)
        return true;
    return !bracketed &&
           (strcasecmp(host, "localhost") == 0 || strcasecmp(host, listener->host) == 0);
}
