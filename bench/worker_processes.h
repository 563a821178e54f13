// Forked processes that obey one-line commands over a pair of pipes each. They are forked before
// anybody starts a thread, so that gRPC and gloo begin life in the child.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace shoal::bench {

class WorkerProcesses {
 public:
  // What a child does with a command: an answer of one line. It exits when its input ends.
  using Answer = std::function<std::string(const std::string& command)>;
  // `make` runs in the child and gives its answers.
  WorkerProcesses(int count, const std::function<Answer(int index)>& make);
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  // Sends the command to all of them, then collects their answers in order. Empty when one of them
  // ended.
  std::vector<std::string> ask(const std::string& command);

 private:
  struct Child {
    pid_t pid = 0;
    FILE* to = nullptr;
    FILE* from = nullptr;
  };
  std::vector<Child> children_;
};

}  // namespace shoal::bench
