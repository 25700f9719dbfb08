#!/usr/bin/env python3
"""install_test.py COXSWAIN    what Helm and an API server make of the chart

There are no nodes, so no pod runs; objects, rights, the CRD and every refusal are the real ones.
Takes the CRD away, with all jobs, and leaves it as crds/ has it.
"""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import helm
from helm import CHART, CRD, ROOT, get, install, kubectl, must, names, refusal, upgrade

sys.path.insert(0, str(ROOT / "tests/e2e/operator"))
import rbac_test  # noqa: E402  (finds the next two)
import kube_access  # noqa: E402
from operator_process import Process, until  # noqa: E402

HOME, TEAMS, OTHER = "chart-home", ["chart-team-a", "chart-team-b"], "chart-other"
NAMESPACES = [HOME, *TEAMS, OTHER]
MONITORING = ROOT / "tests/chart/monitoring-crds.yaml"
CRD_FILE = ROOT / "crds/trainingjobs.yaml"
KEPT = "crds.enabled=false"  # saves time where the CRD is not what a test is about
RESTRICTED = ["pod-security.kubernetes.io/enforce=restricted",
              "pod-security.kubernetes.io/warn=restricted"]
JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: kept}
spec:
  replicaSpecs: {Worker: {replicas: 2}}
  training: {model: mlp, data: {format: mnist}}
