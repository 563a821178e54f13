// See job_tokenizer.h.
#include "trainer/compute/job_tokenizer.h"

#include <system_error>

#include "replica/checkpoint/safetensors.h"

namespace shoal::trainer {
namespace {

constexpr const char* kField = "data.tokenizer_file";

Error of_field(Error error) {
  error.field = kField;
  return error;
}

Status check_fits(const tokenizer::TextTokenizer& tokenizer, const JobSpec& spec,
                  const std::string& path) {
  if (tokenizer.vocabulary() <= spec.model.vocab) return {};
  return Error{Code::kValidation,
               path + " has " + std::to_string(tokenizer.vocabulary()) + " tokens, the model has " +
                   std::to_string(spec.model.vocab),
               kField,
               "set model.vocab to " + std::to_string(tokenizer.vocabulary()) +
                   " or more, or name the tokenizer of this model"};
}

Result<std::unique_ptr<tokenizer::TextTokenizer>> parse_fitting(const std::string& content,
                                                                const JobSpec& spec,
                                                                const std::string& path) {
  auto parsed = tokenizer::parse_tokenizer(content, path);
  if (!parsed) {
    Error error = of_field(parsed.error());
    error.code = Code::kValidation;  // another host would say the same
    return error;
  }
  if (Status s = check_fits(**parsed, spec, path); !s) return s.error();
  return parsed;
}

Result<std::string> of_file(const std::string& path, const data::DataRoots& roots) {
  const auto fd = roots.open(path);
  if (!fd) return of_field(fd.error());
  auto content = replica::read_text(*fd, path, tokenizer::kFileBytesMax);
  if (!content) return of_field(content.error());
  if (!content->empty()) return content;
  return Error{Code::kValidation, path + " is empty", kField, "name a tokenizer.json"};
}

Result<std::string> of_datasets(const JobSpec& spec, const data::ReadStored& read) {
  if (!read) return std::string();
  return data::read_tokenizer(spec, read);
}

}  // namespace

Result<std::shared_ptr<const JobTokenizer>> open_job_tokenizer(const JobSpec& spec,
                                                               const data::DataRoots& roots,
                                                               const data::ReadStored& read) {
  const std::string& path = spec.data.tokenizer_file;
  auto content = path.empty() ? of_datasets(spec, read) : of_file(path, roots);
  if (!content) return content.error();
  if (content->empty()) return std::shared_ptr<const JobTokenizer>();
  auto parsed = parse_fitting(*content, spec, path.empty() ? "the dataset's tokenizer" : path);
  if (!parsed) return parsed.error();
  return std::shared_ptr<const JobTokenizer>(
      std::make_shared<JobTokenizer>(JobTokenizer{std::move(*parsed), std::move(*content)}));
}

Result<std::unique_ptr<tokenizer::TextTokenizer>> checkpoint_tokenizer(
    const std::filesystem::path& folder, const JobSpec& spec) {
  const std::filesystem::path path = folder / kTokenizerFile;
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) {
    return std::unique_ptr<tokenizer::TextTokenizer>();
  }
  const auto content = tokenizer::read_tokenizer_file(path.string());
  if (!content) return of_field(content.error());
  return parse_fitting(*content, spec, path.string());
}

}  // namespace shoal::trainer
