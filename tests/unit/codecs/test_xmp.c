/* Tests of the XMP that outputs keep. */
#include "tests/fixtures/codec_rig.h"

#include "codecs/codec_impl.h"
#include "codecs/xml.h"

/* Copies a text. NULL: nothing is kept. free() it. */
static char *copy(const char *packet)
{
    uint8_t *to = NULL;
    size_t bytes = 0;
    assert_true(xmp_copy((const uint8_t *)packet, strlen(packet), &to, &bytes));
    char *text = to ? strndup((char *)to, bytes) : NULL;
    free(to);
    return text;
}

static void expect(const char *packet, const char *wanted)
{
    char *got = copy(packet);
    if (wanted)
        assert_non_null(got);
    else
        assert_null(got);
    if (wanted)
        assert_string_equal(got, wanted);
    free(got);
}

#define HEAD                                                                                       \
    "<?xpacket begin=\"\xEF\xBB\xBF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n<x:xmpmeta "              \
    "xmlns:x='adobe:ns:meta/'><rdf:RDF "                                                           \
    "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description rdf:about=\"\""
#define TAIL "</rdf:Description></rdf:RDF></x:xmpmeta>\n   \n<?xpacket end='w'?>"
#define XMP  " xmlns:xmp=\"http://ns.adobe.com/xap/1.0/\""
#define GIMG " xmlns:g=\"http://ns.adobe.com/xap/1.0/g/img/\""

TEST(test_other_properties_stay)
{
    static const char *const packets[] = {
        HEAD ">" TAIL,
        HEAD XMP " xmp:Rating = '4'\n\txmp:Label=\"a &lt; b > c\"  >text &amp; <!-- <a> --> "
                 "more" TAIL,
        HEAD XMP "><xmp:CreatorTool>Thumbnails</xmp:CreatorTool><a:ThumbnailsOff xmlns:a=\"b\"/>"
                 TAIL,
        HEAD " xmlns:p=\"http://ns.google.com/photos/1.0/panorama/\" p:UsePanoramaViewer=\"True\"/>"
             "</rdf:RDF></x:xmpmeta>",
        "plain text",
    };
    for (size_t i = 0; i < COUNT_OF(packets); i++)
        expect(packets[i], packets[i]);
}

TEST(test_thumbnails)
{
    static const char alt[] = "<rdf:Alt><rdf:li rdf:parseType=\"Resource\"><g:format>JPEG"
                              "</g:format><g:image>/9j/4AAQ</g:image></rdf:li></rdf:Alt>";
    static const char *const names[] = {"xmp:Thumbnails", "xap:Thumbnails", "Thumbnails"};
    char packet[2000];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(packet, sizeof packet, "%s%s%s><a/><%s\n>%s<!-- </%s> --></%s ><b/>%s", HEAD, XMP,
                 GIMG, names[i], alt, names[i], names[i], TAIL);
        expect(packet, HEAD XMP GIMG "><a/><b/>" TAIL);
        snprintf(packet, sizeof packet, "%s%s><%s/><b/>%s", HEAD, XMP, names[i], TAIL);
        expect(packet, HEAD XMP "><b/>" TAIL);
    }
    /* Nested elements of the same name, and the image under another property. */
    expect(HEAD XMP "><xmp:Thumbnails><xmp:Thumbnails>A</xmp:Thumbnails>B</xmp:Thumbnails>C" TAIL,
           HEAD XMP ">C" TAIL);
    expect(HEAD "><v:Version xmlns:v=\"v\"><i:image xmlns:i='http://ns.adobe.com/xap/1.0/g/img/'>"
           "/9j/</i:image></v:Version>" TAIL, HEAD "><v:Version xmlns:v=\"v\"></v:Version>" TAIL);
    expect(HEAD "><image xmlns='http://ns.adobe.com/xap/1.0/g/img/'>/9j/</image>" TAIL,
           HEAD ">" TAIL);
}

/* The photograph before it was edited, its depth, its sound, and the name of the extension that is
 * dropped. */
