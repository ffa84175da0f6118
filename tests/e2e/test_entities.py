"""Rollouts with their revisions and analysis runs, and workflows: what GraphQL answers is what the cluster holds."""

import json
import subprocess
import uuid

from platform_under_test import wait_until

ROLLOUTS = """query($f: RolloutFilterArgs, $p: SlicePaginationArgs) { rollouts(filters: $f, pagination: $p) { edges { cursor node {
    metadata { name namespace uid kind } healthStatus revision images freshness sequence
    spec { desiredReplicas strategy { name newImage steps { index type setWeight details { status } } currentService } }
    status { phase currentStepIndex readyReplicas updatedReplicas weightOfNew paused abort }
    replicaSets { metadata { name uid } revision image replicas }
    analysisRuns { metadata { name } status { phase totalSuccessful metricResults { name successful } } } } } pageInfo { hasNextPage endCursor } } }"""
WORKFLOWS = """query($f: WorkflowsFilterArgs, $p: SlicePaginationArgs) { workflows(filters: $f, pagination: $p) { edges { node {
    metadata { name namespace uid runtime } projects spec { entrypoint templates { name } templateNames workflowTemplateRef { name namespace } } freshness
    status { phase progress startedAt finishedAt nodes { type name phase } failedNodes { name } } pipeline { metadata { name namespace } } } } pageInfo { hasNextPage endCursor } } }"""


RUNNING = "query($r: String!, $n: String!, $ns: String) { application(runtime: $r, name: $n, namespace: $ns) { runningImages { image imageID pods } } }"


def nodes(platform, query, field, **filters):
    """Every entity of a list, page by page."""
    found, page = [], {"first": 3}
    while True:
        answer = platform.graphql(query, {"f": {"runtime": platform.env["CULVERT_RUNTIME"], **filters}, "p": page})[field]
        found += [edge["node"] for edge in answer["edges"]]
        if not answer["pageInfo"]["hasNextPage"]:
            return found
        page = {"first": 3, "after": answer["pageInfo"]["endCursor"]}


def items(platform, kinds):
    group = "apis/apps/v1" if kinds == "replicasets" else "apis/argoproj.io/v1alpha1"
    return platform.cluster("GET", f"/{group}/{kinds}")["items"]


def owned(objects, owner):
    return [each for each in objects if any(o.get("controller") and o["uid"] == owner["metadata"]["uid"] for o in each["metadata"].get("ownerReferences", ()))]


def same_rollouts(platform):
    sets, runs = items(platform, "replicasets"), items(platform, "analysisruns")
    shown = {node["metadata"]["uid"]: node for node in nodes(platform, ROLLOUTS, "rollouts")}
    there = {each["metadata"]["uid"]: each for each in items(platform, "rollouts")}
    assert there and shown.keys() == there.keys()
    for uid, node in shown.items():
        status, spec = there[uid].get("status", {}), there[uid]["spec"]
        assert node["status"]["phase"] == status.get("phase", "Unknown")
        assert node["status"]["currentStepIndex"] == status.get("currentStepIndex")
        assert node["status"]["readyReplicas"] == status.get("readyReplicas")
        assert node["spec"]["desiredReplicas"] == spec["replicas"]
        assert node["spec"]["strategy"]["newImage"] == spec["template"]["spec"]["containers"][0]["image"]
        assert [s["setWeight"] for s in node["spec"]["strategy"]["steps"]] == [s.get("setWeight") for s in spec["strategy"]["canary"]["steps"]]
        mine = owned(sets, there[uid])
        assert {s["metadata"]["uid"]: s["replicas"] for s in node["replicaSets"]} == {s["metadata"]["uid"]: s["spec"]["replicas"] for s in mine}
        assert [s["revision"] for s in node["replicaSets"]] == sorted((int(s["metadata"]["annotations"]["rollout.argoproj.io/revision"]) for s in mine), reverse=True)
        assert {r["metadata"]["name"]: r["status"]["phase"] for r in node["analysisRuns"]} == {r["metadata"]["name"]: r["status"]["phase"] for r in owned(runs, there[uid])}
    return True


def test_rollouts_equal_the_cluster(platform):
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: same_rollouts(platform), 60, "the rollouts equal the cluster's")
        one = nodes(platform, ROLLOUTS, "rollouts")[0]
        query = "query($r: String!, $n: String!, $ns: String) { rollout(runtime: $r, name: $n, namespace: $ns) { metadata { uid } actualManifest } }"
        found = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "n": one["metadata"]["name"], "ns": one["metadata"]["namespace"]})["rollout"]
        assert found["metadata"]["uid"] == one["metadata"]["uid"] and json.loads(found["actualManifest"])["kind"] == "Rollout"
        assert nodes(platform, ROLLOUTS, "rollouts", name="nobody") == []
        assert platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "n": "nobody"})["rollout"] is None
    finally:
        platform.cluster("POST", "/demo/resume")


