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

/* "CREDENTIAL" or "@ROLE" */
static bool take_source(struct prefix *prefix, const char *source)
{
    if (*source != '@')
        return text_copy(prefix->credential, sizeof prefix->credential, source) &&
               is_name(prefix->credential);
    prefix->role = aws_role_by_name(source + 1);
    return prefix->role != AWS_ROLE_NONE;
}

/* "aws:REGION", "aws:REGION:CREDENTIAL" or "aws:REGION:@ROLE" */
static bool take_signing(struct prefix *prefix, const char *word, struct error *error)
{
    const char *region = word + 4, *colon = strchr(region, ':');
    size_t length = colon ? (size_t)(colon - region) : strlen(region);
    if (prefix->is_signed)
        return fail(error, word, "is the second signing of a prefix");
    if (length >= sizeof prefix->region)
        return fail(error, word, "has a region that is too long");
    memcpy(prefix->region, region, length);
    if (!is_name(prefix->region) || (colon && !take_source(prefix, colon + 1)))
        return error_refuse(
            error,
            "option url_prefixes has \"%.80s\", which must be aws:REGION, "
            "aws:REGION:CREDENTIAL, or aws:REGION: with @instance, @web-identity or "
            "@container",
            word);
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

static bool read_keys(struct prefix *prefix, struct errors *errors)
{
    struct error fault = {0};
    bool is_role = prefix->role != AWS_ROLE_NONE;
    if (is_role ? role_check(prefix->role, prefix->region, &fault)
                : aws_keys_read(&prefix->keys, prefix->credential, &fault))
        return true;
    const char *source = is_role ? aws_role_name(prefix->role) : prefix->credential;
    return errors_addf(errors, "option url_prefixes: aws:%s%s%s%s of %.*s %s", prefix->region,
                       *source ? ":" : "", is_role ? "@" : "", source, URL_SHOWN(&prefix->url),
                       fault.text);
}

bool prefixes_read_keys(struct prefixes *prefixes, struct errors *errors)
{
    bool good = true;
    for (size_t i = 0; i < prefixes->count; i++)
        if (prefixes->items[i].is_signed)
            good = read_keys(&prefixes->items[i], errors) && good;
    return good;
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
