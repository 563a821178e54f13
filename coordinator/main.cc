// shoal-coordinator: one per cluster. Opens the store, loads the core, serves agents (gRPC) and
// people (HTTP), and runs until SIGTERM or SIGINT. It owns nothing but the order of starting and
// stopping; the work is in service/.
//
// A write to the store that fails ends the process at once: nothing may be said that is not
// durable, and the folder is sound at the next start. Exit status: 0 stopped as asked, 1 failed, 2
// refused flags.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arguments.h"
#include "coordinator/maintenance.h"
#include "coordinator/service/agent_door.h"
#include "coordinator/service/agent_service.h"
#include "coordinator/service/config.h"
#include "coordinator/service/grpc_log.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/views.h"
#include "coordinator/service/leftovers.h"
#include "coordinator/service/logging.h"
#include "coordinator/service/machines/record_key_file.h"
#include "coordinator/service/otlp/exporter.h"
#include "coordinator/service/otlp/spans.h"
#include "coordinator/service/people/people.h"
#include "coordinator/service/port_probe.h"
#include "coordinator/service/runtime.h"
#include "coordinator/service/shelves/checkpoint_bucket.h"
#include "coordinator/service/store_check.h"
#include "coordinator/service/webhooks/webhook.h"
#include "coordinator/store/telemetry.h"
#include "threads/clock.h"
#include "threads/descriptor_limit.h"
#include "threads/service_manager.h"

