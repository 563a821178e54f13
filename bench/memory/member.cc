// See member.h.
#include "bench/memory/member.h"

#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "bench/memory/counted_memory.h"
#include "data/data_roots.h"
#include "outer_opt/core/step/momentum_shards.h"
#include "outer_opt/transport/peer_node.h"
#include "replica/runtime/worker.h"
#include "threads/idle_memory.h"
#include "threads/mutex.h"
#include "trainer/compute/torch_compute.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::ordered_json;
using Addresses = std::vector<std::string>;

constexpr std::chrono::seconds kPatience{120};
constexpr Duration kReduceLimit = seconds(110);
constexpr std::size_t kEventsMax = 256;

// What the replica says, in order; progress is not kept.
class Inbox {
 public:
  void add(const FromTrainer& message) {
    if (std::holds_alternative<Progress>(message) ||
        std::holds_alternative<TrainerReady>(message) ||
        std::holds_alternative<LoadProgress>(message)) {
      return;
    }
    const MutexLock lock(mutex_);
    said_.push_back(message);
    changed_.notify_all();
  }

  template <typename T>
  T next() {
    const MutexLock lock(mutex_);
    const auto said = [&]() SHOAL_REQUIRES(mutex_) { return !said_.empty(); };
    if (!changed_.wait_for(mutex_, kPatience, said)) throw std::runtime_error("it says nothing");
    const FromTrainer message = std::move(said_.front());
    said_.pop_front();
    if (const T* wanted = std::get_if<T>(&message)) return *wanted;
    throw std::runtime_error(problem_of(message));
  }

 private:
  static std::string problem_of(const FromTrainer& message) {
    if (const auto* failed = std::get_if<ReplicaFailed>(&message)) return failed->detail;
    if (const auto* failed = std::get_if<FromReplica<ReduceFailed>>(&message)) {
      return failed->body.detail;
    }
    if (const auto* failed = std::get_if<CheckpointFailed>(&message)) return failed->detail;
    return "it says something else, message " + std::to_string(message.index());
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<FromTrainer> said_ SHOAL_GUARDED_BY(mutex_);
};

Json range_of(const MemoryGauge& gauge) {
  const MemoryGauge::Range range = gauge.since_restart();
  return {{"low", range.low}, {"peak", range.peak}};
}

void begin_phase() {
  tensor_memory().restart();
  vector_memory().restart();
  restart_resident_peak();
}

// What was held since begin_phase().
Json end_phase(const std::string& name) {
  Json phase = {{"phase", name},
                {"tensors", range_of(tensor_memory())},
                {"vectors", range_of(vector_memory())},
                {"resident_peak", resident_peak()},
                {"idle", idle_bytes()}};
  begin_phase();
  return phase;
}

RoundKey key_of(RoundNumber round) { return {JobId(1), 0, round}; }
ReplicaId id_of(int index) { return ReplicaId(static_cast<std::uint64_t>(index) + 1); }

Addresses addresses_in(std::istringstream& words) {
  Addresses addresses;
  for (std::string word; words >> word;) addresses.push_back(word);
  return addresses;
}

std::unique_ptr<outer_opt::PeerNode> start_node() {
  auto node = outer_opt::PeerNode::start({});
  if (!node) throw std::runtime_error(to_string(node.error()));
  return std::move(*node);
}

}  // namespace

struct MemoryMember::Running {
  Running(MemorySetup with, int place) : setup(std::move(with)), index(place), node(start_node()) {
    node->set_state_handler([this](const outer_opt::StateAsk& ask) { return state.answer(ask); });
    node->set_momentum_handler(
        [this](ReplicaId replica, const RoundKey& key, const outer_opt::ValueRange& range,
               const auto& send) { return state.serve_momentum(replica, key, range, send); });
    thread = std::thread([this] {
      replica::Worker worker({host, queue, *node, state, {}, [this](const FromTrainer& message) {
                                inbox.add(message);
                              }});
      worker.run();
    });
  }
  ~Running() {
    queue.push(ToTrainer(StopTrainer{}));
    thread.join();
    node->set_state_handler({});
    node->set_momentum_handler({});
  }

  bool is_member() const { return index < setup.members; }
  std::string obey(const std::string& verb, std::istringstream& words);
  Json load(const Addresses& all);
  Json join(const Addresses& all);
  Json run_round();
  Json evaluate();
  Json checkpoint();
  void tell_load(const StateSource& source, std::vector<PeerAddress> sources);
  OpenRound opening(RoundNumber number) const;
  ReducePlan plan() const;
  template <typename Body>
  void tell(Body body) {
    queue.push(ToTrainer(ToReplica<Body>{id_of(index), std::move(body)}));
  }

  MemorySetup setup;
  int index;
  std::unique_ptr<outer_opt::PeerNode> node;
  trainer::TorchHost host{{}, data::DataRoots::whole_host()};
  replica::EventQueue queue{kEventsMax};
  replica::StateServer state{[this] { queue.push(replica::MomentsWanted{}); }};
  Inbox inbox;
  std::thread thread;
  Addresses addresses;
  RoundNumber round = 0;  // that is open
  std::int64_t values = 0;
  std::vector<MomentumHolder> holders;  // of sharded momentum, after the round before
};

// All members train the same sequences; what they hold does not depend on it.
OpenRound MemoryMember::Running::opening(RoundNumber number) const {
  const std::int64_t every = setup.spec.sync.every.count(), batch = setup.spec.train.batch;
  const std::int64_t from = (number - 1) * every, to = number * every;
  const std::int64_t tail = setup.spec.sync.overlap_steps.count();
  return {key_of(number), Steps(from), Steps(to), {{from * batch, (every + tail) * batch}}};
}

