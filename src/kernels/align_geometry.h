/* Numbers of the alignment search that host and kernels share. Preprocessor lines only. */
#ifndef TD_KERNELS_ALIGN_GEOMETRY_H
#define TD_KERNELS_ALIGN_GEOMETRY_H

/* Neighbouring tokens whose scores one work-item carries along the frames in registers. */
#define TD_ALIGN_STRIP_CPU 8u
#define TD_ALIGN_STRIP_GPU 4u

/* Class GPU: one group has all tokens of an item at once; its size as in ops.def. */
#define TD_ALIGN_WG_GPU 256u
#define TD_ALIGN_MAX_TOKENS_GPU 1024u

/* What align_mask writes at the valid frames of an item. */
#define TD_MASK_ONE 0u  /* 1 */
#define TD_MASK_ALL 1u  /* 1 / valid frames of all items together: a sum with it is a mean */
#define TD_MASK_OWN 2u  /* 1 / valid frames of the item */
#define TD_MASK_LAST 3u /* 1 at the last valid frame, else 0 */

#endif
