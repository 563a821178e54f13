// Strangers at the ports of a cluster: sockets that send arbitrary bytes,
// agents and replicas with whatever certificate the test gives them, and a tape that plays a
// conversation again. Every wait has a limit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "identity/authority.h"
#include "identity/request.h"
#include "tests/integration/cluster.h"
#include "wire/stream/stream_test_util.h"

namespace shoal::integration {

// ---- sockets

struct Heard {
  std::string bytes;
  bool closed = false;  // by the other end, within the limit
};
// Connects to host:port, says it and listens.
Heard say_raw(const std::string& address, const std::string& bytes, double limit_s = 10);

// A request over plain HTTP. `headers` with their line ends.
struct Answer {
  int status = 0;
  std::string body;
};
Answer ask(const std::string& address, const std::string& method, const std::string& path,
           const std::string& headers = {}, const std::string& body = {});

// Between a client and a port: hands all on, and keeps what the client said.
class Tape {
 public:
  explicit Tape(const std::string& address);
  ~Tape();
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string recorded();  // after the connection has ended

 private:
  void run(const std::string& to);

  int listener_ = -1, port_ = 0;
  std::string said_;
  std::thread thread_;
};

// ---- certificates

// The CA of a cluster that the test has started, and a foreign one of the same name.
class Forger {
 public:
  explicit Forger(const Cluster& cluster);

  const identity::Authority& own() const { return *own_; }
  const identity::Authority& foreign() const { return foreign_; }
  identity::Credentials agent(const identity::Authority& ca, AgentId id,
                              Duration life = identity::kAgentLife) const;
  // `ahead`: how far its beginning lies in the future.
  identity::Credentials replica(const identity::Authority& ca, const identity::ReplicaName& name,
                                Duration ahead = {}) const;
  // For a client that accepts any server.
  wire::stream::TlsContexts contexts(std::optional<identity::Credentials> shown) const;
  std::string roots() const;

 private:
  std::optional<identity::Authority> own_;
  identity::Authority foreign_;
};

// ---- the port for agents

// What a session that says a Hello with this uid ends with: the code of gRPC, and its message.
struct Ended {
  int code = 0;
  std::string message;
};
Ended open_session(const std::string& address, const Forger& forger,
                   const std::optional<identity::Credentials>& shown, const std::string& uid);
// The same with an upload, and with the stream that answers questions about logs.
Ended open_upload(const std::string& address, const Forger& forger,
                  const std::optional<identity::Credentials>& shown);
Ended open_logs(const std::string& address, const Forger& forger,
                const std::optional<identity::Credentials>& shown);

// ---- the ports of peers

// Dials with these contexts; a purpose opens a stream. Whether nothing but an end came back.
bool is_turned_away(const std::string& address, const wire::stream::TlsContexts& contexts,
                    const std::string& purpose = {});

}  // namespace shoal::integration
