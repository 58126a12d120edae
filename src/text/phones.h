/* The sounds of the International Phonetic Alphabet by how they are made, to find the one nearest to a sound that a
 * voice has not learnt. Covered by tests/text/test_adapt.c.
 */
#ifndef TD_TEXT_PHONES_H
#define TD_TEXT_PHONES_H

#include <stdbool.h>
#include <stdint.h>

/* Stress, length, tie bars and diacritics: they shade a sound, and without them it stays the same one. */
bool td_phone_is_shade(uint32_t codepoint);

/* The nearest sound that `knows` accepts; vowels stand for vowels, consonants for consonants. 0: the code point is not
 * a sound, or nothing is accepted. */
uint32_t td_phone_nearest(uint32_t codepoint, bool (*knows)(const void *context, uint32_t codepoint),
                          const void *context);

#endif
