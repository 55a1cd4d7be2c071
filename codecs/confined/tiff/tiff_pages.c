/* tiff_pages.c - finds the pages of a TIFF: the chain of its directories (tiff_impl.h). */
#ifdef GPUIMGD_TIFF

#include <string.h>

#include "codecs/confined/tiff/tiff_impl.h"

/* The most directories of a chain that are followed: one more than are allowed. */
#define PAGES_MAX (FRAMES_MAX + 1)
/* The entries of a directory that are searched for its kind. They are sorted, and the tags of the
 * kind are the lowest ones. */
#define KIND_ENTRIES_MAX 16

uint64_t tiff_number_at(const struct tiff_numbers *numbers, const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * (numbers->little ? i : bytes - 1 - i);
    return value;
}

const uint8_t *tiff_bytes_at(const struct tiff_numbers *numbers, uint64_t at, size_t bytes)
{
    size_t got = bytes;
    const uint8_t *found = confined_read(numbers->source, at, &got);
    return got == bytes ? found : NULL;
}

bool tiff_open_numbers(struct confined_source *source, struct tiff_numbers *numbers)
{
    enum { header_bytes = 8, big_header_bytes = 16, classic = 42, big = 43 };
    *numbers = (struct tiff_numbers){.source = source};
    const uint8_t *header = tiff_bytes_at(numbers, 0, header_bytes);
    if (!header)
        return false;
    numbers->little = header[0] == 'I';
    unsigned version = (unsigned)tiff_number_at(numbers, header + 2, 2);
    numbers->big = version == big;
    if (numbers->big)
        header = tiff_bytes_at(numbers, 0, big_header_bytes);
    if (!header || (version != classic && version != big))
        return false;
    numbers->first = numbers->big ? tiff_number_at(numbers, header + 8, 8)
                                  : tiff_number_at(numbers, header + 4, 4);
    return true;
}

static unsigned entry_bytes(const struct tiff_numbers *numbers)
{
    return numbers->big ? 20 : 12;
}

/* The size of an offset, of the number of values, and of the values that fit in an entry. */
static unsigned offset_bytes(const struct tiff_numbers *numbers)
{
    return numbers->big ? 8 : 4;
}

bool tiff_view_directory(const struct tiff_numbers *numbers, uint64_t at, uint32_t most,
                         struct tiff_directory_view *view)
{
    unsigned count_bytes = numbers->big ? 8 : 2;
    const uint8_t *bytes =
        at > 0 && at < numbers->source->size ? tiff_bytes_at(numbers, at, count_bytes) : NULL;
    if (!bytes)
        return false;
    uint64_t count = tiff_number_at(numbers, bytes, count_bytes);
    if (count == 0 || count > TIFF_ENTRIES_MAX)
        return false;
    view->at = at + count_bytes;
    view->count = count < most ? (uint32_t)count : most;
    view->entries = tiff_bytes_at(numbers, view->at, (size_t)view->count * entry_bytes(numbers));
    bytes = tiff_bytes_at(numbers, view->at + count * entry_bytes(numbers), offset_bytes(numbers));
    view->next = bytes ? tiff_number_at(numbers, bytes, offset_bytes(numbers)) : 0;
    return view->entries != NULL;
}

struct tiff_entry tiff_view_entry(const struct tiff_numbers *numbers,
                                  const struct tiff_directory_view *view, uint32_t index)
{
    const uint8_t *bytes = view->entries + (size_t)index * entry_bytes(numbers);
    return (struct tiff_entry){.tag = (uint16_t)tiff_number_at(numbers, bytes, 2),
                               .type = (uint16_t)tiff_number_at(numbers, bytes + 2, 2),
                               .count = tiff_number_at(numbers, bytes + 4, offset_bytes(numbers)),
                               .value = bytes + 4 + offset_bytes(numbers)};
}

bool tiff_has_tag(const struct tiff_numbers *numbers, uint64_t directory, unsigned tag)
{
    struct tiff_directory_view view;
    bool has = false;
    if (tiff_view_directory(numbers, directory, TIFF_ENTRIES_MAX, &view))
        for (uint32_t i = 0; i < view.count && !has; i++)
            has = tiff_view_entry(numbers, &view, i).tag == tag;
    return has;
}

