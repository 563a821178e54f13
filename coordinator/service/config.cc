#include "coordinator/service/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <unistd.h>

#include "base/host_port.h"
#include "base/number_text.h"
#include "base/span_text.h"
#include "base/wire_text.h"
#include "objects/location.h"
#include "objects/reach.h"

namespace shoal::coordinator {
namespace {

Error refused(std::string flag, std::string message, std::string remedy = {}) {
  return {.code = Code::kValidation,
          .message = std::move(message),
          .field = std::move(flag),
          .remedy = std::move(remedy)};
}

// "127.0.0.1", "::1", "localhost": nothing is looked up, so nothing but this host is meant.
bool is_own_host(const std::string& host) {
  in6_addr parsed{};
  return host == "localhost" || ::inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

bool is_address(const std::string& text) {
  const auto address = read_host_port(text);
  return address && is_own_host(address->host);
}

// Seconds as people write them ("0.5"), kept as a Duration.
void add_seconds(CLI::App& app, const std::string& flag, Duration& value, const std::string& help) {
  app.add_option_function<double>(
         flag, [&value](const double& seconds) { value = seconds_f(seconds); }, help)
      ->check([](const std::string& text) { return number_problem(text, 0.001, 86'400); })
      ->default_str((std::ostringstream() << value.seconds()).str());
}

// Each counts time in which nothing moved or was heard, never the whole of what takes long.
struct LimitFlag {
  const char* pointer;  // as the rules of the core name it
  const char* flag;
  Duration Options::*value;
  const char* help;
};
constexpr LimitFlag kLimitFlags[] = {
    {"/load_limit", "--load-limit-s", &Options::load_limit,
     "Longest silence of a replica that loads its state"},
    {"/transfer_limit", "--transfer-limit-s", &Options::transfer_limit,
     "Longest time without movement of checkpoint files to or from an agent; they continue later"},
    {"/checkpoint_limit", "--checkpoint-limit-s", &Options::checkpoint_limit,
     "Longest time without movement while a checkpoint is written or uploaded; then it has failed"},
    {"/step_limit", "--step-limit-s", &Options::step_limit,
     "Longest silence of a trainer between its steps: at least this, and ten times its usual "
     "pause"},
    {"/first_step_limit", "--first-step-limit-s", &Options::first_step_limit,
     "The same while its usual pause is unknown, because it compiles and warms up"},
    {"/close_limit", "--close-limit-s", &Options::close_limit,
     "How long a trainer that was told to report may take: at least this"},
    {"/apply_limit", "--apply-limit-s", &Options::apply_limit,
     "How long a replica may take for its outer step; grows with the model"},
    {"/evaluation_limit", "--evaluation-limit-s", &Options::evaluation_limit,
     "How long the last evaluation of a pipeline may take"},
    {"/reduce_limit_min", "--reduce-limit-s", &Options::reduce_limit_min,
     "How long one attempt to average may take, besides the time for its bytes"}};

void describe_limits(CLI::App& app, Options& options) {
  for (const LimitFlag& limit : kLimitFlags) {
    add_seconds(app, limit.flag, options.*limit.value, limit.help);
  }
  app.add_option_function<double>(
         "--reduce-mbit",
         [&options](const double& mbit) { options.reduce_bytes_per_s = mbit * 1e6 / 8; },
         "Rate that this time for the bytes assumes, or a quarter of the slowest measured line if "
         "that is less")
      ->check([](const std::string& text) { return number_problem(text, 0.001, 1e6); })
      ->default_str((std::ostringstream() << options.reduce_bytes_per_s * 8 / 1e6).str());
}

void add_gib(CLI::App& app, const std::string& flag, Bytes& value, double most,
             const std::string& help) {
  constexpr double kGib = 1 << 30;
  app.add_option_function<double>(
         flag,
         [&value](const double& gib) { value = Bytes(static_cast<std::int64_t>(gib * kGib)); },
         help)
      ->check([=](const std::string& text) { return number_problem(text, 0, most); })
      ->default_str((std::ostringstream() << static_cast<double>(value.count()) / kGib).str());
}

// "30d", or "0".
void add_span(CLI::App& app, const std::string& flag, Duration& value, const std::string& shown,
              const std::string& help) {
  app.add_option_function<std::string>(
         flag, [&value](const std::string& text) { value = seconds(parse_span(text).value_or(0)); },
         help)
      ->check([](const std::string& text) {
        return text == "0" || parse_span(text)
                   ? std::string()
                   : "must be a time such as 12h or 30d, or 0, got '" + text + "'";
      })
      ->default_str(shown);
}

void describe_space(CLI::App& app, Options& options, HistoryRules& history) {
  add_gib(app, "--copies-max-gib", options.copies_max, 1e5,
          "Memory of each agent for copies of other stages (checkpoint.buddies); 0: none");
  add_gib(
      app, "--checkpoints-max-gib", options.checkpoints_max, 1e9,
      "Disk that the checkpoints of all jobs may take; those not needed are deleted first; 0: no "
      "limit");
  add_span(app, "--keep-ended", options.keep_ended, "0",
           "How long an ended job keeps checkpoints beside its final and newest one: 12h, 30d; 0: "
           "forever");
  add_span(app, "--history", history.keep, "365d",
           "How long events are kept, and rounds and series of jobs that have ended; 0: forever");
  add_span(app, "--history-full", history.full, "30d",
           "How long every round and point is kept, then one round in ten; 0: forever");
}

// "8" is for every owner that is not named, "ada=16" for one.
Status read_quota(const std::string& text, DeviceQuotas& quotas) {
  const std::size_t equals = text.find('=');
  const std::string owner = equals == std::string::npos ? "" : text.substr(0, equals);
  const char* first = text.data() + (equals == std::string::npos ? 0 : equals + 1);
  const char* last = text.data() + text.size();
  std::int64_t devices = 0;
  const auto [end, failure] = std::from_chars(first, last, devices);
  const bool whole = failure == std::errc() && end == last && first != last && devices >= 0;
  if (!whole || equals == 0) {
    return refused("--quota", "must be a number of devices, or OWNER=NUMBER, got '" + text + "'",
                   "for example --quota 8 --quota ada=16; 0: no limit");
  }
  if (owner.empty()) {
    quotas.each = devices;
    return {};
  }
  for (const auto& [name, before] : quotas.of) {
    if (name == owner) return refused("--quota", "is given twice for " + owner);
  }
  quotas.of.emplace_back(owner, devices);
  return {};
}

void describe_quotas(CLI::App& app, std::vector<std::string>& quotas) {
  app.add_option("--quota", quotas,
                 "[OWNER=]N: devices that the jobs of one owner may hold together, any number of "
                 "times (default: no limit)")
      ->allow_extra_args(false);
}

// What the coordinator uses, or tells, outside of the cluster.
void describe_outside(CLI::App& app, Config& config) {
  app.add_option("--outbound-proxy", config.outbound_proxy,
                 "http(s)://host:port of the proxy towards object stores and --webhook; http_proxy "
                 "and the like have no effect (default: none)")
      ->envname("SHOAL_OUTBOUND_PROXY");
  app.add_option("--webhook", config.webhook,
                 "URL that gets each event as a signed POST (docs/webhooks.md)");
  app.add_option_function<std::string>(
         "--webhook-level",
         [&config](const std::string& word) {
           config.webhook_level = parse_enumerator<Severity>(word).value_or(Severity::kWarning);
         },
         "Least severity of the events that --webhook gets")
      ->check(CLI::IsMember({"info", "warning", "error"}))
      ->default_str("warning");
  app.add_option("--checkpoint-store", config.checkpoint_store,
                 "Bucket of an S3 API that checkpoints go to, instead of the data folder: "
                 "s3://BUCKET/PREFIX?endpoint=URL&region=REGION (docs/object_stores.md)")
      ->envname("SHOAL_CHECKPOINT_STORE");
  app.add_option("--data-store", config.data_stores,
                 "Bucket of an S3 API, or a prefix in it, that shards of datasets may lie in: "
                 "s3://BUCKET/PREFIX?endpoint=URL; agents read there by signed URLs; repeatable")
      ->envname("SHOAL_DATA_STORE");
  app.add_option("--store-credentials", config.store_credentials,
                 "File with the key of --checkpoint-store and --data-store, as "
                 "~/.aws/credentials, mode 0600 "
                 "(default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)")
      ->envname("SHOAL_STORE_CREDENTIALS");
  app.add_option("--otlp", config.otlp,
                 "OpenTelemetry collector that gets metrics and traces of rounds by OTLP/HTTP: "
                 "http://127.0.0.1:4318 (docs/telemetry.md)");
}

void describe_files(CLI::App& app, Config& config) {
  constexpr double kGib = 1 << 30;
  app.add_option_function<double>(
         "--file-quota-gib",
         [&config](const double& gib) {
           config.files_each_owner = Bytes(static_cast<std::int64_t>(gib * kGib));
         },
         "Datasets and code that one owner may have uploaded; 0: no limit but the disk's")
      ->check([](const std::string& text) { return number_problem(text, 0, 1e6); })
      ->default_str("0");
}

void describe(CLI::App& app, Config& config, std::vector<std::string>& roots,
              std::vector<std::string>& quotas) {
  app.add_option("--data-dir", config.data_dir,
                 "Folder of the cluster's state; created if it is missing")
      ->envname("SHOAL_COORDINATOR_DATA_DIR")
      ->capture_default_str();
  app.add_option("--data-root", roots,
                 "[NAME=]FOLDER of this host in which a dry run may look at the data of a job, any "
                 "number of times (default: none)")
      ->allow_extra_args(false);
  app.add_option("--http", config.http, "Address of REST, dashboard and metrics; port 0 picks one")
      ->capture_default_str();
  app.add_option("--grpc", config.grpc, "Address for agents; port 0 picks one")
      ->capture_default_str();
  app.add_flag("--insecure-http", config.insecure_http,
               "Let tokens travel in clear between other hosts and --http: for a network that "
               "you trust");
  app.add_option("--public-url", config.public_url,
                 "Where browsers reach --http through a proxy: https://shoal.example");
  app.add_option("--ca", config.ca,
                 "File with certificate and key of a CA for a new cluster, mode 0600; without it "
                 "one is made");
  app.add_option("--host-name", config.host_names,
                 "A further name or address of this host for its certificate, any number of times")
      ->allow_extra_args(false);
  app.add_option_function<double>(
         "--certificate-life-s",
         [&config](const double& life) { config.certificate_life = seconds_f(life); },
         "Life of agents' certificates, which they renew after two thirds of it")
      ->envname("SHOAL_CERTIFICATE_LIFE_S")
      ->check([](const std::string& text) { return number_problem(text, 5, 7 * 86'400); })
      ->default_str("86400");
  describe_outside(app, config);
  app.add_option(
      "--address-file", config.address_file,
      "Write {http, grpc, token_file, pid, state_digest} as JSON to this file once ready");
  app.add_option("--log-level", config.log_level, "Least severity that is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", config.log_format, "Form of the log on stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_flag("--check-config", config.check_only, "Check the flags and exit");
  app.add_flag("--check-store", config.check_store,
               "Check the tables in --data-dir, print the digest of their state and exit; no "
               "coordinator may be using it");
  add_seconds(app, "--heartbeat-s", config.core.heartbeat_every, "How often agents report");
  add_seconds(app, "--lease-s", config.core.lease,
              "Silence after which an agent is absent: rounds continue without it");
  add_seconds(
      app, "--rollback-wait-s", config.core.rollback_wait_max,
      "Longest wait for absent replicas that hold newer state than any checkpoint, before a "
      "job rolls back to that");
  add_seconds(app, "--gather-window-s", config.core.gather_window,
              "How long a job waits for late agents once it could start");
  add_seconds(
      app, "--preempt-after-s", config.core.preempt_after,
      "How long a job lacks min_replicas before it takes devices of jobs of lower priority");
  describe_quotas(app, quotas);
  describe_files(app, config);
  describe_limits(app, config.core);
  describe_space(app, config.core, config.history);
}

// Before anything is started that would have to be stopped again.
Status check_address_file(const std::string& path) {
  if (path.empty()) return {};
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0 && !std::filesystem::is_directory(path)) return {};
  return refused("--address-file", "cannot write " + path,
                 "name a file in a folder that this user may write");
}

// The rules of the core name their fields, people their flags.
std::string flag_of(const std::string& pointer) {
  static const std::map<std::string, std::string> flags = {
      {"/heartbeat_every", "--heartbeat-s"},
      {"/lease", "--lease-s"},
      {"/rollback_wait_max", "--rollback-wait-s"},
      {"/gather_window", "--gather-window-s"},
      {"/preempt_after", "--preempt-after-s"}};
  for (const LimitFlag& limit : kLimitFlags) {
    if (pointer == limit.pointer) return limit.flag;
  }
  if (pointer == "/reduce_bytes_per_s") return "--reduce-mbit";
  if (pointer == "/copies_max") return "--copies-max-gib";
  if (pointer == "/checkpoints_max") return "--checkpoints-max-gib";
  if (pointer == "/keep_ended") return "--keep-ended";
  const auto found = flags.find(pointer);
  return found == flags.end() ? pointer : found->second;
}

Status check_store(const std::string& text, const std::string& flag, const Config& config) {
  const auto location = objects::read_location(text, flag);
  if (!location.ok()) return location.error();
  return objects::check_url(location.value().endpoint, {.clear_allowed = config.insecure_http},
                            flag);
}

Status check_stores(const Config& config) {
  const bool none = config.checkpoint_store.empty() && config.data_stores.empty();
  if (none && !config.store_credentials.empty()) {
    return refused("--store-credentials",
                   "has no effect without --checkpoint-store or --data-store",
                   "give one of them, or leave it out");
  }
  for (const std::string& store : config.data_stores) {
    if (Status s = check_store(store, "--data-store", config); !s.ok()) return s;
  }
  if (config.checkpoint_store.empty()) return {};
  return check_store(config.checkpoint_store, "--checkpoint-store", config);
}

Status check_otlp(const Config& config) {
  if (config.otlp.empty()) return {};
  return objects::check_url(config.otlp, {.clear_allowed = config.insecure_http}, "--otlp");
}

Status check(const Config& config) {
  if (config.data_dir.empty()) {
    return refused("--data-dir", "there is no home folder to put the data in", "name a folder");
  }
  if (!is_utf8(config.data_dir)) {
    return refused("--data-dir", "'" + shown_text(config.data_dir, false) + "' is not UTF-8",
                   "name a folder whose path is");
  }
  for (const auto& [flag, address] : {std::pair("--http", config.http), {"--grpc", config.grpc}}) {
    if (!is_address(address)) {
      return refused(flag, "must be an IP address and a port, got '" + address + "'",
                     "for example 127.0.0.1:7070, [::1]:7070 or 0.0.0.0:7070; port 0 picks one");
    }
  }
  if (!config.public_url.empty() && !is_origin_text(config.public_url)) {
    return refused("--public-url",
                   "must be http(s)://host or http(s)://host:port, got '" + config.public_url + "'",
                   "for example https://shoal.example");
  }
  if (config.http == config.grpc && !config.http.ends_with(":0")) {
    return refused("--grpc", "must not be that of --http, got " + config.grpc, "give another port");
  }
  if (!config.webhook.empty()) {
    const objects::Reach reach{.clear_allowed = config.insecure_http};
    if (Status url = objects::check_url(config.webhook, reach, "--webhook"); !url.ok()) return url;
  }
  const Status proxy = objects::check_proxy(config.outbound_proxy, "--outbound-proxy");
  if (!proxy.ok()) return proxy;
  if (Status store = check_stores(config); !store.ok()) return store;
  if (Status otlp = check_otlp(config); !otlp.ok()) return otlp;
  if (Status file = check_address_file(config.address_file); !file.ok()) return file;
  const std::vector<FieldError> problems = validate(config.core);
  if (!problems.empty()) return refused(flag_of(problems.front().pointer), problems.front().detail);
  return {};
}

}  // namespace

std::string default_data_dir() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/shoal/coordinator";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/share/shoal/coordinator";
  return {};
}

bool is_loopback(const std::string& address) {
  const auto read = read_host_port(address);
  return read && is_loopback_host(read->host);
}

Result<CommandLine> read_command_line(int argc, const char* const* argv) {
  CommandLine result;
  result.config.data_dir = default_data_dir();
  result.config.core.version = SHOAL_VERSION;
  CLI::App app(
      "The coordinator of a Shoal cluster: REST and metrics, agents, and the cluster's state",
      "shoal-coordinator");
  app.set_version_flag("--version", std::string("shoal-coordinator ") + SHOAL_VERSION);
  std::vector<std::string> roots, quotas;
  describe(app, result.config, roots, quotas);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion&) {
    result.text = app.version() + "\n";
    return result;
  } catch (const CLI::ParseError& problem) {
    return refused("", problem.what(), "shoal-coordinator --help lists the flags");
  }
  std::string& url = result.config.public_url;
  if (url.ends_with('/')) url.pop_back();
  std::ranges::transform(url, url.begin(), [](unsigned char c) { return std::tolower(c); });
  std::error_code failure;
  const auto absolute = std::filesystem::absolute(result.config.data_dir, failure);
  if (!failure && !result.config.data_dir.empty())
    result.config.data_dir = absolute.lexically_normal();
  while (result.config.data_dir.size() > 1 && result.config.data_dir.back() == '/') {
    result.config.data_dir.pop_back();
  }
  auto parsed = data::DataRoots::parse(roots, "--data-root");
  if (!parsed.ok()) return parsed.error();
  result.config.data_roots = std::move(parsed).value();
  for (const std::string& quota : quotas) {
    if (Status s = read_quota(quota, result.config.core.quotas); !s.ok()) return s.error();
  }
  if (Status s = check(result.config); !s.ok()) return s.error();
  return result;
}

}  // namespace shoal::coordinator
