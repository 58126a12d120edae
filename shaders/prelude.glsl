/* The kernel vocabulary in GLSL 4.50 for Vulkan; cl/prelude.cl.h defines the same words in OpenCL C, and
 * docs/kernels.md says what each means. A word is an upper-case macro; names ending in _ are private here.
 */
#extension GL_EXT_control_flow_attributes : require
#include "kernels/geometry.h"
#include "kernels/params.def"

/* Drivers make the vectors by running neighbouring invocations together, so a vector is one element here. */
#define VW 1u
#ifdef TD_CLASS_CPU
#define WG TD_GROUP_SIZE_GLSL_CPU
#define LOCAL(type, name, count)
#else
#define WG TD_GROUP_SIZE_GLSL_GPU
#define LOCAL(type, name, count) shared type name[count];
#define BARRIER() barrier()
#endif
#define NO_LOCAL

#define READ(binding_, type, name)                                                                           \
    layout(set = 0, binding = binding_, std430) readonly buffer name##_buffer { type name[]; };
#define WRITE(binding_, type, name)                                                                          \
    layout(set = 0, binding = binding_, std430) writeonly buffer name##_buffer { type name[]; };
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
#define MIN(a, b) min((a), (b))
#define FMA(a, b, c) fma((a), (b), (c))
#define MUL_HI(a, b) mul_hi_((a), (b))

#define VF float
#define VU uint
#define TO_VF(x) (x)
#define TO_VU(x) (x)
#define LOAD_F(buffer_, i, end) (buffer_[i])
#define LOAD_U(buffer_, i, end) (buffer_[i])
#define STORE_F(buffer_, i, end, v) (buffer_[i] = (v))
#define STORE_U(buffer_, i, end, v) (buffer_[i] = (v))
#define SUM(v) (v)

uint mul_hi_(uint a, uint b)
{
    uint high;
    uint low;
    umulExtended(a, b, high, low);
    return high;
}

#include "kernels/common.kh"
