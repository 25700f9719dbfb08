#!/usr/bin/env python3
"""rbac_test.py COXSWAIN SCRIPTED_KUBELET    the operator's rights are what it needs, and no more

One workload (a failure, a resize, an end, a TTL; a lost reply, a refused status) is run under the
rights of charts/coxswain/files/rules.yaml: for all namespaces, and for two named ones. It meets no
403 and uses every pair of verb and resource. Then it runs without each pair in turn, and the API
server must refuse exactly that one. Prints the table.
"""
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import typing

import operator_bed as bed
from operator_process import Process, submit, until

import fault_proxy
import fault_rules as rules
import kube_access

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "charts/coxswain/files/rules.yaml"
RUN = f"rbac-{int(time.time()) % 100000}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOBS = {"v": "Volcano", "c": "Coscheduling"}
LIFE = [{"attempt": 0, "index": 0, "exit_after_ms": 50, "exit": 1},
        {"attempt": 2, "index": 0, "exit_after_ms": 50, "exit": 0}]
PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
                  r"/(?P<plural>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<sub>[^/?]+))?(?:\?|$)")


class Pair(typing.NamedTuple):
    verb: str
    group: str
    resource: str

    def __str__(self):
        return f"{self.verb:7} {self.resource}{'.' + self.group if self.group else ''}"


def read_rules():
    """{section: [pair]}. The file is read as strictly as it is written: three lines a rule."""
    sections, groups, resources = {}, [], []
    for line in RULES.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        section = re.fullmatch(r"(\w+):", line)
        row = re.fullmatch(r"[- ] (\w+): \[(.*)\]", line)
        if section:
            current = sections.setdefault(section[1], [])
            continue
        values = [value.strip(' "') for value in row[2].split(",")]
        if row[1] == "apiGroups":
            groups = values
        elif row[1] == "resources":
            resources = values
        else:
            assert row[1] == "verbs", line
            current += [Pair(verb, group, resource) for group in groups
                        for resource in resources for verb in values]
    return sections


def check_text(pairs):
    """What must not be there, whatever the workload does."""
    problems = []
    for pair in pairs:
        text = " ".join(pair)
        if "*" in text:
            problems.append(f"{pair}: a wildcard")
        if pair.resource == "secrets" and pair.verb != "create":
            problems.append(f"{pair}: Secrets are never read")
        for word in ("exec", "nodes", "finalizers", "escalate", "bind", "impersonate",
                     "deletecollection", "token"):
            if word in text:
                problems.append(f"{pair}: {word}")
    if len(set(pairs)) != len(pairs):
        problems.append("a pair is given twice")
    return problems


def policy_rules(pairs):
    return [{"apiGroups": [pair.group], "resources": [pair.resource], "verbs": [pair.verb]}
            for pair in pairs]


def asked(entry):
    """(namespace, pair) of a request."""
    found = PATH.match(entry.path)
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
        entry.method, "watch" if entry.is_watch else "get" if found["name"] else "list")
    resource = found["plural"] + (f"/{found['sub']}" if found["sub"] else "")
    # Of a namespace itself, a Role in it decides.
    namespace = found["name"] if resource == "namespaces" else found["namespace"]
    return namespace, Pair(verb, found["group"] or "", resource)


@dataclasses.dataclass
class Case:
    """The workload in `namespaces`, by an operator with `pairs` there and `lease_pairs` at home."""
    namespaces: list
    home: str
    pairs: list
    lease_pairs: list
    removed: typing.Optional[Pair] = None
    everywhere: bool = False
    process: typing.Optional[Process] = None
    resized: set = dataclasses.field(default_factory=set)
    outcome: str = ""
    refused_in_metrics: float = 0
    log: str = ""
    seen: typing.Optional[float] = None  # when what the case is for had happened

    def requests(self, proxy):
        mine = {*self.namespaces, self.home}
        for entry in list(proxy.log):
            namespace, pair = asked(entry)
            if namespace in mine or (self.everywhere and namespace is None):
                yield entry, pair

    def refused(self, proxy):
        return {pair for entry, pair in self.requests(proxy) if entry.status == 403}

    def used(self, proxy):
        return {pair for entry, pair in self.requests(proxy)
                if entry.status and entry.status < 300}


