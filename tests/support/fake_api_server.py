"""A TLS server that is just enough of an API server to test the tools that stand before one: it
keeps objects by path, counts versions, and streams watches."""
import http.server
import json
import pathlib
import ssl
import tempfile
import threading
import time

import kube_access

TOKEN = "a-token"


class FakeApiServer:
    """`requests` holds what arrived: (method, path, Authorization). POST stores under path/name."""

    def __init__(self):
        self.requests, self.objects, self.events = [], {}, []
        self.version, self.changed = 100, threading.Condition()
        self.expire_watches_before = 0  # of older versions: 410
        self.hold_events = False  # watches say nothing
        self.texts = {}  # path -> what it answers as it stands: logs, what a pod serves
        self.missing = []  # collections that are not there
        self.forbidden = []  # paths that the user has no right to read
        self.generation = 0  # of watches: those of an older one end
        self._directory = tempfile.TemporaryDirectory()
        certificate, key = kube_access.make_certificate(self._directory.name)
        handler = type("Handler", (Handler,), {"fake": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # clients leave when they like
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self.kubeconfig = str(pathlib.Path(self._directory.name, "kubeconfig"))
        kube_access.write_kubeconfig(
            self.kubeconfig, self.url, certificate.read_text(), {"token": TOKEN})
        self.stopped = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def emit(self, kind, collection, item):
        """Stores (or with DELETED removes) the object and tells the watches of its collection."""
        with self.changed:
            self.version += 1
            item.setdefault("metadata", {})["resourceVersion"] = str(self.version)
            key = f"{collection}/{item['metadata'].get('name')}"
            if kind == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = item
            line = json.dumps({"type": kind, "object": item}, separators=(",", ":"))
            self.events.append((self.version, collection, line))
            self.changed.notify_all()

    def end_watches(self):
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    def close(self):
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._directory.cleanup()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake = None

    def log_message(self, *_):
        pass

    def answer(self, code, document):
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_text(self, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def arrived(self):
        self.fake.requests.append((self.command, self.path, self.headers.get("Authorization")))
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length) or b"null")

    def do_GET(self):
        self.arrived()
        path, _, query = self.path.partition("?")
        if path in self.fake.missing:
            return self.answer(404, {"kind": "Status", "code": 404})
        if path in self.fake.forbidden:
            message = f"pods is forbidden: User \"ann\" cannot get {path}"
            return self.answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message})
        if path in self.fake.texts:
            return self.answer_text(self.fake.texts[path])
        if "watch=" in query:
            return self.stream(path, int(query.partition("resourceVersion=")[2].split("&")[0] or 0))
        if path in self.fake.objects:
            return self.answer(200, self.fake.objects[path])
        items = [item for key, item in self.fake.objects.items() if key.rpartition("/")[0] == path]
        return self.answer(200, {"kind": "List", "items": items,
                                 "metadata": {"resourceVersion": str(self.fake.version)}})

    def do_POST(self):
        item = self.arrived()
        path = self.path.partition("?")[0]
        if f"{path}/{item['metadata']['name']}" in self.fake.objects:
            return self.answer(409, {"kind": "Status", "code": 409, "reason": "AlreadyExists"})
        self.fake.emit("ADDED", path, item)
        return self.answer(201, item)

    def do_DELETE(self):
        self.arrived()
        path = self.path.partition("?")[0]
        if path not in self.fake.objects:
            return self.answer(404, {"kind": "Status", "code": 404})
        item = self.fake.objects[path]
        self.fake.emit("DELETED", path.rpartition("/")[0], item)
        return self.answer(200, item)

    def stream(self, collection, version):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if version < self.fake.expire_watches_before:
            error = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
            self.piece(json.dumps(error) + "\n")
            return self.wfile.write(b"0\r\n\r\n")
        deadline, generation = time.monotonic() + 20, self.fake.generation
        while True:
            with self.fake.changed:
                over = self.fake.stopped or generation != self.fake.generation
                if over or time.monotonic() > deadline:
                    return self.wfile.write(b"0\r\n\r\n")
                due = [event for event in self.fake.events if not self.fake.hold_events
                       and event[0] > version and event[1] == collection]
                if not due:
                    self.fake.changed.wait(1)
                    continue
            for number, _, line in due:
                self.piece(line + "\n")
                version = number

    def piece(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
