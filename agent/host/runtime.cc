#include "agent/host/runtime.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "agent/host/checkpoint_worker.h"
#include "agent/host/data_folder.h"
#include "agent/host/input_queue.h"
#include "agent/host/journal.h"
#include "agent/host/log_answers.h"
#include "agent/host/trainer_process.h"
#include "agent/host/trainer_server.h"
#include "base/digest.h"
#include "base/overloaded.h"

namespace shoal::agent {
namespace {

constexpr Duration kMemoryEvery = seconds(5);

// Unix time taken once, then the steady clock: instants never go back (base/time.h).
class Clock {
 public:
  Instant now() const { return at(std::chrono::steady_clock::now()); }
  std::chrono::steady_clock::time_point when(Instant instant) const {
    return steady_ + std::chrono::nanoseconds(instant.ns - unix_ns_);
  }

 private:
  Instant at(std::chrono::steady_clock::time_point time) const {
    return {unix_ns_ +
            std::chrono::duration_cast<std::chrono::nanoseconds>(time - steady_).count()};
  }
  const std::chrono::steady_clock::time_point steady_ = std::chrono::steady_clock::now();
  const std::int64_t unix_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                    std::chrono::system_clock::now().time_since_epoch())
                                    .count();
};

std::int64_t resident_bytes(const std::string& process) {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/" + process + "/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::uint64_t seed_of(const std::string& uid, std::uint64_t salt) {
  return Digester().add(uid).add(salt).finish().low;
}

}  // namespace

class Runtime::Impl {
 public:
  Impl(HostOptions options, std::unique_ptr<DataFolder> folder)
      : options_(std::move(options)),
        folder_(std::move(folder)),
        inputs_(std::make_shared<InputQueue>()),
        core_(core_options()),
        checkpoints_(std::make_unique<CheckpointWorker>(options_.coordinator, poster())) {}

  ~Impl() {
    inputs_->close();
    processes_.clear();
    logs_.reset();
    link_.reset();
  }

  Status listen() {
    auto server = TrainerServer::start(folder_->socket_path(), options_.trainer_ping, poster());
    if (!server.ok()) return server.error();
    server_ = std::move(server).value();
    return {};
  }

  ExitProcess run() {
    spdlog::info("agent {} ({}) on {}, {} device(s), data in {}", options_.core.name,
                 folder_->uid(), options_.core.host, options_.core.devices.size(), folder_->path());
    step(Booted{});
    while (!exit_) {
      const auto input = inputs_->take(clock_.when(wake_at()));
      step(input ? *input : Input(Tick{}));
      if (!exit_ && clock_.now() >= measure_at_) measure_memory();
    }
    return *exit_;
  }

  void stop() { inputs_->post(StopRequested{}); }

 private:
  // Shared with threads that may outlive this object by a moment.
  std::function<void(Input)> poster() {
    return [queue = inputs_](Input input) { queue->post(std::move(input)); };
  }

  Options core_options() {
    Options core = options_.core;
    core.uid = folder_->uid();
    core.data_dir = folder_->path();
    core.seed = seed_of(core.uid, static_cast<std::uint64_t>(clock_.now().ns));
    return core;
  }

  Instant wake_at() const {
    const auto deadline = core_.next_deadline();
    return deadline ? std::min(*deadline, measure_at_) : measure_at_;
  }

  void step(const Input& input) {
    log(input);
    open_logs(input);
    Effects effects;
    core_.step(clock_.now(), input, effects);
    for (const Effect& effect : effects) {
      std::visit([this](const auto& each) { perform(each); }, effect);
    }
  }

  void measure_memory() {
    std::int64_t bytes = resident_bytes("self");
    for (const auto& [id, process] : processes_)
      bytes += resident_bytes(std::to_string(process->pid()));
    measure_at_ = clock_.now() + kMemoryEvery;
    step(MemoryMeasured{Bytes(bytes)});
  }

