/*
 * Tests of texts as codec processes draw them: boxes, colours, directions, wrapping, characters
 * without a font, and hostile texts. The pixels are compared with those of pango-view.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "codecs/confined/confine.h"
#include "conf/text_style.h"
#include "tests/fixtures/codec_rig.h"
#include "tests/fixtures/font_folder.h"
#include "tests/fixtures/text_file.h"

static struct font_folder fonts;
static bool has_fonts;

/* The image of the last text; free(drawn.pixels). */
static struct image drawn;

/* A style; by default with 32 pixels of DejaVu Sans. */
#define STYLE(...) complete((struct text_style){__VA_ARGS__})

static struct text_style complete(struct text_style style)
{
    style.size = style.size > 0 ? style.size : 32;
    if (!style.font[0])
        strcpy(style.font, "DejaVu Sans");
    return style;
}

/* Measures and draws a text into `drawn`. */
static enum status draw_bytes(struct text_style style, const char *text, size_t bytes)
{
    uint8_t *file = malloc(sizeof style + bytes);
    assert_non_null(file);
    memcpy(file, &style, sizeof style);
    memcpy(file + sizeof style, text, bytes);
    bytes += sizeof style;
    free(drawn.pixels);
    drawn = (struct image){0};
    rig.error = (struct error){0};
    enum status status =
        codec_measure_text(rig.context, file, bytes, &rig.limits, &rig.info, &rig.error);
    if (status == STATUS_OK) {
        assert_int_equal(rig.info.channels, 4);
        drawn = (struct image){.width = rig.info.width, .height = rig.info.height, .channels = 4};
        drawn.stride = (size_t)drawn.width * 4;
        drawn.pixels = malloc(drawn.stride * drawn.height);
        assert_non_null(drawn.pixels);
        status =
            codec_draw_text(rig.context, file, bytes, &rig.info, &rig.limits, &drawn, &rig.error);
    }
    free(file);
    return status;
}

static void draw(struct text_style style, const char *text)
{
    if (draw_bytes(style, text, strlen(text)) != STATUS_OK)
        fail_msg("\"%.40s\": %s", text, rig.error.text);
}

static void refuse(struct text_style style, const char *text, enum status status, const char *part)
{
    if (draw_bytes(style, text, strlen(text)) != status || !strstr(rig.error.text, part))
        fail_msg("\"%.40s\": \"%s\" instead of \"%s\"", text, rig.error.text, part);
}

/* The columns between the first and the last visible pixel of some rows. */
struct ink {
    uint32_t left, right, top, bottom; /* right and bottom: after the last one; 0: there are none */
};

static struct ink ink_of(uint32_t from, uint32_t to)
{
    struct ink ink = {.left = drawn.width};
    for (uint32_t y = from; y < to; y++)
        for (uint32_t x = 0; x < drawn.width; x++) {
            if (drawn.pixels[y * drawn.stride + 4 * (size_t)x + 3] == 0)
                continue;
            ink.left = x < ink.left ? x : ink.left;
            ink.right = x + 1 > ink.right ? x + 1 : ink.right;
            ink.top = ink.bottom == 0 ? y : ink.top;
            ink.bottom = y + 1;
        }
    return ink;
}

static struct ink ink_of_all(void)
{
    return ink_of(0, drawn.height);
}

static void need_fonts(void)
{
#ifdef GPUIMGD_TEXT
    if (!has_fonts)
        skip(); /* DejaVu Sans is not installed */
#else
    skip(); /* there is no Pango here */
#endif
}

/* ---- against pango-view ---- */

/* Draws the text, and to rig.image with pango-view. The box of pango-view is that of the lines,
 * which must then contain all letters. */
