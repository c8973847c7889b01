#include "tilewright/runtime/toolchain.h"

#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace tilewright {

namespace fs = std::filesystem;

namespace {

/// The program that a shell would start, links resolved; empty where there is none.
fs::path program_of(const std::string& command) {
  std::vector<fs::path> places;
  if (command.find('/') != std::string::npos) {
    places.emplace_back(command);
  } else if (const char* path = std::getenv("PATH"); path != nullptr) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      places.push_back(fs::path(folder.empty() ? "." : folder) / command);
  }
  std::error_code error;
  for (const fs::path& place : places)
    if (access(place.c_str(), X_OK) == 0 && fs::is_regular_file(place, error))
      return fs::canonical(place, error);
  return {};
}

/// The first processor of /proc/cpuinfo without what changes from moment to moment; empty where it tells no features.
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string text;
  bool features = false;
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const std::string name = line.substr(0, line.find_first_of("\t:"));
    if (name == "processor" || name == "cpu MHz" || name == "bogomips" || name == "BogoMIPS") continue;
    features = features || name == "flags" || name == "Features";
    text += line + "\n";
  }
  return features ? text : "";
}

/// Does a program of this name compile by itself, as g++-12 and x86_64-linux-gnu-gcc do? A wrapper's answers may change
/// while its file does not.
bool names_a_compiler(std::string name) {
  const size_t version = name.find_last_not_of("0123456789.");
  if (version != std::string::npos && name[version] == '-' && version + 1 < name.size()) name.resize(version);
  const size_t prefix = name.rfind('-');
  if (prefix != std::string::npos) name.erase(0, prefix + 1);
  const char* const known[] = {"g++", "gcc", "c++", "cc", "clang", "clang++"};
  return std::find(std::begin(known), std::end(known), name) != std::end(known);
}

/// Path, size, time and inode of a program with the processor that runs it.
std::optional<std::string> fingerprint(const fs::path& program) {
  struct stat status {};
  const std::string cpu = processor();
  if (cpu.empty() || program.empty() || stat(program.c_str(), &status) != 0) return std::nullopt;
  return fmt::format("{} {} {}.{:09} {}\n{}", program.string(), status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ino, cpu);
}

/// The loaded object that holds an address.
struct Holder {
  uintptr_t address;
  std::string path;  ///< empty: the program itself
  bool found = false;
};

int look_for(dl_phdr_info* object, size_t, void* data) {
  auto& holder = *static_cast<Holder*>(data);
  for (int k = 0; k < object->dlpi_phnum; ++k) {
    const uintptr_t begin = object->dlpi_addr + object->dlpi_phdr[k].p_vaddr;
    if (object->dlpi_phdr[k].p_type != PT_LOAD || holder.address < begin ||
        holder.address - begin >= object->dlpi_phdr[k].p_memsz)
      continue;
    holder.path = object->dlpi_name ? object->dlpi_name : "";
    holder.found = true;
    return 1;
  }
  return 0;
}

}  // namespace

std::optional<std::string> toolchain_fingerprint(const std::string& command) {
  if (command.find_first_of(" \t") != std::string::npos) return std::nullopt;
  const fs::path program = program_of(command);
  if (program.empty() || !names_a_compiler(program.filename().string())) return std::nullopt;
  std::ifstream in(program, std::ios::binary);
  char magic[4] = {};
  if (!in.read(magic, 4) || std::string(magic, 4) != "\177ELF") return std::nullopt;
  const auto print = fingerprint(program);
  return print ? std::optional(command + "\n" + *print) : std::nullopt;
}

std::optional<std::string> own_fingerprint() {
  Holder holder{reinterpret_cast<uintptr_t>(&own_fingerprint), {}};
  dl_iterate_phdr(look_for, &holder);
  if (!holder.found) return std::nullopt;
  std::error_code error;
  return fingerprint(fs::canonical(holder.path.empty() ? "/proc/self/exe" : holder.path, error));
}

}  // namespace tilewright