  // To the terminal and to the journal.
  void note(LogLevel level, ReplicaId replica, const std::string& text) {
    static constexpr spdlog::level::level_enum kLevels[] = {
        spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
    spdlog::log(kLevels[static_cast<int>(level)], "{}", text);
    journal_.add(level, "agent", replica, text);
  }

  void log(const Input& input) {
    const Overloaded visitor{
        [this](const LinkDown& i) {
          const bool final = i.error.code == Code::kUnauthenticated ||  // told once, at the end
                             i.error.code == Code::kPermissionDenied ||
                             i.error.code == Code::kIncompatible;
          if (!final) note(LogLevel::kWarning, {}, "no session: " + to_string(i.error));
        },
        [this](const CoordinatorSaid& i) { log_said(i.message); },
        [this](const TrainerAttached& i) {
          note(LogLevel::kInfo, {},
               fmt::format("trainer {} of device {} is ready at {}: {}", i.trainer.slot,
                           i.ready.device.index, i.ready.peer_address, i.ready.libraries));
        },
        [this](const TrainerSaid& i) {
          if (const auto* f = std::get_if<ReplicaFailed>(&i.message)) {
            note(LogLevel::kWarning, f->replica,
                 fmt::format("{} failed: {} {}", to_string(f->replica), to_string(f->failure),
                             f->detail));
          }
        },
        [this](const TrainerExited& i) {
          const bool in_order = i.exit.code == 0 && i.exit.signal == 0;
          note(in_order ? LogLevel::kInfo : LogLevel::kWarning, replica_on(i.trainer.slot),
               fmt::format("trainer {} ended, code {}, signal {}{}{}", i.trainer.slot, i.exit.code,
                           i.exit.signal, i.exit.last_line.empty() ? "" : ": ", i.exit.last_line));
        },
        [this](const CheckpointFetchFailed& i) {
          note(LogLevel::kWarning, {},
               fmt::format("{} not fetched: {}", to_string(i.part.checkpoint), to_string(i.error)));
        },
        [this](const CheckpointUploadFailed& i) {
          // Most often it is stored, and the word of that came before the answer.
          const bool broken_off = i.error.code == Code::kCancelled;
          note(
              broken_off ? LogLevel::kDebug : LogLevel::kWarning, {},
              fmt::format("{} not uploaded: {}", to_string(i.part.checkpoint), to_string(i.error)));
        },
        [this](const StopRequested&) { note(LogLevel::kInfo, {}, "asked to stop"); },
        [](const auto&) {},
    };
    std::visit(visitor, input);
  }

  void log_said(const ToAgent& message) {
    if (const auto* w = std::get_if<Welcome>(&message)) {
      note(LogLevel::kInfo, {},
           fmt::format("joined as {}, incarnation {}", to_string(w->agent), w->incarnation.n));
    } else if (const auto* a = std::get_if<Assign>(&message)) {
      note(LogLevel::kInfo, a->replica,
           fmt::format("{} of job {} assigned to device {}", to_string(a->replica), a->spec.name,
                       a->device));
    } else if (const auto* r = std::get_if<Release>(&message)) {
      note(LogLevel::kInfo, r->replica,
           fmt::format("{} released: {}", to_string(r->replica), to_string(r->reason)));
    }
  }

  // What the coordinator may ask from now on; the next session begins anew.
  void open_logs(const Input& input) {
    const auto* said = std::get_if<CoordinatorSaid>(&input);
    const auto* welcome = said == nullptr ? nullptr : std::get_if<Welcome>(&said->message);
    if (welcome == nullptr || link_ == nullptr || link_->id() != said->link) return;
    logs_ = std::make_unique<LogAnswers>(link_->channel(), options_.coordinator.token,
                                         welcome->agent, journal_);
  }

  ReplicaId replica_on(std::int32_t slot) const {
    const auto known = replica_of_.find(slot);
    return known == replica_of_.end() ? ReplicaId() : ReplicaId(known->second->load());
  }

  // Lines of a trainer are about the replica that it was last given.
  std::function<void(std::string_view)> journal_of(std::int32_t slot) {
    auto replica = std::make_shared<std::atomic<std::uint64_t>>(0);
    replica_of_[slot] = replica;
    return [this, replica, source = "trainer-" + std::to_string(slot)](std::string_view line) {
      const LogLevel level = take_level(line);
      journal_.add(level, source, ReplicaId(replica->load()), line);
    };
  }

  // ---- effects
  void perform(const OpenLink& effect) {
    logs_.reset();
    link_ = std::make_unique<CoordinatorLink>(options_.coordinator, effect.link, effect.hello,
                                              poster());
  }
  void perform(const CloseLink& effect) {
    if (link_ == nullptr || link_->id() != effect.link) return;
    logs_.reset();
    link_.reset();
  }
  void perform(const SendCoordinator& effect) {
    if (link_ != nullptr && link_->id() == effect.link) link_->send(effect.message);
  }

  void perform(const StartTrainer& effect) {
    const TrainerId id = effect.trainer;
    processes_.erase(id.slot);  // has ended, or the core would not start another
    server_->expect(id);
    const auto environment = trainer_environment(effect);
    auto process = environment.ok() ? TrainerProcess::start(
                                          {options_.trainer, *environment, journal_of(id.slot)},
                                          [post = poster(), id](ProcessExit exit) {
                                            post(TrainerExited{id, std::move(exit)});
                                          })
                                    : Result<std::unique_ptr<TrainerProcess>>(environment.error());
    if (process.ok()) {
      processes_[id.slot] = std::move(process).value();
    } else {
      inputs_->post(TrainerExited{id, {127, 0, to_string(process.error())}});
    }
  }
  void perform(const KillTrainer& effect) {
    const std::int32_t slot = effect.trainer.slot;
    if (!effect.because.empty()) {
      note(LogLevel::kWarning, replica_on(slot),
           fmt::format("trainer {} is killed: {}", slot, effect.because));
    }
    const auto process = processes_.find(slot);
    if (process != processes_.end()) process->second->kill(effect.hard);
  }
  void perform(const SendTrainer& effect) {
    const auto* load = std::get_if<LoadReplica>(&effect.message);
    const auto replica = replica_of_.find(effect.trainer.slot);
    if (load != nullptr && replica != replica_of_.end())
      replica->second->store(load->assign.replica.n);
    server_->send(effect.trainer, effect.message);
  }

  void perform(const FetchCheckpoint& effect) { checkpoints_->fetch(effect); }
  void perform(const HashCheckpoint& effect) { checkpoints_->hash(effect); }
  void perform(const UploadCheckpoint& effect) { checkpoints_->upload(effect); }
  void perform(const DeleteCheckpointFolder& effect) { checkpoints_->remove(effect); }
  void perform(const ExitProcess& effect) { exit_ = effect; }

  // A further trainer of a device gets its part of the device's threads.
  Result<std::vector<std::string>> trainer_environment(const StartTrainer& effect) {
    const TrainerId id = effect.trainer;
    const Device& device = options_.core.devices[static_cast<std::size_t>(effect.device)];
    const std::string listen_host = listen_host_for(options_.core.host);
    std::vector<int> taken;
    for (const auto& [other, port] : ports_) {
      if (other != id.slot) taken.push_back(port);
    }
    const auto port =
        free_port(options_.peer_ports, listen_host, taken, seed_of(folder_->uid(), id.generation));
    if (!port.ok()) return port.error();
    ports_[id.slot] = *port;
    const std::string threads = std::to_string(std::max(1, options_.threads / (effect.beside + 1)));
    return std::vector<std::string>{"SHOAL_TRAINER_SOCKET=" + folder_->socket_path(),
                                    "SHOAL_TRAINER_SLOT=" + std::to_string(id.slot),
                                    "SHOAL_TRAINER_DEVICE=" + std::to_string(effect.device),
                                    std::string("SHOAL_TRAINER_KIND=") + to_string(device.kind),
                                    "SHOAL_TRAINER_THREADS=" + threads,
                                    "SHOAL_TRAINER_CELL=" + std::to_string(options_.cell),
                                    "SHOAL_TRAINER_SPEED=" + std::to_string(options_.speed),
                                    "SHOAL_TRAINER_LINK=" + options_.emulated_link,
                                    "SHOAL_TRAINER_BIND=" + join_address(listen_host, *port),
                                    "SHOAL_TRAINER_HOST=" + options_.core.host,
                                    "OPENBLAS_NUM_THREADS=" + threads,
                                    "OMP_NUM_THREADS=" + threads,
                                    "CUDA_DEVICE_ORDER=PCI_BUS_ID"};  // the order of NVML
  }

  const HostOptions options_;
  const std::unique_ptr<DataFolder> folder_;
  const Clock clock_;
  Journal journal_{folder_->journal_path(), [this] { return clock_.now(); }};
  const std::shared_ptr<InputQueue> inputs_;
  Agent core_;
  std::unique_ptr<CheckpointWorker> checkpoints_;
  std::unique_ptr<TrainerServer> server_;
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<LogAnswers> logs_;
  std::map<std::int32_t, std::shared_ptr<std::atomic<std::uint64_t>>> replica_of_;  // by slot
  std::map<std::int32_t, std::unique_ptr<TrainerProcess>> processes_;
  std::map<std::int32_t, int> ports_;  // given to the trainer of each slot
  Instant measure_at_ = clock_.now();
  std::optional<ExitProcess> exit_;
};

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() = default;

Result<std::unique_ptr<Runtime>> Runtime::open(HostOptions options) {
  if (access(options.trainer.c_str(), X_OK) != 0) {
    return Error{Code::kNotFound, "there is no program " + options.trainer, "--trainer",
                 "give the path of shoal-trainer"};
  }
  auto folder = DataFolder::open(options.data_dir);
  if (!folder.ok()) return folder.error();
  auto impl = std::make_unique<Impl>(std::move(options), std::move(folder).value());
  if (Status listening = impl->listen(); !listening.ok()) return listening.error();
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

ExitProcess Runtime::run() { return impl_->run(); }
void Runtime::stop() { impl_->stop(); }

}  // namespace shoal::agent
