/*
 * xmp.c - copies XMP packets for outputs without thumbnails, and makes packets with a copyright
 * notice.
 *
 * An XMP packet is an XML document with properties of an image. A property is recognized by its
 * namespace, not by its prefix. A prefix is valid in the whole packet, wherever it is declared: so
 * too much may be removed, but never too little.
 */
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"
#include "codecs/xml.h"

/* The namespaces that matter here: of XMP part 2, of Google's cameras, and of the reference to an
 * extended packet, which is in further segments of a JPEG. */
enum namespace {
    SPACE_NONE,
    SPACE_IMAGES, /* all of its properties are images, sound, depth or gain maps, or describe
                     these */
    SPACE_NOTE,   /* the reference to an extended packet */
    SPACE_DC,     /* Dublin Core */
    SPACE_PHOTOSHOP,
    SPACE_RIGHTS,
    SPACE_RDF
};

#define URI_DC        "http://purl.org/dc/elements/1.1/"
#define URI_PHOTOSHOP "http://ns.adobe.com/photoshop/1.0/"
#define URI_RIGHTS    "http://ns.adobe.com/xap/1.0/rights/"
#define URI_RDF       "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

static const struct {
    const char *uri;
    enum namespace space;
} namespaces[] = {
    {"http://ns.adobe.com/xap/1.0/g/img/", SPACE_IMAGES},
    {"http://ns.adobe.com/hdr-gain-map/1.0/", SPACE_IMAGES},
    {"http://ns.apple.com/HDRGainMap/1.0/", SPACE_IMAGES},
    {"http://ns.google.com/photos/1.0/panorama/", SPACE_NONE}, /* only numbers */
    {"http://ns.adobe.com/xmp/note/", SPACE_NOTE},
    {URI_DC, SPACE_DC},
    {URI_PHOTOSHOP, SPACE_PHOTOSHOP},
    {URI_RIGHTS, SPACE_RIGHTS},
    {URI_RDF, SPACE_RDF},
};
/* GImage, GDepth, GAudio, GCamera, Device and others. */
#define URIS_OF_CAMERAS "http://ns.google.com/photos/"

/* Limits of the prefixes of a packet; a packet that exceeds them is not read. They limit the time
 * that a packet takes, because each name is compared with all prefixes. Photographs have a dozen
 * prefixes of a few characters. */
enum { PREFIXES_MAX = 32, PREFIX_BYTES_MAX = 64 };

struct packet {
    struct xml_span text;
    struct {
        struct xml_span name; /* empty: the default namespace */
        unsigned spaces;      /* its namespaces, as bits; it may be declared several times */
    } prefixes[PREFIXES_MAX];
    size_t count; /* number of prefixes */
};

/* ---- namespaces ----------------------------------------------------------------------------- */

static enum namespace space_of_uri(struct xml_span uri)
{
    for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++)
        if (xml_is(uri, namespaces[i].uri))
            return namespaces[i].space;
    return xml_begins(uri, URIS_OF_CAMERAS) ? SPACE_IMAGES : SPACE_NONE;
}

/* Returns the index of the prefix; packet->count: it has no namespace of the table. */
static size_t find_prefix(const struct packet *packet, struct xml_span name)
{
    size_t i = 0;
    while (i < packet->count && (packet->prefixes[i].name.bytes != name.bytes ||
                                 memcmp(packet->prefixes[i].name.at, name.at, name.bytes) != 0))
        i++;
    return i;
}

/* The namespaces of a name, as bits. */
static unsigned spaces_of(const struct packet *packet, struct xml_span name)
{
    size_t i = find_prefix(packet, xml_prefix(name));
    return i < packet->count ? packet->prefixes[i].spaces : 0;
}

static bool is_in(unsigned spaces, enum namespace space)
{
    return (spaces & 1u << space) != 0;
}

/* Records the prefixes that an element declares for namespaces of the table, and adds its
 * attributes to *parts. false: there are too many, or a namespace has an entity like "&#97;", with
 * which it may be one of the table. */
