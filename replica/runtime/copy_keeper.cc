// See copy_keeper.h.
#include "replica/runtime/copy_keeper.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "base/backoff.h"
#include "outer_opt/transport/state_join.h"
#include "threads/clock.h"
#include "threads/mutex.h"

namespace shoal::replica {
namespace {

constexpr auto kLookAgain = std::chrono::seconds(1);
constexpr Duration kAgainFirst = seconds(2), kAgainCap = seconds(60);  // a copy that failed
constexpr std::size_t kAsksMax = 8;  // beside the rounds, which come first on this line

outer_opt::JoinOptions options() {
  outer_opt::JoinOptions options;
  options.asks_max = kAsksMax;
  return options;
}

// Pipelines have no fragments: rounds average the whole vector.
CopiedStage stage_of(const JobSpec& spec, const StageCopy& order) {
  return {order.copy, spec, order.value_count, {{{0, order.value_count}}}};
}

CopiedRound round_of(const StageCopy& order) {
  return {order.key, {order.anchor, order.momentum}, order.sources};
}

}  // namespace

struct CopyKeeper::Copy {
  explicit Copy(CopiedStage of) : stage(std::move(of)) {}

  const CopiedStage stage;
  outer_opt::JoinNews news;
  std::stop_source stop;  // nobody wants it any more
  Backoff backoff{kAgainFirst, kAgainCap};
  Prng prng{stage.copy.n};
  Instant again_at;
  std::optional<StateCopy> state;  // the thread's
  Mutex answering;
  StateCopy* asked SHOAL_GUARDED_BY(answering) = nullptr;  // the same, for joiners
};

struct CopyKeeper::Copies {
  struct Entry {
    StageCopy order;
    std::optional<RoundKey> held;
    std::shared_ptr<Copy> copy;
  };

  Mutex mutex;
  CondVar changed;
  ReplicaId keeper SHOAL_GUARDED_BY(mutex);
  std::map<ReplicaId, Entry> entries SHOAL_GUARDED_BY(mutex);
  bool ordered SHOAL_GUARDED_BY(mutex) = false, stopping SHOAL_GUARDED_BY(mutex) = false;

  std::shared_ptr<Copy> find(ReplicaId copy) {
    const MutexLock lock(mutex);
    const auto found = entries.find(copy);
    return found == entries.end() ? nullptr : found->second.copy;
  }

  std::optional<outer_opt::StateAnswer> answer(const outer_opt::StateAsk& ask) {
    const std::shared_ptr<Copy> copy = find(ask.replica);
    if (!copy) return std::nullopt;
    const MutexLock lock(copy->answering);
    if (copy->asked != nullptr) return copy->asked->answer(ask, steady_now());
    outer_opt::StateAnswer none;
    none.refusal = outer_opt::StateRefusal::kNotHere;
    return none;
  }

  // What the coordinator counts on is the round that it named.
  CopiesHeld held_now() SHOAL_REQUIRES(mutex) {
    CopiesHeld all;
    for (const auto& [id, entry] : entries) {
      if (entry.held != entry.order.key) continue;
      all.copies.push_back({id, entry.order.key, entry.order.anchor, entry.order.momentum});
    }
    return all;
  }

  std::vector<std::shared_ptr<Copy>> all() {
    const MutexLock lock(mutex);
    std::vector<std::shared_ptr<Copy>> list;
    for (const auto& [id, entry] : entries) list.push_back(entry.copy);
    return list;
  }

