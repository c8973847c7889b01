#include "tilewright/runtime/cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "tilewright/support/advice.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda {

namespace {

// The driver's types, as its stable binary interface has them (CUDA Driver API reference).
using Result = int;
using Device = int;
using Context = struct OpaqueContext*;
using DevicePointer = unsigned long long;

struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int allowed;
  };
};
struct LaunchConfig {
  unsigned blocks[3], threads[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};

struct Driver {
  Result (*init)(unsigned) = nullptr;
  Result (*device_get)(Device*, int) = nullptr;
  Result (*device_count)(int*) = nullptr;
  Result (*device_name)(char*, int, Device) = nullptr;
  Result (*device_attribute)(int*, int, Device) = nullptr;
  Result (*total_memory)(size_t*, Device) = nullptr;
  Result (*retain)(Context*, Device) = nullptr;
  Result (*set_current)(Context) = nullptr;
  Result (*allocate)(DevicePointer*, size_t) = nullptr;
  Result (*release)(DevicePointer) = nullptr;
  Result (*to_device)(DevicePointer, const void*, size_t) = nullptr;
  Result (*to_host)(void*, DevicePointer, size_t) = nullptr;
  Result (*host_allocate)(void**, size_t, unsigned) = nullptr;
  Result (*host_release)(void*) = nullptr;
  Result (*set8)(DevicePointer, unsigned char, size_t) = nullptr;
  Result (*load)(void**, const void*) = nullptr;
  Result (*unload)(void*) = nullptr;
  Result (*function)(void**, void*, const char*) = nullptr;
  Result (*set_function_attribute)(void*, int, int) = nullptr;
  Result (*function_attribute)(int*, int, void*) = nullptr;
  Result (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**) = nullptr;
  Result (*launch_with)(const LaunchConfig*, void*, void**, void**) = nullptr;  ///< null in older drivers
  Result (*synchronize)() = nullptr;
  Result (*event_create)(void**, unsigned) = nullptr;
  Result (*event_destroy)(void*) = nullptr;
  Result (*event_record)(void*, void*) = nullptr;
  Result (*event_synchronize)(void*) = nullptr;
  Result (*event_elapsed)(float*, void*, void*) = nullptr;
  Result (*error_text)(Result, const char**) = nullptr;
  Result (*encode_tiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                         const uint32_t*, int, int, int, int) = nullptr;
  std::string missing;  ///< why the driver cannot be used; empty when it can
};

const Driver& driver_table() {
  static const Driver table = [] {
    Driver t;
    void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      t.missing = "the CUDA driver (libcuda.so.1) was not found";
      return t;
    }
    auto get = [&](auto& f, const char* symbol) {
      f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(handle, symbol));
      if (f == nullptr && t.missing.empty()) t.missing = fmt::format("the CUDA driver lacks {}", symbol);
    };
    get(t.init, "cuInit");
    get(t.device_get, "cuDeviceGet");
    get(t.device_count, "cuDeviceGetCount");
    get(t.device_name, "cuDeviceGetName");
    get(t.device_attribute, "cuDeviceGetAttribute");
    get(t.total_memory, "cuDeviceTotalMem_v2");
    get(t.retain, "cuDevicePrimaryCtxRetain");
    get(t.set_current, "cuCtxSetCurrent");
    get(t.allocate, "cuMemAlloc_v2");
    get(t.release, "cuMemFree_v2");
    get(t.to_device, "cuMemcpyHtoD_v2");
    get(t.to_host, "cuMemcpyDtoH_v2");
    get(t.set8, "cuMemsetD8_v2");
    get(t.host_allocate, "cuMemHostAlloc");
    get(t.host_release, "cuMemFreeHost");
    get(t.load, "cuModuleLoadData");
    get(t.unload, "cuModuleUnload");
    get(t.function, "cuModuleGetFunction");
    get(t.set_function_attribute, "cuFuncSetAttribute");
    get(t.function_attribute, "cuFuncGetAttribute");
    get(t.launch, "cuLaunchKernel");
    get(t.synchronize, "cuCtxSynchronize");
    get(t.event_create, "cuEventCreate");
    get(t.event_destroy, "cuEventDestroy_v2");
    get(t.event_record, "cuEventRecord");
    get(t.event_synchronize, "cuEventSynchronize");
    get(t.event_elapsed, "cuEventElapsedTime");
    get(t.error_text, "cuGetErrorString");
    get(t.encode_tiled, "cuTensorMapEncodeTiled");
    t.launch_with = reinterpret_cast<decltype(t.launch_with)>(dlsym(handle, "cuLaunchKernelEx"));
    if (!t.missing.empty()) return t;
    constexpr Result no_device = 100;
    int devices = 0;
    const Result started = t.init(0);
    if (started == no_device || (started == 0 && t.device_count(&devices) == 0 && devices == 0)) {
      t.missing = "no CUDA device was found";
    } else if (devices == 0) {
      t.missing = "the CUDA driver does not start";
    }
    return t;
  }();
  return table;
}