static bool declare(struct packet *packet, struct xml_span attributes, size_t *parts)
{
    struct xml_attribute attribute;
    while (xml_next_attribute(&attributes, &attribute)) {
        bool is_default = xml_is(attribute.name, "xmlns");
        if (++*parts > XMP_PARTS_MAX)
            return false;
        if (!is_default && !xml_is(xml_prefix(attribute.name), "xmlns"))
            continue;
        if (memchr(attribute.value.at, '&', attribute.value.bytes))
            return false;
        enum namespace space = space_of_uri(attribute.value);
        if (space == SPACE_NONE)
            continue;
        struct xml_span name = is_default ? (struct xml_span){"", 0} : xml_local(attribute.name);
        size_t i = find_prefix(packet, name);
        if (i == PREFIXES_MAX || name.bytes > PREFIX_BYTES_MAX)
            return false;
        packet->count += i == packet->count;
        packet->prefixes[i].name = name;
        packet->prefixes[i].spaces |= 1u << space;
    }
    return true;
}

/* Finds the prefixes. Returns false if the packet is broken (elements must be nested), or if it has
 * too many parts. */
static bool open_packet(struct packet *packet, const uint8_t *bytes, size_t length)
{
    struct xml_token token = {.kind = XML_TEXT};
    size_t depth = 0, parts = 0;
    *packet = (struct packet){.text = {(const char *)bytes, length}};
    for (struct xml_span rest = packet->text; token.kind != XML_END;) {
        token = xml_next(&rest);
        if (token.kind == XML_BROKEN || (token.kind == XML_CLOSE && depth == 0) ||
            ++parts > XMP_PARTS_MAX || !declare(packet, token.attributes, &parts))
            return false;
        depth += token.kind == XML_OPEN;
        depth -= token.kind == XML_CLOSE;
    }
    return depth == 0;
}

/* ---- a copy --------------------------------------------------------------------------------- */

/* A text that is written twice: first only to count its bytes, then to memory of that size. */
struct output {
    char *at; /* NULL: only count */
    size_t bytes;
};

static void put(struct output *output, struct xml_span span)
{
    if (output->at && span.bytes > 0)
        memcpy(output->at + output->bytes, span.at, span.bytes);
    output->bytes += span.bytes;
}

/* Whether an element or attribute is not copied: images, and the reference to an extended packet.
 * Of the namespace xmp only "Thumbnails" is, and no other property has this name. Attributes
 * without a prefix have no namespace. */
