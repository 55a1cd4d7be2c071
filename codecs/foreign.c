/*
 * foreign.c - recognizes formats that gpuimgd does not read, to name them in messages.
 *
 * The first bytes of a file decide, as in file(1). A wrong guess only affects a message.
 */
#include <string.h>
#include <strings.h>

#include "codecs/codec_impl.h"

#define TEXT_BYTES 1024

struct signature {
    const char *name;
    size_t at;
    const char *magic;
    size_t bytes;
};
#define MAGIC(name, at, magic) {name, at, magic, sizeof magic - 1}

static const struct signature signatures[] = {
    MAGIC("a sequence of HEVC images", 4, "ftyphev"),
    MAGIC("a HEIF or AVIF image with a compact header (mif3)", 4, "ftypmif3"),
    MAGIC("a Canon raw image", 4, "ftypcrx "),
    MAGIC("a video", 4, "ftyp"),
    MAGIC("a JPEG 2000 image", 0, "\0\0\0\fjP  \r\n\x87\n"),
    MAGIC("a JPEG 2000 image", 0, "\xFF\x4F\xFF\x51"),
    MAGIC("an MNG animation", 0, "\x8AMNG\r\n\x1A\n"),
    MAGIC("a Photoshop image", 0, "8BPS"),
    MAGIC("a Windows icon", 0, "\0\0\1\0"),
    MAGIC("an OpenEXR image", 0, "\x76\x2F\x31\x01"),
    MAGIC("a QOI image", 0, "qoif"),
    MAGIC("a PDF document", 0, "%PDF-"),
    MAGIC("a PostScript document", 0, "%!PS"),
    MAGIC("a NumPy array", 0, "\x93NUMPY"),
    MAGIC("a ZIP archive", 0, "PK\3\4"),
    MAGIC("a gzip archive", 0, "\x1F\x8B\b"),
    MAGIC("a JPEG in base64", 0, "/9j/"),
    MAGIC("a PNG in base64", 0, "iVBORw0KGgo"),
    MAGIC("a data URL", 0, "data:image/"),
};

static bool is_pnm(const uint8_t *bytes, size_t length)
{
    return length >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
           memchr(" \n\r\t", bytes[2], 4) != NULL;
}

static const char *markup_name(const uint8_t *bytes, size_t length)
{
    char text[TEXT_BYTES + 1];
    size_t count = length < TEXT_BYTES ? length : TEXT_BYTES, skipped = 0;
    memcpy(text, bytes, count);
    text[count] = '\0';
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
        skipped = 3;
    const char *begin = text + skipped + strspn(text + skipped, " \t\r\n");
    if (*begin != '<')
        return NULL;
    if (strstr(begin, "<svg") != NULL)
        return "an SVG image";
    if (strncasecmp(begin, "<!doctype html", 14) == 0 || strncasecmp(begin, "<html", 5) == 0)
        return "an HTML page";
    return strncmp(begin, "<?xml", 5) == 0 ? "an XML document" : NULL;
}

const char *codec_foreign_name(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        const struct signature *one = &signatures[i];
        if (codec_has_bytes(bytes, length, one->at, one->magic, one->bytes))
            return one->name;
    }
    if (is_pnm(bytes, length))
        return "a PNM image";
    return markup_name(bytes, length);
}
