/* Between the files of a matrix product: the checked problem, and the variants that can solve it.
 *
 *   gemm.c           checks, choice, split along k, finish
 *   gemm_register.c  gemm_tile.c  gemm_simple.c  gemm_clblast.c   one variant each, or a few
 *   tuning.c         which variant for which shape
 */
#ifndef TD_LINALG_GEMM_INTERNAL_H
#define TD_LINALG_GEMM_INTERNAL_H

#include "base/error.h"
#include "device/dispatch.h"
#include "linalg/gemm.h"

/* The ways to make a product; stored in tuning results, so a change of their meaning changes TUNING_VERSION.
 */
typedef enum td_gemm_variant {
    TD_GEMM_V_PLAIN,
    TD_GEMM_V_REGISTER_ROWS,    /* A in place, B packed; nn and nt */
    TD_GEMM_V_REGISTER_COLUMNS, /* A packed by each work-item, B packed; tn */
    TD_GEMM_V_REGISTER_DIRECT,  /* both in place; nn and tn */
    TD_GEMM_V_TILE_64X64,
    TD_GEMM_V_TILE_128X64,
    TD_GEMM_V_TILE_128X128,
    TD_GEMM_V_TILE_ANY, /* 64 x 64 for operands that cannot be read as vec4 */
    TD_GEMM_V_GEMV,
    TD_GEMM_V_CLBLAST,
    TD_GEMM_V_COUNT
} td_gemm_variant;

/* A product with every default filled in. What a variant gets has c, ldc and the rest of the output replaced
 * where parts of k go to the workspace first. */
typedef struct td_gemm_problem {
    td_gemm_desc desc;
    td_device *device;
    const td_device_info *info;
    td_kernel_class kernel_class;
    uint32_t vector;       /* floats in a vector of its kernels */
    uint32_t splits;       /* parts of k */
    uint32_t k_part;       /* terms of a part, the last may have fewer */
    uint32_t stride_split; /* elements of C from one part to the next */
} td_gemm_problem;

typedef struct td_gemm_variant_info {
    const char *name;
    td_gemm_provider provider;
    bool splits;   /* takes splits > 1 */
    bool finishes; /* does bias, activation, pre and residual itself */
    /* NULL if it can, else why not. */
    const char *(*refuse)(const td_gemm_problem *problem);
    uint64_t (*workspace)(const td_gemm_problem *problem); /* bytes; NULL: none */
    /* Records the product; `desc.workspace` is its own part. */
    td_status (*record)(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant);
} td_gemm_variant_info;

const td_gemm_variant_info *td_gemm_variant_get(td_gemm_variant variant);

/* How a product is to be made. */
typedef struct td_gemm_choice {
    td_gemm_variant variant;
    uint32_t splits;
} td_gemm_choice;

/* gemm.c: checks a shape and fills in defaults; the choice is not made yet (splits 1). */
td_status td_gemm_problem_make(const td_gemm_desc *desc, td_device *device, td_gemm_problem *out);
td_status td_gemm_record(td_list *list, const td_gemm_problem *problem, td_gemm_choice choice);
uint64_t td_gemm_workspace_of(const td_gemm_problem *problem, td_gemm_choice choice);

/* tuning.c */
td_gemm_choice td_gemm_choose(const td_gemm_problem *problem);

/* Of a variant that reads B as fp32 alone: NULL, or why not. */
static inline const char *td_gemm_refuse_half(const td_gemm_problem *problem)
{
    return problem->desc.b_format ? "it does not read 16-bit numbers" : NULL;
}

/* gemm_register.c */
const char *td_gemm_refuse_rows(const td_gemm_problem *problem);
const char *td_gemm_refuse_columns(const td_gemm_problem *problem);
const char *td_gemm_refuse_direct(const td_gemm_problem *problem);
uint64_t td_gemm_register_workspace(const td_gemm_problem *problem);
td_status td_gemm_record_register(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant);

/* gemm_tile.c */
const char *td_gemm_refuse_vec4(const td_gemm_problem *problem);
const char *td_gemm_refuse_large_tile(const td_gemm_problem *problem);
const char *td_gemm_refuse_largest_tile(const td_gemm_problem *problem);
td_status td_gemm_record_tile(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant);

/* gemm_simple.c */
const char *td_gemm_refuse_gemv(const td_gemm_problem *problem);
td_status td_gemm_record_plain(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant);
td_status td_gemm_record_gemv(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant);
/* C = finish(sum of parts) as the description of `whole` wants it; `parts` may be C itself (splits 1). */
td_status td_gemm_record_finish(td_list *list, const td_gemm_problem *whole, const td_gemm_problem *parts);

/* gemm_clblast.c */
const char *td_gemm_refuse_clblast(const td_gemm_problem *problem);
uint64_t td_gemm_clblast_workspace(const td_gemm_problem *problem);
td_status td_gemm_record_clblast(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant);

/* ---------------------------------------------------------------- small helps */

/* Fields that the parameters of the kernels share: of all products; of those that split k; of an epilogue. */
#define TD_GEMM_SIZES(d)                                                                                     \
    .m = (d)->m, .n = (d)->n, .k = (d)->k, .ldc = (d)->ldc, .stride_a = (d)->stride_a,                       \
    .stride_b = (d)->stride_b, .stride_c = (d)->stride_c, .batch = (d)->batch, .accumulate = (d)->accumulate
#define TD_GEMM_SPLIT(p) .stride_split = (p)->stride_split, .splits = (p)->splits, .k_part = (p)->k_part
#define TD_GEMM_EPILOGUE(d)                                                                                  \
    .has_bias = (d)->bias.buffer != NULL, .save = (d)->pre.buffer != NULL, .activation = (d)->activation,    \
    .has_residual = (d)->residual.buffer != NULL

/* A grid of at least `items` work-items. */
td_grid td_gemm_grid(const td_gemm_problem *problem, td_kernel_id kernel, uint64_t items);

/* Flops and bytes of the whole product, for splitting long submissions. */
td_cost td_gemm_cost(const td_gemm_problem *problem);

/* `bytes` as a part of the workspace: so that what follows may be bound too. */
uint64_t td_gemm_align(const td_gemm_problem *problem, uint64_t bytes);

/* An operand that is not there is bound to one that is, and not looked at by the kernel. */
static inline td_span td_gemm_or(td_span span, td_span other)
{
    return span.buffer ? span : other;
}

#endif
