/* See phones.h. */
#include "text/phones.h"

#include <stddef.h>
#include <stdlib.h>

#include <unicode/uchar.h>

/* Where a consonant is made, from the lips inwards. */
enum { LIPS, TEETH_LIP, TEETH, RIDGE, BEHIND_RIDGE, CURLED, PALATE, VELUM, UVULA, THROAT, GLOTTIS };

/* How. */
enum { STOP, NASAL, TRILL, TAP, FRICATIVE, GLIDE, LATERAL };

/* A vowel: place 0 (front) to 4 (back), manner 0 (closed) to 6 (open), and whether lips are round. A consonant: place,
 * manner, and whether it is voiced. R: a sound of r, wherever it is made. */
typedef struct phone {
    uint32_t codepoint;
    char kind; /* 'V', 'C', 'R' */
    signed char place, manner, third;
} phone;

static const phone PHONES[] = {
    {'i', 'V', 0, 0, 0},
    {'y', 'V', 0, 0, 1},
    {0x268, 'V', 2, 0, 0},
    {0x289, 'V', 2, 0, 1},
    {0x26F, 'V', 4, 0, 0},
    {'u', 'V', 4, 0, 1},
    {0x26A, 'V', 1, 1, 0},
    {0x28F, 'V', 1, 1, 1},
    {0x28A, 'V', 3, 1, 1},
    {0x1D7B, 'V', 1, 1, 0},
    {'e', 'V', 0, 2, 0},
    {0xF8, 'V', 0, 2, 1},
    {0x258, 'V', 2, 2, 0},
    {0x275, 'V', 2, 2, 1},
    {0x264, 'V', 4, 2, 0},
    {'o', 'V', 4, 2, 1},
    {0x259, 'V', 2, 3, 0},
    {0x25A, 'V', 2, 3, 0},
    {0x25B, 'V', 0, 4, 0},
    {0x153, 'V', 0, 4, 1},
    {0x25C, 'V', 2, 4, 0},
    {0x25D, 'V', 2, 4, 0},
    {0x25E, 'V', 2, 4, 1},
    {0x28C, 'V', 4, 4, 0},
    {0x254, 'V', 4, 4, 1},
    {0xE6, 'V', 0, 5, 0},
    {0x250, 'V', 2, 5, 0},
    {'a', 'V', 1, 6, 0},
    {0x276, 'V', 0, 6, 1},
    {0x251, 'V', 4, 6, 0},
    {0x252, 'V', 4, 6, 1},
    {'p', 'C', LIPS, STOP, 0},
    {'b', 'C', LIPS, STOP, 1},
    {'t', 'C', RIDGE, STOP, 0},
    {'d', 'C', RIDGE, STOP, 1},
    {0x288, 'C', CURLED, STOP, 0},
    {0x256, 'C', CURLED, STOP, 1},
    {'c', 'C', PALATE, STOP, 0},
    {0x25F, 'C', PALATE, STOP, 1},
    {'k', 'C', VELUM, STOP, 0},
    {0x261, 'C', VELUM, STOP, 1},
    {'g', 'C', VELUM, STOP, 1},
    {'q', 'C', UVULA, STOP, 0},
    {0x262, 'C', UVULA, STOP, 1},
    {0x294, 'C', GLOTTIS, STOP, 0},
    {'m', 'C', LIPS, NASAL, 1},
    {0x271, 'C', TEETH_LIP, NASAL, 1},
    {'n', 'C', RIDGE, NASAL, 1},
    {0x273, 'C', CURLED, NASAL, 1},
    {0x272, 'C', PALATE, NASAL, 1},
    {0x14B, 'C', VELUM, NASAL, 1},
    {0x274, 'C', UVULA, NASAL, 1},
    {'r', 'R', RIDGE, TRILL, 1},
    {0x27E, 'R', RIDGE, TAP, 1},
    {0x27D, 'R', CURLED, TAP, 1},
    {0x279, 'R', RIDGE, GLIDE, 1},
    {0x27B, 'R', CURLED, GLIDE, 1},
    {0x280, 'R', UVULA, TRILL, 1},
    {0x281, 'R', UVULA, FRICATIVE, 1},
    {0x278, 'C', LIPS, FRICATIVE, 0},
    {0x3B2, 'C', LIPS, FRICATIVE, 1},
    {'f', 'C', TEETH_LIP, FRICATIVE, 0},
    {'v', 'C', TEETH_LIP, FRICATIVE, 1},
    {0x3B8, 'C', TEETH, FRICATIVE, 0},
    {0xF0, 'C', TEETH, FRICATIVE, 1},
    {'s', 'C', RIDGE, FRICATIVE, 0},
    {'z', 'C', RIDGE, FRICATIVE, 1},
    {0x283, 'C', BEHIND_RIDGE, FRICATIVE, 0},
    {0x292, 'C', BEHIND_RIDGE, FRICATIVE, 1},
    {0x282, 'C', CURLED, FRICATIVE, 0},
    {0x290, 'C', CURLED, FRICATIVE, 1},
    {0x255, 'C', BEHIND_RIDGE, FRICATIVE, 0},
    {0x291, 'C', BEHIND_RIDGE, FRICATIVE, 1},
    {0xE7, 'C', PALATE, FRICATIVE, 0},
    {0x29D, 'C', PALATE, FRICATIVE, 1},
    {'x', 'C', VELUM, FRICATIVE, 0},
    {0x263, 'C', VELUM, FRICATIVE, 1},
    {0x3C7, 'C', UVULA, FRICATIVE, 0},
    {0x127, 'C', THROAT, FRICATIVE, 0},
    {0x295, 'C', THROAT, FRICATIVE, 1},
    {'h', 'C', GLOTTIS, FRICATIVE, 0},
    {0x266, 'C', GLOTTIS, FRICATIVE, 1},
    {0x28B, 'C', TEETH_LIP, GLIDE, 1},
    {'w', 'C', LIPS, GLIDE, 1},
    {0x28D, 'C', LIPS, GLIDE, 0},
    {0x265, 'C', PALATE, GLIDE, 1},
    {'j', 'C', PALATE, GLIDE, 1},
    {0x270, 'C', VELUM, GLIDE, 1},
    {'l', 'C', RIDGE, LATERAL, 1},
    {0x26B, 'C', RIDGE, LATERAL, 1},
    {0x26D, 'C', CURLED, LATERAL, 1},
    {0x28E, 'C', PALATE, LATERAL, 1},
    {0x29F, 'C', VELUM, LATERAL, 1},
    {0x26C, 'C', RIDGE, LATERAL, 0},
};
enum { N_PHONES = sizeof PHONES / sizeof PHONES[0] };

