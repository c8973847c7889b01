#include "tilewright/runtime/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>

extern char** environ;

namespace tilewright {

namespace {

/// The commands that run, each the leader of a process group of its own.
struct Running {
  std::mutex mutex;
  std::set<pid_t> leaders;
};

/// Never destroyed: a thread may wait for a command while the process ends.
Running& running() {
  static Running* all = new Running;
  return *all;
}

}  // namespace

int run_command(const std::vector<std::string>& command, std::string& log) {
  std::vector<char*> argv;
  for (const std::string& w : command) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
  // The command blocks signals that it handles in a thread of its own; what it starts must not. A group of its own lets
  // stop_commands() reach what a compiler's driver has started in turn.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int failed = [&] {
    std::lock_guard lock(running().mutex);
    const int error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
    if (error == 0) running().leaders.insert(pid);
    return error;
  }();
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  if (failed != 0) {
    close(fds[0]);
    return -1;
  }
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fds[0], buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    log.append(buffer, static_cast<size_t>(n));
  }
  close(fds[0]);
  // It is forgotten before its number can be given to another process.
  siginfo_t ended;
  while (waitid(P_PID, id_t(pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  {
    std::lock_guard lock(running().mutex);
    running().leaders.erase(pid);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void stop_commands() {
  Running& all = running();
  all.mutex.lock();  // for good: nothing may be started after this
  for (pid_t leader : all.leaders) kill(-leader, SIGTERM);
}

}  // namespace tilewright
