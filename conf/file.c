/* file.c - reads the configuration file and its conf.d folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/clock.h"
#include "conf/content.h"
#include "conf/limits.h"
#include "conf/mask.h"
#include "conf/options.h"
#include "conf/text.h"

#define BLANKS "\t\v\f\r "

/* The state of one call of options_load. */
struct loading {
    struct options *options;
    FILE *paths;
    struct errors *errors;
    double pipe_until_s; /* clock_now_s: end of the wait for data in pipes */
};

/* ---- lines ---------------------------------------------------------------------------------- */

/* Cuts blanks at the end of text[0..length) and returns the new length. */
static size_t trim(const char *text, size_t length)
{
    while (length > 0 && strchr(BLANKS, text[length - 1]))
        length--;
    return length;
}

/* Returns the length of a line without its comment, which begins with a ";" after a blank. */
static size_t uncommented_bytes(const char *line)
{
    for (const char *at = strchr(line, ';'); at; at = strchr(at + 1, ';'))
        if (at > line && strchr(BLANKS, at[-1]))
            return (size_t)(at - line);
    return strlen(line);
}

static bool take_section(char *line, struct error *error)
{
    char *end = strchr(line, ']');
    if (!end)
        return error_refuse(error, "the section has no \"]\"");
    *end = '\0';
    return !line[1] || strcmp(line + 1, "gpuimgd") == 0 ||
           error_refuse(error,
                        "section [%.100s] is unknown; put options into no section or into "
                        "[gpuimgd]",
                        line + 1);
}

static bool take_option(struct options *options, char *line, struct error *error)
{
    char shown[OPTION_SHOWN_BYTES];
    size_t end = strcspn(line, "=:");
    if (!line[end] || end == 0)
        return error_refuse(error, "the line must be \"name = value\"");
    char *value = line + end + 1 + strspn(line + end + 1, BLANKS);
    line[trim(line, end)] = '\0';
    mask_copy(shown, sizeof shown, value);
    if (*value == '"' || *value == '\'')
        return error_refuse(error, "option %.100s is %s; remove the quotes", line, shown);
    if (strstr(value, " #"))
        return error_refuse(error,
                            "option %.60s is \"%s\"; a comment after a value must begin "
                            "with \" ;\"",
                            line, shown);
    return options_set(options, line, value, error);
}

/* Takes one line. *continues: the last line had an option, which an indented line would continue.
 */
static bool take_line(struct options *options, char *line, size_t length, bool *continues,
                      struct error *error)
{
    if (memchr(line, '\0', length))
        return error_refuse(error, "the line has a NUL byte; is this a text file in UTF-8?");
    line[trim(line, length)] = '\0';
    size_t indent = strspn(line, BLANKS);
    line += indent;
    if (!*line || *line == '#' || *line == ';')
        return true;
    if (indent > 0 && *continues)
        return error_refuse(error, "the line is indented, as if it continued the line above it; an "
                                   "option and its value are in one line");
    *continues = *line != '[';
    line[trim(line, uncommented_bytes(line))] = '\0';
    return *line == '[' ? take_section(line, error) : take_option(options, line, error);
}

/* Takes all lines of a file, from `line` to `end`. The byte at `end` may be written: it becomes a
 * NUL. */
static void take_lines(struct loading *loading, const char *path, char *line, const char *end)
{
    char shown[CONF_PATH_SHOWN_BYTES];
    bool continues = false;
    text_escape_end(shown, sizeof shown, path, strlen(path));
    for (int number = 1; line < end; number++) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((next ? next : end) - line);
        struct error fault = {0};
        if (!take_line(loading->options, line, length, &continues, &fault))
            errors_addf(loading->errors, "%s line %d: %s", shown, number, fault.text);
        line += length + 1;
    }
}

static void take_file(struct loading *loading, const char *path)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    struct error error = {0};
    size_t length = 0;
    uint32_t before = loading->errors->count;
    char *bytes = content_read(path, loading->pipe_until_s, &length, &error);
    if (!bytes) {
        errors_add(loading->errors, &error);
        return;
    }
    bool marked = length >= 3 && memcmp(bytes, byte_order_mark, 3) == 0;
    take_lines(loading, path, bytes + (marked ? 3 : 0), bytes + length);
    if (loading->paths && loading->errors->count == before)
        fprintf(loading->paths, "%s\n", path);
    free(bytes);
}

/* ---- files ---------------------------------------------------------------------------------- */

static int is_conf(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 5 &&
           strcmp(entry->d_name + length - 5, ".conf") == 0;
}

static void take_folder(struct loading *loading, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_conf, alphasort);
    if (count < 0 && errno != ENOENT) /* conf.d is optional */
        errors_addf(loading->errors, "cannot read %s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) >= 0)
            take_file(loading, path);
        else /* uncovered: memory */
            errors_addf(loading->errors, "out of memory for %s", folder);
        free(path);
        free(entries[i]);
    }
    free(entries);
}

bool options_load(struct options *options, const char *file, double pipe_s, FILE *paths,
                  struct errors *errors)
{
    struct loading loading = {options, paths, errors, clock_now_s() + pipe_s};
    uint32_t before = errors->count;
    const char *slash = strrchr(file, '/');
    char *folder = NULL;
    take_file(&loading, file);
    if (asprintf(&folder, "%.*sconf.d", slash ? (int)(slash - file + 1) : 0, file) >= 0)
        take_folder(&loading, folder);
    else /* uncovered: memory */
        errors_addf(errors, "out of memory for %s", file);
    free(folder);
    return errors->count == before;
}

bool options_load_default(struct options *options, const char *file, double pipe_s, FILE *paths,
                          struct errors *errors)
{
    struct stat info;
    bool missing = lstat(file, &info) != 0 && errno == ENOENT;
    return missing || options_load(options, file, pipe_s, paths, errors);
}