static bool is_removed(const struct packet *packet, struct xml_span name, bool is_attribute)
{
    if (is_attribute && xml_prefix(name).bytes == 0)
        return false;
    unsigned spaces = spaces_of(packet, name);
    return xml_is(xml_local(name), "Thumbnails") || is_in(spaces, SPACE_IMAGES) ||
           is_in(spaces, SPACE_NOTE);
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
    size_t removed = 0; /* number of open elements in a removed one, with that one */
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

/* ---- a notice ------------------------------------------------------------------------------- */

/* The properties of a copyright notice. Their texts are copied to a new packet, so that nothing
 * else of the input is published. */
static const struct property {
    enum namespace space;
    const char *name;  /* with the prefix that the new packet declares */
    const char *array; /* kind of array whose items are the values; NULL: there is one text */
    unsigned iptc;     /* the dataset with the same meaning in IPTC-IIM 4.2, record 2; 0: none */
} properties[] = {{SPACE_DC, "dc:creator", "Seq", 80},
                  {SPACE_DC, "dc:rights", "Alt", 116},
                  {SPACE_PHOTOSHOP, "photoshop:Credit", NULL, 110},
                  {SPACE_RIGHTS, "xmpRights:UsageTerms", "Alt", 0},
                  {SPACE_RIGHTS, "xmpRights:WebStatement", NULL, 0}};

enum { PROPERTY_COUNT = sizeof properties / sizeof properties[0], VALUES_MAX = 16 };

struct notice {
    struct xml_span values[PROPERTY_COUNT][VALUES_MAX];
    size_t counts[PROPERTY_COUNT];
    bool is_plain; /* the values are plain text (of IPTC); otherwise they are XML */
};

static bool is_blank(struct xml_span text)
{
    while (text.bytes > 0 && memchr(" \t\r\n", text.at[text.bytes - 1], 4))
        text.bytes--;
    return text.bytes == 0;
}

/* Adds a value. "Seq" is a list; of "Alt" (a text in several languages) and of a single text, only
 * the first value counts. */
static void add_value(struct notice *notice, size_t property, struct xml_span value)
{
    const char *array = properties[property].array;
    size_t most = array && strcmp(array, "Seq") == 0 ? VALUES_MAX : 1;
    if (!is_blank(value) && notice->counts[property] < most)
        notice->values[property][notice->counts[property]++] = value;
}

/* Returns the index of the property with this name; PROPERTY_COUNT: it is not part of a notice. */
static size_t find_property(const struct packet *packet, struct xml_span name)
{
    unsigned spaces = spaces_of(packet, name);
    size_t i = spaces == 0 ? PROPERTY_COUNT : 0;
    while (i < PROPERTY_COUNT && !(is_in(spaces, properties[i].space) &&
                                   xml_is(xml_local(name), strchr(properties[i].name, ':') + 1)))
        i++;
    return i;
}

/* Whether an element within a property is a part of its value (an array or an item), and not
 * another property. */
static bool is_item(const struct packet *packet, struct xml_span name)
{
    struct xml_span local = xml_local(name);
    return is_in(spaces_of(packet, name), SPACE_RDF) &&
           (xml_is(local, "Bag") || xml_is(local, "Seq") || xml_is(local, "Alt") ||
            xml_is(local, "li"));
}

static void read_attributes(struct notice *notice, const struct packet *packet,
                            struct xml_span attributes)
{
    struct xml_attribute attribute;
    while (xml_next_attribute(&attributes, &attribute)) {
        size_t named = is_removed(packet, attribute.name, true) ||
                               xml_prefix(attribute.name).bytes == 0
                           ? PROPERTY_COUNT
                           : find_property(packet, attribute.name);
        if (named < PROPERTY_COUNT)
            add_value(notice, named, attribute.value);
    }
}

/* Reads the properties of a notice. A property is an element, or an attribute of a description. */
static void read_xmp(struct notice *notice, const struct packet *packet)
{
    struct xml_span rest = packet->text;
    struct xml_token token;
    size_t property = PROPERTY_COUNT, depth = 0; /* the current property, and its open elements */
    size_t other = 0;                            /* open elements of one that is ignored */
    while ((token = xml_next(&rest)).kind != XML_END) {
        bool is_open = token.kind == XML_OPEN, is_tag = is_open || token.kind == XML_EMPTY;
        if (other > 0 || (is_tag && (is_removed(packet, token.name, false) ||
                                     (depth > 0 && !is_item(packet, token.name))))) {
            other += is_open;
            other -= token.kind == XML_CLOSE;
            continue;
        }
        if (is_tag && depth == 0)
            read_attributes(notice, packet, token.attributes);
        if (is_open && depth == 0)
            property = find_property(packet, token.name);
        if (property == PROPERTY_COUNT)
            continue;
        if (token.kind == XML_TEXT && depth > 0)
            add_value(notice, property, token.whole);
        depth += is_open;
        depth -= token.kind == XML_CLOSE;
        if (depth == 0)
            property = PROPERTY_COUNT;
    }
}

static void put_text(struct output *output, const char *text)
{
    put(output, (struct xml_span){text, strlen(text)});
}

static bool is_utf8(struct xml_span text)
{
    for (size_t i = 0; i < text.bytes;) {
        unsigned char c = (unsigned char)text.at[i++];
        int more = c < 0x80 ? 0 : c >= 0xC2 && c < 0xE0 ? 1 : c >= 0xE0 && c < 0xF0 ? 2
                   : c >= 0xF0 && c < 0xF5 ? 3 : -1;
        if (more < 0 || (size_t)more > text.bytes - i)
            return false;
        for (; more > 0; more--, i++)
            if (((unsigned char)text.at[i] & 0xC0) != 0x80)
                return false;
    }
    return true;
}

/* Writes a text of IPTC as XML. A text that is not UTF-8 is treated as Latin-1. */
static void put_plain(struct output *output, struct xml_span text)
{
    bool utf8 = is_utf8(text);
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.at[i];
        char two[2] = {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F))};
        if (c == '&' || c == '<' || c == '>')
            put_text(output, c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;");
        else if (c >= 0x80 && !utf8)
            put(output, (struct xml_span){two, 2});
        else if (c >= ' ')
            put(output, (struct xml_span){text.at + i, 1});
    }
}

