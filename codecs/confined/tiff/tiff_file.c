/* tiff_file.c - opens TIFFs with libtiff, and keeps its messages (tiff_impl.h). */
#ifdef GPUIMGD_TIFF

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/confined/tiff/tiff_impl.h"

/* ---- messages ------------------------------------------------------------------------------- */

/* libtiff's first error, or else its first warning. It has these handlers for the whole process,
 * which has one thread. */
static struct {
    bool has_failed;
    char error[ERROR_TEXT_MAX / 2], warning[ERROR_TEXT_MAX / 2];
} messages;

static void note(char *text, const char *module, const char *format, va_list args)
{
    enum { bytes = sizeof messages.error };
    if (text[0] != '\0')
        return;
    int used = module ? snprintf(text, bytes, "%s: ", module) : 0;
    if (used >= 0 && used < bytes)
        vsnprintf(text + used, (size_t)(bytes - used), format, args);
}

static void on_error(const char *module, const char *format, va_list args)
{
    messages.has_failed = true;
    note(messages.error, module, format, args);
}

/* Damaged JPEG data, which libjpeg replaces by gray, is reported as a warning. */
static void on_warning(const char *module, const char *format, va_list args)
{
    if (module && strncmp(module, "JPEGLib", 7) == 0)
        on_error(module, format, args);
    else
        note(messages.warning, module, format, args);
}

bool tiff_has_failed(void)
{
    return messages.has_failed;
}

void tiff_fail(struct codec_reply *reply, const char *doing)
{
    const char *text = messages.error[0] ? messages.error : messages.warning;
    confined_fail(reply, STATUS_DECODE_FAILED, "the TIFF %s: %s", doing,
                  text[0] ? text : "libtiff gives no reason");
}

/* ---- the file, as libtiff reads it ---------------------------------------------------------- */

/* Lives as long as the TIFF. */
struct opened {
    struct confined_source *source;
    uint64_t position;
};

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t count)
{
    struct opened *opened = handle;
    size_t bytes = (size_t)count;
    const uint8_t *from = confined_read(opened->source, opened->position, &bytes);
    if (!from)
        return 0;
    memcpy(to, from, bytes);
    opened->position += bytes;
    return (tmsize_t)bytes;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t count)
{
    (void)handle, (void)from, (void)count;
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence)
{
    struct opened *opened = handle;
    uint64_t base = whence == SEEK_SET   ? 0
                    : whence == SEEK_CUR ? opened->position
                                         : opened->source->size;
    opened->position = base + offset;
    return opened->position;
}

static int on_close(thandle_t handle)
{
    free(handle);
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return ((struct opened *)handle)->source->size;
}

/* libtiff does not write to the mapping. */
static int on_map(thandle_t handle, void **base, toff_t *size)
{
    struct opened *opened = handle;
    *base = (void *)(uintptr_t)opened->source->bytes;
    *size = opened->source->size;
    return 1;
}

static void on_unmap(thandle_t handle, void *base, toff_t size)
{
    (void)handle, (void)base, (void)size;
}

/* mode: h opens the file without its first directory, m without a mapping, O without the tables of
 * tiles. */
static TIFF *open_file(struct opened *opened, const char *mode, uint64_t most)
{
#if defined(TIFFLIB_AT_LEAST) && TIFFLIB_AT_LEAST(4, 5, 0)
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options)
        return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)most);
    TIFF *tiff = TIFFClientOpenExt("TIFF", mode, opened, on_read, on_write, on_seek, on_close,
                                   on_size, on_map, on_unmap, options);
    TIFFOpenOptionsFree(options);
    return tiff;
#else
    (void)most;
    return TIFFClientOpen("TIFF", mode, opened, on_read, on_write, on_seek, on_close, on_size,
                          on_map, on_unmap);
#endif
}

static void clear_messages(void)
{
    messages.has_failed = false;
    messages.error[0] = messages.warning[0] = '\0';
}

TIFF *tiff_open_directory(struct confined_source *source, uint64_t directory, uint64_t most,
                          bool is_whole, struct codec_reply *reply)
{
    struct opened *opened = malloc(sizeof *opened);
    clear_messages();
    TIFFSetErrorHandler(on_error);
    TIFFSetWarningHandler(on_warning);
    if (!opened) {
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a TIFF");
        return NULL;
    }
    *opened = (struct opened){.source = source};
    TIFF *tiff = open_file(opened, is_whole ? "rh" : "rhmO", most);
    if (!tiff)
        free(opened);
    if (tiff && TIFFSetSubDirectory(tiff, directory)) {
        clear_messages(); /* of tags that were ignored */
        return tiff;
    }
    if (source->is_over)
        confined_fail(reply, STATUS_DECODE_LIMIT,
                      "the TIFF's header has more than %llu bytes of metadata",
                      CODEC_KEPT_BYTES_MAX);
    else
        tiff_fail(reply, "has a header that cannot be read");
    if (tiff)
        TIFFClose(tiff);
    return NULL;
}

#endif