def test_workflows_equal_the_cluster(platform):
    def same():
        there = {each["metadata"]["uid"]: each for each in items(platform, "workflows")}
        shown = {node["metadata"]["uid"]: node for node in nodes(platform, WORKFLOWS, "workflows")}
        assert there and there.keys() <= shown.keys()  # the record of a run outlives its object
        for uid, each in there.items():
            status = each.get("status", {})
            assert shown[uid]["status"]["phase"] == status.get("phase", "Unknown")
            assert shown[uid]["status"]["progress"] == status.get("progress")
            assert {(n["name"], n["phase"]) for n in shown[uid]["status"]["nodes"]} == {(n["name"], n["phase"]) for n in status.get("nodes", {}).values()}
            assert shown[uid]["spec"]["entrypoint"] == each["spec"]["entrypoint"]
        return True

    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(same, 60, "the workflows equal the cluster's")
    finally:
        platform.cluster("POST", "/demo/resume")
    one = nodes(platform, WORKFLOWS, "workflows")[0]
    query = "query($u: String!) { workflow(uid: $u) { metadata { name } status { phase } actualManifest } }"
    found = platform.graphql(query, {"u": one["metadata"]["uid"]})["workflow"]
    assert found["metadata"]["name"] == one["metadata"]["name"] and json.loads(found["actualManifest"])["kind"] == "Workflow"
    assert platform.graphql(query, {"u": uuid.uuid4().hex})["workflow"] is None


RELEASES = """query($f: GitopsReleaseFilterArgs, $p: SlicePaginationArgs, $s: GitopsReleaseSortArg) { gitopsReleases(filters: $f, pagination: $p, sort: $s) { edges { node {
    applicationMetadata { name namespace uid } historyId argoHistoryId syncOperationRevision current deployedAt automated result images manifestsDigest
    manifests { kind name sha256 } application { status { syncStatus healthStatus } } operationState { phase } } } pageInfo { hasNextPage endCursor } } }"""


def releases(platform, **filters):
    found, page = [], {"first": 4}
    while True:
        answer = platform.graphql(RELEASES, {"f": {"runtime": platform.env["CULVERT_RUNTIME"], **filters}, "p": page})["gitopsReleases"]
        found += [edge["node"] for edge in answer["edges"]]
        if not answer["pageInfo"]["hasNextPage"]:
            return found
        page = {"first": 4, "after": answer["pageInfo"]["endCursor"]}


def is_there(platform, resource):
    """Whether the cluster has what status.resources names."""
    state = platform.cluster("GET", "/demo/state")
    return (resource["kind"], resource.get("namespace", ""), resource["name"]) in {(o["kind"], o["namespace"], o["name"]) for o in state}


def test_an_object_that_is_null_at_any_place_of_a_selection(platform):
    """The program that writes rows grows as it is made: a jump over a null object is right wherever the growth falls."""
    for count in range(1, 29):
        fields = " ".join(f"f{i}: freshness" for i in range(count))
        found = platform.graphql("{ workflows(pagination: {first: 2}) { edges { node { %s spec { workflowTemplateRef { name } } sequence } } } }" % fields)["workflows"]
        assert all(edge["node"]["sequence"] and len(edge["node"]) == count + 2 for edge in found["edges"]), count


def test_releases_hold_the_history_of_the_cluster(platform):
    def same():
        shown = {(n["applicationMetadata"]["uid"], n["historyId"]): n for n in releases(platform)}
        entries = 0
        for application in items(platform, "applications"):
            uid, history = application["metadata"]["uid"], application.get("status", {}).get("history", [])
            for entry in history:
                node, newest = shown[uid, entry["id"]], entry is history[-1]
                assert node["syncOperationRevision"] == (entry.get("revision") or entry["revisions"][0])
                assert node["current"] == newest
                assert node["result"] == "Succeeded" and node["operationState"]["phase"] == "Succeeded"
                if newest and application["spec"]["destination"].get("server") == "https://kubernetes.default.svc":
                    assert node["application"]["status"]["healthStatus"] == application["status"]["health"]["status"].upper()
                    # What Git wants by now and nobody has synced yet is named, too, but it is not there and was not deployed.
                    there = [r for r in application["status"]["resources"] if is_there(platform, r)]
                    live = {(r["kind"], r["name"]) for r in there if r["kind"] != "Application"}
                    assert {(m["kind"], m["name"]) for m in node["manifests"] or []} == live
                entries += 1
        assert entries > 0
        return True

    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(same, 90, "the ledger holds the cluster's history")  # resources are looked at again after half a minute
    finally:
        platform.cluster("POST", "/demo/resume")
    first = platform.graphql(RELEASES, {"p": {"first": 1}, "s": {"field": "createdAt", "order": "asc"}})["gitopsReleases"]["edges"][0]["node"]
    times = [node["deployedAt"] for node in releases(platform)]
    assert times == sorted(times, reverse=True) and first["deployedAt"] == times[-1]


