#include "conf/suffix.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *suffix_of_others(const char *path)
{
    static const char *const others[] = {".avif", ".bmp", ".gif",  ".heic", ".heif", ".ico",
                                         ".jp2",  ".jxl", ".pbm",  ".pdf",  ".pgm",  ".pnm",
                                         ".ppm",  ".psd", ".svg",  ".tga",  ".tif",  ".tiff",
                                         ".webp"};
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(dot, others[i]) == 0)
            return dot;
    return NULL;
}
