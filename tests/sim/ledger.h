// ledger: what must hold in every run, and what is known to check it. What is broken ends the run
// with the line of the first violation. One thread.
//
//   acknowledged is applied  the platform acknowledges a record only after the commit with it
//   once, newest wins        a row changes only for a newer (epoch, sequence), and never to an
//                            older state of its object
//   nothing is deleted       for being absent from something incomplete: a row goes only when its
//                            object is gone
//   at rest                  both hold the same, once the agent says that it is not behind
#ifndef CULVERT_TESTS_SIM_LEDGER_H
#define CULVERT_TESTS_SIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

void ledger_begin(uint64_t seed);
void ledger_end(void);
__attribute__((format(printf, 1, 2))) void ledger_violation(const char *format, ...);
const char *ledger_broken(void); // the first violation; NULL: none

// A transaction with this record was committed.
void ledger_commit(uint64_t epoch, uint64_t sequence);
bool ledger_is_committed(uint64_t epoch, uint64_t sequence);

#endif
