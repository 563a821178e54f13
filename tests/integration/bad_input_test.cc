// What people get wrong: each is answered by one clear error that names the thing and what to do,
// and nothing that was stored is lost. Only a cluster without agents is needed, except for the last
// tests.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "identity/private_file.h"
#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::text_at;

// A coordinator of its own, without agents.
class Coordinator {
 public:
  explicit Coordinator(const TempFolder& folder) : folder_(folder) { start(); }
  ~Coordinator() { stop(); }

  void start() {
    std::remove(address_file().c_str());
    auto launched = cli::launch({"coordinator", command("127.0.0.1:0"), folder_.path("log"), true});
    ASSERT_TRUE(launched.ok());
    process_ = *launched;
    ASSERT_TRUE(eventually(30, [&] { return read_address() && api().answers("/readyz"); }))
        << cli::last_lines(folder_.path("log"), 20);
  }
  void stop() { cli::stop({process_}, 10); }

  std::string address_file() const { return folder_.path("address.json"); }
  std::vector<std::string> command(const std::string& http) const {
    return {binary("shoal-coordinator"),
            "--data-dir",
            folder_.path("data"),
            "--http",
            http,
            "--grpc",
            "127.0.0.1:0",
            "--address-file",
            address_file()};
  }
  cli::Api api() const { return cli::Api(text_at(address_, "http"), {}, {.token = token()}); }
  const Json& address() const { return address_; }
  Finished shoal(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), binary("shoal"));
    arguments.insert(arguments.end(),
                     {"--addr", text_at(address_, "http"), "--token-file", token_file()});
    return run(arguments, 60);
  }
  std::string token_file() const { return folder_.path("data/admin.token"); }
  std::string token() const {
    auto read = identity::read_token_file(token_file());
    return read.ok() ? *read : std::string();
  }

 private:
  bool read_address() {
    const Finished text = run({"cat", address_file()}, 5);
    address_ = Json::parse(text.out, nullptr, false);
    return address_.is_object();
  }

  const TempFolder& folder_;
  cli::ProcessRef process_;
  Json address_;
};

constexpr int kFailed = 1, kWrongToken = 4;  // of the daemons; neither a crash nor a time-out

constexpr const char* kGoodJob = R"(name = "good"
[model]
family = "llama"
layers = 1
hidden = 32
heads = 2
context = 32
[data]
train = "text.txt"
)";

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_binary("shoal-coordinator")) GTEST_SKIP() << "shoal-coordinator was not built";
    folder_.write("text.txt", std::string(4000, 'a'));
    coordinator_ = std::make_unique<Coordinator>(folder_);
  }
  std::string write_job(const std::string& text) const { return folder_.write("job.toml", text); }
  // The job is refused with this exit code, and the message holds every one of these words.
  void expect_refused(const std::string& job, int exit_code,
                      const std::vector<std::string>& words) {
    const Finished result = coordinator_->shoal({"job", "submit", write_job(job)});
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& word : words) {
      EXPECT_NE(result.err.find(word), std::string::npos) << "no '" << word << "' in:\n"
                                                          << result.err;
    }
  }
  cli::HttpResponse post(const std::string& body, const std::string& type) const {
    cli::HttpRequest request;
    request.method = "POST";
    request.url = text_at(coordinator_->address(), "http") + "/api/v1/jobs";
    if (request.url.find("://") == std::string::npos) request.url = "http://" + request.url;
    request.body = body;
    request.content_type = type;
    request.token = coordinator_->token();
    const auto response = cli::send(request);
    return response.ok() ? *response : cli::HttpResponse{};
  }

  TempFolder folder_;
  std::unique_ptr<Coordinator> coordinator_;
};

// A file with a token, which only its user may read.
std::string write_token(const TempFolder& folder, const std::string& token) {
  std::string path = folder.write("token", token);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  return path;
}

