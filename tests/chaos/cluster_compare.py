"""The demo cluster, as it holds still, beside the database: every object that an agent reports is there with its content, every
other one is not, and every deployment that the cluster remembers is in the ledger, once.

Which objects those are, and what of them is told, is worked out here anew, from the objects alone."""

import ctypes
import hashlib
import json

from ledger import repeated

ARGO = "argoproj.io"
ALWAYS = {(ARGO, kind) for kind in ("Application", "ApplicationSet", "Rollout", "AnalysisRun", "Workflow")}
WATCHED = ALWAYS | {("apps", "ReplicaSet"), ("apps", "ControllerRevision"), ("batch", "Job"), ("discovery.k8s.io", "EndpointSlice"), ("", "Pod")}  # besides what applications name
SYNC = {"Synced": "SYNCED", "OutOfSync": "OUT_OF_SYNC"}
NOISE = {"managedFields", "resourceVersion", "selfLink", "generateName", "reconciledAt", "observedAt", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime", "annotations"}
SECRET_MEMBERS = {"apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData"}
NOT_READ = "culvert.dev/resources-not-read"  # a note that the agent adds
ENTITIES = {"rollouts": (ARGO, "Rollout"), "replica_sets": ("apps", "ReplicaSet"), "analysis_runs": (ARGO, "AnalysisRun")}
FAULTS_MAX = 50


def unzstd(data, plain_bytes):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(plain_bytes or 1)
    size = library.ZSTD_decompress(out, ctypes.c_size_t(plain_bytes), data, ctypes.c_size_t(len(data)))
    return out.raw[:plain_bytes] if size == plain_bytes else None


# ---- the cluster -------------------------------------------------------------------------------


def all_objects(platform):
    """{(group, kind, namespace, name): object}"""
    versions = ["/api/v1"] + [f"/apis/{group['preferredVersion']['groupVersion']}" for group in platform.cluster("GET", "/apis")["groups"]]
    found = {}
    for version in versions:
        for resource in platform.cluster("GET", version)["resources"]:
            if "list" not in resource["verbs"] or "/" in resource["name"]:
                continue
            group, _, number = version.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
            for each in platform.cluster("GET", f"{version}/{resource['name']}")["items"]:
                each.update(kind=resource["kind"], apiVersion=f"{group}/{number}".lstrip("/"))
                found[group, resource["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]] = each
    return found


def is_local(application):
    destination = application["spec"].get("destination", {})
    server, name = destination.get("server", ""), destination.get("name", "")
    return server.startswith("https://kubernetes.default.svc") if server else name in ("", "in-cluster")


def claims_of(objects):
    """{key: [(application's name, its entry)]}"""
    claims = {}
    for key, each in objects.items():
        if key[:2] == (ARGO, "Application") and is_local(each):
            for entry in each.get("status", {}).get("resources", []):
                claimed = (entry.get("group", ""), entry["kind"], entry.get("namespace", ""), entry["name"])
                claims.setdefault(claimed, []).append((key[3], entry))
    return claims


def owner_uid(each):
    owners = each["metadata"].get("ownerReferences", [])
    return next((owner["uid"] for owner in owners if owner.get("controller")), owners[0]["uid"] if owners else None)


def reported_objects(objects, claims):
    """Those that an agent is to report."""
    watched = WATCHED | {key[:2] for key in claims}
    seen = {key: each for key, each in objects.items() if key[:2] in watched}
    wanted = {key: each for key, each in seen.items() if key[:2] in ALWAYS or key in claims}
    count = -1
    while count != len(wanted):
        count, uids = len(wanted), {each["metadata"]["uid"] for each in wanted.values()}
        wanted.update({key: each for key, each in seen.items() if owner_uid(each) in uids})
    return wanted


# ---- content -----------------------------------------------------------------------------------


def differences(there, stored, place=""):
    """Where what is stored is not what the cluster has. Digests and masks stand for anything, noise may be missing."""
    if isinstance(stored, str) and ("hmac-sha256:" in stored or "***" in stored):
        return
    if isinstance(there, dict) and isinstance(stored, dict):
        for key in sorted(there.keys() | stored.keys()):
            if key not in stored:
                if key not in NOISE and not place.endswith(".annotations"):
                    yield f"{place}.{key} is missing"
            elif key not in there:
                yield f"{place}.{key} is not in the cluster"
            else:
                yield from differences(there[key], stored[key], f"{place}.{key}")
    elif isinstance(there, list) and isinstance(stored, list) and len(there) == len(stored):
        for i, (one, other) in enumerate(zip(there, stored)):
            yield from differences(one, other, f"{place}[{i}]")
    elif there != stored:
        yield f"{place} is {json.dumps(there)[:200]}, stored is {json.dumps(stored)[:200]}"


def content_faults(key, each, stored):
    """Of one object; the note is on Applications that deploy elsewhere, and on no other object."""
    expected = {member: value for member, value in each.items() if member in SECRET_MEMBERS} if key[1] == "Secret" else each
    if key[:2] == (ARGO, "Application") and not is_local(each):
        annotations = dict(stored["metadata"].get("annotations", {}))
        if not json.loads(annotations.pop(NOT_READ, "{}")).get("message"):
            yield "has no note that its resources are not read"
        metadata = {member: value for member, value in stored["metadata"].items() if member != "annotations"}
        stored = {**stored, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
    yield from differences(expected, stored)


class Manifests:
    """Those of a runtime's rows, by SHA-256; each is checked against its name."""

    def __init__(self, platform, runtime):
        of_rows = " union ".join(f"select account_id, manifest_sha256 from {table} where runtime = '{runtime}' and not is_deleted" for table in ("applications", "resources"))
        rows = platform.psql(f"select encode(sha256, 'hex'), encoding, plain_bytes, encode(content, 'hex') from manifests where (account_id, sha256) in ({of_rows})")
        self.rows = {row[0]: row[1:] for row in rows}
        self.known = {}

    def get(self, name):
        if name not in self.known:
            encoding, plain_bytes, content = self.rows[name]
            plain = bytes.fromhex(content)
            plain = unzstd(plain, int(plain_bytes)) if encoding == "1" else plain
            is_good = plain is not None and hashlib.sha256(plain).hexdigest() == name
            self.known[name] = json.loads(plain) if is_good else None
        return self.known[name]


# ---- the comparison ----------------------------------------------------------------------------


def row_faults(rows, objects, wanted, claims, manifests):
    """rows: {key: (uid, manifest, sync status, application)}"""
    for key in sorted(wanted.keys() - rows.keys()):
        yield f"{'/'.join(key)} is not in the database"
    for key in sorted(rows.keys() - wanted.keys()):
        where = f"nobody's in the cluster (owner {owner_uid(objects[key])})" if key in objects else "not in the cluster"
        yield f"{'/'.join(key)} is in the database ({rows[key][0]}), and {where}"
    for key in sorted(rows.keys() & wanted.keys()):
        uid, name, sync_status, application = rows[key]
        each, named = wanted[key], claims.get(key, [])
        if uid != each["metadata"]["uid"]:
            yield f"{'/'.join(key)} is another incarnation: {uid}"
        elif name not in manifests.rows or manifests.get(name) is None:
            yield f"{'/'.join(key)}: its manifest is missing or damaged"
        else:
            yield from (f"{'/'.join(key)}: {fault}" for fault in content_faults(key, each, manifests.get(name)))
        if key[:2] != (ARGO, "Application") and named and (application, sync_status) not in {(who, SYNC.get(entry.get("status", ""), "UNKNOWN" if entry.get("status") else "")) for who, entry in named}:
            yield f"{'/'.join(key)}: of {application or 'no application'} and {sync_status or 'without a status'}, not as {[(who, entry.get('status')) for who, entry in named]}"


def history_faults(platform, runtime, wanted):
    """What the applications of the cluster remember is in the ledger."""
    releases = platform.psql(f"select uid, history_id, revision from deployments where runtime = '{runtime}'")
    stored = {(uid, int(number)): revision for uid, number, revision in releases}
    operations = {(uid, int(start)): phase for uid, start, phase in platform.psql(f"select uid, extract(epoch from started_at)::bigint, phase from application_operations where runtime = '{runtime}'")}
    starts = platform.psql("select " + ", ".join(f"extract(epoch from '{start}'::timestamptz)::bigint" for start in sorted(start_times(wanted))))[0] if start_times(wanted) else []
    seconds = dict(zip(sorted(start_times(wanted)), map(int, starts)))
    yield from (f"deployment {each} is there twice" for each in repeated(tuple(each[:2]) for each in releases))
    for key, each in wanted.items():
        if key[:2] != (ARGO, "Application"):
            continue
        uid, status = each["metadata"]["uid"], each.get("status", {})
        for entry in status.get("history", []):
            revision = entry.get("revision") or entry.get("revisions", [""])[0]
            if stored.get((uid, entry["id"])) != revision:
                yield f"deployment {entry['id']} of {key[3]}: {stored.get((uid, entry['id']))} in place of {revision}"
        state = status.get("operationState")
        if state and operations.get((uid, seconds[state["startedAt"]])) != state["phase"]:
            yield f"operation of {key[3]} at {state['startedAt']}: {operations.get((uid, seconds[state['startedAt']]))} in place of {state['phase']}"


def start_times(wanted):
    return {each["status"]["operationState"]["startedAt"] for key, each in wanted.items() if key[:2] == (ARGO, "Application") and each.get("status", {}).get("operationState")}


def entity_faults(platform, runtime, wanted):
    """Rows of rollouts, replica sets, analysis runs: one for each object that is there, and of this incarnation."""
    for table, (group, kind) in ENTITIES.items():
        rows = platform.psql(f"select e.namespace, e.name, e.uid from {table} e join resources r using (account_id, runtime, cluster, api_group, kind, namespace, name) where runtime = '{runtime}' and not r.is_deleted and r.presence is null")
        stored = {(namespace, name): uid for namespace, name, uid in rows}
        there = {key[2:]: each["metadata"]["uid"] for key, each in wanted.items() if key[:2] == (group, kind)}
        yield from (f"{table}: {name} is {stored.get(name)}, in the cluster {there.get(name)}" for name in sorted(stored.keys() | there.keys()) if stored.get(name) != there.get(name))
    runs = platform.psql(f"select uid, phase from workflows where runtime = '{runtime}'")
    phases = dict(runs)
    for key, each in wanted.items():
        phase = each.get("status", {}).get("phase") or "Unknown"
        if key[:2] == (ARGO, "Workflow") and phases.get(each["metadata"]["uid"]) != phase:
            yield f"workflow {key[3]} is {phases.get(each['metadata']['uid'])}, in the cluster {phase}"


def cluster_faults(platform):
    """What is wrong; nobody may be changing the cluster. Also how many objects were compared."""
    runtime = platform.env["CULVERT_RUNTIME"]
    objects = all_objects(platform)
    claims = claims_of(objects)
    wanted = reported_objects(objects, claims)
    rows = platform.psql(
        f"select '{ARGO}', 'Application', namespace, name, uid, encode(manifest_sha256, 'hex'), '', '' from applications where runtime = '{runtime}' and not is_deleted"
        f" union all select api_group, kind, namespace, name, uid, encode(manifest_sha256, 'hex'), coalesce(sync_status, ''), application_name from resources where runtime = '{runtime}' and not is_deleted and presence is null"
    )
    stored = {tuple(row[:4]): tuple(row[4:]) for row in rows}
    faults = [f"{each} is there twice" for each in repeated(tuple(row[:4]) for row in rows)]
    faults += row_faults(stored, objects, wanted, claims, Manifests(platform, runtime))
    faults += history_faults(platform, runtime, wanted)
    faults += entity_faults(platform, runtime, wanted)
    return faults[:FAULTS_MAX], len(wanted)
