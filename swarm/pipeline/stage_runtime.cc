// The driver: what arrived goes to the session, what the session says goes to the device, to the
// neighbors or to the listener. A tensor is encoded once, right after it was computed, and kept so
// until its task is forgotten: sending it again costs nothing, and it is half as large or less.
#include "swarm/pipeline/stage_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/flat_map.h"
#include "base/overloaded.h"
#include "outer_opt/core/participant/router_lease.h"
#include "swarm/pipeline/pipeline_service.h"

namespace shoal::swarm {
namespace {

constexpr Duration kLookAgain = seconds(1);

Instant now() { return {std::chrono::nanoseconds(Clock::now().time_since_epoch()).count()}; }

// What follows a frame's header, and what the header says of it.
struct Body {
  SharedBytes bytes;
  FrameHeader facts;

  FrameHeader complete(FrameHeader header) const {
    header.codec = facts.codec;
    header.entropy_coded = facts.entropy_coded;
    header.rows = facts.rows;
    header.columns = facts.columns;
    header.tokens = facts.tokens;
    header.body_size = facts.body_size;
    header.checksum = facts.checksum;
    return header;
  }
};

struct Tensor {
  std::span<const float> values;
  std::int64_t rows = 0, columns = 0;
};

// False: a value is not finite. `coder`: for slow lines, else none.
bool encode_body(ActivationCodec codec, std::span<const std::uint32_t> tokens, const Tensor& tensor,
                 outer_opt::EntropyCoder* coder, Body& body) {
  SHOAL_CHECK(static_cast<std::int64_t>(tensor.values.size()) == tensor.rows * tensor.columns);
  const std::size_t front = tokens.size_bytes();
  auto made =
      std::make_shared<std::vector<std::byte>>(front + encoded_size(codec, tensor.values.size()));
  const std::span<std::byte> bytes(*made);
  if (front > 0) std::memcpy(bytes.data(), tokens.data(), front);
  if (!encode(codec, tensor.values, bytes.subspan(front))) return false;
  const std::span<const std::byte> pieces[] = {bytes};
  body.facts.codec = codec;
  body.facts.rows = static_cast<std::uint32_t>(tensor.rows);
  body.facts.columns = static_cast<std::uint32_t>(tensor.columns);
  body.facts.tokens = static_cast<std::uint32_t>(tokens.size());
  body.facts.body_size = bytes.size();
  body.facts.checksum = body_checksum(pieces);
  if (coder != nullptr) entropy_encode(*coder, body.facts, bytes);
  made->resize(body.facts.body_size);
  body.bytes = std::move(made);
  return true;
}

class Runtime final : public StageRuntime {
 public:
  Runtime(const StageRuntimeOptions& options, PipelineService& service, StageCompute& compute,
          StageListener& listener, std::function<void()> wake, RoundNumber held, std::int64_t step);
  ~Runtime() override;

  void view(const PipelineView& view) override;
  void open(const OpenRound& round) override;
  void close() override;
  void stop() override;
  void committed(RoundNumber round, std::int64_t step) override;
  void evaluate(const RoundKey& key, const EvalSlice& slice) override;
  void sample(std::vector<std::uint32_t> window) override;
  void end_sample() override;
  bool work(MaybeComputeFailure& failure, Duration& wait) override;
  PipelineStats stats() override;

 private:
  struct Task {
    std::vector<std::uint32_t> tokens;
    std::vector<float> input, output_gradient;
    Body output;  // of this stage, for the next
    Body answer;  // gradient of the input, or logits, for the previous one
  };
  struct StepLoss {
    double sum = 0;
    std::int64_t tokens = 0;
  };

  bool first() const { return options_.session.stage == 0; }
  bool last() const { return options_.session.stage + 1 == options_.session.stages; }

  // What arrived.
  void take_in();
  void took(Instant at, Arrival& arrival, SessionActions& out);
  void answered(const BackwardHeader& header);
  MaybeComputeFailure pass_on(Task& task);