// Nothing is started that would fail later: each of these ends at once, and names its flag.
TEST(Flags, OfTheAgentAreRefusedBeforeItStarts) {
  if (!has_binary("shoal-agent")) GTEST_SKIP() << "shoal-agent was not built";
  const TempFolder folder;
  const std::vector<std::vector<std::string>> cases = {{"--name", ""},
                                                       {"--speed", "nan"},
                                                       {"--speed", "1.5"},
                                                       {"--host", "127.0.0.1:7100"},
                                                       {"--host", "no such host"},
                                                       {"--replica-group", "--devices=cpu:1"},
                                                       {"--threads", "2", "--role=reducer"},
                                                       {"--label", "a=1", "--label", "a=2"},
                                                       {"--label", "region"},
                                                       {"--emulate-link", "up=200"},
                                                       {"--coordinator", "localhost"},
                                                       {"--metrics", "9100"},
                                                       {"--peer-ports", "7199-7100"}};
  for (const auto& flags : cases) {
    std::vector<std::string> command = {binary("shoal-agent"), "--join-token",
                                        write_token(folder, "secret"), "--data-dir",
                                        folder.path("agent")};
    command.insert(command.end(), flags.begin(), flags.end());
    const Finished result = run(command, 10);
    EXPECT_EQ(result.exit_code, 2) << flags[0] << " " << flags[1];
    EXPECT_NE(result.err.find(flags[0]), std::string::npos) << result.err;
  }
}

TEST(Flags, ATokenThatOthersCanReadIsRefused) {
  if (!has_binary("shoal-agent")) GTEST_SKIP() << "shoal-agent was not built";
  const TempFolder folder;
  const std::string token = folder.write("token", "secret");
  std::filesystem::permissions(token, std::filesystem::perms(0640));
  const Finished agent =
      run({binary("shoal-agent"), "--join-token", token, "--data-dir", folder.path("agent")}, 10);
  EXPECT_EQ(agent.exit_code, 2) << agent.err;
  EXPECT_NE(agent.err.find("chmod 600"), std::string::npos) << agent.err;
}

TEST(Flags, ANumberThatIsNoneIsRefusedByTheCommandLine) {
  for (const char* bad : {"nan", "inf", "-1", "fast"}) {
    // The address answers nothing: it is never asked.
    const Finished set = run(
        {binary("shoal"), "job", "set", "any", "--outer-lr", bad, "--addr", "http://127.0.0.1:1"},
        10);
    EXPECT_EQ(set.exit_code, cli::kExitUsage) << bad << ": " << set.err;
    EXPECT_NE(set.err.find("--outer-lr: must be a number"), std::string::npos) << set.err;
  }
}

TEST(Flags, OfShoalUpAreRefusedBeforeItStarts) {
  const TempFolder folder;
  const std::vector<std::vector<std::string>> cases = {{"--emulate-link", "rtt=80"},
                                                       {"--threads", "5000"},
                                                       {"--speeds", "1,nan"},
                                                       {"--http", "localhost"},
                                                       {"--grpc", "127.0.0.1:7070"}};
  for (const auto& flags : cases) {
    const Finished result = run({binary("shoal"), "up", "--agents", "2", "--data-dir",
                                 folder.path("up"), flags[0], flags[1]},
                                10);
    EXPECT_EQ(result.exit_code, cli::kExitUsage) << flags[0] << ": " << result.err;
    EXPECT_NE(result.err.find(flags[0]), std::string::npos) << result.err;
  }
}

TEST_F(BadInput, AnEmptyJobFileLacksItsFields) {
  expect_refused("", cli::kExitValidation, {"name", "data.train"});
}

TEST_F(BadInput, FieldsThatCanHaveNoEffectAreRefused) {
  expect_refused(std::string(kGoodJob) + "[sync]\nfeedback = 0.95\n", cli::kExitValidation,
                 {"job.toml:11", "sync.feedback", "int8", "sparse2"});
}

TEST_F(BadInput, FieldsAreRefusedByNameAndLine) {
  expect_refused(std::string(kGoodJob) + "[train]\nlr = -1\n", cli::kExitValidation,
                 {"job.toml:11", "train.lr", "-1"});
  expect_refused(std::string(kGoodJob) + "[train]\nstpes = 5\n", cli::kExitValidation,
                 {"job.toml:11", "train.stpes", "steps"});
  expect_refused(std::string(kGoodJob) + "[sync]\ncodec = \"int9\"\n", cli::kExitValidation,
                 {"sync.codec", "int9", "int8"});
  expect_refused(std::string(kGoodJob) + "[train\n", cli::kExitValidation, {"job.toml:10", "TOML"});
  EXPECT_EQ(coordinator_->api().list("/jobs")->at("items").size(), 0u) << "nothing was stored";
}

