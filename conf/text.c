#include "conf/text.h"

#include <string.h>

size_t text_utf8_sequence(const unsigned char *text, size_t length)
{
    if (length == 0)
        return 0;
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t count = first >= 0xC2 && first <= 0xDF   ? 2
                   : first >= 0xE0 && first <= 0xEF ? 3
                   : first >= 0xF0 && first <= 0xF4 ? 4
                                                    : 0;
    if (count == 0 || count > length)
        return 0;
    /* The second byte's range shuts out overlong forms, surrogates and what is over U+10FFFF. */
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < count; i++)
        if (text[i] < 0x80 || text[i] > 0xBF)
            return 0;
    return count;
}

void text_make_printable(char *text)
{
    unsigned char *at = (unsigned char *)text;
    size_t left = strlen(text);
    while (left > 0) {
        size_t count = text_utf8_sequence(at, left);
        if (count == 0 || (count == 1 && (*at < 0x20 || *at == 0x7F))) {
            *at = '?';
            count = 1;
        }
        at += count;
        left -= count;
    }
}

bool text_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    bool fits = length < size;
    size_t count = fits ? length : size - 1;
    memcpy(to, from, count);
    to[count] = '\0';
    return fits;
}
