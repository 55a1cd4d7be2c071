#include "tests/tools/text_file.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned char *text_file_bytes(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    unsigned char *bytes = NULL;
    size_t capacity = 0, used = 0, got = 0;
    if (!file)
        return NULL;
    do {
        used += got;
        if (capacity - used < 2) {
            capacity = capacity ? capacity * 2 : 65536;
            unsigned char *more = realloc(bytes, capacity);
            if (!more)
                abort();
            bytes = more;
        }
        got = fread(bytes + used, 1, capacity - used - 1, file);
    } while (got > 0);
    fclose(file);
    bytes[used] = '\0';
    *length = used;
    return bytes;
}

char *text_file_read(const char *path)
{
    size_t length;
    unsigned char *bytes = text_file_bytes(path, &length);
    if (!bytes && !(bytes = calloc(1, 1)))
        abort();
    return (char *)bytes;
}

bool text_file_write(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    bool ok = fwrite(bytes, 1, length, file) == length;
    return fclose(file) == 0 && ok;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (kind == FTW_DNR || kind == FTW_DP)
        chmod(path, 0700);
    remove(path);
    return 0;
}

void text_file_remove_folder(const char *path)
{
    if (path[0])
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *count_part;
static size_t count_found;

static int count_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (kind != FTW_D && kind != FTW_DNR && strstr(path, count_part))
        count_found++;
    return 0;
}

size_t text_file_count(const char *folder, const char *part)
{
    count_part = part;
    count_found = 0;
    nftw(folder, count_one, 16, FTW_PHYS);
    return count_found;
}
