/*
 * xml.h - splits an XML document into tokens, for XMP packets.
 *
 * It is not a full parser. A document type is refused, because it may define entities, and so is
 * text that cannot be split into tokens (XML_BROKEN). Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct xml_span {
    const char *at;
    size_t bytes;
};

enum xml_kind {
    XML_END,    /* the end of the document */
    XML_BROKEN, /* no token, or one that is refused */
    XML_TEXT,   /* text in which entities are not replaced */
    XML_OTHER,  /* a comment, a processing instruction or a CDATA section */
    XML_OPEN,   /* <name attribute="value"> */
    XML_EMPTY,  /* <name/> */
    XML_CLOSE   /* </name> */
};

struct xml_token {
    enum xml_kind kind;
    struct xml_span whole;      /* all characters of the token */
    struct xml_span name;       /* of an element, with its prefix: "dc:creator" */
    struct xml_span attributes; /* of an element, for xml_next_attribute */
};

/* Returns the next token and shortens *document to what follows it. */
struct xml_token xml_next(struct xml_span *document);

struct xml_attribute {
    struct xml_span whole; /* with the white space before it */
    struct xml_span name, value;
};
/* Sets *attribute to the next attribute and shortens *attributes (of a token) to what follows it.
 * Returns false at the end. */
bool xml_next_attribute(struct xml_span *attributes, struct xml_attribute *attribute);

bool xml_is(struct xml_span span, const char *text);
bool xml_begins(struct xml_span span, const char *text);
/* The parts of a name before and after its colon. Without a colon, the prefix is empty. */
struct xml_span xml_prefix(struct xml_span name);
struct xml_span xml_local(struct xml_span name);
