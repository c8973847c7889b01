#include "tilewright/emit/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tilewright/emit/emit.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::cuda_text {
namespace {

constexpr int64_t register_file = 65536;
constexpr int group_threads = 128;  // that set their registers together

bool stores_wide(const Program& p) {
  return std::any_of(p.outputs.begin(), p.outputs.end(),
                     [](const Output& o) { return mantissa_bits(o.dtype) > 10; });
}

}  // namespace

CudaKernel::CudaKernel(const Program& p, const MappedProgram& m, const MappedKernel& k, Helpers& helpers)
    : program_(p), mapped_(m), kernel_(k), helpers_(helpers), stores_wide_(stores_wide(p)) {}

bool CudaKernel::has_buffer(Sym s) const {
  return std::any_of(kernel_.buffers.begin(), kernel_.buffers.end(),
                     [&](const Buffer& b) { return b.sym == s; });
}

bool CudaKernel::packed(const Buffer& b) const {
  if (b.space != Space::Registers || bytes(b.dtype) != 2) return false;
  return std::any_of(b.layout.digits().begin(), b.layout.digits().end(), [](const Digit& d) {
    return d.axis >= 0 && d.to == Digit::To::Offset && d.stride == 1 && d.step == 1 && d.extent % 2 == 0;
  });
}

std::string CudaKernel::element_type(DType t) const {
  switch (t) {
    case DType::f64: return "double";
    case DType::i64: return "long long";
    case DType::i32:
    case DType::i8: return "int";
    case DType::boolean: return "bool";
    default: return "float";
  }
}

std::string CudaKernel::storage_type(DType t) {
  switch (t) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16:
    case DType::bf16: return "unsigned short";
    case DType::f8e4m3:
    case DType::f8e5m2: return "unsigned char";
    case DType::i64: return "long long";
    case DType::i32: return "int";
    case DType::i8: return "signed char";
    case DType::boolean: return "unsigned char";
  }
  TW_CHECK(false, "unknown dtype");
}

std::string CudaKernel::load_value(DType t, const std::string& raw) {
  switch (t) {
    case DType::f16: helpers_.use("tw_f16"); return fmt::format("tw_from_f16({})", raw);
    case DType::bf16: helpers_.use("tw_bf16"); return fmt::format("tw_from_bf16({})", raw);
    case DType::f8e4m3: helpers_.use("tw_f8"); return fmt::format("tw_from_f8e4m3({})", raw);
    case DType::f8e5m2: helpers_.use("tw_f8"); return fmt::format("tw_from_f8e5m2({})", raw);
    case DType::boolean: return fmt::format("({} != 0)", raw);
    case DType::i8: return fmt::format("(int){}", raw);
    default: return raw;
  }
}

std::string CudaKernel::store_value(DType t, const std::string& value) {
  switch (t) {
    case DType::f16: helpers_.use("tw_f16"); return fmt::format("tw_to_f16({})", value);
    case DType::bf16: helpers_.use("tw_bf16"); return fmt::format("tw_to_bf16({})", value);
    case DType::f8e4m3: helpers_.use("tw_f8"); return fmt::format("tw_to_f8e4m3({})", value);
    case DType::f8e5m2:
      throw UserError(Span{}, "kernels for GPUs do not write f8e5m2", "write f16 or f8e4m3");
    case DType::i8: return fmt::format("(signed char)({})", value);
    case DType::boolean: return fmt::format("(unsigned char)(({}) ? 1 : 0)", value);
    default: return value;
  }
}

std::string CudaKernel::size_text(Sym size) {
  for (const Argument& a : kernel_.arguments)
    if (a.kind == Argument::Kind::Size && a.sym == size) return names_.of(size);
  for (const Axis& a : mapped_.axes) {
    if (a.index.size() != size || !a.size) continue;
    if (auto r = simplify(a.size).rational()) return r->str();
    return "(" + constant_int(a.size) + ")";
  }
  TW_CHECK(false, fmt::format("size {} is no argument of kernel {}", size.name(), kernel_.name));
}

std::string CudaKernel::constant_int(Expr e) {
  CudaPrinter p(*this, 32, 32);
  return p.integer(e);
}

std::string CudaKernel::scalar_bool(Expr e) {
  CudaPrinter p(*this, 32, 32);
  return p.boolean(e);
}