  // What the session says.
  void apply(SessionActions& actions);
  void on(const SendForward& send);
  void on(const SendBackward& send);
  void on(const SendCancel& send);
  void on(const SendRefusal& send);
  void on(const SendGossip& send);
  void on(const Forget& forget);
  void on(const TakeStep& take);
  void on(const ReachBoundary& boundary);
  void on(const CameBack& came);
  void on(const EvaluationDone& evaluated) { listener_.evaluated(evaluated); }
  void on(const LogitsCame& came);
  void on(const Dial& dial) { neighbors_->dial(dial.peers); }
  void on(const CutOff& cut_off);
  void on(const GiveUp& give_up);

  // The device.
  void ask_logits();
  void compute(const Compute& pass);
  MaybeComputeFailure run(const Compute& pass, Task& task, LossSum& loss);
  MaybeComputeFailure draw(const Microbatch& microbatch, Task& task);
  MaybeComputeFailure forward(const Compute& pass, Task& task);
  MaybeComputeFailure backward(const Compute& pass, Task& task);
  MaybeComputeFailure last_stage(const Compute& pass, Task& task, LossSum& loss);
  MaybeComputeFailure put_by(std::span<const std::uint32_t> tokens, const Tensor& tensor,
                             Body& body, const char* what);
  void fail(MaybeComputeFailure failure);

  const StageRuntimeOptions options_;
  StageCompute& compute_;
  StageListener& listener_;
  const StageShape shape_;
  PipelineHost& host_;
  std::shared_ptr<Neighbors> neighbors_;
  StageSession session_;

