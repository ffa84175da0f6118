"""What happens in the demo cluster, and when.

One thread takes a step every tick: controllers move what is under way by one notch, then chance adds something
new: a commit, a bad image, a crash, Git out of reach. `pause`, `resume`, `take_steps` and `make_happen` let a
test or a showing take the reins.
"""

from __future__ import annotations

import threading
from typing import Callable

import estate
import status
import workflow
import workload
from application import (
    ARGOCD_NAMESPACE,
    IN_CLUSTER,
    EXTERNAL_CLUSTER,
    Plan,
    Release,
    application,
    history_entry,
    verdict,
)
from application_controller import ApplicationController, Delivery
from log import Log
from object_store import ObjectStore, timestamp
from resource_types import APPLICATIONS, DEPLOYMENTS, PODS, WORKFLOWS
from rollout_controller import RolloutController
from workflow_controller import FINISHED, WorkflowController
from workload_controller import WorkloadController, pod_is_ready
from world import World

BEGINNING_SECONDS = 3 * 24 * 3600.0  # how long ago the cluster says it was set up
SETTLE_STEPS_MAX = 30
STEPS_AT_ONCE_MAX = 1000
FREE_WORKFLOWS_MAX = 5  # finished workflows kept for each application that makes them
CRASH_STEPS = 4
GIT_AWAY_STEPS = 3
NEW_EVENT_CHANCE = 0.5
IMPATIENCE_CHANCE = 0.2  # that somebody syncs by hand, or pushes a mend

# what may happen, and how often in relation to the others
EVENTS = (
    ("commit", 6),
    ("break-image", 1),
    ("break-manifest", 1),
    ("crash", 2),
    ("drift", 1),
    ("git-away", 1),
    ("workflow", 3),
)