static void view(struct text_style style, const char *more, const char *text)
{
    const char *to = text_of("%s/view.png", fonts.path), *from = text_of("%s/view.txt", fonts.path);
    assert_true(text_file_write(from, text, strlen(text)));
    const char *command =
        text_of("pango-view -q --backend=cairo --pixels --margin=0 --antialias=gray --hinting=none "
                "--subpixel-positions --background=transparent "
                "--foreground='#%02x%02x%02x%02x' --font='%s %u' --wrap=word-char %s -o %s %s",
                style.rgba[0], style.rgba[1], style.rgba[2], style.rgba[3], style.font, style.size,
                more, to, from);
    assert_int_equal(system(command), 0);
    struct picture_file png = {0};
    png.bytes = text_file_bytes(to, &png.length);
    assert_non_null(png.bytes);
    assert_int_equal(rig_decode(&rig, &png, DECODE_COLOUR), STATUS_OK);
    picture_free(&png);
    draw(style, text);
}

static void compare(struct text_style style, const char *more, const char *text)
{
    view(style, more, text);
    /* pango-view rounds to the nearest pixel. Its box has the width that the style gives. */
    uint32_t width = drawn.width;
    if (rig.image.width < width - 1 || (style.width == 0 && rig.image.width > width) ||
        rig.image.height != drawn.height)
        fail_msg("\"%s\": %u x %u instead of %u x %u", text, width, drawn.height, rig.image.width,
                 rig.image.height);
    width = rig.image.width < width ? rig.image.width : width;
    for (uint32_t y = 0; y < drawn.height; y++)
        if (memcmp(drawn.pixels + y * drawn.stride, rig.image.pixels + y * rig.image.stride,
                   (size_t)width * 4) != 0)
            fail_msg("\"%s\": row %u differs", text, y);
}

TEST(equals_pango_view)
{
    need_fonts();
    if (system("command -v pango-view >/dev/null") != 0)
        skip(); /* there is no pango-view here */
    compare(STYLE(.rgba = {200, 30, 90, 255}), "", "Affine fluffy 123");
    compare(STYLE(.size = 19, .rgba = {0, 0, 0, 255}), "",
            "\u0393\u03b5\u03b9\u03ac \u0416\u0443\u043a");
    compare(STYLE(.font = "DejaVu Sans Bold", .rgba = {255, 255, 255, 128}), "", "Half\nwhite");
    compare(STYLE(.rgba = {1, 2, 3, 255}), "",
            "\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd 12");
    compare(STYLE(.rgba = {9, 9, 9, 255}, .width = 150, .spacing = 7), "--width=150 --spacing=7",
            "one two three four five");
    if (fonts.has_han)
        compare(STYLE(.rgba = {9, 9, 9, 255}), "", "\u4e2d\u6587 \u304b\u306a");
    if (fonts.has_emoji)
        compare(STYLE(.rgba = {9, 9, 9, 255}), "", "a \U0001f600 b");
}

/* ---- boxes ---- */

TEST(box_holds_the_lines)
{
    need_fonts();
    draw(STYLE(.rgba = {0, 0, 0, 255}), "Mg");
    uint32_t height = drawn.height, width = drawn.width;
    draw(STYLE(.size = 64), "Mg");
    assert_in_range(drawn.width, 2 * width - 3, 2 * width + 1);
    assert_in_range(drawn.height, 2 * height - 3, 2 * height + 1);
    draw(STYLE(0), "Mg\nMg\nMg");
    assert_in_range(drawn.height, 3 * height - 3, 3 * height);
    assert_int_equal(drawn.width, width);
    uint32_t three = drawn.height;
    draw(STYLE(.spacing = 100), "Mg\nMg\nMg");
    assert_int_equal(drawn.height, three + 200);
}

TEST(long_lines_are_wrapped)
{
    static const char text[] = "The quick brown fox jumps over the lazy dog";
    need_fonts();
    draw(STYLE(0), text);
    uint32_t width = drawn.width, height = drawn.height;
    assert_true(width > 600);
    draw(STYLE(.width = 300), text);
    assert_true(drawn.width <= 300);
    assert_in_range(drawn.height, 3 * height - 3, 4 * height);
    draw(STYLE(.width = 40), "Donaudampfschiff"); /* within a word, if it is longer */
    assert_true(drawn.width <= 40);
    draw(STYLE(.width = 1), "iii"); /* a letter per line */
    assert_in_range(drawn.height, 3 * height - 3, 3 * height);
}

