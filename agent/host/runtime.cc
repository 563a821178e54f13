#include "agent/host/runtime.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "agent/host/checkpoint_worker.h"
#include "agent/host/code_store.h"
#include "agent/host/data_cache.h"
#include "agent/host/data_folder.h"
#include "agent/host/data_readers.h"
#include "agent/host/device_numbers.h"
#include "agent/host/device_samples.h"
#include "agent/host/host_meters.h"
#include "agent/host/input_queue.h"
#include "agent/host/journal.h"
#include "agent/host/log_answers.h"
#include "agent/host/membership.h"
#include "agent/host/metrics_page.h"
#include "agent/host/roster.h"
#include "agent/host/stop_limit.h"
#include "agent/host/trainer_processes.h"
#include "agent/host/trainer_server.h"
#include "base/digest.h"
#include "base/overloaded.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

std::string how(const ProcessExit& exit) {
  return exit.known ? fmt::format(", code {}, signal {}", exit.code, exit.signal) : "";
}

// Trainers that are left end by themselves (--orphan-limit-s).
void end_without(const std::string& hangs) {
  spdlog::critical("this agent ends without waiting any longer for {}, which hangs", hangs);
  spdlog::default_logger()->flush();
  _exit(1);
}

// A processor has none of its own.
std::vector<Device> with_uuids(std::vector<Device> devices, const std::string& uid) {
  for (Device& device : devices) {
    if (device.uuid.empty() && device.kind != DeviceKind::kCuda)
      device.uuid = "cpu-" + uid + "-" + std::to_string(device.index);
  }
  return devices;
}

std::uint64_t seed_of(const std::string& uid, std::uint64_t salt) {
  return Digester().add(uid).add(salt).finish().low;
}

// Null: nothing scrapes this agent.
Result<std::unique_ptr<MetricsPage>> open_page(const std::string& bind, const HostMeters& meters) {
  if (bind.empty()) return std::unique_ptr<MetricsPage>();
  return MetricsPage::open(bind, meters.registry());
}

}  // namespace

class Runtime::Impl {
 public:
  Impl(HostOptions options, std::unique_ptr<DataFolder> folder,
       std::shared_ptr<const ProgramCgroups> cgroups, std::shared_ptr<Membership> membership,
       std::shared_ptr<HostMeters> meters, std::unique_ptr<MetricsPage> page)
      : options_(std::move(options)),
        meters_(std::move(meters)),
        page_(std::move(page)),
        folder_(std::move(folder)),
        membership_(std::move(membership)),
        inputs_(std::make_shared<InputQueue>()),
        core_(core_options()),
        checkpoints_(std::make_unique<CheckpointWorker>(
            options_.coordinator, options_.core.transfer_limit, poster(), options_.program_user,
            options_.data_reach.proxy)),
        codes_(std::make_unique<CodeStore>(
            folder_->path(), read_from(options_.coordinator, options_.core.transfer_limit),
            poster())) {
    if (options_.relay && membership_) {
      relay_ = std::make_unique<RelayHost>(*options_.relay, membership_);
    }
    trainers_ = std::make_unique<TrainerProcesses>(
        options_, *folder_, std::move(cgroups),
        TrainerProcesses::Outside{
            poster(), [this](std::int32_t slot) { return journal_of(slot); },
            [this](LogLevel level, const std::string& text) { note(level, {}, text); },
            [meters = meters_](Bytes lost) { meters->output_left_out(lost); }});
  }

  // Each part joins its threads.
  ~Impl() {
    stop_limit_.begin(options_.end_limit);
    inputs_->close();
    stop_limit_.waits_for("the driver of a GPU");
    samples_.reset();
    stop_limit_.waits_for("a trainer");
    trainers_.reset();
    stop_limit_.waits_for("the session with the coordinator");
    logs_.reset();
    link_.reset();
    stop_limit_.waits_for("an answer to a trainer");
    server_.reset();
    readers_.reset();
    stop_limit_.waits_for("a fetch of code");
    codes_.reset();
    stop_limit_.waits_for("the transfer of " + checkpoints_->works_on());
    checkpoints_.reset();
    stop_limit_.waits_for("its relay");
    relay_.reset();
    stop_limit_.waits_for("a scrape of its metrics");
    page_.reset();
  }

