// Copies of other stages that a simulated replica keeps (checkpoint.buddies): the product's
// StateCopy (replica/core/state_copy.h) over the simulated network. They end with their replica.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "messages/messages.h"
#include "outer_opt/core/joining/join_session.h"
#include "replica/core/state_copy.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

class Trainer;

// The one that asks a source: a joining replica, or a copy.
struct Asker {
  ReplicaId id;
  std::function<void(Trainer& here, const outer_opt::StateAnswer&)> got;
};

inline constexpr std::int64_t kRunsOfState =
    4;  // more than one is on its way when something breaks
inline constexpr std::int64_t kCallsPerLoad = 2 * kRunsOfState;
outer_opt::JoinOptions join_options(const SimOptions& options, std::int64_t values);

struct CopyHeld {
  ReplicaId copy;
  StageIndex stage = 0;
  RoundKey key;
};

class Copies : public std::enable_shared_from_this<Copies> {
 public:
  explicit Copies(Trainer& trainer) : trainer_(trainer) {}
  Copies(const Copies&) = delete;

  void keep(const KeepCopies& orders);
  void source_lost(const std::string& address);
  std::optional<outer_opt::StateAnswer> answer(const outer_opt::StateAsk& ask);  // none: not here
  std::vector<CopyHeld> held() const;

 private:
  struct Copying {
    StageCopy order;
    std::unique_ptr<replica::StateCopy> state;                   // null: nobody had it yet
    std::map<outer_opt::JoinSession::AskId, std::string> asked;  // at which address
  };
  using One = std::shared_ptr<Copying>;

  bool is_kept(const One& copying) const;
  void follow(const One& copying);
  void go_on(const One& copying);
  void fail(const One& copying);
  void ask(const One& copying, const outer_opt::JoinSession::Ask& ask);
  void ask_failed(const One& copying, outer_opt::JoinSession::AskId id);
  void got(const One& copying, outer_opt::JoinSession::AskId id,
           const outer_opt::StateAnswer& answer);
  void say_what_is_held();
  void after(Duration wait, std::function<void()> work);

  Trainer& trainer_;
  std::map<ReplicaId, One> copies_;
};

}  // namespace shoal::sim
