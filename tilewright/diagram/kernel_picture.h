// A kernel of a plan on its way to a diagram: statements become boxes (kernel_boxes.cc), in the order in which they run.
#pragma once
#include <span>

#include "tilewright/diagram/kernel_text.h"
#include "tilewright/tile/lifetime.h"

namespace tilewright {

class KernelPicture {
 public:
  KernelPicture(const Program& p, const Derivation& derivation, const TileProgram& t, size_t kernel,
                const KernelDrawing& drawing);
  Diagram run();

 private:
  // of_kernel.cc: arrays, order, what is known when all boxes stand

  std::string size_text(Sym axis) const;
  DiagramWire wire(Sym axis, bool tile) const;
  int add_array(DiagramArray a, const std::vector<Sym>& axes, bool tile);
  /// A new version of a tile.
  int tile_array(Sym sym);
  int tile(Sym sym) const;
  std::vector<int> tiles(const std::vector<Sym>& symbols) const;
  /// `s`: the statement that the box is; its figures are taken.
  void add_box(DiagramBox b, const Stmt* s = nullptr);
  /// Bytes of the tiles that are live while the statement runs, for the box that is added next.
  void figures(const Stmt& s);
  /// Bytes of a tile that the box which is added next moves to or from memory.
  void count_moved(Sym tile, DType dtype);

  /// `along`: the axis of the loop that holds the statements, or null. Neighbouring statements whose results do not run along it
  /// are one step: what they do to a state is read as text.
  void body(const Body& stmts, Sym along = {});
  bool starts_state(const Stmt& s) const;
  bool joins_step(const Stmt& s, Sym along) const;
  /// A map that the next statement alone reads, one of fewer axes: it is written out in that statement's box.
  bool serves_next(const Stmt& s, const Stmt& next) const;

  /// What the next chunk alone reads ends here.
  void carried();
  void loops();
  void table();

  // kernel_boxes.cc: one statement

  void statement(const Stmt& s, const Load& x);
  void statement(const Stmt& s, const Store& x);
  void statement(const Stmt& s, const Map& x);
  void statement(const Stmt& s, const Dot& x);
  void statement(const Stmt& s, const Reduce& x);
  void statement(const Stmt& s, const Rank& x);
  void statement(const Stmt& s, const Loop& x);
  void statement(const Stmt& s, const When& x);
  /// Several statements in one box.
  void step(std::span<const Stmt> run);
  /// What a statement reads, with what serves it looked through; its lines receive what that is.
  std::vector<Sym> with_served(const std::vector<Sym>& read, std::vector<std::string>& more) const;
  /// The widest array first: its wires run on, others join them.
  std::vector<int> by_width(std::vector<int> arrays) const;
  std::vector<Sym> axes_of(int array) const;
  /// Axes of `domain` over which a condition varies.
  std::vector<Sym> axes_of_condition(Expr condition, const std::vector<Sym>& domain) const;
  /// Is the condition that of a mask which the array has come through?
  bool is_masked(int array, Expr condition) const;
  /// The mask of a statement that is not yet drawn; without one its condition is null.
  MaskOf open_mask(const Reduce& x) const;
  bool has_open_mask(const Dot& x) const;
  /// A box that keeps elements of `array` where the condition holds; others are absent, or `otherwise` (null: absent). Its output is
  /// `result`, or a new version of the array over its axes and those of the condition (-1).
  int mask(int array, Expr condition, Expr otherwise, const std::vector<Sym>& domain, int result = -1,
           const Stmt* s = nullptr);

  const Program& p_;
  const Derivation& derivation_;
  const TileProgram& t_;
  const TileKernel& k_;
  bool last_;
  const KernelDrawing& drawing_;
  KernelText text_;
  Lifetime lifetime_;
  FreshNames names_;
  Diagram d_;

  /// A loop: its boxes.
  struct Frame {
    int stage;
    size_t begin, end;
    std::string label;
  };
  std::map<Sym, int> current_;        ///< the array that a tile is now
  std::map<int, int64_t> moved_;      ///< of boxes: bytes of a block or chunk
  std::map<int, Peak> live_;          ///< of boxes
  std::map<Sym, const Map*> served_;  ///< maps that the statement that comes next alone reads
  struct Applied {
    Expr condition;
    std::vector<Sym> axes;  ///< over which it varies
  };
  std::map<int, std::vector<Applied>> masks_;  ///< of arrays: what they have come through
  std::vector<Frame> frames_;
  bool cut_by_mask_ = false;  ///< some chunks are not tested
  int stage_ = 0;
};

}  // namespace tilewright
