/* file.c - reads the configuration file and its conf.d folder with inih. */
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "conf/options.h"
#include "conf/text.h"

struct reading {
    struct options *options;
    struct error *error;
    char last[64]; /* option of the line before */
};

/* inih's handler: 0 stops with this line's number. */
static int handle_key(void *user, const char *section, const char *name, const char *value)
{
    struct reading *reading = user;
    if (*section && strcmp(section, "gpuimgd") != 0)
        return error_refuse(reading->error, "section [%s] is unknown; put options into no section "
                            "or into [gpuimgd]", section);
    if (!value) /* uncovered: promise */
        return error_refuse(reading->error, "option %s has no value", name);
    /* inih takes an indented line for a continuation of the value above and calls again with the
     * same name. */
    if (strcmp(name, reading->last) == 0)
        return error_refuse(reading->error,
                            "option %s is set twice, or the line after it is indented", name);
    if (*value == '"' || *value == '\'')
        return error_refuse(reading->error, "option %s is %s; remove the quotes", name, value);
    if (strstr(value, " #"))
        return error_refuse(reading->error, "option %s is \"%s\"; a comment after a value must "
                            "begin with \" ;\"", name, value);
    text_copy(reading->last, sizeof reading->last, name);
    return options_set(reading->options, name, value, reading->error);
}

static bool load_file(struct options *options, const char *path, FILE *paths, struct error *error)
{
    struct error inner = {0};
    struct reading reading = {.options = options, .error = &inner};
    int line = ini_parse(path, handle_key, &reading);
    if (line == 0 && paths)
        fprintf(paths, "%s\n", path);
    if (line == 0)
        return true;
    if (line == -1)
        return error_refuse(error, "cannot open %s: %s", path, strerror(errno));
    if (line < 0) /* uncovered: memory */
        return error_refuse(error, "out of memory for %s", path);
    return error_refuse(error, "%s line %d: %s", path, line,
                        inner.status ? inner.text : "the line must be \"name = value\"");
}

static int is_conf(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 5 &&
           strcmp(entry->d_name + length - 5, ".conf") == 0;
}

bool options_load(struct options *options, const char *file, FILE *paths, struct error *error)
{
    if (!load_file(options, file, paths, error))
        return false;
    const char *slash = strrchr(file, '/');
    char *folder = NULL;
    if (asprintf(&folder, "%.*sconf.d", slash ? (int)(slash - file + 1) : 0, file) < 0)
        return error_refuse(error, "out of memory for %s", file); /* uncovered: memory */
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_conf, alphasort);
    bool ok = count >= 0 || errno == ENOENT || /* conf.d is optional */ /* uncovered: promise */
              error_refuse(error, "cannot read %s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (ok && asprintf(&path, "%s/%s", folder, entries[i]->d_name) >= 0)
            ok = load_file(options, path, paths, error);
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(folder);
    return ok;
}
