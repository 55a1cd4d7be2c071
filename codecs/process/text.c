/* text.c - texts as if they were files of a format, which a codec process decodes. */
#include "codecs/process/transfer.h"

const struct format codec_text_format = {
    .name = "text", .noun = "a text", .alpha = true, .library = "Pango"};

const char *codec_text_refusal(void)
{
#ifdef GPUIMGD_TEXT
    return NULL;
#else
    return "this gpuimgd was built without Pango (TEXT=no)";
#endif
}
