"""What Argo CD and the cluster say against what Culvert's GraphQL says, field by field.

Each difference is one line of text, `application NAME: FIELD: Argo CD ..., GraphQL ...`, or with a node of its tree
`application NAME: GROUP/KIND NAMESPACE/NAME: FIELD: ...`. tests/real/differences.txt lists those that are right, with why.
"""

import datetime
import fnmatch
import json
import pathlib
import urllib.request

from estate import APPLICATIONS, SETS

HERE = pathlib.Path(__file__).resolve().parent

APPLICATION_QUERY = """query($r: String!, $n: String!) { application(runtime: $r, name: $n, namespace: "argocd") {
  metadata { uid name namespace } syncStatus healthStatus healthMessage isHelmApp isMultiSourced size freshness revision repoURL path
  sync { status revision revisions } destination { name server namespace }
  specSource { path repoURL targetRevision chart } specSources { path repoURL targetRevision chart ref } syncPolicy
  operationState { startedAt finishedAt message phase retryCount syncResult { revision revisions
    resources { group version kind namespace name message status syncPhase hookPhase hookType } } }
} }"""
TREE_QUERY = """query($r: String!, $n: String!) { resourceTree(runtime: $r, name: $n, namespace: "argocd") { nodes {
  group version kind namespace name uid parentRefs { kind namespace name uid } createdAt images presence health { status %s } status
  templateImages runningImages { image imageID pods } } } }"""
RUNNING_QUERY = """query($f: ApplicationsFilterArgs) { applications(filters: $f, pagination: {first: 2}) { edges { node {
  runningImages { image imageID pods } } } } }"""
RELEASES_QUERY = """query($f: GitopsReleaseFilterArgs) { gitopsReleases(filters: $f, pagination: {first: 50}) { edges { node {
  argoHistoryId syncOperationRevision deployedAt initiator automated result } } } }"""
SETS_QUERY = """query($r: String!) { applicationSets(runtime: $r, pagination: {first: 50}) { edges { node {
  metadata { uid name namespace } size applications freshness } } } }"""
SYNC = {"Synced": "SYNCED", "OutOfSync": "OUT_OF_SYNC", "Unknown": "UNKNOWN"}


def seconds(text):
    """Times by the second: Argo CD has no more, RFC 3339 may be written in more than one way."""
    return None if not text else datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).replace(microsecond=0)


def upper(word):
    return word.upper() if word else None


def tree_query():
    """With the health's message where the schema has it."""
    schema = (HERE.parents[1] / "modules/resources/resources.graphql").read_text()
    health = schema.partition("type ResourceTreeHealthStatus {")[2].partition("}")[0]
    return TREE_QUERY % ("message" if "message" in health else "")


