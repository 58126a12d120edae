/* The kernel vocabulary in OpenCL C 1.2; shaders/prelude.glsl defines the same words in GLSL, and
 * docs/kernels.md says what each means. A word is an upper-case macro; names ending in _ are private here.
 */
#include "kernels/geometry.h"
#include "kernels/params.def"
#ifdef TD_NO_HEADER
#include "builtins.cl.h"
#endif

/* Only FMA() fuses: both dialects then round alike. */
#pragma OPENCL FP_CONTRACT OFF

#ifdef TD_CLASS_CPU
#define WG TD_GROUP_SIZE_CL_CPU
#ifndef VW
#define VW 8
#endif
#define WIDE 1
#define LOCAL(type, name, count)
#define BARRIER_ALL()
#else
#define WG TD_GPU_WG /* the group of its row in ops.def */
#define VW 1
#define WIDE 0
#define LOCAL(type, name, count) __local type name[count] __attribute__((aligned(16)));
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define BARRIER_ALL() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#endif
#define NO_LOCAL
#define UNUSED(name) (void)(name)

#define FIELD_(type, name) type name;
#define GROUP_ITEMS_ __attribute__((reqd_work_group_size(WG, 1, 1)))
#define THIS_GROUP_() ((uint)(get_group_id(1) * get_num_groups(0) + get_group_id(0)))
#define AND ,
/* No restrict: an element-wise kernel may write over its input. */
#if !defined(TD_ONE_BODY) || !defined(TD_CLASS_CPU)
#define READ(binding, type, name) __global const type *name
#define WRITE(binding, type, name) __global type *name
#define READ_WRITE(binding, type, name) __global type *name
#define KERNEL(name, buffers, locals)                                                                        \
    typedef struct {                                                                                         \
        TD_PARAMS_##name(FIELD_)                                                                             \
    } name##_params;                                                                                         \
    __kernel GROUP_ITEMS_ void name(buffers, const name##_params p)                                          \
    {                                                                                                        \
        locals
#define GROUP() THIS_GROUP_()
#define LANE() ((uint)get_local_id(0))
#else
/* PoCL puts a kernel's code into each of three functions that it makes of one, and compiles all of them; here the
 * kernel is a call, so that the code is compiled once: a third of the time of a first start. A buffer is written as
 * (type, name), since both the function and the call list it. Groups of one only. */
#define READ(binding, type, name) (__global const type *, name)
#define WRITE(binding, type, name) (__global type *, name)
#define READ_WRITE(binding, type, name) (__global type *, name)
#define DECLARED_PAIR_(type, name) type name
#define NAMED_PAIR_(type, name) name
#define DECLARED_(pair) DECLARED_PAIR_ pair,
#define NAMED_(pair) NAMED_PAIR_ pair,
#define FOR_1_(F, x) F(x)
#define FOR_2_(F, x, ...) F(x) FOR_1_(F, __VA_ARGS__)
#define FOR_3_(F, x, ...) F(x) FOR_2_(F, __VA_ARGS__)
#define FOR_4_(F, x, ...) F(x) FOR_3_(F, __VA_ARGS__)
#define FOR_5_(F, x, ...) F(x) FOR_4_(F, __VA_ARGS__)
#define FOR_6_(F, x, ...) F(x) FOR_5_(F, __VA_ARGS__)
#define FOR_7_(F, x, ...) F(x) FOR_6_(F, __VA_ARGS__)
#define FOR_8_(F, x, ...) F(x) FOR_7_(F, __VA_ARGS__)
#define NINTH_(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define FOR_BUFFERS_(F, ...)                                                                                 \
    NINTH_(__VA_ARGS__, FOR_8_, FOR_7_, FOR_6_, FOR_5_, FOR_4_, FOR_3_, FOR_2_, FOR_1_, none)                \
    (F, __VA_ARGS__)
#define KERNEL(name, buffers, locals) KERNEL_(name, locals, buffers)
#define KERNEL_(name, locals, ...)                                                                           \
    typedef struct {                                                                                         \
        TD_PARAMS_##name(FIELD_)                                                                             \
    } name##_params;                                                                                         \
    static void name##_body_(FOR_BUFFERS_(DECLARED_, __VA_ARGS__) const name##_params p, uint group_);       \
    __kernel GROUP_ITEMS_ void name(FOR_BUFFERS_(DECLARED_, __VA_ARGS__) const name##_params p)              \
    {                                                                                                        \
        name##_body_(FOR_BUFFERS_(NAMED_, __VA_ARGS__) p, THIS_GROUP_());                                    \
    }                                                                                                        \
    static __attribute__((noinline)) void name##_body_(FOR_BUFFERS_(DECLARED_, __VA_ARGS__)                  \
                                                       const name##_params p, uint group_)                   \
    {                                                                                                        \
        locals
#define GROUP() group_
#define LANE() lane_() /* not a plain 0, of which compilers warn in conditions */
static inline uint lane_(void)
{
    return 0u;
}
#endif
#define KERNEL_END }

#define UNROLL _Pragma("unroll")
#define LOOP _Pragma("nounroll")
#define EXACT /* OpenCL C rounds as written */
#define FN static inline

/* Scalars, and vectors of any width. */
#define MIN(a, b) min((a), (b))
#define MAX(a, b) max((a), (b))
#define ABS(x) fabs(x)
#define FMA(a, b, c) fma((a), (b), (c))
#define SQRT(x) sqrt(x)
#define FLOOR(x) floor(x)
#define F32(x) ((float)(x))
/* An address computed in 32 bits costs a conversion per access, a third of the speed of gemm_register. */
#define INDEX size_t
#define NO_END (~(size_t)0)
#define U32(x) ((uint)(x))
#define I32(x) ((int)(x))
#define AS_F(x) as_float(x)
#define AS_U(x) as_uint(x)
#define U2 uint2
#define HALVES(word) halves_(word)
#define F4 float4
#define F4_(a, b, c, d) ((float4)((a), (b), (c), (d)))
#define TO_F4(x) ((float4)(x))
#define SET_F4(array, i, part, x) (((__local float *)&(array)[i])[part] = (x))
/* Compilers know this as one instruction; PoCL's mul_hi() takes 2.5 times as long in `random`. */
#define MUL_HI(a, b) ((uint)(((ulong)(a) * (ulong)(b)) >> 32))

#if VW > 1 && defined(cl_khr_fp64)
#define HAS_DOUBLE 1
#else
#define HAS_DOUBLE 0
#endif
#if VW == 1
#define VD float
#define TO_VD(high, low) (high)
#define DOUBLE_VD(x) (x)
#define NEAR_VF(x) (x)
#define VF float
#define VU uint
#define VI int
#define TO_VF(x) (x)
#define TO_VU(x) (x)
#define TO_VI(x) (x)
#define IOTA() 0u
#define AS_VF(x) as_float(x)
#define AS_VU(x) as_uint(x)
#define AS_VI(x) as_int(x)
#define ROUND_VI(x) convert_int_rte(x)
#define FLOAT_VF(x) convert_float(x)
#define LOAD_F(buffer, i, end) ((buffer)[i])
#define LOAD_F_OR(buffer, i, end, other) ((buffer)[i])
#define LOAD_U(buffer, i, end) ((buffer)[i])
#define LOAD_H(buffer, i, end) HALF_AT(buffer, i)
#define LOAD_B(buffer, i, end) BYTE_AT(buffer, i)
#define STORE_F(buffer, i, end, v) ((buffer)[i] = (v))
#define STORE_U(buffer, i, end, v) ((buffer)[i] = (v))
#define SUM(v) (v)
#define LARGEST(v) (v)
#define FLOAT_AT(array, i) ((array)[i])
#define TRANSPOSE(square)
#define TRANSPOSE_CALL(square)
#define AHEAD(buffer, i)
#define FIRST(v) (v)
#define MUL_HI_V(a, v) MUL_HI(a, v)
#define EVENS(a, b) (a)
#define ODDS(a, b) (b)
#define ZIP_LOW(a, b) (a)
#define ZIP_HIGH(a, b) (b)
#else
#define PASTE_(a, b) a##b
#define JOIN_(a, b) PASTE_(a, b)
#ifdef TD_NO_HEADER
#define CONVERT_(x, type) __builtin_convertvector((x), JOIN_(type, VW))
#define AS_(x, type) __builtin_astype((x), JOIN_(type, VW))
#else
#define CONVERT_(x, type) JOIN_(convert_##type, VW)(x)
#define AS_(x, type) JOIN_(as_##type, VW)(x)
#endif
#define VD JOIN_(double, VW)
#define TO_VD(high, low) ((VD)((double)(high) + (double)(low)))
#define DOUBLE_VD(x) CONVERT_(x, double)
#define NEAR_VF(x) CONVERT_(x, float)
#define VF JOIN_(float, VW)
#define VU JOIN_(uint, VW)
#define VI JOIN_(int, VW)
#define TO_VF(x) ((VF)(x))
#define TO_VU(x) ((VU)(x))
#define TO_VI(x) ((VI)(x))
#define IOTA() iota_()
#define AS_VF(x) AS_(x, float)
#define AS_VU(x) AS_(x, uint)
#define AS_VI(x) AS_(x, int)
/* 1.5 * 2^23 leaves no bits behind the point; PoCL's convert_int8_rte() takes some thirty instructions. */
#define ROUND_VI(x) (AS_VI((x) + 12582912.0f) - 0x4b400000)
#define FLOAT_VF(x) CONVERT_(x, float)
#define LOAD_F_OR(buffer, i, end, other) load_f_(WHERE_(buffer, i, end), (other))
#define LARGEST(v) largest_(v)
#define FLOAT_AT(array, i) (((float *)(array))[i])
#define TRANSPOSE(square) transpose_(square)
#define TRANSPOSE_CALL(square) transpose_call_(square)
#define AHEAD(buffer, i) __builtin_prefetch((const void *)(size_t)((buffer) + (i)))
#define LOAD_F(buffer, i, end) load_f_(WHERE_(buffer, i, end), 0.0f)
#define LOAD_U(buffer, i, end) load_u_(WHERE_(buffer, i, end), 0u)
#define LOAD_H(buffer, i, end) load_h_(WHERE_((__global const ushort *)(buffer), i, end))
#define LOAD_B(buffer, i, end) load_b_(WHERE_((__global const char *)(buffer), i, end))
#define STORE_F(buffer, i, end, v) store_f_(WHERE_(buffer, i, end), (v))
#define STORE_U(buffer, i, end, v) store_u_(WHERE_(buffer, i, end), (v))
#define SUM(v) sum_(v)
#define FIRST(v) ((v).s0)
#define MUL_HI_V(a, v) CONVERT_((CONVERT_(v, ulong) * (ulong)(a)) >> 32, uint)
#define EVENS(a, b) ((VU)((a).even, (b).even))
#define ODDS(a, b) ((VU)((a).odd, (b).odd))
#define ZIP_LOW(a, b) zip_((a).lo, (b).lo)
#define ZIP_HIGH(a, b) zip_((a).hi, (b).hi)
#define HALF_ JOIN_(uint, HALF_WIDTH_)
#if VW == 8
#define HALF_WIDTH_ 4
#else
#define HALF_WIDTH_ 8
#endif

/* A vector at any address. Through vload8() LLVM 14 turns plain additions into four accesses of two floats
 * each. */
typedef VF vf_anywhere_ __attribute__((aligned(4)));
typedef VU vu_anywhere_ __attribute__((aligned(4)));
typedef JOIN_(ushort, VW) vh_anywhere_ __attribute__((aligned(2)));
typedef JOIN_(char, VW) vb_anywhere_ __attribute__((aligned(1)));
typedef VU VU_anywhere_ __attribute__((aligned(4)));
typedef VI VI_anywhere_ __attribute__((aligned(4)));

/* Whole vectors go at once; of the last one of a row `left` elements go one by one, and zeros fill it up.
 * Addresses are computed where the index is known, so that one of type INDEX is not cut to 32 bits. */
#define WHERE_(buffer, i, end) (buffer) + (i), (i) + VW <= (end), (uint)((end) - (i))
#define VECTOR_ACCESS_(suffix, type, vector)                                                                 \
    static inline vector load_##suffix##_(__global const type *at, bool is_whole, uint left, type other)     \
    {                                                                                                        \
        if (is_whole) return *(__global const v##suffix##_anywhere_ *)at;                                    \
        type part[VW];                                                                                       \
        for (uint e = 0; e < VW; e++)                                                                        \
            part[e] = e < left ? at[e] : other;                                                              \
        return *(const v##suffix##_anywhere_ *)part;                                                         \
    }                                                                                                        \
    static inline void store_##suffix##_(__global type *at, bool is_whole, uint left, vector v)              \
    {                                                                                                        \
        if (is_whole) {                                                                                      \
            *(__global v##suffix##_anywhere_ *)at = v;                                                       \
        } else {                                                                                             \
            type part[VW];                                                                                   \
            *(v##suffix##_anywhere_ *)part = v;                                                              \
            for (uint e = 0; e < left; e++)                                                                  \
                at[e] = part[e];                                                                             \
        }                                                                                                    \
    }
VECTOR_ACCESS_(f, float, VF)
VECTOR_ACCESS_(u, uint, VU)

/* Two or four to a word in the order of memory, so that any element can be the first. */
#define NARROW_LOAD_(suffix, type, wide, vector)                                                             \
    static inline vector load_##suffix##_(__global const type *at, bool is_whole, uint left)                 \
    {                                                                                                        \
        if (is_whole) return CONVERT_(*(__global const v##suffix##_anywhere_ *)at, wide);                    \
        wide part[VW];                                                                                       \
        for (uint e = 0; e < VW; e++)                                                                        \
            part[e] = e < left ? at[e] : 0;                                                                  \
        return *(const vector##_anywhere_ *)part;                                                            \
    }
NARROW_LOAD_(h, ushort, uint, VU)
NARROW_LOAD_(b, char, int, VI)

static inline VU iota_(void)
{
    uint part[VW];
    for (uint e = 0; e < VW; e++)
        part[e] = e;
    return *(const vu_anywhere_ *)part;
}

/* The upper half joins the lower one until a float is left. */
static inline VU zip_(HALF_ a, HALF_ b)
{
    VU mixed;
    mixed.even = a;
    mixed.odd = b;
    return mixed;
}

static inline float sum_(VF v)
{
#if VW == 16
    const float8 eight = v.lo + v.hi;
#else
    const float8 eight = v;
#endif
    const float4 four = eight.lo + eight.hi;
    const float2 two = four.lo + four.hi;
    return two.x + two.y;
}

static inline float largest_(VF v)
{
#if VW == 16
    const float8 eight = fmax(v.lo, v.hi);
#else
    const float8 eight = v;
#endif
    const float4 four = fmax(eight.lo, eight.hi);
    const float2 two = fmax(four.lo, four.hi);
    return fmax(two.x, two.y);
}

/* Interleaving each row with the one half a square below it, log2(VW) times, turns rows into columns. */
static inline void transpose_(VF *square)
{
    UNROLL for (uint width = 1; width < VW; width *= 2)
    {
        VF mixed[VW];
        UNROLL for (uint e = 0; e < VW / 2; e++)
        {
            const VF a = square[e], b = square[e + VW / 2];
            mixed[2 * e].even = a.lo;
            mixed[2 * e].odd = b.lo;
            mixed[2 * e + 1].even = a.hi;
            mixed[2 * e + 1].odd = b.hi;
        }
        UNROLL for (uint e = 0; e < VW; e++) square[e] = mixed[e];
    }
}

static __attribute__((noinline, unused)) void transpose_call_(VF *square)
{
    transpose_(square);
}
#endif

static inline float2 halves_(uint word)
{
    return vload_half2(0, (const half *)&word);
}

#include "kernels/common.kh"