void CudaKernel::header(Lines& out) {
  std::string title =
      fmt::format("// {}: {} of", kernel_.name,
                  kernel_.persistent ? "blocks that take turns at each" : "one block for each");
  for (const KernelAxis& a : kernel_.grid)
    title += fmt::format(" {}{}", a.index.name(), a.block > 1 ? fmt::format("/{}", a.block) : "");
  title += kernel_.heaviest_first ? ", the last axis from its end" : "";
  if (kernel_.sectioned)
    title +=
        fmt::format(", blocks of {} for all of the last axis, a section at a time", kernel_.sectioned.name());
  out.line(title);
  for (const Role& r : kernel_.roles)
    out.line(fmt::format("//   {}: {} threads{}", r.name, r.threads,
                         r.registers ? fmt::format(", {} registers each", r.registers) : ""));
  for (const Buffer& b : kernel_.buffers) {
    std::string axes;
    for (size_t a = 0; a < b.axes.size(); ++a) axes += fmt::format("{}{}", a ? ", " : "", b.axes[a].name());
    const char* space = b.space == Space::Local       ? "shared"
                        : b.space == Space::Registers ? "registers"
                                                      : "memory";
    out.line(fmt::format("//   {}[{}] {} {}{}{}", names_.of(b.sym), axes, name(b.dtype), space,
                         b.slots > 1 ? fmt::format(", ring of {}", b.slots) : "",
                         b.comment.empty() ? "" : ": " + b.comment));
  }
  out.open(fmt::format("struct {}_words", kernel_symbol(kernel_)));
  for (const Argument& a : kernel_.arguments)
    out.line(
        fmt::format("{} {};", a.kind == Argument::Kind::Scalar ? "double" : "long long", names_.of(a.sym)));
  out.close("};");
}

void CudaKernel::unpack_words(Lines& out) {
  std::set<Sym> written;
  for (const Role& r : kernel_.roles)
    for_each_op(r.body, [&](const MappedOp& o) {
      if (auto* s = std::get_if<StoreOut>(&o.node)) written.insert(s->tensor);
    });
  for (const Argument& a : kernel_.arguments) {
    const std::string& n = names_.of(a.sym);
    switch (a.kind) {
      case Argument::Kind::Pointer: {
        DType t = DType::f32;
        if (const Input* input = program_.input(a.sym)) t = input->dtype;
        for (const Output& o : program_.outputs)
          if (o.sym == a.sym) t = o.dtype;
        for (const Workspace& w : mapped_.workspaces)
          if (w.sym == a.sym) t = w.dtype;
        const std::string type = (written.count(a.sym) ? "" : "const ") + storage_type(t);
        out.line(fmt::format("{0}* __restrict__ const {1} = ({0}*)words.{1};", type, n));
        break;
      }
      case Argument::Kind::Stride: {
        bool unit = false;
        for (const LayoutGuard& g : mapped_.layout) {
          const int last = int(memory_dims(program_, mapped_, a.tensor).size()) - 1;
          unit = unit || (g.tensor == a.tensor && g.unit_inner && a.dim == last);
        }
        out.line(fmt::format("const long long {} = {};", n, unit ? "1" : "words." + n));
        break;
      }
      case Argument::Kind::Size: out.line(fmt::format("const int {0} = (int)words.{0};", n)); break;
      case Argument::Kind::Error:
        out.line(fmt::format("long long* const {0} = (long long*)words.{0};", n));
        break;
      case Argument::Kind::Scalar:
        out.line(
            fmt::format("const {0} {1} = ({0})words.{1};", a.sym.info().integer ? "long long" : "float", n));
        break;
    }
  }
}

void CudaKernel::count_grid(Lines& out) {
  std::string product;
  for (const KernelAxis& a : kernel_.grid) {
    const std::string size = size_text(a.index.size());
    const std::string n = names_.fresh(names_.of(a.counter) + "s");
    out.line(fmt::format("const int {} = {};", n,
                         a.block == 1 ? size : fmt::format("({} + {}) / {}", size, a.block - 1, a.block)));
    product += (product.empty() ? "" : " * ") + n;
    counts_.push_back(n);
  }
  if (!kernel_.persistent) return;
  elements_ = names_.fresh("elements");
  out.line(fmt::format("const int {} = {};", elements_, product.empty() ? "1" : product));
}

