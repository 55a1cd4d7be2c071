/*
 * xml.h - splits an XML document into tokens, for XMP packets.
 *
 * It checks only what it needs: a document type, which may define entities, and text that is not
 * a token end the document. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct xml_span {
    const char *at;
    size_t bytes;
};

enum xml_kind {
    XML_END,    /* of the document */
    XML_BROKEN, /* not a token, or not supported */
    XML_TEXT,   /* with its entities as they are */
    XML_OTHER,  /* a comment, an instruction or a CDATA section */
    XML_OPEN,   /* <name attribute="value"> */
    XML_EMPTY,  /* <name/> */
    XML_CLOSE   /* </name> */
};

struct xml_token {
    enum xml_kind kind;
    struct xml_span whole, name; /* name: of an element, with its prefix */
    struct xml_span attributes;  /* for xml_attribute */
};

/* Takes the next token off the document. */
struct xml_token xml_next(struct xml_span *document);

struct xml_attribute {
    struct xml_span whole; /* with the space before it */
    struct xml_span name, value;
};
/* Takes the next attribute off token->attributes. Returns false at their end. */
bool xml_next_attribute(struct xml_span *attributes, struct xml_attribute *attribute);

bool xml_is(struct xml_span span, const char *text);
bool xml_begins(struct xml_span span, const char *text);
/* Splits a name at its colon. Without one, the prefix is empty. */
struct xml_span xml_prefix(struct xml_span name);
struct xml_span xml_local(struct xml_span name);
