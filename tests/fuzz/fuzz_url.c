/* fuzz_url.c - any bytes as prefixes, networks, a URL, a redirect and an address: an accepted URL
 * is in its normal form and within its prefix, and no private address is allowed by accident.
 *
 * The input has lines: url_prefixes, url_networks, the URL, the Location of a redirect, and the 16
 * bytes of an address. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "conf/text.h"
#include "daemon/web/networks.h"
#include "daemon/web/prefixes.h"
#include "tests/fuzz/fuzz.h"

/* ---- URLs ----------------------------------------------------------------------------------- */

static int hex(char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes the path as a server may, and looks for parts that leave it. */
static void check_path(const char *path, size_t length)
{
    char *decoded = malloc(length + 2);
    size_t count = 0;
    FUZZ_MUST(length > 0 && *path == '/');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)path[i];
        FUZZ_MUST(c > ' ' && c < 0x7F && c != '\\' && c != '#' && c != '?');
        if (c == '%') {
            FUZZ_MUST(i + 2 < length && hex(path[i + 1]) >= 0 && hex(path[i + 2]) >= 0);
            c = (unsigned char)(hex(path[i + 1]) * 16 + hex(path[i + 2]));
            FUZZ_MUST(c >= ' ' && c != 0x7F);
            i += 2;
        }
        decoded[count++] = c == '\\' ? '/' : (char)c;
    }
    decoded[count++] = '/';
    decoded[count] = '\0';
    FUZZ_MUST(!strstr(decoded, "/../") && !strstr(decoded, "/./"));
    FUZZ_MUST(!strstr(decoded, "/..;") && !strstr(decoded, "/.;"));
    free(decoded);
}

static void check_origin(const struct url *url)
{
    size_t scheme = url_is_https(url) ? 8 : 7;
    FUZZ_MUST(strncmp(url->text, url_is_https(url) ? "https://" : "http://", scheme) == 0);
    FUZZ_MUST(url->origin_bytes > scheme);
    for (size_t i = scheme; i < url->origin_bytes; i++)
        FUZZ_MUST(strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.:[]", url->text[i]));
}

static void must_be_stable(const char *text, const char *normal)
{
    struct url again;
    struct error error = {0};
    if (strlen(text) > JOB_URL_BYTES_MAX)
        return;
    FUZZ_MUST(url_parse(&again, text, &error) == STATUS_OK);
    FUZZ_MUST(strcmp(again.text, normal) == 0);
    url_clear(&again);
}

static void check_url(const struct url *url)
{
    char shown[2 * JOB_URL_BYTES_MAX + 64];
    size_t length = strlen(url->text);
    FUZZ_MUST(url->origin_bytes < url->base_bytes && url->base_bytes <= length);
    FUZZ_MUST(url->base_bytes == strcspn(url->text, "?#"));
    FUZZ_MUST(strcspn(url->text, " \t\r\n#\\") == length);
    check_origin(url);
    check_path(url->text + url->origin_bytes, url->base_bytes - url->origin_bytes);
    must_be_stable(url->text, url->text);
    if (text_copy_url(shown, sizeof shown, url->text))
        FUZZ_MUST(strlen(shown) == url->base_bytes &&
                  memcmp(shown, url->text, url->base_bytes) == 0);
    FUZZ_MUST(url_same(url, url));
    char *signing = url_text_for_signing(url);
    FUZZ_MUST(signing && strncmp(signing, url->text, url->origin_bytes) == 0);
    for (size_t i = url->origin_bytes; signing[i] && signing[i] != '?'; i++)
        FUZZ_MUST(!strchr("!$&'()*+,;=:@", signing[i]));
    free(signing);
}

static void check_prefixes(const struct prefixes *prefixes, const struct url *url)
{
    struct error error = {0};
    const struct prefix *prefix = prefixes_match(prefixes, url, &error);
    FUZZ_MUST(!prefix == (error.status == STATUS_PATH_REFUSED));
    if (!prefix)
        return;
    const struct url *allowed = &prefix->url;
    FUZZ_MUST(url->origin_bytes == allowed->origin_bytes &&
              strncmp(url->text, allowed->text, allowed->base_bytes) == 0);
    char next = url->text[allowed->base_bytes];
    FUZZ_MUST(allowed->text[allowed->base_bytes - 1] == '/' || !next || next == '/' ||
              next == '?');
}

static void check_redirect(const struct prefixes *prefixes, const struct url *base,
                           const char *location)
{
    struct url url;
    struct error error = {0};
    enum status status = url_resolve(&url, base, location, &error);
    FUZZ_MUST((status == STATUS_OK) == (url.text != NULL));
    if (status == STATUS_OK) {
        check_url(&url);
        check_prefixes(prefixes, &url);
    }
    url_clear(&url);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static const char *forbid_v4(const struct networks *networks, const uint8_t bytes[4])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    memcpy(&address.sin_addr, bytes, 4);
    return networks_forbid(networks, (struct sockaddr *)&address);
}

static const char *forbid_v6(const struct networks *networks, const uint8_t bytes[16])
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    memcpy(&address.sin6_addr, bytes, 16);
    return networks_forbid(networks, (struct sockaddr *)&address);
}

