"""What tests/bench/live subscribes with: a process that holds many subscriptions, and notes what each is sent and when."""

import asyncio
import json
import multiprocessing
import time

OPENED_AT_ONCE = 20
OPEN_SECONDS_MAX = 300
LINE_BYTES_MAX = 4 * 1024 * 1024
QUERY = "subscription($ids: [ID!]!) { applicationsWindow(ids: $ids) { reset removed deltas { id node { healthStatus syncStatus healthMessage } } } }"


class Subscriber:
    def __init__(self, index, ids, notes):
        self.index, self.ids, self.notes = index, ids, notes
        self.opened, self.is_lost = asyncio.Event(), False

    async def open(self, target, key, context):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", target.port, ssl=context, server_hostname=target.hostname, limit=LINE_BYTES_MAX)
        body = json.dumps({"query": QUERY, "variables": {"ids": self.ids}})
        head = ["POST /2.0/api/graphql HTTP/1.1", f"Host: {target.netloc}", f"Authorization: {key}", "Accept: text/event-stream",
                "Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        self.writer.write(("\r\n".join(head) + body).encode())
        status = await self.reader.readline()
        if b" 200 " not in status:
            raise AssertionError(f"a subscription was answered {status!r}")
        self.task = asyncio.create_task(self.follow())
        await asyncio.wait_for(self.opened.wait(), 60)

    async def follow(self):
        while line := await self.reader.readline():
            at = time.monotonic_ns()
            if not line.startswith(b"data: {"):
                continue
            window = json.loads(line[len("data: ") :])["data"]["applicationsWindow"]
            if not window["reset"]:
                self.notes.extend((self.index, delta["id"], int(delta["node"]["healthMessage"]), at) for delta in window["deltas"])
            self.opened.set()
        self.is_lost = True


async def hold(pipe, target, key, context, windows):
    notes = []
    subscribers = [Subscriber(index, ids, notes) for index, ids in windows]
    for i in range(0, len(subscribers), OPENED_AT_ONCE):
        await asyncio.gather(*(subscriber.open(target, key, context) for subscriber in subscribers[i : i + OPENED_AT_ONCE]))
    pipe.send(len(subscribers))
    while command := await asyncio.to_thread(pipe.recv):
        pipe.send((list(notes), sum(subscriber.is_lost for subscriber in subscribers)) if command == "take" else None)
        notes.clear()


class Subscribers:
    """A process of its own. windows: [(index, ids)]; an event is noted as (index, id, number, when by CLOCK_MONOTONIC in ns)."""

    def __init__(self, target, key, context, windows):
        forked = multiprocessing.get_context("fork")
        self.pipe, theirs = forked.Pipe()
        self.process = forked.Process(target=lambda: asyncio.run(hold(theirs, target, key, context, windows)), daemon=True)
        self.process.start()
        theirs.close()

    def wait_open(self):
        if not self.pipe.poll(OPEN_SECONDS_MAX):
            raise AssertionError("the subscriptions are not open")
        return self.pipe.recv()

    def take(self):
        """What came since the last call, and how many have ended."""
        self.pipe.send("take")
        return self.pipe.recv()

    def end(self):
        self.process.kill()  # it has the signal handlers of the process that it was forked from
        self.process.join(10)