"""


def crd_spec():
    return get("crd", CRD)["spec"]


def operator_in(namespace):
    return get("deployment", "coxswain", "-n", namespace)


def arguments_of(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def rights(account, namespace):
    """{(where, Pair)} of what is bound to a service account; "*" is everywhere."""
    found = set()
    for kind in "clusterrolebindings", "rolebindings":
        for binding in get(kind, "-A")["items"]:
            subjects = [(s["kind"], s["name"], s.get("namespace"))
                        for s in binding.get("subjects", [])]
            if ("ServiceAccount", account, namespace) not in subjects:
                continue
            where = binding["metadata"].get("namespace")
            role = binding["roleRef"]
            of = [role["kind"], role["name"], *(["-n", where] if role["kind"] == "Role" else [])]
            found |= {(where or "*", rbac_test.Pair(verb, group, resource))
                      for rule in get(*of)["rules"] for group in rule["apiGroups"]
                      for resource in rule["resources"] for verb in rule["verbs"]}
    return found


def may(user, namespace, *words):
    return kubectl("auth", "can-i", *words, "--as", user, "-n", namespace).stdout.strip()


def chart_of_the_past(folder):
    """The chart with another CRD: one column and one description less."""
    chart = pathlib.Path(folder) / "coxswain"
    shutil.copytree(CHART, chart)
    past_crd(chart / "files/trainingjobs.yaml")
    return chart


def past_crd(path):
    text = CRD_FILE.read_text()
    for part in (r"        - \{name: Accuracy, .*\n", r"          description: >-\n.*\n"):
        assert re.search(part, text)
        text = re.sub(part, "", text, count=1)
    path.write_text(text)
    return path


def put_crd(path=CRD_FILE):
    """As kubectl puts it, without an owner."""
    must(kubectl("replace", "-f", path))


def clean():
    """No release, and the CRD as release coxswain in HOME leaves it."""
    must(kubectl("label", "crd", CRD, "--overwrite", "app.kubernetes.io/managed-by=Helm"))
    must(kubectl("annotate", "crd", CRD, "--overwrite", "meta.helm.sh/release-name=coxswain",
                 f"meta.helm.sh/release-namespace={HOME}"))
    for release in json.loads(must(helm.helm("list", "-A", "-a", "-o", "json"))):
        if release["namespace"] in NAMESPACES:
            must(helm.helm("uninstall", release["name"], "-n", release["namespace"]))


class Install(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        for namespace in NAMESPACES:
            kubectl("create", "namespace", namespace)
        must(kubectl("label", "namespace", HOME, "--overwrite", *RESTRICTED))
        kubectl("create", "-f", CRD_FILE)
        put_crd()
        cls.spec = crd_spec()

    @classmethod
    def tearDownClass(cls):
        clean()
        put_crd()
        kubectl("apply", "-f", CRD_FILE)  # the next `kubectl apply` finds what it left
        kubectl("delete", "namespace", *NAMESPACES, "--wait=false")

    def setUp(self):
        clean()

    def soon(self, condition, otherwise):
        """`otherwise` is what to say, or makes it."""
        if until(condition, 20, every=0.2) is None:
            self.fail(otherwise if isinstance(otherwise, str) else otherwise())

    def make_job(self):
        self.soon(lambda: kubectl("apply", "-n", TEAMS[0], "-f", "-", text=JOB).returncode == 0,
                  "the job is not taken")
        return self.job()

    def job(self):
        return get("tj", "kept", "-n", TEAMS[0])["metadata"]["uid"]

    def assert_rights(self, expected):
        sections = rbac_test.read_rules()
        expected = {(where, pair) for where, section in expected for pair in sections[section]}
        self.assertEqual(expected, rights("coxswain", HOME))

    # --- what an installation is ---

    def test_a_first_install_is_silent_and_complete(self):
        must(kubectl("delete", "crd", CRD))
        must(install(namespace=HOME))
        self.assertEqual(self.spec, crd_spec())
        self.assertEqual("keep", get("crd", CRD)["metadata"]["annotations"][
            "helm.sh/resource-policy"])
        self.assertIn("--leader-elect", arguments_of(operator_in(HOME)))
        # Pod Security takes it: its ReplicaSet can make the pod.
        self.soon(lambda: names("pods", "-n", HOME), "no pod is made")
        self.assert_rights([("*", "base"), (HOME, "leases")])
        secret = get("secret", "sh.helm.release.v1.coxswain.v1", "-n", HOME)
        self.assertLess(len(secret["data"]["release"]), 300_000)  # of 1 MiB

    def test_the_first_job_of_the_notes_is_taken(self):
        for values, namespace in ([], "default"), ([f"namespaces={{{TEAMS[0]}}}"], TEAMS[0]):
            notes = must(install(namespace=HOME, values=[*values, KEPT]))
            job = re.search(r"<<END\n(.*?)\nEND\n", notes, re.S)[1]
            self.assertIn("first.yaml: ok, 2 workers", self.validate(job))
            must(kubectl("create", "-f", "-", "--dry-run=server", "-n", namespace, text=job))
            self.assertEqual([  # pasted as they stand: each comes to its end
                f"kubectl -n {namespace} wait tj/first "
                "--for=jsonpath='{.status.completionTime}' --timeout=10m",
                f"kubectl -n {namespace} get tj first",
                f"kubectl -n {namespace} logs first-worker-0",
            ], re.findall("^kubectl -n .*", notes, re.M))
            helm.helm("uninstall", "coxswain", "-n", HOME)

    def test_the_notes_warn_of_images_that_nobody_published(self):
        for value, warns in {"image.tag=v1": True, "image.registry=registry.example.org": False,
                             "image.repository=registry.example.org/operator": False}.items():
            notes = must(install(namespace=HOME, values=[value, KEPT]))
            self.assertEqual(warns, "image.registry is empty" in notes, value)
            helm.helm("uninstall", "coxswain", "-n", HOME)

    def validate(self, job):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "first.yaml"
            path.write_text(job)
            return must(helm.run(COXSWAIN, "validate", "-f", path))

    def test_everything_on_is_valid(self):
        self.addCleanup(kubectl, "delete", "-f", MONITORING)
        must(kubectl("apply", "-f", MONITORING))
        self.soon(lambda: kubectl("get", "servicemonitors,podmonitors,prometheusrules"
                                  ).returncode == 0, "no CRDs of prometheus-operator")
        rendered = must(helm.template("coxswain", HOME, ["crds.enabled=false"],
                                      [helm.GOLDEN / "everything.values.yaml"]))
        rendered = rendered.replace('namespace: "team-a"\n', f"namespace: {TEAMS[0]}\n")
        said = must(kubectl("create", "--dry-run=server", "--validate=strict",
                            "--warnings-as-errors", "-f", "-", text=rendered))
        self.assertEqual(rendered.count("\nkind: "), said.count("created (server dry run)"), said)

    def test_the_operator_works_with_its_account_and_arguments(self):
        must(install(namespace=HOME, values=[
            f"namespaces={{{TEAMS[0]}}}", "image.registry=localhost", "jobs.progress=true",
            "jobs.podSecurity=privileged", KEPT]))
        must(kubectl("delete", "tj", "--all", "-n", TEAMS[0]))
        token = must(kubectl("create", "token", "coxswain", "-n", HOME)).strip()
        with tempfile.NamedTemporaryFile() as file:
            access = kube_access.Access(os.environ["KUBECONFIG"])
            kube_access.write_kubeconfig(file.name, access.server, access.ca, {"token": token})
            with Process(COXSWAIN, *arguments_of(operator_in(HOME)), "--lease-namespace", HOME,
                         kubeconfig=file.name) as operator:
                self.soon(operator.is_ready, operator.log)
                self.make_job()
                self.soon(lambda: len(names("pods", "-n", TEAMS[0])) == 2, operator.log)
                self.assertEqual(1, operator.metric("coxswain_is_leader"))
                self.assertEqual(0, operator.metric("coxswain_api_requests_total", code="403"))
        image = get("pod", "kept-worker-1", "-n", TEAMS[0])["spec"]["containers"][0]["image"]
        self.assertRegex(image, r"^localhost/coxswain/trainer-cpu:\d+\.\d+\.\d+$")

    def test_users_of_view_edit_and_admin_have_their_rights(self):
        must(install(namespace=HOME, values=[KEPT]))
        for role in "view", "edit", "admin":
            must(kubectl("create", "rolebinding", role, "-n", OTHER, f"--clusterrole={role}",
                         f"--user={role}"))
        asked = [("watch", "tj"), ("create", "tj"), ("deletecollection", "tj"),
                 ("patch", "tj", "--subresource=scale"), ("patch", "tj", "--subresource=status")]
        self.soon(lambda: may("view", OTHER, *asked[0]) == may("admin", OTHER, *asked[1]) == "yes",
                  "nothing is aggregated")
        self.assertEqual({"view": "yes no no no no", "edit": "yes yes yes yes no",
                          "admin": "yes yes yes yes no"},
                         {role: " ".join(may(role, OTHER, *words) for words in asked)
                          for role in ("view", "edit", "admin")})

    # --- namespaces ---

    def test_with_namespaces_it_may_nothing_elsewhere(self):
        must(install(namespace=HOME, values=["namespaces={" + ",".join(TEAMS) + "}",
                                             "gangSchedulers.volcano=true", KEPT]))
        self.assert_rights([(team, section) for team in TEAMS for section in ("base", "volcano")]
                           + [(HOME, "leases")])
        self.assertIn("--namespaces=" + ",".join(TEAMS), arguments_of(operator_in(HOME)))
        account = f"system:serviceaccount:{HOME}:coxswain"
        self.soon(lambda: all(may(account, team, "list", "tj") == "yes" for team in TEAMS),
                  "it may nothing at all")
        self.assertEqual(["no", "no"], [may(account, space, "list", "tj")
                                        for space in (OTHER, HOME)])

    def test_a_second_team_installs_beside_the_first(self):
        must(install(namespace=HOME, values=[f"namespaces={{{TEAMS[0]}}}"]))
        beside = [f"namespaces={{{TEAMS[1]}}}"]
        said = refusal(install(namespace=OTHER, values=beside))
        advice = re.search("leave it to it: --set (.*)", said)[1]
        must(install(namespace=OTHER, values=[*beside, advice]))
        must(helm.helm("uninstall", "coxswain", "-n", OTHER))
        self.assertIn("coxswain-view", names("clusterroles"))

    def test_a_namespace_that_is_not_there_is_named(self):
        said = refusal(install(namespace=HOME, values=["namespaces={nowhere}", KEPT]))
        self.assertIn('namespaces "nowhere" not found', said)

    # --- what is refused ---

    def test_installing_twice_is_refused(self):
        must(install(namespace=HOME))
        self.assertIn("cannot re-use a name that is still in use",
                      refusal(install(namespace=HOME)))
        self.assertIn(f"Release coxswain runs an operator in namespace {HOME}",
                      refusal(install("second", HOME)))
        self.assertIn(f"Release coxswain in namespace {HOME} watches all namespaces already",
                      refusal(install("second", OTHER)))

    def test_monitoring_without_its_operator_names_the_kind(self):
        said = refusal(install(namespace=HOME, values=["metrics.serviceMonitor.enabled=true",
                                                       KEPT]))
        self.assertIn('no matches for kind "ServiceMonitor"', said)
        self.assertIsNone(operator_in(HOME))

    # --- the CRD over time ---

    def test_a_crd_that_is_there_is_taken_over_by_the_commands_told(self):
        with tempfile.TemporaryDirectory() as folder:
            put_crd(past_crd(pathlib.Path(folder) / "crd.yaml"))
        uid = self.make_job()
        said = refusal(install(namespace=HOME))
        self.assertIn("is there already, installed without Helm", said)
        self.assertIsNone(operator_in(HOME))
        commands = said[said.index("  kubectl label"):said.index("\nOr go on")]
        for command in re.sub(r"\\\n", " ", commands).strip().splitlines():
            must(kubectl(*command.split()[1:]))
        must(install(namespace=HOME))
        self.assertEqual(self.spec, crd_spec(), "the CRD is not brought up to date")
        self.assertEqual(uid, self.job())

    def test_a_crd_that_is_there_can_be_left_alone(self):
        put_crd()
        notes = must(install(namespace=HOME, values=["crds.enabled=false"]))
        self.assertIn("crds.enabled is false", notes)
        self.assertNotIn("labels", get("crd", CRD)["metadata"])

    def test_an_upgrade_and_a_rollback_keep_jobs(self):
        with tempfile.TemporaryDirectory() as folder:
            must(helm.helm("install", "coxswain", chart_of_the_past(folder), "-n", HOME))
        uid = self.make_job()
        self.assertNotEqual(self.spec, crd_spec())
        must(upgrade(namespace=HOME, values=["replicas=2", "jobs.progress=false"]))
        self.assertEqual(self.spec, crd_spec())
        deployment = operator_in(HOME)
        self.assertEqual(2, deployment["spec"]["replicas"])
        self.assertIn("--progress=false", arguments_of(deployment))
        self.assertEqual(["coxswain"], names("pdb", "-n", HOME))
        must(helm.helm("rollback", "coxswain", "-n", HOME))
        self.assertEqual(1, operator_in(HOME)["spec"]["replicas"])
        self.assertEqual([], names("pdb", "-n", HOME))
        self.assertNotEqual(self.spec, crd_spec())
        self.assertEqual(uid, self.job())

    def test_the_crd_and_jobs_outlive_the_release(self):
        must(install(namespace=HOME))
        uid = self.make_job()
        must(upgrade(namespace=HOME, values=["crds.enabled=false"]))
        self.assertEqual(uid, self.job(), "an upgrade without the CRD deletes it")
        must(upgrade(namespace=HOME, values=["crds.enabled=true"]))
        said = must(helm.helm("uninstall", "coxswain", "-n", HOME))
        self.assertIn(f"[CustomResourceDefinition] {CRD}", said)
        self.assertEqual(uid, self.job())
        self.assertEqual(set(), rights("coxswain", HOME))
        self.assertIsNone(operator_in(HOME))
        said = refusal(install("second", HOME))
        self.assertIn(f"is that of release coxswain in namespace {HOME}", said)
        must(install(namespace=HOME))
        self.assertEqual(uid, self.job())


if __name__ == "__main__":
    COXSWAIN = sys.argv.pop(1)
    helm.build()
    unittest.main()
