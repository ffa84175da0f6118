// argo_status: Argo CD's words for sync and health as the contract's enums spell them. Pure; any thread.
#ifndef CULVERT_STORAGE_REPORTS_ARGO_STATUS_H
#define CULVERT_STORAGE_REPORTS_ARGO_STATUS_H

#include "base/str.h"

// "Synced" -> "SYNCED", "OutOfSync" -> "OUT_OF_SYNC", ...; what is neither that nor an enum word already is "UNKNOWN";
// empty stays empty.
struct str argo_sync_status(struct str word);
// "Healthy" -> "HEALTHY", ...
struct str argo_health_status(struct str word);

#endif