/* The ink of the second, shorter line. */
static struct ink second_line(uint32_t align, const char *text)
{
    draw(STYLE(.align = align, .rgba = {0, 0, 0, 255}), text);
    return ink_of(drawn.height / 2, drawn.height);
}

TEST(lines_are_aligned)
{
    need_fonts();
    struct ink left = second_line(TEXT_LEFT, "HHHHHHHH\nH");
    struct ink center = second_line(TEXT_CENTER, "HHHHHHHH\nH");
    struct ink right = second_line(TEXT_RIGHT, "HHHHHHHH\nH");
    assert_true(left.left < 5);
    assert_true(right.right > drawn.width - 5);
    assert_in_range(center.left + center.right, drawn.width - 3, drawn.width + 3);
    /* Hebrew begins at the right. */
    left = second_line(TEXT_LEFT, "\u05d4\u05d4\u05d4\u05d4\u05d4\u05d4\n\u05d4");
    assert_true(left.right > drawn.width - 5);
    right = second_line(TEXT_RIGHT, "\u05d4\u05d4\u05d4\u05d4\u05d4\u05d4\n\u05d4");
    assert_true(right.left < 5);
}

/* ---- letters ---- */

/* The last letter of Hebrew is at the left. */
TEST(hebrew_runs_to_the_left)
{
    need_fonts();
    draw(STYLE(.rgba = {0, 0, 0, 255}), "\u05d0\u05dd");
    struct image both = drawn;
    drawn.pixels = NULL;
    draw(STYLE(.rgba = {0, 0, 0, 255}), "\u05dd");
    assert_true(drawn.width < both.width);
    struct ink ink = ink_of_all();
    assert_int_equal(drawn.height, both.height);
    for (uint32_t y = 0; y < drawn.height; y++)
        assert_memory_equal(both.pixels + y * both.stride, drawn.pixels + y * drawn.stride,
                            4 * (size_t)ink.right);
    free(both.pixels);
}

/* Between two letters of Arabic there is no gap, unless the zero-width non-joiner is there. */
TEST(arabic_is_joined)
{
    need_fonts();
    draw(STYLE(.rgba = {0, 0, 0, 255}), "\u0628\u0628");
    uint32_t joined = drawn.width;
    draw(STYLE(.rgba = {0, 0, 0, 255}), "\u0628\u200c\u0628");
    assert_true(joined + 5 < drawn.width);
}

TEST(colour_is_exact)
{
    unsigned full = 0;
    need_fonts();
    draw(STYLE(.size = 60, .rgba = {12, 200, 99, 255}), "HI");
    for (size_t i = 0; i < (size_t)drawn.width * drawn.height; i++) {
        const uint8_t *pixel = drawn.pixels + 4 * i;
        full += pixel[3] == 255 && memcmp(pixel, (uint8_t[]){12, 200, 99}, 3) == 0;
        assert_true(pixel[3] < 255 || memcmp(pixel, (uint8_t[]){12, 200, 99}, 3) == 0);
    }
    assert_true(full > 300);
    draw(STYLE(.size = 60, .rgba = {255, 255, 255, 64}), "HI");
    full = 0;
    for (size_t i = 0; i < (size_t)drawn.width * drawn.height; i++) {
        full += drawn.pixels[4 * i + 3] == 64;
        assert_true(drawn.pixels[4 * i + 3] <= 64);
        assert_true(drawn.pixels[4 * i + 3] == 0 || drawn.pixels[4 * i] == 255);
    }
    assert_true(full > 300);
}

