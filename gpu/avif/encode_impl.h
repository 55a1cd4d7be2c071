/*
 * encode_impl.h - the stages of the AV1 encoder, and the functions that its tests call.
 *
 * An image passes these stages:
 *
 *   import      pixels become planes of samples (kernels/import.h)
 *   P proxy     a stand-in for the reconstruction: the source, quantised (decide/proxy.c)
 *   A analyse   chooses the partition, and a few prediction modes for each block, from the source
 *               and the proxy (decide/analyse.c)
 *   B blocks    reconstructs the blocks: the mode with the real neighbours, levels
 *               (decide/blocks.c)
 *   C tokens    turns blocks into symbols with contexts (entropy/tokeniser.h)
 *   D code      adapts the probabilities and writes the symbols (entropy/code.c)
 *
 * Import, P and A have no dependencies between blocks. In B, a block depends on the reconstruction
 * of its neighbours above and to the left. C depends on decisions only. In D, each context adapts
 * on its own, and then the range coder is serial. On the host, P runs for a row of superblocks, and
 * A to D for one superblock after the other, with the memory of one superblock.
 *
 * All arithmetic is in integers. No stage stops early in a way that changes its result, and of
 * equal costs the first candidate's wins, so that any order of execution gives the same bits.
 */
#pragma once

#include "gpu/avif/encode.h"
#include "gpu/avif/frame/encoder.h"

/* Sets the planes in the work memory of a call that has ended, as tests read them. */
void avif_reconstruction(const struct avif_frame *frame, void *work,
                         struct avif_plane planes[PLANES]);
/* As avif_encode_pixels, with certain kernels. */
enum status avif_encode_with(const struct avif_kernels *kernels, const struct image *source,
                             const struct avif_encode_options *options,
                             bool (*is_stopped)(void *context), void *context, void *work,
                             uint8_t *obus, size_t capacity, size_t *bytes) MUST_CHECK;
