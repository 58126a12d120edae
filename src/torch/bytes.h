/* Little-endian numbers at any place of a file. */
#ifndef TD_TORCH_BYTES_H
#define TD_TORCH_BYTES_H

#include <stdint.h>

static inline uint16_t td_read_u16(const void *at)
{
    const unsigned char *p = at;
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t td_read_u32(const void *at)
{
    const unsigned char *p = at;
    return td_read_u16(p) | (uint32_t)td_read_u16(p + 2) << 16;
}

static inline uint64_t td_read_u64(const void *at)
{
    const unsigned char *p = at;
    return td_read_u32(p) | (uint64_t)td_read_u32(p + 4) << 32;
}

static inline void td_put_u16(void *at, uint16_t value)
{
    unsigned char *p = at;
    p[0] = (unsigned char)value;
    p[1] = (unsigned char)(value >> 8);
}

static inline void td_put_u32(void *at, uint32_t value)
{
    td_put_u16(at, (uint16_t)value);
    td_put_u16((unsigned char *)at + 2, (uint16_t)(value >> 16));
}

static inline void td_put_u64(void *at, uint64_t value)
{
    td_put_u32(at, (uint32_t)value);
    td_put_u32((unsigned char *)at + 4, (uint32_t)(value >> 32));
}

#endif
