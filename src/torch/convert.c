/* See convert.h. */
#include "torch/convert.h"

#include <string.h>

#include "base/half.h"

bool td_convert_is_float(td_safetensors_dtype dtype)
{
    return dtype == TD_SAFETENSORS_F64 || dtype == TD_SAFETENSORS_F32 || dtype == TD_SAFETENSORS_F16 ||
           dtype == TD_SAFETENSORS_BF16;
}

bool td_convert_can(td_safetensors_dtype from, td_safetensors_dtype to)
{
    return from == to || (td_convert_is_float(from) && td_convert_is_float(to) && to != TD_SAFETENSORS_F64);
}

static float load(const unsigned char *at, td_safetensors_dtype dtype)
{
    double wide;
    float single;
    uint16_t half;
    if (dtype == TD_SAFETENSORS_F64) {
        memcpy(&wide, at, sizeof wide);
        return (float)wide;
    }
    if (dtype == TD_SAFETENSORS_F32) {
        memcpy(&single, at, sizeof single);
        return single;
    }
    memcpy(&half, at, sizeof half);
    return dtype == TD_SAFETENSORS_F16 ? td_fp16_to_float(half) : td_bf16_to_float(half);
}

static void store(float value, td_safetensors_dtype dtype, unsigned char *at)
{
    const uint16_t half = dtype == TD_SAFETENSORS_F16 ? td_fp16_from_float(value) : td_bf16_from_float(value);
    if (dtype == TD_SAFETENSORS_F32)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &half, sizeof half);
}

void td_convert(const void *from, td_safetensors_dtype from_dtype, td_safetensors_dtype to_dtype, uint64_t n,
                void *to)
{
    const size_t from_size = td_safetensors_dtype_bytes(from_dtype);
    const size_t to_size = td_safetensors_dtype_bytes(to_dtype);
    const unsigned char *x = from;
    unsigned char *y = to;
    if (from_dtype == to_dtype) {
        memcpy(to, from, (size_t)(n * from_size));
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        store(load(x + i * from_size, from_dtype), to_dtype, y + i * to_size);
}
