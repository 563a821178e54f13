#include "proto/job_spec_text.h"

#include <fstream>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_rules.h"

namespace shoal::proto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFull = R"(
name = "kjv"
description = "a first\ntry"
[model]
family = "gpt2"
layers = 5
hidden = 96
heads = 3
kv_heads = 3
ffn = 200
context = 64
vocab = 300
[data]
train = "/data/kjv.txt"
tokenizer = "uint16"
val_fraction = 0.05
tokenizer_file = "corpus:tokenizer.json"
[train]
steps = 2000
batch = 12
microbatch = 4
optimizer = "muon"
join = "moments"
lr = 2e-3
min_lr = 1e-5
warmup = 10
schedule = "cosine"
weight_decay = 0.2
betas = [0.8, 0.99]
clip = 2       # a float field takes an integer
precision = "bf16"
seed = 42
[sync]
algorithm = "diloco"
every = 25
topology = "auto"
codec = "fp32"
aggregator = "trimmed_mean"
clip = false
fragments = 5
overlap_steps = 2
blend = 0.25
outer_state = "replicated"
[sync.outer]
lr = 0.6
momentum = 0.8
[swarm]
stages = 1
min_replicas = 2
max_replicas = 9
[checkpoint]
every_rounds = 7
keep = 2
[eval]
every_rounds = 3
batches = 11
)";

JobSpec full() {
  JobSpec spec;
  spec.name = "kjv";
  spec.description = "a first\ntry";
  spec.model = {ModelFamily::kGpt2, 5, 96, 3, 3, 200, 64, 300};
  spec.data = {"/data/kjv.txt", Tokenizer::kUint16, 0.05, "corpus:tokenizer.json"};
  spec.train = {Steps(2000), 12,   4,         Optimizer::kMuon,  JoinMoments::kMoments,
                2e-3,        1e-5, Steps(10), Schedule::kCosine, 0.2,
                0.8,         0.99, 2.0,       Precision::kBf16,  42};
  spec.sync = {.every = Steps(25),
               .topology = Topology::kAuto,
               .codec = CodecKind::kFp32,
               .aggregator = Aggregator::kTrimmedMean,
               .clip = false,
               .fragments = 5,
               .overlap_steps = Steps(2),
               .blend = 0.25,
               .outer = {0.6, 0.8}};
  spec.swarm = {1, 2, 9};
  spec.checkpoint = {7, 2};
  spec.eval = {3, 11};
  return spec;
}

std::string minimal(const std::string& more) { return "name = 'a'\n[data]\ntrain = '/x'\n" + more; }

// The only refused field of a text.
FieldError refused(const SpecOrProblems& read) {
  if (!read.problems || read.problems->fields.size() != 1) {
    ADD_FAILURE() << "expected one refused field"
                  << (read.problems ? ": " + read.problems->summary : "");
    return {};
  }
  return read.problems->fields[0];
}

TEST(SpecText, EveryFieldOfToml) {
  const auto read = read_spec_toml(kFull);
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_EQ(read.spec, full());
}

TEST(SpecText, FieldsThatDoNotGoTogether) {
  const auto sparse = read_spec_toml(
      minimal("[train]\nschedule = 'constant'\n[sync]\ncodec = 'sparse2'\ntopology = 'auto'\n"
              "feedback = 0.5\n[sync.outer]\nlr = 1\nmomentum = 0"));
  ASSERT_FALSE(sparse.problems) << sparse.problems->summary;
  EXPECT_EQ(sparse.spec.sync.feedback, 0.5);
  EXPECT_EQ(sparse.spec.train.schedule, Schedule::kConstant);
}

