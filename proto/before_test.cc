// Processes of the version before and of this one work together while a cluster is upgraded
// (docs/upgrades.md): what the version before says is read here, and a job that uses nothing new is
// read there. proto/before/ has its messages and the defaults of its jobs; at a release
// SHOAL_REWRITE_BEFORE=1 puts today's in their place (docs/releasing.md). A failure here means:
// mend it, or raise kProtocolVersion.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "job/job_rules.h"
#include "proto/convert.h"
#include "proto/convert_logs.h"
#include "proto/job_spec_fields.h"
#include "proto/job_spec_text.h"
#include "proto/sent_spec.h"
#include "proto/unreadable.h"

namespace shoal::proto {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::string kWire = std::string(SHOAL_BEFORE) + "/wire.txt";
const std::string kDefaults = std::string(SHOAL_BEFORE) + "/defaults.json";

// {"/model/layers": 4, …}
void list_defaults(const std::string& place, const Json& properties, Json& defaults) {
  for (const auto& [name, field] : properties.items()) {
    const std::string pointer = place + "/" + name;
    if (field.contains("properties")) list_defaults(pointer, field["properties"], defaults);
    if (field.contains("default")) defaults[pointer] = field["default"];
  }
}

Json defaults_of_today() {
  Json defaults = Json::object();
  list_defaults("", spec_schema(), defaults);
  return defaults;
}

void rewrite_where_asked() {
  if (std::getenv("SHOAL_REWRITE_BEFORE") == nullptr) return;
  std::filesystem::copy_file(SHOAL_WIRE_GOLDEN, kWire,
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(kDefaults) << defaults_of_today().dump(1) << "\n";
}

JobSpec small_spec() {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.name = "kjv", spec.data.train = "/data/kjv.txt";
  return spec;
}

// The golden messages have "{}" where a specification stood.
void put_specs(google::protobuf::Message& wire, const std::string& text) {
  const google::protobuf::Reflection& reflection = *wire.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(wire, &fields);
  for (const auto* field : fields) {
    if (field->name() == "spec_json") reflection.SetString(&wire, field, text);
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) put_specs(*reflection.MutableMessage(&wire, field), text);
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(wire, field); ++i) {
      put_specs(*reflection.MutableRepeatedMessage(&wire, field, i), text);
    }
  }
}

// Why this message cannot be read; empty: it can.
template <typename Wire, typename Read>
std::string complaint(const std::string& bytes, Read read) {
  Wire wire;
  if (!wire.ParseFromString(bytes)) return "it is no such message";
  put_specs(wire, sent_spec(small_spec()));
  const auto message = read(wire);
  return message.ok() ? "" : to_string(message.error());
}

std::string complaint(const std::string& kind, const std::string& bytes) {
  if (kind == "hello") return complaint<v1::AgentMessage>(bytes, read_hello);
  const auto any = [](const auto& wire) { return read(wire); };
  if (kind == "agent") return complaint<v1::AgentMessage>(bytes, any);
  if (kind == "coordinator" || kind == "special")
    return complaint<v1::CoordinatorMessage>(bytes, any);
  if (kind == "trainer") return complaint<v1::TrainerMessage>(bytes, any);
  if (kind == "command") return complaint<v1::TrainerCommand>(bytes, any);
  if (kind == "log question") return complaint<v1::LogQuestion>(bytes, any);
  return kind == "log answer" ? complaint<v1::LogAnswer>(bytes, any) : "an unknown kind";
}

TEST(VersionBefore, WhatItSaysIsRead) {
  rewrite_where_asked();
  std::ifstream file(kWire);
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const std::size_t colon = line.find(':');
    std::string kind = line.substr(0, colon), bytes;
    if (!kind.starts_with("log")) kind = kind.substr(0, kind.find(' '));
    std::istringstream digits(line.substr(colon + 1));
    for (int byte = 0; digits >> std::hex >> byte;) bytes += static_cast<char>(byte);
    EXPECT_EQ(complaint(kind, bytes), "") << line.substr(0, colon);
  }
  EXPECT_GT(count, 50);
}

