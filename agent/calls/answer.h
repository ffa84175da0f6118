// answer: short complete answers that the agent makes itself. One loop.
#ifndef CULVERT_AGENT_ANSWER_H
#define CULVERT_AGENT_ANSWER_H

#include "agent/tunnel/session.h"
#include "base/str.h"

// Head, body, end. body is at most 64 KiB.
void agent_answer(struct agent_stream *stream, int status, struct str content_type, struct str body);
// A refusal: header culvert-cause and a JSON body {"error": cause, "message": detail}.
void agent_answer_cause(struct agent_stream *stream, int status, const char *cause, const char *detail);
// A problem of what was asked for (RFC 9457), which reaches the client as it is.
void agent_answer_problem(struct agent_stream *stream, int status, const char *code, const char *detail);

#endif