const Driver& driver() {
  const Driver& t = driver_table();
  if (!t.missing.empty())
    throw UserError(Span{}, t.missing,
                    "run on a machine with an NVIDIA GPU and its driver, or choose " + advice::target("cpu"));
  return t;
}

void check(Result r, const char* what) {
  if (r == 0) return;
  const char* text = nullptr;
  driver_table().error_text(r, &text);
  const std::string message =
      fmt::format("{}: {} (CUDA error {})", what, text != nullptr ? text : "unknown error", r);
  if (r == 2)
    throw UserError(Span{}, message, "the device is out of memory: choose smaller sizes or free memory");
  throw InternalError(message);
}

// CUdevice_attribute values (CUDA Driver API reference).
constexpr int kAttributeMultiprocessors = 16, kAttributeMajor = 75, kAttributeMinor = 76,
              kAttributeSharedOptin = 97, kAttributeL2 = 38;
// CUlaunchAttributeID value: a kernel may start before those in front of it in the stream have ended; it waits for them itself.
constexpr int kLaunchSerialization = 6;
// CUfunction_attribute values.
constexpr int kFunctionMaxThreads = 0, kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4,
              kFunctionDynamicShared = 8;

}  // namespace

bool available(std::string* why) {
  const Driver& t = driver_table();
  if (why != nullptr) *why = t.missing;
  return t.missing.empty();
}

int device_count() {
  int n = 0;
  check(driver().device_count(&n), "counting devices");
  return n;
}

DeviceInfo device_info(int device) {
  const Driver& t = driver();
  Device d = 0;
  if (device < 0 || device >= device_count())
    throw UserError(Span{}, fmt::format("there is no device {}", device),
                    fmt::format("devices are 0 to {}", device_count() - 1));
  check(t.device_get(&d, device), "opening the device");
  DeviceInfo info;
  char buffer[256] = {};
  check(t.device_name(buffer, sizeof buffer, d), "reading the device's name");
  info.name = buffer;
  auto attribute = [&](int which) {
    int value = 0;
    check(t.device_attribute(&value, which, d), "reading a device attribute");
    return value;
  };
  info.major = attribute(kAttributeMajor);
  info.minor = attribute(kAttributeMinor);
  info.multiprocessors = attribute(kAttributeMultiprocessors);
  info.shared_per_block = attribute(kAttributeSharedOptin);
  info.l2_bytes = attribute(kAttributeL2);
  size_t total = 0;
  check(t.total_memory(&total, d), "reading the device's memory");
  info.memory_bytes = static_cast<int64_t>(total);
  return info;
}

void use_device(int device) {
  const Driver& t = driver();
  static std::mutex mutex;
  static std::vector<Context> contexts;
  std::lock_guard lock(mutex);
  if (device < 0 || device >= device_count())
    throw UserError(Span{}, fmt::format("there is no device {}", device),
                    fmt::format("devices are 0 to {}", device_count() - 1));
  if (contexts.size() <= static_cast<size_t>(device)) contexts.resize(static_cast<size_t>(device) + 1);
  Context& context = contexts[static_cast<size_t>(device)];
  if (context == nullptr) {
    Device d = 0;
    check(t.device_get(&d, device), "opening the device");
    check(t.retain(&context, d), "opening the device's context");
  }
  check(t.set_current(context), "making the device current");
}

SharedWord::SharedWord() {
  constexpr unsigned portable = 1, mapped = 2;  // CU_MEMHOSTALLOC_*
  void* data = nullptr;
  check(driver().host_allocate(&data, sizeof(int64_t), portable | mapped), "allocating host memory");
  data_ = static_cast<int64_t*>(data);
  *data_ = 0;
}

SharedWord::~SharedWord() { driver_table().host_release(data_); }

int64_t SharedWord::take() { return __atomic_exchange_n(data_, 0, __ATOMIC_ACQ_REL); }

DeviceBuffer::DeviceBuffer(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  DevicePointer p = 0;
  check(driver().allocate(&p, static_cast<size_t>(bytes)),
        fmt::format("allocating {} bytes on the device", bytes).c_str());
  data_ = reinterpret_cast<void*>(p);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) driver_table().release(reinterpret_cast<DevicePointer>(data_));
}

void DeviceBuffer::upload(const void* host, int64_t bytes) {
  TW_CHECK(bytes <= bytes_, "upload larger than the buffer");
  if (bytes > 0)
    check(driver().to_device(reinterpret_cast<DevicePointer>(data_), host, static_cast<size_t>(bytes)),
          "copying to the device");
}

void DeviceBuffer::download(void* host, int64_t bytes) const {
  TW_CHECK(bytes <= bytes_, "download larger than the buffer");
  if (bytes > 0)
    check(driver().to_host(host, reinterpret_cast<DevicePointer>(data_), static_cast<size_t>(bytes)),
          "copying from the device");
}

void DeviceBuffer::fill(uint8_t byte) {
  if (bytes_ > 0)
    check(driver().set8(reinterpret_cast<DevicePointer>(data_), byte, static_cast<size_t>(bytes_)),
          "filling device memory");
}

