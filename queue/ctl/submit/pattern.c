#include "queue/ctl/submit/pattern.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/format.h"

bool pattern_is_escape(const char *text)
{
    return text[0] == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2]);
}

bool pattern_varies(const char *pattern)
{
    bool is_url = source_is_url(pattern);
    for (const char *at = pattern; (at = strchr(at, '%')); at++)
        if (!is_url || !pattern_is_escape(at))
            return true;
    return false;
}

bool pattern_append(char to[PATH_MAX], const char *text, size_t length)
{
    size_t at = strlen(to);
    if (at + length + 1 > PATH_MAX)
        return false;
    memcpy(to + at, text, length);
    to[at + length] = '\0';
    return true;
}

/* Appends a part of an image's name to a URL, and escapes bytes that a URL must not have. If the
 * image is itself a URL, its name is escaped already. */
static bool append_escaped(char to[PATH_MAX], const struct job_image *image, const char *text,
                           size_t length)
{
    char escape[4];
    bool ok = true;
    for (size_t i = 0; i < length && ok; i++) {
        bool is_plain = isalnum((unsigned char)text[i]) || strchr("-._~/", text[i]) ||
                        (text[i] == '%' && image->file.is_url);
        snprintf(escape, sizeof escape, "%%%02X", (unsigned char)text[i]);
        ok = is_plain ? pattern_append(to, text + i, 1) : pattern_append(to, escape, 3);
    }
    return ok;
}

static bool expand(const char *pattern, const struct job_image *image, const char *format,
                   char to[PATH_MAX])
{
    const char *slash = strrchr(image->file.name, '/');
    const char *name = slash ? slash + 1 : image->file.name;
    const char *suffix = source_suffix(name), *ending = format_output_suffix(suffix);
    size_t stem = strlen(name) - strlen(suffix) - (*suffix ? 1 : 0);
    char digits[24];
    bool ok = true, is_url = source_is_url(pattern);
    if (format)
        ending = format_by_name(format) ? format_by_name(format)->suffixes[0] : format;
    snprintf(digits, sizeof digits, "%" PRIu64, image->number);
    *to = '\0';
    for (; *pattern && ok; pattern++) {
        if (*pattern == '.' && pattern[1] == '%' && pattern[2] == 'e' && !*ending)
            pattern += 2; /* an image without a suffix gives a result without one */
        else if (*pattern != '%' || (is_url && pattern_is_escape(pattern)))
            ok = pattern_append(to, pattern, 1);
        else if (*++pattern == 'n')
            ok = is_url ? append_escaped(to, image, name, stem) : pattern_append(to, name, stem);
        else if (*pattern == 'e')
            ok = pattern_append(to, ending, strlen(ending));
        else if (*pattern == 'p')
            ok = is_url ? append_escaped(to, image, image->file.within, strlen(image->file.within))
                        : pattern_append(to, image->file.within, strlen(image->file.within));
        else if (*pattern == 'i')
            ok = pattern_append(to, digits, strlen(digits));
        else
            ok = *pattern == '%' && pattern_append(to, "%", 1);
    }
    return ok;
}

bool pattern_expand(const char *pattern, const struct job_image *image, const char *format,
                    char to[PATH_MAX], struct error *error)
{
    if (expand(pattern, image, format, to))
        return true;
    return error_fail(error, STATUS_BAD_JOB, "the pattern %s is invalid: its name is too long, or "
                      "a %% is not followed by n, e, p, i or %%", pattern);
}
