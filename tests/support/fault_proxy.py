#!/usr/bin/env python3
"""A proxy between an API client and a real API server that breaks what a network or a server can
break, at exactly the request or event where a test wants it.

    with FaultProxy("admin.kubeconfig", token=operators_token) as proxy:
        start_operator("--kubeconfig", proxy.kubeconfig)
        proxy.add(Match(mutating=True, nth=7), After(operator.kill))   # applied, reply lost
        proxy.add(Match(path="/pods", event="MODIFIED", nth=3), Drop())
        ...
        proxy.log                      # every request: time, method, path, body, status, reply

One proxy for one client: a second client gets its own. Speaks HTTP/1.1 over TLS on both sides with
a certificate of its own. Rules (fault_rules.py) count from the moment they are added.
"""
import asyncio
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import re
import shutil
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
import typing

import fault_rules as rules
import http_message as http
import kube_access

REMEMBERED_TARGETS = 1000
HOP_HEADERS = ("connection", "keep-alive", "content-length", "transfer-encoding", "expect")


@dataclasses.dataclass
class Entry:
    """One request as it came, and what became of it."""
    time: float  # seconds since the epoch, when its last byte was here
    method: str
    path: str  # with its query
    body: bytes
    number: typing.Optional[int]  # of a changing request: 1, 2, ...; others None
    agent: str
    status: typing.Optional[int] = None  # of the server's reply; None: it never got there
    reply: bytes = b""  # of changing requests
    fault: str = ""
    duration: float = 0.0

    @property
    def json(self):
        return kube_access.parse(self.body)

    @property
    def reply_json(self):
        return kube_access.parse(self.reply)

    @property
    def is_watch(self):
        return self.method == "GET" and re.search(r"[?&]watch=(true|1)\b", self.path) is not None


class CloseConnection(Exception):
    """The client's connection ends here."""


