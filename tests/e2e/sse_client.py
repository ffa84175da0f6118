"""GraphQL over server-sent events, as graphql-sse's clients ask (distinct connections mode)."""

import contextlib
import json
import queue
import socket
import threading
import time
import urllib.parse

from platform_under_test import Connection


class Subscription:
    """One operation; what arrives is taken by next(). answer: where it did not become a stream."""

    def __init__(self, platform, query, variables=None, key=True, last=None, headers=None, url=None):
        parts = urllib.parse.urlsplit(url or platform.env["CULVERT_URL"])
        self.connection = Connection(platform, parts.port, parts.hostname, parts.scheme == "https", 30)
        sent = {"Host": f"{parts.hostname}:{parts.port}", "Content-Type": "application/json", "Accept": "text/event-stream", **(headers or {})}
        if key:
            sent["Authorization"] = platform.env["CULVERT_API_KEY"] if key is True else key
        if last:
            sent["Last-Event-ID"] = last
        self.connection.request("POST", "/2.0/api/graphql", body=json.dumps({"query": query, "variables": variables or {}}), headers=sent)
        self.sock = self.connection.sock
        self.response = self.connection.getresponse()
        self.status, self.headers = self.response.status, self.response.headers
        self.events, self.beats, self.last_id, self.is_over, self.answer = queue.Queue(), [], None, False, None
        if self.status != 200 or "text/event-stream" not in self.headers["content-type"]:
            self.answer = json.loads(self.response.read())
            return
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        name = data = None
        try:
            while line := self.response.readline():
                text = line.decode().rstrip("\n")
                field, _, value = text.partition(":")
                value = value.removeprefix(" ")
                if text == "":
                    if name:
                        self.events.put((name, json.loads(data) if data else None, time.monotonic()))
                    name = data = None
                elif field == "":
                    self.beats.append(json.loads(value))
                elif field == "event":
                    name = value
                elif field == "data":
                    data = value
                elif field == "id":
                    self.last_id = value
        except Exception:
            pass  # the connection was cut
        self.is_over = True
        self.events.put(("end", None, time.monotonic()))

    def next(self, seconds=20):
        name, data, self.at = self.events.get(timeout=seconds)
        return name, data

    def window(self, seconds=20):
        """The payload of the next event: {id: node}, the removed ids, and whether it is a reset."""
        name, data = self.next(seconds)
        assert name == "next" and "errors" not in data, (name, data)
        (payload,) = data["data"].values()
        return {delta["id"]: delta["node"] for delta in payload["deltas"]}, payload["removed"], payload["reset"]

    def is_quiet(self):
        return self.events.empty()

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes the reader
        self.response.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
