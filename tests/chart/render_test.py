#!/usr/bin/env python3
"""render_test.py [--rewrite]    what the chart renders, without a cluster

--rewrite writes tests/golden/chart/ anew.
"""
import json
import pathlib
import re
import sys
import tempfile
import unittest

import helm
import values_reader
from helm import CHART, GOLDEN, ROOT

REWRITE = "--rewrite" in sys.argv
ALL = GOLDEN / "everything.values.yaml"
RENDERED = {
    "default": {},
    "two-namespaces": {"values": ["namespaces={team-a,team-b}", "crds.enabled=false",
                                  "rbac.aggregateRoles=false"]},
    "everything": {"release": "train", "files": [ALL], "values": ["crds.enabled=false"]},
    "own-account": {"values": ["rbac.create=false", "serviceAccount.create=false",
                               "serviceAccount.name=mine", "runAsUser=null", "crds.enabled=false"]},
}

# A wrong value -> what the message names, and why it is refused.
REFUSED = {
    "replica=2": ("at ''", "'replica' not allowed"),
    "replicas=0": ("/replicas", "minimum"),
    "replicas=two": ("/replicas", "want integer"),
    "replicas=1.5": ("/replicas", "want integer"),
    "replicas=11": ("/replicas", "maximum"),
    "namespaces=team-a": ("/namespaces", "want array"),
    "namespaces={Team}": ("/namespaces/0", "does not match"),
    "namespaces={a,b_c}": ("/namespaces/1", "does not match"),
    "namespaces={a,a}": ("/namespaces", "equal"),
    "namespaces={" + "a" * 64 + "}": ("/namespaces/0", "maxLength"),
    "image=coxswain/operator:1": ("/image", "want object"),
    "image.name=x": ("/image", "'name' not allowed"),
    "image.registry=https://a": ("/image/registry", "does not match"),
    "image.repository=": ("/image/repository", "does not match"),
    "image.repository=Coxswain": ("/image/repository", "does not match"),
    "image.tag=a/b": ("/image/tag", "does not match"),
    "image.tag=1": ("/image/tag", "want string"),
    "image.digest=latest": ("/image/digest", "does not match"),
    "image.pullPolicy=Sometimes": ("/image/pullPolicy", "must be one of"),
    "image.pullSecrets=key": ("/image/pullSecrets", "want array"),
    "image.pullSecrets={}": ("/image/pullSecrets/0", "does not match"),
    "trainerImage.registry=a": ("/trainerImage", "'registry' not allowed"),
    "crds.enabled=1": ("/crds/enabled", "want boolean"),
    "crds.keep=false": ("/crds", "'keep' not allowed"),
    "jobs.progress=no": ("/jobs/progress", "want boolean"),
    "jobs.podSecurity=open": ("/jobs/podSecurity", "must be one of"),
    "jobs.unrestrictedTemplates=true": ("/jobs", "'unrestrictedTemplates' not allowed"),
    "gangSchedulers.kueue=true": ("/gangSchedulers", "'kueue' not allowed"),
    "rbac.create=0": ("/rbac/create", "want boolean"),
    "serviceAccount.name=A": ("/serviceAccount/name", "does not match"),
    "serviceAccount.annotations.a=1": ("/serviceAccount/annotations/a", "want string"),
    "metrics.interval=30": ("/metrics/interval", "want string"),
    "metrics.interval=soon": ("/metrics/interval", "does not match"),
    "metrics.serviceMonitor=true": ("/metrics/serviceMonitor", "want object"),
    "metrics.labels.a=b c": ("/metrics/labels/a", "does not match"),
    "networkPolicy.apiServerPorts={0}": ("/networkPolicy/apiServerPorts/0", "minimum"),
    "networkPolicy.apiServerPorts={https}": ("/networkPolicy/apiServerPorts/0", "want integer"),
    "networkPolicy.metricsFrom[0].namespace=a": ("/networkPolicy/metricsFrom/0", "not allowed"),
    "resources.limits.memory=lots": ("/resources/limits/memory", "does not match"),
    "resources.limits.gpu=1": ("/resources/limits", "'gpu' not allowed"),
    "runAsUser=0": ("/runAsUser", "minimum"),
    "runAsUser=root": ("/runAsUser", "want null or integer"),
    "logFormat=xml": ("/logFormat", "must be one of"),
    "nodeSelector.disk=3": ("/nodeSelector/disk", "want string"),
    "tolerations.key=a": ("/tolerations", "want array"),
    "affinity.node=a": ("/affinity", "'node' not allowed"),
    r"commonLabels.app\.kubernetes\.io/name=a": (
        "/commonLabels/app.kubernetes.io~1name", "false schema"),
    "fullnameOverride=Big": ("/fullnameOverride", "does not match"),
    "fullnameOverride=" + "a" * 51: ("/fullnameOverride", "maxLength"),
}


def without_long_texts(rendered):
    """The CRD's spec and the dashboard are files of their own."""
    rendered = re.sub(r"(kind: CustomResourceDefinition\n.*?\nspec:\n).*?(?=\n---)",
                      r"\1  ...", rendered, flags=re.S)
    return re.sub(r"(  coxswain.json: \|\n).*?(?=\n---)", r"\1    ...", rendered, flags=re.S)


