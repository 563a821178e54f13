// An admitted host that lies: it joins with a join token, as any agent does, and then says what no
// agent says. For scripts/hostile_claims.py, which looks at what the cluster makes of it.
//
//   shoal-hostile-member claim --grpc ADDRESS --enrol ADDRESS --token-file FILE --folder DIR
//       [--name NAME] [--job N --replica N --round N --spec FILE] [--hold SECONDS] CASE
//   shoal-hostile-member mutate … [--count N] [--seed S] [--share CPU]
//
// Prints one JSON object per session: what was said, and how it was answered.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent/host/coordinator_link.h"
#include "agent/host/membership.h"
#include "identity/private_file.h"
#include "identity/request.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "proto/job_spec_text.h"
#include "proto/random_messages_test_util.h"
#include "threads/file_content.h"

namespace shoal::hostile {
namespace {

using Json = nlohmann::ordered_json;
using Stream = grpc::ClientReaderWriter<v1::AgentMessage, v1::CoordinatorMessage>;

struct Flags {
  std::string grpc, enrol, token_file, folder, name = "evil", spec_file, what;
  std::uint64_t job = 1, replica = 1, seed = 1;
  std::int64_t round = 50, count = 200'000;
  double hold_s = 12, share = 0.1;
};

// ---- this host

struct Host {
  std::shared_ptr<agent::Membership> membership;
  std::shared_ptr<grpc::Channel> channel;
  std::string uid;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "shoal-hostile-member: %s\n", why.c_str());
  std::exit(1);
}

std::string uid_of(const std::string& name) {
  return to_hex(digest_of(std::as_bytes(std::span(name.data(), name.size()))));
}

Host join(const Flags& flags) {
  const auto token = identity::read_token_file(flags.token_file);
  if (!token) give_up(to_string(token.error()));
  Host host{.membership = nullptr, .channel = nullptr, .uid = uid_of(flags.name)};
  auto membership = agent::Membership::open({.folder = flags.folder,
                                             .uid = host.uid,
                                             .name = flags.name,
                                             .join_token = *token,
                                             .enrol = flags.enrol,
                                             .coordinator = flags.grpc});
  if (!membership) give_up(to_string(membership.error()));
  host.membership = *membership;
  if (const Status joined = host.membership->ensure(); !joined.ok()) {
    give_up(to_string(joined.error()));
  }
  const auto credentials = [&membership = *host.membership] { return membership.credentials(); };
  host.channel = agent::open_channel({flags.grpc, credentials});
  return host;
}

Hello hello_of(const Host& host, const Flags& flags) {
  Hello hello;
  hello.uid = host.uid;
  hello.name = flags.name;
  hello.version = "0.2.0";
  hello.host = "127.0.0.1";
  return hello;
}

// ---- claims

HeldReplica claim(const Flags& flags, const JobSpec& spec) {
  HeldReplica held;
  held.replica = ReplicaId(flags.replica);
  held.store = 77;
  held.job = JobId(flags.job);
  held.key = {held.job, 0, flags.round};
  held.anchor = held.momentum = {0xdead, 0xbeef};
  held.value_count = 1000;
  held.address = "127.0.0.1:9";
  held.record.key = held.key;
  held.record.step = Steps(1);
  held.record.next_sequence = 1000;
  held.record.averages = {{1, 2}};
  held.record.anchors = held.record.momenta = {{3, 4}};
  held.cut = {{0, static_cast<std::int32_t>(spec.model.layers) + 2}};
  held.spec = spec;
  return held;
}

// A signature that looks like one.
void sign_falsely(HeldReplica& held, AgentId agent, const std::string& cluster) {
  CommitProof& proof = held.record.proof;
  proof.job_name = held.spec.name;
  proof.owner = "admin";
  proof.priority = 99;
  proof.spec_sha256 = proof.mac = std::string(64, 'a');
  proof.agent = agent;
  proof.replica = held.replica;
  proof.anchors = proof.momenta = {held.anchor};
  proof.key_id = cluster + "/1";
}

// False: there is no such case.
bool change(const std::string& what, const std::string& cluster, HeldReplica& held) {
  const auto other_job = [&](std::uint64_t id) {
    held.job = held.key.job = held.record.key.job = JobId(id);
    held.spec.name = "pwned";
  };
  if (what == "newer") return true;
  if (what == "forged") return sign_falsely(held, AgentId(1), cluster), true;
  if (what == "new-job") return other_job(4242), true;
  if (what == "last-id") return other_job((std::uint64_t{1} << 63) - 1), true;
  if (what == "beyond-ids") return other_job(std::uint64_t{1} << 63), true;
  if (what == "ledger") {
    held.record.next_sequence = 10;
    held.record.returned = {{0, 1000}};
    return true;
  }
  if (what == "epoch") {
    held.key.epoch = held.record.key.epoch = INT64_MAX;
    return true;
  }
  if (what == "steps") {
    held.record.step = Steps(INT64_MAX);
    return true;
  }
  return false;
}

// The stream of one session: what the coordinator says first, and how it ends.
Json talk(const Host& host, const Hello& hello, double hold_s) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int>(1000 * hold_s) + 10'000));
  const auto stub = v1::AgentService::NewStub(host.channel);
  const std::unique_ptr<Stream> stream = stub->Session(&context);
  Json said = {{"keep", Json::array()}, {"told", Json::array()}};
  stream->Write(proto::to_wire(hello));
  v1::CoordinatorMessage heard;
  std::jthread end([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(hold_s));
    stream->WritesDone();
    context.TryCancel();
  });
  while (stream->Read(&heard)) {
    const auto message = proto::read(heard);
    if (!message) continue;
    if (const auto* welcome = std::get_if<Welcome>(&*message)) {
      said["agent"] = welcome->agent.n;
      for (const ReplicaId id : welcome->keep) said["keep"].push_back(id.n);
    } else if (said["told"].size() < 20) {
      said["told"].push_back(heard.body_case());
    }
  }
  const grpc::Status status = stream->Finish();
  said["status"] = static_cast<int>(status.error_code());
  said["message"] = status.error_message();
  return said;
}

