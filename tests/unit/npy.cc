// .npy files and host arrays. Files are written byte by byte here, as numpy.save writes them.
#include "tilewright/runtime/npy.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tilewright/runtime/cache.h"
#include "tilewright/support/error.h"

namespace tilewright::npy_test {
namespace {

class Npy : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("tilewright_npy_") + test->name() + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "a.npy") const { return (folder_ / name).string(); }

  std::string write(const std::string& bytes) {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }

  /// A file of format version 1 or 2.
  std::string file(const std::string& descr, const std::string& shape, const std::string& data,
                   bool fortran = false, int version = 1) {
    std::string header = "{'descr': " + descr + ", 'fortran_order': " + (fortran ? "True" : "False") +
                         ", 'shape': " + shape + ", }";
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    std::string f = std::string("\x93NUMPY") + char(version) + '\0';
    f += char(header.size() & 0xff);
    f += char(header.size() >> 8);
    if (version > 1) f += std::string(2, '\0');
    return write(f + header + data);
  }

  template <class T>
  static std::string raw(const std::vector<T>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }

  void expect_refused(const std::string& file_path, DType dtype, const std::string& text) {
    try {
      read_npy(file_path, dtype);
      FAIL() << "accepted; expected: " << text;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(file_path), std::string::npos) << e.what();
    }
  }

  std::filesystem::path folder_;
};

double element(const HostArray& a, std::vector<int64_t> index) {
  int64_t offset = 0, stride = 1;
  for (size_t k = index.size(); k-- > 0;) {
    offset += index[k] * (a.strides.empty() ? stride : a.strides[k]);
    stride *= a.shape[k];
  }
  return load_element(a.dtype, a.data.get(), offset);
}

TEST_F(Npy, ReadsBothVersionsAndOrders) {
  for (int version : {1, 2}) {
    HostArray a =
        read_npy(file("'<f4'", "(2, 3)", raw<float>({0, 1, 2, 10, 11, 12}), false, version), DType::f32);
    EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(element(a, {1, 2}), 12);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data.get()) % 64, 0u);
  }
  HostArray f = read_npy(file("'<f8'", "(2, 3)", raw<double>({0, 10, 1, 11, 2, 12}), true), DType::f64);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(element(f, {i, j}), 10. * double(i) + double(j));
}

TEST_F(Npy, ReadsEveryDtypeIntoItself) {
  EXPECT_EQ(element(read_npy(file("'<f2'", "(1,)", raw<uint16_t>({0x3e00})), DType::f16), {0}), 1.5);
  EXPECT_EQ(element(read_npy(file("'<i4'", "(1,)", raw<int32_t>({-7})), DType::i32), {0}), -7);
  EXPECT_EQ(element(read_npy(file("'|i1'", "(1,)", raw<int8_t>({-128})), DType::i8), {0}), -128);
  EXPECT_EQ(element(read_npy(file("'|b1'", "(2,)", raw<uint8_t>({0, 1})), DType::boolean), {1}), 1);
  EXPECT_EQ(element(read_npy(file("'<u2'", "(1,)", raw<uint16_t>({0xc040})), DType::bf16), {0}), -3);
  EXPECT_EQ(element(read_npy(file("'|u1'", "(1,)", raw<uint8_t>({0x7e})), DType::f8e4m3), {0}), 448);
  EXPECT_EQ(element(read_npy(file("'|u1'", "(1,)", raw<uint8_t>({0x7c})), DType::f8e5m2), {0}), INFINITY);
  // 2^53 + 1 is no double.
  HostArray a = read_npy(file("'<i8'", "()", raw<int64_t>({9007199254740993})), DType::i64);
  EXPECT_EQ(*static_cast<const int64_t*>(a.data.get()), 9007199254740993);
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(read_npy(file("'<f4'", "(0, 5)", ""), DType::f32).elements(), 0);
}

TEST_F(Npy, RoundsFloatsToTheDeclaredDtype) {
  const std::string three = raw<float>({1.0f + 1.0f / 512, 500, -1e9f});
  EXPECT_EQ(element(read_npy(file("'<f4'", "(3,)", three), DType::bf16), {0}), 1);
  EXPECT_EQ(element(read_npy(file("'<f4'", "(3,)", three), DType::f8e4m3), {1}), 448);
  EXPECT_EQ(element(read_npy(file("'<f4'", "(3,)", three), DType::f16), {2}), -INFINITY);
  EXPECT_EQ(element(read_npy(file("'<i4'", "(1,)", raw<int32_t>({3})), DType::f32), {0}), 3);
}

