#!/usr/bin/env python3
"""command_test.py COXSWAIN    `coxswain operator` as its user meets it

Flags, kubeconfigs, signals, endpoints, and what it does while there is no API server, or a strange
one. Needs no cluster.
"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import operator_bed as bed  # noqa: F401  # where the test tools are
from operator_process import Process, until

import fake_api_server
import fault_proxy
import fault_rules as rules
import kube_access

SECRET = "eyJhbGciOi-the-token"
JOBS = "/apis/coxswain.dev/v1alpha1/trainingjobs"
SOON = 1.0  # seconds that an answer to a wrong command may take
TRIES = 4  # of a measurement, on a machine that others keep busy
ENDS = 5.0  # seconds from SIGTERM


class Files:
    """Certificates and kubeconfigs in a directory."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        for name in ("one", "two"):
            (self.directory / name).mkdir()
        certificate, key = kube_access.make_certificate(self.directory / "one")
        _, self.other_key = kube_access.make_certificate(self.directory / "two")
        self.certificate, self.key = certificate, key

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def kubeconfig(self, name, cluster=None, user=None, without=(), **fields):
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "work",
            "contexts": [{"name": "work", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": "https://127.0.0.1:1", "certificate-authority": str(self.certificate),
                **(cluster or {})}}],
            "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}], **fields}
        for key in without:
            del document[key]
        return self.write(name, json.dumps(document))


def bad_commands(files, port):
    """(arguments, exit code, what the line holds)"""
    good = files.kubeconfig("good")
    at = ["--kubeconfig", str(good)]
    return [
        (["--workres", "3"], 2, r"unknown argument --workres; did you mean --workers\?"),
        (["--workers", "abc"], 2, "--workers"),
        (["--workers", "0"], 2, r"1 to 64|1 - 64"),
        (["--log-format", "xml"], 2, "log-format"),
        (["--progress", "perhaps"], 2, "progress"),
        (["--kubeconfig"], 2, "--kubeconfig"),
        (["surplus"], 2, "unknown argument surplus"),
        (["x"] * 10000, 2, "unknown argument x"),
        (["y" * 100000], 2, "unknown argument yyy"),
        (["--kubeconfig", "z" * 100000], 65, "zzz"),
        ([], 2, r"neither a kubeconfig nor a service account found: tried --kubeconfig, "
                r"\$KUBECONFIG, the pod's account and /nonexistent/.kube/config"),
        ([*at, "--metrics-address", f"127.0.0.1:{port}"], 70, "Address already in use"),
        ([*at, "--metrics-address", "192.0.2.1:0"], 70, "192.0.2.1"),
        *[([*at, "--metrics-address", text], 2, "--metrics-address " + re.escape(text))
          for text in ("8080", ":", ":99999", ":-1", ":http", "host.example:80", "1.2.3:80",
                       "[::1", ":80x")],
        ([*at, "--trainer-image=:x"], 2, "--trainer-image :x: not an image"),
        *[([*at, "--namespaces", text], 2, "is no name of a namespace")
          for text in (",", "a,,b", "a,", "A", "a_b", "../x", "-a", "a" * 64, "a b")],
        ([*at, "--leader-elect", "--lease-namespace", "x/y"], 2, "--lease-namespace 'x/y'"),
        ([*at, "--lease-namespace", "x"], 2, "--lease-namespace requires --leader-elect"),
    ]


