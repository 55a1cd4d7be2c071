#include "tests/cuda/pass_rig.h"

#include "gpu/ops/resample.h"
#include "tests/cuda/launch.h"
#include "tests/fixtures/gpu/gpu_run.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define ROOM          ((size_t)96 << 20)
#define GAP           512          /* pattern bytes between two buffers */
#define ROW_GAP       STRIDE_ALIGN /* and between two rows, after their padding */
#define PATTERN_BYTES 4093         /* prime, so that no two rows begin alike */

struct rig_totals pass_rig_totals;

/* The same offsets are used in all four: the memory before the pass, that of the CPU engine, that
 * of the device, and its copy. */
static struct {
    uint8_t *before, *here, *device, *there;
    size_t used;
    cudaStream_t stream;
} rig;

/* Where the buffers of a pass are. */
struct placed {
    size_t from, from_bytes, to, to_bytes, work, constants;
    size_t from_stride, to_stride, from_origin; /* from_origin: of the window */
    size_t packed, packed_bytes; /* a packed image for the device: its input or result; 0: none */
    struct pass bound;
};

static void must(cudaError_t status, const char *call)
{
    if (status != cudaSuccess)
        fail_msg("%s: CUDA error %d", call, (int)status);
}
#define MUST(call) must((cudaError_t)(call), #call)

bool pass_rig_open(void)
{
    int count = 0;
    if (launchers_run_cpu_passes) {
        print_message("there is no C++ compiler here, which compiles the CUDA kernels\n");
        return false;
    }
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        print_message("no CUDA device\n");
        return false;
    }
    rig.before = malloc(ROOM);
    rig.here = malloc(ROOM);
    rig.there = malloc(ROOM);
    return rig.before && rig.here && rig.there &&
           cudaMalloc((void **)&rig.device, ROOM) == cudaSuccess &&
           cudaStreamCreateWithFlags(&rig.stream, cudaStreamNonBlocking) == cudaSuccess;
}

void pass_rig_close(void)
{
    if (rig.stream)
        (void)cudaStreamDestroy(rig.stream);
    (void)cudaFree(rig.device);
    free(rig.before);
    free(rig.here);
    free(rig.there);
}

/* ---- packed images (resample.h) ---- */

/* The shape of the packed image that the pass writes or reads on a device. */
static const struct pass_shape *packed_shape(const struct pass *pass)
{
    bool resamples = pass->type == &pass_resample_x || pass->type == &pass_resample_y;
    if (!resamples || !((const struct resample *)pass->params)->packed)
        return NULL;
    return pass->type == &pass_resample_x ? &pass->to : &pass->from;
}

/* Where byte `byte` of row y is. */
static uint8_t *packed_at(uint8_t *packed, const struct pass_shape *shape, uint32_t y, size_t byte)
{
    size_t row = y / 16 * 4 + y % 8 / 2, x = byte / shape->channels, c = byte % shape->channels;
    size_t word = x / 8 * 8 * shape->channels + c * 8 + x % 8;
    return packed + row * resample_packed_stride(shape->width, shape->channels) + word * 4 + y % 2 +
           y % 16 / 8 * 2;
}

/* The shape in which the result of a pass is placed and compared: a tensor is one row. */
static struct pass_shape shape_of(const struct pass *pass)
{
    struct pass_shape row = {(uint32_t)pass->tensor_bytes, 1, 1};
    return pass->tensor_bytes > 0 ? row : pass->to;
}

/* ---- placing ---- */

static size_t take(size_t bytes)
{
    size_t at = buffer_align(rig.used + GAP);
    rig.used = at + bytes + GAP;
    assert_true(rig.used <= ROOM);
    return at;
}

/* phash reads a stack of images without gaps between their rows. */
static size_t stride_of(uint32_t width, uint32_t channels, bool tight)
{
    return image_stride(width, channels) + (tight ? 0 : ROW_GAP);
}