bool td_phone_is_shade(uint32_t codepoint)
{
    const uint32_t class = U_GET_GC_MASK((UChar32)codepoint);
    return (codepoint >= 0x2B0 && codepoint <= 0x2FF) || (class & U_GC_M_MASK) != 0;
}

static const phone *find_phone(uint32_t codepoint)
{
    for (size_t i = 0; i < N_PHONES; i++)
        if (PHONES[i].codepoint == codepoint) return &PHONES[i];
    return NULL;
}

/* How unlike two sounds are; -1: one cannot stand for the other. Of consonants the manner is heard more than the
 * place, of vowels how open they are. */
static int compare_phones(const phone *a, const phone *b)
{
    const int place = abs(a->place - b->place), manner = abs(a->manner - b->manner),
              third = a->third != b->third;
    if ((a->kind == 'V') != (b->kind == 'V')) return -1;
    if (a->kind == 'V') return 2 * place + 3 * manner + 2 * third;
    if (a->kind == 'R' && b->kind == 'R') return 1 + place;
    return 2 * place + 8 * (manner != 0) + 3 * third;
}

uint32_t td_phone_nearest(uint32_t codepoint, bool (*knows)(const void *context, uint32_t codepoint),
                          const void *context)
{
    const phone *wanted = find_phone(codepoint);
    uint32_t best = 0;
    int least = 0;
    for (size_t i = 0; wanted && i < N_PHONES; i++) {
        const int distance = compare_phones(wanted, &PHONES[i]);
        if (distance < 0 || (best && distance >= least) || !knows(context, PHONES[i].codepoint)) continue;
        best = PHONES[i].codepoint;
        least = distance;
    }
    return best;
}
