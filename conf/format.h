/* format.h - the image formats that gpuimgd reads and writes, from formats.def. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum format_id {
#define FORMAT(name, ...) FORMAT_##name,
#include "conf/formats.def"
    FORMAT_COUNT
};

enum encoder_parameter {
#define PARAMETER(name, ...) PARAMETER_##name,
#include "conf/formats.def"
    PARAMETER_COUNT
};

/* Metadata of an input that an output may keep: a set of bits. */
enum metadata {
    METADATA_ICC = 1,
    METADATA_EXIF = 2,
    METADATA_XMP = 4,
    METADATA_COPYRIGHT =
        8, /* the texts about copyright of EXIF, XMP and IPTC, in new EXIF and XMP */
    METADATA_DENSITY = 16, /* the resolution, also for an output of another size */
    METADATA_ALL = 31
};

/* The bit of a parameter in format.parameters. */
#define TAKES(name) (1u << PARAMETER_##name)

/* The formats of an output whose format is "auto": those that browsers show, of different ages. */
#define FORMATS_AUTO (1u << FORMAT_jpeg | 1u << FORMAT_webp | 1u << FORMAT_avif)

/* The values of the parameter `subsampling`, in the order of its words. */
enum subsampling {
    SUBSAMPLING_420,
    SUBSAMPLING_422,
    SUBSAMPLING_444,
    SUBSAMPLING_GRAY, /* one component, also if the image is RGB */
    SUBSAMPLING_440   /* jobs cannot name it: only the self-test writes it */
};

/* The values of the parameters of tensors, in the order of their words. */
enum tensor_type { TENSOR_U8, TENSOR_F16, TENSOR_F32 };
enum tensor_layout { TENSOR_HWC, TENSOR_CHW };
enum tensor_channels { TENSOR_AS_IMAGE, TENSOR_GRAY, TENSOR_RGB };

/* The size of a number of a type. */
static inline size_t tensor_number_bytes(int type)
{
    return (size_t)1 << type;
}

/* Bounds of the numbers of normalize. In float32, none of them is 0, infinite or subnormal. */
#define NORMALIZE_MAX     1e6
#define NORMALIZE_STD_MIN 1e-6

/* The key `normalize` of a job's output: a value v becomes (v / 255 - mean) / std. */
struct normalization {
    bool given;
    int mean_count, std_count; /* 1: the same number for all channels */
    double mean[4], std[4];
};

/* The similarity of an image to itself (codecs/ssim.h). Six decimal places are more than anyone can
 * see, and the sum of all windows fits 64 bits. */
#define SSIM_ONE 1000000

/* The parameters of all encoders. An encoder reads only its own. */
struct encoder_settings {
#define PARAMETER(name, ...) int name;
#include "conf/formats.def"
    /* The parameter `quality` as an object: the lowest quality of quality_min to quality whose file
     * has this similarity to the image, in units of 1 / SSIM_ONE (codecs/ssim.h). 0: the quality is
     * given. */
    int ssim, quality_min;
};

struct format {
    const char *name;
    const char *noun;        /* with its article, for messages: "a JPEG" */
    const char *mime;
    const char *suffixes[5]; /* lower case, without dot, NULL at the end; new files get the first */
    const char *also_reads;  /* a suffix of files that are read; an output cannot have it */
    bool gray;               /* stores gray images; otherwise the encoder writes them as RGB */
    bool alpha;              /* stores an alpha channel */
    bool lossless;           /* decoding restores the encoded pixels */
    const char *part;        /* one of several images in a file: "page"; NULL: "frame" */
    bool first_only;         /* of several, only the first or the primary one can be read */
    bool movies;             /* files of it can be the frames of one animation: codecs/movie.h */
    bool tensor;             /* an array of numbers: codecs/tensor.h */
    unsigned side_max;       /* the most pixels per side; 0: SIDE_CEILING */
    unsigned parameters;     /* TAKES(...) of each parameter of its encoder */
    struct encoder_settings defaults; /* of this format; 0: that of encoder_defaults */
    const char *reads; /* the variants that the decoder reads, for gpuimgd-job(5); NULL: the format
                          is only written */
    const char *library; /* decodes it in a codec process (codecs/process/), and may encode it;
                            NULL: the daemon itself decodes it */
    const char *becomes; /* the format of an output that names none; the format itself is only
                            read. NULL: the format is written */
};