class Bench:
    def __init__(self, coxswain, kubelet, kubeconfig, directory):
        self.coxswain, self.api = coxswain, bed.Api(kubeconfig)
        self.kubeconfig, self.directory = kubeconfig, pathlib.Path(directory)
        self.witness = bed.Witness(kubeconfig)
        self.kubelet = bed.Kubelet(kubelet, kubeconfig, self.directory / "kubelet")
        self.proxy = fault_proxy.FaultProxy(kubeconfig, token="each has its own")
        self.made = []

    def close(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda path: self.api.call("DELETE", path, accepted=(200, 202, 404)),
                          self.made))
        self.kubelet.close()
        self.proxy.close()
        self.witness.close()

    # --- who may do what ---

    def make(self, collection, kind, name, **body):
        self.api.call("POST", collection, {"kind": kind, "metadata": {"name": name}, **body})
        return f"{collection}/{name}"

    def grant(self, case):
        for namespace in {*case.namespaces, case.home}:
            bed.Hands(self.api, self.witness.world(namespace)).make_namespace()
            self.made.append(f"/api/v1/namespaces/{namespace}")
        self.make(f"/api/v1/namespaces/{case.home}/serviceaccounts", "ServiceAccount", "operator")
        subject = [{"kind": "ServiceAccount", "name": "operator", "namespace": case.home}]

        def give(where, prefix, name, pairs):
            role = self.make(f"{RBAC}{where}/{prefix.lower()}roles", f"{prefix}Role", name,
                             rules=policy_rules(pairs))
            binding = self.make(f"{RBAC}{where}/{prefix.lower()}rolebindings",
                                f"{prefix}RoleBinding", name, subjects=subject,
                                roleRef={"apiGroup": "rbac.authorization.k8s.io", "name": name,
                                         "kind": f"{prefix}Role"})
            self.made += [role, binding] if prefix else []

        give(f"/namespaces/{case.home}", "", "lease", case.lease_pairs)
        if case.everywhere:
            give("", "Cluster", case.home, case.pairs)
        else:
            for namespace in case.namespaces:
                give(f"/namespaces/{namespace}", "", "operator", case.pairs)

    def until_known(self, case):
        """The API server's own view of roles follows a moment later."""
        pair, namespace = case.lease_pairs[-1], case.home
        review = {"spec": {
            "user": f"system:serviceaccount:{case.home}:operator",
            "resourceAttributes": {"namespace": namespace, "verb": pair.verb,
                                   "group": pair.group, "resource": pair.resource}}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert until(lambda: self.api.call("POST", path, review)["status"]["allowed"],
                     30) is not None

    def start(self, case):
        token = self.api.call(
            "POST", f"/api/v1/namespaces/{case.home}/serviceaccounts/operator/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
             "spec": {"expirationSeconds": 3600}})["status"]["token"]
        kubeconfig = self.directory / f"{case.home}.kubeconfig"
        kube_access.write_kubeconfig(kubeconfig, self.proxy.url,
                                     kube_access.Access(self.proxy.kubeconfig).ca,
                                     {"token": token})
        flags = [] if case.everywhere else ["--namespaces", ",".join(case.namespaces)]
        case.process = Process(self.coxswain, "--leader-elect", "--lease-namespace", case.home,
                               *flags, kubeconfig=kubeconfig)

    # --- the workload ---

    def submit(self, case):
        first = case.namespaces[0]
        # Its retry meets its own effect: 409, and a look at what is there.
        self.proxy.add(rules.Match("POST", rf"/namespaces/{first}/pods$"), rules.After())
        # The job is read anew before it is planned again.
        self.proxy.add(rules.Match("PATCH", rf"/namespaces/{first}/trainingjobs/.*/status", nth=3),
                       rules.conflict())
        for namespace in case.namespaces:
            for name, gang in JOBS.items():
                submit(self.api, namespace, name, 1, LIFE,
                       elasticPolicy={"minReplicas": 1, "maxReplicas": 2},
                       runPolicy={"terminationGracePeriodSeconds": 1, "cleanPodPolicy": "All",
                                  "ttlSecondsAfterFinished": 8,
                                  "schedulingPolicy": {"gang": gang}})

    def tend(self, case):
        """Resizes what runs its second gang; whether all has come to its end."""
        ended = True
        for namespace in case.namespaces:
            world = self.witness.world(namespace)
            for name in JOBS:
                status = world.status(name)
                ended = ended and (namespace, name) in case.resized and not world.job(name)
                if (status.get("phase") == "Running" and status.get("attempt") == 1
                        and (namespace, name) not in case.resized):
                    case.resized.add((namespace, name))
                    bed.Hands(self.api, world).edit(
                        {"replicaSpecs": {"Worker": {"replicas": 2}}}, name)
        return ended

    def watch(self, case):
        """Ends it a second after what is to be seen was: what else would be refused, is by then."""
        ended = self.tend(case)
        renewed = any(pair.verb == "update" for pair in case.used(self.proxy))
        seen = (ended and renewed) if case.removed is None else (
            case.removed in case.refused(self.proxy))
        if seen and case.seen is None:
            case.seen = time.monotonic()
        if case.seen and time.monotonic() - case.seen > 1:
            self.conclude(case)
            case.process.close()
            case.process = None

    def conclude(self, case):
        case.log = case.process.log()
        case.refused_in_metrics = case.process.metric("coxswain_api_requests_total", code="403")
        if not case.process.is_alive():
            case.outcome = f"operator left with {case.process.end()}"
        elif self.tend(case):
            case.outcome = "goes on"
        else:
            world = self.witness.world(case.namespaces[0])
            gang = "c" if case.removed and "x-k8s" in case.removed.group else "v"
            status = world.status(gang)
            rejected = [c["reason"] for c in status.get("conditions", [])
                        if c["type"] == "ResourcesRejected" and c["status"] == "True"]
            case.outcome = ("job is " + (status.get("phase") or "without a status")
                            + "".join(f", ResourcesRejected/{reason}" for reason in rejected))

    def run(self, cases, seconds):
        for case in cases:
            self.grant(case)
        for case in cases:
            self.until_known(case)
        for case in cases:
            self.start(case)
        try:
            for case in cases:
                self.submit(case)
            deadline = time.monotonic() + seconds
            while any(case.process for case in cases) and time.monotonic() < deadline:
                for case in cases:
                    if case.process:
                        self.watch(case)
                time.sleep(0.1)
            for case in cases:
                if case.process:
                    self.conclude(case)
        finally:
            for case in cases:
                if case.process:
                    case.process.close()


