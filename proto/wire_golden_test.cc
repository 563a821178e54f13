// The bytes of every kind of message are those of the builds before: a new field gets a new number,
// and one that was there keeps its own. SHOAL_REWRITE_GOLDENS=1 rewrites wire_golden.txt, which
// is right only where a message got a field. A job's specification is text of its own,
// so its bytes are left out.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/text.h"
#include "proto/convert.h"
#include "proto/convert_logs.h"
#include "proto/messages_test_util.h"

namespace shoal::proto {
namespace {

void leave_out_specs(google::protobuf::Message& wire) {
  const google::protobuf::Reflection& reflection = *wire.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(wire, &fields);
  for (const auto* field : fields) {
    if (field->name() == "spec_json") reflection.SetString(&wire, field, "{}");
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) leave_out_specs(*reflection.MutableMessage(&wire, field));
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(wire, field); ++i) {
      leave_out_specs(*reflection.MutableRepeatedMessage(&wire, field, i));
    }
  }
}

// "agent 2: 8a 01 06 …"
template <typename Wire>
void write(std::ostream& out, const std::string& name, Wire wire) {
  leave_out_specs(wire);
  out << name << ':';
  for (const char c : wire.SerializeAsString()) out << ' ' << hex_of(std::string_view(&c, 1));
  out << '\n';
}

template <typename Message>
void write_all(std::ostream& out, const char* name, const std::vector<Message>& all) {
  for (const Message& message : all) {
    write(out, std::string(name) + " " + std::to_string(message.index()), to_wire(message));
  }
}

std::string bytes_of_every_message() {
  std::ostringstream out;
  write(out, "hello", to_wire(hello()));
  write_all(out, "agent", messages_of_agents());
  write_all(out, "coordinator", messages_of_the_coordinator());
  write_all(out, "trainer", messages_of_trainers());
  write_all(out, "command", commands_to_trainers());
  ReducePlan sharded = plan_of_two();
  sharded.owner_step = OwnerStep{{0.6, 0.8}, {{ReplicaId(9), "a:1", 0, 60}}};
  CommitRound last{kKey, 3, {}, {}, true, {}};
  last.outcome = RoundOutcome::kKept;
  write_all<ToAgent>(out, "special",
                     {ToReplica<ReducePlan>{kReplica, sharded},
                      ToReplica<CommitRound>{kReplica, last}, ToReplica<OpenRound>{kReplica, {}}});
  write(out, "log question",
        to_wire(3, LogQuery{7,
                            Instant{123},
                            LogLevel::kWarning,
                            "agent",
                            {ReplicaId(3), ReplicaId(4)},
                            "no space"}));
  write(out, "log answer",
        to_wire(3, LogPage{{{{5}, LogLevel::kError, "trainer-1", ReplicaId(3), "a"},
                            {{6}, LogLevel::kDebug, "agent", {}, ""}}}));
  return out.str();
}

TEST(WireGolden, BytesAreThoseOfTheBuildsBefore) {
  const std::string path = SHOAL_WIRE_GOLDEN, now = bytes_of_every_message();
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(path) << now;
  std::ifstream file(path);
  std::string line;
  std::istringstream lines(now);
  for (std::string wanted; std::getline(file, wanted);) {
    ASSERT_TRUE(std::getline(lines, line)) << "no more messages: " << wanted;
    EXPECT_EQ(line, wanted);
  }
  EXPECT_FALSE(std::getline(lines, line)) << "not in " << path << ": " << line;
}

}  // namespace
}  // namespace shoal::proto