enum parameter_kind {
    PARAMETER_IS_INTEGER,
    PARAMETER_IS_EITHER, /* of two integers: min or max */
    PARAMETER_IS_QUALITY,
    PARAMETER_IS_BOOL,
    PARAMETER_IS_WORD
};

struct parameter_row {
    const char *name;
    enum parameter_kind kind;
    const char *words[6]; /* of PARAMETER_IS_WORD, NULL at the end */
    int min, max, standard;
    const char *help;
};

extern const struct format formats[FORMAT_COUNT];
extern const struct parameter_row encoder_parameters[PARAMETER_COUNT];
extern const struct encoder_settings encoder_defaults;

/* The format that is written with this name ("jpeg") or suffix ("jpg"); NULL if there is none. */
const struct format *format_by_name(const char *name);
/* The format that is written with a suffix without its dot, in upper or lower case; NULL if there
 * is none. */
const struct format *format_by_suffix(const char *suffix);
/* The format that is written with a path's suffix; NULL if there is none. */
const struct format *format_of_path(const char *path);
/* The suffix of a path, with its dot, if it is one of an image format that gpuimgd does not write
 * (".gif"), almost a known suffix (".pgn"), or of 3 or 4 letters (".xyz"); otherwise NULL. Usual
 * endings of copies (".bak"), and other suffixes ("cat", "cat.v2"), say nothing about the format.
 * of_url: the path is that of a URL, whose last part may be the name of a program (".php"): letters
 * alone do not count. *near: the suffix that may be meant, without a dot, or NULL. */
const char *format_wrong_suffix(const char *path, bool of_url, const char **near);

/* Whether files of a suffix without its dot, or of a path's suffix, are read. */
bool format_reads_suffix(const char *suffix);
bool format_reads_path(const char *path);
/* The format that is read with a path's suffix; NULL if there is none. */
const struct format *format_to_read(const char *path);
/* The format of an output that names none: the input's format. If that is only read, its `becomes`,
 * or PNG if the image has alpha and that format has none. */
const struct format *format_of_output(const struct format *input, bool alpha);
/* The suffix of an output that names no format, for an input with this suffix (without a dot): the
 * same, or for a suffix that is only read that of the format, or of its `becomes`, because the name
 * of an output cannot depend on alpha. */
const char *format_output_suffix(const char *suffix);
/* The format that a file of this one becomes without loss (the parameter recompress); NULL: none.
 */
const struct format *format_recompressed(const struct format *format);
const char *format_title(const struct format *format); /* the noun without its article */
/* One of several images in a file of the format, for messages: "frame". */
const char *format_part(const struct format *format);
int *encoder_setting(struct encoder_settings *settings, enum encoder_parameter parameter);
/* Writes a value as a job gives it, without quotes ("85", "true", "420"), and returns `text`. */
#define PARAMETER_TEXT_BYTES 16
const char *parameter_text(enum encoder_parameter parameter, int value,
                           char text[PARAMETER_TEXT_BYTES]);
/* Returns the default of a parameter of this format's encoder. */
int format_default(const struct format *format, enum encoder_parameter parameter);

/* Suffixes of all formats. */
#define FORMAT_SUFFIXES_MAX (FORMAT_COUNT * sizeof formats->suffixes / sizeof *formats->suffixes)

enum format_field {
    FORMAT_NAMES,    /* jpeg */
    FORMAT_TITLES,   /* JPEG */
    FORMAT_NOUNS,    /* a JPEG */
    FORMAT_SUFFIXES, /* jpg, jpeg */
};
#define FORMAT_LIST_BYTES 256

/* For format_list, instead of parameters: the formats that are read. All else that it lists are
 * formats that are written. */
#define FORMATS_READ (1u << 31)

/* Writes and returns a list like "jpg, jpeg or png" of the formats whose encoder has all parameters
 * of the set `taking`. item: printf format of a word (".%s"); last: the last separator (" or "). */
const char *format_list(enum format_field field, unsigned taking, const char *item,
                        const char *last, char text[FORMAT_LIST_BYTES]);