TEST_F(Npy, RefusesWhatItCannotReadRight) {
  expect_refused(path(), DType::f32, "there is no such file");
  expect_refused(write("PK\x03\x04 a zip archive, not an array"), DType::f32, "not a .npy");
  expect_refused(write(""), DType::f32, "not a .npy");
  expect_refused(write(std::string("\x93NUMPY\x01\0\xff\x7f{", 11)), DType::f32, "truncated");
  expect_refused(file("'<f4'", "(2, 3)", raw<float>({0, 1, 2, 3, 4})), DType::f32,
                 "20 bytes of data where shape (2, 3) of <f4 needs 24");
  expect_refused(file("'<f4'", "(1099511627776, 1099511627776, 65536)", "abcd"), DType::f32, "bytes of data");
  expect_refused(file("'|O'", "(1,)", "xxxxxxxx"), DType::f32, "Python objects");
  expect_refused(file("'>f4'", "(1,)", "abcd"), DType::f32, "big endian");
  expect_refused(file("'<c8'", "(1,)", "abcdefgh"), DType::f32, "dtype <c8");
  expect_refused(file("[('a', '<f4')]", "(1,)", "abcd"), DType::f32, "dtype");
  expect_refused(file("'<f4'", "(1,)", "abcd"), DType::i32, "holds f4 where the program declares i32");
  expect_refused(file("'<u2'", "(1,)", "ab"), DType::f32, "dtype <u2");
  expect_refused(file("'<i8'", "(2,)", raw<int64_t>({1, 2147483648})), DType::i32,
                 "element 1 is 2147483648, which i32 cannot hold");
}

TEST_F(Npy, RefusesADamagedHeader) {
  const std::string four = "abcd";
  for (const char* shape : {"(((((", "(1", "1", "(1)", "(,)", "(1,,)", "(1 1)", "(-1,)", "(1.0,)", "(a,)",
                            "[1]", "", "(1,), 'shape': (1,)", "(1,), 'more': 2"})
    expect_refused(file("'<f4'", shape, four), DType::f32, "the header is damaged");
  for (const char* header : {"", "{", "}", "{}", "{'descr': '<f4', 'fortran_order': False}",
                             "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
                             "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x"}) {
    const std::string text = header + std::string(118 - std::string(header).size(), ' ');
    expect_refused(write(std::string("\x93NUMPY\x01\0\x76\0", 10) + text + four), DType::f32,
                   "the header is damaged");
  }
  // As other writers space it, and as Python 2 wrote long numbers.
  const std::string text = "{\"shape\":(1L ,),\"fortran_order\":False,\"descr\":\"<f4\"}";
  EXPECT_EQ(
      read_npy(write(std::string("\x93NUMPY\x01\0", 8) + char(text.size()) + '\0' + text + four), DType::f32)
          .shape,
      (std::vector<int64_t>{1}));
}

/// A file with holes may seem to hold any amount: nothing of it is read.
TEST_F(Npy, RefusesMoreThanThereIsMemory) {
  const std::string name = file("'<f4'", "(2199023255552,)", "");
  std::error_code error;
  std::filesystem::resize_file(name, std::filesystem::file_size(name) + (uint64_t{1} << 43), error);
  if (error) GTEST_SKIP() << "no sparse files here";
  expect_refused(name, DType::f32, "shape (2199023255552,) of f32 takes 8192.0 GiB, and this machine has ");
  expect_refused("/dev/zero", DType::f32, "it is a device");
  expect_refused(folder_.string(), DType::f32, "it is a folder");
}

TEST_F(Npy, WritesWhatItReads) {
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i64,
                  DType::i32, DType::i8, DType::boolean})
    for (bool as_bits : {false, true}) {
      HostArray a = allocate(t, {3, 5});
      for (int64_t k = 0; k < 15; ++k) store_element(t, a.data.get(), k, double(k) * 1.37 - 8);
      write_npy(path(), a, as_bits);
      HostArray b = read_npy(path(), t);
      ASSERT_EQ(b.shape, a.shape);
      EXPECT_EQ(std::memcmp(a.data.get(), b.data.get(), size_t(15 * bytes(t))), 0)
          << name(t) << (as_bits ? " as bits" : "");
    }
  write_npy(path(), allocate(DType::f32, {}));
  EXPECT_TRUE(read_npy(path(), DType::f32).shape.empty());
  // Low precision is f32 unless raw; data begin at a multiple of 64 bytes.
  HostArray half = allocate(DType::bf16, {2});
  write_npy(path(), half);
  EXPECT_EQ(std::filesystem::file_size(path()) % 64, 8u);
  write_npy(path(), half, true);
  EXPECT_EQ(std::filesystem::file_size(path()) % 64, 4u);
  // Nothing but the file itself is left in the folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(write_npy(path("missing/a.npy"), half), UserError);
}

