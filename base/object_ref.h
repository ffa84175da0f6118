// object_ref: which Kubernetes object is meant. Views: the texts are the caller's.
// Source: Kubernetes API, ObjectReference (core/v1).
#ifndef CULVERT_BASE_OBJECT_REF_H
#define CULVERT_BASE_OBJECT_REF_H

#include <stdbool.h>

#include "base/str.h"

// group: empty for core; ns: empty for a cluster's own objects. version and uid are empty where any
// is meant: they are no part of the identity.
struct object_ref {
    struct str group, version, kind, ns, name, uid;
};

// The same object, by group, kind, namespace and name.
static inline bool object_ref_eq(const struct object_ref *a, const struct object_ref *b)
{
    return str_eq(a->name, b->name) && str_eq(a->ns, b->ns) && str_eq(a->kind, b->kind) && str_eq(a->group, b->group);
}

// Whether the object is of that kind.
static inline bool object_ref_is(const struct object_ref *ref, const char *group, const char *kind)
{
    return str_eq(ref->kind, str_c(kind)) && str_eq(ref->group, str_c(group));
}

// group and version of an apiVersion: "apps/v1"; "v1" is of core.
static inline void object_ref_set_api_version(struct object_ref *ref, struct str api_version)
{
    ref->version = api_version;
    if (!str_cut(&ref->version, '/', &ref->group)) {
        ref->group = STR_EMPTY;
        ref->version = api_version;
    }
}

// Whether it is an Application of Argo CD.
static inline bool object_ref_is_application(const struct object_ref *ref)
{
    return object_ref_is(ref, "argoproj.io", "Application");
}

#endif
