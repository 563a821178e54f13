#include "agent/host/host_meters.h"

#include <utility>
#include <variant>

namespace shoal::agent {
namespace {

prometheus::Family<prometheus::Counter>& counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels = {}) {
  return counters(registry, name, help).Add(labels);
}

prometheus::Family<prometheus::Gauge>& gauges(prometheus::Registry& registry, const char* name,
                                              const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return gauges(registry, name, help).Add({});
}

prometheus::Counter& downloaded(prometheus::Registry& registry, const char* kind) {
  return counter(registry, "shoal_host_downloaded_bytes_total",
                 "Bytes that this host fetched, from the coordinator or an object store.",
                 {{"kind", kind}});
}

constexpr const char* kEnds[] = {"normal", "failed", "memory", "unknown"};

const char* end_of(const ProcessExit& exit) {
  if (!exit.known) return "unknown";
  if (exit.for_memory) return "memory";
  return exit.code == 0 && exit.signal == 0 ? "normal" : "failed";
}

double value_of(Bytes bytes) { return static_cast<double>(bytes.count()); }

// The first report of a transfer says where it begins. One that falls back begins again there.
template <typename Key>
void follow(std::map<Key, Bytes>& transfers, const Key& key, Bytes done,
            prometheus::Counter& counter) {
  const auto [at, first] = transfers.try_emplace(key, done);
  if (!first && done > at->second) counter.Increment(value_of(done - at->second));
  at->second = done;
}

}  // namespace

HostMeters::HostMeters(const std::string& version)
    : registry_(std::make_shared<prometheus::Registry>()),
      trainers_(gauge(*registry_, "shoal_host_trainers", "Trainer processes that run.")),
      started_(counter(*registry_, "shoal_host_trainers_started_total",
                       "Trainer processes that this agent started.")),
      ended_(counters(*registry_, "shoal_host_trainers_ended_total",
                      "Trainer processes that ended, by how.")),
      agent_resident_(
          gauge(*registry_, "shoal_host_agent_resident_bytes", "Resident memory of the agent.")),
      trainer_resident_(gauges(*registry_, "shoal_host_trainer_resident_bytes",
                               "Resident memory of each trainer.")),
      session_up_(gauge(*registry_, "shoal_host_session_up",
                        "Whether the agent has a session with the coordinator.")),
      sessions_(counter(*registry_, "shoal_host_sessions_total",
                        "Sessions that the coordinator opened for this agent.")),
      session_losses_(
          counter(*registry_, "shoal_host_session_losses_total", "Sessions that broke.")),
      session_failures_(counter(*registry_, "shoal_host_session_failures_total",
                                "Attempts that opened no session.")),
      heartbeats_(counter(*registry_, "shoal_host_heartbeats_total", "Heartbeats sent.")),
      checkpoints_down_(downloaded(*registry_, "checkpoint")),
      code_down_(downloaded(*registry_, "code")),
      datasets_down_(downloaded(*registry_, "dataset")),
      checkpoints_up_(counter(*registry_, "shoal_host_uploaded_bytes_total",
                              "Bytes that this host sent, to the coordinator or an object store.",
                              {{"kind", "checkpoint"}})),
      floods_(counter(*registry_, "shoal_host_output_floods_total",
                      "Times that a trainer wrote more output than the log takes.")),
      left_out_(counter(*registry_, "shoal_host_output_left_out_bytes_total",
                        "Bytes of output of trainers that the log lacks.")) {
  gauges(*registry_, "shoal_host_build_info", "Version of this agent; always 1.")
      .Add({{"version", version}})
      .Set(1);
  for (const char* end : kEnds) ended_.Add({{"result", end}});
}

void HostMeters::observe(const Input& input) {
  std::visit([this](const auto& each) { note(each); }, input);
}

void HostMeters::observe(const Effect& effect) {
  std::visit([this](const auto& each) { note(each); }, effect);
}

void HostMeters::measured(Bytes agent, const std::map<std::int32_t, Bytes>& trainers) {
  agent_resident_.Set(value_of(agent));
  for (const auto& [slot, bytes] : trainers) {
    prometheus::Gauge*& gauge = resident_[slot];
    if (gauge == nullptr) gauge = &trainer_resident_.Add({{"trainer", std::to_string(slot)}});
    gauge->Set(value_of(bytes));
  }
  for (auto entry = resident_.begin(); entry != resident_.end();) {
    if (trainers.contains(entry->first)) {
      ++entry;
      continue;
    }
    trainer_resident_.Remove(entry->second);
    entry = resident_.erase(entry);
  }
}

void HostMeters::dataset_read(Bytes fetched) { datasets_down_.Increment(value_of(fetched)); }

void HostMeters::output_left_out(Bytes lost) {
  floods_.Increment();
  left_out_.Increment(value_of(lost));
}

// ---- inputs

void HostMeters::note(const Booted& input) {
  for (const LeftTrainer& left : input.left) running_.insert(left.trainer);
  show_running();
}

void HostMeters::note(const LinkDown& input) {
  if (input.link != link_) return;
  (session_up_.Value() > 0 ? session_losses_ : session_failures_).Increment();
  session_up_.Set(0);
}

void HostMeters::note(const CoordinatorSaid& input) {
  if (input.link != link_ || !std::holds_alternative<Welcome>(input.message)) return;
  sessions_.Increment();
  session_up_.Set(1);
}

void HostMeters::note(const TrainerExited& input) {
  ended_.Add({{"result", end_of(input.exit)}}).Increment();
  running_.erase(input.trainer);
  show_running();
}

void HostMeters::note(const CheckpointFetchMoved& input) {
  follow(fetches_, input.part, input.done, checkpoints_down_);
}

void HostMeters::note(const CheckpointUploadMoved& input) {
  follow(uploads_, input.part, input.done, checkpoints_up_);
}

void HostMeters::note(const CodeFetchMoved& input) {
  follow(codes_, input.code, input.done, code_down_);
}

// ---- effects

void HostMeters::note(const OpenLink& effect) {
  link_ = effect.link;
  session_up_.Set(0);
}

void HostMeters::note(const CloseLink& effect) {
  if (effect.link == link_) session_up_.Set(0);
}

void HostMeters::note(const SendCoordinator& effect) {
  if (std::holds_alternative<Heartbeat>(effect.message)) heartbeats_.Increment();
}

void HostMeters::note(const StartTrainer& effect) {
  started_.Increment();
  running_.insert(effect.trainer);
  show_running();
}

void HostMeters::show_running() { trainers_.Set(static_cast<double>(running_.size())); }

}  // namespace shoal::agent