TEST(HostArray, ValuesDependOnSeedNameAndNumberAlone) {
  HostArray a = filled(DType::f32, {1000}, Fill::Normal, 7, "Q"),
            b = filled(DType::f32, {10, 200}, Fill::Normal, 7, "Q");
  for (int64_t k = 0; k < 1000; ++k) EXPECT_EQ(a.at(k), b.at(k));
  HostArray other_seed = filled(DType::f32, {1000}, Fill::Normal, 8, "Q"),
            other_name = filled(DType::f32, {1000}, Fill::Normal, 7, "K");
  int same = 0;
  for (int64_t k = 0; k < 1000; ++k) same += (a.at(k) == other_seed.at(k)) + (a.at(k) == other_name.at(k));
  EXPECT_EQ(same, 0);
  HostArray low = filled(DType::bf16, {1000}, Fill::Normal, 7, "Q");
  for (int64_t k = 0; k < 1000; ++k) EXPECT_NEAR(low.at(k), a.at(k), std::fabs(a.at(k)) / 128);
}

TEST(HostArray, FillsInsideOfADeclaredRange) {
  const double inf = INFINITY;
  for (DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3})
    for (const auto& [lo, hi] :
         std::vector<std::pair<double, double>>{{3, 5}, {0, 1}, {-0.5, 0}, {2, inf}, {-inf, -2}}) {
      HostArray a = filled_within(type, {1000}, 7, "x", lo, hi);
      for (int64_t k = 0; k < a.elements(); ++k) {
        ASSERT_GE(a.at(k), lo);
        ASSERT_LT(a.at(k), hi);
      }
    }
  EXPECT_THROW(filled_within(DType::f32, {1}, 7, "x", 2, 2), UserError);
}

TEST(HostArray, FillsAreWhatTheySay) {
  const int64_t n = 100000;
  auto moments = [&](Fill fill) {
    HostArray a = filled(DType::f64, {n}, fill, 3, "x");
    double mean = 0, square = 0, least = 1e9, most = -1e9;
    for (int64_t k = 0; k < n; ++k) {
      mean += a.at(k) / double(n);
      square += a.at(k) * a.at(k) / double(n);
      least = std::min(least, a.at(k));
      most = std::max(most, a.at(k));
    }
    return std::array<double, 4>{mean, square, least, most};
  };
  auto normal = moments(Fill::Normal), uniform = moments(Fill::Uniform), zeros = moments(Fill::Zeros);
  EXPECT_NEAR(normal[0], 0, 0.02);
  EXPECT_NEAR(normal[1], 1, 0.03);
  EXPECT_LT(normal[3], 6);
  EXPECT_NEAR(uniform[0], 0.5, 0.01);
  EXPECT_GE(uniform[2], 0);
  EXPECT_LT(uniform[3], 1);
  EXPECT_EQ(zeros[2], 0);
  EXPECT_EQ(zeros[3], 0);
  HostArray integers = filled(DType::i32, {1000}, Fill::Normal, 3, "p", -2, 3);
  std::vector<int> seen(5);
  for (int64_t k = 0; k < 1000; ++k) ++seen.at(size_t(integers.at(k) + 2));
  for (int count : seen) EXPECT_GT(count, 100);
  EXPECT_THROW(filled(DType::i32, {1}, Fill::Normal, 0, "p", 3, 3), UserError);
  EXPECT_THROW(allocate(DType::f64, {int64_t(1) << 40, int64_t(1) << 40}), UserError);
}

TEST(WriteFile, ReplacesWhatALinkNamesAndNoPipe) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(temporary_folder()) / "links";
  fs::create_directories(folder);
  const std::vector<char> text = {'a', 'b'};
  std::ofstream(folder / "file") << "old";
  fs::create_symlink("file", folder / "link");
  ASSERT_TRUE(write_file_atomically((folder / "link").string(), text));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file((folder / "file").string()), text);

  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::optional<std::vector<char>> received;
  std::thread reader([&] { received = read_file(pipe); });
  EXPECT_TRUE(write_file_atomically(pipe, text));
  reader.join();
  EXPECT_EQ(received, text);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace tilewright::npy_test