def test_images_run_where_the_cluster_runs_them(platform):
    query = """query($f: ImagesFilterArgs, $p: SlicePaginationArgs) { images(filters: $f, pagination: $p) { edges { node { name runningSince usesCount
        uses { kind namespace name applicationName } binary { commit } } } pageInfo { hasNextPage endCursor } } }"""

    def same():
        named = {(r["kind"], r.get("namespace"), r["name"]) for a in items(platform, "applications") for r in a.get("status", {}).get("resources", ())}
        there = set()
        for kind, path in (("Deployment", "/apis/apps/v1/deployments"), ("Rollout", "/apis/argoproj.io/v1alpha1/rollouts")):
            for each in platform.cluster("GET", path)["items"]:
                if (kind, each["metadata"]["namespace"], each["metadata"]["name"]) not in named:
                    continue
                for container in each["spec"]["template"]["spec"]["containers"]:
                    there.add((container["image"], kind, each["metadata"]["namespace"], each["metadata"]["name"]))
        shown, page = set(), {"first": 5}
        while True:
            answer = platform.graphql(query, {"f": {"runtime": platform.env["CULVERT_RUNTIME"]}, "p": page})["images"]
            shown |= {(e["node"]["name"], u["kind"], u["namespace"], u["name"]) for e in answer["edges"] for u in e["node"]["uses"]}
            if not answer["pageInfo"]["hasNextPage"]:
                break
            page = {"first": 5, "after": answer["pageInfo"]["endCursor"]}
        # Other tests report workloads of their own over HTTP.
        assert there and there == {use for use in shown if use[2] in {t[2] for t in there}}, there ^ shown
        return True

    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(same, 60, "the images equal the cluster's")
    finally:
        platform.cluster("POST", "/demo/resume")


def running(pods):
    """[(image, imageID, pods)] of the containers that run in these Pods, as their kubelet reports them."""
    found = {}
    for pod in pods:
        for each in pod.get("status", {}).get("containerStatuses", ()):
            if "running" in each.get("state", {}):
                found.setdefault((each["image"], each["imageID"]), set()).add(pod["metadata"]["uid"])
    return sorted((*key, len(uids)) for key, uids in found.items())


def told(node):
    return sorted((each["image"], each["imageID"], each["pods"]) for each in node["runningImages"])


