/* What the prelude uses of OpenCL C, declared here. For a driver whose compiler can leave out its own header:
 * that of PoCL has 18,000 lines, which it would read for every kernel (cl_program.c). Included by the prelude.
 */
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __typeof__(sizeof(int)) size_t;

#define VECTORS_OF_(type)                                                                                    \
    typedef type type##2 __attribute__((ext_vector_type(2)));                                                \
    typedef type type##4 __attribute__((ext_vector_type(4)));                                                \
    typedef type type##8 __attribute__((ext_vector_type(8)));                                                \
    typedef type type##16 __attribute__((ext_vector_type(16)));
VECTORS_OF_(float)
VECTORS_OF_(int)
VECTORS_OF_(uint)
VECTORS_OF_(char)
VECTORS_OF_(ushort)
VECTORS_OF_(ulong)
#ifdef cl_khr_fp64
VECTORS_OF_(double)
#endif

#define BUILTIN_ __attribute__((overloadable, const))
size_t BUILTIN_ get_group_id(uint);
size_t BUILTIN_ get_num_groups(uint);
size_t BUILTIN_ get_local_id(uint);

#define BOUNDS_(type)                                                                                        \
    type BUILTIN_ min(type, type);                                                                           \
    type BUILTIN_ max(type, type);
#define FUNCTIONS_(type)                                                                                     \
    BOUNDS_(type)                                                                                            \
    type BUILTIN_ fmax(type, type);                                                                          \
    type BUILTIN_ fabs(type);                                                                                \
    type BUILTIN_ sqrt(type);                                                                                \
    type BUILTIN_ floor(type);                                                                               \
    type BUILTIN_ fma(type, type, type);
#define FOR_WIDTHS_(declare, type)                                                                           \
    declare(type) declare(type##2) declare(type##4) declare(type##8) declare(type##16)
FOR_WIDTHS_(FUNCTIONS_, float)
#ifdef cl_khr_fp64
FOR_WIDTHS_(FUNCTIONS_, double)
#endif
FOR_WIDTHS_(BOUNDS_, int)
FOR_WIDTHS_(BOUNDS_, uint)

float BUILTIN_ convert_float(int);
float BUILTIN_ convert_float(uint);
int BUILTIN_ convert_int_rte(float);
float2 __attribute__((overloadable, pure)) vload_half2(size_t, const __private half *);
#define as_float(x) __builtin_astype((x), float)
#define as_uint(x) __builtin_astype((x), uint)
#define as_int(x) __builtin_astype((x), int)

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
void __attribute__((overloadable, convergent)) barrier(uint);