/* Large letters are filled as paths, at exact places; pango-view shows them at whole pixels. */
TEST(large_letters)
{
    need_fonts();
    if (system("command -v pango-view >/dev/null") != 0)
        skip(); /* there is no pango-view here */
    view(STYLE(.size = 400, .rgba = {200, 30, 90, 255}), "", "Affin\nMg");
    assert_in_range(drawn.width, rig.image.width, rig.image.width + 4);
    assert_int_equal(drawn.height, rig.image.height);
    uint64_t difference = 0, ink = 0;
    for (uint32_t y = 0; y < drawn.height; y++)
        for (uint32_t x = 0; x < rig.image.width; x++) {
            int a = drawn.pixels[y * drawn.stride + 4 * (size_t)x + 3];
            int b = rig.image.pixels[y * rig.image.stride + 4 * (size_t)x + 3];
            difference += (uint64_t)abs(a - b);
            ink += (uint64_t)b;
        }
    print_message("%llu of %llu differ\n", (unsigned long long)difference, (unsigned long long)ink);
    assert_true(difference * 50 < ink);
    draw(STYLE(.size = 400, .rgba = {1, 2, 3, 100}), "\u0633\u0644\u0627\u0645"); /* overlap */
    for (size_t i = 0; i < (size_t)drawn.width * drawn.height; i++)
        assert_in_range(drawn.pixels[4 * i + 3], 0, 100);
    if (!fonts.has_emoji)
        return;
    draw(STYLE(.size = 400, .rgba = {1, 2, 3, 100}), "\U0001f600"); /* keeps its alpha */
    size_t middle = (size_t)drawn.height / 2 * drawn.width + drawn.width / 2;
    assert_int_equal(drawn.pixels[4 * middle + 3], 255);
}

TEST(emoji_have_colours)
{
    unsigned yellow = 0;
    need_fonts();
    if (!fonts.has_emoji)
        skip(); /* Noto Color Emoji is not installed */
    draw(STYLE(.size = 60, .rgba = {0, 0, 255, 255}), "\U0001f600");
    for (size_t i = 0; i < (size_t)drawn.width * drawn.height; i++) {
        const uint8_t *pixel = drawn.pixels + 4 * i;
        yellow += pixel[3] == 255 && pixel[0] > 200 && pixel[1] > 150 && pixel[2] < 120;
    }
    assert_true(yellow > 1000);
}

/* ---- fonts ---- */

TEST(character_without_font)
{
    need_fonts();
    refuse(STYLE(0), "a \U00013000 b", STATUS_BAD_OP,
           "no installed font has the character U+13000; install one that has it");
    refuse(STYLE(0), "\ue123", STATUS_BAD_OP, "U+E123");
    draw(STYLE(.font = "No Such Family"), "DejaVu replaces it");
}

TEST(host_without_fonts)
{
    struct font_folder empty;
    need_fonts();
    font_folder_open_empty(&empty);
    setenv("FONTCONFIG_FILE", text_of("%s/fonts.conf", empty.path), 1);
    refuse(STYLE(0), "a", STATUS_BAD_OP, "no font is installed on this host; install one");
    refuse(STYLE(0), "a", STATUS_BAD_OP, "no font is installed on this host; install one");
    font_folder_close(&empty);
    setenv("FONTCONFIG_FILE", text_of("%s/fonts.conf", fonts.path), 1);
}

/* fontconfig's cache says that the font has the character, but the file was cut. */
TEST(font_that_cannot_be_read)
{
    struct font_folder folder;
    need_fonts();
    if (!fonts.has_han)
        skip(); /* Droid Sans Fallback is not installed */
    font_folder_open_empty(&folder);
    const char *copy = text_of("cp -L %s/fonts/latin.ttf %s/fonts/han.ttf %s/fonts", fonts.path,
                               fonts.path, folder.path);
    assert_int_equal(system(copy), 0);
    setenv("FONTCONFIG_FILE", text_of("%s/fonts.conf", folder.path), 1);
    draw(STYLE(0), "\u4e2d");
    codec_context_destroy(rig.context);
    rig.context = codec_context_create();
    assert_int_equal(truncate(text_of("%s/fonts/han.ttf", folder.path), 1000), 0);
    refuse(STYLE(0), "\u4e2d", STATUS_BAD_OP,
           "the installed font Droid Sans Fallback cannot be read; repair or remove it");
    font_folder_close(&folder);
    setenv("FONTCONFIG_FILE", text_of("%s/fonts.conf", fonts.path), 1);
}

/* ---- the process ---- */