def test_tree_of_an_application(platform):
    query = """query($r: String!, $n: String!, $ns: String) { resourceTree(runtime: $r, name: $n, namespace: $ns) { nodes {
        kind name uid namespace presence missingRight { resource } requiresPruning hook images templateImages runningImages { image imageID pods }
        health { status source message } status freshness parentRefs { kind name uid } } } }"""

    def same():
        objects = {o["metadata"]["uid"]: o for kinds in ("replicasets",) for o in items(platform, kinds)}
        pods = {o["metadata"]["uid"]: o for o in platform.cluster("GET", "/api/v1/pods")["items"]}
        seen = run = 0
        for application in items(platform, "applications"):
            meta, status = application["metadata"], application.get("status", {})
            tree = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "n": meta["name"], "ns": meta["namespace"]})["resourceTree"]["nodes"]
            assert tree[0]["uid"] == meta["uid"] and tree[0]["parentRefs"] == []
            uids = {node["uid"] for node in tree}
            mine = [node["uid"] for node in tree if node["kind"] == "Pod"]
            assert told(tree[0]) == running(pods[uid] for uid in mine), meta["name"]
            one = platform.graphql(RUNNING, {"r": platform.env["CULVERT_RUNTIME"], "n": meta["name"], "ns": meta["namespace"]})["application"]
            assert told(one) == told(tree[0]), meta["name"]
            run += len(told(one))
            for node in tree[1:]:
                if node["kind"] in ("Pod", "ReplicaSet"):
                    of = {node["uid"]} if node["kind"] == "Pod" else {p["metadata"]["uid"] for p in owned(pods.values(), objects[node["uid"]])}
                    assert told(node) == running(pods[uid] for uid in of), node
                    template = [] if node["kind"] == "Pod" else objects[node["uid"]]["spec"]["template"]["spec"]["containers"]
                    assert node["templateImages"] == [each["image"] for each in template], node
                assert node["parentRefs"] and all(ref["uid"] in uids for ref in node["parentRefs"])
                owners = [o["uid"] for o in objects.get(node["uid"], {}).get("metadata", {}).get("ownerReferences", ())]
                if owners:
                    assert [ref["uid"] for ref in node["parentRefs"]] == owners
                    seen += 1
            if application["spec"]["destination"].get("server") == "https://kubernetes.default.svc":
                # Every resource that Argo CD names, there or not, as it says.
                named = {(r["kind"], r["name"], r.get("requiresPruning", False)) for r in status.get("resources", ()) if r["kind"] != "Application"}
                shown = {(node["kind"], node["name"], node["requiresPruning"]) for node in tree}
                assert named <= shown, named - shown
                for node in tree:
                    assert (node["presence"] == "MISSING") <= (node["health"]["status"] == "MISSING"), node
            for node in tree:
                health = node["health"]
                assert (health["status"] is None) == (health["source"] is None), node
                # Of these Argo CD writes down nothing: the agent knows.
                if node["kind"] in ("Pod", "ReplicaSet"):
                    assert health["status"] and health["source"] == "AGENT", node
        assert seen > 0 and run > 0
        return True

    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(same, 60, "every object hangs on its owner")
    finally:
        platform.cluster("POST", "/demo/resume")
    assert platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "n": "nobody"})["resourceTree"] is None


TRANSITIONS = """query($f: TransitionFilterArgs) { transitions(filters: $f) { edges { node { number field from to message cause observedAt recordedAt } } } }"""


def test_changes_of_health_are_rows(platform):
    runtime = platform.env["CULVERT_RUNTIME"]
    platform.cluster("POST", "/demo/pause")
    application = items(platform, "applications")[0]
    name, before = application["metadata"]["name"], application["status"]["health"]["status"]
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{application['metadata']['namespace']}/applications/{name}"
    one = {"runtime": runtime, "kind": "Application", "namespace": application["metadata"]["namespace"], "name": name, "fields": ["HEALTH"]}

    def shown():
        return [edge["node"] for edge in platform.graphql(TRANSITIONS, {"f": one})["transitions"]["edges"]]

    def put(status, message):
        platform.cluster("PATCH", path, {"status": {"health": {"status": status, "message": message}}}, content_type="application/merge-patch+json")

    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), 60, "database equals cluster")
        rows = len(shown())
        put("Missing", "first")
        wait_until(lambda: len(shown()) == rows + 1, 20, "the change is a row")
        put("Missing", "second")  # another message is none
        put("Suspended", "third")
        wait_until(lambda: len(shown()) == rows + 2, 20, "the next change is a row")
        newest, older = shown()[:2]
        assert (older["from"], older["to"], older["message"]) == (before.upper(), "MISSING", "first")
        assert (newest["from"], newest["to"], newest["message"]) == ("MISSING", "SUSPENDED", "third")
        assert int(newest["number"]) > int(older["number"]) and newest["recordedAt"] >= older["recordedAt"]
        answer = platform.api("GET", f"/v1/applications/{runtime}/{one['namespace']}/{name}/transitions?first=1&fields=HEALTH").json()
        assert [each["number"] for each in answer["items"] if each["kind"] == "Application"] == [newest["number"]], answer
        listed = platform.graphql("query($r: String!, $n: String!) { application(runtime: $r, name: $n) { transitions { number field } } }", {"r": runtime, "n": name})
        assert newest["number"] in [each["number"] for each in listed["application"]["transitions"]]
    finally:
        put(before, None)
        platform.cluster("POST", "/demo/resume")


