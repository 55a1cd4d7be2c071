#include "codecs/exif.h"

#include <stdlib.h>
#include <string.h>

#include <libexif/exif-data.h>

#include "conf/limits.h"

static const uint8_t header[6] = {'E', 'x', 'i', 'f', 0, 0};

static int orientation_of(ExifData *data)
{
    ExifEntry *entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
    if (entry == NULL || entry->format != EXIF_FORMAT_SHORT || entry->components != 1 ||
        entry->size < 2)
        return 1;
    int value = exif_get_short(entry->data, exif_data_get_byte_order(data));
    return value >= 1 && value <= ORIENTATION_MAX ? value : 1;
}

/* libexif says nothing on its own: an ExifData has no log function until it is given one. */
int exif_orientation(const uint8_t *blob, size_t bytes)
{
    if (bytes >= sizeof header && memcmp(blob, header, sizeof header) == 0) {
        blob += sizeof header;
        bytes -= sizeof header;
    }
    if (bytes == 0 || bytes > EXIF_BYTES_MAX)
        return 1;
    /* libexif wants the header in front and otherwise searches for a JPEG in the bytes. */
    uint8_t *whole = malloc(sizeof header + bytes);
    ExifData *data = exif_data_new();
    int orientation = 1;
    if (whole != NULL && data != NULL) {
        memcpy(whole, header, sizeof header);
        memcpy(whole + sizeof header, blob, bytes);
        /* Without this, missing tags are invented and types converted. */
        exif_data_unset_option(data, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);
        exif_data_load_data(data, whole, (unsigned)(sizeof header + bytes));
        orientation = orientation_of(data);
    }
    if (data != NULL)
        exif_data_unref(data);
    free(whole);
    return orientation;
}
