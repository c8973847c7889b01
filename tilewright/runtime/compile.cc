#include "tilewright/runtime/compile.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>

#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/process.h"
#include "tilewright/runtime/toolchain.h"
#include "tilewright/support/error.h"

namespace tilewright {

namespace {

std::atomic<int64_t> compiled{0}, hits{0};

std::string compiler_command() {
  const char* cxx = std::getenv("CXX");
  return cxx != nullptr && *cxx != 0 ? cxx : "c++";
}

std::vector<std::string> words_of(const std::string& s) {
  std::istringstream in(s);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  return words;
}

/// What a compiler says of itself and of the machine it compiles for.
std::string ask_compiler(const std::string& command) {
  std::vector<std::string> words = words_of(command);
  words.push_back("--version");
  std::string version;
  if (run_command(words, version) != 0) {
    throw UserError(
        Span{}, fmt::format("no C++ compiler: `{}` cannot be run", command),
        "install one (on Debian: apt-get install g++) or name it in the environment variable CXX");
  }
  // -march=native depends on the processor: the flags the compiler resolves it to are part of the identity.
  std::string resolved;
  std::vector<std::string> query = words_of(command);
  for (const char* w : {"-march=native", "-Q", "--help=target"}) query.emplace_back(w);
  run_command(query, resolved);
  return version + resolved;
}

/// What identifies the compiler and the machine it compiles for; part of the key. Asking takes longer than a small kernel runs, so the answer is cached
/// for as long as nothing of the compiler has changed.
const std::string& compiler_identity() {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  std::lock_guard lock(mutex);
  const std::string command = compiler_command();
  auto it = known.find(command);
  if (it != known.end()) return it->second;
  const auto fingerprint = toolchain_fingerprint(command);
  if (!fingerprint) return known[command] = ask_compiler(command);
  const std::string key = content_key({*fingerprint});
  if (const auto answer = cache_get(key, compiler_extension))
    return known[command] = std::string(answer->begin(), answer->end());
  const std::string answer = ask_compiler(command);
  cache_put(key, compiler_extension, {answer.begin(), answer.end()});
  return known[command] = answer;
}

}  // namespace

CompileStats compile_stats() { return {compiled.load(), hits.load()}; }

namespace {

std::string flags_of(const std::string& flags) {
  return "-x c++ -std=c++17 -O2 -shared -fPIC -fno-math-errno -fno-trapping-math -fno-exceptions -w " + flags;
}

std::string object_key(const std::string& source, const std::string& flags) {
  return content_key({source, flags_of(flags), compiler_identity()});
}

/// Does the compiler make a library of an empty source with these flags? Where it does not, no kernel is at fault.
bool compiles_nothing(const std::string& flags) {
  const std::string base = temporary_folder() + "/empty" + std::to_string(getpid());
  const char text[] = "extern \"C\" void empty() {}\n";
  if (!write_file_atomically(base + ".cc", std::vector<char>(text, text + sizeof text - 1))) return true;
  std::vector<std::string> command = words_of(compiler_command());
  for (const std::string& w : words_of(flags_of(flags))) command.push_back(w);
  for (const std::string& w : {std::string("-o"), base + ".so", base + ".cc"}) command.push_back(w);
  std::string log;
  const int status = run_command(command, log);
  std::error_code ignored;
  for (const char* end : {".cc", ".so"}) std::filesystem::remove(base + end, ignored);
  return status == 0;
}

/// Path of the shared object of `source`: the cache's, else one in the temporary folder.
std::string shared_object(const std::string& source, const std::string& flags, const std::string& key) {
  if (auto cached = cache_path(key, ".so")) {
    ++hits;
    return *cached;
  }
  const std::string base = temporary_folder() + "/" + key;
  if (!write_file_atomically(base + ".cc", std::vector<char>(source.begin(), source.end())))
    throw UserError(Span{}, fmt::format("{}.cc cannot be written", base),
                    "free some space, or set TMPDIR to a folder that can be written");
  std::vector<std::string> command = words_of(compiler_command());
  for (const std::string& w : words_of(flags_of(flags))) command.push_back(w);
  for (const std::string& w : {std::string("-o"), base + ".so", base + ".cc"}) command.push_back(w);
  // A kernel calls the C library alone; looking through the others takes as long as linking.
  for (const char* w : {"-nodefaultlibs", "-lm", "-lc", "-lgcc"}) command.emplace_back(w);
  std::string log;
  const int status = run_command(command, log);
  ++compiled;
  if (status != 0 && log.find("No space left on device") != std::string::npos)
    throw UserError(Span{}, fmt::format("no space is left while `{}` compiles a kernel", compiler_command()),
                    fmt::format("free some space, or set TMPDIR to a folder on another disk than {}",
                                temporary_folder()));
  if (status != 0 && !compiles_nothing(flags))
    throw UserError(Span{},
                    fmt::format("`{}` does not compile C++: {}", compiler_command(),
                                log.substr(0, std::min<size_t>(log.find('\n'), 400))),
                    "name a C++ compiler in the environment variable CXX, or unset it");
  if (status != 0)
    throw InternalError(fmt::format("the compiler `{}` refused an emitted kernel ({}):\n{}",
                                    compiler_command(), base + ".cc", log.substr(0, 4000)));
  const auto binary = read_file(base + ".so");
  if (!binary || binary->empty())
    throw UserError(Span{},
                    fmt::format("`{}` says that it compiled a kernel, and wrote none", compiler_command()),
                    "name a C++ compiler in the environment variable CXX");
  if (auto stored = cache_put(key, ".so", *binary)) return *stored;
  return base + ".so";
}

}  // namespace

CpuCompiler cpu_compiler() {
  const std::string& identity = compiler_identity();
  return {compiler_command(), identity.substr(0, identity.find('\n'))};
}

std::vector<char> compile_cpu(const std::string& source, const std::string& flags) {
  const auto binary = read_file(shared_object(source, flags, object_key(source, flags)));
  if (!binary)
    throw UserError(Span{}, "a compiled kernel vanished from the cache or the temporary folder",
                    "run the command again");
  return *binary;
}

std::shared_ptr<CpuModule> CpuModule::load(const std::string& source, const std::string& flags) {
  struct Slot {
    std::mutex building;
    std::weak_ptr<CpuModule> module;
  };
  static std::mutex mutex;
  static std::map<std::string, Slot> loaded;
  const std::string key = object_key(source, flags);
  Slot& slot = [&]() -> Slot& {
    std::lock_guard lock(mutex);
    return loaded[key];
  }();
  std::lock_guard lock(slot.building);
  if (auto module = slot.module.lock()) return module;
  const std::string path = shared_object(source, flags, key);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw UserError(Span{},
                    fmt::format("what `{}` compiled cannot be loaded: {}", compiler_command(), dlerror()),
                    "name a C++ compiler for this machine in the environment variable CXX, or unset it; "
                    "`tilewright cache clear` removes what it left");
  std::shared_ptr<CpuModule> module(new CpuModule);
  module->handle_ = handle;
  slot.module = module;
  return module;
}

std::vector<std::shared_ptr<CpuModule>> CpuModule::load_all(const std::vector<CpuSource>& sources) {
  std::vector<std::shared_ptr<CpuModule>> modules(sources.size());
  std::vector<std::exception_ptr> faults(sources.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t k; (k = next++) < sources.size();) try {
        modules[k] = load(sources[k].text, sources[k].flags);
      } catch (...) {
        faults[k] = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  try {
    for (size_t k = 1; k < std::min(most, sources.size()); ++k) others.emplace_back(work);
  } catch (const std::system_error&) {
    // Where no more threads may be made, those there are do it.
  }
  work();
  for (std::thread& t : others) t.join();
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
  return modules;
}

CpuModule::Entry CpuModule::entry(const std::string& kernel) const {
  void* symbol = dlsym(handle_, kernel.c_str());
  TW_CHECK(symbol != nullptr, "a compiled kernel lacks its entry " + kernel);
  return reinterpret_cast<Entry>(symbol);
}

CpuModule::~CpuModule() {
  if (handle_ != nullptr) dlclose(handle_);
}

// NVRTC, loaded at run time.
namespace {

struct Nvrtc {
  using Program = struct Opaque*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*version)(int*, int*) = nullptr;
};

/// TILEWRIGHT_NVRTC names the library. Else its name depends on how CUDA was installed: the system's path first, then the toolkit's folder.
const Nvrtc& nvrtc() {
  static const Nvrtc table = [] {
    const std::string hint =
        "install the CUDA toolkit 12.4 or later, or name its libnvrtc.so in TILEWRIGHT_NVRTC";
    void* handle = nullptr;
    if (const char* named = std::getenv("TILEWRIGHT_NVRTC"); named != nullptr && *named != 0) {
      handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr)
        throw UserError(Span{}, fmt::format("NVRTC cannot be loaded from TILEWRIGHT_NVRTC={}", named), hint);
    }
    std::vector<std::string> names = {
        "libnvrtc.so",
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so",
        "/usr/local/cuda/lib64/libnvrtc.so.13",
        "/usr/local/cuda/lib64/libnvrtc.so.12",
    };
    if (const char* home = std::getenv("CUDA_HOME"); home != nullptr)
      names.push_back(std::string(home) + "/lib64/libnvrtc.so");
    for (size_t k = 0; handle == nullptr && k < names.size(); ++k)
      handle = dlopen(names[k].c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw UserError(Span{}, "NVRTC (libnvrtc.so) was not found", hint);
    Nvrtc t;
    auto get = [&](auto& f, const char* symbol) {
      f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(handle, symbol));
      if (f == nullptr)
        throw UserError(Span{}, fmt::format("NVRTC lacks {}", symbol),
                        "install the CUDA toolkit 12.4 or later");
    };
    get(t.create, "nvrtcCreateProgram");
    get(t.compile, "nvrtcCompileProgram");
    get(t.log_size, "nvrtcGetProgramLogSize");
    get(t.log, "nvrtcGetProgramLog");
    get(t.cubin_size, "nvrtcGetCUBINSize");
    get(t.cubin, "nvrtcGetCUBIN");
    get(t.destroy, "nvrtcDestroyProgram");
    get(t.version, "nvrtcVersion");
    return t;
  }();
  return table;
}

/// Warnings that mean a product whose operands other instructions touch while it runs; see GPU notes in docs/mapped.md.
void refuse_unsafe(const std::string& log) {
  for (const char* code : {"C7510", "C7513", "C7514"})
    if (log.find(code) != std::string::npos)
      throw InternalError(fmt::format("the assembler warns ({}) about an emitted kernel:\n{}", code, log));
}

}  // namespace