class Comparison:
    def __init__(self, cluster, platform, runtime=None):
        self.cluster, self.platform = cluster, platform
        self.runtime = runtime or platform.env["CULVERT_RUNTIME"]
        self.argo_url = (cluster.folder / "argocd.url").read_text().strip()
        self.lines = []

    # ---- truth ---------------------------------------------------------------------------------------------------------

    def argo(self, path):
        with urllib.request.urlopen(self.argo_url + path, timeout=30) as answer:
            return json.load(answer)

    def objects(self):
        code, answer = self.cluster.api.request("GET", APPLICATIONS)
        assert code == 200, answer
        return {item["metadata"]["name"]: item for item in answer["items"]}

    def argo_tree(self, item):
        """{(group, kind, namespace, name): fields} of Argo CD's own tree, with the sync state from the Application."""
        name = item["metadata"]["name"]
        sync = {}
        for each in item.get("status", {}).get("resources", []):
            if not each.get("hook"):
                sync[each.get("group", ""), each["kind"], each.get("namespace", ""), each["name"]] = each.get("status")
        found = {}
        for node in self.argo(f"/api/v1/applications/{name}/resource-tree?appNamespace=argocd").get("nodes") or []:
            key = node.get("group", ""), node["kind"], node.get("namespace", ""), node["name"]
            health = node.get("health") or {}
            found[key] = {
                "version": node.get("version"),
                "uid": node.get("uid") or None,
                "parents": sorted(each["uid"] for each in node.get("parentRefs", [])),
                "health": upper(health.get("status")),
                "message": health.get("message") or None,
                "sync": SYNC.get(sync.get(key)),
                "images": sorted(node.get("images") or []),
                "createdAt": seconds(node.get("createdAt")),
                "presence": "PRESENT" if node.get("uid") else "MISSING",
            }
        self.add_images(found)
        for key, state in sync.items():  # what the Application names and its tree does not
            found.setdefault(key, {"sync": SYNC.get(state)})
        return found

    def listed(self, path):
        code, answer = self.cluster.api.request("GET", path)
        assert code == 200, answer
        return {item["metadata"]["uid"]: item for item in answer["items"]}

    def add_images(self, found):
        """What pods run and templates ask for, by the objects of the cluster: Argo CD's tree has neither."""
        pods, by_uid = self.listed("/api/v1/pods"), {fields["uid"]: fields for fields in found.values() if fields["uid"]}
        workloads = {}
        for path in ("apps/v1/deployments", "apps/v1/replicasets", "apps/v1/statefulsets", "apps/v1/daemonsets", "argoproj.io/v1alpha1/rollouts"):
            workloads.update(self.listed(f"/apis/{path}"))
        for uid in by_uid.keys() & workloads.keys():
            by_uid[uid]["runningImages"] = {}
            containers = workloads[uid]["spec"]["template"]["spec"]["containers"]
            by_uid[uid]["templateImages"] = sorted({each["image"] for each in containers})
        for uid in by_uid.keys() & pods.keys():
            by_uid[uid].update(runningImages={}, templateImages=[])
            statuses = pods[uid].get("status", {}).get("containerStatuses", [])
            run = {(each["image"], each["imageID"] or None) for each in statuses if "running" in each.get("state", {})}
            above = [uid]
            while above:
                fields = by_uid.get(above.pop(), {})
                for each in run:
                    if "runningImages" in fields:
                        fields["runningImages"][each] = fields["runningImages"].get(each, 0) + 1
                above += fields.get("parents", [])
        for fields in found.values():
            if "runningImages" in fields:
                fields["runningImages"] = sorted((*each, count) for each, count in fields["runningImages"].items())

    # ---- ours ----------------------------------------------------------------------------------------------------------

    def ask(self, query, **variables):
        return self.platform.graphql(query, variables)

    def our_tree(self, name, uid):
        answer = self.ask(tree_query(), r=self.runtime, n=name)["resourceTree"]
        found = {}
        for node in (answer or {}).get("nodes") or []:
            if node["kind"] == "Application" and node["name"] == name and node["uid"] == uid:
                continue
            key = node["group"] or "", node["kind"], node["namespace"] or "", node["name"]
            if key in found:
                self.lines.append(f"application {name}: {described(key)}: is there twice")
            health = node["health"] or {}
            found[key] = {
                "version": node["version"],
                "uid": node["uid"] or None,
                "parents": sorted(each["uid"] for each in node["parentRefs"] or [] if each["uid"] != uid),
                "health": health.get("status"),
                "message": health.get("message") or None,
                "sync": node["status"],
                "images": sorted(node["images"] or []),
                "templateImages": sorted(node["templateImages"]),
                "runningImages": sorted((each["image"], each["imageID"], each["pods"]) for each in node["runningImages"]),
                "createdAt": seconds(node["createdAt"]),
                "presence": "MISSING" if node["presence"] == "UNKNOWN_KIND" else node["presence"],
            }
        return found

    # ---- comparing -----------------------------------------------------------------------------------------------------

    def note(self, where, field, theirs, ours):
        if theirs != ours:
            self.lines.append(f"{where}: {field}: Argo CD {shown(theirs)}, GraphQL {shown(ours)}")

    def compare_tree(self, item):
        name, uid = item["metadata"]["name"], item["metadata"]["uid"]
        theirs, ours = self.argo_tree(item), self.our_tree(name, uid)
        self.compare_running(name, theirs)
        readable = self.readable()
        has_messages = "message" in tree_query().partition("health {")[2].partition("}")[0]
        for key in sorted(theirs.keys() | ours.keys()):
            where = f"application {name}: {described(key)}"
            if key not in ours or key not in theirs:
                self.note(where, "node" if key in ours else self.kind_of_gap(theirs, ours, key), "there" if key in theirs else None, "there" if key in ours else None)
                continue
            # A kind that the agent may not read is known from status.resources alone.
            unread = "uid" in theirs[key] and (key[0], plural(key[1])) not in readable
            if unread and theirs[key]["presence"] == "PRESENT":
                theirs[key]["presence"] = "UNREADABLE"
            for field, value in theirs[key].items():
                if field != "message" or has_messages:
                    self.note(where, f"unread {field}" if unread and field in ("uid", "createdAt") else field, value, ours[key][field])

    def compare_running(self, name, theirs):
        """What all pods of an application run, in a list of applications."""
        wanted = {}
        for key, fields in theirs.items():
            for image, image_id, count in fields.get("runningImages", []) if key[1] == "Pod" else []:
                wanted[image, image_id] = wanted.get((image, image_id), 0) + count
        edges = self.ask(RUNNING_QUERY, f={"runtime": self.runtime, "applications": [name]})["applications"]["edges"]
        told = [(each["image"], each["imageID"], each["pods"]) for edge in edges for each in edge["node"]["runningImages"]]
        self.note(f"application {name}", "runningImages", sorted((*each, count) for each, count in wanted.items()), sorted(told))

    def kind_of_gap(self, theirs, ours, key):
        """Why we may lack a node of theirs: it is not in the cluster, the agent may not read it or its owner, or neither."""
        if not theirs[key].get("uid"):
            return "absent node"
        shown_uids = {fields["uid"] for fields in ours.values()}
        unread = (key[0], plural(key[1])) not in self.readable()
        return "unread node" if unread or any(uid not in shown_uids for uid in theirs[key]["parents"]) else "node"

    def readable(self):
        """{(group, plural)} that the agent's ClusterRole names."""
        code, role = self.cluster.api.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/culvert-agent")
        assert code == 200, role
        return {(group, name) for rule in role["rules"] for group in rule.get("apiGroups", []) for name in rule.get("resources", [])}

    def compare_application(self, item):
        name, spec, status = item["metadata"]["name"], item["spec"], item.get("status", {})
        ours = self.ask(APPLICATION_QUERY, r=self.runtime, n=name)["application"]
        where = f"application {name}"
        if ours is None:
            self.note(where, "application", "there", None)
            return
        sync = status.get("sync", {})
        self.note(where, "uid", item["metadata"]["uid"], ours["metadata"]["uid"])
        self.note(where, "sync.status", SYNC.get(sync.get("status"), "UNKNOWN"), (ours["sync"] or {}).get("status"))
        self.note(where, "healthStatus", upper(status.get("health", {}).get("status", "Unknown")), ours["healthStatus"])
        revisions = sync.get("revisions") or ([sync["revision"]] if sync.get("revision") else [])
        told = (ours["sync"] or {}).get("revisions") or ([ours["sync"]["revision"]] if (ours["sync"] or {}).get("revision") else [])
        self.note(where, "sync.revisions", revisions, told)
        self.note(where, "isMultiSourced", "sources" in spec, ours["isMultiSourced"])
        self.note(where, "destination.server", spec["destination"].get("server"), (ours["destination"] or {}).get("server"))
        self.note(where, "destination.namespace", spec["destination"].get("namespace"), (ours["destination"] or {}).get("namespace"))
        sources = spec.get("sources") or [spec["source"]]
        told = ours["specSources"] if ours["isMultiSourced"] else [ours["specSource"]]
        for field in ("repoURL", "path", "targetRevision"):
            self.note(where, f"sources.{field}", [each.get(field) for each in sources], [(each or {}).get(field) for each in told or []])
        self.note(where, "syncPolicy", "Automated" if "automated" in spec.get("syncPolicy", {}) else "Manual", ours["syncPolicy"])
        self.note(where, "freshness", "live", ours["freshness"])
        self.compare_operation(where, status.get("operationState"), ours["operationState"])

    def compare_operation(self, where, theirs, ours):
        if theirs is None or ours is None:
            self.note(where, "operationState", theirs and "there", ours and "there")
            return
        for field in ("phase", "message"):
            self.note(where, f"operationState.{field}", theirs.get(field) or None, ours[field] or None)
        for field in ("startedAt", "finishedAt"):
            self.note(where, f"operationState.{field}", seconds(theirs.get(field)), seconds(ours[field]))
        theirs, ours = theirs.get("syncResult") or {}, ours["syncResult"] or {}
        results = [{(each.get("group", ""), each["kind"], each.get("namespace") or "", each["name"]): each for each in side.get("resources") or []} for side in (theirs, ours)]
        for key in sorted(results[0].keys() | results[1].keys()):
            one, other = results[0].get(key), results[1].get(key)
            here = f"{where}: syncResult {described(key)}"
            if one is None or other is None:
                self.note(here, "result", one and "there", other and "there")
                continue
            for field in ("message", "status", "syncPhase", "hookPhase", "hookType"):
                self.note(here, field, one.get(field) or None, other[field])

    def compare_history(self, item):
        name = item["metadata"]["name"]
        filters = {"runtime": self.runtime, "name": name, "namespace": "argocd"}
        edges = self.ask(RELEASES_QUERY, f=filters)["gitopsReleases"]["edges"]
        ours = {edge["node"]["argoHistoryId"]: edge["node"] for edge in edges}
        for entry in item.get("status", {}).get("history", []):
            where = f"application {name}: history {entry['id']}"
            mine = ours.get(entry["id"])
            if mine is None:
                self.note(where, "entry", "there", None)
                continue
            self.note(where, "revision", entry.get("revision") or (entry.get("revisions") or [None])[0], mine["syncOperationRevision"])
            self.note(where, "deployedAt", seconds(entry.get("deployedAt")), seconds(mine["deployedAt"]))
            self.note(where, "automated", bool(entry.get("initiatedBy", {}).get("automated")), mine["automated"])

    def compare_sets(self, items):
        """ApplicationSets, and the Applications that each has made."""
        code, answer = self.cluster.api.request("GET", SETS)
        assert code == 200, answer
        edges = self.ask(SETS_QUERY, r=self.runtime)["applicationSets"]["edges"]
        ours = {edge["node"]["metadata"]["name"]: edge["node"] for edge in edges}
        theirs = {item["metadata"]["name"]: item["metadata"]["uid"] for item in answer["items"]}
        for name in sorted(theirs.keys() | ours.keys()):
            where, mine = f"application set {name}", ours.get(name, {})
            made = [other for other, item in items.items() if any(each["uid"] == theirs.get(name) for each in item["metadata"].get("ownerReferences", []))]
            self.note(where, "uid", theirs.get(name), mine.get("metadata", {}).get("uid"))
            self.note(where, "applications", sorted(made), mine.get("applications"))
            self.note(where, "size", len(made), mine.get("size"))

    def differences(self):
        """Everything that differs now."""
        self.lines = []
        items = self.objects()
        told = {name for _, name in self.platform.applications()}
        for name in sorted(told - items.keys()):
            self.note(f"application {name}", "application", None, "there")
        for name in sorted(items):
            self.compare_application(items[name])
            self.compare_tree(items[name])
            self.compare_history(items[name])
        self.compare_sets(items)
        return self.lines


def plural(kind):
    """The resource that RBAC knows a kind by; enough for the kinds in tests/real/git."""
    word = kind.lower()
    return word[:-1] + "ies" if word.endswith("y") else word + ("es" if word.endswith("s") else "s")


def is_gap(line):
    """Whether a difference is a node that is not there because there is nothing to read, or no right to."""
    return ": absent node: " in line or ": unread node: " in line


def described(key):
    group, kind, namespace, name = key
    return f"{group + '/' if group else ''}{kind} {namespace + '/' if namespace else ''}{name}"


def shown(value):
    text = str(value) if not isinstance(value, str) else repr(value)
    return text if len(text) < 200 else text[:200] + "..."


def allowed(file="differences.txt"):
    """Its patterns: those between # lines that give the reasons."""
    lines = (HERE / file).read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def unexpected(lines, patterns=None):
    """The differences that no pattern names. A * in a pattern is any text; other signs are themselves."""
    patterns = [each.replace("[", "[[]").replace("?", "[?]") for each in (allowed() if patterns is None else patterns)]
    return [line for line in lines if not any(fnmatch.fnmatchcase(line, pattern) for pattern in patterns)]
