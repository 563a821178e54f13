#!/usr/bin/env python3
"""A collector that believes nothing: it reads what the coordinator sends with the official protos, refusing every
field that they do not have, and compares it with what the coordinator says elsewhere. Run by otlp_check.sh."""
import base64
import contextlib
import http.server
import json
import re
import sys
import tempfile
import threading

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import rig

CHILDREN = {"train", "reduce", "vote", "checkpoint"}


def with_ids_as_protobuf_has_them(node):
    """OTLP writes ids in hex where protobuf's JSON has base64: the one exception of its specification."""
    if isinstance(node, list):
        return [with_ids_as_protobuf_has_them(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {key: base64.b64encode(bytes.fromhex(value)).decode() if key in ("traceId", "spanId", "parentSpanId")
            else with_ids_as_protobuf_has_them(value) for key, value in node.items()}


class Collector:
    def __init__(self):
        self.spans, self.metrics, self.problems, self.resource = [], {}, [], {}
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    collector.take(self.path, self.headers["Content-Type"], json.loads(body))
                    status = 200
                except Exception as problem:  # pylint: disable=broad-except
                    collector.problems.append(f"{self.path}: {problem!r}")
                    status = 400
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, kind, body):
        assert kind == "application/json", kind
        whole = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}[path]()
        json_format.ParseDict(with_ids_as_protobuf_has_them(body), whole)
        for one in whole.resource_spans if path == "/v1/traces" else whole.resource_metrics:
            self.resource = {item.key: item.value.string_value for item in one.resource.attributes}
            for scope in one.scope_spans if path == "/v1/traces" else one.scope_metrics:
                if path == "/v1/traces":
                    self.spans += scope.spans
                else:
                    self.metrics = {metric.name: metric for metric in scope.metrics}


def attributes(span):
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


def check_spans(spans):
    rounds = {span.span_id: span for span in spans if span.name == "round"}
    assert len(rounds) == len([span for span in spans if span.name == "round"]), "a span id is there twice"
    assert len({span.trace_id for span in rounds.values()}) == len(rounds), "a trace is one round"
    names = {span.name for span in spans}
    assert names == CHILDREN | {"round"}, names
    for span in spans:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span
        assert attributes(span)["shoal.job"] == "job_1"
        if span.name == "round":
            assert not span.parent_span_id
            continue
        parent = rounds[span.parent_span_id]
        assert parent.trace_id == span.trace_id
        assert span.start_time_unix_nano >= parent.start_time_unix_nano
        if span.name != "checkpoint":  # it is stored while the next round runs
            assert span.end_time_unix_nano <= parent.end_time_unix_nano, span
    return len(rounds)


def check_metrics(metrics, page):
    """All families of /metrics are there, each of its kind."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    assert set(metrics) == set(kinds), set(metrics) ^ set(kinds)
    for name, kind in kinds.items():
        found = metrics[name].WhichOneof("data")
        assert found == {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[kind], (name, found)
    return len(kinds)


def main():
    rig.end_by_signal()
    collector = Collector()
    job = rig.job_text("otlp", model={"layers": 1, "hidden": 32, "heads": 2, "ffn": 64, "context": 16},
                       train={"steps": 60, "batch": 2, "warmup": 5}, sync={"every": 10}, checkpoint={"every_rounds": 2},
                       swarm={"min_replicas": 2})
    with tempfile.TemporaryDirectory(prefix="shoal-otlp-") as folder:
        cluster = rig.Cluster(folder, 2, job, coordinator_flags=["--otlp", collector.url])
        try:
            cluster.begin()
            cluster.until(lambda: cluster.status()["phase"] == "completed", "the job does not end")
            cluster.until(lambda: collector.metrics and len([s for s in collector.spans if s.name == "round"]) >= 6,
                          "the collector does not hear of six rounds")
            cluster.until(lambda: any(s.name == "checkpoint" for s in collector.spans), "no checkpoint is told")
            request = rig.urllib.request.Request(f"http://{cluster.http}/metrics", headers=cluster.login())
            with rig.WITHOUT_PROXY.open(request, timeout=5) as answer:
                page = answer.read().decode()
            rounds, families = check_spans(collector.spans), check_metrics(collector.metrics, page)
            assert collector.resource["service.name"] == "shoal-coordinator", collector.resource
            assert not collector.problems, collector.problems
            print(f"otlp: {len(collector.spans)} spans of {rounds} rounds and {families} metrics, as the protos have them")
        except BaseException:
            with contextlib.suppress(OSError):
                print((cluster.folder / "coordinator.log").read_text()[-3000:], file=sys.stderr)
            print(collector.problems[:3], file=sys.stderr)
            raise
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
