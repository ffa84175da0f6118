// tunnel_report: one record from a tunnel (tunnel/wire/report.h) as a report: who said it is the session's word, what
// it says the record's, and its manifest is unpacked and hashed here. No I/O; one loop's.
#ifndef CULVERT_SERVER_INTAKE_TUNNEL_REPORT_H
#define CULVERT_SERVER_INTAKE_TUNNEL_REPORT_H

#include <zstd.h>

#include "base/error.h"
#include "storage/reports/report.h"
#include "tunnel/broker.h"

// False: the record is no report (HELLO names the boot, which the session told; DIGEST is for resyncs.h). Without the
// manifest.
bool tunnel_report_read(const struct tunnel_session_info *session, const struct wire_report *record,
                        struct report *out);
// Adds the manifest and the object's entry in the digest tree. Its texts are views of the record and of *out_owned
// (mem_free; may be NULL). An error (ERROR_INVALID, ERROR_TOO_LARGE): it has no manifest that can be used; an object is
// now a REPORT_KEPT_OUT, so that no comparison asks for it again.
MUST_CHECK enum error_code tunnel_report_unpack(ZSTD_DCtx *unpacker, const struct wire_report *record,
                                                struct report *report, char **out_owned, struct error *err);

#endif
