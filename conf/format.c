#include "conf/format.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const struct format formats[FORMAT_COUNT] = {
#define FORMAT(id, ...) {.name = #id, __VA_ARGS__},
#include "conf/formats.def"
};

#define INTEGER   PARAMETER_IS_INTEGER, {NULL}
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

const struct format *format_by_name(const char *name)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return find(name, strcmp);
}

const struct format *format_by_suffix(const char *suffix)
{
    return find(suffix, strcasecmp);
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

const char *format_foreign_suffix(const char *path)
{
    static const char *const foreign[] = {".bmp", ".gif", ".heic", ".heif", ".ico", ".jp2",
                                          ".jxl", ".pbm", ".pdf",  ".pgm",  ".pnm", ".ppm",
                                          ".psd", ".svg", ".tga",  ".tif",  ".tiff"};
    const char *dot = dot_of(path);
    if (!dot || format_by_suffix(dot + 1))
        return NULL;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strcasecmp(dot, foreign[i]) == 0)
            return dot;
    return NULL;
}

const char *format_title(const struct format *format)
{
    return strchr(format->noun, ' ') + 1;
}

int *encoder_setting(struct encoder_settings *settings, enum encoder_parameter parameter)
{
    return (int *)((char *)settings + setting_offsets[parameter]);
}

const char *parameter_text(enum encoder_parameter parameter, int value,
                           char text[PARAMETER_TEXT_BYTES])
{
    const struct parameter_row *row = &encoder_parameters[parameter];
    if (row->kind == PARAMETER_IS_INTEGER)
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
    const char *words[FORMAT_COUNT * (sizeof formats->suffixes / sizeof *formats->suffixes)];
    size_t count = 0, used = 0;
    for (const struct format *format = formats; format < formats + FORMAT_COUNT; format++) {
        const char *noun = field == FORMAT_TITLES ? format_title(format) : format->noun;
        const char *const one[] = {field == FORMAT_NAMES ? format->name : noun, NULL};
        if ((format->parameters & taking) == taking)
            for (const char *const *word = field == FORMAT_SUFFIXES ? format->suffixes : one; *word;
                 word++)
                words[count++] = *word;
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