// What is left out of a message means the same there.
TEST(VersionBefore, ItsJobsHadTheSameDefaults) {
  std::ifstream file(kDefaults);
  const Json before = Json::parse(file), now = defaults_of_today();
  EXPECT_GT(before.size(), 50u);
  for (const auto& [pointer, value] : before.items()) {
    if (!now.contains(pointer)) continue;  // removed: kRetiredKeys has it
    EXPECT_EQ(now.at(pointer), value) << pointer;
  }
}

TEST(VersionBefore, AJobThatUsesNothingNewHasNoNewFields) {
  EXPECT_EQ(sent_spec(small_spec()),
            R"({"name":"kjv","data":{"train":"/data/kjv.txt"},"sync":{"algorithm":"diloco"}})");
}

TEST(VersionBefore, AgentsGetNoTextsForPeople) {
  JobSpec spec = small_spec();
  spec.description = "a first try";
  const std::string sent = sent_spec(for_agents(spec));
  EXPECT_EQ(sent, R"({"data":{"train":"/data/kjv.txt"},"sync":{"algorithm":"diloco"}})");
  const auto read = read_kept_spec(sent);
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_EQ(read.spec, for_agents(spec));
  EXPECT_TRUE(read_spec_json(sent).problems) << "a person has to name a job";
}

TEST(VersionBefore, WhatIsSentIsTheSameJob) {
  for (const char* more :
       {"", "[sync]\nalgorithm = 'none'\n", "[sync]\nalgorithm = 'ddp'\ncodec = 'fp32'\n",
        "[sync]\nalgorithm = 'local_sgd'\nevery = 7\n", "[sync]\nalgorithm = 'async'\n",
        "[sync]\nevery = '30s'\n[sync.outer]\nlr = 1.0\nmomentum = 0.0\n",
        "[sync.outer]\nmethod = 'sgd'\n", "[sync.outer]\nmethod = 'sgd'\nlr = 0.5\n",
        "[sync.outer]\nmethod = 'adam'\n", "[sync.outer]\nmethod = 'adam'\nlr = 0.9\n",
        "[sync.outer]\nmethod = 'adam'\nbeta1 = 0.5\neps = 0.1\n",
        "[sync]\ntopology = 'moshpit'\ncodec = 'fp32'\n",
        "[model]\nlayers = 3\n[model.rope]\ntheta = 1e6\n",
        "[swarm]\nstages = 2\n[train]\nbetas = [0.8, 0.9]\n"}) {
    const auto read = read_spec_toml("name = 'a'\n[data]\ntrain = '/x'\n" + std::string(more));
    ASSERT_FALSE(read.problems) << more << ": " << read.problems->summary;
    const auto again = read_kept_spec(sent_spec(read.spec));
    ASSERT_FALSE(again.problems) << more << ": " << again.problems->summary;
    EXPECT_EQ(again.spec, read.spec) << more;
  }
}

// An agent that is older than its coordinator is told to train by what it does not know.
TEST(VersionBefore, AnOrderThatCannotBeReadIsRefusedByItself) {
  v1::CoordinatorMessage order;
  order.mutable_assign()->set_replica(7);
  const Error why{Code::kInvalidArgument, "unknown field \"warp\"", "spec_json", ""};
  const auto refused = refusal_of(order, why, "shoal-agent");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->replica, ReplicaId(7));
  EXPECT_THAT(refused->detail, HasSubstr("warp"));
  EXPECT_THAT(refused->detail, HasSubstr("upgrade Shoal on this host"));
  order.mutable_welcome();
  EXPECT_FALSE(refusal_of(order, why, "shoal-agent"));
}

}  // namespace
}  // namespace shoal::proto
