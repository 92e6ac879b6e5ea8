"""A driver without a library, for tests: ``good``, or wrong in the one way that its argument names.

Its lock is one SET on the first node, with NX unless it ``shares`` it with everybody, and under another name
if that is ``elsewhere``; one that ``refuses`` asks no node. It claims nothing, or ``claims-all`` of the
lease, or ``keeps-margin``. It knows no ``close`` unless it does one of these, or ``closes``. Then
``closes-late`` leaves a thread behind that sleeps for two seconds, ``closes-never`` one that sleeps for ever,
``closes-losing`` then says that its leases are lost, and ``closes-spinning`` computes without end.
``closes-by-wall-clock`` tells by its wall clock what is left of a lease. ``leaves-children`` starts processes
that outlive it, in a session of their own; ``whole-seconds`` raises where a lease is none of whole seconds;
``loses`` says that a lease is lost as soon as it is granted. One that ``waits`` for a held lock has a task
for each command, and can ``cancel``; one that is ``deaf`` says so, and goes on waiting. ``two-permits`` and
``readers`` say that two clients may hold the lock, or any number of readers, and grant it to everybody.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from typing import Any

MODE = sys.argv[1]
SHARED = ("shares", "two-permits", "readers")
ERROR = {"ok": False, "kind": "error", "error": "Toy", "message": "no"}


def say(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody listens any more


class Toy:
    def __init__(self) -> None:
        self.node = ("", 0)
        self.leases: dict[str, str] = {}
        self.cancelled: set[int] = set()
        self.until_s = 0.0

    def redis(self, *words: str) -> str:
        try:
            with socket.create_connection(self.node) as line:
                line.sendall((" ".join(words) + "\r\n").encode())
                return line.recv(1000).decode()
        except ConnectionError as error:
            return f"-{error}"

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        op = command["op"]
        if op == "hello":
            wrong = [name for name in command["options"] if name != "toy"]
            if wrong:
                return {**ERROR, "message": f"no option {wrong[0]}"}
            about: dict[str, Any] = {"node_key": "toy:{key}"} if MODE == "elsewhere" else {}
            about |= {"ttl_step_ms": 1000} if MODE == "whole-seconds" else {}
            caps = ["clock", *(["lost"] if MODE == "loses" else ["held"])]
            about |= {"permits": 2} if MODE == "two-permits" else {}
            caps += ["validity"] if MODE in ("claims-all", "keeps-margin") else []
            caps += ["cancel", "tasks"] if MODE in ("waits", "deaf") else []
            caps += ["read-write"] if MODE == "readers" else []
            return {"ok": True, "lib": "toy", "version": "1", "caps": caps, **about}
        if op == "open":
            host, _, port = command["nodes"][0].rpartition(":")
            self.node = (host, int(port))
            return {"ok": True}
        if op == "close" and (MODE.startswith("closes") or MODE in (*SHARED, "elsewhere", "waits")):
            return self.close()
        if op == "cancel" and MODE in ("waits", "deaf"):
            self.cancelled.add(command["command"])
            return {"ok": True}
        if op == "acquire":
            while True:
                got = self.acquire(command["key"], command["ttl_ms"])
                if got["ok"] or MODE not in ("waits", "deaf"):
                    return got
                if command["id"] in self.cancelled and MODE == "waits":
                    return {**ERROR, "error": "Cancelled"}
                time.sleep(0.05)
        if op == "clock":
            return {"ok": True, "wall_ms": time.time() * 1000}
        if command.get("lease") not in self.leases:
            return {**ERROR, "error": "UnknownLease"}
        if op == "held":
            left_ms = (self.until_s - time.time()) * 1000
            return {"ok": True, "held": True} | (
                {"claimed_ms": left_ms} if MODE == "closes-by-wall-clock" else {}
            )
        if op == "release":
            self.redis("DEL", self.leases[command["lease"]])
            return {"ok": True}
        return {**ERROR, "error": "UnknownOp"}

    def close(self) -> dict[str, Any]:
        while MODE == "closes-spinning":
            pass
        sleep_s = {"closes-late": 2, "closes-never": 10**6}.get(MODE)
        if sleep_s is not None:
            threading.Thread(target=time.sleep, args=(sleep_s,), daemon=True).start()
        if MODE == "closes-losing":
            threading.Timer(0.1, say, ['{"event":"lost","lease":"h"}']).start()
        self.leases.clear()
        return {"ok": True}

    def acquire(self, key: str, ttl_ms: int) -> dict[str, Any]:
        if MODE == "garbage":
            say("Acquiring...")
        if MODE == "dies":
            os._exit(3)
        if MODE == "claims":
            self.leases["h"] = key
            return {"ok": True, "lease": "h"}
        if MODE == "whole-seconds" and ttl_ms % 1000:
            return {**ERROR, "message": f"{ttl_ms} ms are no whole seconds"}
        if MODE == "refuses":
            return {"ok": False, "kind": "refused", "error": "Held", "message": "somebody has it"}
        if MODE == "elsewhere":
            key = f"toy:{key}"
        self.until_s = time.time() + ttl_ms / 1000
        token = secrets.token_hex(8)
        said = self.redis("SET", key, token, *([] if MODE in SHARED else ["NX"]), "PX", str(ttl_ms))
        if not said.startswith("+OK"):
            why = said.strip() if said.startswith("-") else "somebody has it"
            return {"ok": False, "kind": "refused", "error": "Held", "message": why}
        handle = f"h-{token}" if MODE == "waits" else f"h{len(self.leases)}"
        self.leases[handle] = key
        claimed_ms = {"claims-all": ttl_ms, "keeps-margin": ttl_ms * 99 // 100 - 2}.get(MODE)
        if MODE == "loses":
            threading.Timer(0.001, say, (json.dumps({"event": "lost", "lease": handle}),)).start()
        return {"ok": True, "lease": handle, "token": token, "claimed_ms": claimed_ms}


def answer(toy: Toy, command: dict[str, Any]) -> None:
    say(json.dumps({"id": command["id"], **toy.answer(command)}))


def main() -> None:
    toy = Toy()
    if MODE == "leaves-children":
        for how in ({"start_new_session": True}, {"process_group": 0}):
            subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **how)
        subprocess.run(["sh", "-c", "setsid sleep 1000 > /dev/null &"], check=True)
    if MODE == "banner":
        say("Toy driver 1.0, ready")
    for line in sys.stdin:
        command = json.loads(line)
        if MODE == "silent" or (MODE == "mute" and command["op"] == "acquire"):
            continue
        if MODE in ("waits", "deaf"):
            threading.Thread(target=answer, args=(toy, command), daemon=True).start()
            continue
        number = command["id"] + (1 if MODE == "ids" and command["op"] == "acquire" else 0)
        say(json.dumps({"id": number, **toy.answer(command)}))
    while MODE == "stays":
        time.sleep(1)


main()
