/* The kernel vocabulary in GLSL 4.50 for Vulkan; cl/prelude.cl.h defines the same words in OpenCL C, and
 * docs/kernels.md says what each means. A word is an upper-case macro; names ending in _ are private here.
 */
#extension GL_EXT_control_flow_attributes : require
#include "kernels/geometry.h"
#include "kernels/params.def"

/* Drivers make the vectors by running neighbouring invocations together, so a vector is one element here. */
#define VW 1u
#define WIDE 0
#ifdef TD_CLASS_CPU
#define WG TD_GROUP_SIZE_GLSL_CPU
#define LOCAL(type, name, count)
#define BARRIER_ALL()
#else
#define WG TD_GPU_WG /* the group of its row in ops.def */
#define LOCAL(type, name, count) shared type name[count];
#define BARRIER() barrier()
#define BARRIER_ALL() memoryBarrierBuffer(); barrier();
#endif
#define NO_LOCAL
#define UNUSED(name)

#define READ(binding_, type, name)                                                                           \
    layout(set = 0, binding = binding_, std430) readonly buffer name##_buffer { type name[]; };
#define WRITE(binding_, type, name)                                                                          \
    layout(set = 0, binding = binding_, std430) writeonly buffer name##_buffer { type name[]; };
#define READ_WRITE(binding_, type, name)                                                                     \
    layout(set = 0, binding = binding_, std430) buffer name##_buffer { type name[]; };
#define AND
#define FIELD_(type, name) type name;
#define KERNEL(name, buffers, locals)                                                                        \
    layout(local_size_x = WG) in;                                                                            \
    buffers                                                                                                  \
    layout(push_constant, std430) uniform name##_params { TD_PARAMS_##name(FIELD_) } p;                      \
    locals                                                                                                   \
    void main()                                                                                              \
    {
#define KERNEL_END }

#define GROUP() (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)
#define LANE() gl_LocalInvocationID.x
#define UNROLL [[unroll]]
#define LOOP [[dont_unroll]]
#define EXACT precise
#define FN

#define MIN(a, b) min((a), (b))
#define MAX(a, b) max((a), (b))
#define ABS(x) abs(x)
#define FMA(a, b, c) fma((a), (b), (c))
#define SQRT(x) sqrt(x)
#define FLOOR(x) floor(x)
#define F32(x) float(x)
#define INDEX uint
#define NO_END 0xFFFFFFFFu
#define U32(x) uint(x)
#define I32(x) int(x)
#define AS_F(x) uintBitsToFloat(x)
#define AS_U(x) floatBitsToUint(x)
#define U2 uvec2
#define HALVES(word) unpackHalf2x16(word)
#define F4 vec4
#define F4_(a, b, c, d) vec4((a), (b), (c), (d))
#define TO_F4(x) vec4(x)
#define SET_F4(array, i, part, x) ((array)[i][part] = (x))
#define MUL_HI(a, b) mul_hi_((a), (b))

#define HAS_DOUBLE 0
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
#define AS_VF(x) bits_to_float_(x)
#define AS_VU(x) floatBitsToUint(x)
#define AS_VI(x) floatBitsToInt(x)
#define ROUND_VI(x) int(roundEven(x))
#define FLOAT_VF(x) float(x)
#define LOAD_F_OR(buffer_, i, end, other) (buffer_[i])
#define LOAD_F(buffer_, i, end) (buffer_[i])
#define LOAD_U(buffer_, i, end) (buffer_[i])
#define LOAD_H(buffer_, i, end) HALF_AT(buffer_, i)
#define LOAD_B(buffer_, i, end) BYTE_AT(buffer_, i)
#define STORE_F(buffer_, i, end, v) (buffer_[i] = (v))
#define STORE_U(buffer_, i, end, v) (buffer_[i] = (v))
#define SUM(v) (v)
#define LARGEST(v) (v)
#define FLOAT_AT(array, i) ((array)[i])
#define TRANSPOSE(square)
#define TRANSPOSE_CALL(square)
#define AHEAD(buffer, i)
#define FIRST(v) (v)
#define MUL_HI_V(a, v) mul_hi_((a), (v))
#define EVENS(a, b) (a)
#define ODDS(a, b) (b)
#define ZIP_LOW(a, b) (a)
#define ZIP_HIGH(a, b) (b)

float bits_to_float_(int x)
{
    return intBitsToFloat(x);
}

float bits_to_float_(uint x)
{
    return uintBitsToFloat(x);
}

uint mul_hi_(uint a, uint b)
{
    uint high;
    uint low;
    umulExtended(a, b, high, low);
    return high;
}

#include "kernels/common.kh"
