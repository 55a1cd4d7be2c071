/*
 * share.c - finds the passes that several variants of a plan have in common, and the joint passes.
 *
 * A variant skips the passes at the start of its chain that an earlier variant has, too: the same
 * types, parameters and shapes in the same order. The result of the last of them, which both chains
 * read, then needs memory of its own until the plan ends. Chains are compared after their passes
 * were fused, so that sharing never adds a pass. Two variants with the same chain have one result.
 */
#include <string.h>

#include "gpu/plan/pass.h"

/* The pass that runs for this one. */
static struct pass *runner(struct pass *pass)
{
    return pass->same ? (struct pass *)pass->same : pass;
}

static bool is_same(const struct pass *a, const struct pass *b)
{
    return a->type == b->type && !a->alone && !b->alone &&
           memcmp(&a->from, &b->from, sizeof(a->from)) == 0 &&
           memcmp(&a->to, &b->to, sizeof(a->to)) == 0 &&
           memcmp(&a->window, &b->window, sizeof(a->window)) == 0 &&
           a->work_bytes == b->work_bytes && a->to_bytes == b->to_bytes &&
           a->constants_bytes == b->constants_bytes &&
           a->looks == b->looks && a->leads == b->leads && a->aside == b->aside &&
           a->stacked == b->stacked && memcmp(a->params, b->params, sizeof(a->params)) == 0;
}

static uint32_t count_same(const struct plan_variant *a, const struct plan_variant *b)
{
    uint32_t count = 0;
    while (count < a->pass_count && count < b->pass_count &&
           is_same(&a->passes[count], &b->passes[count]))
        count++;
    return count;
}

/* The pass that writes the variant's result; NULL: none. */
static struct pass *result_writer(const struct plan_variant *variant)
{
    return variant->no_picture ? NULL : pass_last_writer(variant->passes, variant->pass_count);
}

/* The bytes of an image without the padding of its rows. */
static uint64_t net_bytes(struct pass_shape shape)
{
    return (uint64_t)shape.width * shape.height * shape.channels;
}

/* Whether memory permits to keep this result, too. The first one takes no more than a variant's own
 * result would; all together may be as large as two images like the source. */
static bool can_keep(const struct plan *plan, const struct pass *pass)
{
    uint64_t others = 0;
    if (pass->kept || pass->result_of)
        return true;
    for (uint32_t v = 0; v < plan->variant_count; v++)
        for (uint32_t p = 0; p < plan->variants[v].pass_count; p++) {
            const struct pass *other = &plan->variants[v].passes[p];
            others += other->kept && !other->result_of ? net_bytes(other->to) : 0;
        }
    return others == 0 ||
           others + net_bytes(pass->to) <= 2 * net_bytes(plan_source_shape(&plan->source));
}

/* Whether the variant may skip exactly its first `count` passes, which `from` has, too. It cannot
 * continue in a branch, nor after a pass that leads the next one, because its result may not be
 * written. If the variant's result is among the skipped, it cannot be both downloaded and encoded
 * on the device. */
static bool can_skip(const struct plan *plan, const struct plan_variant *from,
                     const struct plan_variant *variant, uint32_t count)
{
    const struct pass *last = &variant->passes[count - 1];
    struct pass *result = result_writer(variant);
    struct pass *writer = pass_last_writer(from->passes, count);
    if ((last->aside && !last->looks) || last->leads)
        return false;
    if (result && result < variant->passes + count) {
        unsigned owner = runner(&from->passes[result - variant->passes])->result_of;
        return owner == 0 ||
               plan_is_encoded(&plan->variants[owner - 1]) == plan_is_encoded(variant);
    }
    return count == variant->pass_count || !writer || can_keep(plan, runner(writer));
}

