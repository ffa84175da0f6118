"""What is killed (-9) and stopped (SIGSTOP, for a while), and how it comes back.

A process's supervisor (deploy/lib/supervise) starts it again half a second after its death. RabbitMQ is started again here, in a
thread of its own, so that others are struck while it is away."""

import contextlib
import os
import pathlib
import signal
import threading
import time

from platform_under_test import wait_until

AGAIN_SECONDS = 60
EVERYTHING = "everything"
ABREAST = " and "
BEHIND = " behind "


def family(pid):
    """The process and its children: PostgreSQL works in those."""
    found = [pid]
    for each in pathlib.Path("/proc").iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if int((each / "stat").read_text().rsplit(") ", 1)[1].split()[1]) == pid:
                    found.append(int(each.name))
    return found


def tell(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Victims:
    """names: of processes; and of those that are killed while others stand still, when whatever was acknowledged too early is
    still in their memory, or on its way to those: "A behind B", "A behind B and C"."""

    def __init__(self, platform, rabbitmq):
        self.platform, self.rabbitmq, self.starting, self.failure = platform, rabbitmq, None, None
        one = platform.replicas == 1
        self.culvertds = ["culvertd"] if one else [f"culvertd-{i}" for i in range(platform.replicas)]
        self.names = [*self.culvertds, "agent", "postgres", "redis", f"culvertd{BEHIND}postgres", f"postgres{BEHIND}itself"]
        self.names += [] if one else ["balancer"]
        if rabbitmq:
            self.names += ["rabbitmq", f"culvertd{BEHIND}rabbitmq", f"culvertd{BEHIND}postgres{ABREAST}rabbitmq"]
        self.names.append(f"{EVERYTHING}{BEHIND}postgres" + (f"{ABREAST}rabbitmq" if rabbitmq else ""))

    def only_killed(self, name):
        return BEHIND in name

    # ---- one at a time -----------------------------------------------------------------------------------------------------

    def pids(self, name):
        return family(self.platform.pid(name))

    def kill(self, name, is_whole=False):
        """is_whole: every process of it, as when the machine ends; else the first, and the others notice."""
        if name == "rabbitmq":
            self.settle()
            self.rabbitmq.kill()
            self.start_rabbitmq()
            return
        self.kill_all([name], is_whole)

    def kill_all(self, names, is_whole=False):
        old = {name: self.platform.pid(name) for name in names}
        for name in names:
            tell(self.pids(name) if is_whole else [old[name]], signal.SIGKILL)
        for name in names:
            wait_until(lambda: self.platform.pid(name) != old[name], AGAIN_SECONDS, f"{name} is started again")

    def kill_everything(self):
        """As when the machine ends: what was on its way from one to the other has not arrived."""
        if self.rabbitmq:
            tell([self.platform.pid(name) for name in self.culvertds], signal.SIGKILL)
            self.rabbitmq.kill()
            self.start_rabbitmq()
        self.kill_all([*self.culvertds, "agent", "redis", "postgres"], True)

    @contextlib.contextmanager
    def standing_still(self, name):
        if name == "rabbitmq":
            self.settle()
            self.rabbitmq.pause()
        pids = [] if name == "rabbitmq" else self.pids(name)
        try:
            tell(pids, signal.SIGSTOP)
            yield
        finally:
            tell(pids, signal.SIGCONT)
            if name == "rabbitmq":
                self.rabbitmq.resume()

    def stop(self, name, seconds):
        with self.standing_still(name):
            time.sleep(seconds)

    # ---- a point -----------------------------------------------------------------------------------------------------------

    def strike(self, name, seconds, is_whole):
        """seconds: 0 to kill it; of what is killed behind others, how long these stand still before."""
        victim, _, others = name.partition(BEHIND)
        if not others and seconds:
            self.stop(name, seconds)
        elif not others:
            self.kill(name, is_whole and name == "postgres")
        elif others == "itself":  # what it was told and has not begun yet is gone with it
            with self.standing_still(victim):
                time.sleep(seconds)
                self.kill(victim, True)
        else:
            with contextlib.ExitStack() as stack:
                for other in others.split(ABREAST):
                    stack.enter_context(self.standing_still(other))
                time.sleep(seconds)
                self.kill_all(self.culvertds) if victim != EVERYTHING else self.kill_everything()

    # ---- RabbitMQ ----------------------------------------------------------------------------------------------------------

    def start_rabbitmq(self):
        def start():
            try:
                self.rabbitmq.start()
            except Exception as error:
                self.failure = f"rabbitmq: {error!r}"

        self.starting = threading.Thread(target=start, name="rabbitmq", daemon=True)
        self.starting.start()

    def settle(self):
        """Everybody is back, or RabbitMQ never will."""
        if self.starting:
            self.starting.join()
            self.starting = None
        if self.failure:
            raise AssertionError(self.failure)