/* A text replaces the process that has read images, and the new one reads images, too. */
TEST(images_and_texts)
{
    need_fonts();
    uint8_t bmp[58] = {'B', 'M', 58, [10] = 54, [14] = 40, [18] = 1, [22] = 1, [26] = 1, [28] = 24};
    const struct picture_file file = {.bytes = bmp, .length = sizeof bmp};
    for (int i = 0; i < 2; i++) {
        rig_reads(&file, STATUS_OK, NULL);
        draw(STYLE(.rgba = {0, 0, 0, 255}), "text");
        assert_true(ink_of_all().right > 0);
    }
}

/* The filter of system calls is also on threads that libraries have started. */
TEST(threads_are_confined)
{
    unsigned threads = 0, confined = 0;
    need_fonts();
    if (CONFINE_WITHOUT_LIMITS)
        skip();
    draw(STYLE(0), "text");
    const char *command = text_of("for p in $(cat /proc/%d/task/*/children); do "
                                  "[ $(cat /proc/$p/comm) != gpuimgd-codec ] || "
                                  "grep -h ^Seccomp: /proc/$p/task/*/status; done",
                                  (int)getpid());
    FILE *lines = popen(command, "r");
    assert_non_null(lines);
    for (char line[80]; fgets(line, sizeof line, lines); threads++)
        confined += strcmp(line, "Seccomp:\t2\n") == 0;
    pclose(lines);
    assert_true(threads > 0);
    assert_int_equal(confined, threads);
}

/* ---- hostile texts ---- */

/* Repeats a piece up to the limit of a text. */
static const char *repeated(const char *first, const char *piece)
{
    static char text[TEXT_BYTES_MAX + 1];
    size_t length = strlen(strcpy(text, first));
    for (size_t more = strlen(piece); length + more <= TEXT_BYTES_MAX; length += more)
        memcpy(text + length, piece, more);
    text[length] = '\0';
    return text;
}

TEST(hostile_texts)
{
    need_fonts();
    static const struct text_style small = {.font = "DejaVu Sans", .size = 12, .width = 400};
    draw(small, repeated("a", "\u0301"));             /* marks on one letter */
    draw(small, repeated("", "\u202e\u202b"));        /* directions that are never ended */
    draw(small, repeated("", "\u2067a\u2069\u05d0")); /* isolates */
    draw(small, repeated("", "\u200d\ufe0f"));
    draw(small, repeated("", "x"));
    draw(small, repeated("", "\u0628"));
    draw((struct text_style){.font = "DejaVu Sans", .size = 2}, repeated("", "\n"));
    draw(small, repeated("", "\u0644\u0627")); /* ligatures */
    draw(small, repeated("", "\t- "));
    static const char *const blank[] = {" ", "\n", "\t", "\u200b", "\u2028", "\u202e", "\u00ad"};
    for (size_t i = 0; i < COUNT_OF(blank); i++) {
        draw(small, blank[i]);
        assert_int_equal(ink_of_all().right, 0);
    }
}

TEST(too_large)
{
    need_fonts();
    refuse(STYLE(.size = TEXT_SIZE_MAX), repeated("", "W"), STATUS_IMAGE_TOO_LARGE,
           "pixels long; at most 1000000 are allowed before it is wrapped");
    refuse(STYLE(.size = TEXT_SIZE_MAX), repeated("", "\n"), STATUS_IMAGE_TOO_LARGE,
           "the text has 4097 lines and is 8194000 pixels high; a side may have at most 65500");
    refuse(STYLE(.size = TEXT_SIZE_MAX, .spacing = TEXT_SPACING_MAX), repeated("", "\n"),
           STATUS_IMAGE_TOO_LARGE, "4097 lines");
    refuse(STYLE(.size = 500), repeated("", "mmmmmmmm\n"), STATUS_IMAGE_TOO_LARGE, "pixels");
    rig.limits.side_max = SIDE_CEILING; /* more than cairo's */
    refuse(STYLE(.size = 100), text_of("%.400s", repeated("", "W")), STATUS_IMAGE_TOO_LARGE,
           "a side of a text may have at most 32767");
    rig.limits.side_max = SIDE_DEFAULT;
    rig.limits.pixels_max = 10000;
    refuse(STYLE(.size = 200), "MM", STATUS_IMAGE_TOO_LARGE, "10000");
    rig.limits.pixels_max = PIXELS_DEFAULT;
    rig.limits.deadline_ns = 1;
    refuse(STYLE(0), "late", STATUS_DECODE_LIMIT, "deadline");
}

