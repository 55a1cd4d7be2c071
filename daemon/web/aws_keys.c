#include "daemon/web/aws_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/content.h"
#include "conf/text.h"

static bool is_whole(const struct aws_keys *keys)
{
    return *keys->id && *keys->secret;
}

static bool read_environment(struct aws_keys *keys, struct error *error)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN"};
    char *const places[] = {keys->id, keys->secret, keys->token};
    const size_t sizes[] = {sizeof keys->id, sizeof keys->secret, sizeof keys->token};
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && !text_copy(places[i], sizes[i], value))
            return error_refuse(error, "needs %s of at most %zu bytes in the environment", names[i],
                                sizes[i] - 1);
    }
    return is_whole(keys) ||
           error_refuse(error, "needs %s%s%s, which %s not set in the environment",
                        *keys->id ? "" : names[0], *keys->id || *keys->secret ? "" : " and ",
                        *keys->secret ? "" : names[1], *keys->id || *keys->secret ? "is" : "are");
}

/* The file consists of profiles: a line "[name]" and the lines after it. Lines before the first
 * "[name]" count as [default]. */
struct profiles {
    struct aws_keys now;    /* the profile being read */
    struct aws_keys chosen; /* [default] if it was read, else the first profile */
    bool is_default;        /* `now` is [default] */
    bool has_default;       /* `chosen` is [default] */
};

static void end_profile(struct profiles *profiles)
{
    const struct aws_keys *now = &profiles->now;
    bool empty = !*now->id && !*now->secret;
    bool first = !*profiles->chosen.id && !*profiles->chosen.secret;
    if (!empty && !profiles->has_default && (profiles->is_default || first)) {
        profiles->chosen = *now;
        profiles->has_default = profiles->is_default;
    }
    explicit_bzero(&profiles->now, sizeof profiles->now);
}

/* A value that is too long counts as missing. */
static void set_key(struct aws_keys *keys, const char *name, const char *value)
{
    static const char *const names[] = {"aws_access_key_id", "aws_secret_access_key",
                                        "aws_session_token"};
    char *const places[] = {keys->id, keys->secret, keys->token};
    const size_t sizes[] = {sizeof keys->id, sizeof keys->secret, sizeof keys->token};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0 && !text_copy(places[i], sizes[i], value))
            *places[i] = '\0';
}

/* "[name]" or "name = value". */
static void take_line(struct profiles *profiles, char *line)
{
    line += strspn(line, " \t");
    char *value = strchr(line, '=');
    if (*line == '[') {
        end_profile(profiles);
        size_t blanks = strspn(line + 1, " \t");
        size_t length = strcspn(line + 1 + blanks, " \t]");
        profiles->is_default = length == 7 && strncmp(line + 1 + blanks, "default", 7) == 0;
    } else if (value && *line != '#' && *line != ';') {
        *value++ = '\0';
        value += strspn(value, " \t");
        value[strcspn(value, " \t\r")] = '\0';
        line[strcspn(line, " \t")] = '\0';
        set_key(&profiles->now, line, value);
    }
}

static void read_profiles(struct aws_keys *keys, char *text)
{
    struct profiles profiles = {.is_default = true};
    for (char *line; (line = strsep(&text, "\n"));)
        take_line(&profiles, line);
    end_profile(&profiles);
    *keys = profiles.chosen;
    explicit_bzero(&profiles, sizeof profiles);
}

bool aws_keys_read(struct aws_keys *keys, const char *credential, struct error *error)
{
    char path[4096];
    size_t length;
    struct error fault = {0};
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    *keys = (struct aws_keys){0};
    if (!*credential)
        return read_environment(keys, error);
    if (!folder)
        return error_refuse(error, "needs CREDENTIALS_DIRECTORY, which is not set; use "
                                   "LoadCredential= in the unit");
    snprintf(path, sizeof path, "%s/%s", folder, credential);
    char *text = content_read(path, 0, &length, &fault);
    if (!text)
        return error_refuse(error, "needs its credential: %s", fault.text);
    read_profiles(keys, text);
    explicit_bzero(text, length);
    free(text);
    return is_whole(keys) ||
           error_refuse(error,
                        "needs both an aws_access_key_id and an aws_secret_access_key, none "
                        "too long, in [default] or the first profile of %.120s",
                        path);
}
