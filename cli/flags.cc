// See flags.h.
#include "cli/flags.h"

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace shoal::cli {
namespace {

void take_tokenizer(CLI::App& command, std::string& file) {
  command.add_option("--tokenizer", file, "tokenizer.json, or a SentencePiece model")->required();
}

void take_texts(CLI::App& command, std::vector<std::string>& files, std::string& field,
                bool& skip_bad) {
  command.add_option("FILES", files, "text, or JSON lines with --field; gzip and zstd are read")
      ->required();
  command.add_option("--field", field,
                     "what holds the text of each JSON line, such as text or messages[0].content");
  command.add_flag("--skip-bad-lines", skip_bad,
                   "leave out and count lines that are not JSON or have no text there");
}

void take_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "[one per core]")->check(CLI::Range(1, 1024));
}

}  // namespace

void add_up_flags(CLI::App& command, UpOptions& options) {
  command.add_option("--agents", options.agents, "how many agents")->required();
  command.add_option("--reducers", options.reducers,
                     "further agents that only average, for sync.topology = \"param_server\" [0]");
  command.add_option("--http", options.http,
                     "REST and metrics [127.0.0.1:7070]; port 0: a free one");
  command.add_option("--grpc", options.grpc, "for agents [127.0.0.1:7071]; port 0: a free one");
  command.add_option("--data-dir", options.data_dir,
                     "folder of all its files [~/.local/share/shoal/up]");
  command
      .add_option("--data-root", options.data_roots,
                  "[NAME=]FOLDER that jobs may read, any number of times [all you may read]")
      ->allow_extra_args(false);
  command.add_option("--threads", options.threads, "threads per agent [cores / agents]");
  command
      .add_option("--speeds", options.speeds, "agents' shares of full speed, such as 1,0.5,0.25")
      ->delimiter(',');
  command.add_option("--trainer-root", options.trainer_root,
                     "folder with the Python programs of jobs (trainer.kind = \"python\") [none]");
  command.add_option("--python", options.python,
                     "interpreter of these, and of code that you upload [python3]");
  command.add_option("--emulate-link", options.emulated_link,
                     "a slow line for each agent's trainers: up=200mbit,down=200mbit,rtt=80ms");
  command.add_flag("--detach", options.detach, "leave it running; stop it with `shoal down`");
}

void add_train_flags(CLI::App& command, TrainTokenizerOptions& options) {
  take_texts(command, options.files, options.field, options.skip_bad);
  command.add_option("-o,--output", options.output, "the tokenizer.json")->required();
  command
      .add_option("--vocab", options.vocabulary,
                  "size of the vocabulary, with bytes and special tokens")
      ->required();
  command
      .add_option("--special", options.special,
                  "a special token, any number of times [<|endoftext|>]")
      ->allow_extra_args(false);
  command.add_option("--min-frequency", options.min_frequency, "rarer pairs are not merged [2]");
  command
      .add_option("--bytes", options.bytes_max, "read at most this much of each file: 1GB [all]")
      ->transform(CLI::AsSizeValue(true));
  take_threads(command, options.threads);
}

void add_encode_flags(CLI::App& command, EncodeOptions& options) {
  take_tokenizer(command, options.tokenizer);
  command.add_option("TEXT", options.words, "the text; without it stdin");
  command.add_flag("--frame", options.frame, "with the tokens that begin and end every text");
}

void add_decode_flags(CLI::App& command, EncodeOptions& options) {
  take_tokenizer(command, options.tokenizer);
  command.add_option("TOKENS", options.words, "numbers; without them stdin");
  command.add_flag("--special", options.special, "show special tokens, too");
}

void add_prepare_flags(CLI::App& command, PrepareDatasetOptions& options) {
  take_texts(command, options.files, options.field, options.skip_bad);
  take_tokenizer(command, options.tokenizer);
  command.add_option("-o,--output", options.output, "a new folder")->required();
  command.add_option("--end-of-text", options.end_of_text,
                     "the token after each document [the tokenizer's]");
  command.add_option("--shard-size", options.shard_bytes, "largest size of a shard [256MB]")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::uint64_t{1} << 10, std::uint64_t{1} << 40));
  take_threads(command, options.threads);
}

void add_dataset_flags(CLI::App& command, DatasetOptions& options) {
  command.add_option("NAME", options.name, "name of the new dataset")->required();
  command
      .add_option("FILES", options.files,
                  "its shards, in this order: files; URLs (https, s3) whose content stays there; "
                  "or one folder of `shoal dataset prepare`")
      ->required();
  command
      .add_option(
          "--tokens", options.tokens,
          "form of the tokens in the files: bytes (text), uint16, uint32 [.txt, .md: bytes]")
      ->check(CLI::IsMember({"bytes", "uint16", "uint32"}));
  command
      .add_option("--tokenizer", options.tokenizer,
                  "tokenizer.json of the tokens, which jobs then know [that of a prepared folder]")
      ->type_name("FILE");
  command
      .add_option("--credentials", options.credentials,
                  "file with your key of s3://…, as ~/.aws/credentials [AWS_ACCESS_KEY_ID, "
                  "AWS_SECRET_ACCESS_KEY]")
      ->type_name("FILE");
}

void add_export_flags(CLI::App& command, ExportOptions& options) {
  command
      .add_option("CHECKPOINT|JOB|FOLDER", options.checkpoint,
                  "id of a checkpoint, a job (its newest one), or a downloaded one")
      ->required();
  command.add_option("-o,--output", options.output, "a new folder")->required();
  command.add_option("--dtype", options.dtype, "bf16 or fp32 [bf16]")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  command.add_option("--shard-size", options.shard_size, "largest size of a file [5GB]")
      ->check([](const std::string& text) {
        std::string copy = text;
        return CLI::AsSizeValue(true)(copy);
      });
  command.add_option("--tokenizer", options.tokenizer, "copy the tokenizer of this folder");
}

}  // namespace shoal::cli