bool products_serialized(const std::string& log) {
  return log.find("C7511") != std::string::npos || log.find("C7512") != std::string::npos;
}

std::vector<char> compile_cuda(const std::string& source, const std::string& arch, std::string* log) {
  const Nvrtc& rtc = nvrtc();
  int major = 0, minor = 0;
  rtc.version(&major, &minor);
  const std::string arch_flag = "--gpu-architecture=" + arch;
  const char* options[] = {arch_flag.c_str(), "-default-device", "-std=c++17", "--ptxas-options=-v"};
  const std::string key = content_key(
      {source, arch, fmt::format("nvrtc {}.{}", major, minor), options[1], options[2], options[3]});
  if (auto cached = cache_get(key, ".cubin")) {
    const auto text = cache_get(key, ".log");
    if (log == nullptr || text) {
      ++hits;
      if (log != nullptr) *log = std::string(text->begin(), text->end());
      return *cached;
    }
  }
  Nvrtc::Program program = nullptr;
  TW_CHECK(rtc.create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr) == 0,
           "nvrtcCreateProgram failed");
  const int status = rtc.compile(program, 4, options);
  ++compiled;
  size_t size = 0;
  std::string text;
  if (rtc.log_size(program, &size) == 0 && size > 1) {
    text.resize(size);
    rtc.log(program, text.data());
    text.resize(std::strlen(text.c_str()));
  }
  std::vector<char> cubin;
  if (status == 0 && rtc.cubin_size(program, &size) == 0) {
    cubin.resize(size);
    rtc.cubin(program, cubin.data());
  }
  rtc.destroy(&program);
  if (status != 0 || cubin.empty())
    throw InternalError("NVRTC refused an emitted kernel:\n" + text.substr(0, 6000));
  refuse_unsafe(text);
  cache_put(key, ".cubin", cubin);
  cache_put(key, ".log", std::vector<char>(text.begin(), text.end()));
  if (log != nullptr) *log = text;
  return cubin;
}

}  // namespace tilewright
