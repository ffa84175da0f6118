"""A culvert-fault-proxy under command: what tests and benchmarks put between the two ends of a tunnel."""

import subprocess

END_SECONDS = 10


class FaultProxy:
    """Listens on loopback from start to stop(); `say("delay 25")` answers when the command is in force."""

    def __init__(self, program, target_port, listen_port=0):
        self._process = subprocess.Popen(
            [program, f"127.0.0.1:{listen_port}", f"127.0.0.1:{target_port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        first = self._process.stdout.readline()
        if not first.startswith("ok "):
            self.stop()
            raise RuntimeError("culvert-fault-proxy does not start")
        self.port = int(first.rsplit(":", 1)[1])

    @property
    def pid(self):
        return self._process.pid

    def say(self, *commands):
        """Each command, one after the other; what the last one was answered, without its `ok`."""
        answer = ""
        for command in commands:
            self._process.stdin.write(command + "\n")
            answer = self._process.stdout.readline().strip()
            if answer.split(" ")[0] != "ok":
                raise RuntimeError(f"culvert-fault-proxy: {command}: {answer or 'it has ended'}")
        return answer.removeprefix("ok").strip()

    def stats(self):
        return {name: int(value) for name, value in (field.split("=") for field in self.say("stats").split())}

    def calm(self):
        """As if nothing had ever been said; connections stay."""
        self.say("resume", "delay 0", "jitter 0", "rate 0", "window 0", "chunk 0")

    def stop(self):
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.stop()