TEST(SpecText, RotaryPositionsHaveATableOfTheirOwn) {
  const auto read = read_spec_toml(
      minimal("[model]\nhead_dim = 64\nqkv_bias = true\nnorm_eps = 1e-6\n[model.rope]\n"
              "theta = 500000\nscaling = 'llama3'\nfactor = 8\nlow_freq_factor = 2\n"
              "high_freq_factor = 5\noriginal_context = 4096"));
  ASSERT_FALSE(read.problems) << read.problems->summary;
  const ModelSpec& model = read.spec.model;
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_EQ(model.rope, (RopeSpec{500'000, RopeScaling::kLlama3, 8, 2, 5, 4096}));
  const auto flat = refused(read_spec_toml(minimal("[model]\nrope_theta = 500000")));
  EXPECT_THAT(flat.detail, HasSubstr("did you mean 'rope'?"));
}

TEST(SpecText, AMixtureIsATableOfDatasetsAndWeights) {
  const auto read = read_spec_toml(
      "name = 'a'\n[data]\ntokenizer = 'uint32'\n[data.mixture]\nbooks = 0.7\ncode = 3\n");
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_EQ(read.spec.data.mixture, (std::vector<MixturePart>{{"books", 0.7}, {"code", 3}}));
  EXPECT_EQ(read.spec.data.tokenizer, Tokenizer::kUint32);
  const auto again = read_spec_json(spec_to_json(read.spec).dump());
  ASSERT_FALSE(again.problems) << again.problems->summary;
  EXPECT_EQ(again.spec, read.spec);
  const auto text = refused(read_spec_toml("name = 'a'\n[data.mixture]\nbooks = '0.7'\n"));
  EXPECT_EQ(text.pointer, "/data/mixture");
  EXPECT_THAT(text.detail,
              HasSubstr("'books' a number as its weight, got '0.7'; write it without"));
  const auto list = refused(read_spec_toml("name = 'a'\n[data]\nmixture = ['books']\n"));
  EXPECT_THAT(list.detail, HasSubstr("must be a table of datasets and weights"));
}

// A job that was stored before a field came keeps its meaning.
TEST(SpecText, AKeptSpecWithoutTheNewerFieldsHasTheirDefaults) {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.name = "a", spec.data.train = "/x";
  auto json = spec_to_json(spec);
  for (const char* newer : {"head_dim", "qkv_bias", "norm_eps", "rope", "init"}) {
    ASSERT_EQ(json["model"].erase(newer), 1u) << newer;
  }
  const auto read = read_kept_spec(json.dump());
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_EQ(read.spec, spec);
}

TEST(SpecText, WhatHasNoEffectIsRefusedWhereItWasWritten) {
  const auto error = refused(read_spec_toml(minimal("[sync]\nfeedback = 0.95")));
  EXPECT_EQ(error.pointer, "/sync/feedback");
  EXPECT_THAT(error.detail, AllOf(HasSubstr("no effect with sync.codec = 'int8'"),
                                  HasSubstr("set sync.codec = 'sparse2'"), HasSubstr("line 5")));
  const auto json =
      refused(read_spec_json(R"({"name":"a","data":{"train":"/x"},"swarm":{"schedule":"flush"}})"));
  EXPECT_EQ(json.pointer, "/swarm/schedule");
  EXPECT_FALSE(read_spec_toml(minimal("[swarm]\nstages = 2\nschedule = '1f1b'")).problems);
  const auto alone = read_spec_toml(
      minimal("[sync]\nalgorithm = 'none'\ncodec = 'fp32'\n[sync.outer]\nmomentum = 0.5"));
  ASSERT_TRUE(alone.problems);
  EXPECT_EQ(alone.problems->fields.size(), 2u);
}

// A word that cannot be read leaves the default, which says nothing of what is ineffective.
TEST(SpecText, NothingIsCalledIneffectiveBesideAFieldThatCannotBeRead) {
  const auto read = read_spec_toml(minimal("[sync]\ncodec = 'sparse'\nfeedback = 0.5"));
  EXPECT_EQ(refused(read).pointer, "/sync/codec");
}

TEST(SpecText, ASpecOfTheApiIsTakenBack) {
  for (const auto algorithm : {SyncAlgorithm::kNone, SyncAlgorithm::kDiloco,
                               SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDdp}) {
    JobSpec spec = default_spec(algorithm);
    spec.name = "a", spec.data.train = "/x";
    auto json = spec_to_json(with_derived_fields(spec));
    const auto read = read_spec_json(json.dump());
    EXPECT_FALSE(read.problems) << to_string(algorithm) << ": " << read.problems->summary;
    json["sync"]["feedback"] = 0.5;
    EXPECT_EQ(refused(read_spec_json(json.dump())).pointer, "/sync/feedback");
  }
}

// Jobs that were accepted before a field was found to be ineffective.
TEST(SpecText, AKeptSpecMayHaveIneffectiveFields) {
  JobSpec spec = full();
  spec.train.schedule = Schedule::kConstant;
  spec.swarm.recompute = Recompute::kRecompute;
  auto json = spec_to_json(spec);
  json["sync"]["feedback"] = 0.5;
  const auto read = read_kept_spec(json.dump());
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_EQ(read.spec, spec);
}

TEST(SpecText, AKeyOfAFormerVersionIsPassedOverInAKeptSpecAlone) {
  auto json = spec_to_json(full());
  json["swarm"]["wiring"] = "sticky";
  const auto kept = read_kept_spec(json.dump());
  ASSERT_FALSE(kept.problems) << kept.problems->summary;
  EXPECT_EQ(kept.spec, full());
  const auto submitted = refused(read_spec_json(json.dump()));
  EXPECT_EQ(submitted.pointer, "/swarm/wiring");
  EXPECT_THAT(submitted.detail, AllOf(HasSubstr("was removed in 0.2.0"), HasSubstr("leave it out"),
                                      Not(HasSubstr("unknown"))));
  const auto written =
      refused(read_spec_toml(minimal("[swarm]\nstages = 2\nwiring = 'service_time'")));
  EXPECT_THAT(written.detail, AllOf(HasSubstr("was removed in 0.2.0"), HasSubstr("line 6")));
  json["swarm"]["wirings"] = 1;
  EXPECT_EQ(refused(read_kept_spec(json.dump())).pointer, "/swarm/wirings");
}

TEST(SpecText, JsonRoundTrip) {
  for (const JobSpec& spec : {full(), read_spec_toml(minimal("")).spec}) {
    const auto json = spec_to_json(spec);
    const auto read = read_spec_json(json.dump());
    ASSERT_FALSE(read.problems) << read.problems->summary;
    EXPECT_EQ(read.spec, spec);
    EXPECT_EQ(spec_to_json(read.spec), json);
  }
}

TEST(SpecText, TheAlgorithmDecidesTheDefaultsWhereverItStands) {
  const auto ddp = read_spec_toml(minimal("[sync]\ncodec = 'int8'\nalgorithm = 'ddp'")).spec;
  EXPECT_EQ(ddp.sync.every, Steps(1));
  EXPECT_EQ(ddp.sync.codec, CodecKind::kInt8);
  EXPECT_EQ(ddp.sync.outer, (OuterSpec{1, 0}));
  EXPECT_EQ(ddp.eval.every_rounds, 50);
  const auto averaged = read_spec_toml(minimal("[sync]\nalgorithm = 'local_sgd'")).spec;
  EXPECT_EQ(averaged.sync.every, Steps(50));
  EXPECT_EQ(averaged.sync.outer, (OuterSpec{1, 0}));
  const auto async = read_spec_toml(minimal("[sync]\nalgorithm = 'async'\nquorum = 3")).spec;
  EXPECT_EQ(async.sync.algorithm, SyncAlgorithm::kAsync);
  EXPECT_EQ(async.sync.quorum, 3);
  EXPECT_EQ(async.sync.outer, (OuterSpec{0.9, 0.5}));
  EXPECT_EQ(spec_to_json(ddp), spec_to_json(read_spec_json(spec_to_json(ddp).dump()).spec));
}

TEST(SpecText, TheOuterStepsLrAndMomentumHaveDefaultsOfTheirOwn) {
  EXPECT_EQ(read_spec_toml(minimal("")).spec.sync.outer, (OuterSpec{0.9, 0.5}));
  const auto other = read_spec_toml(minimal("[sync.outer]\nmethod = 'sgd'")).spec;
  EXPECT_EQ(other.sync.outer, (OuterSpec{0.9, 0.5, OuterMethod::kSgd}));
  const auto adam = read_spec_toml(minimal("[sync.outer]\nmethod = 'adam'")).spec;
  EXPECT_EQ(adam.sync.outer.lr, 0.01) << "the method has a rate of its own";
  const auto given = read_spec_toml(minimal("[sync.outer]\nlr = 0.05\nmethod = 'adam'")).spec;
  EXPECT_EQ(given.sync.outer.lr, 0.05);
  const auto named = read_spec_toml(minimal("[sync.outer]\nmomentum = 0.9")).spec;
  EXPECT_EQ(named.sync.outer, (OuterSpec{0.9, 0.9}));
}

TEST(SpecText, RoundsByStepsOrByTime) {
  const auto every = [](const std::string& text) {
    return read_spec_toml(minimal("[sync]\nevery = " + text));
  };
  EXPECT_EQ(every("25").spec.sync.every, Steps(25));
  EXPECT_EQ(every("25").spec.sync.every_s, 0);
  for (const auto& [text, seconds] : {std::pair("30s", 30), std::pair("10m", 600),
                                      std::pair("2h", 7200), std::pair("90m", 5400)}) {
    const auto read = every("'" + std::string(text) + "'");
    ASSERT_FALSE(read.problems) << read.problems->summary;
    EXPECT_EQ(read.spec.sync.every_s, seconds);
    EXPECT_EQ(spec_to_json(read.spec)["sync"]["every"], text);
  }
  for (const char* text : {"'10'", "'m'", "'10 m'", "'-3s'", "'1.5h'", "'10min'", "2.5"}) {
    EXPECT_EQ(refused(every(text)).pointer, "/sync/every") << text;
  }
}

TEST(SpecText, EagerUpdatesGoWithOverlap) {
  const auto read = read_spec_toml(minimal("[sync]\noverlap_steps = 5\neager = true"));
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_TRUE(read.spec.sync.eager);
  EXPECT_EQ(read_spec_json(spec_to_json(read.spec).dump()).spec, read.spec);
  EXPECT_EQ(refused(read_spec_toml(minimal("[sync]\neager = true"))).pointer, "/sync/eager");
  const auto type = refused(read_spec_toml(minimal("[sync]\noverlap_steps = 5\neager = 1")));
  EXPECT_THAT(type.detail, HasSubstr("true or false, got 1"));
}

TEST(SpecText, WhatAnAlgorithmDoesNotHaveIsRefusedByName) {
  const auto outer =
      refused(read_spec_toml(minimal("[sync]\nalgorithm = 'local_sgd'\n[sync.outer]\nlr = 0.7")));
  EXPECT_EQ(outer.pointer, "/sync/outer/lr");
  EXPECT_THAT(outer.detail, HasSubstr("use 'diloco', got 0.7"));
  const auto every = refused(read_spec_toml(minimal("[sync]\nalgorithm = 'ddp'\nevery = 50")));
  EXPECT_EQ(every.pointer, "/sync/every");
  const auto word = refused(read_spec_toml(minimal("[sync]\nalgorithm = 'dpp'")));
  EXPECT_THAT(word.detail, HasSubstr("did you mean 'ddp'?"));
}

TEST(SpecText, JsonHasTheOrderOfToml) {
  const auto json = spec_to_json(full());
  std::vector<std::string> tables;
  for (const auto& [key, value] : json.items()) tables.push_back(key);
  EXPECT_EQ(tables, (std::vector<std::string>{"name", "description", "model", "data", "train",
                                              "sync", "swarm", "checkpoint", "eval", "trainer"}));
  EXPECT_EQ(json["train"]["betas"].dump(), "[0.8,0.99]");
  EXPECT_EQ(json["sync"]["outer"]["lr"], 0.6);
}

TEST(SpecText, MissingFieldsAreRequired) {
  const auto read = read_spec_toml("");
  ASSERT_TRUE(read.problems);
  ASSERT_EQ(read.problems->fields.size(), 2u);
  EXPECT_EQ(read.problems->fields[0].pointer, "/name");
  EXPECT_THAT(read.problems->fields[0].detail, HasSubstr("is required"));
  EXPECT_EQ(read.problems->fields[1].pointer, "/data/train");
  EXPECT_EQ(read.problems->summary, "2 fields are not accepted");
}

TEST(SpecText, UnknownFieldNamesTheNearestAndTheAcceptedOnes) {
  const auto error = refused(read_spec_toml(minimal("[train]\nlerning_rate = 0.1")));
  EXPECT_EQ(error.pointer, "/train/lerning_rate");
  EXPECT_THAT(error.detail,
              AllOf(HasSubstr("unknown field 'lerning_rate'; did you mean 'lr'?"),
                    HasSubstr("accepted in [train]: steps, batch"), HasSubstr("line 5, column")));
}

TEST(SpecText, UnknownFieldsAreNeverFarFromAName) {
  const std::pair<const char*, const char*> cases[] = {
      {"[train]\nbatchsize = 3", "'batch'"}, {"[model]\nlayer = 3", "'layers'"},
      {"[model]\nn_embd = 3", "'hidden'"},   {"[train]\nwarm_up = 3", "'warmup'"},
      {"[sync]\nevry = 3", "'every'"},       {"[sync.outer]\nmomentun = 0.3", "'momentum'"},
      {"[trian]\nsteps = 3", "'train'"},     {"[train]\nmax_grad_norm = 3", "'clip'"},
  };
  for (const auto& [text, nearest] : cases) {
    const auto error = refused(read_spec_toml(minimal(text)));
    EXPECT_THAT(error.detail, HasSubstr(std::string("did you mean ") + nearest)) << text;
  }
}

TEST(SpecText, ARightNameInTheWrongTable) {
  EXPECT_THAT(refused(read_spec_toml(minimal("[train]\ncodec = 'int8'"))).detail,
              HasSubstr("it belongs in [sync]"));
  EXPECT_THAT(refused(read_spec_json(R"({"name":"a","data":{"train":"/x"},"vocab":256})")).detail,
              HasSubstr("it belongs in [model]"));
  EXPECT_THAT(refused(read_spec_json(R"({"name":"a","data":{"train":"/x"},"lr":0.1})")).detail,
              HasSubstr("it belongs in [train] or in [sync.outer]"));
  EXPECT_THAT(refused(read_spec_toml(minimal("[outer]\nlr = 1"))).detail,
              HasSubstr("it belongs in [sync] (accepted"));
}

TEST(SpecText, WrongTypes) {
  const std::pair<const char*, const char*> cases[] = {
      {"[train]\nsteps = 10.0", "/train/steps must be an integer of at most 64 bits, got 10.0"},
      {"[train]\nsteps = '10'",
       "/train/steps must be an integer of at most 64 bits, got '10'; write it without the quotes"},
      {"[train]\nlr = \"1e-3\"",
       "/train/lr must be a number, got '1e-3'; write it without the quotes"},
      {"[train]\nlr = 'fast'", "/train/lr must be a number, got 'fast'"},
      {"[train]\nlr = 2020-01-01", "/train/lr must be a number, got a date or time"},
      {"[train]\nseed = -1", "/train/seed must be 0 or more, got -1"},
      {"[train]\nbetas = [0.9]", "/train/betas must be an array of two numbers"},
      {"[train]\nschedule = 'cosin'",
       "'cosine' or 'constant', got 'cosin'; did you mean 'cosine'?"},
      {"[sync]\nouter = 3", "/sync/outer must be a table of fields, got 3"},
      {"[eval]\nbatches = true", "got true"},
  };
  for (const auto& [text, expected] : cases) {
    const auto error = refused(read_spec_toml(minimal(text)));
    EXPECT_THAT(error.pointer + " " + error.detail, HasSubstr(expected)) << text;
  }
}

TEST(SpecText, TheWordsOfTheReduce) {
  const auto read = read_spec_toml(minimal(
      "[sync]\ntopology = 'allgather'\ncodec = 'sparse2'\n[sync.outer]\nlr = 1\nmomentum = 0"));
  ASSERT_FALSE(read.problems) << read.problems->summary;
  EXPECT_EQ(read.spec.sync.topology, Topology::kAllgather);
  EXPECT_EQ(read.spec.sync.codec, CodecKind::kSparse2);
  EXPECT_THAT(refused(read_spec_toml(minimal("[sync]\nclip = 1"))).detail,
              HasSubstr("must be true or false, got 1"));
  EXPECT_THAT(refused(read_spec_toml(minimal("[sync]\naggregator = 'median'"))).detail,
              HasSubstr("'mean' or 'trimmed_mean' or 'centered_clip'"));
}

TEST(SpecText, LongTextsAreCutBetweenCharacters) {
  std::string word = "a";
  for (int i = 0; i < 100; ++i) word += "é";
  const auto error = refused(read_spec_toml(minimal("[sync]\ncodec = '" + word + "'")));
  EXPECT_THAT(error.detail, HasSubstr("é…'"));
  EXPECT_NO_THROW(nlohmann::json(error.detail).dump());
}

TEST(SpecText, IntegersBeyond64BitsAreRefused) {
  const auto read =
      read_spec_json(R"({"name":"a","data":{"train":"/x"},"train":{"seed":9223372036854775808}})");
  EXPECT_EQ(refused(read).pointer, "/train/seed");
}

TEST(SpecText, BrokenRulesCarryTheLine) {
  const auto error = refused(read_spec_toml(minimal("[train]\nlr = -1\nschedule = 'constant'")));
  EXPECT_EQ(error.pointer, "/train/lr");
  EXPECT_THAT(error.detail, AllOf(HasSubstr("got -1"), HasSubstr("line 5, column")));
}

TEST(SpecText, ABadTypeIsToldOnce) {
  const auto read = read_spec_toml("name = 3\n[data]\ntrain = '/x'");
  EXPECT_THAT(refused(read).detail, HasSubstr("must be a string, got 3"));
}

TEST(SpecText, SyntaxErrorsCarryLineAndColumn) {
  const auto toml = read_spec_toml("name = 'a'\n[train\nlr = 1");
  ASSERT_TRUE(toml.problems && toml.problems->syntax);
  EXPECT_THAT(toml.problems->summary, HasSubstr("not valid TOML at line 2, column"));
  const auto json = read_spec_json("{\"name\": \"a\",\n  nope}");
  ASSERT_TRUE(json.problems && json.problems->syntax);
  EXPECT_THAT(json.problems->summary, HasSubstr("not valid JSON at line 2, column"));
  EXPECT_TRUE(read_spec_toml("name = 'a'\nname = 'b'").problems->syntax);
}

TEST(SpecText, LettersBeyondAsciiStandInQuotes) {
  const auto refused = read_spec_toml(minimal("# \xD0\x9E\n[model]\nlayers\xD0\x9E = 2\n"));
  ASSERT_TRUE(refused.problems && refused.problems->syntax);
  EXPECT_THAT(refused.problems->summary, HasSubstr("line 6"));
  const auto taken = read_spec_toml(
      "\xEF\xBB\xBFname = 'a' # \xD0\x9E\n[data]\n"
      "train = \"\"\"/x\xD0\x9E\"\"\"\"\n");
  ASSERT_FALSE(taken.problems) << taken.problems->summary;
  EXPECT_EQ(taken.spec.data.train, "/x\xD0\x9E\"");
}

TEST(SpecText, NotAnObjectAndTooLarge) {
  EXPECT_TRUE(read_spec_json("[]").problems->syntax);
  EXPECT_TRUE(read_spec_json("").problems->syntax);
  EXPECT_THAT(read_spec_toml(std::string(2 << 20, '#')).problems->summary, HasSubstr("1 MiB"));
}

TEST(SpecText, DeepNestingDoesNotHurt) {
  std::string deep(200'000, '[');
  EXPECT_TRUE(read_spec_json(deep).problems);
  EXPECT_TRUE(read_spec_toml("a = " + deep).problems);
}

// ---- docs/job_file.md and docs/experimental_methods.md tell every field, its default and its
// words

std::string job_file_pages() {
  std::istringstream paths(SHOAL_JOB_FILE_PAGES);
  std::string pages;
  for (std::string path; std::getline(paths, path, ':');) {
    std::ifstream file(path);
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(page.empty()) << path;
    pages += page;
  }
  return pages;
}

struct Row {
  std::string default_value, text;
};

// "| `train.lr` | 1e-3 | meaning |", a row of each page that has the field.
std::vector<Row> documented(const std::string& pages, const std::string& field) {
  static const std::regex kCells("\\| (.*?) \\| (.*?) \\| (.*) \\|");
  std::vector<Row> rows;
  std::istringstream lines(pages);
  std::smatch cells;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `" + field + "` |")) continue;
    if (std::regex_match(line, cells, kCells)) rows.push_back({cells[2], cells[3]});
  }
  return rows;
}

// Whether a page's text of a default means `value`.
bool is_default(const std::string& text, const nlohmann::json& value) {
  return text == "required" || text == "derived" ||
         (value.is_null() && text == "`{}`") ||  // flattened, an empty table
         nlohmann::json::parse(text, nullptr, false) == value || text == "`" + value.dump() + "`";
}

std::string dotted(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer.substr(1);
}

// The words that a refusal lists: "must be 'a' or 'b', got '?'".
std::vector<std::string> accepted_words(const std::string& pointer) {
  auto root = spec_to_json(JobSpec());
  root[nlohmann::json::json_pointer(pointer)] = "?";
  const auto read = read_spec_json(root.dump());
  std::vector<std::string> words;
  for (const auto& error : read.problems->fields) {
    if (error.pointer != pointer || !error.detail.starts_with("must be '")) continue;
    const std::string list = error.detail.substr(0, error.detail.find(", got"));
    static const std::regex kWord("'([^']+)'");
    for (std::sregex_iterator word(list.begin(), list.end(), kWord), end; word != end; ++word) {
      words.push_back((*word)[1]);
    }
  }
  return words;
}

TEST(JobFilePage, TellsEveryFieldItsDefaultAndItsWords) {
  const std::string pages = job_file_pages();
  const auto flat = nlohmann::json(spec_to_json(JobSpec())).flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer.starts_with("/train/betas")) continue;  // an array: one row
    const auto rows = documented(pages, dotted(pointer));
    ASSERT_FALSE(rows.empty()) << "no row for " << dotted(pointer);
    std::string told;
    for (const Row& row : rows) {
      EXPECT_TRUE(is_default(row.default_value, value))
          << dotted(pointer) << " is " << value << " and the page says " << row.default_value;
      told += row.default_value + row.text;
    }
    if (!value.is_string()) continue;
    for (const std::string& word : accepted_words(pointer)) {
      EXPECT_THAT(told, HasSubstr("`\"" + word + "\"`")) << dotted(pointer);
    }
  }
}

// toml++ bounds the nesting of values alone; the sender of a job must not choose the depth of a
// stack.
TEST(SpecText, KeysOfManyPartsAreRefused) {
  const auto many = [](int parts) {
    std::string key = "a";
    while (--parts > 0) key += ".a";
    return key;
  };
  const auto summary = [](const std::string& text) {
    const auto read = read_spec_toml(text);
    return read.problems ? read.problems->summary : "taken";
  };
  for (const std::string& text :
       {many(500'000) + " = 1", "[" + many(40) + "]\nb = 1", "x = {" + many(40) + " = 1}",
        "\"q\"." + many(40) + " = 1", "x = '''\n'''\n" + many(40) + " = 1"}) {
    EXPECT_THAT(summary(text), HasSubstr("a key has more than 32 parts")) << text.substr(0, 40);
  }
  const std::string dots(200, '.');
  for (const std::string& harmless :
       {"# " + dots + "\n", "name = \"" + dots + "\"\n", "name = '" + dots + "'\n",
        "name = \"\"\"\n" + dots + "\"\"\"\n", many(20) + " = 1\n"}) {
    EXPECT_THAT(summary(harmless), Not(HasSubstr("parts"))) << harmless.substr(0, 40);
  }
}

}  // namespace
}  // namespace shoal::proto
