/* uncovered file: promise */
#include "queue/job/instance.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/text.h"

#define PART_BYTES_MAX 72 /* a host name has at most 64 bytes, a boot id 36 */

static bool read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    return length > 0;
}

/* Reads fields 3 and 22 of /proc/PID/stat: the state, and the start time in ticks since boot. The
 * command name in field 2 may contain any byte, so fields are counted from the last ')'. */
static bool start_time(long pid, char *state, char text[PART_BYTES_MAX])
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const char *end = read_file(path, line, sizeof line) ? strrchr(line, ')') : NULL;
    return end && sscanf(end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                         " %*s %*s %*s %71s", state, text) == 2;
}

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

static void keep_name_characters(char *text)
{
    for (; *text; text++)
        if (!is_name_character(*text))
            *text = '_';
}

static bool boot_id(char text[PART_BYTES_MAX])
{
    bool ok = read_file("/proc/sys/kernel/random/boot_id", text, PART_BYTES_MAX);
    text[strcspn(text, "\n")] = '\0';
    keep_name_characters(text);
    return ok && *text;
}

/* The link reads "pid:[4026531836]". */
static bool pid_namespace(char text[PART_BYTES_MAX])
{
    char link[64];
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    link[length > 0 ? length : 0] = '\0';
    return sscanf(link, "pid:[%71[0-9]]", text) == 1;
}

bool instance_self(char inst[INSTANCE_BYTES_MAX], char daemon[INSTANCE_BYTES_MAX])
{
    char host[PART_BYTES_MAX] = "", boot[PART_BYTES_MAX], space[PART_BYTES_MAX];
    char start[PART_BYTES_MAX], state;
    long pid = (long)getpid();
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        strcpy(host, "localhost");
    keep_name_characters(host);
    if (!boot_id(boot) || !pid_namespace(space) || !start_time(pid, &state, start))
        return false;
    int length = snprintf(inst, INSTANCE_BYTES_MAX, "%s:%s:%s:%ld:%s", host, boot, space, pid,
                          start);
    instance_daemon(inst, daemon);
    return length < INSTANCE_BYTES_MAX;
}

void instance_daemon(const char *inst, char daemon[INSTANCE_BYTES_MAX])
{
    const char *pid = inst;
    for (int i = 0; i < 3 && pid; i++)
        pid = strchr(pid, ':') ? strchr(pid, ':') + 1 : NULL;
    snprintf(daemon, INSTANCE_BYTES_MAX, "%.*s:%.*s", (int)strcspn(inst, ":"), inst,
             pid ? (int)strcspn(pid, ":") : 0, pid ? pid : "");
}

/* Splits host:boot:namespace:pid:start in place. */
static bool split(char *text, char *parts[5])
{
    for (int i = 0; i < 5; i++) {
        parts[i] = text;
        size_t length = strcspn(text, ":");
        if (length == 0 || (i < 4) != (text[length] == ':'))
            return false;
        text[length] = '\0';
        text += length + 1;
    }
    return true;
}

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && (text[0] != '0' || !text[1]);
}

static bool is_word(const char *text)
{
    while (is_name_character(*text))
        text++;
    return !*text;
}

bool instance_is_name(const char *text)
{
    char copy[INSTANCE_BYTES_MAX], *parts[5];
    return text_copy(copy, sizeof copy, text) && split(copy, parts) && is_word(parts[0]) &&
           is_word(parts[1]) && is_number(parts[2]) && is_number(parts[3]) && is_number(parts[4]);
}

enum instance_life instance_life(const char *inst, const char *self)
{
    char theirs[INSTANCE_BYTES_MAX], ours[INSTANCE_BYTES_MAX], start[PART_BYTES_MAX];
    char *them[5], *us[5], *end, state;
    if (!text_copy(theirs, sizeof theirs, inst) || !text_copy(ours, sizeof ours, self) ||
        !split(theirs, them) || !split(ours, us))
        return INSTANCE_ELSEWHERE;
    for (int i = 0; i < 3; i++)
        if (strcmp(them[i], us[i]) != 0)
            return INSTANCE_ELSEWHERE;
    errno = 0;
    long pid = strtol(them[3], &end, 10);
    if (errno || *end || pid <= 0)
        return INSTANCE_ELSEWHERE;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return INSTANCE_DEAD;
    /* With hidepid the file is unreadable although the process lives. */
    if (!start_time(pid, &state, start))
        return INSTANCE_ALIVE;
    if (state == 'Z' || state == 'X') /* dead, but its parent has not reaped it yet */
        return INSTANCE_DEAD;
    return strcmp(start, them[4]) == 0 ? INSTANCE_ALIVE : INSTANCE_DEAD;
}
