// report_judge: what reports of an account that is short of room are looked at with: what is left, and what is held of
// each object. Asked before their transaction is made ready, outside of it: whether it still fits, that transaction
// asks again (storage_open). For report_store.c; one loop.
#ifndef CULVERT_STORAGE_REPORTS_REPORT_JUDGE_H
#define CULVERT_STORAGE_REPORTS_REPORT_JUDGE_H

#include "storage/reports/report_plan.h"

// The callee owns it. NULL: the database did not answer.
typedef void (*report_judged)(void *arg, struct report_judgement *judgement);
// Reports of one account; their texts are not needed after the call. on_judged runs later, exactly once.
void report_judge_ask(struct pg *pg, const struct report_kinds *kinds, const struct report *reports, size_t count,
                      report_judged on_judged, void *arg);
void report_judgement_destroy(struct report_judgement *judgement); // NULL is fine

#endif
