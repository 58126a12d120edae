/* The words of the optimiser's control block, shared by host and kernels. Preprocessor lines only.
 *
 * The host writes LR before each step (and the whole block once at the start); clip_control writes the rest.
 * Gradients come in multiplied by SCALE, and leave divided by it, through FACTOR.
 * So a recorded step can be replayed with another learning rate, and the count of steps, by which Adam
 * corrects its moments, does not move in a step that was skipped.
 */
#ifndef TD_KERNELS_OPTIM_GEOMETRY_H
#define TD_KERNELS_OPTIM_GEOMETRY_H

#define TD_CONTROL_LR 0u     /* learning rate */
#define TD_CONTROL_NORM 1u   /* norm of the gradient before clipping */
#define TD_CONTROL_FACTOR 2u /* what the gradient is multiplied by: at most 1 */
#define TD_CONTROL_BIAS1 3u  /* 1 / (1 - beta1^t) */
#define TD_CONTROL_BIAS2 4u  /* 1 / sqrt(1 - beta2^t) */
#define TD_CONTROL_SKIP                                                                                      \
    5u                      /* 1.0 where the gradient is not finite and the step leaves everything as it is  \
                             */
#define TD_CONTROL_STEPS 6u /* steps taken, a uint */
#define TD_CONTROL_SKIPPED 7u /* steps skipped, a uint */
#define TD_CONTROL_SCALE 8u   /* what the loss was multiplied by; 0: by nothing */
#define TD_CONTROL_GOOD 9u    /* steps taken since SCALE changed, a uint */
#define TD_CONTROL_WORDS 10u

/* SCALE where it changes by itself: doubled after some good steps, halved in one that is skipped. */
#define TD_LOSS_SCALE_START 65536.0f
#define TD_LOSS_SCALE_LEAST 1.0f
#define TD_LOSS_SCALE_MOST 16777216.0f

/* Elements that share their largest magnitude, where moments are kept in 8 bits. */
#define TD_STATE_BLOCK 256u

/* Elements a group takes. */
#define TD_OPTIM_BLOCK_CPU 4096u
#define TD_OPTIM_BLOCK_GPU 512u

#endif
