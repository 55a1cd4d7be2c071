#include "daemon/web/prefixes.h"

#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

#define SEPARATORS " \t"

static bool fail(struct error *error, const char *word, const char *fault)
{
    char shown[100];
    text_copy_url(shown, sizeof shown, word);
    return error_refuse(error, "option url_prefixes has \"%s\", which %s", shown, fault);
}

/* Whether a region or a credential has only harmless characters. A credential becomes a file name,
 * and a region becomes a part of CURLOPT_AWS_SIGV4, whose parts are separated by colons. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.";
    return *name && *name != '.' && strspn(name, letters) == strlen(name);
}

/* "aws:REGION" or "aws:REGION:CREDENTIAL" */
static bool take_signing(struct prefix *prefix, const char *word, struct error *error)
{
    const char *region = word + 4, *colon = strchr(region, ':');
    size_t length = colon ? (size_t)(colon - region) : strlen(region);
    if (prefix->is_signed)
        return fail(error, word, "is the second signing of a prefix");
    if (length >= sizeof prefix->region)
        return fail(error, word, "has a region that is too long");
    memcpy(prefix->region, region, length);
    if (!is_name(prefix->region) ||
        (colon && (!text_copy(prefix->credential, sizeof prefix->credential, colon + 1) ||
                   !is_name(prefix->credential))))
        return fail(error, word, "must be aws:REGION or aws:REGION:CREDENTIAL");
    prefix->is_signed = true;
    return true;
}

static bool take_url(struct prefix *prefix, const char *word, struct error *error)
{
    struct error fault = {0};
    if (url_parse(&prefix->url, word, &fault) != STATUS_OK)
        return error_refuse(error, "option url_prefixes: %s", fault.text);
    return prefix->url.text[prefix->url.base_bytes] == '\0' ||
           fail(error, word, "has a query; a prefix ends with its path");
}

bool prefixes_parse(struct prefixes *prefixes, const char *text, struct error *error)
{
    char *copy = strdup(text), *rest = NULL;
    /* The shortest prefix is "http://h"; with its separator it has 9 bytes. */
    *prefixes = (struct prefixes){.items = calloc(strlen(text) / 9 + 2, sizeof(struct prefix))};
    bool good = (copy && prefixes->items) ||
                error_refuse(error, "out of memory for option url_prefixes");
    for (char *word = good ? strtok_r(copy, SEPARATORS, &rest) : NULL; word && good;
         word = strtok_r(NULL, SEPARATORS, &rest)) {
        bool signs = strncmp(word, "aws:", 4) == 0;
        if (signs && prefixes->count == 0)
            good = fail(error, word, "must follow a prefix");
        else
            good = signs ? take_signing(&prefixes->items[prefixes->count - 1], word, error)
                         : take_url(&prefixes->items[prefixes->count++], word, error);
    }
    free(copy);
    return good;
}

bool prefixes_read_keys(struct prefixes *prefixes, struct error *error)
{
    for (size_t i = 0; i < prefixes->count; i++) {
        struct prefix *prefix = &prefixes->items[i];
        if (prefix->is_signed && !aws_keys_read(&prefix->keys, prefix->credential, error))
            return false;
    }
    return true;
}

void prefixes_clear(struct prefixes *prefixes)
{
    for (size_t i = 0; i < prefixes->count; i++) {
        url_clear(&prefixes->items[i].url);
        explicit_bzero(&prefixes->items[i].keys, sizeof prefixes->items[i].keys);
    }
    free(prefixes->items);
    *prefixes = (struct prefixes){0};
}

static bool allows(const struct prefix *prefix, const struct url *url)
{
    size_t length = prefix->url.base_bytes;
    if (url->base_bytes < length || memcmp(url->text, prefix->url.text, length) != 0)
        return false;
    return prefix->url.text[length - 1] == '/' || url->base_bytes == length ||
           url->text[length] == '/';
}

static const struct prefix *find(const struct prefixes *prefixes, size_t count,
                                 const struct url *url)
{
    for (size_t i = 0; i < count; i++)
        if (allows(&prefixes->items[i], url))
            return &prefixes->items[i];
    return NULL;
}

const struct prefix *prefixes_hiding(const struct prefixes *prefixes, size_t index)
{
    return find(prefixes, index, &prefixes->items[index].url);
}

const struct prefix *prefixes_match(const struct prefixes *prefixes, const struct url *url,
                                    struct error *error)
{
    const struct prefix *found = find(prefixes, prefixes->count, url);
    if (found)
        return found;
    if (prefixes->count == 0)
        error_set(error, STATUS_PATH_REFUSED, "the URL \"%.*s\" is refused, because the option "
                  "url_prefixes is empty", URL_SHOWN(url));
    else
        error_set(error, STATUS_PATH_REFUSED, "the URL \"%.*s\" begins with no prefix of the "
                  "option url_prefixes", URL_SHOWN(url));
    return NULL;
}
