// For tests: an S3 server of Debian's python3-swift (scripts/s3_server.py) on a free port, which
// can be killed and started again on the same data.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects/bucket.h"

extern char** environ;

namespace shoal::objects {

class S3Server {
 public:
  explicit S3Server(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    std::ofstream(credentials()) << "[default]\naws_access_key_id = test:tester\n"
                                    "aws_secret_access_key = testing\n";
    std::filesystem::permissions(credentials(), std::filesystem::perms(0600));
    start();
  }
  ~S3Server() {
    kill();
    std::filesystem::remove_all(folder_);
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  bool is_installed() const { return installed_; }
  const std::string& endpoint() const { return endpoint_; }
  std::string credentials() const { return folder_ + "/credentials"; }
  std::string location(const std::string& prefix, int part_mib = 5) const {
    return "s3://shoal/" + prefix + "?endpoint=" + endpoint_ +
           "&part_mib=" + std::to_string(part_mib);
  }

  // On the port and the data of before.
  void start() {
    const std::string ready = folder_ + "/ready", data = folder_ + "/data";
    const std::string port = port_.empty() ? "0" : port_;
    std::filesystem::remove(ready);
    const char* arguments[] = {"/usr/bin/python3", S3_SERVER, data.c_str(),  "--port",
                               port.c_str(),       "--ready", ready.c_str(), nullptr};
    ASSERT_EQ(::posix_spawn(&process_, "/usr/bin/python3", nullptr, nullptr,
                            const_cast<char**>(arguments), environ),
              0);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(90);
    while (!std::filesystem::exists(ready)) {
      int status = 0;
      if (::waitpid(process_, &status, WNOHANG) == process_) {
        process_ = 0;
        installed_ = !WIFEXITED(status) || WEXITSTATUS(status) != 77;
        ASSERT_FALSE(installed_) << "the S3 server ended";
        return;
      }
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::ifstream(ready) >> endpoint_;
    port_ = endpoint_.substr(endpoint_.rfind(':') + 1);
  }
  void kill() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  std::unique_ptr<Bucket> bucket(const std::string& prefix, Patience patience = {},
                                 std::function<void()> on_retry = {}) const {
    auto key = CredentialSource::open(credentials(), "key");
    auto where = read_location(location(prefix), "store");
    EXPECT_TRUE(key.ok() && where.ok());
    return std::make_unique<Bucket>(std::move(where).value(),
                                    ClientOptions{.reach = {.private_allowed = true},
                                                  .patience = patience,
                                                  .on_retry = std::move(on_retry)},
                                    std::move(key).value());
  }

  // What s3cmd, which shares no code with us, says of `arguments`.
  std::string s3cmd(const std::string& arguments) const {
    const std::string config = folder_ + "/s3cmd", host = endpoint_.substr(7);
    std::ofstream(config) << "[default]\naccess_key = test:tester\nsecret_key = testing\n"
                          << "host_base = " << host << "\nhost_bucket = " << host
                          << "\nuse_https = False\n";
    const std::string command = "timeout 30 s3cmd -c " + config + " " + arguments + " 2>&1";
    FILE* out = ::popen(command.c_str(), "r");
    std::string text;
    char piece[4096];
    for (std::size_t got; out && (got = fread(piece, 1, sizeof piece, out)) > 0;)
      text.append(piece, got);
    if (out != nullptr) ::pclose(out);
    return text;
  }

 private:
  const std::string folder_;
  bool installed_ = true;
  std::string endpoint_, port_;
  ::pid_t process_ = 0;
};

}  // namespace shoal::objects
