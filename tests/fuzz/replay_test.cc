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

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/reduce/session_test_util.h"
#include "swarm/core/activation_codec.h"
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

Named frame_reference() {
  const auto front = reduce_frame(CodecKind::kInt8).input;
  const auto header = std::span(front).subspan(1, outer_opt::kFrameHeaderSize);
  Input input = begin({0});
  append(input, outer_opt::encode_reference({0x7fff00001000, *outer_opt::decode_header(header)}));
  return {"frame_reference", input};
}

Named pipeline_gossip() {
  swarm::ProgressGossip gossip;
  gossip.step = 7;
  gossip.routers.push_back({});
  swarm::FrameHeader header = swarm::header_of(gossip);
  const Input body = swarm::body_of(gossip);
  header.body_size = body.size();
  header.checksum = swarm::body_checksum(std::array{std::span<const std::byte>(body)});
  Input input = begin({1});
  append(input, swarm::encode_header(header));
  append(input, body);
  return {"pipeline_gossip", input};
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

std::string name_of(const ReducePlan& plan) {
  std::string name = std::string("session_") + to_string(plan.topology);
  if (plan.aggregator != Aggregator::kMean) name += std::string("_") + to_string(plan.aggregator);
  if (plan.owner_step) name += "_sharded";
  return name + "_" + to_string(plan.codec);
}

// What the first member of three hears when all goes well.
Named conversation(int shape, int codec) {
  const ReducePlan plan =
      plan_of(static_cast<std::uint8_t>(shape), static_cast<std::uint8_t>(codec));
  outer_opt::SessionSwarm swarm(plan, frame_values_of(plan),
                                std::vector(3, std::vector<float>(plan.value_count, 1.0f)),
                                std::vector<float>(plan.owner_step ? plan.value_count : 0));
  Input input = begin({2, shape, codec});
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
  return {name_of(plan), input};
}

// `count` values of which some are not round, encoded, as the payload of one frame.
Named payload(int codec, int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i % 37 - 18) / 3.0f;
  const bool sparse = codec == static_cast<int>(outer_opt::kDenseCodecs.size());
  const CodecKind kind = sparse ? CodecKind::kSparse2 : outer_opt::kDenseCodecs[codec];
  Input encoded(outer_opt::encoded_size(kind, values.size()));
  if (sparse) {
    outer_opt::sparse2_encode(values, encoded);
  } else {
    outer_opt::codec(kind).encode(values, encoded);
  }
  Input input = begin({3, codec, (count - 1) % 256, (count - 1) / 256});
  append(input, encoded);
  return {std::string("payload_") + to_string(kind) + "_" + std::to_string(count), input};
}

Named activations(int codec, int count) {
  const auto kind = static_cast<ActivationCodec>(codec);
  const std::vector<float> values(static_cast<std::size_t>(count), -2.25f);
  Input encoded(swarm::encoded_size(kind, values.size()));
  EXPECT_TRUE(swarm::encode(kind, values, encoded));
  Input input = begin({4, codec, (count - 1) % 256, (count - 1) / 256});
  append(input, encoded);
  return {std::string("activations_") + to_string(kind), input};
}

Named entropy_coded(int codec, int count) {
  const CodecKind kind = outer_opt::kDenseCodecs[codec];
  const std::size_t front = 4;
  const Input plain = payload(codec, count).input;
  Input coded(plain.size() - front);
  outer_opt::EntropyCoder coder;
  coded.resize(coder.encode(kind, std::span(plain).subspan(front), coded));
  EXPECT_FALSE(coded.empty()) << to_string(kind);
  Input input = begin({5, codec, (count - 1) % 256, (count - 1) / 256});
  append(input, coded);
  return {std::string("entropy_") + to_string(kind), input};
}

std::vector<Named> valid_inputs() {
  std::vector<Named> inputs = {pipeline_gossip(), pipeline_ping(), frame_reference()};
  for (const CodecKind codec : outer_opt::kDenseCodecs) inputs.push_back(reduce_frame(codec));
  const int codecs = static_cast<int>(std::size(outer_opt::kDenseCodecs));
  for (const int shape : {0, 1, 3, 4, 8, 12}) {
    for (int codec = 0; codec < codecs; ++codec) inputs.push_back(conversation(shape, codec));
  }
  inputs.push_back(conversation(2, 0));
  for (int codec = 0; codec <= codecs; ++codec) inputs.push_back(payload(codec, 300));
  inputs.push_back(payload(codecs, 4100));  // a second chunk
  for (int codec = 0; codec < codecs; ++codec) inputs.push_back(entropy_coded(codec, 300));
  for (const int codec : {0, 1, 2}) inputs.push_back(activations(codec, 300));
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