class Chart(unittest.TestCase):
    maxDiff = None

    def test_lint_has_nothing_to_warn_of(self):
        for files in [], [ALL]:
            said = helm.must(helm.helm("lint", "--strict", CHART, *helm.flags(files=files)))
            self.assertNotRegex(said, "WARNING|ERROR")
            self.assertIn("1 chart(s) linted, 0 chart(s) failed", said)

    def test_renders_as_recorded(self):
        for name, arguments in RENDERED.items():
            with self.subTest(name):
                rendered = without_long_texts(helm.must(helm.template(**arguments)))
                path = GOLDEN / f"{name}.yaml"
                if REWRITE:
                    path.write_text(rendered)
                self.assertEqual(path.read_text(), rendered, "--rewrite takes it as it is now")

    def test_wrong_values_are_refused_and_named(self):
        for value, (where, why) in REFUSED.items():
            with self.subTest(value):
                said = helm.refusal(helm.template(values=[value]))
                self.assertIn("values don't meet the specifications", said)
                self.assertIn(f"at '{where}" if where.startswith("/") else where, said)
                self.assertIn(why, said)

    def test_an_older_kubernetes_is_refused(self):
        said = helm.refusal(helm.helm("template", "a", CHART, "--kube-version", "1.28.0"))
        self.assertIn("chart requires kubeVersion: >=1.29.0-0", said)

    def test_a_digest_replaces_the_tag_and_the_registry_is_for_all_images(self):
        digest = "sha256:" + "0" * 64
        rendered = helm.must(helm.template(values=[
            "image.registry=localhost:5000/ml", "image.tag=v7", f"image.digest={digest}",
            "trainerImage.tag=v9", f"trainerCudaImage.digest={digest}"]))
        self.assertIn(f'image: "localhost:5000/ml/coxswain/operator@{digest}"\n', rendered)
        self.assertIn("- --trainer-image=localhost:5000/ml/coxswain/trainer-cpu:v9\n", rendered)
        self.assertIn(f"- --trainer-cuda-image=localhost:5000/ml/coxswain/trainer-cuda@{digest}\n",
                      rendered)

    def test_carries_the_one_crd(self):
        crd = (ROOT / "crds/trainingjobs.yaml").read_text()
        self.assertEqual(crd, (CHART / "files/trainingjobs.yaml").read_text(),
                         "crds/generate writes both")
        body = crd.split("metadata: {name: trainingjobs.coxswain.dev}\n")[1]
        self.assertIn(body, helm.must(helm.template()))

    def test_every_argument_is_a_flag_of_the_operator(self):
        rendered = helm.must(helm.template(files=[ALL], values=["jobs.progress=false"]))
        arguments = re.findall(r"- (--[\w-]+)", rendered)
        flags = set(re.findall(r"^\| `(--[\w-]+)", (
            ROOT / "docs/operator.md").read_text(), re.M))
        self.assertEqual(set(), set(arguments) - flags)
        self.assertEqual(7, len(arguments))

    def test_the_package_renders_as_the_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            helm.must(helm.helm("package", CHART, "--destination", folder))
            package, = pathlib.Path(folder).iterdir()
            packed = helm.must(helm.template(files=[ALL], chart=package))
        self.assertEqual(helm.must(helm.template(files=[ALL])), packed)


class Texts(unittest.TestCase):
    maxDiff = None

    def test_readme_and_schema_know_exactly_the_values(self):
        values = values_reader.of_values_file()
        self.assertEqual(values, values_reader.of_readme())
        self.assertEqual(sorted(values), sorted(values_reader.of_schema()))

    def test_version_is_that_of_the_project(self):
        cmake = (ROOT / "CMakeLists.txt").read_text()
        version = re.search(r"project\(coxswain VERSION ([\d.]+)", cmake)[1]
        chart = (CHART / "Chart.yaml").read_text()
        self.assertIn(f"\nversion: {version}\n", chart)
        self.assertIn(f'\nappVersion: "{version}"\n', chart)

    def test_alerts_and_dashboard_use_what_is_exported(self):
        exported = set(re.findall(r'"(coxswain_\w+)"', (
            ROOT / "operator/controller/metrics.cc").read_text()))
        for role in ("progress", "server"):
            text = (ROOT / f"trainer/report/{role}_endpoint.cc").read_text()
            exported |= {"coxswain_" + name for name in re.findall(r'(?:gauge|counter)\(text, "(\w+)"', text)}
        dashboard = json.loads((CHART / "files/dashboard.json").read_text())
        asked = " ".join(target["expr"] for panel in dashboard["panels"]
                         for target in panel.get("targets", []))
        alerts = (CHART / "templates/prometheusrule.yaml").read_text()
        used = {re.sub("_bucket$", "", name)
                for name in re.findall(r"\bcoxswain_\w+", asked + alerts)}
        self.assertEqual(set(), used - exported)
        self.assertEqual(set(), exported - used - {
            "coxswain_training_epoch", "coxswain_training_epochs", "coxswain_training_world_size",
            "coxswain_checkpoint_bytes", "coxswain_server_step"}, "nobody looks at these")


if __name__ == "__main__":
    helm.build()
    unittest.main(argv=[word for word in sys.argv if word != "--rewrite"])
