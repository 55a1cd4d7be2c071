/*
 * shim_library.c - preloaded into a daemon: simulates an image library of another version than at
 * build time, or with wrong pixels.
 *
 *     GPUIMGD_SHIM=NAME    One of these functions passes a wrong version, so that the library
 *                          refuses: jpeg_CreateCompress, jpeg_CreateDecompress,
 *                          png_create_write_struct_2, png_create_read_struct_2. One of these
 *                          changes the rows that it reads: jpeg_read_scanlines, png_read_row.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "tests/faults/shim.h"

/* The libraries' headers are not included: these types are pointers and numbers. */
#define OTHER_JPEG 99
#define OTHER_PNG  "0.96"

static bool meant(const char *name)
{
    const char *text = getenv("GPUIMGD_SHIM");
    return text && strcmp(text, name) == 0;
}

void jpeg_CreateCompress(void *writer, int version, size_t bytes);
void jpeg_CreateDecompress(void *reader, int version, size_t bytes);
unsigned jpeg_read_scanlines(void *reader, unsigned char **rows, unsigned count);
void *png_create_write_struct_2(const char *version, void *error, void *on_error, void *on_warning,
                                void *memory, void *allocate, void *release);
void *png_create_read_struct_2(const char *version, void *error, void *on_error, void *on_warning,
                               void *memory, void *allocate, void *release);
void png_read_row(void *png, unsigned char *row, unsigned char *display);

void jpeg_CreateCompress(void *writer, int version, size_t bytes)
{
    SHIM_NEXT(void, "jpeg_CreateCompress", void *, int, size_t);
    next(writer, meant("jpeg_CreateCompress") ? OTHER_JPEG : version, bytes);
}

void jpeg_CreateDecompress(void *reader, int version, size_t bytes)
{
    SHIM_NEXT(void, "jpeg_CreateDecompress", void *, int, size_t);
    next(reader, meant("jpeg_CreateDecompress") ? OTHER_JPEG : version, bytes);
}

unsigned jpeg_read_scanlines(void *reader, unsigned char **rows, unsigned count)
{
    SHIM_NEXT(unsigned, "jpeg_read_scanlines", void *, unsigned char **, unsigned);
    unsigned read = next(reader, rows, count);
    if (read > 0 && meant("jpeg_read_scanlines"))
        rows[0][0] ^= 0x40;
    return read;
}

void *png_create_write_struct_2(const char *version, void *error, void *on_error, void *on_warning,
                                void *memory, void *allocate, void *release)
{
    SHIM_NEXT(void *, "png_create_write_struct_2", const char *, void *, void *, void *, void *,
              void *, void *);
    return next(meant("png_create_write_struct_2") ? OTHER_PNG : version, error, on_error,
                on_warning, memory, allocate, release);
}

void *png_create_read_struct_2(const char *version, void *error, void *on_error, void *on_warning,
                               void *memory, void *allocate, void *release)
{
    SHIM_NEXT(void *, "png_create_read_struct_2", const char *, void *, void *, void *, void *,
              void *, void *);
    return next(meant("png_create_read_struct_2") ? OTHER_PNG : version, error, on_error,
                on_warning, memory, allocate, release);
}

void png_read_row(void *png, unsigned char *row, unsigned char *display)
{
    SHIM_NEXT(void, "png_read_row", void *, unsigned char *, unsigned char *);
    next(png, row, display);
    if (meant("png_read_row"))
        row[0] ^= 1;
}