namespace shoal::coordinator {
namespace {

constexpr int kExitFailed = 1, kExitRefused = 2;
// Together with the agents' second below five seconds: what starts this process waits that long.
constexpr Duration kHttpStopLimit = seconds(1), kStoreStopLimit = seconds(2);
// The most connections of the HTTP port, fewer where the process may open few files: agents need
// descriptors, too.
constexpr std::int64_t kConnectionsMost = 1'000, kStreamsMost = 200;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

int wait_for_stop_signal() {
  const sigset_t set = stop_signals();
  int signal = 0;
  while (::sigwait(&set, &signal) != 0) {
  }
  return signal;
}

[[noreturn]] void die_of(const Error& error) {
  spdlog::critical("stopping at once, a write to the store failed: {}", to_string(error));
  spdlog::default_logger()->flush();
  ::_exit(kExitFailed);
}

// Written beside and renamed: who polls for the file finds it complete.
Status write_address_file(const Config& config, const std::string& http, const std::string& grpc,
                          const Digest& loaded) {
  const nlohmann::ordered_json content = {{"http", http},
                                          {"grpc", grpc},
                                          {"token_file", config.token_file()},
                                          {"admin_token_file", config.admin_token_file()},
                                          {"pid", ::getpid()},
                                          {"state_digest", to_hex(loaded)}};
  const std::string text = content.dump() + "\n", partial = config.address_file + ".new";
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written =
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) ::close(fd);
  if (written && std::rename(partial.c_str(), config.address_file.c_str()) == 0) return {};
  return Error{.code = Code::kPermissionDenied,
               .message = "cannot write " + config.address_file,
               .field = "--address-file",
               .remedy = "name a file in a folder that this user may write"};
}

RuntimeOptions runtime_options(const Config& config, ServiceManager& manager,
                               const std::shared_ptr<Meters>& meters) {
  return {.core = config.core,
          .checkpoint_root = config.checkpoint_root(),
          .on_fatal = [](const Error& error) { die_of(error); },
          .on_event = [](const EventRecord& event) { log_event(event); },
          .meters = meters,
          .on_turn = [&manager] { manager.alive(); },
          .turn_every = manager.alive_every().value_or(Duration()) / 2};
}

// Says that everything listens; from here on the process is worth talking to.
Status announce(const Config& config, const std::string& http, const std::string& grpc,
                const Digest& loaded) {
  spdlog::info("serving http on {}, agents on {}, data in {}", http, grpc, config.data_dir);
  if (config.insecure_http && !is_loopback(config.http)) {
    spdlog::warn("--insecure-http: tokens may travel in clear to {}", config.http);
  }
  const std::string damaged = config.data_dir + "/telemetry.db" + kSetAsideSuffix;
  if (std::error_code unseen; std::filesystem::exists(damaged, unseen)) {
    spdlog::warn(
        "the charts start again: telemetry.db was damaged or of another version and is now {}; "
        "delete it when you no longer need it",
        damaged);
  }
  if (config.address_file.empty()) return {};
  return write_address_file(config, http, grpc, loaded);
}

// Null: no webhook is set.
Result<std::unique_ptr<Webhook>> start_webhook(const Config& config, Store& store,
                                               const std::shared_ptr<Meters>& meters) {
  if (config.webhook.empty()) return std::unique_ptr<Webhook>();
  return Webhook::start(
      {.url = config.webhook,
       .clear_allowed = config.insecure_http,
       .proxy = config.outbound_proxy,
       .secret_file = config.webhook_secret_file(),
       .position_file = config.webhook_position_file(),
       .severity_min = config.webhook_level,
       .to_json = [](const EventRecord& event) { return rest::event_json(event).dump(); },
       .meters = meters},
      store.reader());
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "coordinator";
}

// Null: checkpoints lie in the data folder.
Result<std::unique_ptr<CheckpointBucket>> open_bucket(const Config& config,
                                                      const std::shared_ptr<Meters>& meters) {
  if (config.checkpoint_store.empty()) return std::unique_ptr<CheckpointBucket>();
  auto location = objects::read_location(config.checkpoint_store, "--checkpoint-store");
  if (!location) return location.error();
  auto credentials =
      objects::CredentialSource::open(config.store_credentials, "--store-credentials");
  if (!credentials) return credentials.error();
  objects::ClientOptions options{
      .reach = {.clear_allowed = config.insecure_http,
                .private_allowed = true,
                .proxy = config.outbound_proxy},
      .patience = {},
      .user_agent = "shoal-coordinator",
      .on_retry = [meters] { meters->outside.object_store_retries.Increment(); }};
  auto bucket = std::make_unique<objects::Bucket>(std::move(*location), std::move(options),
                                                  std::move(*credentials));
  return std::make_unique<CheckpointBucket>(std::move(bucket), config.checkpoint_root(), meters);
}

Result<DataStores> open_data_stores(const Config& config) {
  if (config.data_stores.empty()) return DataStores();
  std::vector<objects::Location> stores;
  for (const std::string& text : config.data_stores) {
    auto store = objects::read_location(text, "--data-store");
    if (!store) return store.error();
    stores.push_back(std::move(*store));
  }
  auto credentials =
      objects::CredentialSource::open(config.store_credentials, "--store-credentials");
  if (!credentials) return credentials.error();
  return DataStores(std::move(stores), std::move(*credentials));
}

// Looks for checkpoints in the object store that the tables do not name. When the store cannot be
// reached, the next start looks.
Status look_into(CheckpointBucket& bucket, Store& store, std::vector<CheckpointRecord>& found) {
  const auto answers = bucket.claim();
  if (!answers) return answers.error();
  auto left = *answers ? look_through(bucket, store)
                       : Result<Leftovers>(Error{Code::kUnavailable, "no answer", "", ""});
  if (!left && bucket.is_silence(left.error())) {
    spdlog::warn("--checkpoint-store does not answer: {}; checkpoints wait until it does",
                 to_string(left.error()));
    return {};
  }
  if (!left) return left.error();
  found.insert(found.end(), left->found.begin(), left->found.end());
  return bucket.prune(left->keep);
}

// Where checkpoints lie, and which the tables do not know.
struct Shelves {
  std::unique_ptr<CheckpointFiles> files;
  std::unique_ptr<CheckpointBucket> bucket;  // null: all lie in `files`
  std::vector<CheckpointRecord> found;
};

Result<Shelves> open_shelves(const Config& config, Store& store,
                             const std::shared_ptr<Meters>& meters) {
  auto files = CheckpointFiles::open(config.checkpoint_root());
  if (!files) return files.error();
  auto left = look_through(**files, store);
  if (!left) return left.error();
  if (const Status pruned = (*files)->prune(left->keep); !pruned) return pruned.error();
  auto bucket = open_bucket(config, meters);
  if (!bucket) return bucket.error();
  if (*bucket) {
    const Status looked = look_into(**bucket, store, left->found);
    if (!looked) return looked.error();
  }
  return Shelves{std::move(*files), std::move(*bucket), std::move(left->found)};
}

Result<std::unique_ptr<AgentService>> start_agents(const Config& config, Machines& machines,
                                                   Refusals& refusals, const Shelves& shelves,
                                                   FileTransfer& files, Runtime& runtime,
                                                   std::size_t descriptors_max) {
  return AgentService::start(
      {.bind = config.grpc,
       .door = make_agent_door(machines, refusals),
       .certify = [&](const identity::ReplicaName& replica,
                      const std::string& request) { return machines.certify(replica, request); },
       .files = &files,
       .revoked = [&] { return machines.recently_revoked(); },
       .transfer_limit = std::chrono::milliseconds(config.core.transfer_limit.ms()),
       .bucket = shelves.bucket.get(),
       .connections = connection_limits_of(descriptors_max),
       .on_refused_connection = [&] { refusals.count(Port::kAgents, RefusalReason::kLimits); }},
      runtime, *shelves.files, runtime.checkpoints_at_start());
}

// Null: no collector is to get telemetry. `served`: the server whose numbers it gets, once it runs.
std::unique_ptr<otlp::Exporter> start_exporter(const Config& config, const std::string& instance,
                                               Store& store, const std::shared_ptr<Meters>& meters,
                                               const std::atomic<HttpServer*>& served) {
  if (config.otlp.empty()) return nullptr;
  const std::shared_ptr<Reader> reader = store.reader();
  return std::make_unique<otlp::Exporter>(otlp::ExporterOptions{
      .url = config.otlp,
      .clear_allowed = config.insecure_http,
      .resource = {config.core.version, instance, host_name()},
      .since = unix_now(),
      .collect = [reader, &served]() -> Result<std::vector<prometheus::MetricFamily>> {
        HttpServer* http = served.load();
        if (http == nullptr) return std::vector<prometheus::MetricFamily>();
        return http->collect_metrics(*reader);
      },
      .meters = meters});
}

Result<std::unique_ptr<HttpServer>> start_http(const Config& config, const std::string& agents,
                                               Machines& machines, People& people, FileStore& files,
                                               const CheckpointBucket* bucket, Refusals& refusals,
                                               const PortProbe& probe, std::size_t descriptors_max,
                                               Cluster& cluster) {
  const auto connections_max = static_cast<std::int64_t>(descriptors_max / 4);
  auto http = HttpServer::start({.bind = config.http,
                                 .clear_allowed = config.insecure_http,
                                 .public_origin = config.public_url,
                                 .host_names = config.host_names,
                                 .agents_address = agents,
                                 .token_file = config.token_file(),
                                 .data_roots = config.data_roots,
                                 .connections_max = std::min(kConnectionsMost, connections_max),
                                 .streams_max = std::min(kStreamsMost, connections_max),
                                 .checkpoints_max = config.core.checkpoints_max,
                                 .drain_limit = kHttpStopLimit,
                                 .machines = &machines,
                                 .people = &people,
                                 .files = &files,
                                 .bucket = bucket,
                                 .agents_port = [&probe] { return probe.status(); },
                                 .refusals = &refusals},
                                cluster);
  if (http) return http;
  Error error = http.error();
  if (error.field == "http.bind") error.field = "--http";
  return error;
}

// Uploaded files, and where else shards of datasets may lie.
struct Uploads {
  std::unique_ptr<FileStore> files;
  DataStores stores;
};

Result<Uploads> open_uploads(const Config& config, Store& store) {
  const auto stores = open_data_stores(config);
  if (!stores) return stores.error();
  const auto check_url = [stores = *stores](const std::string& url) { return stores.check(url); };
  auto files = FileStore::open(
      {.folder = config.file_root(), .each_owner = config.files_each_owner, .check_url = check_url},
      store);
  if (!files) return files.error();
  return Uploads{std::move(*files), *stores};
}

Result<RecordKeyFile> open_record_keys(const Config& config, const Machines& machines,
                                       Store& store) {
  const auto snapshot = store.load();
  if (!snapshot) return snapshot.error();
  return RecordKeyFile::open(config.data_dir, machines.cluster(), *snapshot, machines.now());
}

// What a revocation and a rotation of the CA change elsewhere.
void follow_machines(Machines& machines, AgentService& agents, RecordKeyFile& record_keys,
                     Runtime& runtime) {
  machines.on_revoked([&](AgentId machine) {
    agents.end_sessions_of(machine);
    runtime.command_agent(machine, AgentVerb::kRevoked, [](const Cluster::Answer&) {});
  });
  machines.on_rotated([&] {
    Status rotated = record_keys.rotate(machines.now());
    if (rotated.ok()) runtime.change_record_keys(record_keys.keys());
    return rotated;
  });
}

std::function<void(Instant, const Record&)> spans_to(otlp::Exporter& exporter,
                                                     otlp::SpanMaker& spans) {
  return [&](Instant now, const Record& record) { exporter.add(spans.from(now, record)); };
}

// Everything that listens has stopped when it returns.
void stop(AgentService& agents, HttpServer& http, Runtime& runtime, ServiceManager& manager) {
  manager.stopping();
  agents.stop();
  http.stop();
  if (!runtime.stop(kStoreStopLimit)) spdlog::warn("not everything could be sent before the stop");
}

Status serve(const Config& config, ServiceManager& manager) {
  const std::size_t descriptors_max = raise_descriptor_limit();
  const auto meters = std::make_shared<Meters>();
  auto store = open_store(config.data_dir, config.history, meters);
  if (!store) return store.error();
  auto machines = Machines::open({.folder = config.data_dir,
                                  .given_ca = config.ca,
                                  .hosts = config.host_names,
                                  .certificate_life = config.certificate_life},
                                 **store);
  if (!machines) return machines.error();
  auto people = People::open({.folder = config.data_dir}, **store);
  if (!people) return people.error();
  Refusals refusals(
      [&](AuditRecord record) { (*people)->note(std::move(record), [](const Status&) {}); },
      [&] { return (*people)->now(); }, {}, meters);
  const GrpcLog grpc_log(refusals);
  auto uploads = open_uploads(config, **store);
  if (!uploads) return uploads.error();
  auto shelves = open_shelves(config, **store, meters);
  if (!shelves) return shelves.error();
  const std::string instance = host_name() + ":" + config.data_dir;
  std::atomic<HttpServer*> served{nullptr};
  auto exporter = start_exporter(config, instance, **store, meters, served);
  otlp::SpanMaker spans(instance);
  auto record_keys = open_record_keys(config, **machines, **store);
  if (!record_keys) return record_keys.error();
  RuntimeOptions options = runtime_options(config, manager, meters);
  options.record_keys = record_keys->keys();
  options.found_checkpoints = std::move(shelves->found);
  if (exporter) options.on_record = spans_to(*exporter, spans);
  options.on_decision = [&](const NoteDecision& decision) {
    (*people)->note(audit_of(decision), [](const Status&) {});
  };
  auto runtime = Runtime::create(std::move(options), **store);
  if (!runtime) return runtime.error();
  FileTransfer file_transfer(*uploads->files, **runtime, (*store)->reader(),
                             std::chrono::milliseconds(config.core.transfer_limit.ms()),
                             uploads->stores);
  auto agents = start_agents(config, **machines, refusals, *shelves, file_transfer, **runtime,
                             descriptors_max);
  if (!agents) return agents.error();
  follow_machines(**machines, **agents, *record_keys, **runtime);
  (*machines)->start_upkeep();
  (*people)->start_upkeep();
  auto webhook = start_webhook(config, **store, meters);
  if (!webhook) return webhook.error();
  const auto woken = (*runtime)->on_events([&](std::int64_t) {
    if (*webhook) (*webhook)->wake();
  });
  const PortProbe probe({.address = (*agents)->address(),
                         .roots_file = (*machines)->files().roots,
                         .name = kServerName,
                         .announce = [&](std::uint16_t port) { (*agents)->expect_own(port); }});
  auto http = start_http(config, (*agents)->address(), **machines, **people, *uploads->files,
                         shelves->bucket.get(), refusals, probe, descriptors_max, **runtime);
  if (!http) return http.error();
  served = http->get();
  const Digest loaded = (*runtime)->digest();
  (*runtime)->start(**agents);

  const Status announced = announce(config, (*http)->address(), (*agents)->address(), loaded);
  if (announced.ok()) {
    manager.ready("http on " + (*http)->address() + ", agents on " + (*agents)->address());
    spdlog::info("stopping: {}", ::strsignal(wait_for_stop_signal()));
  }
  stop(**agents, **http, **runtime, manager);
  exporter.reset();  // it looks into the server, whose requests have ended
  return announced;
}

int print_store_check(const Config& config) {
  const auto said = check_store(config.data_dir, config.core);
  if (said) {
    std::puts(said->c_str());
    return 0;
  }
  std::fprintf(stderr, "shoal-coordinator: %s\n", to_string(said.error()).c_str());
  return kExitFailed;
}

int run(int argc, const char* const* argv) {
  if (const Status given = check_arguments(argc, argv, environ); !given.ok()) {
    std::fprintf(stderr, "shoal-coordinator: %s\n", to_string(given.error()).c_str());
    return kExitRefused;
  }
  if (const auto status = run_maintenance(argc, argv)) return *status;
  const Result<CommandLine> line = read_command_line(argc, argv);
  if (!line) {
    std::fprintf(stderr, "shoal-coordinator: %s\n", to_string(line.error()).c_str());
    return kExitRefused;
  }
  if (line->text) {
    std::fputs(line->text->c_str(), stdout);
    return 0;
  }
  if (line->config.check_only) {
    std::puts("the configuration is valid");
    return 0;
  }
  if (line->config.check_store) return print_store_check(line->config);
  // Before any thread starts, so that only wait_for_stop_signal() sees them.
  const sigset_t set = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(077);  // tables, checkpoints and the address file are the owner's
  set_up_logging(line->config.log_level, line->config.log_format);
  ServiceManager manager = ServiceManager::from_environment();
  const Status served = serve(line->config, manager);
  if (served.ok()) return 0;
  spdlog::error("{}", to_string(served.error()));
  return kExitFailed;
}

}  // namespace
}  // namespace shoal::coordinator

int main(int argc, char** argv) { return shoal::coordinator::run(argc, argv); }