def test_kubernetes_events_of_a_pod(platform):
    """Two Events of one Pod, one with a secret in its message, and one of a Pod that no application has."""
    runtime = platform.env["CULVERT_RUNTIME"]
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), 60, "database equals cluster")
        held = "select namespace, name, uid from resources where runtime = '%s' and kind = 'Pod' and application_name <> '' and not is_deleted order by name limit 1"
        namespace, name, uid = wait_until(lambda: platform.psql(held % runtime), 30, "a Pod")[0]
        path, mark = f"/api/v1/namespaces/{namespace}/events", uuid.uuid4().hex[:8]

        def note(about, reason, message, **more):
            involved = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": about, **({"uid": uid} if about == name else {})}
            event = {"metadata": {"name": f"{about}.{mark}.{reason.lower()}", "namespace": namespace}, "involvedObject": involved, "reason": reason, "message": message}
            return platform.cluster("POST", path, {"apiVersion": "v1", "kind": "Event", **event, **more})["metadata"]["uid"]

        note("of-no-application", "Foreign", mark, type="Normal")
        old = {"firstTimestamp": "2026-03-01T10:00:00Z", "lastTimestamp": "2026-03-01T10:00:00Z", "count": 1, "source": {"component": "kubelet"}}
        failed = note(name, "Failed", f"{mark} pull https://robot:hunter2@registry.example.com\n<b>x</b>", type="Warning", **old)
        pulled = note(name, "Pulled", mark, type="Normal", eventTime="2026-03-01T10:00:01.500000Z", series={"count": 3, "lastObservedTime": "2026-03-01T10:00:09.500000Z"}, reportingComponent="kubelet")
        query = "query($f: KubernetesEventFilterArgs) { kubernetesEvents(filters: $f) { edges { node { uid type reason message component count firstAt lastAt applicationName } } } }"

        def shown():
            found = platform.graphql(query, {"f": {"runtime": runtime, "namespace": namespace, "kind": "Pod", "name": name}})["kubernetesEvents"]["edges"]
            return {edge["node"]["uid"]: edge["node"] for edge in found if edge["node"]["uid"] in (failed, pulled)}

        wait_until(lambda: len(shown()) == 2, 30, "both Events")
        assert shown()[failed]["message"] == f"{mark} pull https://***@registry.example.com <b>x</b>"
        assert (shown()[pulled]["type"], shown()[pulled]["count"], shown()[pulled]["component"]) == ("NORMAL", 3, "kubelet")
        assert (shown()[pulled]["firstAt"], shown()[pulled]["lastAt"]) == ("2026-03-01T10:00:01.500Z", "2026-03-01T10:00:09.500Z")
        # It happens again; a watch that was cut, and one that is too old, go on.
        platform.cluster("POST", "/demo/drop-watches")
        platform.cluster("PATCH", f"{path}/{name}.{mark}.failed", {"count": 5, "lastTimestamp": "2026-03-01T10:07:00Z"}, content_type="application/merge-patch+json")
        wait_until(lambda: shown()[failed]["count"] == 5, 30, "the count rises")
        platform.cluster("POST", "/demo/expire")
        platform.cluster("POST", "/demo/drop-watches")
        platform.cluster("PATCH", f"{path}/{name}.{mark}.failed", {"count": 6, "lastTimestamp": "2026-03-01T10:08:00Z"}, content_type="application/merge-patch+json")
        wait_until(lambda: shown()[failed]["count"] == 6, 30, "the count rises after 410")
        assert not platform.psql(f"select 1 from kubernetes_events where runtime = '{runtime}' and name = 'of-no-application'")
        application = shown()[failed]["applicationName"]
        listed = platform.graphql("query($r: String!, $n: String!) { application(runtime: $r, name: $n) { events { uid } } }", {"r": runtime, "n": application})
        assert listed["application"]["events"], application
        answer = platform.api("GET", f"/v1/kubernetes-events?runtime={runtime}&namespace={namespace}&name={name}&types=WARNING").json()
        assert failed in [each["uid"] for each in answer["items"]] and pulled not in [each["uid"] for each in answer["items"]], answer
    finally:
        platform.cluster("POST", "/demo/resume")


def test_retention_of_an_account(platform):
    account = platform.graphql("{ me { activeAccount { id name } } }")["me"]["activeAccount"]

    def keep(*words):
        command = [platform.build / "server/culvertd", "--config", str(platform.home / "culvertd.conf"), "admin", "set-retention", *words]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

    try:
        done = keep("--account", account["name"], "4000")
        assert done.returncode == 0 and json.loads(done.stdout)["historyKeepDays"] == 4000, (done.stdout, done.stderr)
        assert platform.psql(f"select history_keep_days from accounts where account_id = '{account['id']}'") == [["4000"]]
        for words, status in ((("--account", account["name"], "6"), 2), (("--account", account["name"], "forever"), 2), (("4000",), 2), (("--account", "nobody", "30"), 3)):
            assert keep(*words).returncode == status, words
    finally:
        assert json.loads(keep("--account", account["name"], "default").stdout)["historyKeepDays"] is None
