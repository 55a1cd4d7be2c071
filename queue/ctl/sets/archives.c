#include "queue/ctl/sets/archives.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "queue/ctl/submit/source.h"

static void add(struct archive_names *archives, struct ctl *ctl, const char *name)
{
    if (archives->count == archives->room) {
        int room = 2 * archives->room + 64;
        char **names = realloc(archives->names, (size_t)room * sizeof *names);
        if (!names) /* uncovered: memory */
            ctl_out_of_memory(ctl, "the names of archives");
        archives->names = names;
        archives->room = room;
    }
    char *copy = strdup(name);
    if (!copy) /* uncovered: memory */
        ctl_out_of_memory(ctl, "the names of archives");
    archives->names[archives->count++] = copy;
}

/* Adds the files that match, in the order of their names. Returns false if there are none. */
static bool add_matches(struct archive_names *archives, struct ctl *ctl, const char *pattern)
{
    glob_t found;
    int status = glob(pattern, 0, NULL, &found);
    if (status == GLOB_NOSPACE) /* uncovered: memory */
        ctl_out_of_memory(ctl, "the names of archives");
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++)
        add(archives, ctl, found.gl_pathv[i]);
    if (status == 0)
        globfree(&found);
    return status == 0;
}

/* Writes a pattern below a folder, whose own name is no pattern. Returns false if it is too long.
 */
static bool write_below(const char *root, const char *pattern, char path[2 * PATH_MAX])
{
    size_t to = 0;
    for (; *root && to < PATH_MAX; root++) {
        if (strchr("*?[\\", *root))
            path[to++] = '\\';
        path[to++] = *root;
    }
    if (*root || to + strlen(pattern) + 2 > 2 * PATH_MAX)
        return false; /* uncovered: slip */
    path[to++] = '/';
    strcpy(path + to, pattern);
    return true;
}

static void add_all(struct archive_names *archives, struct ctl *ctl, const char *name,
                    const char *root)
{
    char path[2 * PATH_MAX];
    struct stat about;
    bool is_pattern = strpbrk(name, "*?[") && !source_is_url(name) && lstat(name, &about) != 0;
    if (is_pattern && (add_matches(archives, ctl, name) ||
                       (root && *name != '/' && write_below(root, name, path) &&
                        add_matches(archives, ctl, path))))
        return;
    add(archives, ctl, name); /* if it does not exist, reading it reports that */
}

struct archive_names archives_find(struct ctl *ctl, int count, char **operands, const char *root)
{
    struct archive_names archives = {0};
    for (int i = 0; i < ctl->value_count; i++)
        if (strcmp(ctl->values[i].name, "shards") == 0)
            add_all(&archives, ctl, ctl->values[i].value, root);
    for (int i = 0; i < count; i++)
        add_all(&archives, ctl, operands[i], root);
    return archives;
}

void archives_clear(struct archive_names *archives)
{
    for (int i = 0; i < archives->count; i++)
        free(archives->names[i]);
    free(archives->names);
    *archives = (struct archive_names){0};
}
