#include "daemon/web/aws_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

#define LINE_BYTES 4096

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
            *places[i] = '\0';
    }
    return is_whole(keys) ||
           error_refuse(error,
                        "option url_prefixes has aws:, but AWS_ACCESS_KEY_ID and "
                        "AWS_SECRET_ACCESS_KEY in the environment have no keys, or too long ones");
}

/* A line "name = value". A longer value than fits counts as missing. */
static void take_line(struct aws_keys *keys, char *line)
{
    char *value = strchr(line, '=');
    if (!value)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    value[strcspn(value, " \t\r\n")] = '\0';
    line += strspn(line, " \t");
    line[strcspn(line, " \t")] = '\0';
    if (strcmp(line, "aws_access_key_id") == 0 && strlen(value) < sizeof keys->id)
        strcpy(keys->id, value);
    else if (strcmp(line, "aws_secret_access_key") == 0 && strlen(value) < sizeof keys->secret)
        strcpy(keys->secret, value);
    else if (strcmp(line, "aws_session_token") == 0 && strlen(value) < sizeof keys->token)
        strcpy(keys->token, value);
}

bool aws_keys_read(struct aws_keys *keys, const char *credential, struct error *error)
{
    char path[4096], line[LINE_BYTES];
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    *keys = (struct aws_keys){0};
    if (!*credential)
        return read_environment(keys, error);
    if (!folder)
        return error_refuse(error, "option url_prefixes names the credential \"%s\", but "
                            "CREDENTIALS_DIRECTORY is not set; use LoadCredential= in the unit",
                            credential);
    snprintf(path, sizeof path, "%s/%s", folder, credential);
    FILE *file = fopen(path, "re");
    if (!file)
        return error_refuse(error, "option url_prefixes: %.200s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, file))
        take_line(keys, line);
    fclose(file);
    explicit_bzero(line, sizeof line);
    return is_whole(keys) ||
           error_refuse(error,
                        "option url_prefixes: %.120s has no access key, or one that is too "
                        "long",
                        path);
}
