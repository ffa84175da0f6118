// header_intake: a header block on its way in, as libnghttp2 delivers it, field by field. For the
// end of a tunnel or a hop between replicas. Owned by the connection; at most one a connection,
// since header blocks never interleave (RFC 9113 section 4.3). One loop.
#ifndef CULVERT_TUNNEL_SESSION_HEADER_INTAKE_H
#define CULVERT_TUNNEL_SESSION_HEADER_INTAKE_H

#include "tunnel/session/header_block.h"

struct header_intake;

// bytes_max: names and values together.
struct header_intake *header_intake_create(size_t count_max, size_t bytes_max);
void header_intake_destroy(struct header_intake *intake); // NULL is fine

// Copies; :status is kept apart. False: the block is larger than it may be.
bool header_intake_add(struct header_intake *intake, struct str name, struct str value);
int header_intake_status(const struct header_intake *intake); // 0: none came
// The fields in the order in which they came. Their texts are the intake's and last as long as it
// does; the caller finishes the block.
struct header_block header_intake_fields(const struct header_intake *intake);

#endif
