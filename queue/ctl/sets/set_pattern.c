#include "queue/ctl/sets/set_pattern.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "queue/ctl/submit/pattern.h"
#include "queue/job/member_name.h"

/* Whether the pattern has one of these letters after a percent sign. */
static bool has_any(const char *pattern, const char *letters)
{
    bool is_url = source_is_url(pattern);
    for (const char *at = pattern; (at = strchr(at, '%')) && at[1]; at += 2)
        if (strchr(letters, at[1]) && !(is_url && pattern_is_escape(at)))
            return true;
    return false;
}

bool set_pattern_names_images(const char *pattern)
{
    return has_any(pattern, "pn");
}

bool set_pattern_has_ending(const char *pattern)
{
    return has_any(pattern, "e");
}

bool set_pattern_names_jobs(const char *pattern)
{
    return has_any(pattern, "pia");
}

/* Appends a name that the daemon must not change. In a URL, bytes that it cannot have are escaped.
 */
static bool append_name(char to[PATH_MAX], const char *text, bool whole, bool in_url, bool escaped)
{
    bool ok = true;
    for (; *text && ok; text++) {
        bool is_plain = !in_url || isalnum((unsigned char)*text) || strchr("-._~", *text) ||
                        (*text == '%' && escaped);
        char escape[8];
        snprintf(escape, sizeof escape, "%%%%%02X", (unsigned char)*text);
        ok = !is_plain                ? pattern_append(to, escape, 4)
             : *text == '%' && !whole ? pattern_append(to, "%%", 2)
                                      : pattern_append(to, text, 1);
    }
    return ok;
}

static bool expand(const char *pattern, bool whole, const struct set_name *name, char to[PATH_MAX])
{
    bool ok = true, is_url = source_is_url(pattern);
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, name->number);
    *to = '\0';
    for (; *pattern && ok; pattern++) {
        if (*pattern == '.' && pattern[1] == '%' && pattern[2] == 'e' && name->ending &&
            !*name->ending)
            pattern += 2; /* an image without a suffix gives a result without one */
        else if (*pattern != '%')
            ok = pattern_append(to, pattern, 1);
        else if (is_url && pattern_is_escape(pattern))
            ok = pattern_append(to, "%%", 2);
        else if (*++pattern == 'i')
            ok = pattern_append(to, digits, strlen(digits));
        else if (*pattern == 'a')
            ok = name->archive && append_name(to, name->archive, whole, is_url, name->is_url);
        else if (*pattern == 'e')
            ok = name->ending && append_name(to, name->ending, whole, is_url, false);
        else if (*pattern == '%')
            ok = pattern_append(to, "%%", whole ? 1 : 2);
        else
            ok = !whole && *pattern && strchr("pn", *pattern) && pattern_append(to, pattern - 1, 2);
    }
    return ok;
}

bool set_pattern_expand(const char *pattern, bool whole, const struct set_name *name,
                        char to[PATH_MAX], struct error *error)
{
    if (expand(pattern, whole, name, to))
        return true;
    return error_fail(error, STATUS_BAD_JOB,
                      "the pattern %.200s is invalid: its name is too long, "
                      "or a %% is not followed by %si%s%s or %%",
                      pattern, whole ? "" : "p, n, ", name->archive ? ", a" : "",
                      name->ending ? ", e" : "");
}

bool set_pattern_name(const char *pattern, const char *stem, bool is_url, uint64_t index,
                      char to[PATH_MAX], struct error *error)
{
    char encoded[PATH_MAX];
    bool encodes = source_is_url(pattern) && !is_url;
    return ((!encodes || member_encode(encoded, sizeof encoded, stem) >= 0) &&
            member_expand(to, PATH_MAX, pattern, encodes ? encoded : stem, index) >= 0) ||
           error_fail(error, STATUS_BAD_JOB, "the name of its output is too long");
}
