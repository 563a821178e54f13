// See local_pipeline.h.
#include "swarm/pipeline/local_pipeline.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "base/check.h"

namespace shoal::swarm {
namespace {

constexpr JobId kJob{1};

TimedOptions timed(const LocalOptions& o, ReplicaId id, StageIndex stage, double speed) {
  const auto scaled = [&](Duration d) { return seconds_f(d.seconds() / speed); };
  return {o.shape, stage, scaled(o.forward), scaled(o.backward), o.jitter, mix_seed(o.seed, id.n)};
}

StageRuntimeOptions runtime_options(const LocalOptions& o, ReplicaId id, StageIndex stage) {
  StageRuntimeOptions r;
  r.session.self = id;
  r.session.stage = stage;
  r.session.stages = o.stages;
  r.session.microbatch = o.shape.sequences;
  r.session.context = o.shape.context;
  r.session.schedule = o.schedule;
  r.session.seed = o.seed;
  r.session.window_per_replica = o.window_per_replica;
  r.session.unreachable_limit = o.unreachable_limit;
  r.job = kJob;
  r.codec = o.codec;
  r.batch = 2 * o.shape.sequences;
  return r;
}

}  // namespace

// ---- a replica

LocalReplica::LocalReplica(const LocalOptions& options, ReplicaId id, StageIndex stage,
                           double speed, RoundNumber held, std::int64_t step,
                           std::function<void()> changed)
    : options_(options),
      id_(id),
      stage_(stage),
      speed_(speed),
      changed_(std::move(changed)),
      compute_(timed(options, id, stage, speed)) {
  outer_opt::PeerNodeOptions node;
  if (LinkOptions link = options.link; !(link == LinkOptions{})) {
    link.seed = mix_seed(options.seed, id.n);
    node.line = std::make_shared<wire::EmulatedLine>(link);
  }
  node.keepalive = options.keepalive;
  node_ = outer_opt::PeerNode::start(node).value();
  service_ = PipelineService::create(*node_);
  thread_ = std::thread([this, held, step] { live(held, step); });
}

LocalReplica::~LocalReplica() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  awake_.notify_one();
  thread_.join();
  service_.reset();
  node_.reset();
}

PipelineMember LocalReplica::member() const { return {id_, stage_, node_->address(), speed_}; }

void LocalReplica::live(RoundNumber held, std::int64_t step) {
  const auto wake = [this] {
    const MutexLock lock(mutex_);
    woken_ = true;
    awake_.notify_one();
  };
  const auto runtime = StageRuntime::create(runtime_options(options_, id_, stage_), *service_,
                                            compute_, *this, wake, held, step);
  MaybeComputeFailure failure;
  Duration wait;
  const MutexLock lock(mutex_);
  while (!stopped_) {
    woken_ = false;
    const auto commands = std::exchange(commands_, {});
    bool worked = false;
    {
      const MutexUnlock meanwhile(mutex_);
      for (const auto& command : commands) command(*runtime);
      worked = runtime->work(failure, wait);
      if (failure) note([&](LocalNews& news) { news.failure = failure; });
    }
    if (worked && !failure) continue;
    awake_.wait_for(mutex_, std::chrono::nanoseconds(wait.ns), [this]() SHOAL_REQUIRES(mutex_) {
      return woken_ || stopped_ || !commands_.empty();
    });
  }
}

