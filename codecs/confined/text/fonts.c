#include "codecs/confined/text/fonts.h"

#ifdef GPUIMGD_TEXT

#include <errno.h>
#include <fcntl.h>
#include <fontconfig/fontconfig.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "codecs/confined/confine.h"

/* ---- files ---------------------------------------------------------------------------------- */

struct file {
    const char *path; /* fontconfig's */
    int descriptor;
    struct stat stat;
};

/* Sorted by path. Read-only after fonts_open. */
static struct file *files;
static size_t file_count;

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static struct file *find_file(const char *path)
{
    const struct file key = {.path = path};
    return file_count > 0 ? bsearch(&key, files, file_count, sizeof *files, compare_paths) : NULL;
}

/* Descriptors that libraries need for other files. */
#define SPARE_DESCRIPTORS 16

static int descriptors_max;

/* Whether the file is open. */
static bool open_file(struct file *file)
{
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->descriptor < 0)
        return false;
    if (file->descriptor < descriptors_max && fstat(file->descriptor, &file->stat) == 0 &&
        S_ISREG(file->stat.st_mode))
        return true;
    close(file->descriptor);
    return false;
}

static void raise_descriptors_max(void)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    descriptors_max = limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur - SPARE_DESCRIPTORS : INT_MAX;
}

/* Sorts the paths of the fonts, and opens each file once: some have many fonts. */
static bool open_files(const FcFontSet *fonts)
{
    size_t count = 0;
    FcChar8 *path;
    files = calloc((size_t)fonts->nfont, sizeof *files);
    if (!files)
        return false;
    for (int i = 0; i < fonts->nfont; i++)
        if (FcPatternGetString(fonts->fonts[i], FC_FILE, 0, &path) == FcResultMatch)
            files[count++].path = (const char *)path;
    qsort(files, count, sizeof *files, compare_paths);
    size_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_next = file_count == 0 || strcmp(files[file_count - 1].path, files[i].path) != 0;
        files[file_count] = is_next ? files[i] : files[file_count];
        bool is_open = is_next && open_file(&files[file_count]);
        file_count += is_open;
        left_out += is_next && !is_open;
    }
    if (left_out > 0)
        fprintf(stderr, "gpuimgd-codec: %zu fonts cannot be opened; texts are drawn without them\n",
                left_out);
    return true;
}

/* ---- in the place of the C library ---------------------------------------------------------- */

#if !CONFINE_WITHOUT_LIMITS

static _Atomic bool is_closed;

int fonts_do_open(const char *path, int flags, ...) __asm__("open");
int fonts_do_open64(const char *path, int flags, ...) __asm__("open64");
int fonts_do_access(const char *path, int mode) __asm__("access");
int fonts_do_fstat(int descriptor, struct stat *to) __asm__("fstat");
int fonts_do_fstat64(int descriptor, struct stat *to) __asm__("fstat64");

static int open_font(const char *path, int flags, mode_t mode)
{
    if (!atomic_load(&is_closed))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    const struct file *file = (flags & O_ACCMODE) == O_RDONLY ? find_file(path) : NULL;
    if (!file)
        errno = EACCES;
    return file ? file->descriptor : -1;
}

static mode_t mode_of(int flags, va_list arguments)
{
    bool has_mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    return has_mode ? va_arg(arguments, mode_t) : 0;
}

int fonts_do_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_font(path, flags, mode);
}

int fonts_do_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_font(path, flags, mode);
}

int fonts_do_access(const char *path, int mode)
{
    if (!atomic_load(&is_closed))
        return faccessat(AT_FDCWD, path, mode, 0);
    if (mode == R_OK && find_file(path))
        return 0;
    errno = EACCES;
    return -1;
}

int fonts_do_fstat(int descriptor, struct stat *to)
{
    for (size_t i = 0; atomic_load(&is_closed) && i < file_count; i++)
        if (files[i].descriptor == descriptor) {
            *to = files[i].stat;
            return 0;
        }
    return fstatat(descriptor, "", to, AT_EMPTY_PATH);
}

int fonts_do_fstat64(int descriptor, struct stat *to)
{
    return fonts_do_fstat(descriptor, to);
}

#endif

void fonts_close_rest(void)
{
#if !CONFINE_WITHOUT_LIMITS
    atomic_store(&is_closed, true);
#endif
}

/* ---- fonts ---------------------------------------------------------------------------------- */

/* fontconfig's own list. */
static FcFontSet *fonts;

/* Takes the fonts whose files are not open from the list, so that no text is drawn with them. */
static void leave_out_closed(void)
{
    int kept = 0;
    FcChar8 *path;
    for (int i = 0; i < fonts->nfont; i++) {
        FcPattern *font = fonts->fonts[i];
        if (FcPatternGetString(font, FC_FILE, 0, &path) == FcResultMatch &&
            find_file((const char *)path))
            fonts->fonts[kept++] = font;
        else
            FcPatternDestroy(font);
    }
    fonts->nfont = kept;
}

int fonts_open(void)
{
    raise_descriptors_max();
    fonts = FcInit() ? FcConfigGetFonts(FcConfigGetCurrent(), FcSetSystem) : NULL;
    if (!fonts)
        return -1;
    if (fonts->nfont > 0 && !open_files(fonts))
        return -1;
    leave_out_closed();
    return fonts->nfont;
}

bool fonts_have(uint32_t character)
{
    FcCharSet *set;
    for (int i = 0; i < fonts->nfont; i++)
        if (FcPatternGetCharSet(fonts->fonts[i], FC_CHARSET, 0, &set) == FcResultMatch &&
            FcCharSetHasChar(set, character))
            return true;
    return false;
}

#endif