TEST_F(BadInput, AMissingDataFileIsNamed) {
  std::string job = kGoodJob;
  job.replace(job.find("text.txt"), 8, "nope.txt");
  expect_refused(job, cli::kExitValidation, {"data.train", folder_.path("nope.txt")});
}

TEST_F(BadInput, AModelThatFitsNowhereSaysSo) {
  std::string job = kGoodJob;
  job.replace(job.find("layers = 1"), 10, "layers = 96");
  job.replace(job.find("hidden = 32"), 11, "hidden = 12288");
  job.replace(job.find("heads = 2"), 9, "heads = 96");
  const Finished result = coordinator_->shoal({"job", "submit", write_job(job)});
  if (result.exit_code != 0) {  // refused at the door
    EXPECT_EQ(result.exit_code, cli::kExitValidation) << result.err;
    return;
  }
  const Finished shown = coordinator_->shoal({"job", "get", "good", "--json"});
  const Json status = Json::parse(shown.out).at("status");
  EXPECT_NE(text_at(status, "phase"), "training");
  EXPECT_NE(text_at(status, "reason"), "none") << "a job that waits says why";
}

TEST_F(BadInput, NamesThatDoNotExistAreNotFound) {
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"job", "get", "nobody"},
                                             {"round", "ls", "nobody"},
                                             {"checkpoint", "download", "nobody"}}) {
    const Finished result = coordinator_->shoal(command);
    EXPECT_EQ(result.exit_code, cli::kExitNotFound) << result.err;
    EXPECT_NE(result.err.find("nobody"), std::string::npos) << result.err;
  }
}

TEST_F(BadInput, ANameIsTakenOnce) {
  ASSERT_EQ(coordinator_->shoal({"job", "submit", write_job(kGoodJob)}).exit_code, 0);
  expect_refused(kGoodJob, cli::kExitConflict, {"good"});
}

TEST_F(BadInput, MalformedAndOversizedBodiesAreProblems) {
  const auto malformed = post("{\"name\": ", "application/json");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_EQ(malformed.content_type.rfind("application/problem+json", 0), 0u)
      << malformed.content_type;
  const auto oversized = post(std::string(std::size_t{3} << 20, ' '), "application/json");
  EXPECT_EQ(oversized.status, 413);
  const auto strange = post("name: yaml", "application/yaml");
  EXPECT_EQ(strange.status, 415);
}

TEST_F(BadInput, ASecondCoordinatorOnTheFolderIsRefused) {
  auto command = coordinator_->command("127.0.0.1:0");
  command.back() = folder_.path("other.json");
  const Finished second = run(command, 30);
  EXPECT_EQ(second.exit_code, kFailed) << "it must give up at once";
  EXPECT_NE((second.err + second.out).find(folder_.path("data")), std::string::npos) << second.err;
  EXPECT_TRUE(coordinator_->api().answers("/readyz")) << "the first one continues";
}

TEST_F(BadInput, APortInUseIsNamed) {
  const std::string http = text_at(coordinator_->address(), "http");
  const std::string port = http.substr(http.rfind(':') + 1);
  auto command = coordinator_->command("127.0.0.1:" + port);
  command[2] = folder_.path("other-data");
  command.back() = folder_.path("other.json");
  const Finished second = run(command, 30);
  EXPECT_EQ(second.exit_code, kFailed);
  EXPECT_NE((second.err + second.out).find(port), std::string::npos) << second.err;
  if (!has_binary("shoal-trainer") || !has_binary("shoal-agent")) return;
  const Finished up =
      run({binary("shoal"), "up", "--agents", "1", "--detach", "--http", "127.0.0.1:" + port,
           "--grpc", "127.0.0.1:0", "--data-dir", folder_.path("up")},
          60);
  EXPECT_EQ(up.exit_code, cli::kExitConflict) << up.err;
  EXPECT_NE(up.err.find("--http"), std::string::npos) << up.err;
  EXPECT_NE(up.err.find("in use"), std::string::npos) << up.err;
}