TEST(test_attributes)
{
    static const char *const names[] = {
        "http://ns.google.com/photos/1.0/image/", "http://ns.google.com/photos/1.0/depthmap/",
        "http://ns.google.com/photos/1.0/audio/", "http://ns.google.com/photos/1.0/camera/",
        "http://ns.google.com/photos/dd/1.0/image/", "http://ns.adobe.com/xmp/note/"};
    char packet[2000], wanted[2000];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(packet, sizeof packet, "%s xmlns:q='%s' a:b='c'\n q:Data = \"/9j/>\" q:Mime='x' "
                 "xmlns:a='a'>text%s", HEAD, names[i], TAIL);
        snprintf(wanted, sizeof wanted, "%s xmlns:q='%s' a:b='c' xmlns:a='a'>text%s", HEAD,
                 names[i], TAIL);
        expect(packet, wanted);
    }
}

/* An image that the scanner cannot find stays hidden in none of these. */
TEST(test_broken)
{
    static const char *const packets[] = {
        "", "<", "<a", "<a>", "</a>", "<a></a></a>", "<a b></a>", "<a b=c></a>", "<a b=\"c></a>",
        "<a b='<'></a>", "<a b='1'c='2'></a>", "<!DOCTYPE x [<!ENTITY y 'z'>]><a>&y;</a>",
        "<!-- <a></a>", "<? <a></a>", "<![CDATA[ <a></a>", "< a></a>", "<a/ ></a>", "<a></a",
        "<a></ a>", "<>", "<!>"};
    for (size_t i = 0; i < COUNT_OF(packets); i++)
        expect(packets[i], NULL);
    static const char whole[] = HEAD XMP " xmp:Rating='4'><a b=\"c\"/>" TAIL;
    for (size_t length = 0; length < strlen(whole); length++) {
        char *part = strndup(whole, length), *got = copy(part);
        assert_true(!got || strcmp(got, part) == 0);
        free(got);
        free(part);
    }
}

/* With its thumbnails, a packet may be larger than one that is kept. */
TEST(test_sizes)
{
    for (int i = 0; i < 4; i++) {
        size_t image = i < 2 ? 1 << 20 : XMP_SOURCE_BYTES_MAX, kept = XMP_BYTES_MAX + (i == 1);
        struct picture_file packet = picture_garbage(kept, 1);
        memset(packet.bytes, 'x', kept);
        uint8_t *value = malloc(image);
        memset(value, 'A', image);
        picture_insert(&packet, 9, "<xmp:Thumbnails></xmp:Thumbnails>", 33);
        picture_insert(&packet, 9 + 16, value, image - (i == 3 ? 33 + kept : 0));
        uint8_t *to = NULL;
        size_t bytes = 0;
        assert_true(xmp_copy(packet.bytes, packet.length, &to, &bytes));
        assert_int_equal(bytes, i == 0 || i == 3 ? kept : 0);
        free(to);
        free(value);
        picture_free(&packet);
    }
}

/* ---- bounds ---- */

/* A packet of an element with a head, and as much of a text as fits `bytes` and `count`. */
static struct picture_file repeat(const char *head, const char *text, size_t bytes, size_t count)
{
    size_t head_bytes = strlen(head), text_bytes = strlen(text);
    size_t fit = (bytes - head_bytes - 2) / text_bytes;
    struct picture_file packet = {NULL, head_bytes + (fit < count ? fit : count) * text_bytes + 2};
    packet.bytes = malloc(packet.length);
    memcpy(packet.bytes, head, head_bytes);
    for (size_t at = head_bytes; at < packet.length - 2; at += text_bytes)
        memcpy(packet.bytes + at, text, text_bytes);
    memcpy(packet.bytes + packet.length - 2, "/>", 2);
    return packet;
}

