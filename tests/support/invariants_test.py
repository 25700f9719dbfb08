#!/usr/bin/env python3
"""Each law is broken once in a history made by hand, and the breach is found where it happened."""
import base64
import copy
import json
import unittest

import fault_proxy
import history as h
import invariants

NAMESPACE, JOB = "plan-1", "digits"
JOB_UID = "11111111-1111-1111-1111-111111111111"
CONFIG, SECRET = f"{JOB}-00c0ffee", f"{JOB}-keys-11111111"
KEY = "-----BEGIN PRIVATE KEY-----\n" + "secretbytes" * 8 + "\n-----END PRIVATE KEY-----\n"
TIMES = [f"2026-01-01T00:00:{second:02}Z" for second in range(60)]


class Story:
    """A history in the making: one second and one version a revision."""

    def __init__(self):
        self.history, self.log = h.History(), []
        self.version, self.objects = 100, {}

    def put(self, kind, item, event=None):
        """Creates or changes the object; gives its version."""
        self.version += 1
        item = copy.deepcopy(item)
        item["metadata"].setdefault("namespace", NAMESPACE)
        item["metadata"].setdefault("uid", f"uid-of-{kind}-{item['metadata']['name']}")
        item["metadata"]["resourceVersion"] = str(self.version)
        key = (kind, item["metadata"]["name"])
        event = event or ("MODIFIED" if key in self.objects else "ADDED")
        self.objects[key] = item
        if event == "DELETED":
            del self.objects[key]
        self.history.add(h.Revision(self.version, event, kind, item, float(self.version)))
        return self.version

    def change(self, kind, name, edit):
        item = copy.deepcopy(self.objects[kind, name])
        edit(item)
        return self.put(kind, item)

    def delete(self, kind, name):
        return self.put(kind, self.objects[kind, name], "DELETED")

    # --- jobs ---

    def job(self, uid=JOB_UID, policy="RankZero", **run_policy):
        return self.put("TrainingJob", {
            "metadata": {"name": JOB, "uid": uid, "generation": 1},
            "spec": {"successPolicy": policy, "runPolicy": run_policy}})

    def status(self, **fields):
        """Merges the fields into the status; conditions as {type: "True" or "False"}."""
        def edit(job):
            status = job.setdefault("status", {})
            said = {c["type"]: c for c in status.get("conditions", [])}
            for kind, value in fields.pop("conditions", {}).items():
                if said.get(kind, {}).get("status") != value:
                    said[kind] = {"type": kind, "status": value,
                                  "lastTransitionTime": TIMES[self.version - 100]}
            status.update(fields, conditions=list(said.values()))
        return self.change("TrainingJob", JOB, edit)

    def delete_job(self):
        return self.delete("TrainingJob", JOB)

    # --- children ---

    def child(self, kind, name, **parts):
        owner = {"kind": "TrainingJob", "name": JOB, "uid": JOB_UID, "controller": True}
        metadata = {"name": name, "ownerReferences": [owner], **parts.pop("metadata", {})}
        return self.put(kind, {"metadata": metadata, **parts})

    def config(self, hosts=2, name=CONFIG):
        lines = [f"{JOB}-worker-{i}.{JOB}.{NAMESPACE}.svc slots=1\n" for i in range(hosts)]
        return self.child("ConfigMap", name, data={"hostfile": "".join(lines)})

    def pod(self, index, attempt=0, name=None, config=CONFIG, env=None):
        labels = {"training.kubeflow.org/replica-type": "worker",
                  "training.kubeflow.org/replica-index": str(index),
                  "coxswain.dev/attempt": str(attempt)}
        env = env or {"COXSWAIN_INDEX": str(index), "COXSWAIN_ATTEMPT": str(attempt)}
        name = name or f"{JOB}-worker-{index}"
        metadata = {"labels": labels, "uid": f"uid-{name}-{attempt}"}
        return self.child("Pod", name, metadata=metadata, status={"phase": "Pending"}, spec={
            "containers": [{"name": "trainer",
                            "env": [{"name": k, "value": v} for k, v in env.items()]}],
            "volumes": [{"name": "config", "configMap": {"name": config}}]})

    def phase(self, index, phase, code=None):
        def edit(pod):
            pod["status"] = {"phase": phase}
            if code is not None:
                pod["status"]["containerStatuses"] = [
                    {"name": "trainer", "state": {"terminated": {"exitCode": code}}}]
        return self.change("Pod", f"{JOB}-worker-{index}", edit)

    def delete_pod(self, index):
        return self.delete("Pod", f"{JOB}-worker-{index}")

    def request(self, method, path, body=None, status=200, reply=None, time=None):
        number = None if method == "GET" or "lease" in path else len(self.log) + 1
        self.log.append(fault_proxy.Entry(
            self.version if time is None else time, method, path, json.dumps(body).encode(), number,
            "", status, json.dumps(reply).encode()))

    def check(self, **options):
        return invariants.check(self.history, self.log, **options)


