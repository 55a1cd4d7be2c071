/*
 * xmp.c - copies XMP packets for outputs.
 *
 * A property is recognized by its namespace, whatever prefix the packet has for it. Prefixes count
 * for the whole packet, wherever they are declared: more is removed then, never less.
 */
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/xml.h"

/* XMP part 2, Google's camera schemas, and the extension that JPEGs have in further segments. */
enum namespace {
    SPACE_NONE,
    SPACE_IMAGES, /* all of its properties are images, sound or depth */
    SPACE_NOTE
};

static const struct {
    const char *uri;
    enum namespace space;
} namespaces[] = {
    {"http://ns.adobe.com/xap/1.0/g/img/", SPACE_IMAGES},
    {"http://ns.google.com/photos/1.0/image/", SPACE_IMAGES},
    {"http://ns.google.com/photos/1.0/depthmap/", SPACE_IMAGES},
    {"http://ns.google.com/photos/1.0/audio/", SPACE_IMAGES},
    {"http://ns.adobe.com/xmp/note/", SPACE_NOTE},
};

#define PREFIXES_MAX 64

struct packet {
    struct xml_span text;
    struct {
        struct xml_span prefix; /* empty: the default namespace */
        enum namespace space;
    } prefixes[PREFIXES_MAX];
    size_t count;
};

/* ---- namespaces ----------------------------------------------------------------------------- */

static enum namespace space_of_uri(struct xml_span uri)
{
    for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++)
        if (xml_is(uri, namespaces[i].uri))
            return namespaces[i].space;
    return SPACE_NONE;
}

/* Records the namespaces of the list that an element declares. false: too many. */
static bool declare(struct packet *packet, struct xml_span attributes)
{
    struct xml_attribute attribute;
    while (xml_next_attribute(&attributes, &attribute)) {
        bool is_default = xml_is(attribute.name, "xmlns");
        enum namespace space = space_of_uri(attribute.value);
        if (space == SPACE_NONE || !(is_default || xml_is(xml_prefix(attribute.name), "xmlns")))
            continue;
        if (packet->count == PREFIXES_MAX)
            return false;
        packet->prefixes[packet->count].prefix =
            is_default ? (struct xml_span){"", 0} : xml_local(attribute.name);
        packet->prefixes[packet->count++].space = space;
    }
    return true;
}

static bool is_in(const struct packet *packet, struct xml_span name, enum namespace space)
{
    struct xml_span prefix = xml_prefix(name);
    for (size_t i = 0; i < packet->count; i++) {
        struct xml_span own = packet->prefixes[i].prefix;
        if (packet->prefixes[i].space == space && own.bytes == prefix.bytes &&
            memcmp(own.at, prefix.at, prefix.bytes) == 0)
            return true;
    }
    return false;
}

/* Finds the namespaces. Returns false if the packet is broken: elements must nest. */
static bool open_packet(struct packet *packet, const uint8_t *bytes, size_t length)
{
    struct xml_token token = {.kind = XML_TEXT};
    size_t depth = 0;
    *packet = (struct packet){.text = {(const char *)bytes, length}};
    for (struct xml_span rest = packet->text; token.kind != XML_END;) {
        token = xml_next(&rest);
        if (token.kind == XML_BROKEN || (token.kind == XML_CLOSE && depth == 0) ||
            !declare(packet, token.attributes))
            return false;
        depth += token.kind == XML_OPEN;
        depth -= token.kind == XML_CLOSE;
    }
    return depth == 0;
}

/* ---- a copy --------------------------------------------------------------------------------- */

/* Counts bytes, and writes them if there is a place for them. */
struct output {
    char *at;
    size_t bytes;
};

static void put(struct output *output, struct xml_span span)
{
    if (output->at && span.bytes > 0)
        memcpy(output->at + output->bytes, span.at, span.bytes);
    output->bytes += span.bytes;
}

/* The name of the main namespace's property is unique. Attributes without a prefix have no
 * namespace. */
static bool is_removed(const struct packet *packet, struct xml_span name, bool is_attribute)
{
    if (is_attribute && xml_prefix(name).bytes == 0)
        return false;
    return xml_is(xml_local(name), "Thumbnails") || is_in(packet, name, SPACE_IMAGES) ||
           is_in(packet, name, SPACE_NOTE);
}

static void put_tag(const struct packet *packet, struct output *output,
                    const struct xml_token *token)
{
    struct xml_span rest = token->attributes, end = token->whole;
    struct xml_attribute attribute;
    const char *attributes_end = token->attributes.at + token->attributes.bytes;
    put(output, (struct xml_span){end.at, (size_t)(token->attributes.at - end.at)});
    while (xml_next_attribute(&rest, &attribute))
        if (!is_removed(packet, attribute.name, true))
            put(output, attribute.whole);
    put(output, (struct xml_span){attributes_end,
                                  (size_t)(end.at + end.bytes - attributes_end)});
}

static void put_packet(const struct packet *packet, struct output *output)
{
    struct xml_span rest = packet->text;
    struct xml_token token;
    size_t removed = 0; /* depth in an element that is removed */
    while ((token = xml_next(&rest)).kind != XML_END) {
        bool is_tag = token.kind == XML_OPEN || token.kind == XML_EMPTY;
        if (removed > 0 || (is_tag && is_removed(packet, token.name, false))) {
            removed += token.kind == XML_OPEN;
            removed -= token.kind == XML_CLOSE;
        } else if (is_tag) {
            put_tag(packet, output, &token);
        } else {
            put(output, token.whole);
        }
    }
}

bool xmp_copy(const uint8_t *packet, size_t bytes, uint8_t **to, size_t *to_bytes)
{
    struct packet from;
    struct output output = {NULL, 0};
    if (bytes > XMP_SOURCE_BYTES_MAX || !open_packet(&from, packet, bytes))
        return true;
    put_packet(&from, &output);
    if (output.bytes == 0 || output.bytes > XMP_BYTES_MAX)
        return true;
    *to = malloc(output.bytes);
    if (!*to)
        return false;
    *to_bytes = output.bytes;
    output = (struct output){(char *)*to, 0};
    put_packet(&from, &output);
    return true;
}