@dataclasses.dataclass
class Client:
    """The connection of the one that we serve."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def gone(self):
        """Ends when it closes. It sends nothing while it waits for an answer."""
        try:
            while await self.reader.read(1):
                pass
        except OSError:
            pass


class LiveWatch:
    def __init__(self, path, upstream):
        self.path, self.upstream, self.how = path, upstream, None


class FaultProxy:
    """See above. `kubeconfig` is that of the real server; with `token` the client is who the token
    says, without it who the kubeconfig's certificate says. Requests that fit `ignore` carry no
    number."""

    def __init__(self, kubeconfig, token=None, ignore=r"/leases(/|\?|$)|/events(/|\?|$)"):
        self._access = kube_access.Access(kubeconfig)
        self._pass_token = token is not None or self._access.token is not None
        self._token = token or self._access.token or "through-the-proxy"
        self._ignore = re.compile(ignore) if ignore else None
        self._rules, self._lock = [], threading.Lock()
        self._idle = collections.defaultdict(list)
        self._answers = collections.OrderedDict()  # target -> the last two different answers
        self._watches, self._clients = set(), set()
        self.log, self.mutating = [], 0
        self._directory = tempfile.mkdtemp(prefix="fault-proxy-")
        self.kubeconfig = str(pathlib.Path(self._directory, "kubeconfig"))
        self._pool = concurrent.futures.ThreadPoolExecutor(8)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._start())

    # --- control, from the test's thread ---

    def add(self, match, fault):
        """The rule: `rule.happened.wait(seconds)` tells when it struck first."""
        rule = rules.Rule(match, fault)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self):
        """No more rules; what hangs or is held goes on."""
        with self._lock:
            self._rules.clear()
        self._call(self._release())

    def reset(self):
        """A new run: no rules, an empty log, the next changing request is number 1."""
        self.clear()
        self.log, self.mutating = [], 0

    def cut_watches(self, path="", how="clean"):
        """Ends the live watches whose path fits, now; how many there were."""
        async def cut():
            chosen = [watch for watch in self._watches if re.search(path, watch.path)]
            for watch in chosen:
                watch.how = how
                watch.upstream[1].transport.abort()
            return len(chosen)
        return self._call(cut())

    def live_watches(self):
        return [watch.path for watch in list(self._watches)]

    def close(self):
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._pool.shutdown(wait=False)
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    # --- life ---

    async def _start(self):
        self._released = asyncio.Event()
        certificate, key = kube_access.make_certificate(self._directory)
        front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        front.load_cert_chain(certificate, key)
        # Where a token tells who the client is, a certificate of ours would take its place.
        self._behind = self._access.context(with_certificate=not self._pass_token)
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=front, ssl_shutdown_timeout=1)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        kube_access.write_kubeconfig(
            self.kubeconfig, self.url, certificate.read_text(), {"token": self._token})

    async def _stop(self):
        self._server.close()
        await self._release()
        for task in list(self._clients):
            task.cancel()
        await asyncio.sleep(0)
        for task in list(self._clients):
            task.cancel()  # now out of its closing
        await asyncio.gather(*self._clients, return_exceptions=True)
        for connections in self._idle.values():
            for _, writer in connections:
                writer.transport.abort()
        await asyncio.sleep(0.01)  # what was aborted closes in the loop's next turns

    async def _release(self):
        self._released.set()
        self._released = asyncio.Event()

    # --- one client's connection ---

    async def _serve(self, reader, writer):
        self._clients.add(asyncio.current_task())
        client = Client(reader, writer)
        try:
            while request := await http.read_head(reader):
                if (request.header("expect") or "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await http.read_body(reader, request)
                await self._handle(request, client)
                await writer.drain()
        except (CloseConnection, http.Broken, OSError, asyncio.CancelledError):
            pass
        finally:
            await self._close(writer)
            self._clients.discard(asyncio.current_task())

    @staticmethod
    async def _close(writer):
        try:
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()

    async def _handle(self, request, client):
        begin = time.monotonic()
        entry = self._enter(request)
        try:
            rule = self._due(entry)
            fault = rule.fault if rule else None
            if fault:
                entry.fault = type(fault).__name__
            if entry.is_watch and fault is None:
                await self._watch(entry, request, client)
            else:
                await self._answer(entry, request, fault, client)
        finally:
            entry.duration = time.monotonic() - begin

    def _enter(self, request):
        method, path = request.start[0], request.start[1]
        number = None
        if method in rules.MUTATING and not (self._ignore and self._ignore.search(path)):
            self.mutating += 1
            number = self.mutating
        entry = Entry(time.time(), method, path, request.body, number,
                      request.header("user-agent") or "")
        self.log.append(entry)
        return entry

    def _due(self, entry):
        """The first rule for requests that is due; every rule that fits counts."""
        due = None
        with self._lock:
            for rule in self._rules:
                if isinstance(rule.fault, rules.WATCH_FAULTS) or not rule.match.fits(entry):
                    continue
                if rule.take() and due is None:
                    due = rule
        return due

    async def _wait_released(self, client):
        waits = [asyncio.create_task(self._released.wait()), asyncio.create_task(client.gone())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)

    async def _run(self, callback):
        if callback:
            await self._loop.run_in_executor(self._pool, callback)

    async def _answer(self, entry, request, fault, client):
        writer = client.writer
        match fault:
            case rules.Before():
                await self._run(fault.callback)
                raise CloseConnection
            case rules.After():
                await self._forward(entry, request)
                await self._run(fault.callback)
                raise CloseConnection
            case rules.Hang():
                if fault.forward:
                    await self._forward(entry, request)
                await self._wait_released(client)
                raise CloseConnection
            case rules.Delay():
                await asyncio.sleep(fault.seconds)
                if entry.is_watch:
                    return await self._watch(entry, request, client)
                reply = await self._forward(entry, request)
            case rules.Duplicate():
                first = await self._forward(entry, request)
                second = await self._forward(entry, request)
                reply = second if fault.give_second else first
            case rules.Answer():
                if fault.forward:
                    await self._forward(entry, request)
                return await self._invent(entry, fault, writer)
            case rules.Stale():
                reply = await self._forward_stale(entry, request, fault)
            case rules.Replied():
                reply = await self._forward(entry, request)
            case _:
                reply = await self._forward(entry, request)
        writer.write(http.encode(reply.start, reply.without(*HOP_HEADERS), reply.body))
        if isinstance(fault, rules.Replied):
            await writer.drain()
            await self._run(fault.callback)

    async def _invent(self, entry, fault, writer):
        if not fault.forward:
            entry.status = fault.status
        start = ["HTTP/1.1", str(fault.status), "Injected"]
        whole = http.encode(start, list(fault.headers.items()), fault.body)
        if fault.cut_after is None:
            writer.write(whole)
            return
        writer.write(whole[:len(whole) - len(fault.body) + fault.cut_after])
        await writer.drain()
        raise CloseConnection

    # --- the server behind ---

    async def _open(self, access, context):
        idle = self._idle[access.server]
        while idle:
            reader, writer = idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
        return await asyncio.open_connection(access.host, access.port, ssl=context)

    def _encode_request(self, request, access):
        # Compressed or binary answers could not be read here.
        headers = request.without("host", "accept-encoding", *HOP_HEADERS)
        if not self._pass_token:
            headers = [pair for pair in headers if pair[0].lower() != "authorization"]
        headers.append(("Host", f"{access.host}:{access.port}"))
        return http.encode(request.start, headers, request.body)

    async def _exchange(self, request, access, context):
        upstream = await self._open(access, context)
        reader, writer = upstream
        try:
            writer.write(self._encode_request(request, access))
            reply = await http.read_head(reader)
            if reply is None:
                raise http.Broken("the server closed the connection")
            await http.read_body(reader, reply)
        except BaseException:
            writer.transport.abort()
            raise
        self._idle[access.server].append(upstream)
        return reply

    async def _forward(self, entry, request):
        reply = await self._exchange(request, self._access, self._behind)
        entry.status = int(reply.start[1])
        if entry.method in rules.MUTATING:
            entry.reply = reply.body
        else:
            self._remember(entry.path, reply)
        return reply

    def _remember(self, path, reply):
        known = self._answers.setdefault(path, [])
        if not known or known[-1].body != reply.body:
            known[:] = [*known[-1:], reply]
        if len(self._answers) > REMEMBERED_TARGETS:
            self._answers.popitem(last=False)

    async def _forward_stale(self, entry, request, fault):
        if fault.server:
            context = fault.server.context(with_certificate=not self._pass_token)
            reply = await self._exchange(request, fault.server, context)
            entry.status = int(reply.start[1])
            return reply
        known = self._answers.get(entry.path)
        if not known:
            return await self._forward(entry, request)
        entry.status = int(known[0].start[1])
        return known[0]

    # --- watches ---

    async def _watch(self, entry, request, client):
        writer = client.writer
        upstream = await asyncio.open_connection(
            self._access.host, self._access.port, ssl=self._behind)
        watch = LiveWatch(entry.path, upstream)
        self._watches.add(watch)
        left = asyncio.create_task(client.gone())
        left.add_done_callback(lambda _: upstream[1].transport.abort())
        try:
            upstream[1].write(self._encode_request(request, self._access))
            reply = await http.read_head(upstream[0])
            if reply is None:
                raise http.Broken("the server closed the connection")
            entry.status = int(reply.start[1])
            if entry.status != 200 or not reply.chunked():
                await http.read_body(upstream[0], reply)
                writer.write(http.encode(reply.start, reply.without(*HOP_HEADERS), reply.body))
                return
            headers = [*reply.without(*HOP_HEADERS), ("Transfer-Encoding", "chunked")]
            writer.write(http.encode_head(reply.start, headers))
            await self._pump(entry, watch, writer)
        except http.Broken:
            if watch.how is None:
                raise CloseConnection from None
            await self._end(writer, watch.how, b"")
        finally:
            self._watches.discard(watch)
            left.cancel()
            await asyncio.wait([left])  # it reads where the next request is read
            upstream[1].transport.abort()

    async def _pump(self, entry, watch, writer):
        rest = b""
        async for piece in http.chunks(watch.upstream[0]):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                await self._pass_event(entry, line + b"\n", writer)
            await writer.drain()
            if watch.how:
                await self._end(writer, watch.how, b"")
                return
            if writer.is_closing():
                raise CloseConnection
        writer.write(http.LAST_CHUNK)

    def _due_for_event(self, entry, line):
        with self._lock:
            candidates = [rule for rule in self._rules
                          if isinstance(rule.fault, rules.WATCH_FAULTS) and rule.match.fits(entry)]
            if not candidates:
                return None
            kind = re.match(rb'\{"type":"(\w+)"', line)
            kind = kind[1].decode() if kind else ""
            due = [rule for rule in candidates
                   if rule.match.fits_event(kind, line) and rule.take()]
        return due[0].fault if due else None

    async def _pass_event(self, entry, line, writer):
        fault = self._due_for_event(entry, line)
        if fault:
            entry.fault = type(fault).__name__
        match fault:
            case None:
                writer.write(http.chunk(line))
            case rules.Drop():
                pass
            case rules.Repeat():
                writer.write(http.chunk(line) + http.chunk(line))
            case rules.Hold():
                try:
                    await asyncio.wait_for(self._released.wait(), fault.seconds)
                except asyncio.TimeoutError:
                    pass
                writer.write(http.chunk(line))
            case rules.Expire():
                error = {"type": "ERROR", "object": json.loads(rules.gone().body)}
                writer.write(http.chunk(json.dumps(error).encode() + b"\n") + http.LAST_CHUNK)
                await writer.drain()
                raise CloseConnection
            case rules.Cut():
                await self._end(writer, fault.how, line)

    async def _end(self, writer, how, line):
        """Ends the client's watch; `line` is the event that would have come."""
        if how == "clean":
            writer.write(http.LAST_CHUNK)
        elif how == "middle":
            half = line[:len(line) // 2] or b'{"type":"MODIFIED","object":{"ki'
            writer.write(b"%x\r\n" % max(len(line), len(half) + 1) + half)
        await writer.drain()
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        raise CloseConnection


def main():
    """By hand: fault_proxy.py KUBECONFIG prints the kubeconfig to use, then every request."""
    with FaultProxy(sys.argv[1]) as proxy:
        print(proxy.kubeconfig, flush=True)
        shown = 0
        while True:
            for entry in proxy.log[shown:]:
                print(entry.number or "-", entry.method, entry.path, entry.status, flush=True)
                shown += 1
            time.sleep(0.2)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
