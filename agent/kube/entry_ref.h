// entry_ref: which object an entry of an Application's status.resources, or a node of Argo CD's
// resource tree, is about: both name it by the same members.
#ifndef CULVERT_AGENT_KUBE_ENTRY_REF_H
#define CULVERT_AGENT_KUBE_ENTRY_REF_H

#include "base/json/json.h"
#include "base/object_ref.h"

// Views into the entry; what it does not have is empty.
static inline struct object_ref entry_ref(const json_t *entry)
{
    return (struct object_ref){.group = json_get_str(entry, "group"),
                               .version = json_get_str(entry, "version"),
                               .kind = json_get_str(entry, "kind"),
                               .ns = json_get_str(entry, "namespace"),
                               .name = json_get_str(entry, "name"),
                               .uid = json_get_str(entry, "uid")};
}

#endif