void LocalReplica::tell(std::function<void(StageRuntime&)> command) {
  {
    const MutexLock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  awake_.notify_one();
}

template <typename T>
T LocalReplica::ask(const std::function<T(StageRuntime&)>& question) {
  const auto answer = std::make_shared<std::promise<T>>();
  tell([answer, question](StageRuntime& runtime) { answer->set_value(question(runtime)); });
  return answer->get_future().get();
}

PipelineStats LocalReplica::stats() {
  return ask<PipelineStats>([](StageRuntime& runtime) { return runtime.stats(); });
}

std::size_t LocalReplica::tasks() {
  return ask<std::size_t>([this](StageRuntime&) { return compute_.tasks(); });
}

LocalNews LocalReplica::news() {
  const MutexLock lock(mutex_);
  return news_;
}

void LocalReplica::note(const std::function<void(LocalNews&)>& change) {
  {
    const MutexLock lock(mutex_);
    change(news_);
  }
  changed_();
}

void LocalReplica::stepped(std::int64_t step, Tokens tokens, const StageCompute::Stepped&,
                           double loss) {
  note([&](LocalNews& news) {
    news.steps.push_back(step);
    news.step_tokens.push_back(tokens);
    news.last_loss = loss;
  });
}

void LocalReplica::boundary(const ReachBoundary& boundary, const outer_opt::LeaseRuns&) {
  note([&](LocalNews& news) { news.boundaries.push_back(boundary); });
}

void LocalReplica::evaluated(const EvaluationDone& evaluated) {
  note([&](LocalNews& news) { news.evaluations.push_back(evaluated); });
}

void LocalReplica::cut_off(const std::string& detail) {
  note([&](LocalNews& news) { news.cut_off.push_back(detail); });
}

bool LocalReplica::next_token(std::span<const float> logits, std::vector<std::uint32_t>& window) {
  const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  std::rotate(window.begin(), window.begin() + 1, window.end());
  window.back() = static_cast<std::uint32_t>(likeliest);
  std::size_t count = 0;
  note([&](LocalNews& news) {
    news.sampled.push_back(window.back());
    count = news.sampled.size();
  });
  return count < options_.sample_tokens;
}

// ---- the pipeline

ReplicaId LocalPipeline::add(StageIndex stage, double speed) {
  const ReplicaId id(++last_id_);
  replicas_[id] = std::make_unique<LocalReplica>(options_, id, stage, speed, held_, step_, [this] {
    const MutexLock lock(mutex_);
    ++changes_;
    changed_.notify_all();
  });
  boundaries_[id] = 0;
  return id;
}

void LocalPipeline::kill(ReplicaId id) {
  replicas_.erase(id);
  boundaries_.erase(id);
}

std::vector<ReplicaId> LocalPipeline::ids() const {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : replicas_) ids.push_back(id);
  return ids;
}

std::vector<ReplicaId> LocalPipeline::of(StageIndex stage) const {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : replicas_) {
    if (replica->member().stage == stage) ids.push_back(id);
  }
  return ids;
}

void LocalPipeline::tell_view() {
  PipelineView view{kJob, 0, ++view_, {}};
  for (StageIndex stage = 0; stage < options_.stages; ++stage) {
    for (const ReplicaId id : of(stage)) view.members.push_back(at(id).member());
  }
  for (auto& [id, replica] : replicas_) {
    replica->tell([view](StageRuntime& runtime) { runtime.view(view); });
  }
}

void LocalPipeline::open(std::int64_t steps, std::int64_t microbatches) {
  const auto routers = of(0);
  const auto share = microbatches / static_cast<std::int64_t>(routers.size());
  std::int64_t first = 0;
  for (auto& [id, replica] : replicas_) {
    boundaries_[id] = replica->news().boundaries.size();
    OpenRound round{{kJob, 0, held_ + 1}, Steps(step_), Steps(step_ + steps), {}};
    round.entropy_coding = options_.entropy_coding;
    if (replica->member().stage == 0) {
      round.leases = {{first, share * steps * options_.shape.sequences}};
      first += round.leases.at(0).count;
    }
    replica->tell([round](StageRuntime& runtime) { runtime.open(round); });
  }
}

void LocalPipeline::commit() {
  step_ = replicas_.begin()->second->news().boundaries.back().step;
  ++held_;
  for (auto& [id, replica] : replicas_) {
    replica->tell([round = held_, step = step_](StageRuntime& r) { r.committed(round, step); });
  }
}

bool LocalPipeline::wait(Duration limit, const std::function<bool()>& good) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit.ns);
  for (;;) {
    std::uint64_t seen;
    {
      const MutexLock lock(mutex_);
      seen = changes_;
    }
    if (good()) return true;
    const MutexLock lock(mutex_);
    if (!changed_.wait_until(mutex_, deadline,
                             [&]() SHOAL_REQUIRES(mutex_) { return changes_ != seen; }))
      return false;
  }
}

bool LocalPipeline::wait_for_boundary(Duration limit) {
  bool failed = false;
  const bool reached = wait(limit, [&] {
    bool all = true;
    for (auto& [id, replica] : replicas_) {
      const LocalNews news = replica->news();
      failed |= news.failure.has_value();
      all &= news.boundaries.size() > boundaries_[id];
    }
    return all || failed;
  });
  return reached && !failed;
}

std::string LocalPipeline::failures() {
  std::string text;
  for (auto& [id, replica] : replicas_) {
    if (const auto failure = replica->news().failure) {
      text += to_string(id) + ": " + to_string(failure->kind) + ", " + failure->detail + "; ";
    }
  }
  return text;
}

}  // namespace shoal::swarm
