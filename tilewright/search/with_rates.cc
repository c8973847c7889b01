#include <fmt/format.h>

#include "tilewright/search/rank.h"

namespace tilewright {

MachineFile with_rates(const MachineFile& machine) {
  if (machine.gpu || machine.fma_f32) return machine;
  const bool wide = machine.vector_bytes && machine.vector_bytes->value >= 64;
  const MachineFile typical = find_machine(wide ? "typical-avx512" : "typical-avx2");
  MachineFile m = machine;
  const double cores = machine.cores->value;
  for (const auto& [key, text] : typical.sources) m.sources["typical"] = text;
  const auto whole = [&](const MaybeFigure& of_core, double times) {
    return of_core ? MaybeFigure(Figure{of_core->value * times, "typical"}) : MaybeFigure();
  };
  for (MaybeFigure MachineFile::*rate :
       {&MachineFile::fma_f32, &MachineFile::fma_f64, &MachineFile::special, &MachineFile::products,
        &MachineFile::quotients, &MachineFile::tangents, &MachineFile::conversions})
    m.*rate = whole(typical.*rate, cores);
  if (!m.launch) m.launch = whole(typical.launch, 1);
  for (MemoryLevel& level : m.levels)
    for (const MemoryLevel& known : typical.levels) {
      if (known.name != level.name) continue;
      if (!level.bandwidth) {
        level.bandwidth = whole(known.bandwidth, cores);
        level.writes = whole(known.writes, cores);
      }
      if (!level.capacity) level.capacity = whole(known.capacity, 1);
    }
  m.about = fmt::format("not calibrated: the rates are those of {} cores of {}", cores,
                        wide ? "typical-avx512" : "typical-avx2");
  return m;
}

}  // namespace tilewright