  Status listen() {
    std::vector<ExpectedTrainer> expected;
    for (const RosterEntry& entry : trainers_->find_left()) {
      const ReplicaId replica = entry.identity ? entry.identity->replica : ReplicaId();
      expected.push_back({entry.trainer, entry.nonce, replica});
      left_.push_back({entry.trainer, entry.device, entry.identity});
    }
    auto server =
        TrainerServer::start(folder_->socket_path(), options_.trainer_ping, expected, poster());
    if (!server.ok()) {
      trainers_->leave();
      return server.error();
    }
    server_ = std::move(server).value();
    if (options_.program_user) {
      if (Status s = let_write(folder_->socket_path(), *options_.program_user); !s.ok()) return s;
    }
    return open_data();
  }

  ExitProcess run() {
    spdlog::info("agent {} ({}) on {}, {} device(s), data in {}", options_.core.name,
                 folder_->uid(), options_.core.host,
                 options_.core.devices.size() - options_.core.vacant.size(), folder_->path());
    if (page_) spdlog::info("metrics on http://{}/metrics", page_->address());
    samples_ = std::make_unique<DeviceSamples>(
        options_, devices_, trainers_->leaders(),
        [this](LogLevel level, const std::string& text) { note(level, {}, text); });
    measure_memory();  // the first Hello has it
    step(Booted{left_});
    while (!exit_) {
      const auto input = inputs_->take(clock_.steady(wake_at()));
      step(input ? *input : Input(Tick{}));
      if (!exit_ && clock_.now() >= measure_at_) measure_memory();
      if (options_.on_turn) options_.on_turn();
    }
    if (exit_->leaves_trainers) trainers_->leave();
    return *exit_;
  }

  std::string metrics_address() const { return page_ ? page_->address() : std::string(); }

  void stop() {
    const bool at_once = stop_asked_.exchange(true);
    stop_limit_.begin(options_.end_limit + (at_once ? Duration() : options_.core.drain_limit));
    inputs_->post(StopRequested{});
  }
  void hand_over() {
    stop_limit_.begin(options_.end_limit);
    inputs_->post(HandOverRequested{});
  }

 private:
  // What trainers read of datasets goes through this host's cache.
  Status open_data() {
    auto cache = DataCache::open(folder_->data_cache_path(), options_.data_cache);
    if (!cache.ok()) return cache.error();
    data_cache_ = std::move(cache).value();
    readers_ = std::make_unique<DataReaders>(
        *data_cache_, options_.coordinator, options_.data_reach,
        [meters = meters_](Bytes fetched) { meters->dataset_read(fetched); });
    server_->read_data_with(
        [this](ReplicaId replica, const v1::ReadDataRequest& asked, DataReaders::Done done) {
          readers_->read(replica, asked.manifest(), asked.shard(), asked.chunk(), std::move(done));
        },
        [this] { readers_->stop(); });
    return {};
  }

  // Shared with threads that may outlive this object by a moment.
  std::function<void(Input)> poster() {
    return [queue = inputs_](Input input) { queue->post(std::move(input)); };
  }

  Options core_options() {
    Options core = options_.core;
    core.uid = folder_->uid();
    core.devices = devices_;
    core.data_dir = folder_->path();
    core.seed = seed_of(core.uid, static_cast<std::uint64_t>(clock_.now().ns));
    return core;
  }

  Instant wake_at() const {
    const auto deadline = core_.next_deadline();
    return deadline ? std::min(*deadline, measure_at_) : measure_at_;
  }

