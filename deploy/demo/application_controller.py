"""Applications are compared with Git and synced: what Argo CD's application controller does.

A sync takes two steps: it shows as Running first, then applies the manifests, so that a watcher sees both.
Requests arrive the way people send them: the `operation` field, the refresh annotation, or
status.operationState.phase = Terminating.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import application as shapes
import health
import workload
from application import Plan, Release
from namespace import namespace
from object_store import ObjectStore
from resource_types import APPLICATIONS, NAMESPACES, TYPES, ResourceType, by_kind
from world import World

RESOURCES_FINALIZER = "resources-finalizer.argocd.argoproj.io"
INSTANCE_LABEL = "app.kubernetes.io/instance"
RELEASES_MAX = 50  # how far back a sync can ask for a revision
RECONCILE_STEPS = 90  # how often reconciledAt moves when nothing else does


@dataclass
class Delivery:
    """What Git holds for one application. `plan` is None for applications made through the API."""

    plan: Plan | None
    target: Release
    releases: dict[str, Release] = field(default_factory=dict)
    git_away_steps: int = 0  # for so long the repository cannot be read

    def commit(self, release: Release) -> None:
        self.releases[release.revision] = self.target = release
        while len(self.releases) > RELEASES_MAX:
            del self.releases[next(iter(self.releases))]


def is_part_of(wanted: object, live: object) -> bool:
    """Whether everything wanted is there; the live object may hold more."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(is_part_of(value, live.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(wanted) == len(live)
            and all(is_part_of(item, other) for item, other in zip(wanted, live))
        )
    return wanted == live


def _compared_part(document: dict) -> dict:
    part = {key: value for key, value in document.items() if key not in ("status", "metadata")}
    return {**part, "labels": document["metadata"].get("labels", {})}