def check_whole(case, proxy, granted, failures):
    what = "for all namespaces" if case.everywhere else f"for {len(case.namespaces)} namespaces"
    refused, used = case.refused(proxy), case.used(proxy)
    if case.outcome != "goes on":
        failures.append(f"{what}: the workload does not reach its end: {case.outcome}\n"
                        f"{case.log}")
    failures += [f"{what}: refused: {pair}" for pair in sorted(refused)]
    failures += [f"{what}: not touched: {pair}" for pair in granted if pair not in used]
    failures += [f"{what}: used beyond the rules: {pair}" for pair in sorted(used - set(granted))]
    # For all namespaces it meets those that are on their way out as well, and is refused there.
    if case.refused_in_metrics and not case.everywhere:
        failures.append(f"{what}: the metric counts {case.refused_in_metrics:.0f} refusals")
    print(f"{what}: {len(used)} of {len(granted)} pairs used, {len(refused)} refused")


def check_removed(case, proxy, failures):
    refused = case.refused(proxy)
    others = refused - {case.removed}
    if case.removed not in refused:
        failures.append(f"without {case.removed}: nothing is refused: superfluous, or not touched")
    failures += [f"without {case.removed}: refused as well: {pair}" for pair in sorted(others)]
    if case.refused_in_metrics == 0 and not case.outcome.startswith("operator left"):
        failures.append(f"without {case.removed}: the operator's metric counts no 403")
    count = sum(entry.status == 403 for entry, _ in case.requests(proxy))
    print(f"  {str(case.removed):42} {count:4} refusals, {case.outcome}")


def report(failures):
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


def main():
    coxswain, kubelet = sys.argv[1:3]
    kubeconfig = os.environ["KUBECONFIG"]
    sections = read_rules()
    leases = sections.pop("leases")
    base = [pair for pairs in sections.values() for pair in pairs]
    granted = [*base, *leases]
    failures = check_text(granted)
    crds = ROOT / "tests/cluster/crds"  # of the gang schedulers
    kube_access.apply_crds(crds)
    everywhere = Case([f"{RUN}-all"], f"{RUN}-all-home", base, leases, everywhere=True)
    named = Case([f"{RUN}-a", f"{RUN}-b"], f"{RUN}-home", base, leases)
    without = [Case([f"{RUN}-{n}"], f"{RUN}-{n}", [p for p in base if p != pair],
                    [p for p in leases if p != pair], removed=pair)
               for n, pair in enumerate(granted)]
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(coxswain, kubelet, kubeconfig, directory)
        try:
            bench.run([everywhere], 60)  # alone: it takes every job for its own
            check_whole(everywhere, bench.proxy, granted, failures)
            if failures:
                return report(failures)
            bench.run([named, *without], 90)
            check_whole(named, bench.proxy, granted, failures)
            print("taken away:")
            for case in without:
                check_removed(case, bench.proxy, failures)
        finally:
            bench.close()
            # Other tests begin without them.
            subprocess.run(["kubectl", "delete", "-f", crds], check=True, capture_output=True, timeout=60)
    return report(failures)


if __name__ == "__main__":
    sys.exit(main())
