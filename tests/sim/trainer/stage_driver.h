// The real StageSession of a simulated replica, driven over the simulated network between trainers:
// streams that are dialed, break and are dialed again, a device that takes its time for every
// pass, and deadlines. It carries no tensors: a forward says which sequence its microbatch begins
// with, and every stage trains on that.
//
// A stream has a number that the one who dials gives it; frames of another one are dropped, since
// the two ends do not hear at the same moment that it broke.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "swarm/core/session/stage_session.h"
#include "tests/sim/peers.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

struct StageFrame {
  struct Dialed {  // asks for a stream with `to`
    ReplicaId to;
    std::int64_t epoch = 0;
  };
  struct Accepted {};
  struct Closed {};
  struct Forward {
    swarm::ForwardHeader header;
    std::int64_t first = 0;  // sequence
  };
  struct Cancel {
    swarm::ForwardHeader header;
  };
  struct Refusal {
    swarm::ForwardHeader header;
    swarm::RefusalReason reason;
  };

  ReplicaId from;
  std::string address;  // of its process
  std::uint64_t stream = 0;
  std::variant<Dialed, Accepted, Closed, Forward, swarm::BackwardHeader, Cancel, Refusal,
               swarm::ProgressGossip>
      body;
};

// The replica that the driver computes for. Called from the driver's process; may call it back.
class StageOwner {
 public:
  virtual ~StageOwner() = default;
  virtual Duration pass_time(swarm::ComputeKind kind) = 0;
  // Router: the first sequence of a microbatch that it draws now.
  virtual std::int64_t draw(const swarm::Microbatch& microbatch) = 0;
  virtual void pass_begins(const swarm::Compute& pass) = 0;
  // `again`: the session counts it as one that another replica may have added, too.
  virtual void add_gradient(const swarm::Microbatch& microbatch, std::int64_t first,
                            bool again) = 0;
  virtual void came_back(const swarm::Microbatch& microbatch, std::int64_t first) = 0;
  virtual void took_step(const swarm::TakeStep& step) = 0;
  virtual void reached(const swarm::ReachBoundary& boundary) = 0;
  virtual void gave_up(const std::string& detail) = 0;
  virtual void told(const PipelineStats& stats) = 0;
};

class StageDriver : public std::enable_shared_from_this<StageDriver> {
 public:
  using Send = std::function<void(PeerEnd&, const StageFrame&)>;  // hands a frame to a peer

  StageDriver(Sim& sim, PeerNetwork& peers, PeerEnd& self, Process& process, StageOwner& owner,
              Send send, const swarm::SessionOptions& options, const RoundKey& held,
              std::int64_t step);
  // Tells the owner every second how it computes, from now on; between two passes, as the thread of
  // the product does.
  void tell();
  void close();  // the replica ends: tells the other ends

  // ---- the coordinator's, by way of the participant
  void view(const PipelineView& view);
  void open(const OpenRound& round);
  void stop(bool at_once);
  void committed(RoundNumber round, std::int64_t step);

  // ---- the network's
  void take_frame(const StageFrame& frame);
  void peer_lost(const std::string& address);

 private:
  struct Stream {
    std::string address;
    std::uint64_t number = 0;
    bool up = false;  // else it was dialed and is not accepted yet
  };
  using Call = std::function<void(swarm::StageSession&, swarm::SessionActions&)>;

  bool router() const { return options_.stage == 0; }
  void call(const Call& what);
  void act_all();
  void act(const swarm::SessionAction& action);
  void set_timer();
  void compute();
  void computed(const swarm::Compute& pass, std::int64_t first, bool again, Duration service);
  void after(Duration delay, const std::function<void(StageDriver&)>& what);
  void tell_if_due();
  PipelineStats stats();

  void dial(const swarm::Dial& dial);
  void dial_one(ReplicaId peer);
  void dialed(const StageFrame& frame, const StageFrame::Dialed& ask);
  void end_stream(ReplicaId peer);
  void send(const std::string& address, std::uint64_t stream, const decltype(StageFrame::body)& b);
  void send_to(ReplicaId peer, const decltype(StageFrame::body)& body);
  void take(const StageFrame& frame);

  Sim& sim_;
  PeerNetwork& peers_;
  PeerEnd& self_;
  Process& process_;
  StageOwner& owner_;
  const Send send_;
  const swarm::SessionOptions options_;
  const std::int64_t epoch_;
  swarm::StageSession session_;
  std::deque<swarm::SessionAction> todo_;
  bool acting_ = false, computing_ = false, closed_ = false;
  bool due_to_tell_ = false;
  Instant told_at_;
  Duration busy_;                           // since then
  std::map<ReplicaId, LinkStats> traffic_;  // with the next stage
  Instant timer_;
  std::map<swarm::TaskId, std::int64_t> first_of_;   // sequence of a task
  std::map<swarm::Microbatch, std::int64_t> drawn_;  // router: and of what it drew
  std::map<ReplicaId, std::string> wanted_;          // to be dialed, with their addresses
  std::map<ReplicaId, Stream> streams_;
  std::uint64_t numbers_ = 0;
};

}  // namespace shoal::sim
