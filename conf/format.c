#include "conf/format.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conf/text.h"

const struct format formats[FORMAT_COUNT] = {
#define FORMAT(id, ...) {.name = #id, __VA_ARGS__},
#include "conf/formats.def"
};

#define INTEGER   PARAMETER_IS_INTEGER, {NULL}
#define EITHER                                                                                     \
    PARAMETER_IS_EITHER,                                                                           \
    {                                                                                              \
        NULL                                                                                       \
    }
#define QUALITY                                                                                    \
    PARAMETER_IS_QUALITY,                                                                          \
    {                                                                                              \
        NULL                                                                                       \
    }
#define BOOL      PARAMETER_IS_BOOL, {NULL}
#define WORD(...) PARAMETER_IS_WORD, {__VA_ARGS__}

const struct parameter_row encoder_parameters[PARAMETER_COUNT] = {
#define PARAMETER(name, kind, min, max, standard, help) {#name, kind, min, max, standard, help},
#include "conf/formats.def"
};

const struct encoder_settings encoder_defaults = {
#define PARAMETER(name, kind, min, max, standard, help) .name = standard,
#include "conf/formats.def"
};

static const size_t setting_offsets[PARAMETER_COUNT] = {
#define PARAMETER(name, ...) offsetof(struct encoder_settings, name),
#include "conf/formats.def"
};

static const struct format *find(const char *suffix, int (*compare)(const char *, const char *))
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        for (const char *const *one = formats[i].suffixes; *one; one++)
            if (compare(*one, suffix) == 0)
                return &formats[i];
    return NULL;
}

static const struct format *find_read(const char *suffix)
{
    const struct format *format = find(suffix, strcasecmp);
    for (int i = 0; i < FORMAT_COUNT && !format; i++)
        if (formats[i].also_reads && strcasecmp(formats[i].also_reads, suffix) == 0)
            format = &formats[i];
    return format && format->reads ? format : NULL;
}

static const struct format *if_written(const struct format *format)
{
    return format && !format->becomes ? format : NULL;
}

const struct format *format_by_name(const char *name)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(formats[i].name, name) == 0)
            return if_written(&formats[i]);
    return if_written(find(name, strcmp));
}

const struct format *format_by_suffix(const char *suffix)
{
    return if_written(find(suffix, strcasecmp));
}

static const char *dot_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strrchr(slash ? slash : path, '.');
}

const struct format *format_of_path(const char *path)
{
    const char *dot = dot_of(path);
    return dot ? format_by_suffix(dot + 1) : NULL;
}

bool format_reads_suffix(const char *suffix)
{
    return find_read(suffix) != NULL;
}

const struct format *format_to_read(const char *path)
{
    const char *dot = dot_of(path);
    return dot ? find_read(dot + 1) : NULL;
}

bool format_reads_path(const char *path)
{
    return format_to_read(path) != NULL;
}

const struct format *format_of_output(const struct format *input, bool alpha)
{
    const struct format *format = input->becomes ? format_by_name(input->becomes) : input;
    return alpha && input->becomes && !format->alpha ? &formats[FORMAT_png] : format;
}

const char *format_output_suffix(const char *suffix)
{
    const struct format *format = find_read(suffix);
    return format && !format_by_suffix(suffix) ? format_of_output(format, false)->suffixes[0]
                                               : suffix;
}

const struct format *format_recompressed(const struct format *format)
{
    const struct format *jpeg = &formats[FORMAT_jpeg], *jxl = &formats[FORMAT_jxl];
    return format == jpeg ? jxl : format == jxl ? jpeg : NULL;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyz"

static bool is_listed(const char *suffix, const char *const *list)
{
    while (*list && strcmp(*list, suffix) != 0)
        list++;
    return *list != NULL;
}

const char *format_wrong_suffix(const char *path, bool of_url, const char **near)
{
    static const char *const foreign[] = {"ico", "jp2", "mp4", "pbm", "pdf", "pgm",
                                          "pnm", "ppm", "psd", "svg", "tga", NULL};
    static const char *const copies[] = {"bak",  "copy", "edit", "full", "half",
                                         "min",  "new",  "old",  "orig", "part",
                                         "prev", "temp", "tmp",  "web",  NULL};
    const char *words[FORMAT_SUFFIXES_MAX], *dot = dot_of(path);
    char suffix[8];
    size_t count = 0, length = 0;
    *near = NULL;
    if (!dot || format_by_suffix(dot + 1) || strlen(dot + 1) >= sizeof suffix)
        return NULL;
    for (; dot[1 + length]; length++)
        suffix[length] = (char)tolower((unsigned char)dot[1 + length]);
    suffix[length] = '\0';
    if (is_listed(suffix, foreign) || format_reads_suffix(suffix))
        return dot;
    if (length < 3 || suffix[strspn(suffix, LETTERS)] || is_listed(suffix, copies))
        return NULL;
    for (const struct format *format = formats; format < formats + FORMAT_COUNT; format++)
        for (const char *const *word = format->suffixes; *word && !format->becomes; word++)
            words[count++] = *word;
    *near = text_nearest(suffix, words, count);
    return *near || (length <= 4 && !of_url) ? dot : NULL;
}

const char *format_title(const struct format *format)
{
    return strchr(format->noun, ' ') + 1;
}

const char *format_part(const struct format *format)
{
    return format->part ? format->part : "frame";
}

int *encoder_setting(struct encoder_settings *settings, enum encoder_parameter parameter)
{
    return (int *)((char *)settings + setting_offsets[parameter]);
}

const char *parameter_text(enum encoder_parameter parameter, int value,
                           char text[PARAMETER_TEXT_BYTES])
{
    const struct parameter_row *row = &encoder_parameters[parameter];
    if (row->kind <= PARAMETER_IS_QUALITY)
        snprintf(text, PARAMETER_TEXT_BYTES, "%d", value);
    else
        snprintf(text, PARAMETER_TEXT_BYTES, "%s",
                 row->kind == PARAMETER_IS_WORD ? row->words[value] : value ? "true" : "false");
    return text;
}

int format_default(const struct format *format, enum encoder_parameter parameter)
{
    struct encoder_settings own = format->defaults;
    int value = *encoder_setting(&own, parameter);
    return value ? value : encoder_parameters[parameter].standard;
}

const char *format_list(enum format_field field, unsigned taking, const char *item,
                        const char *last, char text[FORMAT_LIST_BYTES])
{
    const char *words[FORMAT_SUFFIXES_MAX];
    size_t count = 0, used = 0;
    for (const struct format *format = formats; format < formats + FORMAT_COUNT; format++) {
        const char *noun = field == FORMAT_TITLES ? format_title(format) : format->noun;
        const char *const one[] = {field == FORMAT_NAMES ? format->name : noun, NULL};
        if (taking == FORMATS_READ ? format->reads != NULL
                                   : !format->becomes && (format->parameters & taking) == taking)
            for (const char *const *word = field == FORMAT_SUFFIXES ? format->suffixes : one; *word;
                 word++)
                words[count++] = *word;
        if (field == FORMAT_SUFFIXES && taking == FORMATS_READ && format->also_reads)
            words[count++] = format->also_reads;
    }
    *text = '\0';
    for (size_t i = 0; i < count && used < FORMAT_LIST_BYTES; i++) {
        used += (size_t)snprintf(text + used, FORMAT_LIST_BYTES - used, "%s",
                                 i == 0 ? "" : i + 1 == count ? last : ", ");
        if (used < FORMAT_LIST_BYTES)
            used += (size_t)snprintf(text + used, FORMAT_LIST_BYTES - used, item, words[i]);
    }
    return text;
}
