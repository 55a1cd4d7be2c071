/* refusal.c - classifies the error replies of Redis (connection.h). */
#include "queue/redis/connection.h"

#include <string.h>

bool redis_error_is(const char *error, const char *code)
{
    size_t length = strlen(code);
    for (const char *at = error; (at = strstr(at, code)) != NULL; at += length) {
        bool starts = at == error || at[-1] == ' ' || at[-1] == '-' || at[-1] == ':';
        if (starts && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

enum redis_refusal redis_refusal(const char *error)
{
    static const struct {
        enum redis_refusal refusal;
        const char *codes[8];
    } lists[] = {
        {REDIS_REFUSAL_RECONNECT, {"READONLY", "UNBLOCKED", "MOVED", "CLUSTERDOWN", "MASTERDOWN"}},
        {REDIS_REFUSAL_AUTH, {"NOAUTH", "WRONGPASS", "NOPERM"}},
        {REDIS_REFUSAL_WAIT,
         {"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "TRYAGAIN", "ASK"}},
    };
    if (strncmp(error, "NOSCRIPT", 8) == 0)
        return REDIS_REFUSAL_NOSCRIPT;
    if (strstr(error, "Protocol error")) /* the server closes the connection */
        return REDIS_REFUSAL_RECONNECT;
    /* Redis 7 replies so if an ACL denies a command in a script. Redis 7.0 omits the code NOPERM.
     */
    if (strstr(error, "The user executing the script can't ") ||
        strstr(error, "ACL failure in script"))
        return REDIS_REFUSAL_AUTH;
    /* AUTH answers ERR if no password is set, and on servers older than Redis 6. */
    if (strncmp(error, "ERR AUTH", 8) == 0 || strncmp(error, "ERR invalid password", 20) == 0)
        return REDIS_REFUSAL_AUTH; /* uncovered: server */
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const char *const *code = lists[i].codes; *code; code++)
            if (redis_error_is(error, *code))
                return lists[i].refusal;
    return REDIS_REFUSAL_OTHER;
}

const char *redis_advice(const char *reason)
{
    if (strstr(reason, "connection refused") || strstr(reason, "no such file"))
        return "; is redis-server running?";
    if (strncmp(reason, "cannot read the password file", 29) == 0)
        return "; redis_password_file names it";
    if (redis_refusal(reason) == REDIS_REFUSAL_AUTH)
        return strncmp(reason, "no Sentinel", 11) == 0
                   ? "; see sentinel_username and sentinel_password_file"
                   : "; see redis_username and redis_password_file";
    if (strstr(reason, "DB index")) /* uncovered: refusal */
        return "; see redis_database";
    if (redis_error_is(reason, "OOM"))
        return "; raise maxmemory";
    return "";
}
