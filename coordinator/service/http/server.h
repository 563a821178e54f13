// The HTTP side of the coordinator on one port: REST under /api/v1, the event stream (SSE or
// NDJSON), checkpoint downloads, probes, Prometheus text and the dashboard. Boost.Beast with
// plain callbacks on a few I/O threads that never wait for a disk; questions to the store run on a
// few workers, each with its own Reader. It changes nothing itself: commands go through Cluster,
// and api/openapi.json is the contract of every route.
//
// The port answers TLS, and plain HTTP beside it (the first byte of a connection tells them apart,
// either_stream.h); plain HTTP only to this host, unless `clear_allowed` is set. Every route says
// in routes.cc who may use it: with a token, or with the cookie of a browser that has logged in.
// Only the page, probes, and hosts that join need neither. A Host header that is neither an IP
// address nor a known name is refused (DNS rebinding), and so is a change from a page of another
// origin.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "coordinator/service/cluster.h"
#include "coordinator/service/files/file_store.h"
#include "coordinator/service/http/client_limits.h"
#include "coordinator/service/machines/machines.h"
#include "coordinator/service/people/people.h"
#include "coordinator/service/people/refusals.h"
#include "coordinator/service/shelves/checkpoint_bucket.h"
#include "data/data_roots.h"

namespace shoal::coordinator {

struct HttpOptions {
  std::string bind = "127.0.0.1:7070";  // port 0 picks a free one; [::1]:7070 for IPv6
  bool clear_allowed = false;           // other hosts may send their tokens over plain HTTP
  std::string public_origin;            // of a proxy in front, in lower case; empty: none
  std::vector<std::string> host_names;  // further names in a Host header; this host's own name
                                        // is added unless only loopback is bound
  std::string agents_address;           // where agents connect and what they show there: said by
  std::string token_file;               // GET /api/v1/join, never the token itself
  data::DataRoots data_roots;           // what a dry run may look at on this host
  int threads = 2;                      // for sockets
  int workers = 2;                      // for questions to the store
  Bytes body_max = mebibytes(1);
  Bytes header_max = Bytes(16 << 10);
  std::int64_t connections_max = 1000;  // streams included; one more is answered 503
  std::int64_t streams_max = 200;
  Bytes checkpoints_max = Bytes();        // the budget of all checkpoints, for people; 0: none
  std::int64_t questions_max = 256;       // waiting for a worker; one more is answered 503
  rest::ClientLimitOptions clients = {};  // shares; its connections_max is the one above

  Duration read_limit = seconds(30);    // first byte until the request is complete
  Duration idle_limit = seconds(75);    // keep-alive between two requests
  Duration write_limit = seconds(30);   // one response, one chunk of a file, one batch of a stream
  Duration answer_limit = seconds(60);  // request read until the answer is known
  Duration heartbeat_every = seconds(15);  // comment line on a silent stream
  Duration drain_limit = seconds(5);       // stop() waits this long for answers in flight

  // The registry of machines: its routes and the TLS of this port. Outlives the server; null: none.
  Machines* machines = nullptr;

  // The registry of people. Must outlive the server; null: only routes without a login answer.
  People* people = nullptr;

  // What people have uploaded. Must outlive the server; null: nothing.
  FileStore* files = nullptr;

  // Where checkpoints lie that are not in the data folder. Must outlive the server; null: nowhere.
  const CheckpointBucket* bucket = nullptr;

  // Whether the agents' port accepts agents (port_probe.h), for /readyz and the metrics. Any
  // thread; must not wait.
  std::function<Status()> agents_port = [] { return Status(); };

  // Counts the refusals of this port and others. Must outlive the server; null: one of its own.
  Refusals* refusals = nullptr;
};

// Empty when the options can work together.
std::vector<FieldError> validate(const HttpOptions& options);

class HttpServer {
 public:
  // Binds, listens and serves. Errors name the remedy: kConflict "… is in use", kValidation for
  // options and a bind address that is none. `cluster` must outlive the server.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, Cluster& cluster);
  ~HttpServer();  // stops

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // What /metrics shows. The reader is the caller's; any thread.
  Result<std::vector<prometheus::MetricFamily>> collect_metrics(Reader& reader);

  std::string address() const;  // "127.0.0.1:41234": what was really bound

  // Takes no further connection, lets answers in flight finish within drain_limit, closes streams
  // and idle connections, joins the threads. A second call does nothing. Not from a Cluster
  // callback.
  void stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::coordinator
