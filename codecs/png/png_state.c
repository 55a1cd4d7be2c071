#include "codecs/png/png_state.h"

const char *png_position(const struct png_state *state, char text[PNG_POSITION_BYTES])
{
    if (state->rows == 0)
        return "in its header";
    if (state->passes > 1)
        snprintf(text, PNG_POSITION_BYTES, "after %u of %u rows of pass %d of %d", state->rows_done,
                 state->rows, state->pass + 1, state->passes);
    else
        snprintf(text, PNG_POSITION_BYTES, "after %u of %u rows", state->rows_done, state->rows);
    return text;
}

void png_accept_end(struct png_state *state)
{
    if (state->lenient && state->has_all_rows)
        longjmp(state->jump, 1);
}

_Noreturn void png_on_error(png_structp png, png_const_charp message)
{
    struct png_state *state = png_get_error_ptr(png);
    enum status status = state->out_of_memory ? STATUS_OUT_OF_MEMORY
                         : state->encoding    ? STATUS_ENCODE_FAILED
                                              : STATUS_DECODE_FAILED;
    char text[PNG_POSITION_BYTES];
    /* An error in the compressed rows is never accepted: it may mean that rows are wrong. */
    if (status == STATUS_DECODE_FAILED && strncmp(message, "IDAT: ", 6) != 0)
        png_accept_end(state);
    codec_fail(state, status, "the PNG cannot be %s, %s: %s",
               state->encoding ? "written" : "decoded", png_position(state, text), message);
}

/* Whether a warning is only about surplus data: after the last row, or after a compressed stream
 * with a correct checksum. */
static bool is_harmless(const char *message)
{
    static const char *const harmless[] = {"Extra compressed data", "Too much image data",
                                           "Too many IDATs found"};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strstr(message, harmless[i]) != NULL)
            return true;
    return false;
}

/* Treats a warning about IDAT chunks as an error, because they have the pixels. libpng only warns
 * about an error of zlib after the last row, but a wrong checksum may mean that rows are wrong. */
void png_on_warning(png_structp png, png_const_charp message)
{
    if (strncmp(message, "IDAT: ", 6) == 0 && !is_harmless(message))
        png_on_error(png, message);
}

png_voidp png_allocate(png_structp png, png_alloc_size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL)
        ((struct png_state *)png_get_mem_ptr(png))->out_of_memory = true;
    return memory;
}

void png_check_memory(struct png_state *state)
{
    if (state->out_of_memory)
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for all chunks of a PNG");
}

_Noreturn void png_refuse_library(struct png_state *state)
{
    if (state->out_of_memory)
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory to %s a PNG",
                   state->encoding ? "write" : "decode");
    codec_fail(state, STATUS_INTERNAL, "libpng %s refuses calls for version %s",
               png_get_libpng_ver(NULL), PNG_LIBPNG_VER_STRING);
}
