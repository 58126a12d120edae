/* A discrete autoencoder of spectrograms (VQ-VAE), as XTTS and Tortoise have it. Two convolutions halve the frames,
 * residual blocks follow, and each frame that is left gets the code whose vector is nearest; a mirror image of that makes
 * spectrograms of the vectors. Parameters have the names and layouts of Coqui's files, under the builder's prefix:
 * convolutions are [out, in, taps], and codebook.embed, .embed_avg and .cluster_size are states, since vectors are moving
 * averages of what they stood for. Frames behind an item are as if they were not there, so its codes are the same whatever
 * it shares a batch with. Covered by tests/model/test_model_golden.c, tests/families/test_dvae.c and
 * tests/xtts/test_xtts_dvae.c.
 */
#ifndef TD_NN_DVAE_H
#define TD_NN_DVAE_H

#include "nn/nn.h"

typedef struct td_dvae {
    uint32_t bands; /* of a spectrogram */
    uint32_t hidden,
        blocks; /* channels of the first layer, the others have twice as many; residual blocks of a side */
    uint32_t dim, codes; /* channels of a vector, and how many there are */
} td_dvae;

/* Frames that are left of `frames`. */
uint32_t td_dvae_frames(uint32_t frames);

/* x [B, T, bands], of which `counts` (uint [B]) frames count, to vectors [B, T', dim]; *rest: how many count of them. */
td_tensor td_nn_dvae_encode(td_nn *nn, const td_dvae *d, td_tensor x, td_tensor counts, td_tensor *rest);

/* uint [B, T']: which vectors are nearest to z [B, T', dim], the first of equals; 0 behind `rest`. */
td_tensor td_nn_dvae_search(td_nn *nn, const td_dvae *d, td_tensor z, td_tensor rest);

/* The vectors of codes [B, T']: [B, T', dim]. */
td_tensor td_nn_dvae_look_up(td_nn *nn, const td_dvae *d, td_tensor codes);

/* Moves vectors towards the means of the z that chose them: with r = `rate`, sizes of clusters become (1 - r) of what
 * they were and r of those of this batch, and so do the sums of their z. A vector whose cluster is smaller than
 * `least` z in a batch begins anew as one of the batch's, drawn at random; 0: none does. With a rate of 0
 * nothing moves, but the states are there, as every graph of a store must have them. To be called after all that reads the
 * codebook. No gradients. */
typedef struct td_dvae_pace {
    float rate, least;
} td_dvae_pace;
void td_nn_dvae_move(td_nn *nn, const td_dvae *d, td_tensor z, td_tensor codes, td_tensor rest,
                     td_dvae_pace pace);

/* Vectors [B, T', dim] to spectrograms [B, 4 T', bands]; `rest` frames of them count. */
td_tensor td_nn_dvae_decode(td_nn *nn, const td_dvae *d, td_tensor x, td_tensor rest);

#endif