def bad_kubeconfigs(files):
    """(what, file, what the line holds beside the file)"""
    make = files.kubeconfig
    cluster = [("server file", {"server": "file:///etc"}, "unsupported URL"),
               ("server with password", {"server": f"https://user:{SECRET}@host"},
                "a user or password in it"),
               ("server with tricks", {"server": "https://host/../x"}, "only a plain path"),
               ("server plain", {"server": "http://host"}, "--allow-insecure"),
               ("server missing", {"server": None}, "is missing"),
               ("insecure", {"insecure-skip-tls-verify": True}, "--allow-insecure"),
               ("ca no base64", {"certificate-authority-data": "%%%"}, "is no base64"),
               ("ca no pem", {"certificate-authority-data": "aGVsbG8="},
                "certificate-authority-data"),
               ("ca missing", {"certificate-authority": "/nonexistent"}, "can't be read"),
               ("proxy", {"proxy-url": "http://x"}, "is not supported")]
    user = [("token empty", {"token": ""}, "token: is empty"),
            ("token file empty", {"tokenFile": str(files.write("no-token", "\n"))},
             "holds no token"),
            ("exec", {"exec": {"command": "sh"}}, "--allow-exec"),
            ("auth-provider", {"auth-provider": {"name": "gcp"}}, "is not supported"),
            ("password", {"username": "u", "password": SECRET}, "is not supported"),
            ("token of two lines", {"token": SECRET + "\nx"}, "is no token"),
            ("token file missing", {"tokenFile": "/nonexistent"}, "holds no token"),
            ("key of another", {"client-certificate": str(files.certificate),
                                "client-key": str(files.other_key)}, "client-key"),
            ("certificate without key", {"client-certificate": str(files.certificate)},
             "client-key")]
    whole = [("missing", files.directory / "nowhere", "not found"),
             ("folder", files.directory / "one", "one"),
             ("empty", files.write("empty", ""), "is empty"),
             ("no yaml", files.write("broken", "a: [1, 2"), "broken"),
             ("a list", files.write("list", "[1, 2]"), "must be an object"),
             ("deep", files.write("deep", "[" * 10000 + "]" * 10000), "deep"),
             ("long", files.write("long", "a: " + "x" * (2 << 20)), "long"),
             ("no UTF-8", files.directory / "latin", "latin"),
             ("no context chosen", make("none", without=["current-context"]),
              "current-context: is not set: name one of the contexts: work"),
             ("context unknown", make("context", **{"current-context": "home"}),
              "home not found; there are: work"),
             ("cluster unknown", make("cluster", clusters=[{"name": "d", "cluster": {}}]),
              "c not found; there are: d"),
             ("user unknown", make("user", users=[]), "u not found: the list is empty")]
    (files.directory / "latin").write_bytes(b"a: \xff\xfe")
    return (whole
            + [(what, make(what, cluster=fields), holds) for what, fields, holds in cluster]
            + [(what, make(what, user=fields), holds) for what, fields, holds in user])


