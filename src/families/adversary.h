/* Discriminators: who tells recorded samples from made ones, and what a generator learns from them. docs/vocoder.md.
 * Three look at spectra of different lengths as pictures, three at every second, third and fifth sample. Covered by
 * tests/families/test_vocoder.c and tests/model/test_model_golden.c.
 */
#ifndef TD_FAMILIES_ADVERSARY_H
#define TD_FAMILIES_ADVERSARY_H

#include "families/family.h"

/* The prefix of their parameters. */
#define TD_ADVERSARY_PREFIX "discriminator."

typedef struct td_adversary {
    uint32_t width; /* channels of their first layers */
    uint32_t start; /* update from which they count for the generator */
    float loss_adversarial, loss_features;
} td_adversary;

/* What discriminators say of made samples [B, S], weighted, to be added to the generator's loss: they count more and more
 * from `start` on, by the input "adversarial_ramp". Marks loss.adversarial and loss.features. */
td_tensor td_adversary_please(td_nn *nn, const td_adversary *a, td_tensor made, td_tensor recorded);

/* The discriminators' own loss; nothing of it reaches what made the samples. Marks loss.recorded and loss.made. */
td_tensor td_adversary_judge(td_nn *nn, const td_adversary *a, td_tensor made, td_tensor recorded);

/* The value of "adversarial_ramp" at a step. */
float td_adversary_ramp(const td_adversary *a, uint64_t step);

/* What the recipe was found with: less momentum than voices are trained with, and a higher limit of norms, where there is
 * one. */
void td_adversary_adjust_generator(td_pace *pace);
void td_adversary_adjust_discriminator(td_pace *pace);

#endif
