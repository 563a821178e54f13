// Everything that a fuzzer once found worth keeping, again, and valid frames of every kind with
// each of their bytes changed. Any compiler; sanitizers make it sharper. SHOAL_REWRITE_CORPUS=1
// writes the valid ones into the corpus, for the fuzzer to begin with.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec.h"
#include "outer_opt/core/session_swarm.h"
#include "swarm/pipeline/frame.h"
#include "tests/fuzz/frame_fuzz.h"

namespace shoal::fuzz {
namespace {

using Input = std::vector<std::byte>;

void append(Input& input, std::span<const std::byte> bytes) {
  input.insert(input.end(), bytes.begin(), bytes.end());
}
Input begin(std::initializer_list<int> bytes) {
  Input input;
  for (const int byte : bytes) input.push_back(static_cast<std::byte>(byte));
  return input;
}

struct Named {
  std::string name;
  Input input;
};

Named reduce_frame(CodecKind codec) {
  const std::vector<float> values(8, 1.5f);
  Input payload(outer_opt::encoded_size(codec, values.size()));
  outer_opt::codec(codec).encode(values, payload);
  outer_opt::FrameHeader header{outer_opt::FrameKind::kAverage,
                                codec,
                                1,
                                2,
                                16,
                                8,
                                static_cast<std::uint32_t>(payload.size())};
  header.checksum = outer_opt::payload_checksum(std::array{std::span<const std::byte>(payload)});
  Input input = begin({0});
  append(input, outer_opt::encode_header(header));
  append(input, payload);
  return {std::string("reduce_") + to_string(codec), input};
}

Named pipeline_word() {
  swarm::StepWord word;
  word.step = 7;
  word.routers.push_back({});
  swarm::FrameHeader header = swarm::header_of(word);
  const Input body = swarm::body_of(word);
  header.body_size = body.size();
  header.checksum = swarm::body_checksum(std::array{std::span<const std::byte>(body)});
  Input input = begin({1});
  append(input, swarm::encode_header(header));
  append(input, body);
  return {"pipeline_word", input};
}

Named pipeline_ping() {
  Input input = begin({1});
  append(input, swarm::encode_header({}));
  return {"pipeline_ping", input};
}

void say(Input& input, int from, const outer_opt::Message& message) {
  const std::size_t size = outer_opt::kFrameHeaderSize + message.payload.size();
  append(input, begin({static_cast<int>(size % 256), static_cast<int>(size / 256), 2 + from - 1}));
  append(input, outer_opt::encode_header(message.header));
  append(input, message.payload);
}

// What the first member of three hears when all goes well.
Named conversation(Topology topology, int topology_byte, int codec_byte) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.value_count = 40;
  plan.topology = topology;
  plan.codec =
      topology == Topology::kAllgather ? CodecKind::kSparse2 : outer_opt::kDenseCodecs[codec_byte];
  for (std::uint64_t i = 1; i <= 3; ++i) plan.members.push_back({ReplicaId(i), "a:1", 1, 1, 0, 0});
  if (plan.topology != Topology::kAllgather) assign_parts(plan, {1, 1, 1});
  const std::int64_t frame_values = topology == Topology::kAllgather ? 4096 : 8;
  outer_opt::SessionSwarm swarm(plan, frame_values, std::vector(3, std::vector<float>(40, 1.0f)));
  Input input = begin({2, topology_byte, codec_byte});
  Prng prng(5);
  for (bool moved = true; moved;) {
    std::vector<std::pair<int, outer_opt::Message>> under_way;
    std::vector<const std::unique_ptr<outer_opt::Message>*> slots;
    for (const auto& [route, slot] : swarm.wire) {
      if (std::get<1>(route) != 0 || !slot) continue;
      under_way.emplace_back(std::get<0>(route), *slot);
      slots.push_back(&slot);
    }
    moved = swarm.round(prng, 1) > 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!*slots[i]) say(input, under_way[i].first, under_way[i].second);
    }
  }
  return {std::string("session_") + to_string(topology) + "_" + to_string(plan.codec), input};
}

std::vector<Named> valid_inputs() {
  std::vector<Named> inputs = {pipeline_word(), pipeline_ping()};
  for (const CodecKind codec : outer_opt::kDenseCodecs) inputs.push_back(reduce_frame(codec));
  for (int codec = 0; codec < static_cast<int>(std::size(outer_opt::kDenseCodecs)); ++codec) {
    inputs.push_back(conversation(Topology::kButterfly, 0, codec));
    inputs.push_back(conversation(Topology::kRing, 1, codec));
  }
  inputs.push_back(conversation(Topology::kAllgather, 2, 0));
  return inputs;
}

Input read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Replay, TheCorpusPasses) {
  const std::filesystem::path folder = SHOAL_CORPUS_DIR;
  if (std::getenv("SHOAL_REWRITE_CORPUS") != nullptr) {
    for (const Named& each : valid_inputs()) {
      std::ofstream out(folder / each.name, std::ios::binary);
      out.write(reinterpret_cast<const char*>(each.input.data()),
                static_cast<std::streamsize>(each.input.size()));
    }
  }
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    try_bytes(read(entry.path()));
    ++count;
  }
  EXPECT_GE(count, static_cast<int>(valid_inputs().size()));
}

TEST(Replay, ValidInputsAreTaken) {
  for (const Named& each : valid_inputs()) EXPECT_TRUE(try_bytes(each.input)) << each.name;
}

TEST(Replay, ValidInputsWithEachByteChangedOrCutOff) {
  for (const Named& each : valid_inputs()) {
    SCOPED_TRACE(each.name);
    for (std::size_t at = 0; at < each.input.size(); ++at) {
      for (const int change : {0x01, 0x80, 0xff}) {
        Input changed = each.input;
        changed[at] ^= static_cast<std::byte>(change);
        try_bytes(changed);
      }
      try_bytes(std::span(each.input).first(at));
    }
  }
}

}  // namespace
}  // namespace shoal::fuzz