static bool is_private_v4(const uint8_t b[4])
{
    return b[0] == 0 || b[0] == 10 || b[0] == 127 || (b[0] == 169 && b[1] == 254) ||
           (b[0] == 172 && b[1] >= 16 && b[1] <= 31) || (b[0] == 192 && b[1] == 168) ||
           (b[0] == 100 && b[1] >= 64 && b[1] <= 127) || b[0] >= 224;
}

static void check_addresses(const struct networks *networks, const uint8_t bytes[16])
{
    static const struct networks none;
    uint8_t mapped[16] = {[10] = 0xFF, [11] = 0xFF};
    memcpy(mapped + 12, bytes, 4);
    FUZZ_MUST(forbid_v4(networks, bytes) == forbid_v6(networks, mapped));
    FUZZ_MUST(!is_private_v4(bytes) || forbid_v4(&none, bytes));
    bool is_unicast = (bytes[0] & 0xE0) == 0x20;
    if (!is_unicast && memcmp(bytes, mapped, 12) != 0)
        FUZZ_MUST(forbid_v6(&none, bytes));
    /* An address that is allowed without networks is allowed with any, except in NAT64. */
    FUZZ_MUST(forbid_v4(&none, bytes) || !forbid_v4(networks, bytes));
    FUZZ_MUST(forbid_v6(&none, bytes) || !forbid_v6(networks, bytes));
}

/* ---- the target ----------------------------------------------------------------------------- */

/* Takes the next line out of the text. */
static char *take_line(char **rest)
{
    char *line = *rest;
    size_t length = strcspn(line, "\n");
    *rest = line + length + (line[length] == '\n');
    line[length] = '\0';
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    char *text = malloc(length + 1), *rest = text;
    uint8_t address[16] = {0};
    struct prefixes prefixes;
    struct networks networks;
    struct error wrong = {0}, error = {0};
    struct url url;
    memcpy(text, bytes, length);
    text[length] = '\0';
    bool known = prefixes_parse(&prefixes, take_line(&rest), &wrong);
    FUZZ_MUST(known == (wrong.status == STATUS_OK));
    error_clear(&wrong);
    bool parsed = networks_parse(&networks, take_line(&rest), &wrong);
    FUZZ_MUST(parsed == (wrong.status == STATUS_OK));
    enum status status = url_parse(&url, take_line(&rest), &error);
    FUZZ_MUST((status == STATUS_OK) == (url.text != NULL) && status == error.status);
    char *location = take_line(&rest);
    if (status == STATUS_OK && known) {
        check_url(&url);
        check_prefixes(&prefixes, &url);
        check_redirect(&prefixes, &url, location);
    }
    memcpy(address, rest, strnlen(rest, sizeof address));
    if (parsed)
        check_addresses(&networks, address);
    url_clear(&url);
    networks_clear(&networks);
    prefixes_clear(&prefixes);
    free(text);
    return 0;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    static const char *const texts[] = {
        "https://h/a/ https://b:9/ aws:eu-west-1\n10.0.0.0/8 fd00::/8\nhttps://h/a/b?q\n/c\n"
        "\x7f\1\1\1",
        "http://h:80/\n\nhttp://H:80/%7Ea/%2fb?X-Amz-Signature=1\nhttps://h/../x#f\n\x0a\1\1\1",
        "https://[::1]/ aws:eu:key\n127.0.0.1,::1\nhttps://[::1]:443/\n//evil/\n\xA9\xFE\xA9\xFE",
        "https://h/a\n64:ff9b::/96\nhttps://h/a/..%2f..;x\n%2e%2e/%5c\n\x20\1\1\1",
        "https://0x7f.1/\n0.0.0.0/0\nhttps://2130706433/\nfile:///etc/passwd\n\xFC\1\1\1",
        "https://h/ \n::/0\nhttps://h?\xC3\xA9\n?\xC3\xA9\n",
    };
    char name[32];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(name, sizeof name, "text-%02zu", i);
        give(context, name, texts[i], strlen(texts[i]));
    }
}