static void put_property(const struct notice *notice, size_t property, struct output *output)
{
    const char *name = properties[property].name, *array = properties[property].array;
    const char *before[] = {"<", name, ">", array ? "<rdf:" : "", array ? array : "",
                            array ? ">" : ""};
    const char *after[] = {array ? "</rdf:" : "", array ? array : "", array ? ">" : "", "</", name,
                           ">"};
    bool is_alt = array && strcmp(array, "Alt") == 0;
    if (notice->counts[property] == 0)
        return;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        put_text(output, before[i]);
    for (size_t i = 0; i < notice->counts[property]; i++) {
        struct xml_span value = notice->values[property][i];
        put_text(output, !array ? "" : is_alt ? "<rdf:li xml:lang=\"x-default\">" : "<rdf:li>");
        if (notice->is_plain)
            put_plain(output, value);
        else
            put(output, value);
        put_text(output, array ? "</rdf:li>" : "");
    }
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
        put_text(output, after[i]);
}

static void put_notice(const struct notice *notice, struct output *output)
{
    put_text(output, "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF "
                     "xmlns:rdf=\"" URI_RDF "\">"
                     "<rdf:Description rdf:about=\"\" xmlns:dc=\"" URI_DC "\" "
                     "xmlns:photoshop=\"" URI_PHOTOSHOP "\" xmlns:xmpRights=\"" URI_RIGHTS "\">");
    for (size_t i = 0; i < PROPERTY_COUNT; i++)
        put_property(notice, i, output);
    put_text(output, "</rdf:Description></rdf:RDF></x:xmpmeta>");
}

/* Writes the notice to new memory, if it has a property and is not too large. false: no memory. */
static bool write_notice(const struct notice *notice, uint8_t **to, size_t *to_bytes)
{
    struct output output = {NULL, 0};
    size_t count = 0;
    for (size_t i = 0; i < PROPERTY_COUNT; i++)
        count += notice->counts[i];
    put_notice(notice, &output);
    if (count == 0 || output.bytes > XMP_BYTES_MAX)
        return true;
    *to = malloc(output.bytes);
    if (!*to)
        return false;
    *to_bytes = output.bytes;
    output = (struct output){(char *)*to, 0};
    put_notice(notice, &output);
    return true;
}

bool xmp_notice(const uint8_t *packet, size_t bytes, uint8_t **to, size_t *to_bytes)
{
    struct packet from;
    struct notice notice = {.is_plain = false};
    if (bytes > XMP_SOURCE_BYTES_MAX || !open_packet(&from, packet, bytes))
        return true;
    read_xmp(&notice, &from);
    return write_notice(&notice, to, to_bytes);
}

/* Reads the datasets of IPTC-IIM 4.2 (section 1.5): each has a marker, the number of a record and
 * of a dataset, a length and a value. A dataset with an extended length ends the search. */
static void read_iptc(struct notice *notice, const uint8_t *bytes, size_t length)
{
    enum { head = 5, marker = 0x1C, record = 2, extended = 0x8000 };
    for (size_t at = 0; length - at >= head && bytes[at] == marker;) {
        size_t count = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
        if (count >= extended || count > length - at - head)
            return;
        for (size_t i = 0; i < PROPERTY_COUNT; i++)
            if (properties[i].iptc != 0 && bytes[at + 1] == record &&
                bytes[at + 2] == properties[i].iptc)
                add_value(notice, i, (struct xml_span){(const char *)bytes + at + head, count});
        at += head + count;
    }
}

bool iptc_notice(const uint8_t *resources, size_t bytes, uint8_t **to, size_t *to_bytes)
{
    enum { head = 6, iptc = 0x0404 };
    struct notice notice = {.is_plain = true};
    for (size_t at = 0; bytes - at > head && memcmp(resources + at, "8BIM", 4) == 0;) {
        const uint8_t *resource = resources + at;
        size_t name = (size_t)resource[head] + 1, size_at = head + name + name % 2;
        if (bytes - at < size_at + 4)
            break;
        size_t count = codec_u32(resource + size_at), data = size_at + 4;
        if (count > bytes - at - data)
            break;
        if (((unsigned)resource[4] << 8 | resource[5]) == iptc)
            read_iptc(&notice, resource + data, count);
        size_t next = data + count + count % 2;
        if (next > bytes - at)
            break;
        at += next;
    }
    return write_notice(&notice, to, to_bytes);
}
