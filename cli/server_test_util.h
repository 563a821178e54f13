// For tests: an HTTP server on a free port of loopback that answers each request with what a
// function says, byte for byte, and closes the connection. It understands no more of HTTP than
// where a request ends.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

namespace shoal::cli {

// A whole answer, with its length.
inline std::string http_answer(int status, const std::string& body,
                               const std::string& type = "application/json",
                               const std::string& headers = {}) {
  return "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "Connection: close\r\n\r\n" + body;
}

class ScriptedServer {
 public:
  // From the request, head and body, to the answer; on the server's thread.
  using Script = std::function<std::string(const std::string& request)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    auto* address = reinterpret_cast<sockaddr*>(&any);
    SHOAL_CHECK(bind(listener_, address, size) == 0 && listen(listener_, 16) == 0);
    SHOAL_CHECK(getsockname(listener_, address, &size) == 0);
    address_ = "http://127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~ScriptedServer() {
    shutdown(listener_, SHUT_RDWR);  // ends accept()
    thread_.join();
    close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  void run() {
    for (int fd = accept(listener_, nullptr, nullptr); fd >= 0;
         fd = accept(listener_, nullptr, nullptr)) {
      const std::string answer = script_(read_request(fd));
      (void)!send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      shutdown(fd, SHUT_WR);
      close(fd);
    }
  }

  static std::string read_request(int fd) {
    std::string text;
    std::array<char, 4096> bytes;
    while (!is_whole(text)) {
      const ssize_t size = recv(fd, bytes.data(), bytes.size(), 0);
      if (size <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(size));
    }
    return text;
  }
  static bool is_whole(const std::string& text) {
    const std::size_t head = text.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const std::size_t length = text.find("Content-Length: ");
    const std::size_t body = length < head ? std::stoul(text.substr(length + 16)) : 0;
    return text.size() >= head + 4 + body;
  }

  Script script_;
  int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string address_;
  std::thread thread_;
};

}  // namespace shoal::cli