/* Returns whether something is kept, as a copy or as a notice. Frees the packet. */
static bool is_kept(struct picture_file packet)
{
    uint8_t *xmp = NULL, *words = NULL;
    size_t bytes = 0;
    uint64_t start = clock_thread_cpu_ns();
    assert_true(xmp_copy(packet.bytes, packet.length, &xmp, &bytes));
    assert_true(xmp_notice(packet.bytes, packet.length, &words, &bytes));
    assert_true(clock_thread_cpu_ns() - start < 500000000u); /* 50 ms, with a sanitizer more */
    bool kept = xmp || words;
    free(xmp);
    free(words);
    picture_free(&packet);
    return kept;
}

#define NOTE_P "xmlns:p='http://ns.adobe.com/xmp/note/'"

TEST(test_many_parts)
{
    char head[6000] = "<p:a", one[100];
    for (int i = 0; i < 32; i++) {
        snprintf(one, sizeof one, " xmlns:p%02d='http://ns.adobe.com/xmp/note/'", i);
        strcat(head, one);
    }
    static const char *const texts[] = {" a:x=\"\"", " p31:x=\"\"", " p:x=\"\"", " x=\"\"",
                                        " " NOTE_P};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_false(is_kept(repeat(head, texts[i], XMP_SOURCE_BYTES_MAX, SIZE_MAX)));
    assert_false(is_kept(repeat("<a>", "<b/><p:c/>", XMP_SOURCE_BYTES_MAX, SIZE_MAX)));
    assert_false(is_kept(repeat("<a>", "<b>", XMP_SOURCE_BYTES_MAX, SIZE_MAX)));
    assert_false(is_kept(repeat("<a ", "n", XMP_SOURCE_BYTES_MAX, SIZE_MAX)));
    assert_true(is_kept(repeat(head, " p31:x=\"\"", XMP_SOURCE_BYTES_MAX, 65000)));
    strcat(head, " xmlns:more='http://ns.adobe.com/xmp/note/'");
    assert_false(is_kept(repeat(head, " b='c'", 10000, 1)));
    /* Declarations of one prefix count once. */
    assert_true(is_kept(repeat("<a", " " NOTE_P, 100000, 1000)));
    memset(one, 'p', sizeof one);
    snprintf(head, sizeof head, "<a xmlns:%.65s='http://ns.adobe.com/xmp/note/'", one);
    assert_false(is_kept(repeat(head, " b='c'", 1000, 1)));
}

/* A prefix of two namespaces has both. */
TEST(test_prefix_of_two_namespaces)
{
    expect(HEAD "><a xmlns:p=\"http://ns.google.com/photos/1.0/image/\" p:Data=\"/9j/\"/>"
           "<b xmlns:p=\"http://purl.org/dc/elements/1.1/\"/>" TAIL,
           HEAD "><a xmlns:p=\"http://ns.google.com/photos/1.0/image/\"/>"
           "<b xmlns:p=\"http://purl.org/dc/elements/1.1/\"/>" TAIL);
}

/* ---- the notice ---- */

static char *notice(bool is_iptc, const void *bytes, size_t length)
{
    uint8_t *to = NULL;
    size_t count = 0;
    assert_true(is_iptc ? iptc_notice(bytes, length, &to, &count)
                        : xmp_notice(bytes, length, &to, &count));
    char *text = to ? strndup((char *)to, count) : NULL;
    free(to);
    return text;
}

#define NOTICE_HEAD                                                                                \
    "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF "                                              \
    "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">"                                   \
    "<rdf:Description rdf:about=\"\" "                                                             \
    "xmlns:dc=\"http://purl.org/dc/elements/1.1/\" "                                               \
    "xmlns:photoshop=\"http://ns.adobe.com/photoshop/1.0/\" "                                      \
    "xmlns:xmpRights=\"http://ns.adobe.com/xap/1.0/rights/\">"
#define NOTICE_TAIL "</rdf:Description></rdf:RDF></x:xmpmeta>"
#define SPACES                                                                                     \
    " xmlns:d=\"http://purl.org/dc/elements/1.1/\" "                                               \
    "xmlns:ps='http://ns.adobe.com/photoshop/1.0/' "                                               \
    "xmlns:r=\"http://ns.adobe.com/xap/1.0/rights/\" xmlns:exif=\"http://ns.adobe.com/exif/1.0/\""

