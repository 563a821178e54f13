// shoal checkpoint download. A download ends with the SHA-256 that the coordinator's list names, or
// not at all: a file gets its name only after its hash was right.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/number_text.h"
#include "base/sha256.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

struct RemoteFile {
  std::string path, sha256;
  std::int64_t size = 0;
};

std::string sha256_of(const fs::path& path) {
  Sha256 hash;
  std::ifstream file(path, std::ios::binary);
  std::string block(std::size_t{1} << 20, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    hash.add(std::as_bytes(std::span(block.data(), static_cast<std::size_t>(file.gcount()))));
  }
  return hash.finish();
}

// Names come from the network: nothing may land outside the folder.
bool is_safe(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

Result<std::vector<RemoteFile>> files_of(const Json& checkpoint) {
  std::vector<RemoteFile> files;
  const Json* list = at_path(checkpoint, "files");
  if (!list || !list->is_array() || list->empty()) {
    return Error{Code::kConflict,
                 "the checkpoint has no files: it is " + text_at(checkpoint, "state"), "",
                 "take one that is stored; see `shoal checkpoint ls`"};
  }
  for (const Json& entry : *list) {
    RemoteFile file{text_at(entry, "path", ""), text_at(entry, "sha256", ""),
                    static_cast<std::int64_t>(number_at(entry, "size"))};
    if (!is_safe(file.path)) {
      return Error{Code::kDataLoss, "the checkpoint names a file outside its folder: " + file.path,
                   "", ""};
    }
    files.push_back(std::move(file));
  }
  return files;
}

std::string escaped_path(const std::string& path) {
  std::string escaped;
  for (const fs::path& part : fs::path(path)) {
    escaped += (escaped.empty() ? "" : "/") + url_escape(part.string());
  }
  return escaped;
}

void show_progress(const std::string& name, std::int64_t done, std::int64_t size) {
  if (!terminal().stderr_is_tty) return;
  std::fprintf(stderr, "\r\033[K%s  %s of %s", name.c_str(),
               size_text(static_cast<double>(done)).c_str(),
               size_text(static_cast<double>(size)).c_str());
  if (done >= size) std::fputs("\r\033[K", stderr);
}

// `number`: errno as it was when the stream turned bad.
Status check_written(const std::ofstream& out, const fs::path& path, int number) {
  if (out) return {};
  return Error{Code::kResourceExhausted,
               path.string() + " cannot be written: " + std::strerror(number), "",
               "make room or name another folder; the download then continues where it stopped"};
}

Status download_file(const Api& api, const std::string& base, const RemoteFile& file,
                     const fs::path& folder) {
  const fs::path target = folder / file.path;
  const fs::path part = target.string() + ".part";
  std::error_code failure;
  if (fs::exists(target, failure) && sha256_of(target) == file.sha256) return {};
  fs::create_directories(target.parent_path(), failure);
  std::int64_t done =
      fs::exists(part, failure) ? static_cast<std::int64_t>(fs::file_size(part)) : 0;
  if (done > file.size) done = 0;
  if (done < file.size || file.size == 0) {
    std::ofstream out(part, std::ios::binary | (done > 0 ? std::ios::app : std::ios::trunc));
    if (auto opened = check_written(out, part, errno); !opened) return opened;
    bool continues = done > 0;
    int number = 0;
    const auto take = [&](int status, std::string_view bytes) {
      if (continues && status != 206) {  // the range was not honored: from the start
        out.close();
        out.open(part, std::ios::binary | std::ios::trunc);
        done = 0;
        continues = false;
      }
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      if (!out.good()) number = errno;
      done += static_cast<std::int64_t>(bytes.size());
      show_progress(file.path, done, file.size);
      return out.good();
    };
    const auto fetched = api.download(base + "/" + escaped_path(file.path), done, take);
    const bool good = out.good();
    out.close();
    if (good && !out.good()) number = errno;
    if (auto written = check_written(out, part, number); !written) return written;
    if (!fetched) return fetched;
  }
  if (sha256_of(part) != file.sha256) {
    fs::remove(part, failure);
    return Error{
        Code::kDataLoss, file.path + " arrived with another SHA-256 than promised", "",
        "download it again; if it fails again, the coordinator's copy is damaged: use another "
        "checkpoint"};
  }
  fs::rename(part, target, failure);
  if (failure) return Error{Code::kInternal, target.string() + ": " + failure.message(), "", ""};
  return {};
}

// What can be done with a checkpoint in `folder`.
std::string advice_for(const std::string& folder) {
  const fs::path part = fs::path(folder) / "part-00.json", old = fs::path(folder) / "shoal.json";
  std::ifstream file(fs::exists(part) ? part : old, std::ios::binary);
  const Json head = Json::parse(file, nullptr, false);
  if (text_at(head, "spec/trainer/kind", "") == "python") {
    return "Its parameters in PyTorch: shoal.load_checkpoint(\"" + folder +
           "\"); as plain files: shoal checkpoint export " + folder + " -o FOLDER";
  }
  return "Sample from it with: shoal generate --checkpoint " + folder +
         " --prompt \"In the beginning\"";
}

}  // namespace

Result<std::string> find_checkpoint(const Api& api, const std::string& checkpoint_or_job) {
  // No name of a job has an underscore.
  if (checkpoint_or_job.rfind("ckpt_", 0) == 0) return checkpoint_or_job;
  auto listed = api.list("/jobs/" + url_escape(checkpoint_or_job) + "/checkpoints?order=desc");
  if (!listed) return listed.error();
  for (const Json& checkpoint : listed->at("items")) {
    if (text_at(checkpoint, "state") == "stored") return text_at(checkpoint, "id");
  }
  return Error{Code::kNotFound, "job " + checkpoint_or_job + " has no stored checkpoint yet", "",
               "`shoal job get " + checkpoint_or_job + "` says how far it is"};
}

Status download_checkpoint(const Api& api, const std::string& checkpoint,
                           const std::string& folder) {
  const std::string path = "/checkpoints/" + url_escape(checkpoint);
  auto found = api.get(path);
  if (!found) return found.error();
  auto files = files_of(*found);
  if (!files) return files.error();
  for (const RemoteFile& file : *files) {
    if (auto done = download_file(api, path + "/files", file, folder); !done) return done;
  }
  return {};
}

Result<int> checkpoint_download(const Context& context, const std::string& checkpoint_or_job,
                                const std::string& folder) {
  catch_interrupts();
  auto checkpoint = find_checkpoint(context.api, checkpoint_or_job);
  if (!checkpoint) return checkpoint.error();
  const std::string target = folder.empty() ? *checkpoint : folder;
  if (auto done = download_checkpoint(context.api, *checkpoint, target); !done) return done.error();
  const std::string absolute = fs::absolute(target).lexically_normal().string();
  if (context.json) {
    print(Json{{"checkpoint", *checkpoint}, {"folder", absolute}}.dump(2) + "\n");
  } else {
    print(absolute + "\n");
    say(advice_for(target));
  }
  return kExitOk;
}

}  // namespace shoal::cli