void CudaKernel::decode_grid(const std::string& element, Lines& out) {
  const std::vector<KernelAxis>& grid = kernel_.grid;
  if (grid.empty()) return;
  const size_t n = grid.size();
  size_t cut = 0;
  while (cut < n && !(kernel_.sectioned && grid[cut].index == kernel_.sectioned)) ++cut;
  const auto define = [&](size_t axis, const std::string& value) {
    out.line(fmt::format(
        "const int {} = {};", names_.of(grid[axis].counter),
        kernel_.heaviest_first && axis + 1 == n ? fmt::format("{} - 1 - {}", counts_[axis], value) : value));
  };
  // The last of axes [first, end) varies fastest; the first of all takes what is left.
  const auto unwind = [&](size_t first, size_t end, const std::string& number) {
    for (size_t a = end; a-- > first;) {
      const bool left = first == 0 && a == 0;
      define(a, left ? number : fmt::format("{} % {}", number, counts_[a]));
      if (!left) out.line(fmt::format("{} /= {};", number, counts_[a]));
    }
  };
  const std::string number = names_.fresh("number");
  out.line(fmt::format("int {} = {};", number, element));
  if (cut >= n) return unwind(0, n, number);
  helpers_.use("tw_min");
  std::string beside;
  for (size_t a = cut + 1; a < n; ++a) beside += (beside.empty() ? "" : " * ") + counts_[a];
  const std::string together = names_.fresh("together"), section = names_.fresh("section"),
                    first = names_.fresh("first"), here = names_.fresh("here");
  out.line(fmt::format("const int {} = tw_min({}, {});  // blocks of {} in a section", together,
                       constant_int(kernel_.section), counts_[cut], kernel_.sectioned.name()));
  out.line(fmt::format("const int {} = {} * {};  // elements of a section", section, together, beside));
  std::string outer;
  if (cut > 0) {
    outer = names_.fresh("outer");
    const std::string whole = names_.fresh("whole");
    out.line(fmt::format("const int {} = {} * {};", whole, counts_[cut], beside));
    out.line(fmt::format("int {} = {} / {};", outer, number, whole));
    out.line(fmt::format("{} %= {};", number, whole));
  }
  out.line(fmt::format("const int {} = {} / {} * {};", first, number, section, together));
  out.line(fmt::format("{} -= {} * {};", number, first, beside));
  unwind(cut + 1, n - 1, number);
  out.line(fmt::format("const int {} = tw_min({}, {} - {});", here, together, counts_[cut], first));
  define(cut, fmt::format("{} + {} % {}", first, number, here));
  out.line(fmt::format("{} /= {};", number, here));
  define(n - 1, number);
  if (cut > 0) unwind(0, cut, outer);
}

void CudaKernel::init_signals(Lines& out) {
  if (kernel_.channels.empty()) return;
  helpers_.use("tw_signal");
  out.open("if (threadIdx.x == 0)");
  for (size_t k = 0; k < kernel_.tensor_maps.size(); ++k) {
    helpers_.use("tw_grid");
    out.line(fmt::format("tw_prefetch_map(&map{});", k));
  }
  for (size_t c = 0; c < kernel_.channels.size(); ++c) {
    const Channel& channel = kernel_.channels[c];
    for (int slot = 0; slot < channel.slots; ++slot) {
      const int64_t at = kernel_.signal_offset(int(c)) + 16 * slot;
      out.line(fmt::format("tw_signal_init(local_at + {}, {});  // {}, slot {}: full", at,
                           channel.full_arrivals, channel.name, slot));
      out.line(fmt::format("tw_signal_init(local_at + {}, {});  // empty", at + 8, channel.empty_arrivals));
    }
  }
  out.line("asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");");
  out.close();
  out.line("__syncthreads();");
}

bool CudaKernel::single_thread(const Ops& list) const {
  return std::all_of(list.begin(), list.end(), [&](const MappedOp& o) {
    if (auto* l = std::get_if<MappedLoop>(&o.node)) return single_thread(l->body);
    if (auto* l = std::get_if<Items>(&o.node)) return single_thread(l->body);
    if (auto* i = std::get_if<If>(&o.node)) return single_thread(i->then) && single_thread(i->otherwise);
    return std::holds_alternative<Define>(o.node) || std::holds_alternative<Fetch>(o.node) ||
           std::holds_alternative<Wait>(o.node) || std::holds_alternative<CopyAsync>(o.node);
  });
}

void CudaKernel::declare_registers(const Role&, Lines& out) {
  for (const Buffer& b : kernel_.buffers) {
    if (b.space != Space::Registers || b.role != role_index_) continue;
    const int64_t n = b.layout.elements();
    if (packed(b))
      out.line(fmt::format("unsigned {}[{}];", names_.of(b.sym), n / 2));
    else
      out.line(fmt::format("{} {}[{}];", element_type(b.dtype), names_.of(b.sym), n));
  }
}