static void expect_notice(const char *packet, const char *wanted)
{
    char *got = notice(false, packet, strlen(packet));
    if (!wanted)
        assert_null(got);
    else
        assert_string_equal(got ? got : "", wanted);
    free(got);
}

/* Elements and attributes, under any prefix; nothing else is copied. */
TEST(test_notice)
{
    expect_notice(HEAD SPACES " exif:GPSLatitude=\"52,31N\" ps:Credit=\"A &amp; B > C\" "
                  "r:WebStatement='https://h/'><d:creator>\n <rdf:Seq>\n <rdf:li>Ann</rdf:li>\n"
                  "<rdf:li>Bob &lt;b@h&gt;</rdf:li></rdf:Seq></d:creator><d:title><rdf:Alt>"
                  "<rdf:li>Title</rdf:li></rdf:Alt></d:title><d:rights><rdf:Alt><rdf:li "
                  "xml:lang=\"x-default\">(c) Ann</rdf:li><rdf:li xml:lang=\"de\">(c) A.</rdf:li>"
                  "</rdf:Alt></d:rights><exif:SerialNumber>4711</exif:SerialNumber>" TAIL,
                  NOTICE_HEAD "<dc:creator><rdf:Seq><rdf:li>Ann</rdf:li><rdf:li>Bob &lt;b@h&gt;"
                  "</rdf:li></rdf:Seq></dc:creator><dc:rights><rdf:Alt><rdf:li "
                  "xml:lang=\"x-default\">(c) Ann</rdf:li></rdf:Alt></dc:rights>"
                  "<photoshop:Credit>A &amp; B > C</photoshop:Credit><xmpRights:WebStatement>"
                  "https://h/</xmpRights:WebStatement>" NOTICE_TAIL);
    expect_notice(HEAD SPACES "><ps:Credit>C</ps:Credit><r:UsageTerms><rdf:Alt><rdf:li>U</rdf:li>"
                  "</rdf:Alt></r:UsageTerms>" TAIL,
                  NOTICE_HEAD "<photoshop:Credit>C</photoshop:Credit><xmpRights:UsageTerms>"
                  "<rdf:Alt><rdf:li xml:lang=\"x-default\">U</rdf:li></rdf:Alt>"
                  "</xmpRights:UsageTerms>" NOTICE_TAIL);
    expect_notice(HEAD SPACES " creator=\"no namespace\"><d:title>T</d:title><d:rights/>" TAIL,
                  NULL);
    expect_notice(HEAD " xmlns:dc=\"another\" dc:creator=\"Ann\">" TAIL, NULL);
    expect_notice(HEAD SPACES "><d:creator>Ann</d:creator>", NULL); /* no end */
}

/* A character or an entity may spell a namespace in another way. */
TEST(test_references_in_namespaces)
{
    static const char *const uris[] = {"http://ns.google.com/photos/1.0/image&#47;",
                                       "http://ns.google.com/photos/1.0/depthmap&#x2f;",
                                       "&#104;ttp://ns.adobe.com/xap/1.0/g/img/", "a?b&amp;c"};
    char packet[1000];
    for (size_t i = 0; i < 2 * COUNT_OF(uris); i++) {
        const char *prefix = i % 2 ? "" : ":q";
        snprintf(packet, sizeof packet, "%s xmlns%s='%s' a:b='c' d:creator='Ann' " SPACES ">%s",
                 HEAD, prefix, uris[i / 2], TAIL);
        expect(packet, NULL);
        expect_notice(packet, NULL);
    }
    expect(HEAD " a:b='&amp;'>&lt;" TAIL, HEAD " a:b='&amp;'>&lt;" TAIL);
}

