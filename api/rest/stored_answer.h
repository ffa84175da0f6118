// stored_answer: what a stored route answers, taken from the execution of its document. A value;
// its owner calls stored_answer_finish().
#ifndef CULVERT_API_REST_STORED_ANSWER_H
#define CULVERT_API_REST_STORED_ANSWER_H

#include <jansson.h>

#include "api/rest/stored_route.h"

struct stored_answer {
    json_t *document;      // the whole answer of GraphQL
    const json_t *problem; // the first of its errors; NULL: none
    json_t *value;         // what `answer` names, a slice as {"items", "next"}; NULL: null or none
    const char *next;      // of a slice that goes on; NULL: none
};

// ERROR_TOO_LARGE, ERROR_INVALID: not to be read; nothing is to be finished then.
MUST_CHECK enum error_code stored_answer_read(const struct stored_route *route, struct str body, size_t bytes_max,
                                              struct stored_answer *out, struct error *err);
void stored_answer_finish(struct stored_answer *answer);

#endif
