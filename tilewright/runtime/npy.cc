#include "tilewright/runtime/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tilewright/program/sizes.h"
#include "tilewright/runtime/cache.h"
#include "tilewright/support/error.h"

namespace tilewright {

namespace {

constexpr char kMagic[] = "\x93NUMPY";

class Reader {
 public:
  Reader(std::string path, DType dtype) : path_(std::move(path)), dtype_(dtype) {}

  HostArray read() {
    const auto file = read_file(path_);
    if (!file) {
      const int reason = errno;
      std::error_code ignored;
      if (std::filesystem::is_directory(path_, ignored)) fail("it is a folder", "name a .npy file");
      if (!std::filesystem::exists(path_, ignored)) fail("there is no such file", "name a .npy file");
      fail(fmt::format("the file cannot be read: {}", std::strerror(reason)), "check its permissions");
    }
    const std::vector<char>& f = *file;
    if (f.size() < 10 || std::memcmp(f.data(), kMagic, 6) != 0)
      fail("the file is not a .npy", "write it with numpy.save");
    const int version = static_cast<unsigned char>(f[6]);
    if (version < 1 || version > 3)
      fail(fmt::format("format version {} is unknown", version), "write it with numpy.save");
    auto byte = [&](size_t k) { return static_cast<size_t>(static_cast<unsigned char>(f[k])); };
    size_t header = byte(8) | byte(9) << 8, begin = 10;
    if (version > 1) {
      if (f.size() < 12) fail("the file is truncated", "write it again");
      header |= byte(10) << 16 | byte(11) << 24;
      begin = 12;
    }
    if (f.size() < begin + header) fail("the file is truncated", "write it again");
    const std::string text(f.data() + begin, header);
    const std::string descr = value_of(text, "descr");
    const bool fortran = value_of(text, "fortran_order") == "True";
    const std::vector<int64_t> shape = shape_of(value_of(text, "shape"));

    const Stored stored = stored_type(descr);
    const auto available = static_cast<int64_t>(f.size() - begin - header);
    // Before anything is allocated: a damaged shape may ask for any amount.
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    double needed = static_cast<double>(empty ? 0 : stored.size);
    for (int64_t extent : shape) needed *= static_cast<double>(extent);
    if (needed != static_cast<double>(available))
      fail(fmt::format("{} bytes of data where shape {} of {} needs {:.0f}", available, shape_text(shape),
                       descr, needed),
           "the file is truncated or damaged: write it again");
    HostArray a = allocate(dtype_, shape);
    const int64_t n = a.elements();
    const char* data = f.data() + begin + header;
    if (stored.bits) {
      std::memcpy(a.data.get(), data, static_cast<size_t>(n * stored.size));
    } else {
      for (int64_t k = 0; k < n; ++k) {
        if (stored.type == DType::i64 && dtype_ == DType::i64) {
          std::memcpy(static_cast<char*>(a.data.get()) + 8 * k, data + 8 * k,
                      8);  // a double would lose low bits
        } else {
          const double x = load_element(stored.type, data, k);
          if (is_integer(dtype_) && round_to(dtype_, x) != x)
            fail(fmt::format("element {} is {}, which {} cannot hold", k, integer_text(stored.type, data, k),
                             tilewright::name(dtype_)),
                 "save values that fit, or declare the input i64");
          store_element(dtype_, a.data.get(), k, x);
        }
      }
    }
    if (fortran) {
      a.strides.resize(shape.size());
      int64_t stride = 1;
      for (size_t k = 0; k < shape.size(); ++k) {
        a.strides[k] = stride;
        stride *= std::max<int64_t>(1, shape[k]);
      }
    }
    return a;
  }

 private:
  static std::string integer_text(DType t, const char* data, int64_t k) {
    if (t != DType::i64) return fmt::format("{}", load_element(t, data, k));
    int64_t value;
    std::memcpy(&value, data + 8 * k, 8);
    return fmt::format("{}", value);
  }

  struct Stored {
    DType type;
    int64_t size;
    bool bits;  ///< the element's own bits
  };

  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw UserError(Span{}, fmt::format("{}: {}", path_, what), hint);
  }

