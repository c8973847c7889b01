// Runs a libFuzzer entry point without libFuzzer: every file of the folders given, then mutations of them.
//
//   fuzz_parse FOLDER...
//
// TILEWRIGHT_FUZZ_EXECUTIONS  number of mutated inputs (a fixed number by default)
// TILEWRIGHT_FUZZ_SEED        seed of the mutations
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr uint64_t default_executions = 20000, default_seed = 20240901;
constexpr size_t longest = 6000;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

const std::vector<std::string> scraps = {"(",
                                         ")",
                                         "[",
                                         "]",
                                         ",",
                                         "=",
                                         "\n",
                                         "#",
                                         "\t",
                                         " axis ",
                                         "-",
                                         "**",
                                         "not ",
                                         "sum[j]",
                                         "i",
                                         "0",
                                         "1e",
                                         "->",
                                         ":",
                                         "f16",
                                         "\xC3",
                                         "size(",
                                         "where(",
                                         ";",
                                         "output ",
                                         "inf",
                                         "topk[v -> n](",
                                         "softmax[j](",
                                         " and ",
                                         " or ",
                                         "9223372036854775807",
                                         "1e308",
                                         " // ",
                                         " % ",
                                         "== ",
                                         "-inf",
                                         "input ",
                                         " range(0, ",
                                         "let ",
                                         "param ",
                                         "bool",
                                         "true",
                                         "((((((((",
                                         "a[i, j]",
                                         "1 / 3 * ",
                                         "\0",
                                         "bf16(",
                                         "axis n = 0\n"};

class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<std::string> corpus) : random_(seed), corpus_(std::move(corpus)) {}

  std::string next() {
    std::string text = corpus_[pick(corpus_.size())];
    for (size_t edits = 1 + pick(5); edits > 0; --edits) edit(text);
    if (text.size() > longest) text.resize(longest);
    return text;
  }

 private:
  size_t pick(size_t n) { return n ? size_t(random_() % n) : 0; }

  void edit(std::string& text) {
    const size_t at = pick(text.size() + 1);
    switch (pick(7)) {
      case 0: text.erase(at, 1 + pick(8)); break;
      case 1: text.insert(at, scraps[pick(scraps.size())]); break;
      case 2: text.insert(at, text.substr(pick(text.size() + 1), pick(24))); break;
      case 3: {
        const std::string& other = corpus_[pick(corpus_.size())];
        text.insert(at, other.substr(pick(other.size() + 1), pick(60)));
        break;
      }
      case 4:
        if (at < text.size()) text[at] = char(random_() % 256);
        break;
      case 5: swap_words(text); break;
      default: swap_lines(text); break;
    }
  }

  /// One word becomes another one of the text.
  void swap_words(std::string& text) {
    const auto word = [&](size_t from) {
      const auto is = [&](size_t k) {
        return std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_';
      };
      while (from < text.size() && !is(from)) ++from;
      size_t end = from;
      while (end < text.size() && is(end)) ++end;
      return std::pair(from, end - from);
    };
    const auto [a, n] = word(pick(text.size() + 1));
    const auto [b, m] = word(pick(text.size() + 1));
    if (n && m) text.replace(a, n, std::string(text.substr(b, m)));
  }

  void swap_lines(std::string& text) {
    const size_t a = text.find('\n', pick(text.size() + 1));
    if (a == std::string::npos) return;
    const size_t b = text.find('\n', a + 1);
    if (b == std::string::npos) return;
    const std::string line = text.substr(a + 1, b - a);
    text.erase(a + 1, b - a);
    text.insert(pick(2) ? 0 : text.size(), line);
  }

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
};

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names, corpus;
  for (int k = 1; k < argc; ++k)
    for (const auto& entry : std::filesystem::directory_iterator(argv[k]))
      if (entry.is_regular_file() && entry.path().extension() == ".tw")
        names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    std::ifstream file(name, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no .tw files in the folders given\n");
    return 1;
  }
  const uint64_t executions = number_from("TILEWRIGHT_FUZZ_EXECUTIONS", default_executions);
  const uint64_t seed = number_from("TILEWRIGHT_FUZZ_SEED", default_seed);
  std::printf("%zu files, then %llu mutations with seed %llu\n", corpus.size(),
              (unsigned long long)executions, (unsigned long long)seed);
  std::fflush(stdout);
  Mutator mutator(seed, corpus);
  double slowest = 0;
  for (uint64_t k = 0; k < executions; ++k) {
    const std::string text = mutator.next();
    const auto begin = std::chrono::steady_clock::now();
    run(text);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    slowest = std::max(slowest, seconds);
    if (seconds > 20) {
      std::fprintf(stderr, "one text took %.1f s:\n%s\n", seconds, text.c_str());
      return 1;
    }
  }
  std::printf("no fault; the slowest text took %.0f ms\n", slowest * 1e3);
  return 0;
}
