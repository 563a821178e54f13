// See worker_processes.h.
#include "bench/worker_processes.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "wire/cross_memory.h"

namespace shoal::bench {
namespace {

bool read_line(FILE* file, std::string& line) {
  line.clear();
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    if (c == '\n') return true;
    line.push_back(static_cast<char>(c));
  }
  return false;
}

[[noreturn]] void serve(FILE* in, FILE* out, const WorkerProcesses::Answer& answer) {
  for (std::string line; read_line(in, line);) {
    std::fprintf(out, "%s\n", answer(line).c_str());
    std::fflush(out);
  }
  std::_Exit(0);  // without the destructors of libraries that still have threads
}

}  // namespace

WorkerProcesses::WorkerProcesses(int count, const std::function<Answer(int index)>& make) {
  std::signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < count; ++i) {
    std::array<int, 2> down{}, up{};
    SHOAL_CHECK(pipe(down.data()) == 0 && pipe(up.data()) == 0, "no pipes");
    const pid_t pid = fork();
    SHOAL_CHECK(pid >= 0, "no process");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      wire::let_siblings_read_memory();
      for (Child& other : children_) std::fclose(other.to), std::fclose(other.from);
      close(down[1]);
      close(up[0]);
      serve(fdopen(down[0], "r"), fdopen(up[1], "w"), make(i));
    }
    close(down[0]);
    close(up[1]);
    children_.push_back({pid, fdopen(down[1], "w"), fdopen(up[0], "r")});
  }
}

WorkerProcesses::~WorkerProcesses() {
  for (Child& child : children_) std::fclose(child.to);
  for (Child& child : children_) {
    std::fclose(child.from);
    waitpid(child.pid, nullptr, 0);
  }
}

std::vector<std::string> WorkerProcesses::ask(const std::string& command) {
  for (Child& child : children_) {
    std::fprintf(child.to, "%s\n", command.c_str());
    std::fflush(child.to);
  }
  std::vector<std::string> answers(children_.size());
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!read_line(children_[i].from, answers[i])) return {};
  }
  return answers;
}

}  // namespace shoal::bench