  /// The text behind 'key': up to the comma or brace that ends it.
  std::string value_of(const std::string& header, const std::string& key) const {
    const size_t at = header.find("'" + key + "'");
    if (at == std::string::npos) fail(fmt::format("the header lacks `{}`", key), "write it with numpy.save");
    size_t begin = header.find(':', at);
    if (begin == std::string::npos) fail("the header is damaged", "write it with numpy.save");
    ++begin;
    while (begin < header.size() && header[begin] == ' ') ++begin;
    if (begin >= header.size()) fail("the header is damaged", "write it with numpy.save");
    size_t end = begin;
    if (header[begin] == '(') {
      end = header.find(')', begin);
      return end == std::string::npos ? "" : header.substr(begin + 1, end - begin - 1);
    }
    if (header[begin] == '\'') {
      end = header.find('\'', begin + 1);
      return end == std::string::npos ? "" : header.substr(begin + 1, end - begin - 1);
    }
    if (header[begin] == '[') return "[structured]";
    end = header.find_first_of(",}", begin);
    std::string v = header.substr(begin, end - begin);
    while (!v.empty() && v.back() == ' ') v.pop_back();
    return v;
  }

  std::vector<int64_t> shape_of(const std::string& text) const {
    std::vector<int64_t> shape;
    int64_t value = -1;
    for (char c : text + ",") {
      if (c >= '0' && c <= '9') {
        if (value > (int64_t{1} << 58)) fail("a size overflows", "write it with numpy.save");
        value = (value < 0 ? 0 : value) * 10 + (c - '0');
      } else if (c == ',') {
        if (value >= 0) shape.push_back(value);
        value = -1;
      } else if (c != ' ' && c != 'L') {
        fail("the header's shape is damaged", "write it with numpy.save");
      }
    }
    return shape;
  }

  Stored stored_type(const std::string& descr) const {
    if (descr.find('O') != std::string::npos) fail("the file holds Python objects", "save a plain array");
    if (descr.empty() || descr[0] == '>')
      fail(fmt::format("dtype {} is big endian", descr), "save it with a little-endian dtype");
    const std::string type = descr.substr(descr[0] == '<' || descr[0] == '|' || descr[0] == '=' ? 1 : 0);
    static const std::pair<const char*, DType> known[] = {
        {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16},    {"i8", DType::i64},
        {"i4", DType::i32}, {"i1", DType::i8},  {"b1", DType::boolean}};
    for (const auto& [name, t] : known)
      if (type == name) {
        if (is_float(t) && !is_float(dtype_))
          fail(fmt::format("it holds {} where the program declares {}", name, tilewright::name(dtype_)),
               "save an integer array");
        if (!is_float(t) && is_float(dtype_) && t == DType::boolean)
          fail("it holds booleans where the program declares a real", "save a float array");
        return {t, bytes(t), t == dtype_};
      }
    if (type == "u2" && (dtype_ == DType::bf16 || dtype_ == DType::f16)) return {dtype_, 2, true};
    if (type == "u1" && (dtype_ == DType::f8e4m3 || dtype_ == DType::f8e5m2)) return {dtype_, 1, true};
    fail(fmt::format("dtype {} does not fit an input declared {}", descr, tilewright::name(dtype_)),
         "save f8, f4, f2, i8, i4, i1 or b1, or the raw bits of a low-precision type as u2 or u1");
  }

  std::string path_;
  DType dtype_;
};

const char* descr_of(DType t, bool raw) {
  switch (t) {
    case DType::f64: return "<f8";
    case DType::f32: return "<f4";
    case DType::f16: return raw ? "<f2" : "<f4";
    case DType::bf16: return raw ? "<u2" : "<f4";
    case DType::f8e4m3:
    case DType::f8e5m2: return raw ? "|u1" : "<f4";
    case DType::i64: return "<i8";
    case DType::i32: return "<i4";
    case DType::i8: return "|i1";
    case DType::boolean: return "|b1";
  }
  return "";
}

}  // namespace

HostArray read_npy(const std::string& path, DType dtype) { return Reader(path, dtype).read(); }

void write_npy(const std::string& path, const HostArray& array, bool raw) {
  TW_CHECK(array.strides.empty(), "write_npy takes row-major arrays");
  const bool widen = is_float(array.dtype) && bytes(array.dtype) < 4 && !raw;
  std::string shape;
  for (int64_t n : array.shape) shape += fmt::format("{}, ", n);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   descr_of(array.dtype, raw), shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::vector<char> file(kMagic, kMagic + 6);
  file.push_back(1);
  file.push_back(0);
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  file.insert(file.end(), header.begin(), header.end());
  const int64_t n = array.elements();
  const size_t at = file.size();
  file.resize(at + static_cast<size_t>(n * (widen ? 4 : bytes(array.dtype))));
  if (widen) {
    for (int64_t k = 0; k < n; ++k) store_element(DType::f32, file.data() + at, k, array.at(k));
  } else if (n > 0) {
    std::memcpy(file.data() + at, array.data.get(), static_cast<size_t>(n * bytes(array.dtype)));
  }
  if (!write_file_atomically(path, file))
    throw UserError(Span{}, fmt::format("{} cannot be written", path),
                    "check the folder, its permissions and the free space");
}

}  // namespace tilewright