/* Lays out the buffers of a pass. */
static void place(const struct rig_pass *own, struct placed *placed)
{
    const struct pass *pass = own->pass;
    const struct pass_window *window = &pass->window;
    uint32_t channels = pass->from.channels;
    assert_true(own->in.width == window->width && own->in.height == window->height &&
                own->in.channels == channels);
    placed->from_stride = stride_of(window->width, channels, pass->stacked);
    placed->from_bytes = placed->from_stride * window->height;
    placed->from = take(placed->from_bytes);
    placed->from_origin =
        placed->from + window->y * placed->from_stride + (size_t)window->x * channels;
    struct pass_shape to = shape_of(pass);
    placed->to_stride = stride_of(to.width, to.channels, false);
    placed->to_bytes = pass->looks ? 0 : placed->to_stride * to.height;
    placed->to = take(placed->to_bytes);
    const struct pass_shape *shape = packed_shape(pass);
    placed->packed_bytes =
        shape ? resample_packed_bytes(shape->width, shape->height, shape->channels) : 0;
    placed->packed = take(placed->packed_bytes);
    placed->work = take(pass->work_bytes);
    placed->constants = take(pass->constants_bytes);
    placed->bound = *pass;
}

/* Noise: some operations keep gray, and would write a pattern of equal bytes again. */
static void fill_pattern(uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 1;
    size_t noise = rig.used < PATTERN_BYTES ? rig.used : PATTERN_BYTES;
    for (size_t i = 0; i < noise; i++)
        rig.before[i] = (uint8_t)(test_random(&state) >> 11);
    for (size_t i = noise; i < rig.used; i++)
        rig.before[i] = rig.before[i - PATTERN_BYTES];
}

/* Fills in the pixels of the window, and no others, and the constants. */
static void fill(const struct rig_pass *own, const struct placed *placed)
{
    const struct pass *pass = own->pass;
    size_t row = (size_t)pass->from.width * pass->from.channels;
    for (uint32_t y = 0; y < pass->from.height; y++)
        memcpy(rig.before + placed->from_origin + y * placed->from_stride,
               raster_at(&own->in, pass->window.x, pass->window.y + y), row);
    if (placed->packed_bytes > 0 && pass->type == &pass_resample_y)
        for (uint32_t y = 0; y < pass->from.height; y++)
            for (size_t i = 0; i < row; i++)
                *packed_at(rig.before + placed->packed, &pass->from, y, i) =
                    raster_at(&own->in, 0, y)[i];
    if (pass->constants_bytes == 0)
        return;
    memset(rig.before + placed->constants, 0, pass->constants_bytes);
    if (pass->fill)
        pass->fill(pass, rig.before + placed->constants);
}

/* The call in the memory at `base`. The bound pass must stay valid. */
static struct pass_call call_of(struct placed *placed, struct pass *bound, uint8_t *base)
{
    const struct pass *pass = &placed->bound;
    *bound = *pass;
    bound->constants = base + placed->constants;
    return (struct pass_call){
        .pass = bound,
        .from = {base + placed->from_origin, pass->from.width, pass->from.height,
                 pass->from.channels, placed->from_stride},
        .to = {base + placed->to, pass->to.width, pass->to.height, pass->to.channels,
               placed->to_stride},
        .work = base + placed->work,
    };
}

/* ---- AddressSanitizer: kernels on the host may only read what the images of a pass own ---- */

#ifdef __SANITIZE_ADDRESS__
static void allow_rows(size_t start, size_t stride, uint32_t rows, size_t own)
{
    for (uint32_t y = 0; y < rows; y++)
        __asan_unpoison_memory_region(rig.device + start + y * stride, own);
}

static void forbid_gaps(const struct placed *placed, size_t count)
{
    MUST(cudaStreamSynchronize(rig.stream));
    __asan_poison_memory_region(rig.device, rig.used);
    for (size_t i = 0; i < count; i++) {
        const struct pass *pass = &placed[i].bound;
        allow_rows(placed[i].from, placed[i].from_stride, pass->window.height,
                   image_stride(pass->window.width, pass->from.channels));
        struct pass_shape to = shape_of(pass);
        if (!pass->looks)
            allow_rows(placed[i].to, placed[i].to_stride, to.height,
                       image_stride(to.width, to.channels));
        __asan_unpoison_memory_region(rig.device + placed[i].packed, placed[i].packed_bytes);
        __asan_unpoison_memory_region(rig.device + placed[i].work, pass->work_bytes);
        __asan_unpoison_memory_region(rig.device + placed[i].constants, pass->constants_bytes);
    }
}

