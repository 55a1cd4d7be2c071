#include "codecs/xml.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Whether a character may be in a name. This is a table for speed, as a name may have megabytes. */
static bool is_name(char c)
{
    static const bool is_other[256] = {
        ['\0'] = true, [' '] = true, ['\t'] = true, ['\r'] = true, ['\n'] = true, ['<'] = true,
        ['>'] = true,  ['/'] = true, ['='] = true,  ['\''] = true, ['"'] = true,  ['&'] = true};
    return !is_other[(unsigned char)c];
}

static size_t skip(struct xml_span span, size_t at, bool is_wanted(char))
{
    while (at < span.bytes && is_wanted(span.at[at]))
        at++;
    return at;
}

/* The part of the span from offset `from` to `to`, without the character at `to`. */
static struct xml_span part(struct xml_span span, size_t from, size_t to)
{
    return (struct xml_span){span.at + from, to - from};
}

bool xml_is(struct xml_span span, const char *text)
{
    return span.bytes == strlen(text) && memcmp(span.at, text, span.bytes) == 0;
}

bool xml_begins(struct xml_span span, const char *text)
{
    size_t bytes = strlen(text);
    return span.bytes >= bytes && memcmp(span.at, text, bytes) == 0;
}

static size_t colon_at(struct xml_span name)
{
    const char *colon = name.bytes > 0 ? memchr(name.at, ':', name.bytes) : NULL;
    return colon ? (size_t)(colon - name.at) : name.bytes;
}

struct xml_span xml_prefix(struct xml_span name)
{
    size_t colon = colon_at(name);
    return part(name, 0, colon < name.bytes ? colon : 0);
}

struct xml_span xml_local(struct xml_span name)
{
    size_t colon = colon_at(name);
    return part(name, colon < name.bytes ? colon + 1 : 0, name.bytes);
}

/* Reads an attribute from the white space before it, at offset `at`. Returns the offset of its end;
 * 0: there is no valid attribute. */
static size_t read_attribute(struct xml_span span, size_t at, struct xml_attribute *attribute)
{
    size_t name = skip(span, at, is_space), end = skip(span, name, is_name);
    size_t equals = skip(span, end, is_space);
    if (name == at || end == name || equals == span.bytes || span.at[equals] != '=')
        return 0;
    size_t quote = skip(span, equals + 1, is_space);
    if (quote == span.bytes || (span.at[quote] != '"' && span.at[quote] != '\''))
        return 0;
    const char *close = memchr(span.at + quote + 1, span.at[quote], span.bytes - quote - 1);
    if (!close || memchr(span.at + quote, '<', (size_t)(close - span.at) - quote))
        return 0;
    size_t value_end = (size_t)(close - span.at);
    *attribute = (struct xml_attribute){.whole = part(span, at, value_end + 1),
                                        .name = part(span, name, end),
                                        .value = part(span, quote + 1, value_end)};
    return value_end + 1;
}

bool xml_next_attribute(struct xml_span *attributes, struct xml_attribute *attribute)
{
    size_t end = read_attribute(*attributes, 0, attribute);
    *attributes = part(*attributes, end, attributes->bytes);
    return end > 0;
}

/* Reads a token that begins with '<'. Returns the offset of its end; 0: it is no valid token. */
static size_t read_tag(struct xml_span document, struct xml_token *token)
{
    struct xml_attribute attribute;
    bool closes = xml_begins(document, "</");
    size_t from = closes ? 2 : 1, name_end = skip(document, from, is_name), at = name_end;
    token->name = part(document, from, name_end);
    if (name_end == from)
        return 0;
    for (size_t next = at; !closes && (next = read_attribute(document, at, &attribute)) > 0;)
        at = next;
    token->attributes = part(document, name_end, at);
    at = skip(document, at, is_space);
    token->kind = closes ? XML_CLOSE : XML_OPEN;
    if (!closes && at < document.bytes && document.at[at] == '/') {
        token->kind = XML_EMPTY;
        at++;
    }
    return at < document.bytes && document.at[at] == '>' ? at + 1 : 0;
}

/* Returns the offset of the end of a section that ends with `text`; 0: it has no end. */
static size_t section_end(struct xml_span document, const char *text)
{
    const char *end = memmem(document.at, document.bytes, text, strlen(text));
    return end ? (size_t)(end - document.at) + strlen(text) : 0;
}

struct xml_token xml_next(struct xml_span *document)
{
    const struct xml_span none = {"", 0};
    struct xml_token token = {.kind = XML_END, .whole = none, .name = none, .attributes = none};
    size_t end = 0;
    if (document->bytes == 0)
        return token;
    if (document->at[0] != '<') {
        const char *tag = memchr(document->at, '<', document->bytes);
        token.kind = XML_TEXT;
        end = tag ? (size_t)(tag - document->at) : document->bytes;
    } else if (xml_begins(*document, "<!--") || xml_begins(*document, "<?") ||
               xml_begins(*document, "<![CDATA[")) {
        token.kind = XML_OTHER;
        end = section_end(*document, document->at[1] == '?'   ? "?>"
                                     : document->at[2] == '-' ? "-->"
                                                              : "]]>");
    } else if (!xml_begins(*document, "<!")) {
        end = read_tag(*document, &token);
    }
    if (end == 0)
        token.kind = XML_BROKEN;
    token.whole = part(*document, 0, end);
    *document = part(*document, end, document->bytes);
    return token;
}
