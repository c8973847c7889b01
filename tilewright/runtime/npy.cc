#include "tilewright/runtime/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tilewright/program/sizes.h"
#include "tilewright/runtime/cache.h"
#include "tilewright/support/error.h"
#include "tilewright/support/input_file.h"

namespace tilewright {

namespace {

constexpr char kMagic[] = "\x93NUMPY";

struct Header {
  std::string descr;  ///< "[structured]" where the elements have fields
  bool fortran = false;
  std::vector<int64_t> shape;
  bool valid = false;
};

/// The header of a .npy: a Python dictionary of exactly 'descr', 'fortran_order' and 'shape', as numpy.save writes it.
class HeaderParser {
 public:
  explicit HeaderParser(const std::string& text) : text_(text) {}

  Header parse() {
    Header h;
    h.valid = dictionary(h);
    return h;
  }

 private:
  bool dictionary(Header& h) {
    bool descr = false, order = false, shape = false;
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return false;
      bool* first = key == "descr"           ? &descr
                    : key == "fortran_order" ? &order
                    : key == "shape"         ? &shape
                                             : nullptr;
      if (first == nullptr || *first) return false;
      *first = true;
      const bool read = key == "descr" ? type(h.descr) : key == "shape" ? tuple(h.shape) : truth(h.fortran);
      if (!read || (!take(',') && !ahead('}'))) return false;
    }
    skip();
    return descr && order && shape && at_ == text_.size();
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool ahead(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) { return ahead(c) && ++at_; }

  bool quoted(std::string& out) {
    const char mark = ahead('"') ? '"' : '\'';
    if (!take(mark)) return false;
    const size_t end = text_.find(mark, at_);
    if (end == std::string::npos) return false;
    out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  /// A dtype, or a list of fields, which is skipped.
  bool type(std::string& out) {
    if (!ahead('[')) return quoted(out);
    out = "[structured]";
    for (int depth = 0; at_ < text_.size();) {
      std::string ignored;
      if (ahead('\'') || ahead('"')) {
        if (!quoted(ignored)) return false;
        continue;
      }
      const char c = text_[at_++];
      depth += (c == '[' || c == '(') - (c == ']' || c == ')');
      if (depth == 0) return true;
    }
    return false;
  }

  bool truth(bool& out) {
    skip();
    for (const bool value : {false, true}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      out = value;
      return true;
    }
    return false;
  }

  /// (), (3,), (3, 5) or (3, 5,); Python 2 wrote an L behind long numbers.
  bool tuple(std::vector<int64_t>& out) {
    if (!take('(')) return false;
    bool comma = true;
    while (!take(')')) {
      int64_t value = 0;
      skip();
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0 || !comma) return false;
      at_ += static_cast<size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      out.push_back(value);
      comma = take(',');
    }
    return comma || out.size() > 1;
  }

  const std::string& text_;
  size_t at_ = 0;
};

class Reader {
 public:
  Reader(const std::string& path, DType dtype) : path_(path), dtype_(dtype), file_(path) {}

  HostArray read() {
    if (file_.missing()) fail("there is no such file", "name a .npy file");
    if (!file_.problem().empty())
      fail(file_.problem(), file_.remedy().empty() ? "name a .npy file" : file_.remedy());
    unsigned char start[12];
    if (!file_.read(start, 10) || std::memcmp(start, kMagic, 6) != 0)
      fail("the file is not a .npy", "write it with numpy.save");
    const int version = start[6];
    if (version < 1 || version > 3)
      fail(fmt::format("format version {} is unknown", version), "write it with numpy.save");
    uint64_t length = start[8] | uint64_t{start[9]} << 8, begin = 10;
    if (version > 1) {
      if (!file_.read(start + 10, 2)) fail("the file is truncated", "write it again");
      length |= uint64_t{start[10]} << 16 | uint64_t{start[11]} << 24;
      begin = 12;
    }
    if (file_.bytes() < begin + length) fail("the file is truncated", "write it again");
    if (length > uint64_t{1} << 20) fail("its header is longer than 1 MiB", "write it with numpy.save");
    std::string text(length, ' ');
    if (!file_.read(text.data(), length)) fail("the disk reports an error", "write it again");
    const Header header = HeaderParser(text).parse();
    if (!header.valid) fail("the header is damaged", "write it with numpy.save");
    const std::vector<int64_t>& shape = header.shape;

    const Stored stored = stored_type(header.descr);
    const uint64_t available = file_.bytes() - begin - length;
    // Before anything is allocated or read: a damaged shape may ask for any amount, and a file with holes may seem to hold it.
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    double count = empty ? 0 : 1;
    for (int64_t extent : shape) count *= static_cast<double>(extent);
    const double needed = count * static_cast<double>(stored.size);
    if (needed != static_cast<double>(available))
      fail(fmt::format("{} bytes of data where shape {} of {} needs {:.0f}", available, shape_text(shape),
                       header.descr, needed),
           "the file is truncated or damaged: write it again");
    const uint64_t memory = memory_of_machine();
    if (count * static_cast<double>(bytes(dtype_)) > static_cast<double>(memory))
      fail(fmt::format("shape {} of {} takes {:.1f} GiB, and this machine has {:.1f} GiB of memory",
                       shape_text(shape), tilewright::name(dtype_),
                       count * static_cast<double>(bytes(dtype_)) / 0x1p30,
                       static_cast<double>(memory) / 0x1p30),
           "save a smaller array");
    HostArray a = allocate(dtype_, shape);
    const int64_t n = a.elements();
    if (stored.bits) {
      read_data(a.data.get(), static_cast<uint64_t>(n * stored.size));
    } else {
      constexpr int64_t strip = 1 << 16;
      std::vector<char> part(static_cast<size_t>(std::min(n, strip) * stored.size));
      for (int64_t first = 0; first < n; first += strip) {
        const int64_t here = std::min(strip, n - first);
        read_data(part.data(), static_cast<uint64_t>(here * stored.size));
        for (int64_t k = 0; k < here; ++k) {
          const double x = load_element(stored.type, part.data(), k);
          if (is_integer(dtype_) && round_to(dtype_, x) != x)
            fail(fmt::format("element {} is {}, which {} cannot hold", first + k,
                             integer_text(stored.type, part.data(), k), tilewright::name(dtype_)),
                 "save values that fit, or declare the input i64");
          store_element(dtype_, a.data.get(), first + k, x);
        }
      }
    }
    if (header.fortran) {
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

  void read_data(void* to, uint64_t n) {
    if (!file_.read(to, n)) fail("the disk reports an error", "write it again");
  }

  Stored stored_type(const std::string& descr) const {
    if (descr == "[structured]") fail("dtype: its elements have fields", "save an array of one field");
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
  InputFile file_;
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