class Life:
    """Owns the thread. Every public method may be called from any thread."""

    def __init__(
        self, world: World, store: ObjectStore, log: Log, tick_seconds: float, persists_health: bool, cluster_name: str
    ):
        self._world = world
        self._store = store
        self._log = log
        self._tick_seconds = tick_seconds
        self._cluster_name = cluster_name
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = False
        self._paused = False
        self._steps = 0
        self._edge = ObjectStore(world.now, world.new_uid, history_max=16)  # the external cluster; nobody reads it
        self._controllers: list[WorkloadController | RolloutController | WorkflowController] = []
        self._workloads = {}
        for server, cluster in ((IN_CLUSTER, store), (EXTERNAL_CLUSTER, self._edge)):
            self._workloads[server] = WorkloadController(world, cluster)
            self._controllers += [
                self._workloads[server],
                RolloutController(world, cluster),
                WorkflowController(world, cluster),
            ]
        self._applications = ApplicationController(
            world, store, {IN_CLUSTER: store, EXTERNAL_CLUSTER: self._edge}, persists_health, cluster_name
        )
        self._thread = threading.Thread(target=self._run, name="life", daemon=True)
        self.sensitive: list[str] = []  # plain secret values, for tests that look for leaks
        self._happenings: dict[str, Callable[[Plan, Delivery], bool]] = {
            "commit": lambda plan, delivery: self._commit(plan, delivery),
            "break-image": self._break_image,
            "break-manifest": lambda plan, delivery: self._commit(plan, delivery, rejected=True),
            "crash": self._crash,
            "drift": self._drift,
            "git-away": self._git_away,
            "workflow": self._workflow,
        }

    # -- control ---------------------------------------------------------------------------------------------

    def begin(self, application_count: int) -> None:
        """Lays out the cluster as if it had been there for days. Call once, before `start`."""
        world = self._world
        world.shift_seconds = BEGINNING_SECONDS
        self.sensitive = estate.build(world, self._store, self._cluster_name)
        for plan in estate.plans(world, application_count, self._cluster_name):
            self._install(plan)
        for _ in range(SETTLE_STEPS_MAX):
            version = self._store.version
            self._move()
            if self._store.version == version:
                break
        world.shift_seconds = 0.0
        self._applications.reconcile_all()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=10)

    def pause(self) -> None:
        with self._lock:
            self._paused = True

    def resume(self) -> None:
        with self._lock:
            self._paused = False
        self._wake.set()

    def take_steps(self, count: int) -> int:
        """Takes steps now, paused or not; returns the number of steps taken since the beginning."""
        with self._lock:
            for _ in range(count):
                self._step()
            return self._steps

    def make_happen(self, what: str, name: str) -> bool:
        """Lets an event befall an application. False when it cannot befall it now."""
        happening = self._happenings.get(what)
        if happening is None:
            raise status.bad_request(f"nothing known as {what!r}; known are {', '.join(self._happenings)}")
        with self._lock:
            for (_, candidate), delivery in self._applications.deliveries.items():
                if candidate == name and delivery.plan is not None:
                    return happening(delivery.plan, delivery)
        raise status.not_found(APPLICATIONS, name)

    def nudge(self) -> None:
        """Somebody wrote to the cluster: look at it before the next tick."""
        if not self._paused:
            self._wake.set()

    def summary(self) -> dict:
        with self._lock:
            return {"paused": self._paused, "steps": self._steps}

    # -- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            nudged = self._wake.wait(self._tick_seconds)
            self._wake.clear()
            if self._stopping:
                return
            with self._lock:
                if self._paused:
                    continue
                try:
                    if nudged:
                        self._applications.react()
                    else:
                        self._step()
                except Exception as error:  # noqa: BLE001 - one bad step must not end the life of the cluster
                    self._log.error("step_failed", error=repr(error))

    def _move(self) -> None:
        for controller in self._controllers:
            controller.step()
        self._applications.step()

    def _step(self) -> None:
        self._steps += 1
        self._move()
        self._chance()
        self._clear_old_workflows()

    # -- chance ----------------------------------------------------------------------------------------------

    def _chance(self) -> None:
        chance = self._world.chance
        for (namespace, name), delivery in list(self._applications.deliveries.items()):
            document = self._store.find(APPLICATIONS, namespace, name)
            if document is None or delivery.plan is None:
                continue
            if "operation" in document or chance.random() >= IMPATIENCE_CHANCE:
                continue
            sync, health = verdict(document)
            if delivery.target.rejected or (health == "Degraded" and sync == "Synced"):
                self._commit(delivery.plan, delivery)  # the mend
            elif sync == "OutOfSync" and not delivery.plan.automated:
                self._sync_by_hand(document)
        planned = [(each.plan, each) for each in self._applications.deliveries.values() if each.plan is not None]
        if not planned:
            return
        for _ in range(1 + len(planned) // 50):
            if chance.random() < NEW_EVENT_CHANCE:
                plan, delivery = chance.choice(planned)
                what = chance.choices([name for name, _ in EVENTS], [weight for _, weight in EVENTS])[0]
                if what == "crash" or what == "workflow" or self._is_quiet(plan):
                    self._happenings[what](plan, delivery)

    def _is_quiet(self, plan: Plan) -> bool:
        """Nothing is under way, so that a change can be seen for itself."""
        document = self._store.find(APPLICATIONS, ARGOCD_NAMESPACE, plan.name)
        if document is None or "operation" in document:
            return False
        return verdict(document) == ("Synced", "Healthy")

    def _release(self, plan: Plan, before: str, rejected: bool = False) -> Release:
        major, minor, patch = (int(part) for part in before.split("."))
        step = self._world.chance.random()
        tag = f"{major}.{minor + 1}.0" if step < 0.2 else f"{major}.{minor}.{patch + 1}"
        return Release(self._world.hexadecimal(40), tag, rejected)

    def _commit(self, plan: Plan, delivery: Delivery, rejected: bool = False) -> bool:
        delivery.commit(self._release(plan, delivery.target.tag, rejected))
        return True

    def _break_image(self, plan: Plan, delivery: Delivery) -> bool:
        if plan.shape == "reports":
            return False
        self._commit(plan, delivery)
        self._world.lose_image(f"{plan.image}:{delivery.target.tag}")
        return True

    def _crash(self, plan: Plan, _delivery: Delivery) -> bool:
        if plan.shape == "reports":
            return False
        cluster = self._store if plan.server == IN_CLUSTER else self._edge
        running = [
            pod
            for pod in cluster.list(PODS, plan.namespace)[0]
            if pod["metadata"].get("labels", {}).get("app") == plan.name and pod_is_ready(pod)
        ]
        if not running:
            return False
        self._workloads[plan.server].crash(self._world.chance.choice(running), CRASH_STEPS)
        return True

    def _drift(self, plan: Plan, _delivery: Delivery) -> bool:
        """Somebody scales by hand, past Git."""
        cluster = self._store if plan.server == IN_CLUSTER else self._edge
        if plan.shape != "web" or cluster.find(DEPLOYMENTS, plan.namespace, plan.name) is None:
            return False
        cluster.update(
            DEPLOYMENTS, plan.namespace, plan.name, lambda draft: draft["spec"].update(replicas=plan.replicas + 1)
        )
        return True

    @staticmethod
    def _git_away(_plan: Plan, delivery: Delivery) -> bool:
        delivery.git_away_steps = GIT_AWAY_STEPS
        return True

    def _workflow(self, plan: Plan, delivery: Delivery) -> bool:
        """A run outside Git, as a CronWorkflow starts one."""
        if plan.shape != "reports":
            return False
        labels = {"workflows.argoproj.io/cron-workflow": plan.name}
        metadata = workload.object_meta(f"{plan.name}-{self._world.name_suffix()}", plan.namespace, labels)
        metadata["generateName"] = f"{plan.name}-"
        image = f"{plan.image}:{delivery.target.tag}"
        self._store.create(WORKFLOWS, workflow.workflow(metadata, image, self._world.stamp()[:10]))
        return True

    def _clear_old_workflows(self) -> None:
        finished: dict[str, list[dict]] = {}
        for document in self._store.list(WORKFLOWS)[0]:
            maker = document["metadata"].get("labels", {}).get("workflows.argoproj.io/cron-workflow")
            if maker and document.get("status", {}).get("phase") in FINISHED:
                finished.setdefault(maker, []).append(document)
        for documents in finished.values():
            documents.sort(key=lambda document: int(document["metadata"]["resourceVersion"]))
            for document in documents[: max(0, len(documents) - FREE_WORKFLOWS_MAX)]:
                self._store.delete(WORKFLOWS, document["metadata"]["namespace"], document["metadata"]["name"])

    def _sync_by_hand(self, document: dict) -> None:
        def change(draft: dict) -> None:
            draft["operation"] = {
                "sync": {"syncStrategy": {"hook": {}}, "prune": True},
                "initiatedBy": {"username": "ana@demo.invalid"},
            }

        metadata = document["metadata"]
        self._store.update(APPLICATIONS, metadata["namespace"], metadata["name"], change)

    # -- the beginning ---------------------------------------------------------------------------------------

    def _install(self, plan: Plan) -> None:
        """An Application with a past, about to be synced for the last time before the curtain rises."""
        self.sensitive += [*plan.secret_data.values()]
        if plan.password_in_environment:
            self.sensitive.append(plan.password_in_environment)
        past = [Release(self._world.hexadecimal(40), "1.0.0")]
        for _ in range(self._world.chance.randrange(1, 4)):
            past.append(self._release(plan, past[-1].tag))
        document = application(plan)
        started = self._world.now() - 3600.0 * len(past)
        document["status"] = {
            "history": [
                history_entry(
                    document,
                    index,
                    release.revision,
                    timestamp(started + 3600 * index - 5),
                    timestamp(started + 3600 * index),
                    {"automated": True} if plan.automated else {"username": "ana@demo.invalid"},
                )
                for index, release in enumerate(past)
            ]
        }
        document["operation"] = {"sync": {"prune": True}, "initiatedBy": {"username": "ana@demo.invalid"}}
        made = self._store.create(APPLICATIONS, document)
        delivery = Delivery(plan, past[-1], {release.revision: release for release in past})
        delivery.commit(self._release(plan, past[-1].tag))
        self._applications.deliveries[(made["metadata"]["namespace"], made["metadata"]["name"])] = delivery
