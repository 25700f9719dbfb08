#!/usr/bin/env python3
"""The recorder before a small server: it misses nothing, and says so where it did."""
import threading
import time
import unittest

import fake_api_server
from recorder import Recorder

PODS = "/api/v1/pods"


def pod(name, namespace="a"):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}"}}


class RecorderTest(unittest.TestCase):
    def setUp(self):
        self.server = fake_api_server.FakeApiServer()
        self.addCleanup(self.server.close)

    def record(self, **options):
        recorder = Recorder(self.server.kubeconfig, resources={PODS: "Pod"}, **options)
        self.addCleanup(recorder.close)
        return recorder

    @staticmethod
    def told(recorder):
        return [(r.version, r.event, r.name) for r in recorder.history.revisions()]

    def test_keeps_every_revision(self):
        self.server.emit("ADDED", PODS, pod("old"))
        recorder = self.record()
        self.server.emit("ADDED", PODS, pod("new"))
        self.server.emit("MODIFIED", PODS, pod("new"))
        self.server.emit("DELETED", PODS, pod("old"))
        recorder.settle()
        self.assertTrue(recorder.wait_for(lambda objects: ("Pod", "a", "old") not in objects))
        self.assertEqual(self.told(recorder), [
            (101, "LISTED", "old"), (102, "ADDED", "new"), (103, "MODIFIED", "new"),
            (104, "DELETED", "old")])
        self.assertEqual(recorder.writes("a")["Pod/new"], {"create": 1, "update": 1, "delete": 0})

    def test_leaves_out_other_namespaces(self):
        recorder = self.record(namespaces=["a", "b"])
        self.server.emit("ADDED", PODS, pod("x", "c"))
        self.server.emit("ADDED", PODS, pod("y", "b"))
        self.assertTrue(recorder.wait_for(lambda objects: ("Pod", "b", "y") in objects, 5))
        self.assertEqual([name for _, _, name in self.told(recorder)], ["y"])

    def test_forgets_what_is_over(self):
        recorder = self.record()
        self.server.emit("ADDED", PODS, pod("x", "a"))
        self.server.emit("ADDED", PODS, pod("y", "b"))
        recorder.settle()
        recorder.forget("a")
        self.assertEqual([name for _, _, name in self.told(recorder)], ["y"])

    def test_a_kind_that_the_server_has_not_is_left_out(self):
        self.server.missing = [PODS]
        recorder = self.record()
        recorder.settle()
        self.assertEqual(self.told(recorder), [])

    def test_waits_for_a_state_and_gives_up_in_time(self):
        recorder = self.record()
        threading.Timer(0.1, self.server.emit, ("ADDED", PODS, pod("x"))).start()
        self.assertTrue(recorder.wait_for(lambda objects: ("Pod", "a", "x") in objects, 5))
        begin = time.monotonic()
        self.assertFalse(recorder.wait_for(lambda objects: not objects, 0.1))
        self.assertLess(time.monotonic() - begin, 3)

    def test_goes_on_after_a_watch_ends(self):
        recorder = self.record()
        self.server.end_watches()
        for i in range(3):
            self.server.emit("ADDED", PODS, pod(f"p{i}"))
            self.server.end_watches()
        recorder.settle()
        self.assertEqual([name for _, _, name in self.told(recorder)], ["p0", "p1", "p2"])

    def test_a_hole_in_the_record_fails_every_check(self):
        recorder = self.record()
        self.server.expire_watches_before = 1000
        self.server.end_watches()
        with self.assertRaisesRegex(RuntimeError, "hole"):
            recorder.wait_for(lambda _: False, 5)
        with self.assertRaisesRegex(RuntimeError, "hole"):
            recorder.check()

    def test_a_watch_that_lags_is_not_taken_for_settled(self):
        recorder = self.record()
        self.server.hold_events = True
        self.server.emit("ADDED", PODS, pod("x"))
        with self.assertRaises(TimeoutError):
            recorder.settle(timeout=0.2)

    def test_closes_at_once(self):
        recorder = self.record()
        begin = time.monotonic()
        recorder.close()
        self.assertLess(time.monotonic() - begin, 3)


if __name__ == "__main__":
    unittest.main()
