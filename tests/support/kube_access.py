"""How test tools reach an API server: what a kubeconfig of a test bed says, and JSON over TLS."""
import base64
import http.client
import json
import pathlib
import re
import ssl
import subprocess
import tempfile
import time
import urllib.parse


class Access:
    """Where an API server is and who we are, from a kubeconfig with one context (YAML or JSON).

    `server` is the URL, `token` a bearer token or None, `context()` the TLS side of it.
    Raises ValueError when the file lacks what it takes.
    """

    def __init__(self, kubeconfig):
        text = pathlib.Path(kubeconfig).read_text()
        self.server = self._field(text, "server")
        if not self.server or not self.server.startswith("https://"):
            raise ValueError(f"{kubeconfig}: no https server")
        self.token = self._field(text, "token")
        self.ca = self._pem(text, "certificate-authority")
        self._certificate = self._pem(text, "client-certificate")
        self._key = self._pem(text, "client-key")
        url = urllib.parse.urlsplit(self.server)
        self.host, self.port = url.hostname, url.port or 443

    @staticmethod
    def _field(text, name):
        found = re.search(rf'(?<![\w-])"?{name}"?:\s*"?([^"\s,}}]+)', text)
        return found[1] if found else None

    @classmethod
    def _pem(cls, text, name):
        data = cls._field(text, name + "-data")
        if data:
            return base64.b64decode(data).decode()
        file = cls._field(text, name)
        return pathlib.Path(file).read_text() if file else None

    def context(self, with_certificate=True):
        """A client's TLS context; with_certificate=False leaves out who we are."""
        context = ssl.create_default_context(cadata=self.ca)
        if with_certificate and self._certificate:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
                both.write(self._certificate + "\n" + self._key)
                both.flush()
                context.load_cert_chain(both.name)
        return context

    def headers(self):
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def connect(self, timeout=30):
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=timeout, context=self.context())

    def call(self, method, path, body=None, content_type="application/json", timeout=30):
        """One request; gives (status, parsed JSON or text)."""
        connection = self.connect(timeout)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data,
                               {**self.headers(), "Content-Type": content_type})
            response = connection.getresponse()
            return response.status, parse(response.read())
        finally:
            connection.close()


def parse(body):
    """JSON where it is JSON, else text; None for nothing."""
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return bytes(body).decode(errors="replace")


def make_certificate(directory):
    """A fresh self-signed certificate for 127.0.0.1: the paths of certificate and key."""
    certificate, key = pathlib.Path(directory, "tls.crt"), pathlib.Path(directory, "tls.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "7", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True)
    return certificate, key


def apply_crds(path, seconds=30):
    """Until the API server serves them. kubectl waits for nothing while a new CRD has no conditions yet."""
    subprocess.run(["kubectl", "apply", "--server-side", "-f", path], check=True, capture_output=True, timeout=60)
    end = time.monotonic() + seconds
    wait = ["kubectl", "wait", "--for", "condition=Established", "--timeout", "1s", "-f", path]
    while (done := subprocess.run(wait, check=False, capture_output=True, text=True)).returncode:
        if time.monotonic() > end:
            raise TimeoutError(f"{path}: not served after {seconds} s: {done.stderr}")
        time.sleep(0.1)


def write_kubeconfig(path, server, ca_pem, user):
    """`user` as in a kubeconfig: {"token": ...}. JSON is YAML, too."""
    ca = base64.b64encode(ca_pem.encode()).decode()
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test",
                      "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}
    pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n")