static void allow_gaps(void)
{
    MUST(cudaStreamSynchronize(rig.stream));
    __asan_unpoison_memory_region(rig.device, rig.used);
}
#else
static void forbid_gaps(const struct placed *placed, size_t count)
{
}

static void allow_gaps(void)
{
}
#endif

/* ---- running ---- */

static void run_here(struct placed *placed, size_t count)
{
    memcpy(rig.here, rig.before, rig.used);
    for (size_t i = 0; i < count; i++) {
        struct pass bound;
        struct pass_call call = call_of(&placed[i], &bound, rig.here);
        if (bound.looks)
            call.to = call.from;
        bound.type->cpu(&bound, &call.from, &call.to, call.work);
    }
}

/* Unpacks the result of the device. */
static void unpack(const struct placed *placed)
{
    const struct pass_shape *to = &placed->bound.to;
    for (uint32_t y = 0; y < to->height; y++)
        for (size_t i = 0; i < (size_t)to->width * to->channels; i++)
            rig.there[placed->to + y * placed->to_stride + i] =
                *packed_at(rig.there + placed->packed, to, y, i);
}

static void run_there(struct placed *placed, size_t count)
{
    static struct pass bound[PASSES_SHARED_MAX];
    struct pass_call calls[PASSES_SHARED_MAX];
    MUST(cudaMemcpyAsync(rig.device, rig.before, rig.used, cudaMemcpyHostToDevice, rig.stream));
    for (size_t i = 0; i < count; i++) {
        calls[i] = call_of(&placed[i], &bound[i], rig.device);
        if (bound[i].looks)
            calls[i].to = calls[i].from;
        if (placed[i].packed_bytes > 0) {
            bool writes = bound[i].type == &pass_resample_x;
            *(writes ? &calls[i].to.pixels : &calls[i].from.pixels) = rig.device + placed[i].packed;
        }
    }
    forbid_gaps(placed, count);
    if (count == 1)
        MUST(pass_launch(&calls[0], rig.stream));
    else
        MUST(bound[0].type->cuda_many(calls, (uint32_t)count, rig.stream));
    allow_gaps();
    MUST(cudaMemcpyAsync(rig.there, rig.device, rig.used, cudaMemcpyDeviceToHost, rig.stream));
    MUST(cudaStreamSynchronize(rig.stream));
    for (size_t i = 0; i < count; i++)
        if (placed[i].packed_bytes > 0 && bound[i].type == &pass_resample_x)
            unpack(&placed[i]);
}

/* ---- checking ---- */

static void compare_pixels(const struct rig_pass *own, const struct placed *placed)
{
    struct pass_shape shape = shape_of(own->pass), *to = &shape;
    size_t row = (size_t)to->width * to->channels;
    for (uint32_t y = 0; y < to->height; y++) {
        const uint8_t *want = rig.here + placed->to + y * placed->to_stride;
        const uint8_t *got = rig.there + placed->to + y * placed->to_stride;
        size_t at = 0;
        while (at < row && got[at] == want[at])
            at++;
        if (at < row)
            fail_msg("%s: %s: byte %zu of row %u of %u x %u x %u is %u on CUDA and %u on the CPU",
                     own->what, own->pass->type->name, at, y, to->width, to->height, to->channels,
                     got[at], want[at]);
    }
}

static char *values_of(const struct pass *pass, const uint8_t *work)
{
    cJSON *values = pass->values(pass, work);
    char *text = cJSON_PrintUnformatted(values);
    assert_non_null(text);
    cJSON_Delete(values);
    return text;
}

static void compare_values(struct rig_pass *own, const struct placed *placed)
{
    char *got = values_of(own->pass, rig.there + placed->work);
    own->values = values_of(own->pass, rig.here + placed->work);
    if (strcmp(got, own->values) != 0)
        fail_msg("%s: %s: CUDA gives %s, the CPU %s", own->what, own->pass->type->name, got,
                 own->values);
    free(got);
}