TEST_F(BadInput, ADataFolderOfANewerVersionIsLeftAlone) {
  if (!has_program("sqlite3")) GTEST_SKIP() << "sqlite3 is not installed";
  ASSERT_EQ(coordinator_->shoal({"job", "submit", write_job(kGoodJob)}).exit_code, 0);
  coordinator_->stop();
  const std::string database = folder_.path("data/state.db");
  const Finished before = run({"sqlite3", database, "PRAGMA user_version"}, 30);
  ASSERT_EQ(run({"sqlite3", database, "PRAGMA user_version=9999"}, 30).exit_code, 0);
  const Finished refused = run(coordinator_->command("127.0.0.1:0"), 30);
  EXPECT_EQ(refused.exit_code, kFailed);
  EXPECT_NE((refused.err + refused.out).find("9999"), std::string::npos)
      << refused.err << refused.out;
  ASSERT_EQ(run({"sqlite3", database, "PRAGMA user_version=" + before.out}, 30).exit_code, 0);
  coordinator_->start();
  EXPECT_EQ(coordinator_->api().list("/jobs")->at("items").size(), 1u) << "nothing was lost";
}

// The page in the middle of a file.
void overwrite_page(const std::string& path) {
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(size / 2 / 4096 * 4096) << std::string(4096, '\x5a');
}

// The rest of such files are cases of `./dev chaos bad-input`.
TEST_F(BadInput, ADatabaseThatCannotBeUsedIsRefusedInOneSentence) {
  ASSERT_EQ(coordinator_->shoal({"job", "submit", write_job(kGoodJob)}).exit_code, 0);
  coordinator_->stop();
  const std::string database = folder_.path("data/state.db"), whole = folder_.path("whole.db");
  std::filesystem::copy_file(database, whole);
  const std::vector<std::function<void()>> damages = {
      [&] { overwrite_page(database); },
      [&] { std::filesystem::resize_file(database, std::filesystem::file_size(whole) / 2); },
      [&] { std::filesystem::resize_file(database, 0); },
      [&] { folder_.write("data/state.db", std::string(9000, 'x')); }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    damages[i]();
    const Finished refused = run(coordinator_->command("127.0.0.1:0"), 30);
    EXPECT_EQ(refused.exit_code, kFailed) << i;
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
    EXPECT_NE(refused.err.find(database), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("backup"), std::string::npos) << refused.err;
    std::filesystem::copy_file(whole, database, std::filesystem::copy_options::overwrite_existing);
  }
  coordinator_->start();
  EXPECT_EQ(coordinator_->api().list("/jobs")->at("items").size(), 1u) << "nothing was lost";
}

TEST_F(BadInput, AnAgentWhoseMetricsPortIsTakenEndsAndNamesTheFlag) {
  if (!has_binary("shoal-agent") || !has_binary("shoal-trainer"))
    GTEST_SKIP() << "agent and trainer were not built";
  const std::string taken = text_at(coordinator_->address(), "http");
  std::vector<std::string> command = command_of({.grpc = text_at(coordinator_->address(), "grpc"),
                                                 .enrol = taken,
                                                 .token = write_token(folder_, "secret"),
                                                 .data = folder_.path("agent"),
                                                 .name = "second"});
  command.insert(command.end(), {"--metrics", taken});
  const Finished agent = run(command, 30);
  EXPECT_EQ(agent.exit_code, 1) << agent.err;
  EXPECT_NE(agent.err.find("--metrics"), std::string::npos) << agent.err;
  EXPECT_NE(agent.err.find(taken), std::string::npos) << agent.err;
}

TEST_F(BadInput, AnAgentWithAWrongTokenIsTurnedAway) {
  if (!has_binary("shoal-agent")) GTEST_SKIP() << "shoal-agent was not built";
  // A token of this cluster with another secret.
  std::string text = run({"cat", text_at(coordinator_->address(), "token_file")}, 5).out;
  text = text.substr(0, text.rfind('.') + 1) + std::string(64, 'f') + "\n";
  const std::string token = write_token(folder_, text);
  const LoneAgent stranger{.grpc = text_at(coordinator_->address(), "grpc"),
                           .enrol = text_at(coordinator_->address(), "http"),
                           .token = token,
                           .data = folder_.path("agent"),
                           .name = "stranger"};
  const Finished agent = run(command_of(stranger), 60);
  EXPECT_EQ(agent.exit_code, kWrongToken) << "it must not try forever: " << agent.err;
  EXPECT_NE((agent.err + agent.out).find("token"), std::string::npos) << agent.err;
  EXPECT_EQ(coordinator_->api().list("/agents")->at("items").size(), 0u);
}

}  // namespace
}  // namespace shoal::integration
