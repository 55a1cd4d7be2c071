/*
 * replay.c - runs a target without libFuzzer.
 *
 *     replay_NAME [FILE | FOLDER]...     runs its seeds, then these files: TAP, one test
 *     replay_NAME --write FOLDER         writes the seeds as files, for libFuzzer to start from
 *
 * It prints the name of an input before it runs, so the last name is that of a crash.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fixtures/picture.h"
#include "tests/fuzz/fuzz.h"

static size_t seed_count, file_count;

/* Copies the bytes to a separate block, so that a sanitizer detects reads after the end. */
static void run(const char *name, const void *bytes, size_t length)
{
    struct picture_file whole = {(uint8_t *)bytes, length};
    struct picture_file copy = picture_cut(&whole, length);
    printf("# %s\n", name);
    fflush(stdout);
    LLVMFuzzerTestOneInput(copy.bytes, copy.length);
    picture_free(&copy);
}

static void run_seed(void *context, const char *name, const void *bytes, size_t length)
{
    run(name, bytes, length);
    seed_count++;
}

static void write_seed(void *context, const char *name, const void *bytes, size_t length)
{
    char path[4096];
    struct picture_file file = {(uint8_t *)bytes, length};
    snprintf(path, sizeof path, "%s/%s", (const char *)context, name);
    picture_save(&file, path);
    seed_count++;
}

static void run_file(const char *path)
{
    struct picture_file file = picture_load(path);
    run(path, file.bytes, file.length);
    picture_free(&file);
    file_count++;
}

/* Runs the files of a folder in the order of their names; a missing folder has none. */
static void run_place(const char *path)
{
    struct stat info;
    struct dirent **entries = NULL;
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        run_file(path);
        return;
    }
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            run_file(name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        fuzz_seeds(write_seed, argv[2]);
        return seed_count > 0 ? 0 : 1;
    }
    fuzz_seeds(run_seed, NULL);
    for (int i = 1; i < argc; i++)
        run_place(argv[i]);
    printf("1..1\n%sok 1 - %zu seeds and %zu files\n", seed_count > 0 ? "" : "not ", seed_count,
           file_count);
    return seed_count > 0 ? 0 : 1;
}