/* Lets variant v skip the first `count` passes of an earlier one. */
static void skip_passes(struct plan *plan, const struct plan_variant *from, uint32_t v,
                        uint32_t count)
{
    struct plan_variant *variant = &plan->variants[v];
    struct pass *result = result_writer(variant);
    for (uint32_t p = 0; p < count; p++) {
        struct pass *same = runner(&from->passes[p]);
        same->shared = true;
        variant->passes[p].same = same;
        if (&variant->passes[p] == result && same->result_of == 0)
            same->result_of = (uint8_t)(v + 1);
    }
    struct pass *writer = pass_last_writer(from->passes, count);
    if (writer && count < variant->pass_count)
        runner(writer)->kept = true;
}

/* Lets variant v skip as many passes as possible. */
static void share_passes(struct plan *plan, uint32_t v)
{
    struct plan_variant *variant = &plan->variants[v];
    const struct plan_variant *best = NULL;
    uint32_t most = 0;
    for (uint32_t u = 0; u < v; u++) {
        const struct plan_variant *from = &plan->variants[u];
        uint32_t count = count_same(from, variant);
        while (count > most && !can_skip(plan, from, variant, count))
            count--;
        if (count > most) {
            most = count;
            best = from;
        }
    }
    if (best)
        skip_passes(plan, best, v, most);
    struct pass *result = result_writer(variant);
    if (result && !result->same && result->result_of == 0)
        result->result_of = (uint8_t)(v + 1);
}

/* The number of shared passes at the start of the chain that can run before the joint ones: the
 * result of the last one stays. */
static uint32_t count_early(const struct plan_variant *variant)
{
    uint32_t early = 0;
    for (uint32_t p = 0; p < variant->pass_count; p++) {
        const struct pass *pass = &variant->passes[p], *run = pass->same ? pass->same : pass;
        if (!run->shared || pass->type->cpu_joint || pass->aside || pass->looks)
            break;
        if (run->kept)
            early = p + 1;
    }
    return early;
}

/* The number of passes after the early ones that can run jointly. *bytes: of their results, without
 * the variant's result. */
static uint32_t count_joint(const struct plan_variant *variant, size_t *bytes)
{
    uint32_t p = variant->early;
    *bytes = 0;
    for (; p < variant->pass_count; p++) {
        const struct pass *pass = &variant->passes[p];
        if (!pass->type->cpu_joint || pass->aside || pass->same)
            break;
        if (!pass->result_of)
            *bytes += buffer_align(pass->to_bytes);
    }
    return p - variant->early;
}

/* Chooses the passes that run jointly. Each result needs memory of its own, so all results together
 * may have as many bytes as the source, and the other variants run one after the other. */
static void choose_joint(struct plan *plan)
{
    size_t left = pass_shape_bytes(plan_source_shape(&plan->source)), bytes;
    uint32_t variants = 0;
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        struct plan_variant *variant = &plan->variants[v];
        variant->early = count_early(variant);
        uint32_t count = count_joint(variant, &bytes);
        if (count == 0 || bytes > left)
            continue;
        left -= bytes;
        variant->joint = count;
        variants++;
    }
    for (uint32_t v = 0; v < plan->variant_count && variants < 2; v++)
        plan->variants[v].joint = 0;
}

/* Gives the constants of the passes that run their places again, without those of the others. */
static void pack_constants(struct plan *plan)
{
    plan->constants_bytes = 0;
    for (uint32_t v = 0; v < plan->variant_count; v++)
        for (uint32_t p = 0; p < plan->variants[v].pass_count; p++) {
            struct pass *pass = &plan->variants[v].passes[p];
            if (pass->same) {
                pass->constants_at = pass->same->constants_at;
            } else if (pass->constants_bytes > 0) {
                pass->constants_at = buffer_align(plan->constants_bytes);
                plan->constants_bytes = pass->constants_at + pass->constants_bytes;
            }
        }
}

void plan_share(struct plan *plan)
{
    for (uint32_t v = 0; v < plan->variant_count; v++)
        share_passes(plan, v);
    choose_joint(plan);
    pack_constants(plan);
}
