/*
 * coefficients.c - manages the memory of a progressive JPEG's coefficients, instead of libjpeg.
 *
 * A row decoder (row_decoder.h) decodes most progressive files, and needs little memory. libjpeg,
 * which decodes the others, needs all coefficients until the last scan: 6 bytes per pixel at 4:4:4.
 * libjpeg allocates them for each image and clears them before the first scan. Here they are one
 * block, with huge pages if the kernel has them, which is kept for the next image. A row is cleared
 * when the first scan reaches it and writes it anyway. A component whose AC coefficients are never
 * read has a single row in memory, which all its rows share.
 */
#include "codecs/jpeg/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <jerror.h> /* must follow jpeglib.h, whose configuration sets the error numbers */

/* libjpeg leaves the definition of this type to its memory manager. */
struct jvirt_barray_control {
    JBLOCKARRAY rows;
    JDIMENSION row_count, blocks_per_row;
    JDIMENSION cleared; /* rows cleared so far, from the first */
    bool shares_rows;
};

static struct jpeg_coefficients *coefficients_of(j_common_ptr common)
{
    return &((struct jpeg_state *)common->client_data)->coefficients;
}

static size_t row_bytes(const struct jvirt_barray_control *array)
{
    return (size_t)array->blocks_per_row * sizeof(JBLOCK);
}

static jvirt_barray_ptr request_array(j_common_ptr common, int pool, boolean pre_zero,
                                      JDIMENSION blocks_per_row, JDIMENSION row_count,
                                      JDIMENSION access_max)
{
    struct jpeg_coefficients *own = coefficients_of(common);
    (void)pre_zero, (void)access_max; /* arrays are always cleared */
    if (own->count == MAX_COMPONENTS) /* uncovered: scans */
        ERREXIT(common, JERR_BAD_VIRTUAL_ACCESS);
    jvirt_barray_ptr array = common->mem->alloc_small(common, pool, sizeof *array);
    array->rows = common->mem->alloc_large(common, pool, row_count * sizeof(JBLOCKROW));
    array->row_count = row_count;
    array->blocks_per_row = blocks_per_row;
    array->cleared = 0;
    array->shares_rows = own->shares_rows[own->count];
    own->arrays[own->count++] = array;
    return array;
}

static void take_memory(j_common_ptr common, struct jpeg_coefficients *own, size_t bytes)
{
    jpeg_coefficients_free(own);
    own->memory = malloc(bytes);
    if (own->memory == NULL) /* uncovered: memory */
        ERREXIT1(common, JERR_OUT_OF_MEMORY, 0);
    own->bytes = bytes;
    uintptr_t page = 4096, begin = ((uintptr_t)own->memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)own->memory + bytes) / page * page;
    if (end > begin) /* on failure, small pages work, too */
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

static void need_memory(j_common_ptr common, struct jpeg_coefficients *own)
{
    size_t bytes = 1;
    for (int i = 0; i < own->count; i++)
        bytes += row_bytes(own->arrays[i]) *
                 (own->arrays[i]->shares_rows ? 1 : own->arrays[i]->row_count);
    if (bytes > (size_t)common->mem->max_memory_to_use) /* uncovered: scans */
        ERREXIT(common, JERR_NO_BACKING_STORE);
    if (own->bytes < bytes)
        take_memory(common, own, bytes);
}

static void realize_arrays(j_common_ptr common)
{
    struct jpeg_coefficients *own = coefficients_of(common);
    own->realize(common); /* for arrays of samples */
    if (own->count == 0 || own->realized)
        return;
    need_memory(common, own);
    own->realized = true;
    uint8_t *at = own->memory;
    for (int i = 0; i < own->count; i++) {
        struct jvirt_barray_control *array = own->arrays[i];
        for (JDIMENSION row = 0; row < array->row_count; row++) {
            array->rows[row] = (JBLOCKROW)(void *)at;
            if (!array->shares_rows || row + 1 == array->row_count)
                at += row_bytes(array);
        }
    }
}

/* A shared row is cleared only once: nothing reads the values that scans leave in it. */
static void clear_rows(struct jvirt_barray_control *array, JDIMENSION end)
{
    for (; array->cleared < end; array->cleared++)
        if (!array->shares_rows || array->cleared == 0)
            memset(array->rows[array->cleared], 0, row_bytes(array));
}

static JBLOCKARRAY access_rows(j_common_ptr common, jvirt_barray_ptr array, JDIMENSION first,
                               JDIMENSION count, boolean writable)
{
    (void)writable;
    if (first > array->row_count || count > array->row_count - first) /* uncovered: scans */
        ERREXIT(common, JERR_BAD_VIRTUAL_ACCESS);
    clear_rows(array, first + count);
    return array->rows + first;
}

void jpeg_coefficients_take_over(struct jpeg_state *state)
{
    struct jpeg_coefficients *own = &state->coefficients;
    struct jpeg_memory_mgr *memory = state->reader.mem;
    *own = (struct jpeg_coefficients){
        .memory = own->memory, .bytes = own->bytes, .realize = memory->realize_virt_arrays};
    memory->request_virt_barray = request_array;
    memory->realize_virt_arrays = realize_arrays;
    memory->access_virt_barray = access_rows;
}

void jpeg_coefficients_free(struct jpeg_coefficients *coefficients)
{
    free(coefficients->memory);
    coefficients->memory = NULL;
    coefficients->bytes = 0;
}
