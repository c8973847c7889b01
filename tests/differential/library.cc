// `tilewright build`: a C program compiled by the system's C compiler against the header, linked with the library and run gives, bit for bit, what the
// kernel of the same program gives; its parallel_for is two threads of its own.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/session.h"

namespace tilewright::testing::library_test {
namespace {

std::string compiler() {
  const char* cc = std::getenv("CC");
  return cc != nullptr && *cc != 0 ? cc : "cc";
}

const char kMain[] = R"C(
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "x.h"

typedef struct Half { int64_t begin, end; void (*body)(void*, int64_t, int64_t); void* context; } Half;

static void* work(void* half) {
  Half* h = (Half*)half;
  for (int64_t at = h->end; at-- > h->begin;) h->body(h->context, at, at + 1);
  return NULL;
}

static void two_threads(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t), void* context) {
  Half low = {0, n / 2, body, context}, high = {n / 2, n, body, context};
  pthread_t other;
  ++*(int*)pool;
  if (pthread_create(&other, NULL, work, &high)) abort();
  work(&low);
  pthread_join(other, NULL);
}

static void* load(const char* name, long bytes) {
  FILE* f = fopen(name, "rb");
  void* data = malloc(bytes + 1);
  if (!f || fread(data, 1, bytes, f) != (size_t)bytes) abort();
  fclose(f);
  return data;
}

static void save(const char* name, const void* data, long bytes) {
  FILE* f = fopen(name, "wb");
  if (!f || fwrite(data, 1, bytes, f) != (size_t)bytes || fclose(f)) abort();
}

int main(void) {
  int launches = 0, status;
  x_arguments a;
  x_defaults(&a);
)C";

/// A folder with x.tw, built: libx.so and x.h.
std::string built(const std::string& program, const std::vector<std::string>& more = {}) {
  const std::string folder = new_folder();
  write(folder + "/x.tw", program);
  std::vector<std::string> arguments = {"build", "x.tw",     "-o",   "libx.so", "--header",
                                        "x.h",   "--source", "x.cc", "--name",  "x"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult r = tilewright(arguments, folder, {{"TILEWRIGHT_CACHE_DIR", folder + "/cache"}});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(list(folder), (std::vector<std::string>{"cache", "libx.so", "x.cc", "x.h", "x.tw"}));
  return folder;
}

/// Compiles a main whose body is `body`, and runs it. Returns what it prints.
std::string run_c(const std::string& folder, const std::string& body) {
  write(folder + "/main.c", kMain + body + "  printf(\"%d launches\\n\", launches);\n  return 0;\n}\n");
  const CommandResult c = run_program({compiler(), "-std=c99", "-pedantic-errors", "-Wall", "-Werror",
                                       "-Wno-unused", "-D_POSIX_C_SOURCE=200809L", "main.c", "libx.so",
                                       "-Wl,-rpath," + folder, "-lpthread", "-lm", "-o", "main"},
                                      folder);
  EXPECT_EQ(c.status, 0) << c.err;
  // No Tilewright and no compiler are in reach.
  const CommandResult r =
      run_program({folder + "/main"}, folder, {{"PATH", "/nowhere"}, {"HOME", "/nowhere"}});
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

void save(const std::string& path, const HostArray& a) {
  write(path, std::string(static_cast<const char*>(a.data.get()),
                          static_cast<size_t>(a.elements() * bytes(a.dtype))));
}

std::string bytes_of(const HostArray& a) {
  return {static_cast<const char*>(a.data.get()), static_cast<size_t>(a.elements() * bytes(a.dtype))};
}

/// The program on the CPU with the kernels of this process.
Session session_of(const std::string& program, const std::map<std::string, int64_t>& sizes,
                   const std::string& schedule = "", const std::map<std::string, double>& params = {}) {
  CompileOptions c;
  c.schedule = schedule;
  SessionOptions s;
  s.sizes = sizes;
  s.params = params;
  return Session(parse_program(std::make_shared<SourceText>(SourceText{"x.tw", program})), c, s);
}

const char kAttention[] =
    "axis b, k, g, i, j\naxis d = 16, e = 24\nparam cap : f32 = 50 range(1, 100)\n"
    "input Q[b, (k g), i, d] : f16\ninput K[b, k, j, d] : f32\ninput V[b, k, j, e] : bf16\n"
    "S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K[b, k, j, d]) / sqrt(size(d))\n"
    "C[b, k, g, i, j] = where(j <= i + size(j) - size(i), cap * tanh(S / cap), -inf)\n"
    "O[b, k, g, i, e] = sum[j](softmax[j](C) * V[b, k, j, e])\nL[b, k, g, i] = logsumexp[j](C)\n"
    "output O[b, (k g), i, e] : f32, L : f64\n";

TEST(Library, GroupedCausalAttentionWithASplit) {
  const std::string schedule = "stream j=16; split j=32";
  const std::string folder = built(kAttention, {"--schedule", schedule});
  Session s =
      session_of(kAttention, {{"b", 1}, {"k", 2}, {"g", 3}, {"i", 37}, {"j", 100}}, schedule, {{"cap", 7.3}});
  s.run(0, 1);
  for (const auto& [name, a] : s.inputs()) save(folder + "/" + name, a);
  const std::string out = run_c(folder, R"C(
  if (a.cap != 50) abort();
  a.size_b = 1, a.size_k = 2, a.size_g = 3, a.size_i = 37, a.size_j = 100, a.cap = 7.3;
  a.Q = load("Q", 2L * 6 * 37 * 16), a.K = load("K", 4L * 2 * 100 * 16), a.V = load("V", 2L * 2 * 100 * 24);
  a.O = malloc(4 * 6 * 37 * 24), a.L = malloc(8 * 6 * 37);
  a.parallel_for = two_threads, a.pool = &launches;
  status = x(&a);
  if (status) puts(x_message(status));
  save("O", a.O, 4L * 6 * 37 * 24);
  save("L", a.L, 8L * 6 * 37);
  /* The same without a parallel_for, and with outputs that are not row-major. */
  float* apart = malloc(4 * 6 * 37 * 50);
  const int64_t strides[] = {6 * 37 * 50, 37 * 50, 50, 2};
  float* whole = a.O;
  a.parallel_for = NULL;
  a.O = apart, a.O_strides = strides;
  if (x(&a)) puts("failed");
  for (long k = 0; k < 6 * 37 * 24; ++k)
    if (apart[k / 24 * 50 + k % 24 * 2] != whole[k]) { puts("differs"); break; }
)C");
  EXPECT_EQ(out, "2 launches\n");
  EXPECT_EQ(read(folder + "/O"), bytes_of(s.outputs().at("O")));
  EXPECT_EQ(read(folder + "/L"), bytes_of(s.outputs().at("L")));
}

// Three kernels: two arrays between them that follow one another in one region, one that is an output too, an axis made of two, a param that one kernel reads alone.
const char kChain[] =
    "axis i, k, g, c, f\nparam t : f32 = 2\ninput x[i, c] : f32\ninput A[c, (k g)] : f32\ninput B[(k g), f] "
    ": f32\n"
    "input C[f, c] : f32\n"
    "q[i, k, g] = sum[c](x * A[c, (k g)])\nh[i, f] = tanh(t * sum[k, g](q * B[(k g), f]))\n"
    "y[i, c] = x + sum[f](h * C)\noutput y : f32, h[f, i] : f32\n";

TEST(Library, SeveralKernels) {
  const std::string folder = built(kChain);
  Session s = session_of(kChain, {{"i", 50}, {"k", 2}, {"g", 3}, {"c", 20}, {"f", 70}}, "", {{"t", 0.5}});
  ASSERT_EQ(s.kernel().compiled().kernels.size(), 3u);
  s.run(0, 1);
  for (const OutputCheck& c : s.check()) EXPECT_TRUE(c.comparison.passed) << c.name << c.comparison.reason;
  for (const auto& [name, a] : s.inputs()) save(folder + "/" + name, a);
  const std::string out = run_c(folder, R"C(
  a.size_i = 50, a.size_k = 2, a.size_g = 3, a.size_c = 20, a.size_f = 70, a.t = 0.5;
  a.x = load("x", 4L * 50 * 20), a.A = load("A", 4L * 20 * 6), a.B = load("B", 4L * 6 * 70);
  a.C = load("C", 4L * 70 * 20), a.y = malloc(4 * 50 * 20), a.h = malloc(4 * 50 * 70);
  a.parallel_for = two_threads, a.pool = &launches;
  status = x(&a);
  if (status) puts(x_message(status));
  save("y", a.y, 4L * 50 * 20);
  save("h", a.h, 4L * 50 * 70);
  a.size_i = 0;
  if (x(&a)) puts("failed");
  a.size_i = 50, a.C = NULL;
  puts(x_message(x(&a)));
)C");
  EXPECT_EQ(out, "an array that is not empty is NULL\n3 launches\n");
  EXPECT_EQ(read(folder + "/y"), bytes_of(s.outputs().at("y")));
  EXPECT_EQ(read(folder + "/h"), bytes_of(s.outputs().at("h")));
}

// The size of one axis follows from another; a param is an integer; a table is read at indices that may lie outside; names are words of C.
const char kPaged[] =
    "axis int, p, v = 3\naxis j = 4 * size(p)\nparam double : i64 = 2\ninput table[p] : i64\ninput pool[v, "
    "int] : f32\ninput w[j, int] : f32\n"
    "y[int] = sum[j](pool[table[j // 4], int] * exp2(double * w))\noutput y : f32\n";

TEST(Library, DerivedSizesParamsAndFailedIndices) {
  const std::string folder = built(kPaged);
  const std::string out = run_c(folder, R"C(
  int64_t table[] = {2, 0};
  float pool[15], w[40], y[5], expected[5] = {0};
  for (int k = 0; k < 15; ++k) pool[k] = k;
  for (int k = 0; k < 40; ++k) w[k] = k % 3 ? 0.5f : 1.0f;
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 5; ++i) expected[i] += pool[table[j / 4] * 5 + i] * ((5 * j + i) % 3 ? 2 : 4);
  if (a.double_ != 2) abort();
  a.size_int = 5, a.size_p = 2;
  a.table = table, a.pool_ = pool, a.w = w, a.y = y;
  printf("%s\n", x_message(x(&a)));
  for (int i = 0; i < 5; ++i) printf("%d", (y[i] - expected[i]) * (y[i] - expected[i]) < 1e-6f);
  table[1] = 3;
  printf("\n%s\n", x_message(x(&a)));
  table[1] = 0, a.y = NULL;
  printf("%s\n", x_message(x(&a)));
  a.size_int = -1;
  printf("%s\n", x_message(x(&a)));
  a.size_int = 0;
  printf("%s\n", x_message(x(&a)));
  printf("%s\n", x_message(-7));
)C");
  EXPECT_EQ(out,
            "fine\n11111\nan index is outside axis v of pool\nan array that is not empty is NULL\na length "
            "is negative, or an array larger than 2^62 bytes\nfine\n"
            "unknown status\n0 launches\n");
}

TEST(Library, ItExportsItsFunctionsAlone) {
  const std::string folder = built("axis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\noutput P\n");
  const CommandResult symbols = run_program({"nm", "-D", "--defined-only", "libx.so"}, folder);
  if (symbols.status == 127) GTEST_SKIP() << "nm is not installed";
  std::string names;
  for (size_t at = symbols.out.find(" T "); at != std::string::npos; at = symbols.out.find(" T ", at + 1))
    names += symbols.out.substr(at + 3, symbols.out.find('\n', at) - at - 2);
  EXPECT_EQ(names, "x\nx_defaults\nx_message\n");
  const CommandResult cpp =
      run_program({"c++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", "x.h"}, folder);
  EXPECT_EQ(cpp.status, 0) << cpp.err;
}

TEST(Library, AsJson) {
  const std::string folder = new_folder();
  write(folder + "/x.tw", "program rows\naxis r, j\ninput x[r, j] : f32\ny[r] = sum[j](x)\noutput y\n");
  const std::map<std::string, std::string> environment = {{"TILEWRIGHT_CACHE_DIR", folder + "/cache"}};
  const CommandResult r = tilewright(
      {"build", "x.tw", "-o", "x.so", "--header", "x.h", "--source", "x.cc", "--json"}, folder, environment);
  EXPECT_EQ(r.status, 0) << r.err;
  nlohmann::json j = nlohmann::json::parse(r.out, nullptr, false);
  EXPECT_EQ(j["bytes"], read(folder + "/x.so").size());
  j.erase("bytes");
  EXPECT_EQ(j, nlohmann::json({{"header", "x.h"},
                               {"library", "x.so"},
                               {"name", "rows"},
                               {"program", "rows"},
                               {"source", "x.cc"}}));
  // The header's text stands in the source, and the same build gives the same library.
  EXPECT_EQ(read(folder + "/x.cc").find(read(folder + "/x.h")), 0u);
  const std::string first = read(folder + "/x.so");
  EXPECT_EQ(tilewright({"build", "x.tw", "-o", "x.so", "--header", "x.h"}, folder, environment).out,
            "rows  cpu\n  library x.so  " + std::to_string(first.size()) + " bytes\n  header  x.h\n");
  EXPECT_EQ(read(folder + "/x.so"), first);
}

TEST(Library, WhatItCannotDoIsRefused) {
  const std::string folder = new_folder();
  write(folder + "/x.tw",
        "axis r, j\nparam cap : bf16 = 2\ninput x[r, j] : f32\ny[r] = sum[j](x * cap)\noutput y\n");
  const CommandResult r = tilewright({"build", "x.tw", "-o", "x.so", "--header", "x.h"}, folder);
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err,
            "x.tw:2:1: error: param `cap` is bf16, which a library cannot round to\n  param cap : bf16 = 2\n "
            " ^~~~~~~~~~~~~~~~~~~~\n  help: declare it f32\n");
  EXPECT_EQ(list(folder), std::vector<std::string>{"x.tw"});
}

}  // namespace
}  // namespace tilewright::testing::library_test