  std::optional<StageCopy> order_of(const Copy& copy) {
    const MutexLock lock(mutex);
    const auto found = entries.find(copy.stage.copy);
    if (found == entries.end() || found->second.copy.get() != &copy) return std::nullopt;
    return found->second.order;
  }
};

CopyKeeper::CopyKeeper(outer_opt::PeerNode& node, EventQueue& queue, StateServer& state_server)
    : node_(node), queue_(queue), state_server_(state_server), copies_(std::make_shared<Copies>()) {
  state_server_.offer_copies(
      [copies = copies_](const outer_opt::StateAsk& ask) { return copies->answer(ask); });
}

CopyKeeper::~CopyKeeper() {
  state_server_.offer_copies({});
  drop();
  thread_.request_stop();
  const MutexLock lock(copies_->mutex);
  copies_->stopping = true;
  copies_->changed.notify_all();
}

void CopyKeeper::keep(ReplicaId keeper, const JobSpec& spec, const KeepCopies& orders) {
  {
    const MutexLock lock(copies_->mutex);
    auto before = std::exchange(copies_->entries, {});
    for (const StageCopy& order : orders.copies) {
      const auto known = before.find(order.copy);
      const bool same = known != before.end() && known->second.order.key.epoch == order.key.epoch;
      Copies::Entry entry = same ? std::move(known->second) : Copies::Entry{};
      if (same) before.erase(known);
      if (!entry.copy) entry.copy = std::make_shared<Copy>(stage_of(spec, order));
      entry.order = order;
      if (!order.sources.empty()) entry.copy->news.aim(order.key.round, order.sources);
      copies_->entries[order.copy] = std::move(entry);
    }
    for (auto& [id, entry] : before) {
      if (entry.copy) entry.copy->stop.request_stop();
    }
    copies_->keeper = keeper;
    copies_->ordered = true;
    queue_.push(CopiesKept{keeper, copies_->held_now()});
    copies_->changed.notify_all();
  }
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

void CopyKeeper::drop() {
  const MutexLock lock(copies_->mutex);
  for (auto& [id, entry] : copies_->entries) entry.copy->stop.request_stop();
  copies_->entries.clear();
}

void CopyKeeper::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    for (const std::shared_ptr<Copy>& copy : copies_->all()) {
      if (!copy->stop.stop_requested()) bring_forward(*copy);
    }
    const MutexLock lock(copies_->mutex);
    copies_->changed.wait_for(copies_->mutex, kLookAgain, [&]() SHOAL_REQUIRES(copies_->mutex) {
      return copies_->ordered || copies_->stopping;
    });
    copies_->ordered = false;
  }
}

void CopyKeeper::bring_forward(Copy& copy) {
  const std::optional<StageCopy> order = copies_->order_of(copy);
  if (!order || order->sources.empty()) return;  // what is held is all there is
  if (copy.state) {
    copy.state->follow(round_of(*order), steady_now());
  } else if (steady_now() >= copy.again_at) {
    begin(copy, round_of(*order));
  } else {
    return;
  }
  CopyState now = settle(copy);
  if (now == CopyState::kComing) {
    // Why it ended is in the session, which settle() looks at.
    (void)node_.join(
        copy.state->session(), copy.news, [](const auto&) {}, copy.stop.get_token());
    now = settle(copy);
  }
  if (now == CopyState::kFailed) fail(copy);
}

void CopyKeeper::begin(Copy& copy, const CopiedRound& round) {
  const MutexLock lock(copy.answering);
  copy.state.emplace(copy.stage, round, options(), copy.prng.next(), steady_now());
  copy.asked = &*copy.state;
}

CopyState CopyKeeper::settle(Copy& copy) {
  CopyState now = CopyState::kComing;
  {
    const MutexLock lock(copy.answering);
    now = copy.asked->settle();  // it publishes what has come
  }
  const MutexLock lock(copies_->mutex);
  const auto entry = copies_->entries.find(copy.stage.copy);
  if (entry == copies_->entries.end() || entry->second.copy.get() != &copy) return now;
  const std::optional<RoundKey> held =
      now == CopyState::kFailed ? std::nullopt : copy.state->held();
  if (std::exchange(entry->second.held, held) == held) return now;
  if (held) copy.backoff.reset();
  queue_.push(CopiesKept{copies_->keeper, copies_->held_now()});
  return now;
}

void CopyKeeper::fail(Copy& copy) {
  const MutexLock lock(copy.answering);
  const Duration wait = copy.backoff.next(copy.prng);
  std::cerr << "a copy of another stage starts again in " << wait.ms() / 1000
            << " s: " << to_string(copy.state->error()) << std::endl;
  copy.asked = nullptr;
  copy.state.reset();
  copy.again_at = steady_now() + wait;
}

}  // namespace shoal::replica