  FlatMap<TaskId, Task> tasks_;
  std::vector<float> tensor_;  // what the device writes, encoded before the next pass
  outer_opt::EntropyCoder coder_;
  OpenRound round_;
  outer_opt::RouterLease lease_;
  FlatMap<std::int64_t, StepLoss> losses_;  // router: by step, of those not taken
  enum class Sampling { kNot, kAsked, kMore, kOver };
  Sampling sampling_ = Sampling::kNot;
  std::vector<std::uint32_t> window_;  // while sampling: to be continued
  MaybeComputeFailure failure_;
  Duration busy_;
  Instant counted_from_ = now();
};

NeighborsOptions neighbors_of(const StageRuntimeOptions& o, const StageShape& shape) {
  NeighborsOptions n{o.job, o.epoch, o.session.self};
  n.facts = {o.session.stage, o.session.stages, shape, o.codec};
  n.seed = mix_seed(o.session.seed, o.session.self.n);
  return n;
}

Runtime::Runtime(const StageRuntimeOptions& options, PipelineService& service,
                 StageCompute& compute, StageListener& listener, std::function<void()> wake,
                 RoundNumber held, std::int64_t step)
    : options_(options),
      compute_(compute),
      listener_(listener),
      shape_(compute.shape()),
      host_(PipelineHost::of(service)),
      neighbors_(
          Neighbors::create(neighbors_of(options, shape_), host_.context(), std::move(wake))),
      session_(options.session, held, step, now()),
      lease_(options.session.microbatch) {
  SHOAL_CHECK(shape_.sequences == options.session.microbatch &&
              shape_.context == options.session.context);
  SHOAL_CHECK(options.batch % options.session.microbatch == 0);
  host_.enter(options.session.self, neighbors_);
}

Runtime::~Runtime() {
  host_.leave(options_.session.self);
  neighbors_->close();
}

// ---- commands

void Runtime::view(const PipelineView& view) {
  SessionActions out;
  session_.view(now(), view, out);
  apply(out);
}

void Runtime::open(const OpenRound& round) {
  lease_.open(round);
  round_ = round;
  round_.leases = lease_.left();
  SessionActions out;
  session_.open(now(), round_, out);
  apply(out);
}

void Runtime::close() {
  SessionActions out;
  session_.close(now(), out);
  apply(out);
}

void Runtime::stop() {
  SessionActions out;
  session_.stop(now(), out);
  apply(out);
}

void Runtime::committed(RoundNumber round, std::int64_t step) {
  lease_.committed();
  SessionActions out;
  session_.committed(now(), round, step, out);
  apply(out);
}

void Runtime::evaluate(const RoundKey& key, const EvalSlice& slice) {
  SessionActions out;
  session_.evaluate(now(), key, slice, options_.batch / options_.session.microbatch, out);
  apply(out);
}

void Runtime::sample(std::vector<std::uint32_t> window) {
  SHOAL_CHECK(static_cast<std::int64_t>(window.size()) == shape_.context);
  end_sample();
  window_ = std::move(window);
  ask_logits();
}

void Runtime::end_sample() {
  if (sampling_ == Sampling::kNot) return;
  sampling_ = Sampling::kNot;
  SessionActions out;
  session_.sampled(now(), out);
  apply(out);
}

// The pass has targets as all have; this one's mean nothing.
void Runtime::ask_logits() {
  sampling_ = Sampling::kAsked;
  SessionActions out;
  std::vector<std::uint32_t>& tokens = tasks_[session_.logits(now(), out)].tokens;
  tokens = window_;
  tokens.push_back(0);
  apply(out);
}

bool Runtime::work(MaybeComputeFailure& failure, Duration& wait) {
  wait = kLookAgain;
  if (!failure_) take_in();
  if (sampling_ == Sampling::kMore) ask_logits();
  if (sampling_ == Sampling::kOver) end_sample();
  std::optional<Compute> pass;
  if (!failure_) pass = session_.next();
  if (pass) compute(*pass);
  failure = failure_;
  if (failure_ || pass) return pass.has_value();
  if (const auto deadline = session_.next_deadline()) {
    wait = std::clamp(*deadline - now(), Duration{}, kLookAgain);
  }
  return false;
}

// ---- what arrived

void Runtime::take_in() {
  SessionActions out;
  for (Arrival& arrival : neighbors_->take()) {
    took(now(), arrival, out);
    apply(out);
    out.clear();
  }
  if (const auto deadline = session_.next_deadline(); deadline && *deadline <= now()) {
    session_.tick(now(), out);
    apply(out);
  }
}

void Runtime::took(Instant at, Arrival& arrival, SessionActions& out) {
  const ReplicaId from = arrival.from;
  std::visit(
      Overloaded{
          [&](const Connected&) { session_.connected(at, from, out); },
          [&](const Lost&) { session_.lost(at, from, out); },
          [&](ArrivedForward& forward) {
            const auto task = session_.forward(at, from, forward.header, out);
            if (!task) return;
            tasks_[*task].tokens = std::move(forward.tokens);
            tasks_[*task].input = std::move(forward.input);
          },
          [&](ArrivedBackward& backward) {
            const auto task = session_.backward(at, from, backward.header, out);
            if (!task) return;
            Task& mine = tasks_[*task];
            mine.output_gradient = std::move(backward.tensor);
            answered(backward.header);
            const bool logits = backward.header.microbatch.kind == PassKind::kLogits;
            if (logits && !first()) fail(pass_on(mine));
          },
          [&](const ArrivedCancel& cancel) { session_.cancelled(at, from, cancel.header, out); },
          [&](const ArrivedRefusal& refusal) {
            session_.refused(at, from, refusal.header, refusal.reason, out);
          },
          [&](const ProgressGossip& gossip) { session_.gossip(at, from, gossip, out); },
      },
      arrival.news);
}

// Logits go up as they are.
MaybeComputeFailure Runtime::pass_on(Task& task) {
  const std::int64_t rows = shape_.sequences_of(PassKind::kLogits);
  return put_by({}, {task.output_gradient, rows, shape_.vocab}, task.answer, "the logits");
}

// A router hears the loss of what it drew.
void Runtime::answered(const BackwardHeader& header) {
  const Microbatch& microbatch = header.microbatch;
  if (microbatch.router != options_.session.self || microbatch.kind != PassKind::kTrain) return;
  StepLoss& loss = losses_[microbatch.step];
  loss.sum += header.loss_sum;
  loss.tokens += header.tokens.count();
}

// ---- what the session says

void Runtime::apply(SessionActions& actions) {
  for (const SessionAction& action : actions) {
    if (failure_) return;
    std::visit([this](const auto& what) { on(what); }, action);
  }
}

void Runtime::on(const SendForward& send) {
  const Body& body = tasks_.at(send.task).output;
  neighbors_->send(send.to, body.complete(header_of(send.header, FrameKind::kForward)), body.bytes);
}

void Runtime::on(const SendBackward& send) {
  const Body& body = tasks_.at(send.task).answer;
  neighbors_->send(send.to, body.complete(header_of(send.header)), body.bytes);
}

void Runtime::on(const SendCancel& send) {
  neighbors_->send(send.to, header_of(send.header, FrameKind::kCancel), nullptr);
}

void Runtime::on(const SendRefusal& send) {
  FrameHeader header = header_of(send.header, FrameKind::kRefusal);
  header.reason = send.reason;
  neighbors_->send(send.to, header, nullptr);
}

void Runtime::on(const SendGossip& send) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(body_of(send.gossip));
  FrameHeader header = header_of(send.gossip);
  const std::span<const std::byte> pieces[] = {*bytes};
  header.checksum = bytes->empty() ? 0 : body_checksum(pieces);
  neighbors_->send(send.to, header, bytes);
}

void Runtime::on(const Forget& forget) {
  tasks_.erase(forget.task);
  compute_.forget(forget.task);
}

void Runtime::on(const TakeStep& take) {
  StepLoss loss;
  if (const StepLoss* mine = losses_.find(take.step)) loss = *mine;
  while (!losses_.empty() && losses_.begin()->first <= take.step) {
    losses_.erase(losses_.begin()->first);
  }
  StageCompute::Stepped stepped;
  fail(compute_.step(take.step, take.tokens, stepped));
  if (failure_) return;
  const double mean = loss.tokens > 0 ? loss.sum / static_cast<double>(loss.tokens) : 0;
  listener_.stepped(take.step, take.tokens, stepped, mean);
  if (take.drained) fail(compute_.settle());
}

void Runtime::on(const ReachBoundary& boundary) {
  fail(compute_.settle());
  if (!failure_) listener_.boundary(boundary, lease_.reported());
}

void Runtime::on(const CameBack& came) {
  lease_.answered(came.microbatch.step, came.microbatch.index);
}

void Runtime::on(const LogitsCame& came) {
  if (sampling_ != Sampling::kAsked) return;
  const bool alone = first() && last();
  const std::span<const float> logits(alone ? tensor_ : tasks_.at(came.task).output_gradient);
  sampling_ = listener_.next_token(logits, window_) ? Sampling::kMore : Sampling::kOver;
}

void Runtime::on(const CutOff& cut_off) {
  const std::string troubles = neighbors_->troubles();
  listener_.cut_off(cut_off.detail + (troubles.empty() ? "" : " (" + troubles + ")"));
}

void Runtime::on(const GiveUp& give_up) {
  fail(ComputeFailure{ReplicaFailure::kPeerUnreachable, give_up.detail});
}

void Runtime::fail(MaybeComputeFailure failure) {
  if (!failure_) failure_ = std::move(failure);
}

// ---- the device

void Runtime::compute(const Compute& pass) {
  const Instant begun = now();
  LossSum loss;
  fail(run(pass, tasks_[pass.task], loss));
  if (failure_) return;
  const Instant ended = now();
  busy_ = busy_ + (ended - begun);
  if (first() && last() && pass.microbatch.kind == PassKind::kTrain) {
    answered({pass.microbatch, 1, {}, loss.nats, loss.tokens});
  }
  SessionActions out;
  session_.computed(ended, ended - begun, loss.nats, loss.tokens, out);
  apply(out);
}

MaybeComputeFailure Runtime::run(const Compute& pass, Task& task, LossSum& loss) {
  if (first() && task.tokens.empty()) {
    if (auto failure = draw(pass.microbatch, task)) return failure;
  }
  switch (pass.kind) {
    case ComputeKind::kForward:
      return forward(pass, task);
    case ComputeKind::kBackward:
      return backward(pass, task);
    case ComputeKind::kLast:
      return last_stage(pass, task, loss);
  }
  return {};
}

MaybeComputeFailure Runtime::draw(const Microbatch& microbatch, Task& task) {
  std::int64_t first = microbatch.index * options_.session.microbatch;  // held-out
  if (microbatch.kind == PassKind::kTrain) {
    const auto drawn = lease_.draw(microbatch.step, microbatch.index);
    if (!drawn) return ComputeFailure{ReplicaFailure::kInternal, "its lease has no sequence left"};
    first = *drawn;
  }
  return compute_.draw(microbatch, first, task.tokens);
}

MaybeComputeFailure Runtime::put_by(std::span<const std::uint32_t> tokens, const Tensor& tensor,
                                    Body& body, const char* what) {
  outer_opt::EntropyCoder* const coder = round_.entropy_coding ? &coder_ : nullptr;
  if (encode_body(options_.codec, tokens, tensor, coder, body)) return {};
  return ComputeFailure{ReplicaFailure::kNonFiniteLoss,
                        std::string(what) + " of stage " + std::to_string(options_.session.stage) +
                            " holds values that are not finite as they are sent"};
}

MaybeComputeFailure Runtime::forward(const Compute& pass, Task& task) {
  const StagePass forward{pass.microbatch.step, pass.microbatch.kind, task.tokens, task.input};
  if (auto failure = compute_.forward(pass.task, forward, tensor_)) return failure;
  neighbors_->recycle(std::move(task.input));
  const std::int64_t rows = shape_.sequences_of(pass.microbatch.kind) * shape_.context;
  return put_by(task.tokens, {tensor_, rows, shape_.hidden}, task.output, "the output");
}

MaybeComputeFailure Runtime::backward(const Compute& pass, Task& task) {
  if (auto failure = compute_.backward(pass.task, task.output_gradient, pass.add, tensor_)) {
    return failure;
  }
  neighbors_->recycle(std::move(task.output_gradient));
  if (first()) return {};
  return put_by({}, {tensor_, shape_.rows(), shape_.hidden}, task.answer, "the gradient");
}

MaybeComputeFailure Runtime::last_stage(const Compute& pass, Task& task, LossSum& loss) {
  const PassKind kind = pass.microbatch.kind;
  const StagePass last{pass.microbatch.step, kind, task.tokens, task.input};
  if (auto failure = compute_.last(last, pass.add, loss, tensor_)) return failure;
  neighbors_->recycle(std::move(task.input));
  if (!std::isfinite(loss.nats)) {
    return ComputeFailure{ReplicaFailure::kNonFiniteLoss, "the loss is not finite"};
  }
  if (first() || kind == PassKind::kLoss) return {};
  if (kind == PassKind::kLogits) {
    return put_by({}, {tensor_, shape_.sequences_of(kind), shape_.vocab}, task.answer,
                  "the logits");
  }
  return put_by({}, {tensor_, shape_.rows(), shape_.hidden}, task.answer, "the gradient");
}

// ---- for people

PipelineStats Runtime::stats() {
  const SessionStats s = session_.stats();
  PipelineStats stats;
  stats.replica = options_.session.self;
  stats.step = session_.step();
  stats.queued = s.queued;
  stats.in_flight = s.in_flight;
  stats.service = s.service;
  stats.microbatches = s.microbatches;
  stats.recomputed = s.recomputed;
  stats.added_again = s.added_again;
  stats.dropped = s.past + s.unknown + neighbors_->bad_frames();
  const Instant at = now();
  const double spent = (at - std::exchange(counted_from_, at)).seconds();
  const double busy = std::exchange(busy_, Duration{}).seconds();
  stats.busy = spent > 0 ? std::min(1.0, busy / spent) : 0;
  stats.links = neighbors_->links();
  return stats;
}

}  // namespace

std::unique_ptr<StageRuntime> StageRuntime::create(const StageRuntimeOptions& options,
                                                   PipelineService& service, StageCompute& compute,
                                                   StageListener& listener,
                                                   std::function<void()> wake, RoundNumber held,
                                                   std::int64_t step) {
  return std::make_unique<Runtime>(options, service, compute, listener, std::move(wake), held,
                                   step);
}

}  // namespace shoal::swarm