  void step(Input input) {
    explain(input);
    note_work(input);
    log(input);
    open_logs(input);
    meters_->observe(input);
    Effects effects;
    core_.step(clock_.now(), input, effects);
    for (const Effect& effect : effects) {
      meters_->observe(effect);
      std::visit([this](const auto& each) { perform(each); }, effect);
    }
  }

  // gRPC does not say what is wrong with a certificate.
  void explain(Input& input) {
    heard_ = heard_ || std::holds_alternative<CoordinatorSaid>(input);
    auto* down = std::get_if<LinkDown>(&input);
    const bool asks = down != nullptr && link_ != nullptr && link_->id() == down->link && !heard_ &&
                      !stopping_ && down->error.code == Code::kUnavailable &&
                      membership_ != nullptr;
    if (!asks) return;
    if (auto fault = membership_->fault()) down->error = *std::move(fault);
  }

  void measure_memory() {
    measure_at_ = clock_.now() + options_.measure_every;
    if (relay_) (void)relay_->refresh();  // it runs; opening a link tells when it cannot
    const Bytes own = resident_bytes("self");
    const std::map<std::int32_t, Bytes> trainers = trainers_->resident();
    meters_->measured(own, trainers);
    Bytes sum = own;
    for (const auto& [slot, bytes] : trainers) sum += bytes;
    HostMeasured measured{sum, relay_ ? relay_->figures() : std::nullopt};
    samples_->add_to(measured, trainers_->leaders(), clock_.now());
    step(std::move(measured));
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
          if (final || stopping_) return;  // a stopping agent hangs up
          note(LogLevel::kWarning, {}, "no session: " + to_string(i.error));
        },
        [this](const CoordinatorSaid& i) { log_said(i.message); },
        [this](const TrainerAttached& i) {
          note(LogLevel::kInfo, {},
               fmt::format("trainer {} of device {} is ready at {}: {}{}", i.trainer.slot,
                           i.ready.device.index, i.ready.peer_address, i.ready.libraries,
                           i.ready.holds ? ", works on " + to_string(i.ready.holds->replica) : ""));
        },
        [this](const TrainerSaid& i) {
          if (const auto* f = std::get_if<ReplicaFailed>(&i.message)) {
            note(LogLevel::kWarning, f->replica,
                 fmt::format("{} failed: {} {}", to_string(f->replica), to_string(f->failure),
                             f->detail));
          }
        },
        [this](const TrainerOverstepped& i) {
          if (std::exchange(overstepped_[i.trainer.slot], i.trainer) == i.trainer) return;
          note(LogLevel::kWarning, replica_on(i.trainer.slot),
               fmt::format("trainer {} asked for the certificate of {}, which it is not: refused",
                           i.trainer.slot, to_string(i.asked)));
        },
        [this](const TrainerExited& i) {
          const bool in_order = i.exit.code == 0 && i.exit.signal == 0;
          if (in_order) {  // its last line may be an old one, of something that it outlived
            return note(
                LogLevel::kInfo, replica_on(i.trainer.slot),
                fmt::format("trainer {} ended{}", i.trainer.slot, i.exit.known ? " normally" : ""));
          }
          note(LogLevel::kWarning, replica_on(i.trainer.slot),
               fmt::format("trainer {} ended{}{}{}", i.trainer.slot, how(i.exit),
                           i.exit.last_line.empty() ? "" : ": ", i.exit.last_line));
        },
        [this](const CheckpointFetchFailed& i) {
          note(LogLevel::kWarning, {},
               fmt::format("{} not fetched: {}", to_string(i.part.checkpoint), to_string(i.error)));
        },
        [this](const CodeFetchFailed& i) {
          note(LogLevel::kWarning, {},
               fmt::format("{} not fetched: {}", i.code, to_string(i.error)));
        },
        [this](const CheckpointUploadFailed& i) {
          // The checkpoint is usually stored, and that news came before the answer.
          const bool cancelled = i.error.code == Code::kCancelled;
          note(
              cancelled ? LogLevel::kDebug : LogLevel::kWarning, {},
              fmt::format("{} not uploaded: {}", to_string(i.part.checkpoint), to_string(i.error)));
        },
        [this](const StopRequested&) {
          if (!stopping_) note(LogLevel::kInfo, {}, "asked to stop");
          stopping_ = true;
        },
        [this](const HandOverRequested&) {
          note(LogLevel::kInfo, {}, "asked to end and to leave its trainers to the next start");
        },
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
           fmt::format("{} of job {} assigned to device {}", to_string(a->replica), job_name(*a),
                       a->device));
    } else if (const auto* r = std::get_if<Release>(&message)) {
      note(LogLevel::kInfo, r->replica,
           fmt::format("{} released: {}", to_string(r->replica), to_string(r->reason)));
    }
  }

  // What the coordinator may ask from now on; the next session starts over.
  void open_logs(const Input& input) {
    const auto* said = std::get_if<CoordinatorSaid>(&input);
    const auto* welcome = said == nullptr ? nullptr : std::get_if<Welcome>(&said->message);
    if (welcome == nullptr || link_ == nullptr || link_->id() != said->link) return;
    logs_ = std::make_unique<LogAnswers>(link_->channel(), welcome->agent, journal_);
    server_->certify_over(link_->channel());
  }

  // Lines of a trainer are about the replica that it was last given, maybe by an earlier start.
  void note_work(const Input& input) {
    const auto* attached = std::get_if<TrainerAttached>(&input);
    if (attached == nullptr || !attached->ready.holds) return;
    const auto replica = replica_of_.find(attached->trainer.slot);
    if (replica != replica_of_.end()) replica->second->store(attached->ready.holds->replica.n);
  }

  ReplicaId replica_on(std::int32_t slot) const {
    const auto known = replica_of_.find(slot);
    return known == replica_of_.end() ? ReplicaId() : ReplicaId(known->second->load());
  }

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
    link_.reset();
    heard_ = false;
    if (membership_ != nullptr) {
      if (Status member = membership_->ensure(); !member.ok())
        return inputs_->post(LinkDown{effect.link, member.error()});
    }
    Hello hello = effect.hello;
    if (relay_ != nullptr) {
      if (Status relays = relay_->refresh(); !relays.ok())
        return inputs_->post(LinkDown{effect.link, relays.error()});
      hello.relay = relay_->address();
    }
    link_ = std::make_unique<CoordinatorLink>(options_.coordinator, effect.link, hello, poster(),
                                              [this](const std::vector<AgentId>& agents) {
                                                server_->revoke(agents);
                                                if (relay_ != nullptr) relay_->revoke(agents);
                                              });
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
    const std::string nonce = random_hex();
    const ReplicaId own = effect.identity.replica;
    server_->expect({effect.trainer, nonce, own});
    trainers_->start(effect, nonce);
    // What a program prints before it attaches, or instead, is about its replica.
    const auto replica = replica_of_.find(effect.trainer.slot);
    if (own && replica != replica_of_.end()) replica->second->store(own.n);
  }
  // The list comes first: what it does not say, no later start of this agent believes.
  void perform(const IdentifyTrainer& effect) {
    trainers_->identify(effect);
    server_->identify(effect.trainer, effect.identity.replica);
  }
  void perform(const KillTrainer& effect) {
    const std::int32_t slot = effect.trainer.slot;
    if (!effect.because.empty()) {
      note(LogLevel::kWarning, replica_on(slot),
           fmt::format("trainer {} is killed: {}", slot, effect.because));
    }
    trainers_->kill(slot, effect.hard);
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
  void perform(const FetchCode& effect) { codes_->fetch(effect); }
  void perform(const ExitProcess& effect) { exit_ = effect; }

  const HostOptions options_;
  const std::shared_ptr<HostMeters> meters_;
  std::unique_ptr<MetricsPage> page_;  // null: nothing scrapes this agent
  StopLimit stop_limit_{options_.hangs ? options_.hangs : StopLimit::Expired(end_without)};
  std::atomic<bool> stop_asked_ = false;
  const std::unique_ptr<DataFolder> folder_;
  const std::shared_ptr<Membership> membership_;  // null: a test brings credentials
  std::unique_ptr<RelayHost> relay_;              // null: this agent does not relay
  const UnixClock clock_;
  Journal journal_{folder_->journal_path(), [this] { return clock_.now(); }};
  const std::shared_ptr<InputQueue> inputs_;
  const std::vector<Device> devices_ = with_uuids(options_.core.devices, folder_->uid());
  Agent core_;
  std::unique_ptr<CheckpointWorker> checkpoints_;
  std::unique_ptr<CodeStore> codes_;
  std::unique_ptr<DataCache> data_cache_;
  std::unique_ptr<DataReaders> readers_;
  std::unique_ptr<TrainerServer> server_;
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<LogAnswers> logs_;
  std::map<std::int32_t, std::shared_ptr<std::atomic<std::uint64_t>>> replica_of_;  // by slot
  std::map<std::int32_t, TrainerId> overstepped_;  // processes of which that was logged, by slot
  std::unique_ptr<TrainerProcesses> trainers_;
  std::vector<LeftTrainer> left_;  // by the last start
  Instant measure_at_ = clock_.now();
  std::unique_ptr<DeviceSamples> samples_;  // of run()
  bool heard_ = false;                      // anything on this link
  bool stopping_ = false;                   // told once, and the noise of stopping is no news
  std::optional<ExitProcess> exit_;
};

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() = default;

