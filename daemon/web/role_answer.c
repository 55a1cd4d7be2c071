#include "daemon/web/role_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>

#include "queue/job/json.h"

/* Copies a word. false: it is empty or too long, or has other bytes than printable ASCII. */
static bool take_word(char *word, size_t size, const char *text, size_t length)
{
    if (length < 1 || length >= size)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    memcpy(word, text, length);
    word[length] = '\0';
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool role_answer_word(const char *text, size_t length, char *word, size_t size)
{
    while (length > 0 && is_space(*text)) {
        text++;
        length--;
    }
    while (length > 0 && is_space(text[length - 1]))
        length--;
    return take_word(word, size, text, length);
}

/* ---- members -------------------------------------------------------------------------------- */

/* A member of an answer: of the object `json`, or an element of XML. Returns its text in *text, and
 * its length; 0: there is none. */
struct answer {
    const cJSON *json;
    const char *xml, *end; /* the part of the text that has the keys */
};

static size_t find_element(const struct answer *answer, const char *name, const char **text)
{
    char tag[64];
    size_t length = (size_t)snprintf(tag, sizeof tag, "<%s>", name);
    const char *begin = memmem(answer->xml, (size_t)(answer->end - answer->xml), tag, length);
    if (!begin)
        return 0;
    *text = begin + length;
    const char *close = memchr(*text, '<', (size_t)(answer->end - *text));
    return close ? (size_t)(close - *text) : 0;
}

static size_t find_member(const struct answer *answer, const char *name, const char **text)
{
    if (!answer->json)
        return find_element(answer, name, text);
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer->json, name));
    *text = value;
    return value ? strlen(value) : 0;
}

static bool take_member(const struct answer *answer, const char *name, char *word, size_t size)
{
    const char *text = NULL;
    size_t length = find_member(answer, name, &text);
    return take_word(word, size, text, length);
}

/* Letters alone: the text goes into logs and results, and a server could repeat a secret. */
static bool take_code(const struct answer *answer, const char *name, char *code, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    bool good = take_member(answer, name, code, size) && code[strspn(code, letters)] == '\0';
    if (!good)
        *code = '\0';
    return good;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* "2026-01-31T23:59:59Z", perhaps with a fraction of a second. */
static bool parse_time(const char *text, double *unix_s)
{
    struct tm utc = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    if (end && *end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    if (!end || strcmp(end, "Z") != 0)
        return false;
    *unix_s = (double)timegm(&utc);
    return true;
}

static bool take_keys(const struct answer *answer, struct aws_keys *keys, double *ends,
                      struct error *error)
{
    char code[64], time[64];
    const char *token_name = answer->json ? "Token" : "SessionToken";
    if (answer->json && take_member(answer, "Code", code, sizeof code) &&
        strcmp(code, "Success") != 0)
        return error_refuse(error, "has the code %s",
                            take_code(answer, "Code", code, sizeof code) ? code : "of an error");
    if (!take_member(answer, "AccessKeyId", keys->id, sizeof keys->id) ||
        !take_member(answer, "SecretAccessKey", keys->secret, sizeof keys->secret))
        return error_refuse(error, "has no AccessKeyId and SecretAccessKey");
    if (!take_member(answer, token_name, keys->token, sizeof keys->token))
        return error_refuse(error, "has no %s, or one of more than %zu bytes", token_name,
                            sizeof keys->token - 1);
    return (take_member(answer, "Expiration", time, sizeof time) && parse_time(time, ends)) ||
           error_refuse(error, "has no Expiration like 2026-01-31T23:59:59Z");
}

/* XML: STS says "Credentials" around the keys. */
static bool find_credentials(struct answer *answer, const char *text, size_t length)
{
    static const char begin[] = "<Credentials>", close[] = "</Credentials>";
    answer->xml = memmem(text, length, begin, sizeof begin - 1);
    if (!answer->xml)
        return false;
    size_t left = length - (size_t)(answer->xml - text);
    answer->end = memmem(answer->xml, left, close, sizeof close - 1);
    return answer->end != NULL;
}

bool role_answer_keys(const char *text, size_t length, struct aws_keys *keys, double *ends,
                      struct error *error)
{
    struct answer answer = {0};
    struct error fault = {0};
    cJSON *json = NULL;
    *keys = (struct aws_keys){0};
    if (!find_credentials(&answer, text, length)) {
        json = json_parse(text, length, NULL, &fault);
        if (!cJSON_IsObject(json)) {
            cJSON_Delete(json);
            return error_refuse(error, "is neither JSON nor XML with keys");
        }
        answer.json = json;
    }
    bool good = take_keys(&answer, keys, ends, error);
    cJSON_Delete(json);
    if (!good)
        explicit_bzero(keys, sizeof *keys);
    return good;
}

void role_answer_code(const char *text, size_t length, char *code, size_t size)
{
    static const char *const members[] = {"Code", "code", "message"};
    struct error ignored = {0};
    struct answer answer = {.xml = text, .end = text + length};
    cJSON *json = json_parse(text, length, NULL, &ignored);
    answer.json = cJSON_IsObject(json) ? json : NULL;
    *code = '\0';
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (take_code(&answer, members[i], code, size))
            break;
    cJSON_Delete(json);
}
