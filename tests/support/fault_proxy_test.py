#!/usr/bin/env python3
"""The fault proxy before a small server: each fault does what it says, once, and where it says."""
import errno
import http.client
import json
import os
import socket
import threading
import time
import unittest

import fake_api_server
import fault_rules
import kube_access
from fault_proxy import FaultProxy
from fault_rules import (After, Answer, Before, Cut, Delay, Drop, Duplicate, Expire, Hang, Hold,
                         Match, Repeat, Replied, Stale)

PODS = "/api/v1/namespaces/a/pods"
LOST = (http.client.HTTPException, OSError)


def named(name):
    return {"kind": "Pod", "metadata": {"name": name}}


class WatchReader:
    """A watch whose events can be waited for."""

    def __init__(self, access, path):
        self.connection = access.connect(timeout=5)
        self.connection.request("GET", f"{path}?watch=true&resourceVersion=0",
                                headers=access.headers())
        self.response = self.connection.getresponse()

    def next(self):
        line = self.response.readline()
        return json.loads(line) if line else None

    def name(self):
        return self.next()["object"]["metadata"]["name"]

    def close(self):
        self.connection.close()


class FaultProxyTest(unittest.TestCase):
    def setUp(self):
        self.server = fake_api_server.FakeApiServer()
        self.proxy = FaultProxy(self.server.kubeconfig)
        self.access = kube_access.Access(self.proxy.kubeconfig)

    def tearDown(self):
        self.proxy.close()
        self.server.close()

    def create(self, name, collection=PODS):
        return self.access.call("POST", collection, named(name), timeout=5)

    def arrived(self, method):
        return [path for verb, path, _ in self.server.requests if verb == method]

    def watch(self, count=3):
        for i in range(count):
            self.server.emit("ADDED", PODS, named(f"p{i}"))
        watch = WatchReader(self.access, PODS)
        self.addCleanup(watch.close)
        return watch

    # --- without faults ---

    def test_forwards_requests_with_the_clients_token_and_logs_them(self):
        status, body = self.create("x")
        self.assertEqual((status, body["metadata"]["name"]), (201, "x"))
        self.assertEqual(self.server.requests,
                         [("POST", PODS, f"Bearer {fake_api_server.TOKEN}")])
        entry, = self.proxy.log
        self.assertEqual((entry.method, entry.path, entry.status, entry.number),
                         ("POST", PODS, 201, 1))
        self.assertEqual(entry.json["metadata"]["name"], "x")
        self.assertEqual(entry.reply_json["metadata"]["resourceVersion"], "101")

    def test_a_token_given_takes_the_place_of_the_kubeconfigs(self):
        with FaultProxy(self.server.kubeconfig, token="another") as proxy:
            kube_access.Access(proxy.kubeconfig).call("GET", PODS)
        self.assertEqual(self.server.requests, [("GET", PODS, "Bearer another")])

    def test_numbers_changing_requests_but_leases_and_events(self):
        self.create("lease", "/apis/coordination.k8s.io/v1/namespaces/a/leases")
        self.create("event", "/apis/events.k8s.io/v1/namespaces/a/events")
        self.create("one")
        self.access.call("GET", PODS)
        self.create("two")
        self.assertEqual([entry.number for entry in self.proxy.log], [None, None, 1, None, 2])

    def test_keeps_connections_open_on_both_sides(self):
        connection = self.access.connect()
        for _ in range(20):
            connection.request("GET", PODS, headers=self.access.headers())
            connection.getresponse().read()
        ports = {connection.sock.getsockname()[1]}
        self.assertEqual((len(ports), len(self.proxy.log)), (1, 20))
        connection.close()

    def test_passes_a_watch_as_it_comes(self):
        watch = self.watch(1)
        self.assertEqual(watch.name(), "p0")
        self.server.emit("MODIFIED", PODS, named("late"))
        self.assertEqual(watch.next()["type"], "MODIFIED")

    def test_drops_the_watch_behind_when_the_client_goes(self):
        watch = self.watch(1)
        watch.name()
        self.assertEqual(len(self.proxy.live_watches()), 1)
        watch.response.close()
        watch.close()
        deadline = time.monotonic() + 5
        while self.proxy.live_watches() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.proxy.live_watches(), [])

    # --- faults of requests ---

    def test_before_keeps_the_request_from_the_server(self):
        called = threading.Event()
        rule = self.proxy.add(Match(mutating=True, nth=2), Before(called.set))
        self.assertEqual(self.create("one")[0], 201)
        with self.assertRaises(LOST):
            self.create("two")
        self.assertTrue(called.is_set() and rule.happened.is_set())
        self.assertEqual(self.create("three")[0], 201)
        self.assertEqual(len(self.arrived("POST")), 2)
        self.assertEqual([entry.status for entry in self.proxy.log], [201, None, 201])

    def test_after_applies_the_request_and_swallows_the_reply(self):
        seen = []
        self.proxy.add(Match(method="POST"), After(lambda: seen.append(dict(self.server.objects))))
        with self.assertRaises(LOST):
            self.create("one")
        self.assertIn(f"{PODS}/one", seen[0])
        self.assertEqual((self.proxy.log[0].status, self.proxy.log[0].fault), (201, "After"))

    def test_replied_calls_back_once_the_reply_is_out(self):
        called = threading.Event()
        self.proxy.add(Match(method="POST"), Replied(called.set))
        self.assertEqual(self.create("one")[0], 201)
        self.assertTrue(called.wait(5))

    def test_delay_waits_before_it_forwards(self):
        self.proxy.add(Match(), Delay(0.2))
        begin = time.monotonic()
        self.assertEqual(self.create("one")[0], 201)
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)

    def test_duplicate_sends_twice(self):
        self.proxy.add(Match(method="POST", times=2), Duplicate())
        self.assertEqual(self.create("one")[0], 201)
        self.proxy.reset()
        self.proxy.add(Match(method="POST"), Duplicate(give_second=True))
        self.assertEqual(self.create("two")[0], 409)
        self.assertEqual(len(self.arrived("POST")), 4)

    def test_answers_in_the_servers_place(self):
        for answer, status in [(fault_rules.conflict(), 409), (fault_rules.already_exists(), 409),
                               (fault_rules.gone(), 410), (fault_rules.server_error(503), 503),
                               (fault_rules.html(), 502), (fault_rules.empty(), 200)]:
            self.proxy.add(Match(method="POST"), answer)
            got, body = self.create("one")
            self.assertEqual(got, status)
            if isinstance(body, dict):
                self.assertEqual((body["kind"], body["code"]), ("Status", status))
            self.proxy.clear()
        self.assertEqual(self.arrived("POST"), [])

    def test_asks_to_come_again_later(self):
        self.proxy.add(Match(), fault_rules.too_many_requests(retry_after=3))
        connection = self.access.connect()
        connection.request("GET", PODS)
        response = connection.getresponse()
        self.assertEqual((response.status, response.headers["Retry-After"]), (429, "3"))
        connection.close()

    def test_an_answer_may_follow_an_effect(self):
        self.proxy.add(Match(method="POST"),
                       Answer(500, b"{}", {"Content-Type": "application/json"}, forward=True))
        self.assertEqual(self.create("one")[0], 500)
        self.assertIn(f"{PODS}/one", self.server.objects)

    def test_breaks_off_in_the_middle_of_an_answer(self):
        self.proxy.add(Match(method="GET"), fault_rules.truncated())
        with self.assertRaises(http.client.IncompleteRead):
            self.access.call("GET", PODS)

    def test_hangs_until_it_is_cleared(self):
        rule = self.proxy.add(Match(method="POST"), Hang(forward=True))
        failed = []

        def ask():
            try:
                self.create("one")
            except LOST as error:
                failed.append(error)
        thread = threading.Thread(target=ask)
        thread.start()
        self.assertTrue(rule.happened.wait(5))
        thread.join(0.2)
        self.assertTrue(thread.is_alive())
        self.proxy.clear()
        thread.join(5)
        self.assertEqual(len(failed), 1)
        self.assertIn(f"{PODS}/one", self.server.objects)

    def test_answers_a_read_with_the_past(self):
        def count():
            return len(self.access.call("GET", PODS)[1]["items"])
        self.assertEqual(count(), 0)
        self.create("one")
        self.assertEqual(count(), 1)
        self.proxy.add(Match(method="GET"), Stale())
        self.assertEqual(count(), 0)
        self.assertEqual(count(), 1)

    def test_answers_a_read_from_another_server(self):
        other = fake_api_server.FakeApiServer()
        self.addCleanup(other.close)
        other.emit("ADDED", PODS, named("elsewhere"))
        self.proxy.add(Match(method="GET"), Stale(kube_access.Access(other.kubeconfig)))
        items = self.access.call("GET", PODS)[1]["items"]
        self.assertEqual([item["metadata"]["name"] for item in items], ["elsewhere"])

    def test_rules_pick_by_path_number_and_content(self):
        rule = self.proxy.add(
            Match(path="/pods$", nth=2, times=None,
                  when=lambda entry: entry.json["metadata"]["name"].startswith("b")),
            fault_rules.conflict())
        codes = [self.create(name)[0] for name in ("a1", "b1", "b2", "a2", "b3")]
        self.assertEqual(codes, [201, 201, 409, 201, 409])
        self.assertEqual((rule.seen, rule.fired), (3, 2))

    # --- faults of watches ---

    def test_loses_one_event(self):
        self.proxy.add(Match(path="/pods", nth=2), Drop())
        watch = self.watch()
        self.assertEqual([watch.name(), watch.name()], ["p0", "p2"])

    def test_repeats_one_event(self):
        self.proxy.add(Match(path="/pods", nth=2), Repeat())
        watch = self.watch()
        self.assertEqual([watch.name() for _ in range(4)], ["p0", "p1", "p1", "p2"])

    def test_picks_events_by_type(self):
        self.proxy.add(Match(event="DELETED"), Drop())
        watch = self.watch(1)
        self.server.emit("DELETED", PODS, named("p0"))
        self.server.emit("ADDED", PODS, named("after"))
        self.assertEqual([watch.name(), watch.name()], ["p0", "after"])

    def test_ends_a_watch_cleanly(self):
        self.proxy.add(Match(nth=2), Cut("clean"))
        watch = self.watch()
        self.assertEqual((watch.name(), watch.next()), ("p0", None))

    def test_breaks_a_watch_in_the_middle_of_an_event(self):
        self.proxy.add(Match(nth=2), Cut("middle"))
        watch = self.watch()
        self.assertEqual(watch.name(), "p0")
        with self.assertRaises((*LOST, ValueError)):
            watch.next()

    def test_resets_a_watch(self):
        self.proxy.add(Match(nth=2), Cut("reset"))
        watch = self.watch()
        # Python's TLS takes a reset for an end: ask the socket.
        with socket.socket(fileno=os.dup(watch.connection.sock.fileno())) as raw:
            deadline, error = time.monotonic() + 5, 0
            while not error and time.monotonic() < deadline:
                error = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                time.sleep(0.01)
        self.assertEqual(error, errno.ECONNRESET)

    def test_cuts_live_watches_at_once(self):
        watch = self.watch(1)
        watch.name()
        self.assertEqual(self.proxy.cut_watches("/pods"), 1)
        self.assertIsNone(watch.next())

    def test_expires_a_watch(self):
        self.proxy.add(Match(nth=2), Expire())
        watch = self.watch()
        watch.name()
        event = watch.next()
        self.assertEqual((event["type"], event["object"]["code"]), ("ERROR", 410))
        self.assertIsNone(watch.next())

    def test_holds_events_back_until_cleared(self):
        rule = self.proxy.add(Match(nth=2), Hold(60))
        watch = self.watch()
        self.assertEqual(watch.name(), "p0")
        self.assertTrue(rule.happened.wait(5))
        threading.Timer(0.1, self.proxy.clear).start()
        self.assertEqual([watch.name(), watch.name()], ["p1", "p2"])

    def test_a_new_run_counts_anew(self):
        self.create("one")
        self.proxy.reset()
        self.create("two")
        self.assertEqual([entry.number for entry in self.proxy.log], [1])


if __name__ == "__main__":
    unittest.main()
