// The rules of the agent daemon behind one door: step(now, input, effects). It keeps one link to
// the coordinator and one trainer process per device, hands each replica to its trainer, and passes
// messages between the two. There is no clock, socket, process or file here; drivers bring time and
// input and perform the effects in order (io.h).
//
//  * Link. Opened at boot and again after a loss, with back-off and jitter. Hello names the
//    replicas that run and what they hold; a replica that Welcome does not keep is released.
//    Refused, a wrong token or an incompatible protocol end the process: exit code 4 for the token,
//    1 otherwise.
//  * No message is lost with a link. The newest message of each kind per replica is kept
//    (Progress is not), and sent again after the next Welcome; receivers treat a repetition as a
//    no-op. Bounded by kinds x Options::replicas_max, and by failures_kept for replicas that are
//    gone.
//  * Trainers. One per device, started at boot and after each exit, with back-off; one that does
//    not attach in time, that lost its stream, whose load stands still or that does not end a
//    released replica hangs, and is killed. Its replicas fail with kTrainerExited. A device that
//    holds several replicas gets a further trainer for each one beyond the first, which is stopped
//    when that replica has ended: a fault ends one of them only.
//  * Trainers outlive the daemon. Those that an earlier start left are waited for within a bound
//    before the first Hello, with what they work on; one that does not come is killed. One whose
//    stream broke may come again, too; then the session is opened again, so that the coordinator
//    repeats what the trainer may have missed.
//  * Relays. What the coordinator tells of them is told to every trainer, at once and when it
//    attaches.
//  * Programs. A job with trainer.kind = "python" is worked on by a process of its own: it takes
//    the place of the device's trainer, serves one replica, and is told to stop when that has
//    ended; then the trainer comes back. One that ends before fails its replica. Code that came
//    with a job is fetched first, and only if its owner is one of Options::programs.
//  * Memory. A replica that does not fit beside those that its device holds is refused
//    (kOutOfMemory) before anything is loaded.
//  * Replicas. Assign of a known or released one is a no-op; one whose trainer is not ready, or
//    whose checkpoint is not here yet, waits within a bound. A message for an unknown replica is
//    from the past.
//  * Checkpoints. Written by the trainer into a folder the core names, hashed, announced,
//    uploaded and deleted when the coordinator forgets them.
//  * Transfers. An upload or fetch that breaks continues where it was, as often as it breaks, until
//    nothing has moved for transfer_limit (base/transfer_patience.h). While the link is down an
//    upload waits.
//  * Stop. Trainers are asked to stop at the end of their inner step, then Goodbye; after
//    drain_limit or at the second request they are killed. Exit code 0. A hand-over leaves them
//    instead, and says nothing to the coordinator.
//
// Not thread-safe; one thread drives it. No input is an error: bad or late ones are dropped and
// counted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/io.h"
#include "agent/core/states.h"
#include "base/digest.h"
#include "base/field_error.h"
#include "base/flat_map.h"
#include "base/time.h"
#include "job/program_rules.h"

namespace shoal::agent {

struct Options {
  std::string uid;  // 32 hex characters
  std::string name, version, host;
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<Device> devices;  // devices[i].index == i
  // Numbers among them that no device has now: others keep theirs while their trainers live.
  std::vector<std::int32_t> vacant = {};
  bool only_relays = false;  // no device, and no trainer
  std::string data_dir;      // checkpoint folders are named below it
  AllowedPrograms programs;  // of jobs with trainer.kind = "python"
  std::uint64_t seed = 1;    // of the jitter

  // Together: within 10 s after the line has healed there is a session again, however long it was
  // cut. A new attempt is a new connection, which does not wait for what TCP would repeat.
  Duration reconnect_first = milliseconds(500), reconnect_cap = seconds(3);
  Duration link_limit = seconds(4);     // OpenLink until LinkUp
  Duration welcome_limit = seconds(5);  // LinkUp until Welcome
  Duration restart_first = milliseconds(500), restart_cap = seconds(30);
  Duration restart_reset = seconds(60);  // after this long a trainer's back-off starts over
  Duration attach_limit = seconds(60);   // StartTrainer until TrainerAttached
  Duration gather_limit = seconds(5);    // Booted until trainers that were left have attached
  Duration detach_limit = seconds(1);    // its stream ended until it counts as unresponsive
  // From then on, while what it holds may be the only copy: until the coordinator lets its replica
  // go, and at most this.
  Duration unresponsive_limit = seconds(60);
  Duration assign_limit = seconds(90);    // Assign until its trainer is ready
  Duration transfer_limit = seconds(60);  // a fetch or an upload in which nothing moves
  // A load in which nothing moves, plus the time that it takes to read the state.
  Duration load_limit = seconds(120);
  Duration release_limit = seconds(60);  // Release until the trainer is ready for the next one
  Duration drain_limit = seconds(10);
  Duration settled_after =
      seconds(30);  // a message said this long before its link broke has arrived
  Duration upload_first = seconds(1), upload_cap = seconds(30);
  std::int32_t replicas_max = 64;  // at once; an Assign above it is answered with ReplicaFailed
  std::int32_t trainers_per_device_max = 8;
  std::int32_t checkpoints_max = 16;  // written ones not yet forgotten
  std::int32_t failures_kept = 64;
  std::int32_t released_kept = 256;
};

// Empty when the options can work together; pointers like "/devices".
std::vector<FieldError> validate(const Options& options);

// For tests, logs and the simulator's checkers.
struct ReplicaView {
  ReplicaId replica;
  std::int32_t device = 0, slot = 0;
  ReplicaState state = ReplicaState::kWaiting;
};
struct AgentView {
  DaemonState daemon = DaemonState::kRunning;
  LinkState link = LinkState::kDown;
  AgentId agent;                       // 0 before the first Welcome
  Incarnation incarnation;             // 0 before the first Welcome
  std::vector<TrainerState> trainers;  // by slot
  std::vector<ReplicaView> replicas;   // by id
  std::int64_t messages_dropped = 0;   // late, unknown or over a bound
  std::int64_t messages_kept = 0;      // to be said again after the next Welcome
};

// How often each row of the tables in states.h was used: "link opening lost" -> 3.
using TransitionCounts = FlatMap<std::string, std::int64_t>;

class Agent {
 public:
  explicit Agent(Options options);  // CHECKs validate(); the host reports problems before
  ~Agent();

  // Applies one input at one instant. `now` never goes back. Nothing comes out after ExitProcess.
  void step(Instant now, const Input& input, Effects& out);

  // When a Tick is due; none while nothing waits.
  std::optional<Instant> next_deadline() const;

  // A digest of all state; equal for equal inputs.
  Digest digest() const;

  AgentView view() const;
  const TransitionCounts& transitions() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::agent
