/* tensor.c - the pass that makes a tensor, its tables, and its CPU loops. */
#include "gpu/ops/tensor.h"

#include <string.h>

#include "gpu/plan/chain.h"

/* ---- the tables ---- */

/* A float as IEEE 754 binary16, rounded to nearest, ties to even. */
static uint16_t half_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size >= 0x47800000) /* 65536 */
        return (uint16_t)(sign | (size > 0x7F800000 ? 0x7E00 : 0x7C00));
    /* The exponent's bias changes from 127 to 15; below 2^-14 the numbers are subnormal. A carry of
     * the rounding goes to the exponent, up to infinity. */
    uint32_t exponent = size >> 23, drop = exponent > 112 ? 13 : 126 - exponent;
    uint32_t whole = exponent > 112 ? size - (112u << 23) : (size & 0x7FFFFF) | 0x800000;
    if (drop > 24)
        return (uint16_t)sign;
    uint32_t half = 1u << (drop - 1), kept = whole >> drop, rest = whole & (2 * half - 1);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && kept & 1))));
}

static float entry(const struct tensor *own, uint32_t channel, int value)
{
    if (!own->normalizes)
        return (float)value;
    float scaled = (float)value / 255.0f;
    float centred = scaled - (float)own->mean[channel];
    return centred / (float)own->std[channel];
}

static void tensor_fill(const struct pass *pass, uint8_t *constants)
{
    const struct tensor *own = (const struct tensor *)pass->params;
    for (uint32_t i = 0; i < pass->to.channels * TENSOR_VALUES; i++) {
        float number = entry(own, i / TENSOR_VALUES, (int)(i % TENSOR_VALUES));
        if (own->type == TENSOR_F16)
            ((uint16_t *)constants)[i] = half_of(number);
        else
            ((float *)constants)[i] = number;
    }
}

/* ---- the CPU loops ---- */

/* The numbers of a channel of a row. Steps are in values of the image and numbers of the tensor. */
struct run {
    const uint8_t *from;
    uint8_t *to;
    const uint8_t *table;
    size_t from_step, to_step, width;
};

static void move_u8(const struct run *run)
{
    for (size_t x = 0; x < run->width; x++)
        run->to[x * run->to_step] = run->from[x * run->from_step];
}

static void look_up_f16(const struct run *run)
{
    const uint16_t *table = (const uint16_t *)run->table;
    uint16_t *to = (uint16_t *)run->to;
    for (size_t x = 0; x < run->width; x++)
        to[x * run->to_step] = table[run->from[x * run->from_step]];
}

static void look_up_f32(const struct run *run)
{
    const uint32_t *table = (const uint32_t *)run->table;
    uint32_t *to = (uint32_t *)run->to;
    for (size_t x = 0; x < run->width; x++)
        to[x * run->to_step] = table[run->from[x * run->from_step]];
}

PASS_LOOP(tensor_cpu)
{
    static void (*const loops[])(const struct run *run) = {
        [TENSOR_U8] = move_u8, [TENSOR_F16] = look_up_f16, [TENSOR_F32] = look_up_f32};
    const struct tensor *own = (const struct tensor *)pass->params;
    size_t number = tensor_number_bytes(own->type), channels = pass->to.channels;
    bool planar = own->layout == TENSOR_CHW;
    struct run run = {
        .from_step = from->channels, .to_step = planar ? 1 : channels, .width = from->width};
    for (uint32_t y = 0; y < from->height && !pass_is_late_at(pass, y); y++)
        for (uint32_t c = 0; c < channels; c++) {
            size_t at = planar ? ((size_t)c * from->height + y) * from->width
                               : (size_t)y * from->width * channels + c;
            run.from = from->pixels + y * from->stride +
                       (size_t)tensor_source((int)c, (int)from->channels);
            run.to = to->pixels + at * number;
            if (own->type != TENSOR_U8)
                run.table = pass->constants + c * TENSOR_VALUES * number;
            loops[own->type](&run);
        }
}

pass_cuda_many tensor_cuda;

const struct pass_type pass_tensor = {"tensor", tensor_cpu,
                                      PASS_CUDA_MANY(tensor_cuda, 2 * sizeof(int32_t))};

/* ---- the pass ---- */

/* One number is for all channels. Alpha is a channel like the others. */
static enum status set_numbers(struct chain *chain, const char *name, const double *numbers,
                               int count, uint32_t channels, double *to)
{
    if (count != 1 && count != (int)channels)
        return error_set(chain->error, STATUS_BAD_JOB,
                         "normalize.%s has %d numbers, but the tensor has %u channel%s; give 1 or "
                         "%u, or set channels",
                         name, count, channels, channels > 1 ? "s" : "", channels);
    for (uint32_t c = 0; c < channels; c++)
        to[c] = numbers[count == 1 ? 0 : c];
    return STATUS_OK;
}

enum status step_tensor(struct chain *chain, const struct plan_tensor *tensor)
{
    const struct normalization *normalize = tensor->normalize;
    struct tensor own = {.type = (int32_t)tensor->type, .layout = (int32_t)tensor->layout};
    struct pass_shape to = chain->shape;
    if (tensor->rgb && to.channels == 1)
        to.channels = 3;
    if (normalize && normalize->given) {
        assert(tensor->type != TENSOR_U8);
        own.normalizes = true;
        if (set_numbers(chain, "mean", normalize->mean, normalize->mean_count, to.channels,
                        own.mean) != STATUS_OK ||
            set_numbers(chain, "std", normalize->std, normalize->std_count, to.channels, own.std) !=
                STATUS_OK)
            return chain->error->status;
    }
    size_t number = tensor_number_bytes(own.type);
    struct pass *pass = chain_append(chain, &pass_tensor, to, &own, sizeof own);
    pass->tensor_bytes = (size_t)to.width * to.height * to.channels * number;
    pass->to_bytes = pass->tensor_bytes;
    if (own.type == TENSOR_U8)
        return STATUS_OK;
    return chain_constants(chain, pass, to.channels * TENSOR_VALUES * number, tensor_fill);
}