def started(workers=2, **job):
    """Until the gang runs."""
    story = Story()
    story.job(**job)
    story.status(attempt=0, workers=workers, observedGeneration=1, phase="Starting",
                 restarts={}, conditions={"Queued": "True"})
    story.child("Service", JOB)
    data = {"client_key": KEY, "known_hosts": "digits ssh-is-public"}
    story.child("Secret", SECRET,
                data={k: base64.b64encode(v.encode()).decode() for k, v in data.items()})
    story.config(workers)
    for i in range(workers):
        story.pod(i)
    for i in range(workers):
        story.phase(i, "Running")
    story.status(phase="Running", conditions={"Running": "True"})
    return story


def succeeded():
    story = started()
    story.phase(0, "Succeeded", 0)
    story.status(phase="Succeeded", conditions={"Succeeded": "True", "Running": "False"})
    return story


def restarted():
    """Worker 1 failed, and the new gang runs."""
    story = started()
    story.phase(1, "Failed", 1)
    story.status(attempt=1, phase="Restarting", restarts={"failure": 1},
                 conditions={"Running": "False"})
    story.delete_pod(0)
    story.delete_pod(1)
    story.pod(0, attempt=1)
    story.pod(1, attempt=1)
    story.phase(0, "Running")
    return story


class InvariantsTest(unittest.TestCase):
    def expect(self, story, invariant, *versions, **options):
        """Nothing is found but this."""
        found = story.check(**options)
        self.assertEqual({violation.invariant for violation in found}, {invariant}, found)
        self.assertEqual([violation.versions for violation in found],
                         [[version] for version in versions] or [[]] * len(found))

    def test_healthy_lives_break_nothing(self):
        ended = succeeded()
        ended.delete_pod(1)
        collected = succeeded()
        collected.delete_job()
        for kind, name in list(collected.objects):
            collected.delete(kind, name)
        for story in (Story(), started(), ended, restarted(), collected):
            self.assertEqual(story.check(), [])

    def test_i2_two_live_pods_of_one_rank(self):
        story = started()
        self.expect(story, "I2", story.pod(1, name="digits-worker-1-again"))

    def test_i2_not_of_one_that_has_ended(self):
        story = started()
        story.phase(1, "Failed", 1)
        story.status(attempt=1, restarts={"failure": 1})
        story.delete_pod(0)
        story.pod(1, attempt=1, name="digits-worker-1-again")
        self.assertEqual(story.check(), [])

    def test_i3_a_child_after_the_job_finished(self):
        story = succeeded()
        self.expect(story, "I3", story.child("Service", "late"))

    def test_i3_a_child_of_a_deleted_job(self):
        story = started()
        story.change("TrainingJob", JOB,
                     lambda job: job["metadata"].update(deletionTimestamp=TIMES[30]))
        story.child("Service", "in-flight")
        self.expect(story, "I3", story.child("Service", "late"))

    def test_i3_a_child_of_a_job_that_is_gone_or_never_was(self):
        story = started()
        story.delete_job()
        story.child("Service", "in-flight")
        version = story.child("Service", "late")
        self.expect(story, "I3", version, settled=False)
        story = Story()
        self.expect(story, "I3", story.child("Service", "stranger"))

    def test_i3_goes_by_the_time_when_the_request_left(self):
        story = started()
        story.delete_job()
        left = story.version
        story.put("Lease", {"metadata": {"name": "clock"}})
        story.child("Service", "late")
        reply = story.objects["Service", "late"]
        story.request("POST", f"/api/v1/namespaces/{NAMESPACE}/services", reply, 201, reply, left)
        self.assertEqual(story.check(settled=False), [])

    def test_i3_a_child_of_another_jobs_uid(self):
        story = started()
        story.delete_job()
        for kind, name in list(story.objects):
            story.delete(kind, name)
        story.job(uid="22222222-2222-2222-2222-222222222222")
        self.expect(story, "I3", story.child("Service", JOB), settled=False)

    def test_i4_finalizers(self):
        story = started()
        self.expect(story, "I4", story.child(
            "Service", "held", metadata={"finalizers": ["coxswain.dev/wait"]}))

    def test_i4_children_left_behind(self):
        story = Story()
        story.job()
        version = story.child("Service", JOB)
        story.delete_job()
        self.expect(story, "I4", version)

    def test_i5_touching_what_is_anothers(self):
        story = started()
        story.put("Pod", {"metadata": {"name": "foreign", "uid": "f"}})
        story.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/foreign",
                      {"preconditions": {"uid": "f"}}, 200, story.objects["Pod", "foreign"])
        self.expect(story, "I5")

    def test_i5_deleting_without_preconditions(self):
        story = started()
        pod = story.objects["Pod", "digits-worker-0"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/digits-worker-0"
        story.request("DELETE", path, {"preconditions": {"uid": pod["metadata"]["uid"]}}, 200, pod)
        self.assertEqual(story.check(), [])
        story.request("DELETE", path, {}, 200, pod)
        self.expect(story, "I5")
        story = started()
        job = story.objects["TrainingJob", JOB]
        story.request("DELETE", f"/apis/coxswain.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs/"
                      + JOB, {"preconditions": {"uid": JOB_UID}}, 200, job)
        self.expect(story, "I5")

    def test_i6_counters_that_fall_or_leap(self):
        for first, then in [
                ({"attempt": 1}, {"attempt": 0}),
                ({"observedGeneration": 2}, {"observedGeneration": 1}),
                ({"attempt": 1, "restarts": {"node": 1}}, {"restarts": {"node": 0}}),
                ({"attempt": 1}, {"attempt": 3})]:
            story = started()
            story.status(**first)
            self.expect(story, "I6", story.status(**then))

    def test_i6_one_failure_counted_twice(self):
        story = started()
        story.status(attempt=1, restarts={"failure": 1})
        self.expect(story, "I6", story.status(restarts={"failure": 1, "node": 1}))
        story = started()
        story.status(attempt=1)
        story.status(attempt=2)
        self.expect(story, "I6", story.status(restarts={"failure": 2}))

    def test_i6_a_failure_that_vanished_uncounted(self):
        story = started()
        story.phase(1, "Failed", 1)
        pod = story.objects["Pod", "digits-worker-1"]
        version = story.delete_pod(1)
        self.assertEqual(story.check(), [])  # nobody of the log did it
        story.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/digits-worker-1",
                      {"preconditions": {"uid": pod["metadata"]["uid"]}}, 200, pod)
        self.expect(story, "I6", version)

    def test_i7_an_end_taken_back(self):
        for end in ("Succeeded", "Failed"):
            story = succeeded() if end == "Succeeded" else started()
            story.status(phase=end, conditions={end: "True"})
            version = story.status(phase="Running", conditions={end: "False"})
            self.expect(story, "I7", version, version)

    def test_i7_both_ends(self):
        story = succeeded()
        self.expect(story, "I7", story.status(conditions={"Failed": "True"}))

    def test_i8_success_without_the_ranks_success(self):
        for policy, code in (("RankZero", 1), ("AllWorkers", 0)):
            story = started(policy=policy)
            story.phase(0, "Succeeded" if code == 0 else "Failed", code)
            self.expect(story, "I8",
                        story.status(phase="Succeeded", conditions={"Succeeded": "True"}))

    def test_i8_success_of_an_older_attempt(self):
        story = started()
        story.phase(0, "Succeeded", 0)
        story.status(attempt=1, restarts={"node": 1})
        self.expect(story, "I8",
                    story.status(phase="Succeeded", conditions={"Succeeded": "True"}))

    def test_i9_an_index_beyond_the_gang(self):
        story = started()
        self.expect(story, "I9", story.pod(2))

    def test_i9_an_environment_that_contradicts_the_labels(self):
        story = started(workers=1)
        story.status(workers=2)
        story.config(2)
        self.expect(story, "I9", story.pod(1, env={"COXSWAIN_INDEX": "0"}))

    def test_i9_a_hostfile_of_another_size_or_order(self):
        for data in ("", f"{JOB}-worker-1.x\n{JOB}-worker-0.x\n", f"{JOB}-worker-0.x\n"):
            story = started(workers=1)
            story.status(workers=2)
            story.change("ConfigMap", CONFIG, lambda item, d=data: item.update(data={"hostfile": d}))
            self.expect(story, "I9", story.pod(1))

    def test_i9_two_hostfiles_in_one_gang(self):
        story = started(workers=1)
        story.status(workers=2)
        story.config(2)
        story.config(2, name=f"{JOB}-deadbeef")
        self.expect(story, "I9", story.pod(1, config=f"{JOB}-deadbeef"))

    def test_i9_a_pod_before_its_hostfile(self):
        story = started()
        story.delete_pod(1)
        story.delete("ConfigMap", CONFIG)
        self.expect(story, "I9", story.pod(1))

    def test_i10_a_new_gang_beside_the_old(self):
        story = started()
        story.status(attempt=1, restarts={"node": 1})
        story.delete_pod(0)
        came = story.pod(0, attempt=1)
        self.expect(story, "I10", came, story.phase(0, "Running"))

    def test_i10_an_old_pod_beside_the_new_gang(self):
        story = restarted()
        story.delete_pod(1)
        self.expect(story, "I10", story.pod(1, attempt=0))

    def test_i11_more_failures_than_the_limit(self):
        story = started(backoffLimit=0)
        self.expect(story, "I11", story.status(attempt=1, restarts={"failure": 1}))

    def test_i11_an_attempt_that_was_not_recorded(self):
        story = started()
        story.delete_pod(0)
        story.delete_pod(1)
        found = {v.invariant for v in (story.pod(0, attempt=1), story.check())[1]}
        self.assertEqual(found, {"I9", "I11"})  # nor was its size

    def test_i12_requests_at_rest(self):
        story = started()
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        story.request("GET", pods + "?watch=true&resourceVersion=1", time=500)
        story.request("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/l", {}, time=500)
        story.request("GET", pods, time=499)
        self.assertEqual(story.check(quiet=(500, 510)), [])
        story.request("GET", pods, time=505)
        self.expect(story, "I12", quiet=(500, 510))
        story.log.pop()
        story.request("PATCH", "/apis/coxswain.dev/v1alpha1/namespaces/x/trainingjobs/y/status",
                      {}, time=505)
        self.expect(story, "I12", quiet=(500, 510))

    def test_i13_too_many_writes_for_a_clean_life(self):
        story = succeeded()
        status = f"/apis/coxswain.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs/{JOB}/status"
        for _ in range(8):
            story.request("PATCH", status, {})
        clean = {"clean_jobs": [(NAMESPACE, JOB)]}
        self.assertEqual(story.check(**clean), [])
        story.request("PATCH", status, {})
        self.expect(story, "I13", **clean)

    def test_i15_claims(self):
        story = started()
        self.expect(story, "I15", story.child("PersistentVolumeClaim", "data"))
        story = started()
        story.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/data",
                      {}, 200, {})
        self.expect(story, "I15")

    def test_i16_a_time_that_moves_without_a_transition(self):
        story = started()

        def later(job):
            job["status"]["conditions"][1]["lastTransitionTime"] = "2026-01-01T01:00:00Z"
        self.expect(story, "I16", story.change("TrainingJob", JOB, later))

    def test_i16_a_time_that_goes_back(self):
        story = started()

        def back(job):
            job["status"]["conditions"][1].update(
                status="False", lastTransitionTime="2020-01-01T00:00:00Z")
        self.expect(story, "I16", story.change("TrainingJob", JOB, back))

    def test_i18_secret_bytes_elsewhere(self):
        story = started()
        self.expect(story, "I18", story.put("Event", {"metadata": {"name": "e"}, "note": KEY}))
        data = base64.b64encode(KEY.encode()).decode()
        story = started()
        self.expect(story, "I18", texts={"log": "made the key " + data})
        self.expect(story, "I18", texts={"log": "token t0ken"}, canaries=["t0ken"])
        self.assertEqual(story.check(texts={"log": "digits ssh-is-public"}), [])