static void keep_result(struct rig_pass *own, const struct placed *placed)
{
    struct pass_shape shape = shape_of(own->pass), *to = &shape;
    own->out = raster_make(to->width, to->height, to->channels);
    for (uint32_t y = 0; y < to->height; y++)
        memcpy(raster_at(&own->out, 0, y), rig.here + placed->to + y * placed->to_stride,
               (size_t)to->width * to->channels);
}

/* Undoes what the pass was allowed to write: its work space and the bytes that the rows of its
 * result own. */
static void restore(const struct placed *placed, uint8_t *memory)
{
    const struct pass *pass = &placed->bound;
    struct pass_shape to = shape_of(pass);
    size_t own = pass->tensor_bytes ? pass->tensor_bytes : image_stride(to.width, to.channels);
    memcpy(memory + placed->work, rig.before + placed->work, pass->work_bytes);
    if (pass->type == &pass_resample_x)
        memcpy(memory + placed->packed, rig.before + placed->packed, placed->packed_bytes);
    for (size_t at = placed->to; at < placed->to + placed->to_bytes; at += placed->to_stride)
        memcpy(memory + at, rig.before + at, own);
}

/* Whether `at` is in a buffer, or near it, and which byte of it. */
static bool is_near(size_t at, size_t start, size_t bytes, long long *byte)
{
    *byte = (long long)at - (long long)start;
    return at + GAP >= start && at < start + bytes + GAP;
}

static void say_written(const struct rig_pass *passes, const struct placed *placed, size_t count,
                        size_t at, const char *engine)
{
    for (size_t i = 0; i < count; i++) {
        const struct placed *own = &placed[i];
        long long byte;
        const char *part = is_near(at, own->to, own->to_bytes, &byte)             ? "result"
                           : is_near(at, own->from, own->from_bytes, &byte)       ? "input"
                           : is_near(at, own->work, own->bound.work_bytes, &byte) ? "work space"
                           : is_near(at, own->constants, own->bound.constants_bytes, &byte)
                               ? "constants"
                               : NULL;
        if (!part)
            continue;
        const struct pass_shape *to = &own->bound.to;
        fail_msg("%s: %s: %s wrote byte %lld of the %s (result of %u x %u x %u, stride %zu)",
                 passes[i].what, own->bound.type->name, engine, byte, part, to->width, to->height,
                 to->channels, own->to_stride);
    }
    fail_msg("%s: %s: %s wrote far from its buffers", passes[0].what, placed[0].bound.type->name,
             engine);
}

static void check_guards(const struct rig_pass *passes, const struct placed *placed, size_t count,
                         uint8_t *memory, const char *engine)
{
    for (size_t i = 0; i < count; i++)
        restore(&placed[i], memory);
    if (memcmp(memory, rig.before, rig.used) == 0)
        return;
    size_t at = 0;
    while (memory[at] == rig.before[at])
        at++;
    say_written(passes, placed, count, at, engine);
}

void pass_rig_run(struct rig_pass *passes, size_t count, uint32_t pattern)
{
    static struct placed placed[PASSES_SHARED_MAX];
    assert_true(count >= 1 && count <= PASSES_SHARED_MAX);
    rig.used = 0;
    for (size_t i = 0; i < count; i++)
        place(&passes[i], &placed[i]);
    fill_pattern(pattern);
    for (size_t i = 0; i < count; i++)
        fill(&passes[i], &placed[i]);
    run_here(placed, count);
    run_there(placed, count);
    for (size_t i = 0; i < count; i++) {
        passes[i].values = NULL;
        if (passes[i].pass->values)
            compare_values(&passes[i], &placed[i]);
        if (passes[i].pass->looks)
            continue;
        compare_pixels(&passes[i], &placed[i]);
        keep_result(&passes[i], &placed[i]);
    }
    check_guards(passes, placed, count, rig.here, "the CPU engine");
    check_guards(passes, placed, count, rig.there, "CUDA");
    pass_rig_totals.passes += count;
    pass_rig_totals.launches++;
    pass_rig_totals.bytes += rig.used;
}