class ApplicationController:
    def __init__(
        self,
        world: World,
        home: ObjectStore,
        clusters: dict[str, ObjectStore],
        persists_health: bool = False,
        home_name: str = shapes.IN_CLUSTER_NAME,
    ):
        """`home` is where the Applications are, `clusters` where they deploy to, by server address; an owner may have
        named `home` otherwise than "in-cluster". Argo CD 3 keeps the health of resources in its own tree, Argo CD 2 in
        status.resources (`persists_health`)."""
        self._world = world
        self._home = home
        self._clusters = clusters
        self._persists_health = persists_health
        self._home_name = home_name
        self._steps = 0
        self.deliveries: dict[tuple[str, str], Delivery] = {}

    def delivery(self, document: dict) -> Delivery:
        key = (document["metadata"]["namespace"], document["metadata"]["name"])
        if key not in self.deliveries:
            self.deliveries[key] = Delivery(None, Release(self._world.hexadecimal(40), "0.0.0"))
        return self.deliveries[key]

    def step(self) -> None:
        self._steps += 1
        applications = self._home.list(APPLICATIONS)[0]
        present = {(document["metadata"]["namespace"], document["metadata"]["name"]) for document in applications}
        for gone in self.deliveries.keys() - present:
            del self.deliveries[gone]
        self._world.each(applications, self._finalize)
        applications = [document for document in applications if "deletionTimestamp" not in document["metadata"]]
        self._world.each(applications, self._operate)
        self._world.each(self._home.list(APPLICATIONS)[0], self._assess)

    def _finalize(self, document: dict) -> None:
        """An application that is being deleted goes once its resources went, if its finalizer asks for that."""
        metadata = document["metadata"]
        finalizers = metadata.get("finalizers") or []
        if "deletionTimestamp" not in metadata or RESOURCES_FINALIZER not in finalizers:
            return
        destination = document["spec"].get("destination", {})
        store = self._clusters.get(destination.get("server") or "", self._home)
        for resource_type in TYPES:
            for found in store.list(resource_type, destination.get("namespace") or "")[0] if resource_type.namespaced else ():
                labels = found["metadata"].get("labels") or {}
                if labels.get(INSTANCE_LABEL) == metadata["name"] and not found["metadata"].get("ownerReferences"):
                    store.delete(resource_type, found["metadata"]["namespace"], found["metadata"]["name"])
        left = [entry for entry in finalizers if entry != RESOURCES_FINALIZER]
        self._write(document, lambda draft: draft["metadata"].update(finalizers=left))

    def reconcile_all(self) -> None:
        """Marks every application as compared just now."""
        now = self._world.stamp()
        for document in self._home.list(APPLICATIONS)[0]:
            self._write(document, lambda draft: draft["status"].update(reconciledAt=now))

    def react(self) -> None:
        """Takes up what was asked for since; nothing else moves."""
        for document in self._home.list(APPLICATIONS)[0]:
            refresh = shapes.REFRESH_ANNOTATION in (document["metadata"].get("annotations") or {})
            if "operation" in document or refresh:
                self._world.each([document], self._begin_requested)
                self._world.each([document], self._reassess)

    def _write(self, document: dict, change) -> dict:
        metadata = document["metadata"]
        return self._home.update(APPLICATIONS, metadata["namespace"], metadata["name"], change)

    def _cluster(self, document: dict) -> ObjectStore | None:
        destination = document["spec"].get("destination", {})
        if destination.get("name") in (shapes.IN_CLUSTER_NAME, self._home_name):
            return self._home
        return self._clusters.get(destination.get("server", ""))

    # -- operations ------------------------------------------------------------------------------------------

    def _begin_requested(self, document: dict) -> None:
        phase = document.get("status", {}).get("operationState", {}).get("phase")
        if "operation" in document and phase not in ("Running", "Terminating"):
            self._begin(document)

    def _operate(self, document: dict) -> None:
        state = document.get("status", {}).get("operationState", {})
        if "operation" not in document:
            if self._wants_sync(document):
                self._begin(self._write(document, self._request_automated))
        elif state.get("phase") == "Terminating":
            self._write(document, lambda draft: self._end(draft, "Failed", "Operation terminated"))
        elif state.get("phase") == "Running":
            self._apply(document)
        else:
            self._begin(document)

    def _wants_sync(self, document: dict) -> bool:
        """Automated sync: out of sync, and not just failed at this very revision."""
        status = document.get("status", {})
        if not document["spec"].get("syncPolicy", {}).get("automated"):
            return False
        if status.get("sync", {}).get("status") != "OutOfSync":
            return False
        last = status.get("operationState", {})
        failed = last.get("phase") in ("Failed", "Error")
        failed_at = (last.get("operation", {}).get("sync") or {}).get("revision") if failed else None
        return failed_at != self.delivery(document).target.revision

    def _request_automated(self, draft: dict) -> None:
        policy = draft["spec"]["syncPolicy"]
        draft["operation"] = {
            "sync": {
                "revision": self.delivery(draft).target.revision,
                "prune": bool(policy["automated"].get("prune")),
                "syncOptions": policy.get("syncOptions", []),
            },
            "initiatedBy": {"automated": True},
            "retry": policy.get("retry", {"limit": 5}),
        }

    def _release(self, document: dict) -> Release:
        """The release an operation asks for: a known revision (rollback) or what Git has now."""
        delivery = self.delivery(document)
        sync = document.get("operation", {}).get("sync") or {}
        asked = sync.get("revision") or next(iter(sync.get("revisions") or ()), "")
        return delivery.releases.get(asked, delivery.target)

    def _begin(self, document: dict) -> None:
        release = self._release(document)

        def change(draft: dict) -> None:
            draft.setdefault("status", {})["operationState"] = {
                "operation": draft["operation"],
                "phase": "Running",
                "message": "one or more tasks are running",
                "startedAt": self._world.stamp(),
                "syncResult": {
                    "resources": [],
                    **shapes.revision_fields(draft, release.revision),
                    **shapes.source_fields(draft),
                },
            }
            draft["status"]["operationState"]["syncResult"].setdefault("revision", "")
            draft["status"]["operationState"]["syncResult"].setdefault("source", {"repoURL": ""})

        self._write(document, change)

    def _apply(self, document: dict) -> None:
        """The second half of a sync: manifests into the cluster, the outcome into the status."""
        delivery, release = self.delivery(document), self._release(document)
        cluster = self._cluster(document)
        if cluster is None:
            message = f"cluster {document['spec'].get('destination', {}).get('server')!r} is not known"
            self._write(document, lambda draft: self._end(draft, "Error", message))
            return
        wanted = shapes.manifests(delivery.plan, release) if delivery.plan else []
        sync = document["operation"].get("sync") or {}
        chosen = {(each.get("group", ""), each["kind"], each["name"]) for each in sync.get("resources") or ()}
        if chosen:
            wanted = [each for each in wanted if (each[0].group, each[0].kind, each[1]["metadata"]["name"]) in chosen]
        if release.rejected:
            self._fail(document, wanted)
            return
        dry_run = bool(sync.get("dryRun"))
        results = []
        if not dry_run:
            self._ensure_namespace(cluster, document["spec"]["destination"].get("namespace", "default"))
            results = [self._put(cluster, resource_type, manifest) for resource_type, manifest in wanted]
            if not chosen:
                results += self._prune(cluster, document, wanted, bool(sync.get("prune")))

        def change(draft: dict) -> None:
            draft["status"]["operationState"]["syncResult"]["resources"] = results
            if not dry_run and not chosen:  # a partial sync is no entry of the history
                self._remember(draft, release)
            self._end(draft, "Succeeded", "successfully synced (all tasks run)")

        self._write(document, change)

    def _fail(self, document: dict, wanted: list) -> None:
        resource_type, manifest = wanted[-1]
        name = manifest["metadata"]["name"]
        why = (
            f'{resource_type.kind}.{resource_type.group} "{name}" is invalid: '
            "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 80800: "
            "must be between 1 and 65535, inclusive"
        )

        def change(draft: dict) -> None:
            result = shapes.sync_result(resource_type, manifest["metadata"]["namespace"], name, why, "SyncFailed")
            draft["status"]["operationState"]["syncResult"]["resources"] = [result]
            self._end(draft, "Failed", f"one or more objects failed to apply, reason: {why}")

        self._write(document, change)

    def _end(self, draft: dict, phase: str, message: str) -> None:
        state = draft.setdefault("status", {}).setdefault("operationState", {})
        state.update(phase=phase, message=message, finishedAt=self._world.stamp())
        draft.pop("operation", None)

    def _remember(self, draft: dict, release: Release) -> None:
        """One more line of history; the oldest beyond the limit go."""
        history = draft["status"].setdefault("history", [])
        state = draft["status"]["operationState"]
        identifier = history[-1]["id"] + 1 if history else 0
        initiated_by = draft["operation"].get("initiatedBy", {})
        history.append(
            shapes.history_entry(
                draft, identifier, release.revision, state["startedAt"], self._world.stamp(), initiated_by
            )
        )
        limit = draft["spec"].get("revisionHistoryLimit", shapes.HISTORY_MAX)
        del history[: max(0, len(history) - limit)]

    @staticmethod
    def _ensure_namespace(cluster: ObjectStore, name: str) -> None:
        if cluster.find(NAMESPACES, "", name) is None:
            cluster.create(NAMESPACES, namespace(name))

    @staticmethod
    def _put(cluster: ObjectStore, resource_type: ResourceType, manifest: dict) -> dict:
        wanted_metadata = manifest["metadata"]
        name, where = wanted_metadata["name"], wanted_metadata["namespace"]
        address = f"{resource_type.kind.lower()}{'.' + resource_type.group if resource_type.group else ''}/{name}"
        present = cluster.find(resource_type, where, name)
        if present is None:
            cluster.create(resource_type, manifest)
            return shapes.sync_result(resource_type, where, name, f"{address} created")

        def change(draft: dict) -> None:
            for part in ("labels", "annotations"):
                draft["metadata"].setdefault(part, {}).update(wanted_metadata.get(part, {}))
            draft.update({key: value for key, value in manifest.items() if key not in ("metadata", "status")})

        changed = cluster.update(resource_type, where, name, change) is not present
        return shapes.sync_result(resource_type, where, name, f"{address} {'configured' if changed else 'unchanged'}")

    @staticmethod
    def _prune(cluster: ObjectStore, document: dict, wanted: list, allowed: bool) -> list[dict]:
        kept = {(resource_type, manifest["metadata"]["name"]) for resource_type, manifest in wanted}
        results = []
        for entry in document["status"].get("resources", ()):
            resource_type = by_kind(entry.get("group", ""), entry["kind"])
            where, name = entry.get("namespace", ""), entry["name"]
            if resource_type is None or (resource_type, name) in kept:
                continue
            if cluster.find(resource_type, where, name) is None:
                continue
            if allowed:
                cluster.delete(resource_type, where, name)
                results.append(shapes.sync_result(resource_type, where, name, "pruned", "Pruned"))
            else:
                results.append(
                    shapes.sync_result(resource_type, where, name, "ignored (requires pruning)", "PruneSkipped")
                )
        return results

    # -- comparison ------------------------------------------------------------------------------------------

    def _reassess(self, document: dict) -> None:
        metadata = document["metadata"]
        self._assess(self._home.get(APPLICATIONS, metadata["namespace"], metadata["name"]))

    def _assess(self, document: dict) -> None:
        """Writes sync, health, resources, conditions and summary as they are now."""
        delivery = self.delivery(document)
        annotations = document["metadata"].get("annotations") or {}
        refreshed = shapes.REFRESH_ANNOTATION in annotations
        if delivery.git_away_steps > 0:
            delivery.git_away_steps = 0 if refreshed else delivery.git_away_steps - 1
        resources, images = self._compare(document, delivery)
        due = (self._steps + sum(document["metadata"]["name"].encode())) % RECONCILE_STEPS == 0
        before = document.get("status", {})

        def change(draft: dict) -> None:
            status = draft.setdefault("status", {})
            if refreshed:
                del draft["metadata"]["annotations"][shapes.REFRESH_ANNOTATION]
            self._judge(draft, delivery, resources)
            self._name_resources(status, resources)
            summary: dict = {"images": images} if images else {}
            if delivery.plan and delivery.plan.external_url:
                summary["externalURLs"] = [delivery.plan.external_url]
            status["summary"] = summary
            status["controllerNamespace"] = shapes.ARGOCD_NAMESPACE
            if draft["spec"].get("sources"):
                status["sourceTypes"] = [delivery.plan.source_type if delivery.plan else "Directory"] + [
                    "Directory"
                ] * (len(draft["spec"]["sources"]) - 1)
            else:
                status["sourceType"] = delivery.plan.source_type if delivery.plan else "Directory"
            if refreshed or due or status.get("sync") != before.get("sync") or "reconciledAt" not in status:
                status["reconciledAt"] = self._world.stamp()

        self._write(document, change)

    def _name_resources(self, status: dict, resources: list[dict]) -> None:
        if self._persists_health:
            status["resources"] = resources
            status.pop("resourceHealthSource", None)
        else:
            status["resources"] = [{key: value for key, value in each.items() if key != "health"} for each in resources]
            status["resourceHealthSource"] = "appTree"

    def _judge(self, draft: dict, delivery: Delivery, resources: list[dict]) -> None:
        status, now = draft["status"], self._world.stamp()
        in_sync = all(entry["status"] == "Synced" for entry in resources)
        conditions: list[dict] = []
        verdict = "Synced" if in_sync else "OutOfSync"
        state = status.get("operationState", {})
        if delivery.git_away_steps > 0:
            verdict = "Unknown"
            text = (
                "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: "
                "code = Unknown desc = failed to list refs: dial tcp: lookup git.demo.invalid: no such host"
            )
            conditions.append({"type": "ComparisonError", "message": text})
        elif not in_sync and state.get("phase") == "Failed":
            revision = delivery.target.revision
            conditions.append(
                {"type": "SyncError", "message": f"Failed sync attempt to {revision}: {state['message']}"}
            )
        before = {(entry["type"], entry["message"]): entry for entry in status.get("conditions", ())}
        for entry in conditions:
            known = before.get((entry["type"], entry["message"]), {})
            entry["lastTransitionTime"] = known.get("lastTransitionTime", now)
        if conditions:
            status["conditions"] = conditions
        else:
            status.pop("conditions", None)
        status["sync"] = {
            "status": verdict,
            "comparedTo": {**shapes.source_fields(draft), "destination": draft["spec"].get("destination", {})},
            **shapes.revision_fields(draft, delivery.target.revision),
        }
        overall = health.worst([entry["health"]["status"] for entry in resources if "health" in entry])
        if status.get("health", {}).get("status") != overall:
            status["health"] = {"status": overall, "lastTransitionTime": now}

    def _compare(self, document: dict, delivery: Delivery) -> tuple[list[dict], list[str]]:
        cluster = self._cluster(document)
        if delivery.plan is None or cluster is None:
            return [], []
        resources, images, wanted_names = [], set(), set()
        for resource_type, manifest in shapes.manifests(delivery.plan, delivery.target):
            where, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
            wanted_names.add((resource_type, where, name))
            live = cluster.find(resource_type, where, name)
            if live is None:
                judged = {"status": "Missing"} if health.has_health(resource_type.kind) else None
                resources.append(shapes.resource_status(resource_type, where, name, "OutOfSync", judged))
                continue
            same = is_part_of(_compared_part(manifest), _compared_part(live))
            sync = "Synced" if same else "OutOfSync"
            resources.append(shapes.resource_status(resource_type, where, name, sync, health.health_of(live)))
            images.update(workload.images_of(live))
        for entry in document.get("status", {}).get("resources", ()):
            known = by_kind(entry.get("group", ""), entry["kind"])
            if known is None:
                continue
            key = (known, entry.get("namespace", ""), entry["name"])
            if key in wanted_names:
                continue
            live = cluster.find(*key)
            if live is not None:
                extra = shapes.resource_status(*key, "OutOfSync", health.health_of(live))
                resources.append({**extra, "requiresPruning": True})
        resources.sort(key=lambda entry: (entry.get("group", ""), entry["kind"], entry["name"]))
        return resources, sorted(images)