class HistoryTest(unittest.TestCase):
    def test_two_runs_of_one_life_have_the_same_end(self):
        story = succeeded()
        other = json.loads(json.dumps([vars(r) for r in succeeded().history.revisions()])
                           .replace("00c0ffee", "0badf00d").replace("11111111-", "99999999-")
                           .replace("keys-11111111", "keys-99999999").replace(NAMESPACE, "plan-2")
                           .replace("2026-01-01", "2026-02-02"))
        again = h.History([h.Revision(**fields) for fields in other])
        self.assertEqual(again.final_state("plan-2"), story.history.final_state(NAMESPACE))
        self.assertEqual(again.writes("plan-2"), story.history.writes(NAMESPACE))

    def test_two_different_ends_differ(self):
        story, other = succeeded(), succeeded()
        other.status(workers=3)
        self.assertNotEqual(other.history.final_state(NAMESPACE),
                            story.history.final_state(NAMESPACE))

    def test_the_end_holds_no_key_bytes_and_all_names(self):
        state = succeeded().history.final_state(NAMESPACE)
        self.assertEqual(state["Secret/digits-keys-<hash>"]["data"],
                         {"client_key": "<bytes>", "known_hosts": "<bytes>"})
        self.assertEqual(sorted(state), [
            "ConfigMap/digits-<hash>", "Pod/digits-worker-0", "Pod/digits-worker-1",
            "Secret/digits-keys-<hash>", "Service/digits", "TrainingJob/digits"])

    def test_counts_writes(self):
        story = started()
        story.delete_pod(1)
        writes = story.history.writes(NAMESPACE)
        self.assertEqual(writes["Pod/digits-worker-1"], {"create": 1, "update": 1, "delete": 1})
        self.assertEqual(writes["TrainingJob/digits"], {"create": 1, "update": 2, "delete": 0})

    def test_orders_by_version_whatever_came_first(self):
        story = succeeded()
        shuffled = h.History(reversed(story.history.revisions()))
        self.assertEqual(shuffled.final_state(NAMESPACE), story.history.final_state(NAMESPACE))


if __name__ == "__main__":
    unittest.main()
