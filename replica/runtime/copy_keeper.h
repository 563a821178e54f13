// Keeps copies of other stages of the job in this process (checkpoint.buddies,
// replica/core/state_copy.h). One thread brings them forward one after the other, so that only one
// is fetched at a time; joiners get what is held meanwhile. A copy that fails is fetched again
// after a while.
//
// Memory: twice the outer state of each copy, three times while one comes to a new round; at most
// kCopiesMax of them. The coordinator chooses as many as --copies-max-gib allows.
//
// The compute thread calls keep() and drop(), and its queue gets CopiesKept when that changes.
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "replica/core/state_copy.h"
#include "replica/runtime/event_queue.h"
#include "replica/runtime/state_server.h"

namespace shoal::replica {

class CopyKeeper {
 public:
  // All outlive this. Joiners reach the copies by the state_server.
  CopyKeeper(outer_opt::PeerNode& node, EventQueue& queue, StateServer& state_server);
  ~CopyKeeper();
  CopyKeeper(const CopyKeeper&) = delete;

  // Replaces all earlier orders; `keeper` is the replica of this process. The queue gets CopiesKept
  // at once, with what is held.
  void keep(ReplicaId keeper, const JobSpec& spec, const KeepCopies& orders);
  void drop();  // all of them

 private:
  struct Copy;
  struct Copies;

  void run(std::stop_token stop);
  void bring_forward(Copy& copy);
  void begin(Copy& copy, const CopiedRound& round);
  CopyState settle(Copy& copy);
  void fail(Copy& copy);

  outer_opt::PeerNode& node_;
  EventQueue& queue_;
  StateServer& state_server_;
  const std::shared_ptr<Copies> copies_;  // joiners may still be answered when this ends
  std::jthread thread_;                   // from the first order on
};

}  // namespace shoal::replica
