#include "queue/ctl/submit/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/format.h"

static bool append(char *to, size_t size, const char *text, size_t length)
{
    size_t at = strlen(to);
    if (at + length + 1 > size)
        return false;
    memcpy(to + at, text, length);
    to[at + length] = '\0';
    return true;
}

bool pattern_expand(const char *pattern, const struct source_file *file, uint64_t number,
                    const char *format, char *to, size_t size)
{
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    const char *suffix = source_suffix(name), *ending = suffix;
    size_t stem = strlen(name) - strlen(suffix) - (*suffix ? 1 : 0);
    char digits[24];
    bool ok = true;
    if (format)
        ending = format_by_name(format) ? format_by_name(format)->suffixes[0] : format;
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    *to = '\0';
    for (; *pattern && ok; pattern++) {
        if (*pattern == '.' && pattern[1] == '%' && pattern[2] == 'e' && !*ending)
            pattern += 2; /* an image without a suffix gives a result without one */
        else if (*pattern != '%')
            ok = append(to, size, pattern, 1);
        else if (*++pattern == 'n')
            ok = append(to, size, name, stem);
        else if (*pattern == 'e')
            ok = append(to, size, ending, strlen(ending));
        else if (*pattern == 'p')
            ok = append(to, size, file->within, strlen(file->within));
        else if (*pattern == 'i')
            ok = append(to, size, digits, strlen(digits));
        else
            ok = *pattern == '%' && append(to, size, "%", 1);
    }
    return ok;
}