Result<std::unique_ptr<Runtime>> Runtime::open(HostOptions options) {
  if (!options.core.only_relays && access(options.trainer.c_str(), X_OK) != 0) {
    return Error{Code::kNotFound, "there is no program " + options.trainer, "--trainer",
                 "give the path of shoal-trainer"};
  }
  if (options.relay) {
    if (Status relay = check_relay(*options.relay); !relay.ok()) return relay.error();
  }
  auto folder = DataFolder::open(options.data_dir);
  if (!folder.ok()) return folder.error();
  if (const auto roster = read_roster((*folder)->roster_path()); roster.ok())
    keep_numbers(options, *roster);
  auto meters = std::make_shared<HostMeters>(options.core.version);
  auto page = open_page(options.metrics, *meters);
  if (!page.ok()) return page.error();
  if (options.program_user) {
    if (Status in = (*folder)->let_in(*options.program_user); !in.ok()) return in.error();
    // This does not stop the agent: it has other work, and the port can be opened while it runs.
    const Status reach = check_reach((*folder)->path(), *options.program_user);
    if (!reach.ok()) spdlog::warn("uploaded code will fail: {}", to_string(reach.error()));
  }
  std::shared_ptr<Membership> membership;
  if (!options.coordinator.credentials) {
    auto opened = Membership::open({.folder = (*folder)->path(),
                                    .uid = (*folder)->uid(),
                                    .name = options.core.name,
                                    .join_token = options.join_token,
                                    .enrol = options.enrol,
                                    .coordinator = options.coordinator.address});
    if (!opened.ok()) return opened.error();
    membership = std::move(opened).value();
    options.coordinator.credentials = [membership] { return membership->credentials(); };
  }
  std::shared_ptr<const ProgramCgroups> cgroups;
  if (!options.program_cgroup.empty()) {
    auto opened = ProgramCgroups::open(options.program_cgroup, options.program_bounds);
    if (!opened.ok()) return opened.error();
    cgroups = std::move(opened).value();
  }
  auto impl =
      std::make_unique<Impl>(std::move(options), std::move(folder).value(), std::move(cgroups),
                             std::move(membership), std::move(meters), std::move(page).value());
  if (Status listening = impl->listen(); !listening.ok()) return listening.error();
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

ExitProcess Runtime::run() { return impl_->run(); }
void Runtime::stop() { impl_->stop(); }
void Runtime::hand_over() { impl_->hand_over(); }
std::string Runtime::metrics_address() const { return impl_->metrics_address(); }

}  // namespace shoal::agent
