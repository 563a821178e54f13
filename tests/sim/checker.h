// What the checkers see, and what a checker is. The world shows them facts: records that became
// durable, messages the coordinator really sent, vectors that trainers really held. A checker never
// looks into a core. Each invariant has one file under checkers/ and a planted bug that it must
// catch (tests/negative).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/state/io.h"
#include "messages/messages.h"
#include "tests/sim/observations.h"
#include "tests/sim/options.h"
#include "tests/sim/store.h"

namespace shoal::sim {

struct BrokenInvariant {
  std::string checker;
  std::string what;
};

// Which holders have which state and could be asked for it, as the world knows.
class Census {
 public:
  virtual ~Census() = default;
  struct Holder {
    ReplicaId replica;
    StageIndex stage = 0;
    Instant out_since;  // of the coordinator's reach; zero: it can be asked
  };
  // Trainers that live, do not stand still, and hold the state of `key`.
  virtual std::vector<Holder> holders(const RoundKey& key) const = 0;
  // Holders of other stages than their own, in a copy: `copy` of `stage`, which `replica` keeps.
  struct Copy : Holder {
    ReplicaId copy;
  };
  virtual std::vector<Copy> copies(const RoundKey& key) const = 0;
};

// Whatever is told of all this.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void submitted(const JobSpec&) {}
  // The operator has the answer that the agent is out of service, or asks for it to be put back.
  virtual void commanded(AgentId, coordinator::AgentVerb) {}
  virtual void emitted(const Emitted&) {}
  virtual void durable(const Record&, const Tables& /*before it*/) {}
  virtual void written(const Tables&) {}  // a whole batch is durable
  virtual void sent(const Sent&, const Tables&) {}
  virtual void coordinator_started() {}
  virtual void coordinator_continued() {}  // it was stopped
  // The tables are those of a backup now. `forgotten`: nobody lives who knows what came after it,
  // so that names of that time may be given again.
  virtual void restored(const Tables&, bool /*forgotten*/) {}
  // At a start: its files are whole, and the tables do not know that it is stored.
  virtual void on_disk(const coordinator::CheckpointRecord&, const Tables&) {}
  virtual void compared(const Digest& /*live*/, const Digest& /*replayed*/) {}
  virtual void state_held(const StateHeld&) {}
  virtual void contributed(const Contributed&) {}
  virtual void reported(const Reported&) {}
  virtual void stepped(const InnerStep&) {}
  virtual void gradient_added(const GradientAdded&) {}
  virtual void evaluated(ReplicaId, const Evaluated&) {}
  virtual void data_read(ReplicaId, const Digest& /*zero: none*/) {}  // what it will train on
  virtual void files_stored(const FilesStored&) {}
  virtual void averaged(const Averaged&) {}
  virtual void excluded(const Excluded&) {}
  virtual void lied(const Lied&) {}
  virtual void gave_falsely(const GaveFalsely&) {}
  virtual void state_moved(const StateMoved&) {}
  virtual void outer_stepped(const OuterStepped&) {}
  virtual void momentum_kept(const MomentumKept&) {}
  // It does not hold what a plan or a checkpoint says that it does.
  virtual void plan_refused(ReplicaId, const RoundKey&, const std::string&) {}
  virtual void momentum_followed(const MomentumFollowed&) {}
  virtual void eagerly_begun(const EagerlyBegun&) {}
  virtual void taken_back(const TakenBack&) {}
  virtual void adopted(const Adopted&) {}
  virtual void stayed(const Stayed&) {}
  virtual void replica_started(const std::string& /*device*/, ReplicaId) {}
  virtual void replica_ended(const std::string& /*device*/, ReplicaId) {}
  virtual void device_died(const std::string& /*device*/) {}
  virtual void moment(const Tables&) {}  // after each event
  virtual void healed(const Tables&) {}  // the faults have stopped
  virtual void progress_due(const Tables&) {}
  virtual void completion_due(const Tables&) {}
};

class Checker : public Observer {
 public:
  struct Context {
    const SimOptions& options;
    const Instant& now;
    std::optional<BrokenInvariant>& broken;  // the first one stays
    const std::set<ReplicaId>& tainted;      // what they hold is not what they were given
    const Census* const& census;             // null: of a checker that stands alone
  };

  explicit Checker(const Context& context) : context_(context) {}
  virtual const char* name() const = 0;

 protected:
  void violated(std::string what) {
    if (!context_.broken) context_.broken = BrokenInvariant{name(), std::move(what)};
  }
  Instant now() const { return context_.now; }
  const SimOptions& options() const { return context_.options; }
  const Census* census() const { return context_.census; }
  bool is_tainted(ReplicaId replica) const { return context_.tainted.contains(replica); }

 private:
  Context context_;
};

using Checkers = std::vector<std::unique_ptr<Checker>>;
Checkers make_all_checkers(const Checker::Context& context);

std::string to_text(const RoundKey& key);  // "job_1/0/7": job, epoch, round

}  // namespace shoal::sim
