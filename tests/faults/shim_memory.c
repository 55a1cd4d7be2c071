/*
 * shim_memory.c - preloaded into a daemon: makes chosen allocations fail (shim.h).
 *
 * It counts malloc, calloc, realloc, posix_memalign, aligned_alloc, strdup, strndup, asprintf,
 * vasprintf and anonymous mmap, if the caller is the program, libjpeg, libpng, libz, libwebp or
 * libcjson. Allocations of other callers never fail: hiredis asserts success, libuv and libavif
 * abort on failure, and the C library's own allocations are out of scope. `live` counts the
 * allocations of all callers.
 *
 * One allocation of libwebp before 1.4.0 never fails, because its failure crashes:
 * VP8LHuffmanTablesAllocate then leaves root.next unset, and VP8LHuffmanTablesDeallocate frees the
 * list that begins there. ReadHuffmanCodeLengths has these tables on its stack, so what the stack
 * had before decides whether it crashes. The defect is in 1.3.2 and in older versions with the
 * correction of CVE-2023-4863, as in Debian 12. A caller can only make sure that there is memory
 * (codecs/webp/webp_decode.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/faults/shim.h"

#define RANGES_MAX 32

/* The first libwebp without the defect, and the size of that allocation: 128 entries of 4 bytes.
 * Others of this size do not fail either. */
#define WEBP_MENDED      0x010400
#define WEBP_TABLE_BYTES 512

static struct shim_page *page;
static struct {
    uintptr_t begin, end;
    size_t never_bytes; /* mallocs of this size do not fail; 0: all can */
} ranges[RANGES_MAX];
static size_t range_count;

/* ---- the callers ----------------------------------------------------------------------------- */

static bool has_webp_defect(const char *module)
{
    int (*version)(void) = NULL;
    if (strstr(module, "/libwebp."))
        version = (int (*)(void))dlsym(RTLD_DEFAULT, "WebPGetDecoderVersion");
    return version && version() < WEBP_MENDED;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
    static const char *const names[] = {"/libjpeg.", "/libpng16.", "/libz.", "/libcjson.",
                                        "/libwebp."};
    bool wanted = !*info->dlpi_name; /* the program */
    (void)size;
    (void)context;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        wanted |= strstr(info->dlpi_name, names[i]) != NULL;
    for (int i = 0; wanted && i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        if (has_webp_defect(info->dlpi_name))
            ranges[range_count].never_bytes = WEBP_TABLE_BYTES;
        ranges[range_count].begin = info->dlpi_addr + part->p_vaddr;
        ranges[range_count++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void map_page(void)
{
    dl_iterate_phdr(add_module, NULL);
    page = shim_map();
}

/* bytes: of a malloc; 0 for other calls. */
static bool fails(const void *caller, size_t bytes)
{
    if (!page || atomic_load(&page->from) == 0)
        return false;
    bool counts = false;
    for (size_t i = 0; i < range_count && !counts; i++)
        counts = (uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end &&
                 (bytes == 0 || bytes != ranges[i].never_bytes);
    if (!counts)
        return false;
    unsigned number = atomic_fetch_add(&page->met, 1) + 1, from = atomic_load(&page->from);
    if (from == 0 || number < from || number - from >= atomic_load(&page->times))
        return false;
    atomic_fetch_add(&page->faults, 1);
    errno = ENOMEM;
    return true;
}

static void *count(void *memory, int change)
{
    if (page && memory)
        atomic_fetch_add(&page->live, change);
    return memory;
}

/* ---- the next allocator, which is the system's or a sanitizer's ------------------------------ */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*vasprintf)(char **, const char *, va_list);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
} next;

/* Memory for dlsym, which allocates before the real functions are known. */
static alignas(16) char first_bytes[8192];
static size_t first_used;
static bool looking;

static void *take_first(size_t size)
{
    size_t at = first_used;
    first_used += (size + 15) / 16 * 16;
    if (first_used > sizeof first_bytes)
        abort();
    return first_bytes + at;
}

static bool is_first(const void *memory)
{
    return (const char *)memory >= first_bytes &&
           (const char *)memory < first_bytes + sizeof first_bytes;
}

/* false: the lookup itself caused this call. The process has only one thread at that time. */
static bool ready(void)
{
    static const char *const names[] = {"malloc",         "calloc",        "realloc",   "free",
                                        "posix_memalign", "aligned_alloc", "vasprintf", "mmap"};
    if (next.mmap)
        return true;
    if (looking)
        return false;
    looking = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ((void **)&next)[i] = dlsym(RTLD_NEXT, names[i]);
    looking = false;
    return true;
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Whether the call of this caller fails; it must not come from the lookup. */
static bool fails_after_lookup(const void *caller)
{
    if (!ready())
        abort();
    return fails(caller, 0);
}
#define FAILS fails_after_lookup(__builtin_return_address(0))

void *malloc(size_t size)
{
    if (!ready())
        return take_first(size);
    return fails(__builtin_return_address(0), size) ? NULL : count(next.malloc(size), 1);
}

void *calloc(size_t number, size_t size)
{
    if (!ready())
        return take_first(number * size);
    return fails(__builtin_return_address(0), 0) ? NULL : count(next.calloc(number, size), 1);
}

void *realloc(void *memory, size_t size)
{
    if (is_first(memory))
        abort();
    if (FAILS)
        return NULL;
    void *moved = next.realloc(memory, size);
    if (!memory)
        count(moved, 1);
    else if (size == 0)
        count(memory, -1);
    return moved;
}

void free(void *memory)
{
    if (is_first(memory) || !ready())
        return;
    count(memory, -1);
    next.free(memory);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    if (FAILS)
        return ENOMEM;
    int result = next.posix_memalign(memory, alignment, size);
    if (result == 0)
        count(*memory, 1);
    return result;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return FAILS ? NULL : count(next.aligned_alloc(alignment, size), 1);
}

char *strndup(const char *text, size_t most)
{
    size_t length = strnlen(text, most);
    char *copy = FAILS ? NULL : count(next.malloc(length + 1), 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = FAILS ? NULL : count(next.malloc(bytes), 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

int vasprintf(char **text, const char *format, va_list args)
{
    return FAILS ? -1 : next.vasprintf(text, format, args);
}

int asprintf(char **text, const char *format, ...)
{
    va_list args;
    if (FAILS)
        return -1;
    va_start(args, format);
    int length = next.vasprintf(text, format, args);
    va_end(args);
    return length;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (!ready())
        abort();
    if ((flags & MAP_ANONYMOUS) && FAILS)
        return MAP_FAILED;
    return next.mmap(address, length, protection, flags, fd, offset);
}