/* Private memory of the process, and the number of the process; 0: there is none. */
static size_t private_bytes(int *pid)
{
    FILE *children = fopen("/proc/thread-self/children", "r");
    assert_non_null(children);
    *pid = 0;
    int found = fscanf(children, "%d", pid);
    fclose(children);
    size_t bytes = 0;
    FILE *lines = found == 1 ? fopen(text_of("/proc/%d/status", *pid), "r") : NULL;
    for (char line[128]; lines && fgets(line, sizeof line, lines);)
        (void)sscanf(line, "RssAnon: %zu", &bytes);
    if (lines)
        fclose(lines);
    return bytes * KIB;
}

/* Large letters, which cairo would keep one by one, and letters of all sizes. */
TEST(memory_is_returned)
{
    size_t most = 0;
    int pid;
    need_fonts();
    if (CONFINE_WITHOUT_LIMITS)
        skip();
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn";
    for (size_t i = 0; i < strlen(letters); i += 4) {
        draw(STYLE(.size = TEXT_SIZE_MAX, .rgba = {0, 0, 0, 255}), text_of("%.4s", letters + i));
        size_t bytes = private_bytes(&pid);
        most = bytes > most ? bytes : most;
    }
    print_message("%zu MiB stay after large letters\n", (size_t)(most / MIB));
    for (uint32_t size = 20; size <= 200; size += 2) {
        draw(STYLE(.size = size, .rgba = {0, 0, 0, 255}), letters);
        size_t bytes = private_bytes(&pid);
        most = bytes > most ? bytes : most;
    }
    print_message("%zu MiB stay after all sizes\n", (size_t)(most / MIB));
    assert_true(most <= CODEC_HEAP_IDLE_BYTES);
    codec_context_destroy(rig.context);
    rig.context = codec_context_create();
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    print_message("peak of all: %ld MiB\n", usage.ru_maxrss / 1024);
}

/* ---- the start of the process ---- */

static bool is_gone(const struct codec_caller *caller)
{
    (void)caller;
    return true;
}

/* fontconfig waits for its configuration, which is a pipe. The tasks end in time, and the process
 * goes on: the first text after its start uses it. */
TEST(slow_start)
{
    const struct codec_caller gone = {is_gone};
    int pid, next;
    need_fonts();
    const char *slow = text_of("%s/slow.conf", fonts.path);
    assert_int_equal(mkfifo(slow, 0600), 0);
    setenv("FONTCONFIG_FILE", slow, 1);
    rig.limits.deadline_ns = clock_now_ns() + 100 * 1000000ull;
    refuse(STYLE(0), "late", STATUS_DECODE_LIMIT,
           "the deadline for decoding passed while the codec process started");
    (void)private_bytes(&pid);
    rig.limits.deadline_ns = 0;
    rig.limits.caller = &gone;
    refuse(STYLE(0), "gone", STATUS_CANCELLED, "the job ended while the codec process started");
    rig.limits.caller = NULL;
    size_t length;
    uint8_t *conf = text_file_bytes(text_of("%s/fonts.conf", fonts.path), &length);
    assert_non_null(conf);
    int pipe = open(slow, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(pipe, conf, length), (ssize_t)length);
    close(pipe);
    free(conf);
    draw(STYLE(0), "text");
    (void)private_bytes(&next);
    assert_true(pid > 0);
    assert_int_equal(next, pid);
    setenv("FONTCONFIG_FILE", text_of("%s/fonts.conf", fonts.path), 1);
}

/* ---- all ---- */

static int open_fonts(void **state)
{
    (void)state;
    has_fonts = font_folder_open(&fonts);
    return 0;
}

static int close_fonts(void **state)
{
    (void)state;
    free(drawn.pixels);
    font_folder_close(&fonts);
    return 0;
}

TEST_MAIN(.name = "text_drawing", .setup = open_fonts, .teardown = close_fonts,
          .each_setup = rig_setup, .each_teardown = rig_teardown)