// Whether the coordinator gives this host a certificate for the replica.
Json ask_for_certificate(const Host& host, ReplicaId replica) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::CertifyRequest request;
  request.set_replica(replica.n);
  const auto key = identity::PrivateKey::make();
  request.set_csr(identity::make_request(key));
  v1::CertifyAnswer answer;
  const auto stub = v1::AgentService::NewStub(host.channel);
  const grpc::Status status = stub->Certify(&context, request, &answer);
  return {{"certified", status.ok()}, {"status", static_cast<int>(status.error_code())}};
}

int claim_falsely(const Flags& flags) {
  const auto spec = proto::read_kept_spec(file_content(flags.spec_file).value_or(""));
  if (spec.problems) give_up(flags.spec_file + ": " + spec.problems->summary);
  const Host host = join(flags);
  HeldReplica held = claim(flags, spec.spec);
  const auto believed = host.membership->believes();
  if (!change(flags.what, believed ? believed->cluster.text : "", held))
    give_up("no such case: " + flags.what);
  Hello hello = hello_of(host, flags);
  hello.replicas = {held};
  Json answer = {{"case", flags.what}};
  answer.update(talk(host, hello, flags.hold_s));
  answer["certificate"] = ask_for_certificate(host, held.replica);
  std::puts(answer.dump().c_str());
  return 0;
}

// ---- random and mutated messages

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Keeps this process at its share of a core.
class Pace {
 public:
  explicit Pace(double share) : share_(share) {}
  void wait() const {
    const auto lived = std::chrono::steady_clock::now() - begun_;
    const double ahead =
        (cpu_s() - cpu_begun_) / share_ - std::chrono::duration<double>(lived).count();
    if (ahead > 0.01) std::this_thread::sleep_for(std::chrono::duration<double>(ahead));
  }

 private:
  const double share_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  const double cpu_begun_ = cpu_s();
};

// Some bytes of a message are others; what still parses is sent.
v1::AgentMessage mutated(v1::AgentMessage message, Prng& dice) {
  if (dice.chance(0.3)) return message;
  std::string bytes = message.SerializeAsString();
  for (std::uint64_t left = 1 + dice.below(6); left > 0 && !bytes.empty(); --left) {
    bytes[dice.below(bytes.size())] = static_cast<char>(dice.below(256));
  }
  v1::AgentMessage changed;
  return changed.ParseFromString(bytes) ? changed : message;
}

// One session until it is refused, or `most` messages were said. Returns how many were.
std::int64_t storm(const Host& host, const Flags& flags, std::int64_t most,
                   proto::RandomMessages& random, Prng& dice, const Pace& pace) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stub = v1::AgentService::NewStub(host.channel);
  const std::unique_ptr<Stream> stream = stub->Session(&context);
  Hello hello = hello_of(host, flags);
  if (dice.chance(0.5)) hello.replicas = random.drawn<Hello>().replicas;
  if (!stream->Write(proto::to_wire(hello))) return stream->Finish(), 1;
  std::jthread reader([&] {
    v1::CoordinatorMessage heard;
    while (stream->Read(&heard)) {
    }
  });
  std::int64_t said = 1;
  while (said < most && said < 2000) {
    v1::AgentMessage message = proto::to_wire(random.drawn<FromAgent>());
    if (message.has_goodbye()) continue;
    ++said;
    if (!stream->Write(mutated(std::move(message), dice))) break;
    pace.wait();
  }
  context.TryCancel();
  reader.join();
  stream->Finish();
  return said;
}

int mutate(const Flags& flags) {
  const Host host = join(flags);
  proto::RandomMessages random(flags.seed);
  Prng dice(flags.seed);
  const Pace pace(flags.share);
  std::int64_t said = 0, sessions = 0;
  for (; said < flags.count; ++sessions) {
    said += storm(host, flags, flags.count - said, random, dice, pace);
    pace.wait();
  }
  std::puts(Json({{"said", said}, {"sessions", sessions}}).dump().c_str());
  return 0;
}

int run(int argc, const char* const* argv) {
  CLI::App app("An admitted host that lies, for tests");
  app.require_subcommand(1);
  Flags flags;
  const auto common = [&](CLI::App* command) {
    command->add_option("--grpc", flags.grpc)->required();
    command->add_option("--enrol", flags.enrol)->required();
    command->add_option("--token-file", flags.token_file)->required();
    command->add_option("--folder", flags.folder)->required();
    command->add_option("--name", flags.name);
  };
  CLI::App* claims = app.add_subcommand("claim");
  common(claims);
  claims->add_option("--job", flags.job);
  claims->add_option("--replica", flags.replica);
  claims->add_option("--round", flags.round);
  claims->add_option("--spec", flags.spec_file)->required();
  claims->add_option("--hold", flags.hold_s);
  claims->add_option("case", flags.what)->required();
  CLI::App* mutates = app.add_subcommand("mutate");
  common(mutates);
  mutates->add_option("--count", flags.count);
  mutates->add_option("--seed", flags.seed);
  mutates->add_option("--share", flags.share);
  CLI11_PARSE(app, argc, argv);
  std::filesystem::create_directories(flags.folder);
  return claims->parsed() ? claim_falsely(flags) : mutate(flags);
}

}  // namespace
}  // namespace shoal::hostile

int main(int argc, char** argv) { return shoal::hostile::run(argc, argv); }