void CudaKernel::role(const Role& r, int first_thread, Lines& out) {
  role_ = &r;
  groups_.clear();
  open_group_.clear();
  role_is_one_thread_ = single_thread(r.body);
  if (role_is_one_thread_) {
    out.open(fmt::format("if (threadIdx.x == {})", first_thread));
    ops(r.body, out);
    out.line("tw_grid_release();  // all is read");
    out.close();
    return;
  }
  out.line(first_thread == 0 ? "const int thread = threadIdx.x;"
                             : fmt::format("const int thread = threadIdx.x - {};", first_thread));
  out.line("const int lane = thread & 31;");
  out.line(first_thread == 0 ? "const int warp = warp_of_block;"
                             : fmt::format("const int warp = warp_of_block - {};", first_thread / 32));
  out.line(fmt::format("const int group = warp / {};", std::max(1, r.group / 32)));
  declare_registers(r, out);
  near_.clear();
  Lines body;
  ops(r.body, body);
  if (!near_.empty())
    out.line(
        fmt::format("bool {} = true;  // arguments of hyperbolic tangents lay near 0 the last time", near_));
  out.append(body);
}

std::string CudaKernel::text() {
  Lines out;
  // Names of arguments first, so that they keep their own.
  for (const Argument& a : kernel_.arguments) names_.of(a.sym);
  for (const KernelAxis& a : kernel_.grid) names_.of(a.counter);
  for (const Buffer& b : kernel_.buffers) names_.of(b.sym);
  header(out);
  std::string parameters;
  for (size_t k = 0; k < kernel_.tensor_maps.size(); ++k)
    parameters += fmt::format("const __grid_constant__ TensorMap map{}, ", k);
  parameters += fmt::format("const __grid_constant__ {}_words words", kernel_symbol(kernel_));
  out.line(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 1)", kernel_.threads()));
  out.open(fmt::format("{}({})", kernel_symbol(kernel_), parameters));
  const bool has_local = kernel_.local_bytes() > 0;
  if (has_local) {
    helpers_.use("tw_local_address");
    out.line("extern __shared__ __align__(1024) unsigned char local[];");
    out.line("const unsigned local_at = tw_local_address(local);");
  }
  out.line("const int warp_of_block = __shfl_sync(0xffffffffu, (int)(threadIdx.x >> 5), 0);");
  for (const Role& r : kernel_.roles)
    for_each_op(r.body, [&](const MappedOp& o) {
      if (auto* d = std::get_if<Define>(&o.node); d && d->again) varying_.insert(d->var);
    });
  unpack_words(out);
  count_grid(out);
  if (!kernel_.persistent) decode_grid("blockIdx.x", out);
  init_signals(out);
  helpers_.use("tw_grid");
  out.line("tw_grid_wait();");
  // Roles that share a group of 128 threads stand in one branch, as their registers are set together.
  const std::vector<Role>& roles = kernel_.roles;
  bool branches = false;
  int first = 0;
  for (size_t k = 0; k < roles.size();) {
    size_t end = k;
    int threads = 0;
    do threads += roles[end++].threads;
    while (end < roles.size() && threads % group_threads != 0);
    const std::string condition = fmt::format("if (warp_of_block < {})", (first + threads) / 32);
    if (k == 0 && end < roles.size()) {
      branches = true;
      out.open(condition);
    } else if (k > 0) {
      out.chain(end == roles.size() ? "else" : "else " + condition);
    }
    if (roles[k].registers > 0) {
      const int64_t cap = register_file / kernel_.threads() / 8 * 8;
      out.line(fmt::format("asm volatile(\"setmaxnreg.{}.sync.aligned.u32 {};\");",
                           roles[k].registers > cap ? "inc" : "dec", roles[k].registers));
    }
    for (size_t at = k; at < end; ++at) {
      const std::string own =
          at + 1 == end ? "" : fmt::format("if (warp_of_block < {})", (first + roles[at].threads) / 32);
      if (at == k && !own.empty()) out.open(own);
      if (at > k) out.chain(own.empty() ? "else" : "else " + own);
      out.line(fmt::format("// {}", roles[at].name));
      role_index_ = int(at);
      role(roles[at], first, out);
      first += roles[at].threads;
    }
    if (end - k > 1) out.close();
    k = end;
  }
  if (branches) out.close();
  out.close();
  return out.text();
}

}  // namespace tilewright::cuda_text
