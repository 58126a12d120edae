/* The list of the tests' own families, which the library finds when it is linked with it (families/family.h). */
#include "families/family.h"

#define FAMILY(name) extern const td_family td_family_##name;
#include "families/more/families.def"
#undef FAMILY

const td_family *const td_more_families[] = {
#define FAMILY(name) &td_family_##name,
#include "families/more/families.def"
#undef FAMILY
    NULL};