def refused(program, arguments, code, holds):
    """The command ends at once, with one line that helps and tells no secret."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    for last in [False] * (TRIES - 1) + [True]:
        begin = time.monotonic()
        done = subprocess.run([program, "operator", *arguments], capture_output=True, timeout=30,
                              env=environment, stdin=subprocess.DEVNULL, check=False)
        took = time.monotonic() - begin
        if took < SOON or last:
            break
    said = done.stderr.decode(errors="replace")
    assert done.returncode == code, f"exit code {done.returncode}: {said[:500]}"
    assert said.count("\n") == 1 and len(said) < 2500, f"not one line: {said[:500]}"
    assert re.search(holds, said), f"does not say '{holds}': {said[:500]}"
    assert SECRET not in said, "tells a secret"
    assert took < SOON, f"took {took:.1f} s"


def check_bad_commands(program, files):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rows = bad_commands(files, taken.getsockname()[1])
        rows += [(["--kubeconfig", str(path)], 65, re.escape(holds))
                 for _, path, holds in bad_kubeconfigs(files)]
        problems = []
        for arguments, code, holds in rows:
            try:
                refused(program, arguments, code, holds)
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                problems.append(f"{' '.join(arguments)[:100]}: {problem}")
    assert not problems, "\n".join(problems)
    return f"{len(rows)} wrong commands and kubeconfigs"


def check_help(program, files):
    done = subprocess.run([program, "operator", "--help"], capture_output=True, timeout=10,
                          check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) <= 40, f"help is no screen: {len(lines)} lines"
    return "help fits on a screen"


# --- with a server, or what stands in its place ---

def stop(operator, kept=0):
    begin = time.monotonic()
    operator.signal(signal.SIGTERM)
    assert operator.end(20) == kept, operator.log()
    took = time.monotonic() - begin
    assert took < ENDS, f"SIGTERM: ends after {took:.1f} s:\n{operator.log()}"
    assert SECRET not in operator.log() and fake_api_server.TOKEN not in operator.log()
    return took


def ready(operator, seconds=20):
    assert until(operator.is_ready, seconds) is not None, operator.log()


SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(\{([a-zA-Z_]\w*="([^"\\\n]|\\.)*",?)*\})? '
                    r"([-+]?[0-9.]+(e[-+]?\d+)?|[-+]?Inf|NaN)$")


def check_endpoint(program, files):
    fake = fake_api_server.FakeApiServer()
    try:
        with Process(program, kubeconfig=fake.kubeconfig) as operator:
            ready(operator)
            assert operator.get("/healthz") == (200, "ok\n")
            assert operator.get("/nothing")[0] == 404
            families, sampled = {}, set()
            text = operator.get("/metrics")[1]
            for line in text.splitlines():
                if line.startswith("# "):
                    word, name, rest = line[2:].split(" ", 2)
                    families.setdefault(name, {})[word] = rest
                    continue
                assert SAMPLE.match(line), f"no sample: {line}"
                name = re.sub(r"_(bucket|sum|count)$", "", SAMPLE.match(line)[1])
                sampled.add(SAMPLE.match(line)[1] if name not in families else name)
            assert sampled and all(set(families[name]) == {"HELP", "TYPE"} for name in sampled)
            assert all(name.startswith("coxswain_") for name in families), families
            for name, kind in (("coxswain_api_requests_total", "counter"),
                               ("coxswain_reconcile_seconds", "histogram"),
                               ("coxswain_queue_depth", "gauge"),
                               ("coxswain_is_leader", "gauge")):
                assert families[name]["TYPE"] == kind, name
            documented = set(re.findall(r"coxswain_\w+", (
                pathlib.Path(__file__).parents[3] / "docs/operator.md").read_text()))
            assert set(families) == {n for n in documented if n in families}, (
                f"not in docs/operator.md: {set(families) - documented}")
            took = stop(operator)
        for address in ("[::1]:0", ":0"):
            with Process(program, kubeconfig=fake.kubeconfig, metrics=address) as operator:
                assert until(lambda: "metrics port=" in operator.log(), 10) is not None
                port = int(re.search(r"metrics port=(\d+)", operator.log())[1])
                for host in ["::1"] if "::1" in address else ["127.0.0.1", "::1"]:
                    connection = http.client.HTTPConnection(host, port, timeout=5)
                    connection.request("GET", "/healthz")
                    assert connection.getresponse().read() == b"ok\n", (address, host)
                stop(operator)
        with Process(program, kubeconfig=fake.kubeconfig, metrics="") as operator:
            assert until(lambda: "ready jobs=" in operator.log(), 20) is not None
            assert "metrics port" not in operator.log()
            stop(operator)
    finally:
        fake.close()
    return f"endpoint; SIGTERM with open watches: {took:.1f} s"


def check_unreachable(program, files):
    """Nobody listens: it waits, says so once, and can be told to stop."""
    times = []
    for flags in ([], ["--leader-elect"]):
        with Process(program, *flags, kubeconfig=files.kubeconfig("refused" + "".join(flags)),
                     ) as operator:
            said = "lease not read" if flags else "watch failed kind=TrainingJob"
            assert until(lambda: said in operator.log(), 15) is not None, operator.log()
            time.sleep(5)
            assert operator.log().count(said) == 1, operator.log()
            assert operator.get("/healthz")[0] == 200
            assert flags or operator.get("/readyz")[0] == 503
            times.append(stop(operator))
    return f"no server: SIGTERM ends in {max(times):.1f} s"


def check_silent(program, files):
    """Somebody listens and never answers."""
    times = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}
        for flags in ([], ["--leader-elect"]):
            path = files.kubeconfig("silent" + "".join(flags), cluster=server)
            with Process(program, *flags, kubeconfig=path) as operator:
                assert until(lambda: operator.get("/readyz")[0] is not None, 15) is not None
                time.sleep(1)
                times.append(stop(operator))
    return f"silent server: SIGTERM ends in {max(times):.1f} s"


def check_blackhole(program, files):
    """It was ready, then nothing is answered any more."""
    fake = fake_api_server.FakeApiServer()
    try:
        with fault_proxy.FaultProxy(fake.kubeconfig) as proxy:
            with Process(program, "--leader-elect", kubeconfig=proxy.kubeconfig) as operator:
                fake.missing.append("/apis/coordination.k8s.io/v1/namespaces/default/leases/"
                                    "coxswain-operator")
                ready(operator)
                assert until(lambda: operator.metric("coxswain_is_leader") == 1, 10) is not None
                proxy.add(rules.Match(times=None), rules.Hang())
                proxy.cut_watches()
                time.sleep(0.5)
                took = stop(operator)
    finally:
        fake.close()
    return f"server gone silent: SIGTERM ends in {took:.1f} s"


def check_comes_later(program, files):
    """No server at first; strange ones; then no CRD; then all is there."""
    fake = fake_api_server.FakeApiServer()
    try:
        with fault_proxy.FaultProxy(fake.kubeconfig) as proxy:
            rule = proxy.add(rules.Match(times=None), rules.Before())
            fake.missing.append(JOBS)
            with Process(program, kubeconfig=proxy.kubeconfig) as operator:
                assert rule.happened.wait(15)
                time.sleep(1)
                assert operator.get("/readyz")[0] == 503
                proxy.clear()
                assert until(lambda: "install its CRD" in operator.log(), 20) is not None, (
                    operator.log())
                assert operator.log().count("install its CRD") == 1
                fake.missing.clear()
                ready(operator, 40)
                stop(operator)
    finally:
        fake.close()
    return "a server, then its CRD, that come later"


def check_missing_namespace(program, files):
    """One that is missing holds up no other, and is watched once it is there; without any it waits."""
    fake = fake_api_server.FakeApiServer()
    jobs = [JOBS.replace("trainingjobs", f"namespaces/{name}/trainingjobs") for name in "ab"]
    try:
        fake.missing.append(jobs[1])
        with Process(program, "--namespaces", "a,b", kubeconfig=fake.kubeconfig) as operator:
            ready(operator)
            said = "namespace is missing, or may not be watched namespace="
            assert f"{said}b" in operator.log() and f"{said}a" not in operator.log(), operator.log()
            fake.missing.clear()
            assert until(lambda: "namespace is watched namespace=b" in operator.log(),
                         60) is not None, operator.log()
            fake.missing += jobs
            stop(operator)
        with Process(program, "--namespaces", "a,b", kubeconfig=fake.kubeconfig) as operator:
            assert until(lambda: operator.log().count("watch failed") == 2, 20) is not None
            assert operator.get("/readyz")[0] == 503
            fake.missing.remove(jobs[0])
            ready(operator, 60)
            stop(operator)
    finally:
        fake.close()
    return "a namespace that is missing at first"


def check_strange_servers(program, files):
    """(answer, what the log says): it waits, and repeats nothing that may hold a secret."""
    echo = rules.html(200)
    echo.body = f"<html>{fake_api_server.TOKEN}</html>".encode()
    answers = [(echo, "watch failed"), (rules.html(502), "a page, not of the API"),
               (rules.Answer(302, b"", {"Location": "https://example.com/"}), "redirects"),
               (rules.status_answer(401, "Unauthorized", "Unauthorized"), "401 Unauthorized"),
               (rules.status_answer(403, "Forbidden", "not for you"), "not for you"),
               (rules.empty(), "watch failed"), (rules.truncated(), "watch failed")]
    fake = fake_api_server.FakeApiServer()

    def one(row):
        answer, said = row
        with fault_proxy.FaultProxy(fake.kubeconfig) as proxy:
            proxy.add(rules.Match(times=None), answer)
            with Process(program, kubeconfig=proxy.kubeconfig) as operator:
                assert until(lambda: said in operator.log(), 20) is not None, (
                    said, operator.log())
                assert operator.get("/readyz")[0] == 503 and operator.is_alive()
                proxy.clear()
                stop(operator)

    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(one, answers))
        access = kube_access.Access(fake.kubeconfig)
        name = files.write("localhost", pathlib.Path(fake.kubeconfig).read_text().replace(
            access.host, "localhost"))
        with Process(program, kubeconfig=name) as operator:
            assert until(lambda: "certificate is refused" in operator.log(), 20) is not None, (
                operator.log())
            stop(operator)
        name = files.kubeconfig("unchecked", user={"token": fake_api_server.TOKEN}, cluster={
            "server": fake.url, "certificate-authority": None, "insecure-skip-tls-verify": True})
        with Process(program, "--allow-insecure", kubeconfig=name) as operator:
            ready(operator)
            assert operator.log().count("the server is not checked") == 1, operator.log()
            stop(operator)
    finally:
        fake.close()
    return f"{len(answers) + 2} strange servers"


def check_rotation(program, files):
    """Token and CA files are read anew; garbage in their place changes nothing."""
    fake = fake_api_server.FakeApiServer()
    try:
        with fault_proxy.FaultProxy(fake.kubeconfig) as proxy:
            access = kube_access.Access(proxy.kubeconfig)
            ca, token = files.write("ca.crt", access.ca), files.write("token", "first\n")
            path = files.kubeconfig(
                "rotation", cluster={"server": access.server, "certificate-authority": str(ca)},
                user={"tokenFile": str(token)})
            with Process(program, kubeconfig=path) as operator:
                ready(operator)
                token.write_text("second\n")
                ca.write_text("garbage")

                def connected_anew(happened):
                    proxy.add(rules.Match(), rules.Before())
                    fake.end_watches()
                    return happened()

                def until_told(happened):
                    assert until(lambda: connected_anew(happened), 30, every=0.5) is not None, (
                        operator.log())

                until_told(lambda: "Bearer second" in {who for _, _, who in list(fake.requests)})
                token.write_text("")
                until_told(lambda: "holds no token" in operator.log())
                until_told(lambda: str(ca) in operator.log())
                proxy.clear()
                ready(operator)
                assert operator.log().count(str(ca)) == 1, operator.log()
                assert {who for _, _, who in fake.requests} == {"Bearer first", "Bearer second"}
                stop(operator)
                assert "Bearer" not in operator.log()
    finally:
        fake.close()
    return "token and CA replaced, and by garbage"


def check_poverty(program, files):
    """Few descriptors, or without standard ones."""
    fake = fake_api_server.FakeApiServer()
    try:
        with Process(program, kubeconfig=fake.kubeconfig,
                     before=["prlimit", "--nofile=64"]) as operator:
            ready(operator)
            idle = [socket.create_connection(("127.0.0.1", operator._port)) for _ in range(60)]
            time.sleep(0.5)
            assert operator.is_alive()
            for connection in idle:
                connection.close()
            ready(operator)
            stop(operator)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        shell = 'exec "$@" 0<&- 1>&- 2>&-'
        with Process(program, "--workers", "2", kubeconfig=fake.kubeconfig,
                     metrics=f"127.0.0.1:{port}",
                     before=["bash", "-c", shell, "bash"]) as operator:
            operator._port = port
            ready(operator)
            assert operator.log() == ""
            stop(operator)
    finally:
        fake.close()
    return "64 descriptors; standard descriptors closed"


# The longest first.
CHECKS = [check_rotation, check_missing_namespace, check_unreachable, check_comes_later,
          check_silent, check_blackhole, check_endpoint, check_strange_servers, check_poverty,
          check_help, check_bad_commands]


def main():
    program = sys.argv[1]
    chosen = [check for check in CHECKS if check.__name__ in sys.argv[2:]] or CHECKS
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        files = Files(directory)

        def run(check):
            try:
                return f"ok      {check(program, files)}", False
            except Exception:  # pylint: disable=broad-except  # the others go on
                return f"FAILED: {check.__name__}: {traceback.format_exc()}", True

        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            for text, failed in pool.map(run, chosen):
                failures += failed
                print(text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