ReducePlan MemoryMember::Running::plan() const {
  ReducePlan plan;
  plan.key = key_of(round);
  plan.attempt = 1;
  plan.codec = setup.spec.sync.codec;
  plan.value_count = values;
  plan.time_limit = kReduceLimit;
  plan.outer_lr = setup.spec.sync.outer.lr;
  for (int i = 0; i < setup.members; ++i) {
    plan.members.push_back({id_of(i), addresses[static_cast<std::size_t>(i)], 1, 1, 0, 0});
  }
  assign_parts(plan, std::vector<double>(plan.members.size(), 1.0 / setup.members));
  if (setup.spec.sync.outer_state == OuterState::kSharded) {
    plan.owner_step =
        OwnerStep{{setup.spec.sync.outer.lr, setup.spec.sync.outer.momentum}, holders};
  }
  return plan;
}

void MemoryMember::Running::tell_load(const StateSource& source, std::vector<PeerAddress> sources) {
  LoadReplica command;
  command.assign.replica = id_of(index);
  command.assign.job = JobId(1);
  command.assign.spec = setup.spec;
  command.assign.source = source;
  command.assign.sources = std::move(sources);
  queue.push(ToTrainer(std::move(command)));
  values = inbox.next<Loaded>().value_count;
}

Json MemoryMember::Running::load(const Addresses& all) {
  addresses = all;
  if (!is_member()) return {{"phases", Json::array()}};
  tell_load({.kind = SourceKind::kSeed, .key = key_of(0)}, {});
  begin_phase();
  tell(opening(round = 1));
  inbox.next<FromReplica<RoundReport>>();
  return {{"values", values}, {"phases", {end_phase("train")}}};
}

Json MemoryMember::Running::run_round() {
  if (!is_member()) return {{"phases", Json::array()}};
  Json phases = {end_phase("wait")};
  const ReducePlan reduced = plan();
  tell(reduced);
  const Vote vote = inbox.next<FromReplica<Vote>>().body;
  phases.push_back(end_phase("reduce"));
  holders.clear();
  for (int i = 0; i < setup.members; ++i) {
    for (const outer_opt::ValueRange& range : outer_opt::kept_ranges(reduced.members, id_of(i))) {
      holders.push_back(
          {id_of(i), addresses[static_cast<std::size_t>(i)], range.first, range.count});
    }
  }
  CommitRound commit{key_of(round),           1, vote.average, {0, 0, 0}, false, opening(round + 1),
                     setup.spec.sync.outer.lr};
  commit.record.step = Steps(round * setup.spec.sync.every.count());
  ++round;
  tell(std::move(commit));
  inbox.next<FromReplica<Applied>>();
  phases.push_back(end_phase("commit"));
  inbox.next<FromReplica<RoundReport>>();
  phases.push_back(end_phase("train"));
  return {{"phases", phases}};
}

// What was trained since the anchor is put aside meanwhile.
Json MemoryMember::Running::evaluate() {
  if (!is_member()) return {{"phases", Json::array()}};
  Json phases = {end_phase("wait")};
  tell(Evaluate{key_of(round - 1), {0, 1, 1}});
  inbox.next<FromReplica<Evaluated>>();
  phases.push_back(end_phase("evaluate"));
  return {{"phases", phases}};
}

// Opening a FIFO for writing waits for its reader. Nobody can sync one, so this checkpoint fails in
// the end, with everything written.
Json MemoryMember::Running::checkpoint() {
  if (index != 0) return run_round();
  const std::filesystem::path folder = std::filesystem::path(setup.folder) / "checkpoint";
  std::filesystem::create_directories(folder);
  const auto file = folder / "model.safetensors";
  if (mkfifo(file.c_str(), 0600) != 0) throw std::runtime_error("no FIFO in " + folder.string());
  queue.push(ToTrainer(
      WriteCheckpointTo{id_of(index), {CheckpointId(1), key_of(round - 1)}, folder.string()}));
  Json phases = run_round();
  std::ifstream reader(file, std::ios::binary);
  for (std::vector<char> piece(1 << 20); reader.read(piece.data(), std::ssize(piece));) {
  }
  inbox.next<CheckpointFailed>();
  return phases;
}

Json MemoryMember::Running::join(const Addresses& all) {
  if (is_member()) return {{"phases", Json::array()}};
  addresses = all;
  std::vector<PeerAddress> sources;
  for (int i = 0; i < setup.members; ++i) {
    sources.push_back({id_of(i), all[static_cast<std::size_t>(i)]});
  }
  begin_phase();
  tell_load({.kind = SourceKind::kPeer, .key = key_of(setup.joins_at)}, std::move(sources));
  return {{"values", values}, {"phases", {end_phase("join")}}};
}

std::string MemoryMember::Running::obey(const std::string& verb, std::istringstream& words) {
  if (verb == "start") return Json{{"address", node->address()}}.dump();
  if (verb == "load") return load(addresses_in(words)).dump();
  if (verb == "join") return join(addresses_in(words)).dump();
  if (verb == "round") return run_round().dump();
  if (verb == "evaluate") return evaluate().dump();
  if (verb == "checkpoint") return checkpoint().dump();
  throw std::runtime_error("no such command: " + verb);
}

MemoryMember::MemoryMember(MemorySetup setup, int index) {
  count_tensors();
  running_ = std::make_unique<Running>(std::move(setup), index);
}

MemoryMember::~MemoryMember() = default;

std::string MemoryMember::obey(const std::string& command) {
  std::istringstream words(command);
  std::string verb;
  words >> verb;
  try {
    return running_->obey(verb, words);
  } catch (const std::exception& problem) {
    return Json{{"error", problem.what()}}.dump();
  }
}

}  // namespace shoal::bench