const uint8_t *tiff_find_bytes(const struct tiff_numbers *numbers, uint64_t directory, unsigned tag,
                               size_t *bytes)
{
    struct tiff_directory_view view;
    if (!tiff_view_directory(numbers, directory, TIFF_ENTRIES_MAX, &view))
        return NULL;
    for (uint32_t i = 0; i < view.count; i++) {
        struct tiff_entry entry = tiff_view_entry(numbers, &view, i);
        unsigned size = entry.type == TIFF_BYTE || entry.type == TIFF_UNDEFINED ? 1
                        : entry.type == TIFF_LONG                               ? 4
                                                                                : 0;
        if (entry.tag != tag || size == 0 || entry.count > CODEC_METADATA_BYTES_MAX)
            continue;
        *bytes = (size_t)entry.count * size;
        uint64_t at = tiff_number_at(numbers, entry.value, offset_bytes(numbers));
        return *bytes > offset_bytes(numbers) ? tiff_bytes_at(numbers, at, *bytes) : NULL;
    }
    return NULL;
}

uint64_t tiff_tags_bytes(const struct tiff_numbers *numbers, uint64_t directory)
{
    static const uint8_t sizes[] = {1, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 1, 1, 8, 8, 8};
    struct tiff_directory_view view;
    uint64_t bytes = 0;
    if (!tiff_view_directory(numbers, directory, TIFF_ENTRIES_MAX, &view))
        return 0;
    for (uint32_t i = 0; i < view.count; i++) {
        struct tiff_entry entry = tiff_view_entry(numbers, &view, i);
        if (entry.count <= TIFF_BLOCK_BYTES_MAX && entry.count <= numbers->source->size)
            bytes += entry.count * (entry.type < sizeof sizes ? sizes[entry.type] : 1);
    }
    return bytes;
}

/* ---- pages ---------------------------------------------------------------------------------- */

struct page {
    uint64_t at;
    bool is_full; /* neither a reduced image, such as a thumbnail, nor a mask */
};

static struct page pages[PAGES_MAX];

/* The value of an entry that has one SHORT or LONG; 0: it has not. */
static uint32_t small_value(const struct tiff_numbers *numbers, const struct tiff_entry *entry)
{
    unsigned bytes = entry->type == TIFF_SHORT ? 2 : entry->type == TIFF_LONG ? 4 : 0;
    return entry->count == 1 ? (uint32_t)tiff_number_at(numbers, entry->value, bytes) : 0;
}

static bool is_full_size(const struct tiff_numbers *numbers, const struct tiff_directory_view *view)
{
    for (uint32_t i = 0; i < view->count; i++) {
        struct tiff_entry entry = tiff_view_entry(numbers, view, i);
        uint32_t value = small_value(numbers, &entry);
        if (entry.tag == TIFFTAG_SUBFILETYPE)
            return !(value & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK));
        if (entry.tag == TIFFTAG_OSUBFILETYPE)
            return value != OFILETYPE_REDUCEDIMAGE;
    }
    return true;
}

/* *last: the end of those so far. Usual chains only go forwards. */
static bool is_known(uint64_t at, uint32_t count, uint64_t *last)
{
    if (count == 0 || at > *last) {
        *last = at;
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        if (pages[i].at == at)
            return true;
    return false;
}

/* Follows the chain of directories. It ends where it returns to one of them. */
static uint32_t follow_chain(const struct tiff_numbers *numbers)
{
    uint32_t count = 0;
    uint64_t last = 0, left = numbers->source->left;
    struct tiff_directory_view view;
    numbers->source->left = UINT64_MAX; /* their number bounds what is read */
    for (uint64_t at = numbers->first; count < PAGES_MAX && !is_known(at, count, &last) &&
                                       tiff_view_directory(numbers, at, KIND_ENTRIES_MAX, &view);
         at = view.next)
        pages[count++] = (struct page){at, is_full_size(numbers, &view)};
    numbers->source->left = left;
    return count;
}

/* The pages are the full-size images of the chain. If there is none, all images of the chain, but
 * not the preview of a raw photograph, whose directory has others. */
uint64_t tiff_find_page(const struct tiff_numbers *numbers, uint32_t page,
                        struct codec_reply *reply)
{
    uint32_t count = follow_chain(numbers), full = 0;
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        full += pages[i].is_full;
    if (full == 0 && count > 0 && tiff_has_tag(numbers, pages[0].at, TIFFTAG_SUBIFD)) {
        confined_fail(reply, STATUS_UNSUPPORTED_FORMAT,
                      "the TIFF has only a small preview, as raw photographs of cameras (DNG, NEF "
                      "and others); develop it first");
        return 0;
    }
    reply->frames = full > 0 && count < PAGES_MAX ? full : count;
    for (uint32_t i = 0, number = 0; i < count; i++)
        if ((full == 0 || pages[i].is_full) && number++ == page)
            found = pages[i].at;
    if (count == 0)
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the TIFF has no directory at byte %llu, to which its header points",
                      (unsigned long long)numbers->first);
    return found;
}

#endif