EncodedMap encode_map(void* base, const std::string& dtype_name, const std::vector<MapDimension>& dims,
                      int swizzle_bytes) {
  // CUtensorMapDataType: UINT16 = 1, FLOAT16 = 6, FLOAT32 = 7, BFLOAT16 = 9. CUtensorMapSwizzle: NONE 0, 32B 1, 64B 2, 128B 3.
  int type = 0;
  if (dtype_name == "f16") type = 6;
  if (dtype_name == "f32") type = 7;
  if (dtype_name == "bf16") type = 9;
  TW_CHECK(type != 0, "no tensor map for dtype " + dtype_name);
  const int swizzle = swizzle_bytes == 128 ? 3 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 1 : 0;
  TW_CHECK(!dims.empty() && dims.size() <= 5, "tensor maps have 1 to 5 dimensions");
  uint64_t sizes[5], strides[5];
  uint32_t box[5], element[5];
  std::string shape;
  for (size_t k = 0; k < dims.size(); ++k) {
    sizes[k] = dims[k].size;
    if (k > 0) strides[k - 1] = dims[k].stride_bytes;
    box[k] = dims[k].box;
    element[k] = 1;
    shape += fmt::format("{}{} (stride {} bytes, box {})", k > 0 ? ", " : "", dims[k].size,
                         dims[k].stride_bytes, dims[k].box);
  }
  EncodedMap map;
  // Interleave none; L2 promotion 256 bytes (3); out-of-bounds elements read as zero (0).
  const Result r = driver().encode_tiled(map.words, type, static_cast<unsigned>(dims.size()), base, sizes,
                                         strides, box, element, 0, swizzle, 3, 0);
  if (r != 0)
    throw InternalError(
        fmt::format("the driver refuses a tensor map ({}): base {}, dimensions {}", r, base, shape));
  return map;
}

Module::Module(const std::vector<char>& cubin) {
  check(driver().load(&module_, cubin.data()), "loading a kernel");
}

Module::~Module() {
  if (module_ != nullptr) driver_table().unload(module_);
}

void* Module::function(const std::string& name, int64_t dynamic_shared_bytes) {
  void* f = nullptr;
  check(driver().function(&f, module_, name.c_str()), "finding a kernel");
  if (dynamic_shared_bytes > 48 * 1024)
    check(driver().set_function_attribute(f, kFunctionDynamicShared, static_cast<int>(dynamic_shared_bytes)),
          fmt::format("asking for {} bytes of shared memory", dynamic_shared_bytes).c_str());
  return f;
}

Module::Attributes Module::attributes(void* function) const {
  Attributes a;
  auto get = [&](int which) {
    int value = 0;
    check(driver().function_attribute(&value, which, function), "reading a kernel's attributes");
    return value;
  };
  a.registers = get(kFunctionRegisters);
  a.local_bytes = get(kFunctionLocal);
  a.static_shared = get(kFunctionShared);
  a.max_threads = get(kFunctionMaxThreads);
  return a;
}

void launch(void* function, int64_t blocks, int threads, int64_t dynamic_shared_bytes,
            const std::vector<EncodedMap>& maps, const std::vector<int64_t>& words, void* stream,
            bool early) {
  if (blocks == 0) return;
  if (blocks > 0x7fffffff)
    throw UserError(Span{}, fmt::format("{} blocks in one launch", blocks),
                    "a launch has at most 2147483647 blocks: use larger blocks");
  std::vector<void*> parameters;
  for (const EncodedMap& m : maps) parameters.push_back(const_cast<uint64_t*>(m.words));
  parameters.push_back(const_cast<int64_t*>(words.data()));
  // The legacy stream (null) orders launches with those of other streams, so there a kernel starts after what is in front.
  if (early && driver().launch_with != nullptr && stream != nullptr) {
    LaunchAttribute attribute{};
    attribute.id = kLaunchSerialization;
    attribute.allowed = 1;
    const LaunchConfig config{{static_cast<unsigned>(blocks), 1, 1},
                              {static_cast<unsigned>(threads), 1, 1},
                              static_cast<unsigned>(dynamic_shared_bytes),
                              stream,
                              &attribute,
                              1};
    check(driver().launch_with(&config, function, parameters.data(), nullptr), "launching a kernel");
    return;
  }
  check(driver().launch(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1,
                        static_cast<unsigned>(dynamic_shared_bytes), stream, parameters.data(), nullptr),
        "launching a kernel");
}

void synchronize() { check(driver().synchronize(), "running kernels"); }

Event::Event() { check(driver().event_create(&event_, 0), "creating an event"); }
Event::~Event() {
  if (event_ != nullptr) driver_table().event_destroy(event_);
}
void Event::record(void* stream) { check(driver().event_record(event_, stream), "recording an event"); }
float Event::milliseconds(const Event& begin, const Event& end) {
  check(driver().event_synchronize(end.event_), "waiting for an event");
  float ms = 0;
  check(driver().event_elapsed(&ms, begin.event_, end.event_), "reading an event");
  return ms;
}

}  // namespace tilewright::cuda
