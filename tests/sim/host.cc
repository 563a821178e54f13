// Driving the agent's core: see host.h.
#include "tests/sim/host.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "tests/sim/bits.h"
#include "tests/sim/checkpoint_entries.h"
#include "tests/sim/describe.h"

namespace shoal::sim {

using namespace agent;

namespace {

constexpr Duration kPipe = microseconds(200);
constexpr Bytes kDeviceMemory = mebibytes(1024);
constexpr Duration kDialEvery = milliseconds(200);  // as agent_channel/control.h
constexpr Duration kExitSeen = milliseconds(5);     // until the daemon has waited for the process

std::string uuid_of(int host, std::int32_t device) {
  return "GPU-" + std::to_string(host) + "-" + std::to_string(device);
}

// The values of the next stage.
void append(replica::OuterState& all, const replica::OuterState& next) {
  const auto add = [](std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  add(all.anchor, next.anchor);
  for (std::size_t i = 0; i < all.vectors.size(); ++i) {
    add(all.vectors[i].values, next.vectors.at(i).values);
  }
}

}  // namespace

Host::Host(Sim& sim, Network& network, PeerNetwork& peers, CoordinatorProcess& coordinator,
           int index)
    : sim_(sim),
      network_(network),
      peers_(peers),
      coordinator_(coordinator),
      process_(sim.queue),
      prng_(sim.prng_for(0x4057 + static_cast<std::uint64_t>(index))),
      index_(index),
      name_("host-" + std::to_string(index)) {
  const int devices = sim.options.is_reducer(index) ? 1 : sim.options.devices_per_host;
  for (int device = 0; device < devices; ++device) {
    trainers_.push_back(std::make_unique<Trainer>(sim, peers, *this, index, device));
  }
}

Options Host::options() const {
  Options o = sim_.options.agent;
  o.uid = uid_;
  o.name = name_;
  o.version = "0.1.0";
  o.host = o.name;
  o.data_dir = "/data";
  o.seed = mix_seed(sim_.options.seed, 0xa6e7 + life_ * 64 + static_cast<std::uint64_t>(index_));
  if (sim_.options.is_reducer(index_)) {
    o.devices = {reducing_device()};
    return o;
  }
  for (int device = 0; device < sim_.options.devices_per_host; ++device) {
    Device d;
    d.index = device;
    d.name = "simulated";
    d.memory = kDeviceMemory;
    d.gflops = 10 + index_;
    d.uuid = uuid_of(index_, device);
    o.devices.push_back(d);
  }
  return o;
}

// ---- life

void Host::boot() {
  if (process_.alive()) return;
  ++life_;
  if (uid_.empty()) {
    uid_ =
        to_hex(Digest{mix_seed(sim_.options.seed, life_), static_cast<std::uint64_t>(index_) + 1});
  }
  process_.start();
  core_ = std::make_unique<Agent>(options());
  sim_.log("A host " + std::to_string(index_) + " boots");
  input(Booted{left_trainers()});
}

// They dial until somebody answers.
std::vector<LeftTrainer> Host::left_trainers() {
  std::vector<LeftTrainer> left;
  for (const auto& trainer : trainers_) {
    if (!trainer->alive()) continue;
    const std::int32_t slot = trainer->id().slot;
    left.push_back({trainer->id(), devices_.at(slot), identities_.at(slot)});
    trainer->find_agent(Duration{prng_.range(0, kDialEvery.ns)},
                        [this, life = life_] { return process_.alive() && life_ == life; });
  }
  return left;
}

void Host::end_daemon() {
  collect_transitions();
  process_.kill();
  ++life_;
  core_.reset();
  armed_.reset();
  sick_cards_.clear();  // an agent counts XIDs since it began
  network_.agent_died(*this);
}

void Host::fall_sick(std::int32_t device) {
  sick_cards_.emplace(device, sim_.now());
  if (process_.alive()) later(HostMeasured{Bytes(), {}, samples()});
}

std::vector<DeviceSample> Host::samples() const {
  std::vector<DeviceSample> samples;
  for (const auto& [device, since] : sick_cards_) {
    DeviceErrors errors;
    errors.xids = {{79, 1, sim_.now() - since}};
    samples.push_back({.uuid = uuid_of(index_, device),
                       .answer = DeviceAnswer::kWhole,
                       .errors = std::move(errors)});
  }
  return samples;
}

void Host::kill_daemon() {
  if (!process_.alive()) return;
  end_daemon();
  for (auto& trainer : trainers_) trainer->lose_agent();
  if (on_exit) on_exit();
}

void Host::crash(bool lose_disk) {
  const bool served = process_.alive();
  if (served) end_daemon();
  for (auto& trainer : trainers_) trainer->kill(9);
  if (lose_disk) {
    uid_.clear();
    folders_.clear();
  }
  if (served && on_exit) on_exit();
}

void Host::freeze() {
  frozen_ = true;
  pause();
  for (auto& trainer : trainers_) trainer->pause();
}

void Host::thaw() {
  if (!std::exchange(frozen_, false)) return;
  resume();
  for (auto& trainer : trainers_) trainer->resume();
}

void Host::boot_as(const Host& other) {
  uid_ = other.uid_;
  name_ = other.name_;
  folders_ = other.folders_;
  boot();
}

void Host::unplug() {
  crash(true);
  frozen_ = false;
}

void Host::collect_transitions() {
  if (!core_) return;
  for (const auto& [name, count] : core_->transitions())
    sim_.transitions["agent's " + name] += count;
}

void Host::stop() {
  if (process_.alive()) later(StopRequested{});
}

void Host::exit(const ExitProcess& effect) {
  sim_.log("A host " + std::to_string(index_) + " exits with " + std::to_string(effect.code) +
           ": " + effect.message);
  // The core is in the middle of a step; the process ends after it.
  process_.after(Duration{}, [this] { crash(false); });
}

// ---- inputs

void Host::later(Input input) {
  process_.after(Duration{}, [this, input = std::move(input)] { this->input(input); });
}

// A new session is told everything, so it must be as of now.
void Host::link_up(LinkId link) {
  if (has_sick_card()) later(HostMeasured{Bytes(), {}, samples()});
  later(LinkUp{link});
}
void Host::link_down(LinkId link, const Error& error) { later(LinkDown{link, error}); }
void Host::coordinator_said(LinkId link, const ToAgent& message) {
  later(CoordinatorSaid{link, message});
}
void Host::trainer_attached(TrainerId trainer, const TrainerReady& ready) {
  later(TrainerAttached{trainer, ready});
}
void Host::trainer_said(TrainerId trainer, const FromTrainer& message) {
  process_.after(kPipe, [this, trainer, message] { input(TrainerSaid{trainer, message}); });
}
void Host::trainer_exited(TrainerId trainer, const ProcessExit& exit) {
  sim_.log("T host " + std::to_string(index_) + " trainer " + std::to_string(trainer.slot) +
           " exits");
  process_.after(kExitSeen, [this, trainer, exit] { input(TrainerExited{trainer, exit}); });
}

void Host::input(const Input& input) {
  Effects effects;
  core_->step(sim_.now(), input, effects);
  for (const Effect& effect : effects) perform(effect);
  arm();
}

void Host::arm() {
  const std::optional<Instant> due = core_->next_deadline();
  if (!due || (armed_ && *armed_ <= *due && *armed_ >= sim_.now())) return;
  armed_ = *due;
  process_.at(*due, [this, at = *due] {
    if (armed_ != at) return;
    armed_.reset();
    input(Tick{});
  });
}

// ---- effects

void Host::perform(const Effect& effect) {
  if (const auto* e = std::get_if<OpenLink>(&effect)) return open_link(*e);
  if (const auto* e = std::get_if<CloseLink>(&effect))
    return network_.close_by_agent(*this, e->link);
  if (const auto* e = std::get_if<SendCoordinator>(&effect)) {
    return network_.send_up(*this, e->link, e->message);
  }
  if (const auto* e = std::get_if<StartTrainer>(&effect)) {
    devices_[e->trainer.slot] = e->device;
    identities_[e->trainer.slot] = e->identity;
    return trainer(e->trainer.slot).start(e->trainer.generation);
  }
  if (const auto* e = std::get_if<IdentifyTrainer>(&effect)) {
    identities_[e->trainer.slot] = e->identity;
    return;
  }
  if (const auto* e = std::get_if<KillTrainer>(&effect)) {
    Trainer& told = trainer(e->trainer.slot);
    if (told.generation() == e->trainer.generation) told.kill(e->hard ? 9 : 15);
    return;
  }
  if (const auto* e = std::get_if<SendTrainer>(&effect)) {
    Trainer& told = trainer(e->trainer.slot);
    if (told.generation() == e->trainer.generation && told.alive()) told.command(e->message);
    return;
  }
  if (const auto* e = std::get_if<ExitProcess>(&effect)) return exit(*e);
  perform_files(effect);
}

void Host::open_link(const OpenLink& effect) {
  Hello hello = effect.hello;
  const bool finds = hello.incarnation == Incarnation() && !hello.replicas.empty();
  if (finds && sim_.misbehave(Bug::kForgottenTrainers)) hello.replicas.clear();
  add_false_claim(hello);
  network_.dial(*this, effect.link, hello);
}

// A replica that nobody assigned, in a round far ahead of its job, with the record of a true one.
void Host::add_false_claim(Hello& hello) {
  constexpr std::uint64_t kReplica = std::uint64_t{1} << 40;
  constexpr RoundNumber kAhead = 1000;
  if (!claims_falsely_ || hello.replicas.empty() || hello.replicas.front().key.round < 0) return;
  claims_falsely_ = false;
  HeldReplica claim = hello.replicas.front();
  claim.replica = ReplicaId(kReplica + hello.replicas.front().replica.n);
  claim.key.round += kAhead;
  claim.record.key = claim.key;
  claim.anchor.low ^= 1;
  hello.replicas.push_back(std::move(claim));
  sim_.strike(Fault::kFalseClaim, "of host " + std::to_string(index_));
}

// Trainers of further replicas are made when the agent first starts them.
Trainer& Host::trainer(std::int32_t slot) {
  while (trainers_.size() <= static_cast<std::size_t>(slot)) {
    const int next = static_cast<int>(trainers_.size());
    trainers_.push_back(std::make_unique<Trainer>(sim_, peers_, *this, index_, next));
  }
  return *trainers_[static_cast<std::size_t>(slot)];
}

void Host::perform_files(const Effect& effect) {
  if (const auto* e = std::get_if<FetchCheckpoint>(&effect)) return fetch(*e);
  if (const auto* e = std::get_if<HashCheckpoint>(&effect)) return hash(*e);
  if (const auto* e = std::get_if<UploadCheckpoint>(&effect)) return upload(*e);
  if (const auto* e = std::get_if<DeleteCheckpointFolder>(&effect)) folders_.erase(e->folder);
}

const CheckpointFiles* Host::folder(const std::string& name) const {
  const auto it = folders_.find(name);
  return it == folders_.end() ? nullptr : &it->second;
}

void Host::put_folder(const std::string& name, CheckpointFiles files) {
  folders_[name] = std::move(files);
}

Bytes Host::real_memory(std::int32_t device) const {
  const auto it = short_of_memory_.find(device);
  return it == short_of_memory_.end() ? kDeviceMemory : it->second;
}

void Host::limit_memory(std::int32_t device, Bytes most) {
  short_of_memory_[device] = std::min(most, real_memory(device));
}

double Host::device_speed(std::int32_t device) const {
  const auto it = throttled_.find(device);
  return it != throttled_.end() && sim_.now() < it->second.until ? it->second.share : 1;
}

Duration Host::load_time() const {
  return sim_.now() < slow_loads_until_ ? slow_load_ : sim_.options.load_time;
}

CheckpointFiles Host::on_the_way(CheckpointFiles files, const char* where) {
  if (!sim_.faults_on || !std::exchange(flip_file_, false)) return files;
  sim_.strike(Fault::kFlippedCheckpoint, std::string("on its way ") + where);
  flip_bit(files.state.anchor, prng_.next());
  return files;
}

void Host::fetch(const FetchCheckpoint& effect) {
  process_.after(sim_.options.upload_time, [this, effect] {
    Result<CheckpointFiles> received = receive(effect.part);
    if (!received.ok()) return input(CheckpointFetchFailed{effect.part, received.error()});
    folders_[effect.folder] = std::move(*received);
    input(CheckpointFetched{effect.part});
  });
}

// The part of one stage; for a stage of another cut those of several (swarm.recut), in a row.
Result<CheckpointFiles> Host::receive(const agent::CheckpointPartId& wanted) {
  if (!coordinator_.answers() || network_.blocked(index_)) {
    return Error{Code::kUnavailable, "no such checkpoint", "", ""};
  }
  CheckpointFiles all;
  for (std::int32_t i = 0; i < std::max(1, wanted.parts); ++i) {
    const agent::CheckpointPartId part{wanted.checkpoint, wanted.stage + i};
    const CheckpointFiles* files = coordinator_.files(part);
    if (files == nullptr) return Error{Code::kNotFound, "no such checkpoint", "", ""};
    CheckpointFiles received = on_the_way(*files, "down");
    if (hash_of(received) != coordinator_.announced_hash(part)) {
      return Error{Code::kDataLoss, "the files are not those announced", "", ""};
    }
    i == 0 ? (void)(all = std::move(received)) : append(all.state, received.state);
  }
  return all;
}

void Host::hash(const HashCheckpoint& effect) {
  process_.after(milliseconds(20), [this, effect] {
    const CheckpointFiles* files = folder(effect.folder);
    if (files == nullptr) {
      return input(CheckpointHashFailed{effect.part, {Code::kNotFound, "no such folder", "", ""}});
    }
    if (entries_of(*files) != effect.reported) {
      return input(CheckpointHashFailed{
          effect.part, {Code::kDataLoss, "the files are not those reported", "", ""}});
    }
    std::vector<FileEntry> listed = effect.reported;
    if (sim_.faults_on && std::exchange(shortens_part_, false)) {
      const auto lost = listed.begin() + static_cast<std::ptrdiff_t>(prng_.below(listed.size()));
      sim_.strike(Fault::kShortPart, to_string(effect.part.checkpoint) + " without " + lost->path);
      listed.erase(lost);
    }
    input(CheckpointHashed{effect.part, std::move(listed)});
  });
}

void Host::upload(const UploadCheckpoint& effect) {
  process_.after(sim_.options.upload_time, [this, effect] {
    const CheckpointFiles* files = folder(effect.folder);
    if (fail_upload_ && sim_.faults_on) {
      fail_upload_ = false;
      sim_.strike(Fault::kUploadFailure, to_string(effect.part.checkpoint));
      if (prng_.chance(0.3)) coordinator_.upload_given_up(effect.part);
      return input(CheckpointUploadFailed{effect.part, {Code::kUnavailable, "cut off", "", ""}});
    }
    if (files == nullptr || network_.blocked(index_) ||
        !coordinator_.uploaded(effect.part, on_the_way(*files, "up"), effect.files)) {
      return input(
          CheckpointUploadFailed{effect.part, {Code::kUnavailable, "unreachable", "", ""}});
    }
    process_.after(sim_.options.link_delay,
                   [this, effect] { input(CheckpointUploadDone{effect.part}); });
  });
}

}  // namespace shoal::sim
