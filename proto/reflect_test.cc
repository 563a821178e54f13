// Structs and messages have the same fields; every one of them travels, whatever its value is; and
// bytes that were damaged on the way are refused or mean something.
#include "proto/reflect.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/convert.h"
#include "proto/convert_logs.h"
#include "proto/random_messages_test_util.h"

namespace shoal::proto {
namespace {

using testing::ElementsAre;

// ---- the same fields on both sides

using Problems = std::set<std::string>;
using Covered = std::set<const FieldDescriptor*>;

template <typename T>
void compare(const Descriptor& message, Problems& problems);

// The fields of the message that belong to members of T.
template <typename T>
Covered compare_fields(const Descriptor& message, Problems& problems) {
  const WireFields found = find_wire_fields<T>(message);
  problems.insert(found.problems().begin(), found.problems().end());
  Covered covered;
  const WireField* field = found.begin();
  T value{};
  for_each_field(value, [&](const FieldInfo&, auto& member) {
    using Member = typename Unwrapped<std::remove_cvref_t<decltype(member)>>::Type;
    const WireField& here = *field++;
    if (here.field != nullptr) covered.insert(here.field);
    if constexpr (IsPart<Member>) {
      if (here.field == nullptr) {
        covered.merge(compare_fields<Member>(message, problems));
      } else if (here.field->message_type() != nullptr) {
        compare<Member>(*here.field->message_type(), problems);
      }
    }
  });
  return covered;
}

template <typename T>
void compare(const Descriptor& message, Problems& problems) {
  Covered covered;
  if constexpr (HasFields<T>) covered = compare_fields<T>(message, problems);
  for (int i = 0; i < message.field_count(); ++i) {
    if (covered.contains(message.field(i))) continue;
    problems.insert("no struct has " + message.field(i)->full_name());
  }
}

template <typename T>
Problems compare(const Descriptor& message) {
  Problems problems;
  compare<T>(message, problems);
  return problems;
}

struct Pulse {
  std::int32_t sequence = 0;
  std::string mood;
};
constexpr auto fields_of(Of<Pulse>) {
  using T = Pulse;
  return fields<&T::sequence, &T::mood>();
}

TEST(Reflect, NamesWhatOneSideLacks) {
  EXPECT_THAT(compare<Pulse>(*v1::Heartbeat::descriptor()),
              ElementsAre("no struct has shoal.v1.Heartbeat.failures",
                          "no struct has shoal.v1.Heartbeat.refusals",
                          "no struct has shoal.v1.Heartbeat.relay",
                          "no struct has shoal.v1.Heartbeat.resident_bytes",
                          "no struct has shoal.v1.Heartbeat.samples",
                          "shoal.v1.Heartbeat.sequence has another type than the field of the "
                          "struct",
                          "there is no shoal.v1.Heartbeat.mood"));
}

// The messages that an envelope carries, each by a value of the alternative that it is read as.
template <typename Body>
void compare_body(const Descriptor& envelope, const Message& message, Problems& problems,
                  Covered& seen) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  const FieldDescriptor* body = set.back();
  ASSERT_EQ(body->containing_oneof(), envelope.oneof_decl(0));
  EXPECT_TRUE(seen.insert(body).second) << body->full_name() << " is written for two messages";
  compare<Body>(*body->message_type(), problems);
}

template <typename Variant>
Problems compare_envelope(const std::vector<Variant>& one_of_each, Covered seen = {}) {
  Problems problems;
  const Descriptor* envelope = nullptr;
  for (const Variant& message : one_of_each) {
    const auto wire = to_wire(message);
    envelope = wire.GetDescriptor();
    std::visit(
        [&](const auto& m) {
          using Body = typename BodyOf<std::remove_cvref_t<decltype(m)>>::Type;
          compare_body<Body>(*envelope, wire, problems, seen);
        },
        message);
  }
  for (int i = 0; i < envelope->oneof_decl(0)->field_count(); ++i) {
    const FieldDescriptor* body = envelope->oneof_decl(0)->field(i);
    if (!seen.contains(body)) problems.insert("no struct is " + body->full_name());
  }
  return problems;
}

TEST(Reflect, StructsAndMessagesHaveTheSameFields) {
  const FieldDescriptor* first = v1::AgentMessage::descriptor()->FindFieldByName("hello");
  EXPECT_EQ(compare<Hello>(*first->message_type()), Problems{});
  EXPECT_EQ(compare_envelope(messages_of_agents(), {first}), Problems{});
  EXPECT_EQ(compare_envelope(messages_of_the_coordinator()), Problems{});
  EXPECT_EQ(compare_envelope(messages_of_trainers()), Problems{});
  EXPECT_EQ(compare_envelope(commands_to_trainers()), Problems{});
  EXPECT_EQ(compare<FileEntry>(*v1::FileEntry::descriptor()), Problems{});
  // Asker, answerer and the missing answer are in convert_logs.cc.
  EXPECT_THAT(compare<LogQuery>(*v1::LogQuestion::descriptor()),
              ElementsAre("no struct has shoal.v1.LogQuestion.id"));
  EXPECT_THAT(
      compare<LogPage>(*v1::LogAnswer::descriptor()),
      ElementsAre("no struct has shoal.v1.LogAnswer.agent", "no struct has shoal.v1.LogAnswer.id",
                  "no struct has shoal.v1.LogAnswer.problem"));
}

// ---- every value travels

template <typename Variant>
void expect_random_ones_survive() {
  RandomMessages random(1);
  for (int i = 0; i < 500; ++i) {
    const auto message = random.drawn<Variant>();
    const auto read_back = read(to_wire(message));
    ASSERT_TRUE(read_back.ok()) << to_string(read_back.error());
    ASSERT_TRUE(*read_back == message) << to_wire(message).DebugString();
  }
}

TEST(Reflect, RandomMessagesSurvive) {
  expect_random_ones_survive<FromAgent>();
  expect_random_ones_survive<ToAgent>();
  expect_random_ones_survive<FromTrainer>();
  expect_random_ones_survive<ToTrainer>();
}

TEST(Reflect, RandomHellosAndLogsSurvive) {
  RandomMessages random(1);
  for (int i = 0; i < 100; ++i) {
    const auto hello = random.drawn<Hello>();
    const auto hello_back = read_hello(to_wire(hello));
    ASSERT_TRUE(hello_back.ok()) << to_string(hello_back.error());
    ASSERT_EQ(*hello_back, hello);
    const auto query = random.drawn<LogQuery>();
    ASSERT_EQ(*read(to_wire(1, query)), query);
    const auto page = random.drawn<LogPage>();
    ASSERT_EQ(*read(to_wire(1, page)), page);
  }
}

// ---- damaged bytes

template <typename Variant>
void expect_damage_is_harmless(int& read_ones, int& refused_ones) {
  RandomMessages random(2);
  Prng prng(3);
  for (int i = 0; i < 2000; ++i) {
    auto wire = to_wire(random.drawn<Variant>());
    std::string bytes = wire.SerializeAsString();
    for (int flips = 0; flips < 2; ++flips) {
      bytes[prng.below(bytes.size())] = static_cast<char>(prng.below(256));
    }
    if (!wire.ParseFromString(bytes)) continue;
    const auto once = read(wire);
    if (!once.ok()) {
      ++refused_ones;
      ASSERT_EQ(once.error().code, Code::kInvalidArgument);
      ASSERT_FALSE(once.error().field.empty()) << once.error().message;
      continue;
    }
    ++read_ones;
    const auto again = read(to_wire(*once));  // as bytes: a number may be none, which equals none
    ASSERT_TRUE(again.ok()) << to_string(again.error());
    ASSERT_EQ(to_wire(*again).SerializeAsString(), to_wire(*once).SerializeAsString());
  }
}

TEST(Reflect, DamagedMessagesAreRefusedOrMeanSomething) {
  const google::protobuf::LogSilencer no_word_about_texts_that_are_not_utf8;
  int read_ones = 0, refused_ones = 0;
  expect_damage_is_harmless<FromAgent>(read_ones, refused_ones);
  expect_damage_is_harmless<ToAgent>(read_ones, refused_ones);
  expect_damage_is_harmless<FromTrainer>(read_ones, refused_ones);
  expect_damage_is_harmless<ToTrainer>(read_ones, refused_ones);
  EXPECT_GT(read_ones, 500);
  EXPECT_GT(refused_ones, 300);
}

}  // namespace
}  // namespace shoal::proto
