// The CUDA driver, loaded at run time: the library builds and runs without it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tilewright::cuda {

/// nullptr-free probe: true when libcuda.so.1 loads and a device exists. `why` says what is missing.
bool available(std::string* why = nullptr);
int device_count();

struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0;
  int64_t shared_per_block = 0, memory_bytes = 0, l2_bytes = 0;
};
DeviceInfo device_info(int device);

/// Retains the primary context of `device` and makes it current in this thread (PyTorch's context).
void use_device(int device);

class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void upload(const void* host, int64_t bytes);
  void download(void* host, int64_t bytes) const;
  void fill(uint8_t byte);

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// A word of the host that kernels of every device may write, at the same address. Zero at first.
class SharedWord {
 public:
  SharedWord();
  ~SharedWord();
  SharedWord(const SharedWord&) = delete;
  SharedWord& operator=(const SharedWord&) = delete;
  int64_t* data() const { return data_; }
  int64_t take();  ///< what kernels that have ended left; the word is zero afterwards

 private:
  int64_t* data_ = nullptr;
};

/// An encoded tensor map (128 bytes, cuTensorMapEncodeTiled).
struct alignas(64) EncodedMap {
  uint64_t words[16];
};
struct MapDimension {
  uint64_t size;
  uint64_t stride_bytes;
  uint32_t box;
};  ///< stride of dimension 0 is ignored (contiguous)
/// element_bytes 2 or 4; `dtype_name` "f16", "bf16", "f32". UserError when the driver refuses (alignment, size), with the values.
EncodedMap encode_map(void* base, const std::string& dtype_name, const std::vector<MapDimension>& dims,
                      int swizzle_bytes);

class Module {
 public:
  explicit Module(const std::vector<char>& cubin);
  ~Module();
  struct Function;
  /// Sets the dynamic shared memory limit when above 48 KiB. UserError when the device has less.
  void* function(const std::string& name, int64_t dynamic_shared_bytes);
  struct Attributes {
    int registers = 0, local_bytes = 0, static_shared = 0, max_threads = 0;
  };
  Attributes attributes(void* function) const;

 private:
  void* module_ = nullptr;
};

/// blocks × threads on `stream` (0: the default stream); parameters: the maps, then the words as one struct. blocks = 0 launches nothing. On a stream of its own
/// the kernel may start while those in front of it end, if `early` says that the device has griddepcontrol (compute capability 9.0): it then waits by it before it
/// touches memory.
void launch(void* function, int64_t blocks, int threads, int64_t dynamic_shared_bytes,
            const std::vector<EncodedMap>& maps, const std::vector<int64_t>& words, void* stream, bool early);
void synchronize();

/// Times on the device.
class Event {
 public:
  Event();
  ~Event();
  void record(void* stream);
  static float milliseconds(const Event& begin, const Event& end);  ///< waits for `end`

 private:
  void* event_ = nullptr;
};

}  // namespace tilewright::cuda
