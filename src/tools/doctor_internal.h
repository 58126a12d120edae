/* What the parts of the doctor share. See doctor.h. */
#ifndef TD_TOOLS_DOCTOR_INTERNAL_H
#define TD_TOOLS_DOCTOR_INTERNAL_H

#include "tools/doctor.h"

typedef struct td_doctor {
    const td_doctor_request *request;
    td_diagnosis *out;
    td_status status; /* the first failure, of memory, sticks */
    td_finding lost;  /* takes findings after that */
    size_t n_drivers; /* of the API being looked at */
    size_t n_cards, n_nodes;
    size_t n_cards_of_vendors; /* cards that compute if they have a driver */
} td_doctor;

/* Adds a finding. */
void td_doctor_add(td_doctor *d, const char *group, td_finding_status status, const char *name,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What to do about the last finding. */
void td_doctor_advise(td_doctor *d, const char *packages, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Visits the entries of a folder that end with `suffix`, in the order of their names. */
void td_doctor_list(td_doctor *d, const char *folder, const char *suffix,
                    void (*visit)(td_doctor *d, const char *path));

/* Graphics cards on PCI, and whether their nodes in /dev may be used. */
void td_doctor_look_at_cards(td_doctor *d);

#endif
