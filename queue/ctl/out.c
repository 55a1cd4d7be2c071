#include "queue/ctl/out.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/mask.h"
#include "conf/text.h"

/* Bytes of standard output that are not written: complete lines, then the current line, which
 * begins at offset `line`. */
static struct {
    char *text;
    size_t length, capacity, line;
    bool held, failed;
    bool status; /* a text of out_status is on the screen */
} out;

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t got = write(fd, bytes, length);
        if (got < 0 && errno == EAGAIN) { /* another process has made the file non-blocking */
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            poll(&wait, 1, -1);
        } else if (got < 0 && errno != EINTR) {
            return false;
        } else if (got > 0) {
            bytes += got;
            length -= (size_t)got;
        }
    }
    return true;
}

static void flush(void)
{
    if (out.status && out.length > 0)
        out_status("");
    if (!write_all(STDOUT_FILENO, out.text, out.length))
        out.failed = true;
    out.length = out.line = 0;
}

/* ---- standard output ----------------------------------------------------------------------- */

/* Appends bytes, and keeps one byte free for a NUL. */
static void add(const char *bytes, size_t length)
{
    if (out.length + length >= out.capacity) {
        size_t capacity = 2 * (out.length + length) + 1024;
        char *text = realloc(out.text, capacity);
        out.failed |= !text;
        if (!text)
            return;
        out.text = text;
        out.capacity = capacity;
    }
    memcpy(out.text + out.length, bytes, length);
    out.length += length;
}

/* Makes the current line printable: a name or message from outside may contain escape sequences. */
static void seal(void)
{
    if (out.text) {
        out.text[out.length] = '\0';
        text_make_printable(out.text + out.line);
    }
    out.line = out.length;
}

void out_put(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) {
        out.failed = true;
        return;
    }
    add(text, (size_t)length);
    free(text);
}

void out_end(void)
{
    seal();
    add("\n", 1);
    out.line = out.length;
    if (!out.held)
        flush();
}

void out_json(const char *json)
{
    char *text = text_printable_json(json);
    if (text)
        out_line("%s", text);
    else
        out.failed = true;
    free(text);
}

void out_raw(const char *bytes)
{
    seal();
    add(bytes, strlen(bytes));
    out.line = out.length;
}

void out_hold(bool held)
{
    out.held = held;
    if (!held)
        flush();
}

void out_sync(void)
{
    struct stat file;
    if (fstat(STDOUT_FILENO, &file) == 0 && S_ISREG(file.st_mode) && fdatasync(STDOUT_FILENO) != 0)
        out.failed = true;
}

void out_separate(void)
{
    struct stat file;
    if (fstat(STDOUT_FILENO, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0)
        out_end();
}

bool out_failed(void)
{
    return out.failed;
}

bool out_has_status(void)
{
    return out.status;
}

/* ---- standard error ------------------------------------------------------------------------ */

void out_error(const char *format, va_list args)
{
    char *text = NULL, *line = NULL;
    int length = vasprintf(&text, format, args);
    if (out.status)
        out_status("");
    if (length >= 0) {
        mask_text(text, MASK_MESSAGE);
        text_make_printable(text);
    }
    if (length >= 0 && (length = asprintf(&line, "gpuimgctl: %s\n", text)) >= 0) {
        (void)write_all(STDERR_FILENO, line, (size_t)length);
        free(line);
    }
    free(text);
}

void out_status(const char *text)
{
    char *line = NULL;
    int length = asprintf(&line, "\r%s\033[K", text);
    out.status = *text != '\0';
    if (length < 0)
        return;
    (void)write_all(STDERR_FILENO, line, (size_t)length);
    free(line);
}