/* Text of another element in a property is not its value. */
TEST(test_other_elements_in_notice)
{
    static const char wanted[] = NOTICE_HEAD "<dc:creator><rdf:Seq><rdf:li>Ann</rdf:li></rdf:Seq>"
                                 "</dc:creator>" NOTICE_TAIL;
    expect_notice(HEAD SPACES "><d:creator><rdf:Bag><rdf:li>Ann</rdf:li><rdf:li><exif:GPSLatitude>"
                  "52N<rdf:li>13E</rdf:li></exif:GPSLatitude><e/></rdf:li></rdf:Bag></d:creator>"
                  "<d:rights><xmp:Thumbnails>/9j/</xmp:Thumbnails></d:rights>" TAIL, wanted);
    expect_notice(HEAD SPACES "><d:creator><q:Seq><q:li>B</q:li></q:Seq>Ann</d:creator>"
                  "<xmp:Thumbnails ps:Credit=\"C\"><d:rights>R</d:rights></xmp:Thumbnails>"
                  "<d:rights><a><b/><c>D</c></a></d:rights>" TAIL, wanted);
}

/* Long and many values stay in their bounds. */
TEST(test_notice_bounds)
{
    struct picture_file packet = picture_empty();
    static const char head[] = HEAD SPACES "><d:creator><rdf:Seq>", item[] = "<rdf:li>Ann</rdf:li>",
                      tail[] = "</rdf:Seq></d:creator>" TAIL;
    picture_insert(&packet, 0, head, sizeof head - 1);
    for (int i = 0; i < 3000; i++)
        picture_insert(&packet, packet.length, item, sizeof item - 1);
    picture_insert(&packet, packet.length, tail, sizeof tail - 1);
    char *got = notice(false, packet.bytes, packet.length);
    assert_non_null(got);
    assert_true(strlen(got) < 1000);
    free(got);
    uint8_t *text = malloc(XMP_BYTES_MAX);
    memset(text, 'x', XMP_BYTES_MAX);
    picture_insert(&packet, sizeof head - 1 + 8, text, XMP_BYTES_MAX);
    assert_null(notice(false, packet.bytes, packet.length));
    free(text);
    picture_free(&packet);
}

/* ---- IPTC ---- */

/* Photoshop's resources: a resolution, and IPTC of these bytes. */
static struct picture_file resources(const char *iptc, size_t length)
{
    struct picture_file file = picture_empty();
    picture_insert(&file, 0, "8BIM\3\355\3abc\0\0\0\3xyz\0", 18);
    picture_insert(&file, file.length, "8BIM\4\4\0\0\0\0\0", 11);
    picture_insert(&file, file.length, &(uint8_t){(uint8_t)length}, 1);
    picture_insert(&file, file.length, iptc, length);
    if (length % 2)
        picture_insert(&file, file.length, "", 1);
    return file;
}

TEST(test_iptc)
{
    static const char iptc[] = "\34\2\0\0\2\0\4\34\2\120\0\3Ann\34\2\120\0\3B\344r\34\2\5\0\5Title"
                               "\34\2\164\0\5<c> &\34\2\156\0\3\303\244\1";
    struct picture_file file = resources(iptc, sizeof iptc - 1);
    char *got = notice(true, file.bytes, file.length);
    assert_string_equal(got ? got : "",
                        NOTICE_HEAD "<dc:creator><rdf:Seq><rdf:li>Ann</rdf:li><rdf:li>B\303\244r"
                        "</rdf:li></rdf:Seq></dc:creator><dc:rights><rdf:Alt><rdf:li "
                        "xml:lang=\"x-default\">&lt;c&gt; &amp;</rdf:li></rdf:Alt></dc:rights>"
                        "<photoshop:Credit>\303\244</photoshop:Credit>" NOTICE_TAIL);
    free(got);
    for (size_t length = 0; length < file.length; length++) {
        struct picture_file part = picture_cut(&file, length);
        free(notice(true, part.bytes, length));
        picture_free(&part);
    }
    uint32_t random = 7;
    for (int i = 0; i < 3000; i++) {
        struct picture_file bad = picture_damage(&file, 0, file.length, &random);
        free(notice(true, bad.bytes, bad.length));
        picture_free(&bad);
    }
    picture_free(&file);
}

TEST_MAIN(.name = "xmp")
