#include "tests/support/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

namespace tilewright::testing {

namespace fs = std::filesystem;

CommandResult run_program(const std::vector<std::string>& command, const std::string& folder,
                          const std::map<std::string, std::string>& environment, int signal, int after_ms) {
  int out[2], err[2];
  CommandResult r;
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return r;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    if (chdir(folder.empty() ? TW_SOURCE_DIR : folder.c_str()) != 0) _exit(126);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  std::thread killer;
  if (signal > 0)
    killer = std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      kill(pid, signal);
    });
  pollfd fds[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&r.out, &r.err};
  for (int open_ends = 2; open_ends > 0 && poll(fds, 2, -1) >= 0;)
    for (int k = 0; k < 2; ++k) {
      if (fds[k].fd < 0 || fds[k].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(fds[k].fd, buffer, sizeof buffer);
      if (n > 0) {
        texts[k]->append(buffer, static_cast<size_t>(n));
      } else {
        close(fds[k].fd);
        fds[k].fd = -1;
        --open_ends;
      }
    }
  int status = 0;
  if (killer.joinable()) killer.join();
  rusage used{};
  wait4(pid, &status, 0, &used);
  r.peak_bytes = int64_t(used.ru_maxrss) * 1024;
  r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return r;
}

std::string command_path() { return TW_COMMAND; }

CommandResult tilewright(const std::vector<std::string>& arguments, const std::string& folder,
                         const std::map<std::string, std::string>& environment, int signal, int after_ms) {
  std::vector<std::string> command{command_path()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command, folder, environment, signal, after_ms);
}

double number_in_json(const std::string& text, const std::string& pointer) {
  const nlohmann::json all = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json::json_pointer at(pointer);
  return !all.is_discarded() && all.contains(at) && all[at].is_number() ? all[at].get<double>()
                                                                        : std::nan("");
}

std::string new_folder() {
  struct Folders {
    std::vector<std::string> paths;
    ~Folders() {
      std::error_code ignored;
      for (const std::string& path : paths) {
        fs::permissions(path, fs::perms::owner_all, ignored);
        fs::remove_all(path, ignored);
      }
    }
  };
  static Folders folders;
  std::string pattern = (fs::temp_directory_path() / "tilewright-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return "";
  folders.paths.push_back(pattern);
  return pattern;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> list(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tilewright::testing
